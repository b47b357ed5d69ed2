//! What holds of speculation, nominations and preemption after any facts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::CpuSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::reservations::{RESERVATIONS, reservation};
use super::{Step, decider, labels, loadless, needs, node, play, pod, seen, step, uid};
use crate::decide::Decider;
use crate::fact::{Budget, Fact, ReservationPolicy, Uid};
use crate::judge::Trial;
use crate::ledger::{Ask, Ledger, NodeIndex, Passing, PodRow, Tally};
use crate::moment::Moment;
use crate::needs::{Amounts, Needs, NodeAffinity, PodAffinity, Spread, Volume, Volumes};
use crate::preemption::{Candidate, Outcome, Settings};
use crate::reason::{Reason, VolumeReason};
use crate::reservations::{Place, Within};
use object::selector::label::Selector;

pub(crate) const NOW: Moment = Moment(100);
const PODS: u8 = 20;
const GPU: &str = "example.com/gpu";

/// A disruption budget that is there, or is gone.
pub(super) fn budget() -> impl Strategy<Value = Fact> {
    let pods = select(vec![
        Selector::everything(),
        Selector::nothing(),
        Selector::from_pairs([("disk", "a")]),
        Selector::from_pairs([("size", "7")]),
    ]);
    let going = select(vec![BTreeSet::new(), BTreeSet::from(["pod-3".into()])]);
    let budget =
        (pods, -1..3_i32, going).prop_map(|(pods, allowed, going)| Budget { pods, allowed, going });
    let namespace = select(vec!["default", "other"]).prop_map(Into::into);
    (namespace, proptest::option::weighted(0.8, budget))
        .prop_map(|(namespace, budget)| Fact::Budget { namespace, name: "few".into(), budget })
}

/// Few nodes with many pods, of which those that wait are of higher priority than most: room is
/// all that decides.
pub(crate) fn crowded() -> impl Strategy<Value = Vec<Step>> {
    let nodes = vec(node(), 4).prop_map(|mut nodes| {
        for (index, node) in nodes.iter_mut().enumerate() {
            node.name = format!("node-{index}").into();
            node.taints = Arc::default();
            node.unschedulable = false;
            node.pods_allowed = 4;
            node.allocatable = Amounts {
                cpu_millis: 2000,
                memory_bytes: 30 << 20,
                storage_bytes: 12,
                scalars: vec![("example.com/gpu".into(), 3)],
            };
        }
        nodes
    });
    let pods = vec((pod(), 0..PODS), 10..40).prop_map(|mut pods| {
        for (pod, number) in &mut pods {
            let waits = *number % 5 == 0;
            pod.uid = uid(*number);
            pod.name = format!("pod-{number}").into();
            pod.node = (!waits).then(|| format!("node-{}", *number % 4).into());
            pod.priority = if waits { 2 } else { pod.priority };
            pod.needs.node_affinity = NodeAffinity::default();
            if *number % 3 != 0 {
                pod.needs.volumes = Volumes::default();
                pod.needs.spread = Spread::default();
                pod.needs.pod_affinity = PodAffinity::default();
            }
        }
        pods
    });
    let held = vec(reservation(), 0..4).prop_map(|mut held| {
        for (index, fact) in held.iter_mut().enumerate() {
            let Fact::Reservation(own) = fact else { continue };
            own.pod.needs.node_affinity = NodeAffinity::default();
            own.pod.node = own.pod.node.take().map(|_| format!("node-{}", index % 4).into());
        }
        held
    });
    (nodes, held, pods, vec(budget(), 0..4)).prop_map(|(nodes, held, pods, budgets)| {
        let nodes = nodes.into_iter().map(Fact::Node);
        let pods = pods.into_iter().map(|(pod, _)| Fact::Pod(Box::new(pod)));
        nodes.chain(held).chain(pods).chain(budgets).map(Step::Fact).collect()
    })
}

fn sorted(pods: &Tally) -> Vec<(usize, u32, u32)> {
    let entries = pods.entries().iter();
    let mut told: Vec<_> =
        entries.map(|entry| (entry.node.get(), entry.all, entry.staying)).collect();
    told.sort_unstable();
    told
}

/// Everything that is kept of nodes and pods, without the order in which it is kept.
pub(crate) fn told(ledger: &Ledger) -> Vec<String> {
    let mut told = Vec::new();
    let nodes = &ledger.nodes;
    for place in 0..nodes.places() {
        let node = NodeIndex::at(place);
        let mut ports = nodes.ports(node).to_vec();
        ports.sort_unstable();
        let mut volumes: Vec<usize> = ledger.storage.pods_on(node).map(|id| id.get()).collect();
        volumes.sort_unstable();
        let resources = &nodes.resources;
        let gpu = resources.find("example.com/gpu").map(|at| resources.scalar(at).requested[place]);
        let taken = [
            nodes.pods[place],
            resources.cpu.requested[place],
            resources.memory.requested[place],
            resources.storage.requested[place],
            resources.cpu_scored[place],
            resources.memory_scored[place],
            gpu.unwrap_or(0),
        ];
        let most = ledger.storage.most_on(node, nodes.name(node));
        let residents = ledger.residents.on(node);
        told.push(format!(
            "{} {:?} {taken:?} {ports:?} {volumes:?} {most} {residents:?}",
            nodes.name(node),
            nodes.id(node),
        ));
    }
    for row in (0..RESERVATIONS.end).filter_map(|number| ledger.pod(&uid(number))) {
        let uses = row.allotment.map(|id| ledger.asks.allotments.get(id));
        let own = (row.node(), row.is_bound(), uses, &row.adoption);
        told.push(format!("{} {own:?}", row.name));
        for crowd in ledger.terms.crowds.of(row.ask.identity) {
            let own = ledger.terms.crowds.get(*crowd);
            let mut wanting: Vec<String> = own
                .wanted_by
                .iter()
                .map(|one| format!("{:?} {:?} {:?}", one.want, one.topology, sorted(&one.pods)))
                .collect();
            wanting.sort_unstable();
            told.push(format!("{crowd:?} {:?} {wanting:?}", sorted(&own.pods)));
        }
    }
    for own in RESERVATIONS.chain(0..PODS).map(uid) {
        let own = ledger.reservations.find(&own);
        told.push(format!("{:?}", own.map(|own| (own.node, own.used, own.spare))));
    }
    for namespace in ["default", "other"] {
        for claim in ["claim-0", "claim-1", "claim-2"] {
            let users: Vec<NodeIndex> = ledger.storage.users(namespace, claim).collect();
            told.push(format!("{namespace}/{claim} {users:?}"));
        }
    }
    told
}

/// A ledger after some steps, in which pods that wait take what they request.
pub(crate) fn after(steps: &[Step]) -> (Ledger, Decider) {
    let mut ledger = Ledger::default();
    let mut decider = decider(&mut ledger);
    for (number, step) in (0..).zip(steps) {
        let mut step = step.clone();
        if let Step::Fact(Fact::Pod(pod)) = &mut step {
            pod.needs.taken = pod.needs.requests.clone();
        }
        play(&mut ledger, &mut decider, &step, number);
    }
    (ledger, decider)
}

/// Pods and reservations that want a node.
pub(crate) fn waiting(ledger: &Ledger) -> Vec<Uid> {
    let all = (0..RESERVATIONS.end).map(uid);
    let waits = |uid: &Uid| ledger.pod(uid).is_some_and(|row| !row.is_placed());
    all.filter(waits).collect()
}

/// Why a node does not take a pod, nor anything that is held there for it, when these others have left.
fn refused_without(
    ledger: &mut Ledger,
    decider: &Decider,
    pod: &Uid,
    node: NodeIndex,
    gone: &[&Uid],
) -> Option<Vec<Reason>> {
    ledger.speculate(|thought| {
        for other in gone {
            assert_eq!(thought.evict(other), Ok(node), "a victim is on the node");
        }
        let ledger = thought.ledger_mut();
        let row = ledger.pod(pod).unwrap();
        let (ask, priority) = (row.ask, row.priority);
        assert_eq!(decider.refused_everywhere(ledger, ask), None);
        let others = ledger.awaited_before(ledger.nodes.name(node), pod, priority);
        let mut trial = Trial::new(ledger, &decider.profile.filters, ask);
        trial.place_on(&others, node).err().map(|(_, refusal)| refusal.reasons)
    })
}

/// Whether whatever refuses the pod with some pods there also refuses it with more.
fn is_plain(ledger: &Ledger, ask: Ask) -> bool {
    ask.volumes.is_none()
        && ledger.terms.affinity(ask.pod_affinity).near.is_empty()
        && ledger.terms.spread(ask.spread).iter().all(|rule| !rule.binds)
}

fn check(ledger: &mut Ledger, decider: &Decider, pod: &Uid, found: &Candidate) {
    let row = ledger.pod(pod).unwrap();
    let (priority, is_plain) = (row.priority, is_plain(ledger, row.ask));
    let victims: Vec<&Uid> = found.victims.iter().map(|victim| &victim.pod.uid).collect();
    assert!(!victims.is_empty());
    assert!(found.violations <= victims.len());
    for victim in &victims {
        let row = ledger.pod(victim).expect("a victim is there");
        assert!(row.priority < priority, "a victim is of lower priority");
        assert!(!row.is_reservation(), "a reservation is not deleted");
        assert_eq!(row.node(), Some(found.node));
    }
    // A claim that pods of other nodes use as well takes more than one round.
    let in_use = |reason: &Reason| matches!(reason, Reason::Volume(VolumeReason::InUse { .. }));
    if let Some(reasons) = refused_without(ledger, decider, pod, found.node, &victims) {
        assert!(reasons.iter().all(in_use), "without its victims the node refuses: {reasons:?}");
    }
    for spared in victims.iter().filter(|_| is_plain) {
        let others: Vec<&Uid> = victims.iter().copied().filter(|other| other != spared).collect();
        let refused = refused_without(ledger, decider, pod, found.node, &others).is_some();
        assert!(refused, "{spared:?} need not go");
    }
}

/// How much of each resource a node is charged for, and how many pods it has places for.
fn charged(ledger: &Ledger, node: NodeIndex) -> BTreeMap<Box<str>, (i64, i64)> {
    let (at, nodes) = (node.get(), &ledger.nodes);
    let columns = [
        ("cpu", Some(&nodes.resources.cpu)),
        ("memory", Some(&nodes.resources.memory)),
        ("ephemeral-storage", Some(&nodes.resources.storage)),
        ("example.com/gpu", nodes.resources.find(GPU).map(|at| nodes.resources.scalar(at))),
    ];
    let amounts = columns.into_iter().map(|(name, column)| {
        let of = column.map_or((0, 0), |own| (own.requested[at], own.allocatable[at]));
        (name.into(), of)
    });
    amounts.chain([("pods".into(), (nodes.pods[at], nodes.pods_allowed[at]))]).collect()
}

/// What of a node a pod took that was not there to take. A pod that uses a reservation may take what that
/// held, however little the node has: it may not make that worse.
fn excess(
    ledger: &Ledger,
    node: NodeIndex,
    needs: &Needs,
    before: &BTreeMap<Box<str>, (i64, i64)>,
) -> Option<String> {
    for (name, (requested, allocatable)) in charged(ledger, node) {
        // A reservation is taken where there is place for one pod, for however many it is.
        let is_one = needs.reservation.as_ref().is_none_or(|own| own.own.is_none());
        let is_asked = *name == *"pods" && is_one || needs.requests.charged.of(&name) > 0;
        if is_asked && requested > allocatable && requested > before[&name].0 {
            return Some(format!("{} too much of {name}", requested - allocatable));
        }
    }
    let nodes = &ledger.nodes;
    let collide = |port: &_| nodes.ports(node).iter().filter(|own| own.collides_with(port)).count();
    // Each of its own ports collides with itself.
    let own = &needs.ports.0;
    let among_own = |port: &crate::needs::HostPort| {
        own.iter().filter(|other| other.collides_with(port)).count()
    };
    own.iter().any(|port| collide(port) > among_own(port)).then(|| "a port is taken".to_owned())
}

/// CPUs of a pod's own that somebody else has who is not inside it.
fn shared_cpus(ledger: &Ledger, pod: &Uid, node: NodeIndex) -> Vec<String> {
    let got = |row: &PodRow| row.allotment.map(|id| ledger.asks.allotments.get(id));
    let Some(own) = ledger.pod(pod).and_then(got).map(|own| &own.cpus) else { return Vec::new() };
    let others = ledger.residents.on(node).iter().filter_map(|(_, uid)| {
        let row = ledger.pod(uid).filter(|row| uid != pod && row.reservation.is_none())?;
        let got = got(row)?;
        let is_inside = got.reservation.as_ref().is_some_and(|own| own.uid == *pod);
        (!is_inside).then_some((uid, &got.cpus))
    });
    let held = ledger.reservations.on(node).filter(|held| held.uid != pod);
    let held = held.map(|held| (held.uid, &held.spare.cpus));
    let meets = |(uid, other): (&Uid, &CpuSet)| {
        let both = own.without(&own.without(other));
        (!both.is_empty()).then(|| format!("{both} of {uid:?}"))
    };
    others.chain(held).filter_map(meets).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_dropped_speculation_leaves_no_trace(
        steps in vec(step(), 1..60),
        moves in vec((0..RESERVATIONS.end, proptest::option::of(0..12_u8)), 1..20),
        asks in vec((labels(), needs()), 1..3),
    ) {
        let (mut ledger, mut kept) = after(&steps);
        let asks: Vec<Ask> =
            asks.iter().map(|(labels, needs)| ledger.hold("default", labels, needs)).collect();
        let all = |ledger: &Ledger, decider: &mut Decider| -> Vec<_> {
            asks.iter().map(|ask| seen(ledger, decider, *ask)).collect()
        };
        let before = (told(&ledger), all(&ledger, &mut kept));
        ledger.speculate(|thought| {
            let mark = thought.mark();
            for (pod, node) in &moves {
                let node = node.and_then(|node| thought.ledger().nodes.find(&format!("node-{node}")));
                match node {
                    Some(node) => drop(thought.place(&uid(*pod), node, None)),
                    None => drop(thought.evict(&uid(*pod))),
                }
                let mut fresh = decider(thought.ledger_mut());
                assert_eq!(all(thought.ledger(), &mut kept), all(thought.ledger(), &mut fresh));
            }
            if moves.len() % 2 == 0 {
                thought.take_back(mark);
                assert_eq!(told(thought.ledger()), before.0);
            }
        });
        prop_assert_eq!(&told(&ledger), &before.0);
        let copy = ledger.snapshot(None);
        for (uid, _) in ledger.pods().filter(|(_, row)| row.claim.is_some()) {
            prop_assert!(copy.pod(uid).is_some(), "a claim is known for one");
        }
        prop_assert_eq!(&all(&ledger, &mut kept), &before.1);
        let mut fresh = decider(&mut ledger);
        prop_assert_eq!(&all(&ledger, &mut fresh), &before.1);
    }

    #[test]
    fn a_speculation_that_is_kept_is_claims_and_one_with_victims_cannot_be(
        steps in vec(step(), 1..60),
        nodes in vec(0..12_u8, 1..20),
    ) {
        let (mut ledger, _) = after(&steps);
        let mut other = ledger.clone();
        let pods = waiting(&ledger);
        let places: Vec<(Uid, NodeIndex)> = pods.into_iter().zip(&nodes).filter_map(|(pod, node)| {
            let node = ledger.nodes.find(&format!("node-{node}"))?;
            ledger.nodes.present().contains(node).then_some((pod, node))
        }).collect();
        ledger.speculate(|thought| {
            for (pod, node) in &places {
                thought.place(pod, *node, None).unwrap();
            }
            thought.keep().unwrap();
        });
        for (pod, node) in &places {
            other.claim(pod, *node, None).unwrap();
        }
        prop_assert_eq!(told(&ledger), told(&other));
        for pod in (0..PODS).map(uid) {
            let kept = ledger.speculate(|thought| thought.evict(&pod).map(|_| thought.keep().is_ok()));
            prop_assert!(kept != Ok(true));
        }
        prop_assert_eq!(told(&ledger), told(&other));
    }

    #[test]
    fn victims_are_of_lower_priority_enough_and_none_too_many(
        steps in prop_oneof![1 => vec(step(), 1..80), 4 => crowded()],
        spares in any::<bool>(),
    ) {
        let mut ledger = after(&steps).0;
        let mut decider = loadless(&mut ledger);
        let settings = Settings {
            candidate_nodes_percent_min: 100,
            candidate_nodes_min: 1,
            spares,
        };
        for pod in waiting(&ledger) {
            let before = told(&ledger);
            let examined = decider.examine(&mut ledger, &pod).unwrap();
            let refused: BTreeSet<_> = examined.refused.iter().map(|one| one.node).collect();
            if let Some(Place { node, within }) = decider.choose(&mut ledger, &pod, 3).unwrap() {
                let is_able = !refused.contains(&node) && examined.everywhere.is_none();
                prop_assert!(is_able || within != Within::Node);
                continue;
            }
            prop_assert!(examined.everywhere.is_some() || refused.len() == examined.nodes);
            let all = decider.candidates(&mut ledger, &pod, &examined, settings, 3, NOW).unwrap();
            for found in &all.found {
                check(&mut ledger, &decider, &pod, found);
                let is_spared = |uid: &Uid| ledger.pod(uid).is_some_and(|row| row.is_spared);
                let mut victims = found.victims.iter().map(|victim| &victim.pod.uid);
                prop_assert!(!spares || !victims.any(is_spared), "who is spared stays");
            }
            let outcome = decider.preempt(&mut ledger, &pod, &examined, settings, 3, NOW).unwrap();
            if let Outcome::Room(room) = outcome {
                let best = all.found.iter().find(|one| one.node == room.node).unwrap();
                prop_assert_eq!(&best.victims, &room.victims);
            }
            prop_assert_eq!(told(&ledger), before, "who asks leaves no trace");
        }
    }

    #[test]
    fn no_decision_takes_what_is_not_there(
        steps in prop_oneof![vec(step(), 1..80), crowded()],
    ) {
        let mut ledger = after(&steps).0;
        let mut decider = loadless(&mut ledger);
        for pod in waiting(&ledger) {
            let Some(place) = decider.choose(&mut ledger, &pod, 5).unwrap() else { continue };
            let ask = ledger.pod(&pod).unwrap().ask;
            let namespace = ledger.pod(&pod).unwrap().namespace.clone();
            let claims: Vec<Box<str>> = ask.volumes.into_iter()
                .flat_map(|id| ledger.asks.volumes.get(id).volumes.iter())
                .filter_map(|volume| match volume { Volume::Claim(name) => Some(name.clone()), _ => None })
                .filter(|name| ledger.storage.claim(&namespace, name).is_some_and(|claim| claim.is_for_one_pod()))
                .collect();
            for claim in &claims {
                let mut users = ledger.storage.users(&namespace, claim);
                prop_assert!(!users.any(|node| ledger.nodes.present().contains(node)));
            }
            let own = decider.allot(&mut ledger, ask, &place).unwrap();
            let before = charged(&ledger, place.node);
            ledger.claim(&pod, place.node, own.as_ref()).unwrap();
            if let Within::Adopting(pods) = &place.within {
                ledger.adopt(&pod, pods);
            }
            if let Within::Reservation(own) = &place.within {
                let own = ledger.reservations.find(&own.uid).unwrap();
                let is_restricted = own.rules.policy == ReservationPolicy::Restricted;
                let most = own.rules.pods.filter(|_| is_restricted);
                prop_assert!(most.is_none_or(|pods| own.used.pods <= pods));
                prop_assert!(!own.rules.is_for_one_pod || own.used.pods == 1);
                let requests = &ledger.asks.requests.get(ask.requests).charged;
                for name in requests.names().filter(|name| own.rules.restricts(name)) {
                    // What a pod takes may be more than what it asks for, while it is resized.
                    let taken = ledger.asks.requests.get(ask.taken).charged.of(name);
                    let used = own.used.amounts.of(name) - taken + requests.of(name);
                    prop_assert!(used <= own.rules.amounts.of(name), "{name}: {own:?}");
                }
            }
            // Whoever may use what is held and uses nothing of it takes what is not there. And one that
            // was held, was to hold more and is told without a node, is none that there ever is.
            let held = ledger.reservations.rules(&pod).map(|rules| &rules.amounts);
            let asked = &ledger.asks.requests.get(ask.requests).charged;
            if place.within == Within::All || held.is_some_and(|held| held != asked) {
                continue;
            }
            let node = place.node;
            prop_assert_eq!(shared_cpus(&ledger, &pod, node), Vec::<String>::new());
            let needs = Needs {
                requests: ledger.asks.requests.get(ask.requests).clone(),
                ports: ledger.asks.ports.get(ask.ports).clone(),
                reservation: ask.reservation.map(|id| ledger.asks.reservations.get(id).clone()),
                ..Needs::default()
            };
            prop_assert_eq!(excess(&ledger, node, &needs, &before), None);
        }
    }

    #[test]
    fn who_is_awaited_still_fits_beside_who_was_let_in(
        steps in prop_oneof![vec(step(), 1..80), crowded()],
    ) {
        let mut ledger = after(&steps).0;
        let mut decider = loadless(&mut ledger);
        for pod in waiting(&ledger) {
            let Some(place) = decider.choose(&mut ledger, &pod, 5).unwrap() else { continue };
            let Place { node, within: Within::Node } = place else { continue };
            let row = ledger.pod(&pod).unwrap();
            let (ask, priority) = (row.ask, row.priority);
            let awaited: Vec<Passing> =
                ledger.awaited_before(ledger.nodes.name(node), &pod, priority);
            // What they request and what it requests is there for all of them.
            let charged = |ask: Ask| ledger.asks.requests.get(ask.taken).charged.cpu_millis;
            let all: i64 = awaited.iter().map(|other| charged(other.ask)).sum();
            let own = ledger.asks.requests.get(ask.requests).charged.cpu_millis;
            let column = &ledger.nodes.resources.cpu;
            let left = column.allocatable[node.get()] - column.requested[node.get()] - all;
            prop_assert!(own == 0 || own <= left, "{own} of {left}");
        }
    }
}

#[test]
fn our_own_nomination_stands_until_the_api_server_shows_another() {
    let pod = |nominated: Option<&str>| {
        let mut fact = super::pod_on(None);
        fact.nominated = nominated.map(Into::into);
        Fact::Pod(Box::new(fact))
    };
    let check = |steps: &dyn Fn(&mut Ledger), expected: Option<&str>| {
        let mut ledger = Ledger::default();
        ledger.apply(pod(None));
        steps(&mut ledger);
        assert_eq!(ledger.nominated(&uid(1)), expected);
        for node in ["a", "b"] {
            let awaited: Vec<&Uid> = ledger.awaited(node).collect();
            assert_eq!(!awaited.is_empty(), expected == Some(node), "{node}");
        }
    };
    let ours = |ledger: &mut Ledger, node| ledger.nominate(&uid(1), node).unwrap();
    check(&|_| {}, None);
    check(&|ledger| ledger.apply(pod(Some("a"))), Some("a"));
    check(&|ledger| ours(ledger, Some("a")), Some("a"));
    // An update that knows nothing of it yet does not end it.
    let late = |ledger: &mut Ledger| {
        ours(ledger, Some("a"));
        ledger.apply(pod(None));
    };
    check(&late, Some("a"));
    let still_late = |ledger: &mut Ledger| {
        ledger.apply(pod(Some("a")));
        ours(ledger, Some("b"));
        ledger.apply(pod(Some("a")));
    };
    check(&still_late, Some("b"));
    let somebody_else = |ledger: &mut Ledger| {
        ours(ledger, Some("a"));
        ledger.apply(pod(Some("b")));
    };
    check(&somebody_else, Some("b"));
    let cleared = |ledger: &mut Ledger| {
        ledger.apply(pod(Some("a")));
        ours(ledger, None);
    };
    check(&cleared, None);
    let gone = |ledger: &mut Ledger| {
        ours(ledger, Some("a"));
        ledger.apply(Fact::PodGone(uid(1)));
    };
    check(&gone, None);
}
