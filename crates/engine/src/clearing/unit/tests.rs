use api::pod_group::GangTerms;

use std::sync::Arc;

use super::*;
use crate::clearing::{Party, Rule};
use crate::fact::{Fact, NodeFact, PodFact};
use crate::gangs::{self, Membership};

/// A node with so many members of a gang that needs so many, and so many more that have no node.
fn ledger(members: usize, min: u32, others: usize) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.keep_gangs(gangs::Settings::default());
    let name = "n".into();
    ledger.apply(Fact::Node(NodeFact { name, pods_allowed: 110, ..NodeFact::default() }));
    let id = GangId::new("default", "g");
    let terms = GangTerms { min_available: Some(min), ..GangTerms::default() };
    ledger.apply(Fact::Gang { id: id.clone(), terms: Some(Box::new(terms)), has_started: false });
    for number in 0..members + others {
        let own =
            Membership { gang: id.clone(), terms: None, created: Moment(0), incarnation: None };
        let name = format!("p{number:05}");
        let mut fact = PodFact::new(&name, "default", &name);
        fact.gang = Some(Arc::new(own));
        fact.node = (number < members).then(|| "n".into());
        ledger.apply(Fact::Pod(Box::new(fact)));
    }
    ledger
}

/// How many units a node has, and how much it took to find out.
fn looked(ledger: &mut Ledger, priority: i32) -> (usize, usize) {
    const MOST: usize = 1_000_000;
    let node = ledger.nodes.find("n").unwrap();
    let (party, rule) = (Party::default(), Rule::Lower { priority, borrower: None });
    let aim = Aim { party: &party, rule: &rule, now: Moment(0) };
    let mut work = Work::of(MOST);
    let units = Unit::on(ledger, node, aim, &mut work).len();
    (units, MOST - work.left())
}

#[test]
fn what_it_takes_to_find_units_is_counted_and_does_not_grow_with_gangs_that_have_enough() {
    assert_eq!(looked(&mut ledger(100, 1, 10_000), 1), (100, 100));
    // As few as it needs: one unit, of which each is looked at once more, whoever is not there.
    assert_eq!(looked(&mut ledger(100, 100, 0), 1), (1, 199));
    assert_eq!(looked(&mut ledger(100, 100, 10_000), 1), (1, 199));
    assert_eq!(looked(&mut ledger(100, 100, 0), 0), (0, 100), "nobody is of lower priority");
}

#[test]
fn a_gang_of_which_one_may_not_go_is_looked_at_once_for_each_node() {
    let mut ledger = ledger(100, 100, 0);
    let Some(row) = ledger.pod(&Uid::new("p00099")).cloned() else { unreachable!() };
    let mut fact = PodFact::new("p00099", "default", "p00099");
    (fact.gang, fact.node, fact.is_spared) = (row.gang, Some("n".into()), true);
    ledger.apply(Fact::Pod(Box::new(fact)));
    assert_eq!(looked(&mut ledger, 1), (0, 199));
}

#[test]
fn who_of_a_gang_has_a_node_is_known_in_thought_as_well() {
    let mut ledger = ledger(3, 2, 1);
    let (gang, node) = (GangId::new("default", "g"), ledger.nodes.find("n").unwrap());
    let names = |ledger: &Ledger| ledger.gangs.placed(&gang).len();
    ledger.speculate(|thought| {
        thought.evict(&Uid::new("p00000")).unwrap();
        assert_eq!(names(thought.ledger()), 2);
        thought.place(&Uid::new("p00003"), node, None).unwrap();
        assert_eq!(names(thought.ledger()), 3);
        thought.bring_back(&Uid::new("p00000")).unwrap();
        assert_eq!(names(thought.ledger()), 4);
    });
    assert_eq!(names(&ledger), 3);
    let mut going = PodFact::new("p00001", "default", "p00001");
    going.gang = ledger.pod(&Uid::new("p00001")).and_then(|row| row.gang.clone());
    (going.node, going.deleting) = (Some("n".into()), true);
    ledger.apply(Fact::Pod(Box::new(going)));
    assert_eq!(names(&ledger), 2);
    ledger.apply(Fact::PodGone(Uid::new("p00002")));
    assert_eq!(names(&ledger), 1);
}
