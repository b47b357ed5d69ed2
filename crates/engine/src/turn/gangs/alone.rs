//! Members that are in the queue by themselves: they are found without a look at all the others of their gang.

use std::collections::BTreeSet;

use api::pod_group::GangId;
use rustc_hash::FxHashMap;

use super::Engine;
use crate::fact::Uid;

/// Members that may be in the queue by themselves: all that are there are among them.
#[derive(Debug, Default)]
pub(super) struct Alone {
    of: FxHashMap<Uid, GangId>,
    by_gang: BTreeSet<(GangId, Uid)>,
}

impl Alone {
    /// Whether there are none.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty() && self.by_gang.is_empty()
    }

    fn insert(&mut self, uid: &Uid, gang: &GangId) {
        self.remove(uid);
        self.of.insert(uid.clone(), gang.clone());
        self.by_gang.insert((gang.clone(), uid.clone()));
    }

    /// A pod is none of them any longer.
    pub(super) fn remove(&mut self, uid: &Uid) {
        if let Some(gang) = self.of.remove(uid) {
            self.by_gang.remove(&(gang, uid.clone()));
        }
    }

    /// Those of a gang.
    pub(super) fn of<'a>(&'a self, gang: &'a GangId) -> impl Iterator<Item = &'a Uid> {
        let first = (gang.clone(), Uid::new(""));
        let all = self.by_gang.range(first..);
        all.take_while(move |(own, _)| own == gang).map(|(_, uid)| uid)
    }
}

impl Engine {
    /// A pod is in the queue by itself.
    pub(in crate::turn) fn note_alone(&mut self, uid: &Uid) {
        if let Some(gang) = self.member_of(uid).cloned() {
            self.gangs.alone.insert(uid, &gang);
        }
    }
}
