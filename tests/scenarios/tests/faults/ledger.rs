//! What a reflector delivered, held against what it promises.

use std::collections::{BTreeMap, BTreeSet};

use api::ObjectMeta;
use chassis::client::{Event, Identity, Object};
use chassis::key::Key;
use chassis::reflector::Delta;
use serde::Deserialize;

/// A config map, as far as it is looked at.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Map {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub data: BTreeMap<String, String>,
}

impl Object for Map {
    fn identity(&self) -> Identity<'_> {
        (&self.metadata).into()
    }
}

/// A change, by what tells it from every other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entry {
    Up { key: Key, uid: String, version: u64 },
    Gone { key: Key, uid: String },
}

impl Entry {
    /// An event of a watch; nothing for a bookmark.
    pub fn of(event: &Event<Map>) -> Option<Self> {
        let (object, is_up) = match event {
            Event::Applied(object) => (object, true),
            Event::Deleted(object) => (object, false),
            _ => return None,
        };
        let (key, uid) = (object.identity().key(), object.metadata.uid.clone());
        if !is_up {
            return Some(Self::Gone { key, uid });
        }
        Some(Self::Up { key, uid, version: object.metadata.resource_version.parse().unwrap() })
    }
}

/// The deltas so far, each checked when it comes.
#[derive(Debug, Default)]
pub struct Ledger {
    pub objects: BTreeMap<Key, Map>,
    /// The deltas since the last list, and before it.
    pub since_list: Vec<Entry>,
    pub first_list: Vec<Entry>,
    pub lists: usize,
    seen: BTreeSet<(Key, String, u64)>,
}

impl Ledger {
    /// Takes a delta, and panics where it breaks a promise.
    pub fn take(&mut self, delta: Delta<Map>) {
        let entry = match delta {
            Delta::Synced => {
                self.lists += 1;
                let told = std::mem::take(&mut self.since_list);
                if self.lists == 1 {
                    self.first_list = told;
                }
                return;
            }
            Delta::Malformed { key, error, .. } => panic!("{key} cannot be read: {error}"),
            Delta::Deleted { key, uid } => {
                let known = self.objects.remove(&key).map(|map| map.metadata.uid);
                assert_eq!(known.as_deref(), Some(&*uid), "{key} is deleted that was not there");
                Entry::Gone { key, uid: uid.into() }
            }
            Delta::Upserted(map) => self.upsert(map),
        };
        self.since_list.push(entry);
    }

    fn upsert(&mut self, map: Map) -> Entry {
        let key = map.identity().key();
        let (uid, version) = (map.metadata.uid.clone(), version_of(&map));
        assert!(self.seen.insert((key.clone(), uid.clone(), version)), "{key} {version} twice");
        if let Some(old) = self.objects.insert(key.clone(), map) {
            assert_eq!(old.metadata.uid, uid, "{key} was replaced and nobody told its end");
            assert!(version_of(&old) < version, "{key} goes back in time");
        }
        Entry::Up { key, uid, version }
    }

    /// Whether what was delivered adds up to this list.
    pub fn equals(&self, list: &[Map]) -> bool {
        self.objects.len() == list.len()
            && list.iter().all(|map| self.objects.get(&map.identity().key()) == Some(map))
    }
}

pub fn version_of(map: &Map) -> u64 {
    map.metadata.resource_version.parse().unwrap()
}
