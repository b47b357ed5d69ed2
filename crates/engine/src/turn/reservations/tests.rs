use std::sync::Arc;
use std::time::Duration;

use object::selector::label::Selector;

use crate::fact::{
    Allotment, DEFAULT_SCHEDULER, Fact, OwnerRule, PodFact, ReservationFact, ReservationRef,
    ReservationRules, Uid,
};
use crate::needs::{OwnReservation, ReservationAffinity, ReservationNeeds};
use crate::plugins::reservation::Reservation;
use crate::profile::Profile;
use crate::turn::tests::{START, decided, node, pod, told};
use crate::turn::{Engine, Settings};

fn engine() -> Engine {
    let profiles =
        vec![(DEFAULT_SCHEDULER.into(), Profile::kubernetes().filter(Reservation::default()))];
    Engine::new(Settings::default(), profiles, START)
}

/// A reservation of so much CPU for pods of an app, on a node where one is named.
fn reserves(name: &str, cpu: i64, app: &str, on: Option<&str>) -> Fact {
    let mut own = pod(name, cpu);
    own.node = on.map(Into::into);
    let needs = ReservationNeeds { own: Some(OwnReservation::default()), ..Default::default() };
    own.needs.reservation = Some(needs);
    let labels = Selector::from_pairs([("app", app)]);
    let rules = ReservationRules {
        name: name.into(),
        owners: [OwnerRule { labels: Some(labels), ..OwnerRule::default() }].into(),
        amounts: own.needs.taken.charged.clone(),
        ..ReservationRules::default()
    };
    Fact::Reservation(Box::new(ReservationFact { pod: own, rules: Arc::new(rules) }))
}

fn of_app(name: &str, cpu: i64, app: &str) -> PodFact {
    PodFact { labels: [("app".into(), app.into())].into(), ..pod(name, cpu) }
}

/// A pod that must use a reservation.
fn must(name: &str, cpu: i64, app: &str) -> PodFact {
    let mut own = of_app(name, cpu, app);
    let affinity = Some(ReservationAffinity::default());
    own.needs.reservation = Some(ReservationNeeds { affinity, ..ReservationNeeds::default() });
    own
}

#[test]
fn a_reservation_gets_a_node_as_a_pod_does_and_is_used_when_it_is_there() {
    let mut engine = engine();
    engine.apply(node("a", 4_000), START);
    engine.apply(reserves("r", 3_000, "x", None), START);
    assert_eq!(decided(&mut engine, START), ["r to a, try 1"]);
    // What is not bound yet is nobody's.
    engine.apply(told(must("one", 2_000, "x")), START);
    let told_one = decided(&mut engine, START);
    assert_eq!(told_one.len(), 1);
    assert!(told_one[0].starts_with("one waits"), "{told_one:?}");
    engine.apply(reserves("r", 3_000, "x", Some("a")), START);
    let later = START.after(Duration::from_secs(20));
    assert_eq!(decided(&mut engine, later), ["one to a, try 2"]);
    let row = engine.ledger().pod(&Uid::new("one")).unwrap();
    let own = engine.ledger().asks.allotments.get(row.allotment.unwrap());
    assert_eq!(own.reservation.as_ref().map(|own| &*own.name), Some("r"));
}

#[test]
fn whoever_must_use_a_reservation_wakes_when_there_is_one_with_room_and_not_before() {
    let later = START.after(Duration::from_secs(20));
    let cured = |happens: &dyn Fn(&mut Engine)| {
        let mut engine = engine();
        engine.apply(node("a", 10_000), START);
        engine.apply(reserves("r", 4_000, "x", Some("a")), START);
        let mut owner = of_app("owner", 3_000, "x");
        owner.node = Some("a".into());
        let reservation = Some(ReservationRef { name: "r".into(), uid: Uid::new("r") });
        owner.allotment = Some(Allotment { reservation, ..Allotment::default() });
        engine.apply(told(owner), START);
        engine.apply(told(of_app("large", 6_000, "y")), START);
        assert_eq!(decided(&mut engine, START), ["large to a, try 1"]);
        engine.apply(told(must("one", 2_000, "x")), START);
        let said = decided(&mut engine, START);
        assert!(said.len() == 1 && said[0].starts_with("one waits"), "{said:?}");
        happens(&mut engine);
        let said = decided(&mut engine, later);
        assert!(
            said.iter().all(|said| said.starts_with("one to")),
            "nobody wakes in vain: {said:?}"
        );
        said.first().cloned()
    };
    let apply = |fact: Fact| move |engine: &mut Engine| engine.apply(fact.clone(), START);
    let to_a = Some("one to a, try 2".to_owned());
    assert_eq!(cured(&|_| ()), None);
    assert_eq!(cured(&apply(Fact::PodGone(Uid::new("owner")))), to_a, "who used it goes");
    assert_eq!(cured(&apply(Fact::PodGone(Uid::new("large")))), to_a, "a stranger goes");
    assert_eq!(cured(&apply(node("a", 11_000))), to_a, "its node is larger");
    assert_eq!(
        cured(&apply(reserves("other", 1_000, "z", Some("a")))),
        None,
        "one for others comes"
    );
    assert_eq!(cured(&apply(node("b", 64_000))), None, "a node without any comes");
    let both: &dyn Fn(&mut Engine) = &|engine| {
        engine.apply(node("b", 64_000), START);
        engine.apply(reserves("s", 2_000, "x", Some("b")), START);
    };
    assert_eq!(cured(both), Some("one to b, try 2".to_owned()), "it goes there");
}

#[test]
fn pods_that_wait_hear_of_a_reservation_that_comes() {
    let mut engine = engine();
    engine.apply(node("a", 4_000), START);
    let mut full = of_app("full", 1_000, "y");
    full.node = Some("a".into());
    engine.apply(told(full), START);
    for (name, app) in [("one", "x"), ("two", "y")] {
        engine.apply(told(of_app(name, 4_000, app)), START);
    }
    assert_eq!(decided(&mut engine, START).len(), 2);
    let later = START.after(Duration::from_secs(20));
    // It holds the rest, and more can be used with what is free: one wakes, and still does not fit.
    engine.apply(reserves("r", 3_000, "x", Some("a")), later);
    let said = decided(&mut engine, later);
    assert!(said.len() == 1 && said[0].starts_with("one waits"), "{said:?}");
    engine.apply(Fact::PodGone(Uid::new("full")), later);
    let last = later.after(Duration::from_secs(20));
    let said = decided(&mut engine, last);
    assert!(said.contains(&"one to a, try 3".to_owned()), "{said:?}");
}
