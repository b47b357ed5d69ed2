//! Objects that go by themselves: an event is kept for an hour after it was last written.
//!
//! Nothing here waits. What is due goes when the next request for a resource comes in, before it
//! is answered, so the time is the one of the environment. Of very much that is due at once, each
//! request lets go a part, so a reader may see what should be gone, and so may who asks for
//! `/metrics` only; kube-apiserver is late, too. Watchers are told as of any other deletion.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;

use crate::UNPOISONED;
use crate::kinds::Kind;
use crate::server::Server;
use crate::store::{Draft, Expect, Revision, Stored, Table, Write};

/// How many objects go before one request is answered.
const PER_REQUEST_MAX: usize = 1024;

/// The tables whose objects go by themselves, in the order of their kinds, and what goes there.
pub(crate) struct Expiries(Vec<(Arc<Table>, Going)>);

impl Expiries {
    /// For every kind whose objects do not stay. Two kinds may share a table.
    pub(crate) fn of<'a>(kinds: impl IntoIterator<Item = &'a Arc<Kind>>) -> Self {
        let mut tables: Vec<(Arc<Table>, Going)> = Vec::new();
        for kind in kinds.into_iter().filter(|kind| kind.strategy.lifetime().is_some()) {
            if !tables.iter().any(|(known, _)| Arc::ptr_eq(known, &kind.table)) {
                tables.push((Arc::clone(&kind.table), Going::default()));
            }
        }
        Self(tables)
    }

    fn going(&self, table: &Arc<Table>) -> Option<&Going> {
        let own = |(known, _): &&(Arc<Table>, Going)| Arc::ptr_eq(known, table);
        self.0.iter().find(own).map(|(_, going)| going)
    }
}

/// Which objects of one table go, and when.
struct Going {
    /// The second at which the first is due; read before every request, so it takes no lock.
    first_due_seconds: AtomicI64,
    clocks: Mutex<Clocks>,
}

/// When each object is due, and who is due first.
#[derive(Default)]
struct Clocks {
    due: BTreeMap<Arc<str>, Due>,
    /// One entry for each object, at a time that is not later than when it is due: what is
    /// written again moves only when its old time has come.
    queue: BTreeSet<(Timestamp, Arc<str>)>,
}

/// When an object goes, unless it is written again.
#[derive(Clone, Copy)]
struct Due {
    at: Timestamp,
    /// What was written then. A newer one is about to get a time of its own, or is kept by a
    /// finalizer.
    revision: Revision,
}

impl Default for Going {
    fn default() -> Self {
        Self { first_due_seconds: AtomicI64::new(i64::MAX), clocks: Mutex::default() }
    }
}

impl Going {
    fn set(&self, key: &Arc<str>, due: Due) {
        let mut clocks = self.clocks.lock().expect(UNPOISONED);
        match clocks.due.get_mut(key) {
            // Of two writers, the first may come last to note it.
            Some(known) if known.revision > due.revision => {}
            Some(known) => *known = due,
            None => {
                clocks.due.insert(Arc::clone(key), due);
                clocks.queue.insert((due.at, Arc::clone(key)));
            }
        }
        self.note_first(&clocks);
    }

    fn note_first(&self, clocks: &Clocks) {
        let first = clocks.queue.first().map_or(i64::MAX, |(due, _)| due.as_second());
        self.first_due_seconds.store(first, Ordering::Release);
    }

    /// Calls `remove` with the key of each object that is due, and the revision it had when that
    /// was noted. None of them gets another time meanwhile.
    fn take_due(&self, now: Timestamp, mut remove: impl FnMut(&Arc<str>, Revision)) {
        if now.as_second() < self.first_due_seconds.load(Ordering::Acquire) {
            return;
        }
        let mut clocks = self.clocks.lock().expect(UNPOISONED);
        for _ in 0..PER_REQUEST_MAX {
            if clocks.queue.first().is_none_or(|(queued, _)| *queued > now) {
                break;
            }
            let Some((_, key)) = clocks.queue.pop_first() else { break };
            match clocks.due.get(&key).copied() {
                Some(due) if due.at > now => {
                    clocks.queue.insert((due.at, key));
                }
                Some(due) => {
                    clocks.due.remove(&key);
                    remove(&key, due.revision);
                }
                None => {}
            }
        }
        self.note_first(&clocks);
    }
}

/// Notes when an object that was written goes, where its kind does not stay.
pub(crate) fn note(server: &Server, kind: &Kind, stored: &Stored) {
    let Some(lifetime) = kind.strategy.lifetime() else { return };
    let Some(going) = server.expiries.going(&kind.table) else { return };
    if let Ok(at) = server.env().now().checked_add(lifetime) {
        going.set(&stored.key, Due { at, revision: stored.revision });
    }
}

/// Lets go what is due.
pub(crate) fn sweep(server: &Server) {
    for (table, going) in &server.expiries.0 {
        let remove = |key: &Arc<str>, revision| remove(server, table, key, revision);
        going.take_due(server.env().now(), remove);
    }
}

fn remove(server: &Server, table: &Table, key: &Arc<str>, revision: Revision) {
    let Some(stored) = table.get(key).filter(|stored| stored.revision == revision) else { return };
    let Ok(value) = serde_json::from_slice(&stored.body) else { return };
    let last = Write::Remove(Draft::new(&value, stored.fields.clone()));
    // Who writes or deletes it at this moment was faster.
    let _ = server.store().commit(table, key, Expect::At(revision), last, server.env().now());
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{Method, Request};
    use jiff::SignedDuration;
    use serde_json::{Value, json};

    use super::*;
    use crate::env::{Env, ManualEnv};
    use crate::request::Identity;
    use crate::store::Change;
    use crate::{Config, Drydock};

    struct Shared(Arc<ManualEnv>);

    impl Env for Shared {
        fn now(&self) -> Timestamp {
            self.0.now()
        }

        fn random(&self) -> u64 {
            self.0.random()
        }
    }

    const EVENTS: &str = "/api/v1/namespaces/default/events";

    async fn send(drydock: &Drydock, method: Method, path: &str, body: &Value) -> u16 {
        let mut request = Request::new(http_body_util::Full::new(Bytes::from(body.to_string())));
        let kind = if method == Method::PATCH { "merge-patch+json" } else { "json" };
        let kind = format!("application/{kind}").parse().unwrap();
        request.headers_mut().insert(http::header::CONTENT_TYPE, kind);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap();
        let identity = Identity { user: "test".to_owned(), groups: Vec::new() };
        request.extensions_mut().insert(identity);
        drydock.answer(request).await.status().as_u16()
    }

    #[tokio::test]
    async fn an_event_goes_an_hour_after_it_was_last_written() {
        let (drydock, at) = server();
        for name in ["a", "b"] {
            assert_eq!(create(&drydock, name).await, 201);
        }
        let (a, b) = (format!("{EVENTS}/a"), format!("{EVENTS}/b"));
        let get = async |path: &str| send(&drydock, Method::GET, path, &Value::Null).await;
        at(30);
        let again = json!({"count": 2});
        assert_eq!(send(&drydock, Method::PATCH, &b, &again).await, 200);
        let table = Arc::clone(&drydock.server.native("", "events").table);
        let mut tail = table.tail(drydock.server.store().revision()).unwrap();
        at(59);
        assert_eq!((get(&a).await, get(&b).await), (200, 200));
        at(60);
        assert_eq!((get(&a).await, get(&b).await), (404, 200));
        at(89);
        assert_eq!((get(&a).await, get(&b).await), (404, 200));
        at(90);
        assert_eq!((get(&a).await, get(&b).await), (404, 404));
        let told = tail.take(10).unwrap();
        let told: Vec<_> = told.iter().map(|event| (event.change, &*event.object.key)).collect();
        assert_eq!(told, [(Change::Deleted, "default/a"), (Change::Deleted, "default/b")]);
    }

    /// A server, and what sets its clock to some minute.
    fn server() -> (Drydock, impl Fn(i64)) {
        let env = Arc::new(ManualEnv::new(Timestamp::UNIX_EPOCH, 1));
        let drydock = Drydock::new(Config::default(), Shared(Arc::clone(&env)));
        let at = move |minutes: i64| {
            env.set(Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes));
        };
        (drydock, at)
    }

    async fn create(drydock: &Drydock, name: &str) -> u16 {
        let involved = json!({"namespace": "default", "kind": "Pod", "name": "p"});
        let event = json!({"metadata": {"name": name}, "involvedObject": involved});
        send(drydock, Method::POST, EVENTS, &event).await
    }

    #[tokio::test]
    async fn an_event_that_was_deleted_and_made_anew_has_its_own_hour() {
        let (drydock, at) = server();
        let a = format!("{EVENTS}/a");
        let ask = async |method: Method| send(&drydock, method, &a, &Value::Null).await;
        assert_eq!(create(&drydock, "a").await, 201);
        at(30);
        assert_eq!(ask(Method::DELETE).await, 200);
        at(40);
        assert_eq!(create(&drydock, "a").await, 201);
        for (minute, code) in [(60, 200), (99, 200), (100, 404), (200, 404)] {
            at(minute);
            assert_eq!(ask(Method::GET).await, code, "at {minute}");
        }
    }

    #[tokio::test]
    async fn a_refused_event_prolongs_no_other() {
        let (drydock, at) = server();
        let a = format!("{EVENTS}/a");
        assert_eq!(create(&drydock, "a").await, 201);
        at(30);
        assert_eq!(create(&drydock, "a").await, 409);
        for (minute, code) in [(59, 200), (60, 404)] {
            at(minute);
            assert_eq!(send(&drydock, Method::GET, &a, &Value::Null).await, code, "at {minute}");
        }
    }

    #[test]
    fn only_what_was_noted_goes() {
        let going = Going::default();
        let at = |minutes: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
        let key: Arc<str> = "default/a".into();
        let taken = |minutes: i64| {
            let mut taken = Vec::new();
            going.take_due(at(minutes), |key, revision| taken.push((key.to_string(), revision)));
            taken
        };
        going.set(&key, Due { at: at(60), revision: 5 });
        going.set(&key, Due { at: at(90), revision: 7 });
        // The first writer notes last.
        going.set(&key, Due { at: at(80), revision: 6 });
        assert!(taken(60).is_empty());
        assert!(taken(89).is_empty());
        assert_eq!(taken(90), [("default/a".to_owned(), 7)]);
        assert!(taken(200).is_empty());
    }

    #[test]
    fn every_table_whose_objects_go_has_its_own_times_once() {
        let (drydock, _) = server();
        let server = &drydock.server;
        let registry = server.registry();
        let short_lived = registry.kinds().filter(|kind| kind.strategy.lifetime().is_some());
        let tables: Vec<_> = short_lived.map(|kind| Arc::clone(&kind.table)).collect();
        // Events are served by two groups, from one table.
        assert_eq!((tables.len(), server.expiries.0.len()), (2, 1));
        assert!(tables.iter().all(|table| server.expiries.going(table).is_some()));
        assert!(server.expiries.going(&server.native("", "pods").table).is_none());
    }

    #[tokio::test]
    async fn what_is_written_when_it_is_due_stays() {
        let (drydock, at) = server();
        assert_eq!(create(&drydock, "a").await, 201);
        at(60);
        let server = &drydock.server;
        let table = Arc::clone(&server.native("", "events").table);
        let key: Arc<str> = "default/a".into();
        let before = table.get(&key).unwrap();
        // It was written, and its new time is not noted yet.
        let value = serde_json::from_slice(&before.body).unwrap();
        let write = Write::Put(Draft::new(&value, before.fields.clone()));
        let expect = Expect::At(before.revision);
        server.store().commit(&table, &key, expect, write, server.env().now()).unwrap();
        sweep(server);
        assert!(table.get(&key).is_some());
    }
}
