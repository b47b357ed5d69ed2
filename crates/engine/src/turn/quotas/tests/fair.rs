//! Pods that nobody can help keep nobody else from his turn.

use super::*;

/// To look at all of these takes more than one turn.
const NODES: usize = 300;

/// Nodes, a quota that is full with some pods in it that may have to go, and one that is empty.
fn crowded() -> Engine {
    let mut engine = clearing();
    for number in 0..NODES {
        engine.apply(node(&format!("n{number:03}"), 10_000), START);
    }
    engine.apply(quota("a< 0 4000"), START);
    engine.apply(quota("b< 0 9000"), START);
    let on = |fact: PodFact| told(PodFact { node: Some("n000".into()), ..fact });
    engine.apply(on(PodFact { priority: 9, ..member("keeps", "a", 3_000) }), START);
    for name in ["low", "low-too"] {
        engine.apply(on(member(name, "a", 100)), START);
    }
    engine
}

/// Asks for so much of CPUs and memory.
fn sized(name: &str, (cpu, memory): (i64, i64)) -> PodFact {
    let mut fact = PodFact { priority: 9, ..member(name, "a", cpu) };
    fact.needs.requests.charged.memory_bytes = memory;
    fact.needs.taken = fact.needs.requests.clone();
    fact
}

/// A world in which somebody comes to quota a, and leaves it, again and again.
struct Restless {
    engine: Engine,
    now: Moment,
    turns: u32,
}

impl Restless {
    /// Who is decided about in the next turn.
    fn turn(&mut self) -> Option<Box<str>> {
        self.turns += 1;
        self.now = self.now.after(Duration::from_millis(20));
        let blinks = PodFact { node: Some("n001".into()), ..member("blinks", "a", 100) };
        match self.turns % 16 {
            0 => self.engine.apply(told(blinks), self.now),
            8 => self.engine.apply(gone("blinks"), self.now),
            _ => {}
        }
        let decision = self.engine.decide(self.now)?;
        self.engine.done(&decision.pod.uid, self.now);
        Some(decision.pod.name)
    }
}

#[test]
fn however_many_pods_of_a_quota_nobody_can_help_those_of_others_are_decided_soon() {
    let stuck = 1_000;
    let check = |size: fn(i64) -> (i64, i64)| {
        let mut world = Restless { engine: crowded(), now: START, turns: 0 };
        for number in 0..stuck {
            let own = sized(&format!("stuck-{number:04}"), size(number));
            world.engine.apply(told(own), START);
        }
        let mut decided = 0;
        while decided < stuck {
            decided += i64::from(world.turn().is_some());
            assert!(world.turns < 4_000, "{decided} are decided");
        }
        (0..200).for_each(|_| drop(world.turn()));
        for number in 0..9 {
            let name = format!("b{number}");
            world.engine.apply(told(member(&name, "b", 100)), world.now);
            let before: Vec<Option<Box<str>>> = (0..64).map(|_| world.turn()).collect();
            let turns = before.iter().position(|own| own.as_deref() == Some(&*name));
            let turns = turns.unwrap_or_else(|| panic!("{name} is not decided: {before:?}"));
            assert!(before[..turns].iter().flatten().count() <= 3, "{before:?}");
        }
    };
    // Each asks for more than the one before, or for more of one and less of another; and so do groups of them.
    check(|number| (2_000 + number, 0));
    check(|number| (2_000 + number, 5_000 - number));
    check(|number| (2_000 + number / 20, 5_000 - number / 20));
}

#[test]
fn who_asks_for_more_than_one_whom_nobody_can_help_is_not_looked_for() {
    let check = |change: fn(&mut PodFact), is_known: bool| {
        let mut engine = crowded();
        engine.apply(told(sized("one", (2_000, 5))), START);
        assert!(engine.decide(START).is_none(), "it is looked for in several turns");
        assert_eq!(all_decided(&mut engine, START).len(), 1);
        let mut other = sized("other", (2_100, 5));
        change(&mut other);
        engine.apply(told(other), START);
        let text = engine.decide(START).map(|decision| match decision.verdict {
            Verdict::Wait(waiting) => waiting.last_resorts.text.clone(),
            other => panic!("{other:?}"),
        });
        let expected = "preemption: preemption not helpful in quota a";
        assert_eq!(text.as_deref(), is_known.then_some(expected));
    };
    check(|_| (), true);
    check(|own| own.priority = 5, true);
    // Of others nothing is known.
    check(|own| own.priority = 10, false);
    check(|own| *own = sized("other", (1_900, 5)), false);
    check(|own| *own = sized("other", (2_100, 4)), false);
    check(|own| own.namespace = "x".into(), false);
    check(|own| _ = own.needs.node_affinity.labels.insert("zone".into(), "x".into()), false);
}

#[test]
fn what_is_known_of_less_is_forgotten_when_others_come_or_go() {
    let check = |change: &dyn Fn(&mut Engine), is_known: bool| {
        let mut engine = crowded();
        engine.apply(told(sized("one", (2_000, 0))), START);
        assert_eq!(all_decided(&mut engine, START).len(), 1);
        change(&mut engine);
        engine.apply(told(sized("other", (2_100, 0))), START);
        let is_told = (0..2).any(|_| {
            let decision = engine.decide(START);
            decision.is_some_and(|own| own.pod.uid == Uid::new("other"))
        });
        assert_eq!(is_told, is_known);
    };
    check(&|_| (), true);
    let joins = |of: &str| told(PodFact { node: Some("n001".into()), ..member("more", of, 100) });
    check(&|engine| engine.apply(joins("b"), START), true);
    check(&|engine| engine.apply(joins("a"), START), false);
    check(&|engine| engine.apply(gone("low"), START), false);
    check(&|engine| engine.apply(quota("a< 0 4050"), START), false);
}

#[test]
fn who_comes_while_it_is_looked_for_others_is_looked_for_afterwards() {
    // They are charged alike, and no node would be good for two of them.
    let zones = 9;
    let mut engine = crowded();
    for number in 0..zones {
        let mut own = sized(&format!("p{number}"), (2_000, 0));
        own.needs.node_affinity.labels.insert("zone".into(), number.to_string().into());
        engine.apply(told(own), START);
    }
    let mut told: BTreeMap<Box<str>, String> = BTreeMap::new();
    for turn in 0..400 {
        let now = START.after(Duration::from_millis(20 * turn));
        let Some(Decision { pod, verdict, .. }) = engine.decide(now) else { continue };
        engine.done(&pod.uid, now);
        let Verdict::Wait(waiting) = verdict else { panic!("{} gets a node", pod.name) };
        told.insert(pod.name, waiting.last_resorts.text.clone());
    }
    assert_eq!(told.len(), zones);
    assert!(told.values().all(|text| text.ends_with("helpful in quota a")), "{told:?}");
}
