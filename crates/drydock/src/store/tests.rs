use super::*;
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::json;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn draft(name: &str, value: u32) -> Draft {
    Draft::new(
        &json!({"apiVersion": "v1", "kind": "Thing", "data": value, "metadata": {"name": name, "uid": "u"}}),
        Box::default(),
    )
}

fn put(store: &Store, name: &str, value: u32) -> Revision {
    let table = store.table("things");
    let expect = table.get(name).map_or(Expect::Absent, |stored| Expect::At(stored.revision));
    store
        .commit(&table, &name.into(), expect, Write::Put(draft(name, value)), NOW)
        .unwrap()
        .revision
}

fn remove(store: &Store, name: &str) {
    let table = store.table("things");
    if let Some(stored) = table.get(name) {
        let write = Write::Remove(draft(name, 0));
        store.commit(&table, &name.into(), Expect::At(stored.revision), write, NOW).unwrap();
    }
}

#[test]
fn a_stored_object_is_json_with_its_revision_inside() {
    let store = Store::default();
    let revision = put(&store, "a", 1);
    let stored = store.table("things").get("a").unwrap();
    let value: serde_json::Value = serde_json::from_slice(&stored.body).unwrap();
    assert_eq!(
        value,
        json!({"data": 1, "metadata": {"name": "a", "resourceVersion": revision.to_string(), "uid": "u"}})
    );
    assert!(draft("a", 1).same_as(&stored));
    assert!(!draft("a", 2).same_as(&stored));
}

#[test]
fn a_commit_happens_only_when_the_key_is_as_expected() {
    let store = Store::default();
    let revision = put(&store, "a", 1);
    let table = store.table("things");
    let commit =
        |expect| store.commit(&table, &"a".into(), expect, Write::Put(draft("a", 2)), NOW).is_ok();
    assert!(!commit(Expect::Absent));
    assert!(!commit(Expect::At(revision + 1)));
    assert_eq!(store.revision(), revision);
    assert!(commit(Expect::At(revision)));
    assert_eq!(store.revision(), revision + 1);
}

#[test]
fn a_reader_behind_the_window_is_told() {
    let store = Store::new(Memory { events_min: 2, bytes_max: 0, ..Memory::default() });
    let table = store.table("things");
    let mut tail = table.tail(store.revision()).unwrap();
    for value in 0..3 {
        put(&store, "a", value);
    }
    assert_eq!(tail.take(10).unwrap_err(), Gone { oldest: 2 });
    assert!(table.tail(1).is_err());
    assert_eq!(table.tail(2).unwrap().take(10).unwrap().len(), 2);
    assert!(table.page("", "", 1, 10, None).is_err());
}

#[test]
fn the_past_is_forgotten_by_age_and_by_size() {
    let check = |memory: Memory, seconds_apart: i64, want: usize| {
        let store = Store::new(memory);
        let table = store.table("things");
        let mut expect = Expect::Absent;
        for value in 0..10 {
            let at = NOW + SignedDuration::from_secs(seconds_apart * i64::from(value));
            let write = Write::Put(draft("a", value));
            let stored = store.commit(&table, &"a".into(), expect, write, at).unwrap();
            expect = Expect::At(stored.revision);
        }
        let known = (0..=store.revision()).find_map(|revision| table.tail(revision).ok());
        assert_eq!(known.unwrap().take(100).unwrap().len(), want, "{memory:?}");
    };
    let memory =
        Memory { age_max: SignedDuration::from_secs(60), bytes_max: 1 << 20, events_min: 2 };
    check(memory, 1, 10);
    check(memory, 20, 4);
    check(memory, 100, 2);
    check(Memory { bytes_max: 0, ..memory }, 1, 2);
}

proptest! {
    /// A list at any remembered revision, page by page, plus the events since equals the list now.
    #[test]
    fn list_then_watch_equals_list_now(ops in proptest::collection::vec((0..6u8, 0..3u32), 1..60), at in 0..60usize, limit in 1..5usize) {
        let store = Store::default();
        let table = store.table("things");
        let mut seen = Vec::new();
        for (index, (name, value)) in ops.iter().enumerate() {
            let name = format!("n{name}");
            if *value == 0 { remove(&store, &name) } else { put(&store, &name, *value); }
            // Other tables move the revision too.
            let other = store.table("others");
            store.commit(&other, &format!("o{index}").into(), Expect::Absent, Write::Put(draft("o", 1)), NOW).unwrap();
            seen.push((store.revision(), table.list("").0.iter().map(|s| (s.key.clone(), s.revision)).collect::<Vec<_>>()));
        }
        let (revision, then) = &seen[at % seen.len()];
        let mut listed_then = Vec::new();
        loop {
            let after = listed_then.last().map_or("", |stored: &Arc<Stored>| &*stored.key);
            let page = table.page("", after, *revision, limit, None).unwrap();
            let left = then.len() - listed_then.len() - page.objects.len();
            prop_assert_eq!(page.more, left);
            listed_then.extend(page.objects);
            if page.more == 0 { break }
        }
        let listed: Vec<_> = listed_then.iter().map(|s| (s.key.clone(), s.revision)).collect();
        prop_assert_eq!(&listed, then);
        let mut replayed: BTreeMap<_, _> = listed.into_iter().collect();
        let mut last = *revision;
        for event in table.tail(*revision).unwrap().take(usize::MAX).unwrap() {
            prop_assert!(event.revision() > last);
            last = event.revision();
            match event.change {
                Change::Deleted => { replayed.remove(&event.object.key); }
                _ => { replayed.insert(event.object.key.clone(), event.object.revision); }
            }
        }
        let now: BTreeMap<_, _> = table.list("").0.iter().map(|s| (s.key.clone(), s.revision)).collect();
        prop_assert_eq!(replayed, now);
    }
}

#[test]
fn a_table_that_ends_takes_nothing_new() {
    let store = Store::default();
    let revision = put(&store, "a", 1);
    let table = store.table("things");
    table.end();
    let commit = |name: &str, expect, write| {
        store.commit(&table, &name.into(), expect, write, NOW).map(|stored| stored.revision).ok()
    };
    assert_eq!(commit("b", Expect::Absent, Write::Put(draft("b", 1))), None);
    let changed = commit("a", Expect::At(revision), Write::Put(draft("a", 2)));
    assert_eq!(changed, Some(revision + 1));
    // Neither does the table that takes its place.
    let next = store.succeed("things", |_| Box::default());
    assert_eq!(next.gate(), Gate::Ending);
    let gone = Write::Remove(draft("a", 2));
    assert!(store.commit(&next, &"a".into(), Expect::At(revision + 1), gone, NOW).is_ok());
}

#[test]
fn a_table_can_be_succeeded_while_it_is_written() {
    const OBJECTS: usize = 300;
    let store = Store::default();
    let create = |name: &str| {
        let write = || Write::Put(draft(name, 1));
        let table = || store.table("things");
        while store.commit(&table(), &name.into(), Expect::Absent, write(), NOW).is_err() {}
    };
    std::thread::scope(|scope| {
        for writer in ["a", "b"] {
            scope.spawn(move || (0..OBJECTS).for_each(|index| create(&format!("{writer}{index}"))));
        }
        for _ in 0..50 {
            store.succeed("things", |_| Box::default());
        }
    });
    assert_eq!(store.table("things").len(), 2 * OBJECTS);
}

#[test]
fn a_closed_table_takes_nothing_and_its_readers_end() {
    let store = Store::default();
    let start = store.revision();
    let first = put(&store, "a", 1);
    let old = store.table("things");
    let mut tail = old.tail(start).unwrap();
    let new = store.succeed("things", |_| Box::from([Box::from("field")]));
    assert!(!tail.is_over(), "an event has not been returned");
    assert_eq!(tail.take(10).unwrap().len(), 1);
    assert!(tail.is_over());
    let write = |table: &Table| {
        store.commit(table, &"a".into(), Expect::At(first), Write::Put(draft("a", 2)), NOW).is_ok()
    };
    assert!(!write(&old));
    // Its successor has the objects, with other fields and without their past.
    assert_eq!(new.get("a").unwrap().fields, Box::from([Box::from("field")]));
    assert_eq!(new.tail(start).err(), Some(Gone { oldest: first }));
    assert!(write(&new));
    store.retire("things");
    assert_eq!(new.gate(), Gate::Closed);
    assert!(store.table("things").is_empty());
}
