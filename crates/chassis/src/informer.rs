//! One watch of a resource, shared by everyone in the process who reads it.
//!
//! An informer fills a store and tells its subscribers of each change, in API order. It
//! runs only when somebody has asked for it. Subscribers do little (they put a key into a
//! queue) and never wait, so that one slow controller cannot hold up the others.
//!
//! An object that can no longer be read has not changed as far as anybody can tell, and is
//! not gone: the store keeps the last state that could be read, subscribers hear nothing,
//! and the log says what is wrong with it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::client::Object;
use crate::key::Key;
use crate::metrics::Metrics;
use crate::reflector::{Delta, Reflector};
use crate::store::{IndexId, Replaced, SharedStore};

/// What happened to one object.
pub struct Change<'a, T> {
    /// Which.
    pub key: &'a Key,
    /// The uid of its state now, or of the object that went.
    pub uid: &'a str,
    /// Its state before; `None` when it is new, or could never be read.
    pub old: Option<&'a Arc<T>>,
    /// Its state now; `None` when it is gone.
    pub new: Option<&'a Arc<T>>,
}

impl<'a, T> Change<'a, T> {
    /// The states before and after, as far as there are.
    pub fn states(&self) -> impl Iterator<Item = &'a Arc<T>> {
        self.old.into_iter().chain(self.new)
    }
}

type Subscriber<T> = Box<dyn Fn(&Change<'_, T>) + Send>;

/// How informers run.
#[derive(Debug, Clone)]
pub struct How {
    /// What spreads the waits after failures.
    pub seed: u64,
    /// Where lists and watches are counted.
    pub metrics: Metrics,
    /// Cancelled when they are to end.
    pub stop: CancellationToken,
}

/// The watch of one resource, before it runs.
pub struct Informer<T> {
    reflector: Reflector<T>,
    store: SharedStore<T>,
    subscribers: Vec<Subscriber<T>>,
    synced: CancellationToken,
    wanted: bool,
}

impl<T: Object + Sync> Informer<T> {
    /// An informer that nobody wants yet.
    #[must_use]
    pub fn new(reflector: Reflector<T>) -> Self {
        let (store, subscribers) = (SharedStore::default(), Vec::new());
        Self { reflector, store, subscribers, synced: CancellationToken::new(), wanted: false }
    }

    /// The objects; asking for them makes the informer wanted. The token that is added to
    /// `synced` is cancelled when the first list is in.
    pub fn store(&mut self, synced: &mut Vec<CancellationToken>) -> SharedStore<T> {
        self.wanted = true;
        synced.push(self.synced.clone());
        self.store.clone()
    }

    /// Cancelled when the first list is in.
    #[must_use]
    pub fn synced(&self) -> CancellationToken {
        self.synced.clone()
    }

    /// Hears of every change, after the store has taken it.
    pub fn subscribe(&mut self, subscriber: impl Fn(&Change<'_, T>) + Send + 'static) {
        self.wanted = true;
        self.subscribers.push(Box::new(subscriber));
    }

    /// Adds an index to the store.
    pub fn add_index(
        &mut self,
        values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) -> IndexId {
        self.store.write().add_index(values)
    }

    /// Watches until `how.stop` is cancelled, or ends at once where nobody wants it.
    pub async fn run(self, how: How) {
        if !self.wanted {
            return;
        }
        let Self { reflector, store, subscribers, synced, .. } = self;
        let resource = reflector.resource().to_string();
        let take = move |delta: Delta<T>| {
            // The guard is let go before anybody is told: subscribers read the store.
            let replaced = store.write().apply(delta);
            match replaced {
                Replaced::Nothing => synced.cancel(),
                Replaced::State { key, uid, old, new } => {
                    let (old, new) = (old.as_ref(), new.as_ref());
                    let change = Change { key: &key, uid: &uid, old, new };
                    subscribers.iter().for_each(|subscriber| subscriber(&change));
                }
                Replaced::Unreadable { key, error } => {
                    tracing::warn!(resource, %key, error, "an object cannot be read");
                }
            }
        };
        reflector.seed(how.seed).metrics(&how.metrics).run_with(take, how.stop).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use serde::Deserialize;

    use super::*;
    use crate::client::{Identity, NameplateMeta, Options, ResourceType};
    use crate::fake::{Reply, Script, Tail, event, list};

    #[derive(Deserialize)]
    struct Counted {
        metadata: NameplateMeta,
        count: u32,
    }

    impl Object for Counted {
        fn identity(&self) -> Identity<'_> {
            let meta = &self.metadata;
            let (namespace, name) = (&meta.namespace, &meta.name);
            Identity { namespace, name, uid: &meta.uid, resource_version: &meta.resource_version }
        }
    }

    fn object(name: &str, version: u64, count: &str) -> String {
        crate::fake::object(name, &format!("uid-{name}"), version)
            .replace("}}", &format!("}},\"count\":{count}}}"))
    }

    fn informer(script: &Script) -> Informer<Counted> {
        let client = script.client(&Options::new("test"));
        let pods = ResourceType::namespaced("", "v1", "pods");
        Informer::new(Reflector::new(client.access(pods, "")))
    }

    fn how() -> How {
        How { seed: 0, metrics: Metrics::new(), stop: CancellationToken::new() }
    }

    #[tokio::test]
    async fn subscribers_hear_of_changes_and_not_of_what_cannot_be_read() {
        let events = [
            event("MODIFIED", &object("a", 12, "2")),
            event("MODIFIED", &object("a", 13, "\"many\"")),
            event("DELETED", &object("b", 14, "\"many\"")),
            event("DELETED", &object("a", 17, "\"many\"")),
        ];
        let script = Script::new([
            list(9, "", &[object("a", 3, "1"), object("b", 4, "\"many\"")]),
            Reply::watch(&events, Tail::Hang),
        ]);
        let mut informer = informer(&script);
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        informer.subscribe(move |change| {
            let count = |state: Option<&Arc<Counted>>| state.map_or(0, |own| own.count);
            let line = format!("{} {} {}", change.uid, count(change.old), count(change.new));
            heard.lock().unwrap().push(line);
        });
        let how = how();
        let running = tokio::spawn(informer.run(how.clone()));
        for _ in 0..1000 {
            if told.lock().unwrap().len() >= 4 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        how.stop.cancel();
        running.await.unwrap();
        let want = ["uid-a 0 1", "uid-a 1 2", "uid-b 0 0", "uid-a 2 0"];
        assert_eq!(*told.lock().unwrap(), want);
    }

    #[tokio::test]
    async fn an_informer_that_nobody_wants_asks_for_nothing() {
        let script = Script::new([]);
        informer(&script).run(how()).await;
        assert!(script.lines().is_empty());
    }
}
