//! Gangs that have to start before others.

use super::*;

fn naming(own: &[&str]) -> GangTerms {
    GangTerms { groups: groups(own), ..terms(1) }
}

/// What members hear, each of whom is the only one of its gang.
fn heard(engine: &mut Engine, gangs: &[&str]) -> Vec<String> {
    for name in gangs {
        engine.apply(told(member(&format!("{name}1"), name, 1_000)), START);
    }
    let mut words = decided(engine, SOON);
    words.sort_unstable();
    words
}

#[test]
fn gangs_that_wait_for_each_other_in_a_circle_are_invalid_and_say_so() {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    engine.apply(gang("a", naming(&["a", "b"])), START);
    engine.apply(gang("b", naming(&["b", "c"])), START);
    engine.apply(gang("c", naming(&["c", "a"])), START);
    let wrong = |own: &str, gangs: [&str; 3]| {
        let [first, second, third] = gangs.map(|name| format!("default/{name}"));
        format!(
            "{own} waits: gangs {first}, {second}, {third} cannot start: each of them waits for the next one \
             to start, and the last for {first}; name the same gangs in all of them, or take a name out of one"
        )
    };
    let expected = [("a1", ["a", "b", "c"]), ("b1", ["b", "c", "a"]), ("c1", ["c", "a", "b"])];
    let expected = expected.map(|(own, gangs)| wrong(own, gangs));
    assert_eq!(heard(&mut engine, &["a", "b", "c"]), expected);
    // Who only waits for one of them is told what that waits for, and is not wrong himself.
    engine.apply(gang("d", naming(&["d", "a"])), SOON);
    engine.apply(told(member("d1", "d", 1_000)), SOON);
    let late = SOON.after(Duration::from_secs(1));
    assert_eq!(decided(&mut engine, late), ["d1 waits: waiting for gang default/a to start"]);
    engine.apply(gang("c", naming(&["c"])), late);
    for (own, of) in [("c1", "c"), ("b1", "b"), ("a1", "a"), ("d1", "d")] {
        assert_eq!(decided(&mut engine, late), [format!("{own} to n, try 1")]);
        engine.apply(bound(member(own, of, 1_000), "n"), late);
    }
}

#[test]
fn a_circle_is_seen_by_all_who_are_in_it_whoever_closes_or_opens_it() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let next = |at: usize| names[(at + 1) % names.len()];
    for last in 0..names.len() {
        let mut engine = engine();
        let order = (0..names.len()).map(|at| (at + last + 1) % names.len());
        for at in order {
            engine.apply(told(member(&format!("{}1", names[at]), names[at], 1_000)), START);
            engine.apply(gang(names[at], naming(&[names[at], next(at)])), START);
        }
        let is_circle = |engine: &mut Engine| {
            let news = engine.take_gang_news();
            let is_circle = |news: &GangNews| matches!(news, GangNews::Waits(wait) if matches!(**wait, GangWait::Circle { .. }));
            names.map(|name| news.get(&id(name)).is_some_and(is_circle))
        };
        assert_eq!(is_circle(&mut engine), [true; 6], "closed by {last}");
        engine.apply(gang(names[last], naming(&[names[last]])), START);
        assert_eq!(is_circle(&mut engine), [false; 6], "opened by {last}");
        let said = names.map(|name| engine.gangs.groups.contains_key(&id(name)));
        assert_eq!(said, [true; 6]);
    }
}

/// Gangs of another namespace that name one, each with a member, and so many of its own.
fn named_by(strangers: usize, kin: usize) -> Engine {
    let mut engine = engine();
    for name in ["n", "n1", "n2", "n3", "n4"] {
        engine.apply(node(name, 10_000_000), START);
    }
    engine.apply(gang("x", terms(2)), START);
    let others = (0..strangers).map(|number| GangId::new("others", &format!("g{number}")));
    let kin = (0..kin).map(|number| id(&format!("g{number}")));
    for own in others.chain(kin) {
        let terms = GangTerms { groups: [own.clone(), id("x")].into(), ..terms(1) };
        let terms = Some(Box::new(terms));
        engine.apply(Fact::Gang { id: own.clone(), terms, has_started: false }, START);
        let fact = member(own.as_str(), "x", 1_000);
        let membership = Membership { gang: own, ..(**fact.gang.as_ref().unwrap()).clone() };
        let fact = PodFact { gang: Some(Arc::new(membership)), ..fact };
        engine.apply(told(fact), START);
    }
    while engine.next_due(START).is_some_and(|due| due <= START) {
        engine.decide(START);
    }
    engine
}

/// How many groups are looked at for each thing that happens to a gang, and how many in each turn afterwards.
fn looked_at(engine: &mut Engine, facts: Vec<Fact>) -> (Vec<usize>, Vec<usize>) {
    let looked = |engine: &mut Engine, act: &mut dyn FnMut(&mut Engine)| {
        let before = engine.gangs.settled;
        act(engine);
        engine.gangs.settled - before
    };
    let each = facts.into_iter().map(|fact| {
        let mut fact = Some(fact);
        looked(engine, &mut |engine| engine.apply(fact.take().unwrap(), START))
    });
    let each: Vec<usize> = each.collect();
    let mut turns = Vec::new();
    while !engine.gangs_are_settled() {
        turns.push(looked(engine, &mut |engine| drop(engine.decide(START))));
    }
    (each, turns)
}

#[test]
fn what_happens_to_a_gang_costs_no_more_however_many_name_it() {
    let events = || {
        let own = |name: &str| member(name, "x", 1_000);
        vec![
            told(own("a")),
            told(PodFact { priority: 3, ..own("a") }),
            told(PodFact { gates: ["later".into()].into(), ..own("a") }),
            told(own("a")),
            Fact::PodGone(uid("a")),
        ]
    };
    for (strangers, kin) in [(400, 0), (0, 400), (200, 200)] {
        let mut engine = named_by(strangers, kin);
        let (each, turns) = looked_at(&mut engine, events());
        assert!(each.iter().all(|looked| *looked <= 40), "{each:?}");
        assert!(turns.iter().all(|looked| *looked <= 100), "{turns:?}");
        // What it waits for is told to those of its namespace, once for all that happened meanwhile.
        let looked: usize = turns.iter().sum();
        assert!(looked <= 2 * kin, "{looked} of {kin}");
        // All that name it may start when it has.
        let started = ["a", "b"].map(|name| bound(member(name, "x", 1_000), "n"));
        let (each, turns) = looked_at(&mut engine, started.into());
        assert!(each.iter().all(|looked| *looked <= 40), "{each:?}");
        assert!(turns.iter().all(|looked| *looked <= 100), "{turns:?}");
        while engine.next_due(START).is_some_and(|due| due <= START) {
            engine.decide(START);
        }
        assert_eq!(placed(&engine), strangers + kin + 2);
        let (each, turns) = looked_at(&mut engine, vec![told(member("c", "x", 1_000))]);
        assert_eq!((each, turns), (vec![1], vec![]), "nobody sees that");
    }
}
