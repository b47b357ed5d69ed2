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
    assert!(table.page("", "", Some(1), 10, None).is_err());
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

/// What a reader has seen: under each key, the revision of its object.
type Seen = BTreeMap<Arc<str>, Revision>;

fn seen(objects: &[Arc<Stored>]) -> Seen {
    objects.iter().map(|stored| (Arc::clone(&stored.key), stored.revision)).collect()
}

/// Lists page by page what there was at a revision, or is now.
fn list_in_pages(table: &Table, at: Option<Revision>, limit: usize) -> (Seen, Revision) {
    let (mut listed, mut at) = (Vec::new(), at);
    loop {
        let after = listed.last().map_or("", |stored: &Arc<Stored>| &*stored.key);
        let page = table.page("", after, at, limit, None).unwrap();
        let revision = *at.get_or_insert(page.revision);
        assert_eq!(page.revision, revision);
        assert!(page.more == 0 || page.objects.len() == limit);
        listed.extend(page.objects);
        if page.more == 0 {
            return (seen(&listed), revision);
        }
    }
}

/// Goes on with everything that a table tells after `from`, and says up to where that is.
fn follow(table: &Arc<Table>, from: Revision, seen: &mut Seen) -> Result<Revision, Gone> {
    let (mut tail, mut last) = (table.tail(from)?, from);
    for event in tail.take(usize::MAX)? {
        assert!(event.revision() > last);
        last = event.revision();
        match event.change {
            Change::Deleted => seen.remove(&event.object.key),
            _ => seen.insert(Arc::clone(&event.object.key), event.object.revision),
        };
    }
    assert!(tail.seen() >= last);
    Ok(tail.seen())
}

proptest! {
    /// What any table that stood here shows, by a list or by a watch, at whatever time it is
    /// asked, plus the events since is the list now, unless those are forgotten.
    #[test]
    fn list_then_watch_equals_list_now(
        ops in proptest::collection::vec((0..6u8, 0..9u32), 1..60),
        at in 0..60usize,
        limit in 1..5usize,
    ) {
        let store = Store::default();
        let mut moments = Vec::new();
        for (index, (name, value)) in ops.iter().enumerate() {
            let name = format!("n{name}");
            match value {
                0 => { store.succeed("things", |_| Box::default()); }
                1..4 => remove(&store, &name),
                _ => { put(&store, &name, *value); }
            }
            // Other tables move the revision too.
            let other = store.table("others");
            store.commit(&other, &format!("o{index}").into(), Expect::Absent, Write::Put(draft("o", 1)), NOW).unwrap();
            let table = store.table("things");
            let (objects, revision) = table.list("");
            prop_assert_eq!(revision, store.revision());
            moments.push((table, revision, seen(&objects)));
        }
        let (table, revision, then) = &moments[at % moments.len()];
        prop_assert_eq!(list_in_pages(table, Some(*revision), limit), (then.clone(), *revision));

        let mut watched = then.clone();
        let watched_until = follow(table, *revision, &mut watched).unwrap();
        let (listed, listed_at) = table.list("");
        let readers = [
            (then.clone(), *revision),
            (watched, watched_until),
            (seen(&listed), listed_at),
            list_in_pages(table, None, limit),
        ];
        let current = store.table("things");
        for (mut seen_so_far, until) in readers {
            if follow(&current, until, &mut seen_so_far).is_ok() {
                prop_assert_eq!(seen_so_far, seen(&current.list("").0));
            } else {
                prop_assert!(!Arc::ptr_eq(table, &current), "a table tells of its own past");
            }
        }
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
    const OBJECTS: u32 = 300;
    const TABLES: usize = 50;
    let store = Store::default();
    // The revision at which each object was stored.
    let stored = Mutex::new(Seen::new());
    let create = |name: &str, value: u32| {
        let (key, write) = (Arc::from(name), || Write::Put(draft(name, value)));
        let commit =
            || store.commit(&store.table("things"), &key, Expect::Absent, write(), NOW).ok();
        let revision = std::iter::repeat_with(commit).flatten().next().unwrap().revision;
        stored.lock().unwrap().insert(key, revision);
    };
    let lists = std::thread::scope(|scope| {
        for writer in ["a", "b"] {
            let create = &create;
            scope.spawn(move || (0..OBJECTS).for_each(|n| create(&format!("{writer}{n}"), n)));
        }
        let lists = scope.spawn(|| {
            let old = |_| (store.table("things"), std::thread::yield_now()).0.list("");
            (0..20 * TABLES).map(old).collect::<Vec<_>>()
        });
        for _ in 0..TABLES {
            store.succeed("things", |_| Box::default());
        }
        lists.join().unwrap()
    });
    let stored = stored.into_inner().unwrap();
    let (objects, _) = store.table("things").list("");
    assert_eq!(seen(&objects), stored);
    for object in &objects {
        let data = object.key[1..].parse().unwrap();
        assert!(draft(&object.key, data).same_as(object), "{object:?}");
    }
    // What was listed meanwhile is all that there was at its revision.
    for (listed, revision) in lists {
        let there: Seen = stored.clone().into_iter().filter(|(_, at)| *at <= revision).collect();
        assert_eq!(seen(&listed), there, "at {revision}");
    }
}

#[test]
fn a_closed_table_claims_nothing_that_its_successor_did() {
    let store = Store::default();
    put(&store, "a", 1);
    let old = store.table("things");
    let mut tail = old.tail(store.revision()).unwrap();
    let closed_at = store.revision();
    let new = store.succeed("things", |_| Box::default());
    put(&store, "b", 1);
    assert_eq!(old.revision(), closed_at);
    assert_eq!(old.list("").1, closed_at);
    assert_eq!(old.page("", "", None, 1, None).unwrap().revision, closed_at);
    assert!(old.page("", "", Some(closed_at + 1), 1, None).is_err());
    assert!(tail.take(10).unwrap().is_empty());
    assert_eq!(tail.seen(), closed_at);
    assert_eq!(new.tail(closed_at).unwrap().take(10).unwrap().len(), 1);
    // Nor does one that no other follows.
    store.retire("things");
    put(&store, "c", 1);
    assert_eq!(new.revision(), closed_at + 1);
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
