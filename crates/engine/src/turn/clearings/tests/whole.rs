//! Gangs that go whole, and start whole again.

use super::*;

/// A gang of two that goes for another pod; what becomes of new members that come before both of the old ones
/// are seen to go.
fn taken_whole() -> Engine {
    let mut engine = jobs();
    engine.apply(gang("old", 2), START);
    for (name, on_node) in [("o1", "n1"), ("o2", "n2")] {
        engine.apply(node(on_node, 10_000), START);
        engine.apply(on(member(name, "old", 10_000, 1), on_node), START);
    }
    assert!(engine.ledger().gangs.has_started(&GangId::new("default", "old")));
    engine.apply(told(plain("one", 10_000, 9)), START);
    engine
}

/// Decides until nothing is due: who is to be bound where, and for whom others have to go.
pub(super) fn settled(engine: &mut Engine) -> (Vec<String>, Vec<PodRef>) {
    let (mut bound, mut askers) = (Vec::new(), Vec::new());
    for _ in 0..1_000 {
        let Some(Decision { pod, verdict, .. }) = engine.decide(START) else {
            if engine.next_due(START).is_some_and(|due| due <= START) {
                continue;
            }
            break;
        };
        match verdict {
            Verdict::Bind(node, _) => bound.push(format!("{} to {node}", pod.name)),
            Verdict::Wait(waiting) if waiting.room().is_some() => askers.push(pod),
            _ => engine.done(&pod.uid, START),
        }
    }
    (bound, askers)
}

#[test]
fn who_comes_before_all_of_a_gang_that_goes_whole_are_asked_waits_for_the_others() {
    let mut engine = taken_whole();
    let (bound, askers) = settled(&mut engine);
    assert_eq!((bound, askers.len()), (vec![], 1));
    // The first is asked, and its controller is fast; there is room for one more.
    engine.apply(Fact::PodGone(Uid::new("o1")), START);
    engine.apply(node("n3", 10_000), START);
    engine.apply(told(member("new-1", "old", 10_000, 1)), START);
    let (bound, _) = settled(&mut engine);
    assert!(bound.iter().all(|own| !own.starts_with("new-1")), "{bound:?}");
    // The other is asked too, and is seen to go later on.
    engine.done(&askers[0].uid, START);
    assert!(settled(&mut engine).0.iter().all(|own| !own.starts_with("new-1")));
    let leaving = PodFact { deleting: true, giving_way: true, ..member("o2", "old", 10_000, 1) };
    engine.apply(on(leaving, "n2"), START);
    assert!(settled(&mut engine).0.iter().all(|own| !own.starts_with("new-1")));
    engine.apply(Fact::PodGone(Uid::new("o2")), START);
    engine.apply(told(member("new-2", "old", 10_000, 1)), START);
    engine.apply(node("n4", 10_000), START);
    let (bound, _) = settled(&mut engine);
    let new = bound.iter().filter(|own| own.starts_with("new-"));
    assert_eq!(new.count(), 2, "both at once: {bound:?}");
    assert!(engine.leavers.is_empty());
}

#[test]
fn who_could_not_be_asked_to_go_stays_and_new_members_go_by_themselves() {
    let check = |end: fn(&mut Engine, &Uid)| {
        let mut engine = taken_whole();
        let (_, askers) = settled(&mut engine);
        engine.apply(Fact::PodGone(Uid::new("o1")), START);
        engine.apply(told(member("new-1", "old", 10_000, 1)), START);
        assert_eq!(settled(&mut engine).0, Vec::<String>::new());
        end(&mut engine, &askers[0].uid);
        engine.apply(node("n3", 10_000), START);
        engine.apply(node("n4", 10_000), START);
        let mut bound = settled(&mut engine).0;
        bound.retain(|own| own.starts_with("new-1"));
        assert_eq!(bound.len(), 1, "{bound:?}");
        assert!(engine.leavers.is_empty());
    };
    check(|engine, asker| engine.undone(asker, START));
    // The API server knows that it waits no longer, and the watch does not say so yet.
    check(|engine, asker| engine.needless(asker, START));
    // The other one is on no node any longer when it is to be asked.
    check(|engine, asker| {
        engine.spare(asker, &[Uid::new("o2")], START);
        engine.done(asker, START);
    });
    // Whoever they were to go for is gone before any was asked.
    check(|engine, asker| engine.apply(Fact::PodGone(asker.clone()), START));
}

#[test]
fn members_that_are_being_deleted_do_not_count_as_running() {
    for policy in [MatchPolicy::WaitingAndRunning, MatchPolicy::OnlyWaiting] {
        let mut engine = jobs();
        let terms = GangTerms {
            min_available: Some(2),
            match_policy: Some(policy),
            ..GangTerms::default()
        };
        let id = GangId::new("default", "g");
        engine.apply(Fact::Gang { id, terms: Some(Box::new(terms)), has_started: false }, START);
        engine.apply(node("n", 30_000), START);
        for name in ["a", "b"] {
            engine.apply(on(member(name, "g", 10_000, 1), "n"), START);
            let going = PodFact { deleting: true, ..member(name, "g", 10_000, 1) };
            engine.apply(on(going, "n"), START);
        }
        engine.apply(told(member("c", "g", 10_000, 1)), START);
        assert_eq!(settled(&mut engine).0, Vec::<String>::new(), "{policy:?}");
    }
}

#[test]
fn a_gang_that_goes_whole_starts_whole_again_also_where_others_of_its_group_run() {
    let mut engine = jobs();
    let both: BTreeSet<GangId> = ["ps", "old"].map(|name| GangId::new("default", name)).into();
    for (name, min) in [("ps", 1), ("old", 2)] {
        let terms =
            GangTerms { min_available: Some(min), groups: both.clone(), ..GangTerms::default() };
        let id = GangId::new("default", name);
        engine.apply(Fact::Gang { id, terms: Some(Box::new(terms)), has_started: false }, START);
    }
    for (name, of, on_node) in [("p", "ps", "n0"), ("o1", "old", "n1"), ("o2", "old", "n2")] {
        engine.apply(node(on_node, 10_000), START);
        engine.apply(on(member(name, of, 10_000, 1), on_node), START);
    }
    for name in ["o1", "o2"] {
        let going = PodFact { deleting: true, ..member(name, "old", 10_000, 1) };
        engine.apply(on(going, "n1"), START);
        engine.apply(Fact::PodGone(Uid::new(name)), START);
    }
    engine.apply(told(member("new-1", "old", 10_000, 1)), START);
    assert_eq!(settled(&mut engine).0, Vec::<String>::new());
    engine.apply(told(member("new-2", "old", 10_000, 1)), START);
    assert_eq!(settled(&mut engine).0.len(), 2);
}

#[test]
fn while_who_was_asked_is_not_seen_to_go_nobody_else_is_asked() {
    for of in [None, Some("g")] {
        let mut engine = jobs();
        for name in ["n1", "n2"] {
            engine.apply(node(name, 10_000), START);
            engine.apply(on(plain(&format!("{name}-old"), 10_000, 1), name), START);
        }
        engine.apply(gang("g", 1), START);
        let own = of.map_or_else(|| plain("a", 10_000, 9), |of| member("a", of, 10_000, 9));
        engine.apply(told(own), START);
        let (victims, ..) = cleared(&mut engine);
        assert_eq!(victims.len(), 1, "{of:?}");
        // It is tried again before the watch shows that anybody goes.
        engine.apply(node("n1", 10_001), START);
        engine.apply(node("n2", 10_001), START);
        assert_eq!(cleared(&mut engine).0, names(&[]), "{of:?}");
        let victim = victims.first().unwrap();
        engine.apply(Fact::PodGone(Uid::new(victim)), START);
        let bound = settled(&mut engine).0;
        assert_eq!(bound, [format!("a to {}", victim.replace("-old", ""))]);
    }
}

#[test]
fn who_has_no_node_any_longer_need_not_go_from_the_next_one() {
    let mut engine = jobs();
    engine.apply(node("n", 10_000), START);
    engine.apply(told(plain("v", 10_000, 1)), START);
    assert_eq!(settled(&mut engine).0, ["v to n"]);
    engine.apply(told(plain("one", 10_000, 9)), START);
    assert_eq!(settled(&mut engine).1.len(), 1);
    assert!(engine.ledger().pod(&Uid::new("v")).unwrap().goes());
    engine.answered(&Uid::new("v"), Answer::Refused, START);
    engine.done(&Uid::new("one"), START);
    engine.apply(node("other", 10_000), START);
    engine.apply(on(plain("v", 10_000, 1), "other"), START);
    assert!(!engine.ledger().pod(&Uid::new("v")).unwrap().goes());
}

#[test]
fn members_who_follow_others_that_follow_others_are_no_reason_why_room_would_not_help() {
    let mut engine = jobs();
    for name in ["n1", "n2", "n3", "n4"] {
        let Fact::Node(own) = node(name, 10_000) else { unreachable!() };
        let labels = [("zone".into(), "a".into())].into();
        engine.apply(Fact::Node(crate::fact::NodeFact { labels, ..own }), START);
    }
    engine.apply(on(plain("old", 10_000, 1), "n4"), START);
    engine.apply(gang("g", 4), START);
    for (name, near) in [("a", Some("b")), ("b", Some("c")), ("c", Some("d")), ("d", None)] {
        engine.apply(told(following(name, near)), START);
    }
    let (victims, rooms, texts) = cleared(&mut engine);
    assert_eq!((victims, rooms.len()), (names(&["old"]), 4), "{texts:?}");
}

/// A member of the gang g that takes all of a node, near another one.
fn following(name: &str, near: Option<&str>) -> PodFact {
    let near: Vec<serde_json::Value> = near
        .map(|app| {
            let selector = serde_json::json!({ "matchLabels": { "app": app } });
            serde_json::json!({ "topologyKey": "zone", "labelSelector": selector })
        })
        .into_iter()
        .collect();
    let wire = serde_json::json!({
        "metadata": { "name": name, "namespace": "default", "uid": name, "labels": { "app": name } },
        "spec": {
            "schedulerName": DEFAULT_SCHEDULER,
            "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": near } },
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": "10" } } }],
        },
    });
    let wire: api::Pod = serde_json::from_value(wire).unwrap();
    let PodFact { gang, .. } = member(name, "g", 10_000, 9);
    PodFact { gang, priority: 9, ..PodFact::from(&wire) }
}
