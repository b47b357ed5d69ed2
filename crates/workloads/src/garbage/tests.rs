use std::collections::{BTreeMap, BTreeSet};

use api::OwnerReference;
use chassis::key::Key;
use proptest::prelude::*;

use super::graph::{Entry, Found, Graph, Stage, Uid, Verdict};

/// Owners from words such as `a b!`, where `!` blocks the owner's deletion.
fn owners(words: &str) -> Box<[OwnerReference]> {
    let owner = |word: &str| OwnerReference {
        uid: word.trim_end_matches('!').to_owned(),
        block_owner_deletion: Some(word.ends_with('!')),
        ..OwnerReference::default()
    };
    words.split_whitespace().map(owner).collect()
}

fn entry(uid: &str, words: &str, stage: Stage) -> Entry {
    Entry { resource: 0, key: Key::namespaced("shop", uid), owners: owners(words), stage }
}

fn graph(objects: &[(&str, &str, Stage)]) -> Graph {
    let mut graph = Graph::default();
    for (uid, words, stage) in objects {
        graph.observe(uid, entry(uid, words, *stage));
    }
    graph
}

fn uids(list: &[&str]) -> Vec<Uid> {
    list.iter().map(|uid| Uid::from(*uid)).collect()
}

use Stage::{Alive, AwaitsDependents, AwaitsOrphaning, Going};

#[test]
fn the_fate_of_an_object_follows_from_its_owners() {
    let check = |objects: &[(&str, &str, Stage)], found: &[(&str, Found)], want: Verdict| {
        let graph = graph(objects);
        let found: BTreeMap<String, Found> =
            found.iter().map(|(uid, found)| ((*uid).to_owned(), *found)).collect();
        let own = graph.get("x").map(|entry| entry.owners.clone()).unwrap_or_default();
        assert_eq!(graph.judge("x", &own, &found), want, "{objects:?}");
    };
    let (gone, there) = (Found::Gone, Found::There(Alive));
    let drop = |list: &[&str]| Verdict::DropOwners(list.iter().map(|s| (*s).to_owned()).collect());
    check(&[], &[], Verdict::Keep);
    check(&[("x", "", Alive)], &[], Verdict::Keep);
    check(&[("x", "a", Alive), ("a", "", Alive)], &[], Verdict::Keep);
    check(&[("x", "a", Alive)], &[], Verdict::Ask(owners("a").into_vec()));
    check(&[("x", "a", Alive)], &[("a", there)], Verdict::Keep);
    check(&[("x", "a", Alive)], &[("a", gone)], Verdict::Delete);
    check(&[("x", "a b", Alive), ("b", "", Alive)], &[("a", gone)], drop(&["a"]));
    check(&[("x", "a", Going)], &[("a", gone)], Verdict::Keep);
    // An owner that is merely going is still there.
    check(&[("x", "a", Alive), ("a", "", Going)], &[], Verdict::Keep);
    // One that waits takes its dependents along, the leaves in one go.
    check(&[("x", "a", Alive), ("a", "", AwaitsDependents)], &[], Verdict::Delete);
    let tree = [("x", "a", Alive), ("a", "", AwaitsDependents), ("y", "x", Alive)];
    check(&tree, &[], Verdict::DeleteForeground { unblock: false });
    let circle = [("x", "a", Alive), ("a", "x", AwaitsDependents)];
    check(&circle, &[], Verdict::DeleteForeground { unblock: true });
    let two = [("x", "a b", Alive), ("a", "", AwaitsDependents), ("b", "", Alive)];
    check(&two, &[], drop(&["a"]));
}

#[test]
fn an_object_that_waits_goes_when_nothing_blocks_it() {
    let check = |objects: &[(&str, &str, Stage)], want: Verdict| {
        assert_eq!(graph(objects).judge("x", &[], &BTreeMap::new()), want);
    };
    let x = ("x", "", AwaitsDependents);
    check(&[x], Verdict::Finish);
    check(&[x, ("y", "x", Alive)], Verdict::Finish);
    check(&[x, ("y", "x!", Alive), ("z", "x!", Going)], Verdict::LookAt(uids(&["y", "z"])));
    check(&[x, ("y", "x!", AwaitsDependents)], Verdict::LookAt(Vec::new()));
    check(&[("x", "", AwaitsOrphaning), ("y", "x", Alive)], Verdict::SetFree(uids(&["y"])));
}

#[test]
fn an_owner_in_another_namespace_is_none() {
    let mut graph = graph(&[("x", "a", Alive)]);
    let mut owner = entry("a", "", Alive);
    owner.key = Key::namespaced("elsewhere", "a");
    graph.observe("a", owner.clone());
    assert_eq!(graph.judge("x", &owners("a"), &BTreeMap::new()), Verdict::Delete);
    owner.key = Key::cluster("a");
    graph.observe("a", owner);
    assert_eq!(graph.judge("x", &owners("a"), &BTreeMap::new()), Verdict::Keep);
}

#[test]
fn an_object_without_a_namespace_is_never_collected_for_an_owner_in_one() {
    let check = |owner: Option<Key>, words: &str, kinds: &[&str], want: Verdict| {
        let mut graph = Graph::default();
        let known = kinds.iter().map(|kind| (String::new(), (*kind).to_owned()));
        graph.learn_namespaced(known.collect());
        let mut own = owners(words);
        own.iter_mut().for_each(|owner| "Pod".clone_into(&mut owner.kind));
        let key = Key::cluster("x");
        let x = Entry { resource: 0, key, owners: own.clone(), stage: Alive };
        graph.observe("x", x);
        if let Some(key) = owner {
            graph.observe("a", Entry { key, ..entry("a", "", AwaitsDependents) });
        }
        assert_eq!(graph.judge("x", &own, &BTreeMap::new()), want, "{words} {kinds:?}");
        graph.forget("a");
        if want == Verdict::Keep {
            let later = graph.judge("x", &own, &BTreeMap::new());
            assert_eq!(later, Verdict::Keep, "{words} {kinds:?} with its owner gone");
        }
    };
    let pod = || Some(Key::namespaced("shop", "a"));
    check(pod(), "a", &[], Verdict::Keep);
    check(pod(), "a", &["Pod"], Verdict::Keep);
    // The kind decides, whatever object has the uid.
    check(Some(Key::cluster("a")), "a", &["Pod"], Verdict::Keep);
    check(None, "a", &["Pod"], Verdict::Keep);
    check(Some(Key::cluster("a")), "a", &["Lease"], Verdict::Delete);
    // Nothing is done for such an object, even where another owner is gone.
    check(pod(), "a b", &["Pod"], Verdict::Keep);
    let nowhere = BTreeMap::from([("a".to_owned(), Found::Misplaced)]);
    let mut graph = Graph::default();
    graph.observe("x", Entry { key: Key::cluster("x"), ..entry("x", "a", Alive) });
    assert_eq!(graph.judge("x", &owners("a"), &nowhere), Verdict::Keep);
}

#[test]
fn an_owner_that_one_namespace_lacks_may_be_in_another() {
    let mut graph = graph(&[("x", "a", Alive)]);
    graph.note_absent("elsewhere", &owners("a")[0]);
    let ask = Verdict::Ask(owners("a").into_vec());
    assert_eq!(graph.judge("x", &owners("a"), &BTreeMap::new()), ask);
    // Nor does a reference with the same uid and another name say anything of it.
    let mut other = owners("a")[0].clone();
    "other".clone_into(&mut other.name);
    graph.note_absent("shop", &other);
    assert_eq!(graph.judge("x", &owners("a"), &BTreeMap::new()), ask);
    graph.note_absent("shop", &owners("a")[0]);
    assert_eq!(graph.judge("x", &owners("a"), &BTreeMap::new()), Verdict::Delete);
}

#[test]
fn a_change_asks_for_a_look_at_whom_it_concerns() {
    let mut graph = graph(&[("a", "", Alive), ("x", "a!", Alive)]);
    let looks = |looks: Vec<Uid>| looks.into_iter().collect::<BTreeSet<_>>();
    let set = |list: &[&str]| uids(list).into_iter().collect::<BTreeSet<_>>();
    // Nothing new.
    assert_eq!(looks(graph.observe("x", entry("x", "a!", Alive))), set(&[]));
    // The owner begins to wait.
    assert_eq!(looks(graph.observe("a", entry("a", "", AwaitsDependents))), set(&["a", "x"]));
    // The dependent stops blocking, and is then gone.
    assert_eq!(looks(graph.observe("x", entry("x", "a", Alive))), set(&["a", "x"]));
    assert_eq!(looks(graph.forget("x")), set(&["a"]));
    assert_eq!(looks(graph.forget("x")), set(&[]));
    graph.observe("y", entry("y", "a", Alive));
    assert_eq!(looks(graph.forget("a")), set(&["y"]));
    assert_eq!(graph.judge("y", &owners("a"), &BTreeMap::new()), Verdict::Delete);
    // An owner that was never seen, since it could not be read, goes.
    graph.observe("z", entry("z", "b", Alive));
    assert_eq!(looks(graph.forget("b")), set(&["z"]));
}

#[test]
fn what_is_no_longer_watched_is_not_gone() {
    let mut graph = graph(&[("a", "", Alive), ("x", "a", Alive)]);
    graph.drop_resource(7);
    assert_eq!(graph.len(), 2);
    graph.drop_resource(0);
    assert!(graph.is_empty());
    graph.observe("x", entry("x", "a", Alive));
    let verdict = graph.judge("x", &owners("a"), &BTreeMap::new());
    assert_eq!(verdict, Verdict::Ask(owners("a").into_vec()));
}

fn any_objects() -> impl Strategy<Value = Vec<(u8, Vec<u8>, bool)>> {
    let owners = prop::collection::vec(0..12u8, 0..3);
    prop::collection::vec((0..12u8, owners, any::<bool>()), 0..30)
}

proptest! {
    /// With every owner that the graph does not know gone, an object is deleted exactly
    /// when it has owners and none of them is there; after a run to the end nothing is
    /// left that should go, and nothing went that should stay.
    #[test]
    fn only_what_nobody_owns_is_collected(objects in any_objects()) {
        let mut graph = Graph::default();
        let mut model: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (uid, own, there) in objects {
            let uid = uid.to_string();
            if there {
                let own: Vec<String> = own.iter().map(u8::to_string).collect();
                graph.observe(&uid, entry(&uid, &own.join(" "), Alive));
                model.insert(uid, own);
            } else {
                graph.forget(&uid);
                model.remove(&uid);
            }
        }
        for _ in 0..model.len() + 1 {
            for uid in model.keys().cloned().collect::<Vec<_>>() {
                let Some(own) = graph.get(&uid).map(|entry| entry.owners.clone()) else { continue };
                let found: BTreeMap<String, Found> =
                    own.iter().map(|owner| (owner.uid.clone(), Found::Gone)).collect();
                let owners_there =
                    own.iter().filter(|owner| graph.get(&owner.uid).is_some()).count();
                match graph.judge(&uid, &own, &found) {
                    Verdict::Delete => {
                        prop_assert!(!own.is_empty() && owners_there == 0);
                        graph.forget(&uid);
                    }
                    Verdict::Keep => prop_assert!(own.len() == owners_there),
                    Verdict::DropOwners(gone) => prop_assert!(gone.len() < own.len()),
                    other => prop_assert!(false, "{other:?}"),
                }
            }
        }
        // What is left has an owner that is left, or never had one.
        for (uid, own) in &model {
            if graph.get(uid).is_some() && !own.is_empty() {
                prop_assert!(own.iter().any(|owner| graph.get(owner).is_some()));
            }
        }
    }
}
