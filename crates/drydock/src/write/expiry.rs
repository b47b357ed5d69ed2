//! Objects that go by themselves: an event is kept for an hour after it was last written.
//!
//! Nothing here waits. What is due goes when the next request comes in, before it is answered,
//! so the time is the one of the environment and nobody sees what should be gone. Watchers are
//! told as of any other deletion.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;

use crate::UNPOISONED;
use crate::kinds::Kind;
use crate::server::Server;
use crate::store::{Draft, Expect, Table, Write};

/// How many objects go before one request is answered.
const PER_REQUEST_MAX: usize = 1024;

/// Which objects go, and when.
pub(crate) struct Expiries {
    /// The second at which the first is due; read before every request, so it takes no lock.
    first_due_seconds: AtomicI64,
    clocks: Mutex<Clocks>,
}

/// When each object is due, and who is due first.
#[derive(Default)]
struct Clocks {
    due: BTreeMap<Arc<str>, Timestamp>,
    /// One entry for each object, at a time that is not later than when it is due: what is
    /// written again moves only when its old time has come.
    queue: BTreeSet<(Timestamp, Arc<str>)>,
}

impl Default for Expiries {
    fn default() -> Self {
        Self { first_due_seconds: AtomicI64::new(i64::MAX), clocks: Mutex::default() }
    }
}

impl Expiries {
    fn set(&self, key: &Arc<str>, due: Timestamp) {
        let mut clocks = self.clocks.lock().expect(UNPOISONED);
        if clocks.due.insert(Arc::clone(key), due).is_none() {
            clocks.queue.insert((due, Arc::clone(key)));
        }
        self.note_first(&clocks);
    }

    fn note_first(&self, clocks: &Clocks) {
        let first = clocks.queue.first().map_or(i64::MAX, |(due, _)| due.as_second());
        self.first_due_seconds.store(first, Ordering::Release);
    }

    /// Calls `remove` with the key of each object that is due. None of them gets another time
    /// meanwhile.
    fn take_due(&self, now: Timestamp, mut remove: impl FnMut(&Arc<str>)) {
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
                Some(due) if due > now => {
                    clocks.queue.insert((due, key));
                }
                _ => {
                    clocks.due.remove(&key);
                    remove(&key);
                }
            }
        }
        self.note_first(&clocks);
    }
}

/// Notes when an object that is about to be written goes, where its kind does not stay.
pub(crate) fn note(server: &Server, kind: &Kind, key: &Arc<str>) {
    let Some(lifetime) = kind.strategy.lifetime() else { return };
    if let Ok(due) = server.env().now().checked_add(lifetime) {
        server.expiries.set(key, due);
    }
}

/// Lets go what is due.
pub(crate) fn sweep(server: &Server) {
    server.expiries.take_due(server.env().now(), |key| {
        remove(server, &server.native("", "events").table, key);
    });
}

fn remove(server: &Server, table: &Table, key: &Arc<str>) {
    let Some(stored) = table.get(key) else { return };
    let Ok(value) = serde_json::from_slice(&stored.body) else { return };
    let last = Write::Remove(Draft::new(&value, stored.fields.clone()));
    // Who writes it at this moment waits to note its new time; who deletes it was faster.
    let expect = Expect::At(stored.revision);
    let _ = server.store().commit(table, key, expect, last, server.env().now());
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
        let env = Arc::new(ManualEnv::new(Timestamp::UNIX_EPOCH, 1));
        let drydock = Drydock::new(Config::default(), Shared(Arc::clone(&env)));
        let at = |minutes: i64| {
            env.set(Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes));
        };
        for name in ["a", "b"] {
            let involved = json!({"namespace": "default", "kind": "Pod", "name": "p"});
            let event = json!({"metadata": {"name": name}, "involvedObject": involved});
            assert_eq!(send(&drydock, Method::POST, EVENTS, &event).await, 201);
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

    #[test]
    fn an_event_that_was_deleted_and_made_anew_has_its_own_hour() {
        let expiries = Expiries::default();
        let at = |minutes: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
        let key: Arc<str> = "default/a".into();
        expiries.set(&key, at(60));
        expiries.set(&key, at(90));
        let taken = |minutes: i64| {
            let mut taken = Vec::new();
            expiries.take_due(at(minutes), |key| taken.push(key.to_string()));
            taken
        };
        assert!(taken(60).is_empty());
        assert!(taken(89).is_empty());
        assert_eq!(taken(90), ["default/a"]);
        assert!(taken(200).is_empty());
    }
}
