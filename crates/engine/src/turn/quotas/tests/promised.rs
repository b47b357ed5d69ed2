//! For how long a quota keeps room for somebody.

use object::taint::{Effect, Taint};

use super::*;

const MINUTE: Duration = Duration::from_mins(1);

/// One in which v, which is on node m, is to leave its quota for p, and small could use what is kept for p besides.
fn awaited() -> Engine {
    let mut engine = clearing();
    engine.apply(node("n", 100_000), START);
    engine.apply(node("m", 4_000), START);
    engine.apply(quota("a< 0 6000"), START);
    engine.apply(told(PodFact { node: Some("m".into()), ..member("v", "a", 4_000) }), START);
    engine.apply(told(PodFact { priority: 9, ..member("p", "a", 4_000) }), START);
    assert_eq!(all_decided(&mut engine, START), ["p waits for v to go"]);
    leaving(&mut engine, member("v", "a", 4_000), "m");
    engine.apply(told(member("small", "a", 2_000)), START);
    let words = all_decided(&mut engine, START);
    assert!(words[0].starts_with("small waits, try 1"), "{words:?}");
    engine
}

/// Who gets a node within a minute.
fn placed_soon(engine: &mut Engine, from: Moment) -> Vec<String> {
    let every = Duration::from_secs(10);
    let moments = std::iter::successors(Some(from), |own| Some(own.after(every))).take(7);
    let words = moments.flat_map(|now| all_decided(engine, now)).collect::<Vec<_>>();
    words.into_iter().filter(|own| own.contains(" to n,")).collect()
}

#[test]
fn a_quota_keeps_no_room_while_those_who_have_to_go_cannot_be_seen_to_go() {
    let check = |change: fn(&mut Engine), expected: &[&str]| {
        let mut engine = awaited();
        change(&mut engine);
        let words = placed_soon(&mut engine, START);
        let names: Vec<&str> = words.iter().filter_map(|own| own.split(' ').next()).collect();
        assert_eq!(names, expected);
        ["v", "p", "small"].iter().for_each(|name| engine.apply(gone(name), START));
        assert!(engine.ledger().quotas.is_empty() && engine.lots.promises.is_empty());
    };
    fn tainted(engine: &mut Engine, key: &str, effect: Effect) {
        let (key, effect) = (key.into(), Some(effect));
        let taint = Taint { key, value: String::new(), effect, time_added: None };
        let Fact::Node(mut fact) = node("m", 4_000) else { return };
        fact.taints = [taint].into();
        engine.apply(Fact::Node(fact), START);
    }
    check(|_| (), &[]);
    check(|engine| engine.apply(Fact::NodeGone("m".into()), START), &["small"]);
    check(
        |engine| tainted(engine, "node.kubernetes.io/unreachable", Effect::NoExecute),
        &["small"],
    );
    check(|engine| tainted(engine, "node.kubernetes.io/not-ready", Effect::NoSchedule), &["small"]);
    check(|engine| tainted(engine, "maintenance", Effect::NoSchedule), &[]);
}

#[test]
fn a_quota_keeps_room_for_so_long_and_no_longer() {
    let mut engine = awaited();
    assert_eq!(placed_soon(&mut engine, START.after(MINUTE)), [""; 0]);
    assert_eq!(placed_soon(&mut engine, START.after(MINUTE * 8)), [""; 0]);
    let words = placed_soon(&mut engine, START.after(MINUTE * 11));
    assert_eq!(words, ["small to n, try 2"]);
    // Who is gone at last is forgotten, and who waited for him comes.
    let later = START.after(MINUTE * 13);
    engine.apply(gone("v"), later);
    let words = placed_soon(&mut engine, later);
    assert!(words.len() == 1 && words[0].starts_with("p to n"), "{words:?}");
    for name in ["p", "small"] {
        engine.apply(gone(name), later);
    }
    assert!(engine.lots.promises.is_empty());
}
