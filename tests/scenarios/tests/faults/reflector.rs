//! The reflector against a server that is reached badly: no loss, no repeats, in API order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chassis::client::{Access, ListOptions, ResourceType, WatchOptions};
use chassis::random::Random;
use chassis::reflector::{Delta, Reflector};
use drydock::faults::Faults;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::ledger::{Entry, Ledger, Map};
use crate::world::World;

const SEEDS: u64 = 12;
const WRITES: usize = 150;
const NAMES: u64 = 8;
/// No watch that lasts, and a bad way in between.
const BAD: Faults = Faults {
    delayed: 0,
    lost_before: 60,
    lost_after: 60,
    conflict: 0,
    too_many: 30,
    internal: 50,
    watch_closed: 600,
    watch_stale: 200,
    delay_max: Duration::ZERO,
};
const PATIENCE: Duration = Duration::from_secs(600);

fn config_maps() -> ResourceType {
    ResourceType::namespaced("", "v1", "configmaps")
}

/// Makes, changes or deletes one of a few objects. What it meets there decides.
pub async fn write(maps: &Access<Map>, random: &mut Random) {
    let name = format!("map-{}", random.draw() % NAMES);
    let data = BTreeMap::from([("n".to_owned(), random.draw().to_string())]);
    let present = maps.find(&name).await.unwrap();
    match (present, random.draw() % 3) {
        (None, _) => {
            let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": data,
                               "metadata": { "name": name } });
            maps.create(&body).await.unwrap();
        }
        (Some(_), 0) => maps.delete(&name, &Default::default()).await.unwrap(),
        (Some(_), _) => {
            let patch = chassis::client::Patch::Merge(json!({ "data": data }));
            maps.patch(&name, &patch).await.unwrap();
        }
    }
}

/// Starts a reflector, and returns where its deltas are noted.
pub fn reflect(access: Access<Map>, seed: u64, stop: &CancellationToken) -> Arc<Mutex<Ledger>> {
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let (sink, mut drain) = mpsc::channel(1);
    let noted = ledger.clone();
    let take = move |delta: Delta<Map>| noted.lock().unwrap().take(delta);
    let run = Reflector::new(access).seed(seed).run(sink, take, stop.clone());
    tokio::spawn(async move {
        tokio::join!(run, async { while drain.recv().await.is_some() {} });
    });
    ledger
}

struct Run {
    ledger: Ledger,
    /// Every change that there was, from the beginning, in the server's order.
    history: Vec<Entry>,
}

/// Writes for a while, with faults and then without, until all is delivered.
async fn run(seed: u64, window_events: usize, faults: Faults) -> Run {
    let world = World::new(seed, window_events);
    let maps = world.client().access::<Map>(config_maps(), "default");
    let begin = maps.list(&ListOptions::default()).await.unwrap().resource_version;
    let history = Arc::new(Mutex::new(Vec::new()));
    let mut watch = {
        let options = WatchOptions { resource_version: begin, ..WatchOptions::default() };
        maps.watch(&options).await.unwrap()
    };
    let noted = history.clone();
    let witness = tokio::spawn(async move {
        while let Ok(Some(event)) = watch.next().await {
            noted.lock().unwrap().extend(Entry::of(&event));
        }
    });
    let mut random = Random::new(seed);
    for _ in 0..10 {
        write(&maps, &mut random).await;
    }
    let badly = world.faulty(faults, seed);
    let stop = CancellationToken::new();
    let access = badly.client.access::<Map>(config_maps(), "default");
    let ledger = reflect(access, seed, &stop);
    for _ in 0..WRITES {
        write(&maps, &mut random).await;
        world.pass(Duration::from_millis(random.draw() % 400)).await;
    }
    badly.heal();
    world
        .until("the reflector catches up", PATIENCE, async || {
            let list = maps.list_all(&ListOptions::default()).await.unwrap();
            ledger.lock().unwrap().equals(&list)
        })
        .await;
    stop.cancel();
    witness.abort();
    world.pass(Duration::from_secs(1)).await;
    let ledger = std::mem::take(&mut *ledger.lock().unwrap());
    let history = history.lock().unwrap().clone();
    Run { ledger, history }
}

#[tokio::test(start_paused = true)]
async fn after_faults_and_expired_versions_the_store_equals_the_servers_list() {
    let mut lists = 0;
    for seed in 0..SEEDS {
        let run = run(seed, 8, BAD).await;
        assert!(!run.history.is_empty());
        lists += run.ledger.lists;
    }
    // The point of it: versions did expire.
    assert!(lists > 2 * usize::try_from(SEEDS).unwrap(), "only {lists} lists");
}

#[tokio::test(start_paused = true)]
async fn while_no_version_expires_every_change_is_delivered_once_in_order() {
    for seed in 0..SEEDS {
        let faults = Faults { watch_closed: 800, watch_stale: 0, ..BAD };
        let Run { ledger, history } = run(seed, 10_000, faults).await;
        assert_eq!(ledger.lists, 1, "seed {seed}");
        let cut = history.len().checked_sub(ledger.since_list.len()).unwrap();
        let (before, after) = history.split_at(cut);
        assert!(after.len() > WRITES / 2, "seed {seed}: the faults came too late");
        assert_eq!(ledger.since_list, after, "seed {seed}");
        let mut listed = BTreeMap::new();
        for entry in before {
            match entry {
                Entry::Up { key, .. } => listed.insert(key, entry),
                Entry::Gone { key, .. } => listed.remove(key),
            };
        }
        let listed: Vec<Entry> = listed.into_values().cloned().collect();
        assert_eq!(ledger.first_list, listed, "seed {seed}");
    }
}
