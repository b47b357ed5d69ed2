//! The loop against a scripted server.

use std::sync::Mutex;

use jiff::Timestamp;

use super::*;
use crate::client::{Nameplate, Options, ResourceType};
use crate::clock::Hand;
use crate::fake::{Reply, Script, Tail, event, list, object};
use crate::shutdown::Shutdown;

type Log = Arc<Mutex<Vec<String>>>;

async fn until(hand: &Hand, log: &Log, done: impl Fn(&[String]) -> bool) {
    for _ in 0..20_000 {
        if done(&log.lock().unwrap()) {
            return;
        }
        tokio::task::yield_now().await;
        if let Some(due) = hand.next_due()
            && due <= Duration::from_secs(30)
        {
            hand.advance(due);
        }
    }
    panic!("only {:?}", log.lock().unwrap());
}

#[tokio::test]
async fn keys_are_reconciled_after_sync_again_after_failure_and_on_change() {
    let script = Script::new([
        list(9, "", &[object("a", "u1", 3), object("b", "u2", 4)]),
        Reply::watch(&[event("DELETED", &object("b", "u2", 12))], Tail::Hang),
    ]);
    let (clock, hand) = Clock::manual(Timestamp::UNIX_EPOCH);
    let client = script.client(&Options { clock: clock.clone(), ..Options::new("test") });
    let pods = client.access::<Nameplate>(ResourceType::namespaced("", "v1", "pods"), "");
    let store = SharedStore::default();
    let log = Log::default();
    let shutdown = Shutdown::new();
    let reconcile = {
        let (log, store) = (log.clone(), store.clone());
        move |key: Key| {
            let found = store.get(&key).is_some();
            let line = format!("{} {found}", key.name());
            let mut log = log.lock().unwrap();
            let first = !log.contains(&line);
            log.push(line);
            let outcome = match (key.name(), found, first) {
                ("a", _, true) => Err("not yet"),
                ("a", _, false) => Ok(Requeue::After(Duration::from_secs(20))),
                _ => Ok(Requeue::OnChange),
            };
            async move { outcome }
        }
    };
    let controller =
        Controller::new("test", &clock)
            .workers(1)
            .watch(Reflector::new(pods), &store, |pod| vec![pod.identity().key()]);
    shutdown.spawn("controller", controller.run(shutdown.token(), reconcile));
    // `a` fails, is tried again, and asks to be looked at once more; `b` goes away.
    let times = |log: &[String], line: &str| log.iter().filter(|seen| *seen == line).count();
    until(&hand, &log, |log| times(log, "a true") >= 3 && times(log, "b false") >= 1).await;
    assert!(clock.monotonic() >= Duration::from_secs(20));
    shutdown.begin();
    assert_eq!(shutdown.join(&Clock::system(), Duration::from_secs(5)).await, Ok(()));
}

#[tokio::test]
async fn nothing_is_reconciled_before_every_watch_has_listed() {
    let script = Script::new([list(9, "more", &[object("a", "u1", 3)])]);
    let (clock, hand) = Clock::manual(Timestamp::UNIX_EPOCH);
    let client = script.client(&Options { clock: clock.clone(), ..Options::new("test") });
    let pods = client.access::<Nameplate>(ResourceType::namespaced("", "v1", "pods"), "");
    let (store, log) = (SharedStore::default(), Log::default());
    let shutdown = Shutdown::new();
    let told = log.clone();
    let controller = Controller::new("test", &clock)
        .watch(Reflector::new(pods), &store, |pod| vec![pod.identity().key()])
        .run(shutdown.token(), move |key| {
            told.lock().unwrap().push(key.to_string());
            async { Ok::<_, String>(Requeue::OnChange) }
        });
    shutdown.spawn("controller", controller);
    while script.lines().len() < 2 {
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(store.get(&Key::namespaced("shop", "a")).is_some());
    assert_eq!(*log.lock().unwrap(), Vec::<String>::new());
    drop(hand);
    shutdown.begin();
    assert_eq!(shutdown.join(&Clock::system(), Duration::from_secs(5)).await, Ok(()));
}

#[tokio::test]
async fn a_panic_in_a_reconciliation_ends_the_process() {
    let script = Script::new([list(9, "", &[object("a", "u1", 3)]), Reply::watch(&[], Tail::Hang)]);
    let client = script.client(&Options::new("test"));
    let pods = client.access::<Nameplate>(ResourceType::namespaced("", "v1", "pods"), "");
    let shutdown = Shutdown::new();
    let controller = Controller::new("test", client.clock())
        .watch(Reflector::new(pods), &SharedStore::default(), |pod| vec![pod.identity().key()])
        .run(shutdown.token(), |key| async move {
            assert!(key.name() != "a", "cannot be");
            Ok::<_, String>(Requeue::OnChange)
        });
    shutdown.spawn("controller", controller);
    let error = shutdown.join(&Clock::system(), Duration::from_secs(5)).await.unwrap_err();
    assert!(error.to_string().starts_with("task controller panicked: cannot be"), "{error}");
}
