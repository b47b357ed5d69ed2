//! What holds after any facts: kept answers equal fresh ones, the order of kinds does not matter,
//! and what is gone leaves nothing behind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::node_metric::PodName;
use api::priority::PriorityBand;
use object::field::Path;
use object::selector::label::Selector;
use object::taint::{Effect, Taint, Toleration, TolerationOperator};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use crate::cpus::{Binding, Cpu, CpuTopology, Exclusive};
use crate::decide::Decider;
use crate::fact::{
    Allotment, CpuLayout, CpuRules, DEFAULT_SCHEDULER, Fact, LoadReport, LoadTimes, NodeFact,
    NodeRest, NodeUsage, NumaPolicy, PodFact, PodUsage, ReservationRef, Size, Uid, Version,
};
use crate::ledger::{Ask, Ledger, NodeIndex, PodRow};
use crate::moment::Moment;
use crate::needs::{
    Amounts, Clause, Constraint, CpuNeeds, HostPort, Images, Needs, NodeAffinity, NodeTerm,
    Operator, Owner, OwnerKind, PodAffinity, PodTerm, Ports, Preference, Requests, Requirement,
    Spread, Tolerations, Wish,
};
use crate::plugins::load_aware::LoadAware;
use crate::plugins::node_numa_resource::NodeNuma;
use crate::plugins::reservation::Reservation;
use crate::profile::{Profile, Weight};
use crate::quota::{self, Preemptible};
use crate::reservations::Within;
use reservations::{RESERVATIONS, reservation, reservation_needs};

mod cost;
mod cpus;
mod gangs;
mod order;
pub(crate) mod preemption;
mod quotas;
mod rebuilt;
pub(crate) mod reservations;
mod storage;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Fact(Fact),
    /// Decide for the pod with this number, and claim the node.
    Decide(u8),
    /// The API server said that the pod with this number is not bound.
    Refuse(u8),
    /// What the reservation with this number takes over is written on the pods.
    Written(u8),
    /// The reservation with this number is to hold so much, or what it says.
    Resize(u8, Option<Size>),
}

pub(crate) fn uid(number: u8) -> Uid {
    Uid::new(&format!("pod-{number}"))
}

fn labels() -> impl Strategy<Value = BTreeMap<Box<str>, Box<str>>> {
    let key = prop_oneof!["zone", "disk", "size", "kubernetes.io/hostname"].prop_map(Into::into);
    let value = prop_oneof!["a", "b", "7"].prop_map(Into::into);
    btree_map(key, value, 0..3)
}

fn taint() -> impl Strategy<Value = Taint> {
    let effects = [Effect::NoSchedule, Effect::PreferNoSchedule, Effect::NoExecute];
    (prop_oneof!["gpu", "infra"], proptest::sample::select(effects.to_vec()))
        .prop_map(|(key, effect)| Taint { key, effect: Some(effect), ..Taint::default() })
}

fn amounts(most: i64) -> impl Strategy<Value = Amounts> {
    let scalar = proptest::option::of(0..3_i64);
    (0..=most, 0..=most, 0..=most / 4, scalar).prop_map(|(cpu, memory, storage, gpu)| Amounts {
        cpu_millis: cpu * 100,
        memory_bytes: memory << 20,
        storage_bytes: storage,
        scalars: gpu.map(|gpu| ("example.com/gpu".into(), gpu)).into_iter().collect(),
    })
}

fn node() -> impl Strategy<Value = NodeFact> {
    let image = (prop_oneof!["web:1", "db:2"].prop_map(Into::into), Just(400_i64 << 20));
    let images = proptest::collection::btree_set(image, 0..3);
    let name = (0..12_u8).prop_map(|number| format!("node-{number}").into());
    let own = (images, cpu_rules());
    (name, labels(), vec(taint(), 0..2), any::<bool>(), amounts(40), 0..6_i64, own).prop_map(
        |(name, labels, taints, unschedulable, allocatable, pods_allowed, own)| NodeFact {
            name,
            labels,
            taints: taints.into(),
            unschedulable,
            allocatable,
            pods_allowed,
            images: own.0.into_iter().collect::<Vec<_>>().into(),
            load: None,
            cpus: own.1,
            rest: NodeRest::default(),
        },
    )
}

fn binding() -> impl Strategy<Value = Binding> {
    prop_oneof![Just(Binding::FullCores), Just(Binding::SpreadByCores)]
}

fn policy() -> impl Strategy<Value = NumaPolicy> {
    let policies = [NumaPolicy::BestEffort, NumaPolicy::Restricted, NumaPolicy::SingleNUMANode];
    proptest::sample::select(policies.to_vec())
}

fn cpu_rules() -> impl Strategy<Value = Option<Arc<CpuRules>>> {
    let ratio = btree_map(Just("cpu").prop_map(Into::into), 1_001..3_000_u32, 0..2);
    let rules = (proptest::option::of(binding()), ratio, proptest::option::of(policy()));
    let rules = rules.prop_map(|(binding, ratios, policy)| {
        Arc::new(CpuRules { binding, ratios, policy, ..CpuRules::default() })
    });
    proptest::option::weighted(0.2, rules)
}

fn cpu_needs() -> impl Strategy<Value = Option<CpuNeeds>> {
    let wish = prop_oneof![Just(Wish::Default), binding().prop_map(Wish::So)];
    let exclusive =
        prop_oneof![Just(Exclusive::None), Just(Exclusive::Core), Just(Exclusive::Numa)];
    let numa = (proptest::option::weighted(0.3, policy()), proptest::option::of(any::<bool>()));
    let needs = (any::<[bool; 2]>(), wish, exclusive, numa).prop_map(
        |([is_sensitive, must], wish, own, (numa, is_apart))| {
            let (required, preferred) = if must { (Some(wish), None) } else { (None, Some(wish)) };
            let exclusive = own;
            let malformed = None;
            CpuNeeds { is_sensitive, required, preferred, exclusive, numa, is_apart, malformed }
        },
    );
    proptest::option::weighted(0.3, needs)
}

fn allotment() -> impl Strategy<Value = Option<Allotment>> {
    let inside = proptest::option::weighted(0.5, RESERVATIONS);
    let own = (proptest::collection::btree_set(0..8_u32, 0..3), inside);
    let own = own.prop_map(|(cpus, inside)| Allotment {
        cpus: cpus.into_iter().collect(),
        exclusive: Exclusive::Core,
        reservation: inside.map(|number| {
            let uid = uid(number);
            ReservationRef { name: (*uid.0).into(), uid }
        }),
        ..Allotment::default()
    });
    let own = own.prop_filter("something", |own| !own.is_shared() || own.reservation.is_some());
    proptest::option::weighted(0.3, own)
}

/// A node says which CPUs it has: so many cores with two threads each.
fn layout() -> impl Strategy<Value = Fact> {
    // Most say nothing of how pods lie on NUMA nodes, and half of those that do have the same layout.
    let policy = proptest::option::weighted(0.4, policy());
    let cores = prop_oneof![Just(4_u32), 0..5_u32];
    let own = proptest::option::weighted(0.8, (cores, any::<[bool; 3]>(), policy));
    (0..12_u8, own).prop_map(|(node, own)| {
        let layout = own.map(|(cores, is_full_only, policy)| {
            let is_full_only = is_full_only == [true; 3];
            let cpu = |id| Cpu { id, core: id / 2, numa: id / 4, socket: id / 4 };
            let topology = CpuTopology::new((0..2 * cores).map(cpu));
            let zone = |numa| (numa, Amounts { cpu_millis: 4_000, ..Amounts::default() });
            let zones = (0..cores.div_ceil(2)).map(zone).collect();
            Arc::new(CpuLayout { topology, is_full_only, policy, zones, ..CpuLayout::default() })
        });
        Fact::Layout { node: format!("node-{node}").into(), layout }
    })
}

fn requests() -> impl Strategy<Value = Requests> {
    amounts(12).prop_map(|charged| Requests {
        cpu_millis_scored: charged.cpu_millis.max(100),
        memory_bytes_scored: charged.memory_bytes.max(200 << 20),
        charged,
    })
}

/// About a third as much CPU, in whole ones: others get none of their own.
fn in_whole_cpus(mut requests: Requests) -> Requests {
    let whole = (requests.charged.cpu_millis / 300).clamp(0, 4) * 1_000;
    (requests.charged.cpu_millis, requests.cpu_millis_scored) = (whole, whole.max(100));
    requests
}

fn term() -> impl Strategy<Value = NodeTerm> {
    let operators =
        [Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist, Operator::Gt];
    let requirement =
        (prop_oneof!["zone", "disk", "size"], proptest::sample::select(operators.to_vec()))
            .prop_map(|(key, operator)| Requirement {
                key: key.into(),
                operator,
                values: Box::new([if operator == Operator::Gt { "5".into() } else { "a".into() }]),
            });
    vec(requirement, 0..3)
        .prop_map(|labels| NodeTerm { labels: labels.into(), fields: Box::default() })
}

fn clause() -> impl Strategy<Value = Clause> {
    let selector = prop_oneof![
        Just(Selector::everything()),
        Just(Selector::nothing()),
        Just(Selector::from_pairs([("disk", "a")])),
        Just(Selector::from_pairs([("disk", "a"), ("size", "7")])),
        Just(Selector::parse("size", &Path::root()).unwrap()),
        Just(Selector::parse("disk notin (b)", &Path::root()).unwrap()),
    ];
    let by_labels = prop_oneof![
        3 => Just(Selector::nothing()),
        1 => Just(Selector::from_pairs([("team", "red")])),
    ];
    let namespaces =
        prop_oneof![Just(vec!["default"]), Just(vec![]), Just(vec!["default", "other"])];
    (namespaces, by_labels, selector).prop_map(|(namespaces, namespace_labels, labels)| Clause {
        namespaces: namespaces.into_iter().map(Into::into).collect(),
        namespace_labels,
        labels,
    })
}

fn topology_key() -> impl Strategy<Value = Box<str>> {
    prop_oneof!["zone", "disk", "kubernetes.io/hostname"].prop_map(Into::into)
}

fn pod_affinity() -> impl Strategy<Value = PodAffinity> {
    let term = || {
        (clause(), topology_key()).prop_map(|(pods, topology_key)| PodTerm { pods, topology_key })
    };
    let few = |size| vec(term(), 0..size).prop_map(Into::into);
    let rather = vec((-100..100_i32, term()), 0..2).prop_map(Into::into);
    (few(2), few(2), rather).prop_map(|(near, away, preferred)| PodAffinity {
        near,
        away,
        preferred,
    })
}

fn spread() -> impl Strategy<Value = Spread> {
    let rule = (any::<[bool; 3]>(), 1..3_i32, topology_key(), clause(), 1..3_i32).prop_map(
        |([binds, honours_affinity, honours_taints], max_skew, topology_key, pods, min_domains)| {
            let pods = Clause::within("default", pods.labels);
            Constraint {
                binds,
                max_skew,
                topology_key,
                pods,
                min_domains,
                honours_affinity,
                honours_taints,
            }
        },
    );
    vec(rule, 0..3).prop_map(|rules| Spread(rules.into()))
}

fn needs() -> impl Strategy<Value = Needs> {
    let affinity = (
        prop_oneof![3 => Just(BTreeMap::new()), 1 => labels()],
        proptest::option::weighted(0.3, vec(term(), 0..3)),
        vec((1..100_i32, term()), 0..2),
    )
        .prop_map(|(labels, required, preferred)| NodeAffinity {
            labels,
            required: required.map(Into::into),
            preferred: preferred
                .into_iter()
                .map(|(weight, term)| Preference { weight, term })
                .collect(),
        });
    let toleration =
        prop_oneof!["gpu", "infra", "node.kubernetes.io/unschedulable"].prop_map(|key| {
            Toleration { key, operator: Some(TolerationOperator::Exists), ..Toleration::default() }
        });
    let ports = vec((80..82_i32).prop_map(|port| HostPort::new("", "", port)), 0..2);
    let images = vec(prop_oneof!["web:1", "db:2", "other"], 1..3);
    let pod_affinity = prop_oneof![Just(PodAffinity::default()), pod_affinity()];
    let spread = prop_oneof![Just(Spread::default()), spread()];
    let tolerations = vec(toleration, 0..2);
    let terms = (pod_affinity, spread, cpu_needs(), reservation_needs());
    (requests(), requests(), ports, tolerations, affinity, images, terms, storage::volumes())
        .prop_map(|(requests, taken, ports, tolerations, node_affinity, images, terms, volumes)| {
            let (pod_affinity, spread, cpus, reservation) = terms;
            let requests = if cpus.is_some() { in_whole_cpus(requests) } else { requests };
            Needs {
                requests,
                taken,
                ports: Ports(ports.into()),
                tolerations: Tolerations(tolerations.into()),
                node_affinity,
                images: Images::new(images.iter().map(String::as_str)),
                pod_affinity,
                spread,
                owner: Some(Owner { kind: OwnerKind::ReplicaSet, name: "web".into() }),
                volumes,
                load: None,
                cpus,
                hint: None,
                reservation,
                resource_claims: false,
                too_many_terms: None,
            }
        })
}

fn pod() -> impl Strategy<Value = PodFact> {
    let bound =
        proptest::option::weighted(0.4, (0..12_u8).prop_map(|number| format!("node-{number}")));
    let nominated =
        proptest::option::weighted(0.2, (0..12_u8).prop_map(|number| format!("node-{number}")));
    let rank = (0..4_i32, any::<[bool; 3]>(), proptest::option::of(0..5_u64), allotment());
    let own = (reservations::own(), quotas::named(), gangs::member());
    let pod = (0..20_u8, labels(), bound, any::<bool>(), needs(), nominated, rank).prop_map(
        |(number, labels, node, deleting, needs, nominated, rank)| PodFact {
            uid: uid(number),
            namespace: if number % 4 == 0 { "other".into() } else { "default".into() },
            name: format!("pod-{number}").into(),
            labels,
            node: node.map(Into::into),
            nominated: nominated.map(Into::into),
            started: rank.2.map(Moment),
            load_times: LoadTimes { scheduled: rank.2.map(Moment), initialized: None },
            allotment: rank.3,
            may_preempt: !rank.1[1],
            is_spared: rank.1[2],
            holds: None,
            giving_way: deleting && rank.1[0],
            priority: rank.0,
            deleting,
            scheduler: DEFAULT_SCHEDULER.into(),
            gates: if number == 19 { ["wait".into()].into() } else { Box::default() },
            extended: Box::default(),
            owners: Box::default(),
            gang: None,
            quota: None,
            preemptible: Preemptible::Yes,
            needs,
            version: Version::default(),
            rest: 0,
        },
    );
    (pod, own).prop_map(|(pod, (own, (quota, preemptible), gang))| {
        own.told_by(PodFact { quota, preemptible, gang, ..pod })
    })
}

fn namespace() -> impl Strategy<Value = Fact> {
    let name = || prop_oneof!["default", "other"].prop_map(Into::into);
    let labels = btree_map(
        Just("team").prop_map(Into::into),
        prop_oneof!["red", "blue"].prop_map(Into::into),
        0..2,
    );
    prop_oneof![
        3 => (name(), labels).prop_map(|(name, labels)| Fact::Namespace { name, labels }),
        1 => name().prop_map(Fact::NamespaceGone),
    ]
}

fn owner() -> impl Strategy<Value = Fact> {
    let selector = prop_oneof![
        Just(None),
        Just(Some(Selector::from_pairs([("disk", "a")]))),
        Just(Some(Selector::nothing())),
    ];
    let kind = prop_oneof![Just(OwnerKind::Service), Just(OwnerKind::ReplicaSet)];
    let namespace = prop_oneof!["default", "other"].prop_map(Into::into);
    (namespace, kind, selector).prop_map(|(namespace, kind, selector)| Fact::Owner {
        namespace,
        owner: Owner { kind, name: "web".into() },
        selector,
    })
}

/// A node reports its load, and that of a pod that may be on it.
fn load() -> impl Strategy<Value = Fact> {
    let usage = (amounts(40), 0..20_u8, amounts(12), any::<bool>(), 0..5_u64);
    let usage = proptest::option::weighted(0.8, usage);
    (0..12_u8, usage).prop_map(|(node, usage)| {
        let report = usage.map(|(now, pod, used, is_prod, at)| {
            let namespace = if pod % 4 == 0 { "other" } else { "default" };
            let key = PodName::new(namespace, &format!("pod-{pod}"));
            Arc::new(LoadReport {
                at: Some(Moment(at)),
                interval: Duration::from_nanos(1),
                node: Some(NodeUsage { now, ..NodeUsage::default() }),
                pods: [(key, PodUsage { now: used, band: is_prod.then_some(PriorityBand::Prod) })]
                    .into_iter()
                    .collect(),
            })
        });
        Fact::Load { node: format!("node-{node}").into(), report }
    })
}

pub(crate) fn fact() -> impl Strategy<Value = Fact> {
    prop_oneof![
        4 => node().prop_map(Fact::Node),
        1 => (0..12_u8).prop_map(|number| Fact::NodeGone(format!("node-{number}").into())),
        8 => pod().prop_map(|pod| Fact::Pod(Box::new(pod))),
        2 => (0..24_u8).prop_map(|number| Fact::PodGone(uid(number))),
        3 => reservation(),
        1 => namespace(),
        1 => owner(),
        1 => preemption::budget(),
        6 => storage::fact().prop_map(Fact::Storage),
        2 => load(),
        2 => layout(),
        2 => quotas::fact(),
        2 => gangs::fact(),
    ]
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => fact().prop_map(Step::Fact),
        4 => (0..24_u8).prop_map(Step::Decide),
        1 => (0..24_u8).prop_map(Step::Refuse),
        1 => reservations::step(),
    ]
}

/// Some pods may be taken over by any reservation.
fn reserving() -> Reservation {
    Reservation { takeover_label: Some(reservations::TAKEOVER.into()), ..Reservation::default() }
}

pub(crate) fn decider(ledger: &mut Ledger) -> Decider {
    let profile = Profile::kubernetes().filter(LoadAware::default()).filter(NodeNuma::default());
    let mut profile = profile.filter(reserving()).score(LoadAware::default(), Weight(1));
    profile.quota = Some(quota::Settings::default());
    profile.gangs = Some(crate::gangs::Settings::default());
    Decider::new(profile.score(NodeNuma::default(), Weight(1)), ledger, 7)
}

/// The same without load, which preemption does not count on: a plan does.
pub(crate) fn loadless(ledger: &mut Ledger) -> Decider {
    let profile = Profile::kubernetes().filter(NodeNuma::default()).filter(reserving());
    Decider::new(profile, ledger, 7)
}

/// What can be seen of a ledger through an ask, by names.
fn seen(ledger: &Ledger, decider: &mut Decider, ask: Ask) -> BTreeMap<String, String> {
    let scores = decider.scores(ledger, ask);
    let told = ledger.nodes.present().iter().map(|node| {
        let own = scores.iter().find(|scores| scores.node == node);
        let told = match own {
            Some(scores) => format!("{:?}", scores.by_plugin),
            None => format!("{:?}", decider.refusal(ledger, ask, node)),
        };
        (ledger.nodes.name(node).to_owned(), told)
    });
    told.collect()
}

pub(crate) fn play(ledger: &mut Ledger, decider: &mut Decider, step: &Step, number: u64) {
    match step {
        Step::Fact(fact) => ledger.apply(fact.clone()),
        Step::Decide(pod) => {
            let waits = |row: &&PodRow| !row.is_placed();
            let Some(row) = ledger.pod(&uid(*pod)).filter(waits) else { return };
            let ask = row.ask;
            if let Some(place) = decider.choose(ledger, &uid(*pod), number).unwrap() {
                let own =
                    decider.allot(ledger, ask, &place).expect("a node that takes it has CPUs");
                ledger.claim(&uid(*pod), place.node, own.as_ref()).unwrap();
                if let Within::Adopting(pods) = &place.within {
                    ledger.adopt(&uid(*pod), pods);
                }
            }
        }
        Step::Refuse(pod) => {
            let _ = ledger.disclaim(&uid(*pod));
        }
        Step::Written(own) => ledger.adoptions_are_written(&uid(*own)),
        Step::Resize(own, size) => {
            // Only what is held is ever more or less.
            if ledger.pod(&uid(*own)).is_some_and(PodRow::is_bound) {
                ledger.resize(&uid(*own), size.clone());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn kept_answers_equal_fresh_ones(
        steps in vec(step(), 1..60),
        asks in vec(needs(), 1..4),
    ) {
        let mut ledger = Ledger::default();
        let mut kept = decider(&mut ledger);
        let asks: Vec<Ask> = asks.iter().map(|needs| ledger.hold("default", &BTreeMap::new(), needs)).collect();
        for (number, step) in (0..).zip(&steps) {
            play(&mut ledger, &mut kept, step, number);
            let mut fresh = decider(&mut ledger);
            for ask in &asks {
                prop_assert_eq!(seen(&ledger, &mut kept, *ask), seen(&ledger, &mut fresh, *ask));
                prop_assert_eq!(kept.pick(&ledger, *ask, number), fresh.pick(&ledger, *ask, number));
            }
        }
    }

    #[test]
    fn the_pick_is_one_of_the_best_and_refusals_are_of_the_others(
        steps in vec(step(), 1..60),
        needs in needs(),
        turn in any::<u64>(),
    ) {
        let mut ledger = Ledger::default();
        let mut decider = decider(&mut ledger);
        for (number, step) in (0..).zip(&steps) {
            play(&mut ledger, &mut decider, step, number);
        }
        let ask = ledger.hold("default", &BTreeMap::new(), &needs);
        let scores = decider.scores(&ledger, ask);
        // What is kept for nodes that are alike is what each of them says for itself.
        let totals = decider.totals(&ledger, ask);
        let (one, other) = (totals.first(), scores.first());
        for (own, scores) in totals.iter().zip(&scores) {
            let beyond = one.zip(other).map(|(one, other)| (own.1 - one.1, scores.total - other.total));
            prop_assert!(own.0 == scores.node && beyond.is_none_or(|(own, all)| own == all));
        }
        prop_assert_eq!(totals.len(), scores.len());
        let best = scores.iter().map(|scores| scores.total).max();
        let picked = decider.pick(&ledger, ask, turn);
        let of = |node: NodeIndex| scores.iter().find(|scores| scores.node == node);
        prop_assert_eq!(picked.and_then(of).map(|scores| scores.total), best);
        for node in ledger.nodes.present().iter() {
            let refused = decider.refusal(&ledger, ask, node).is_some();
            prop_assert_eq!(refused, of(node).is_none());
        }
    }

    #[test]
    fn what_is_gone_leaves_nothing_behind(steps in vec(step(), 1..60)) {
        let mut ledger = Ledger::default();
        let mut decider = decider(&mut ledger);
        for (number, step) in (0..).zip(&steps) {
            play(&mut ledger, &mut decider, step, number);
        }
        for number in 0..24 {
            ledger.apply(Fact::PodGone(uid(number)));
        }
        prop_assert!(ledger.reservations.is_empty());
        for number in 0..12 {
            ledger.apply(Fact::NodeGone(format!("node-{number}").into()));
        }
        for name in ["default", "other"] {
            ledger.apply(Fact::NamespaceGone(name.into()));
            for kind in [OwnerKind::Service, OwnerKind::ReplicaSet] {
                let owner = Owner { kind, name: "web".into() };
                ledger.apply(Fact::Owner { namespace: name.into(), owner, selector: None });
            }
        }
        for fact in storage::gone() {
            ledger.apply(Fact::Storage(fact));
        }
        prop_assert!(ledger.storage.is_empty());
        prop_assert!(ledger.owners.is_empty());
        for namespace in ["default", "other"] {
            let (namespace, name) = (namespace.into(), "few".into());
            ledger.apply(Fact::Budget { namespace, name, budget: None });
        }
        prop_assert!(ledger.budgets.is_empty());
        for fact in gangs::gone() {
            ledger.apply(fact);
        }
        prop_assert!(ledger.gangs.is_empty());
        for name in ["a", "b", "c", "default"] {
            ledger.apply(Fact::QuotaGone { namespace: "default".into(), name: name.into() });
        }
        prop_assert!(ledger.quotas.is_empty());
        prop_assert!(ledger.residents.is_empty());
        prop_assert!(ledger.nominations.is_empty());
        prop_assert_eq!(ledger.pod_count(), 0);
        prop_assert!(ledger.terms.is_empty());
        prop_assert!(ledger.symbols.is_empty());
        prop_assert!(ledger.asks.is_empty());
        prop_assert!(ledger.nodes.is_empty());
        prop_assert!(ledger.nodes.resources.is_empty());
        prop_assert!(ledger.is_none_astray());
    }
}

fn pod_on(node: Option<&str>) -> PodFact {
    PodFact { node: node.map(Into::into), ..PodFact::new(&uid(1).0, "default", "pod") }
}

#[test]
fn a_claim_ends_only_by_a_definite_answer_or_with_the_pod() {
    let node = |name: &str| NodeFact {
        name: name.into(),
        pods_allowed: 10,
        taints: Arc::default(),
        ..NodeFact::default()
    };
    let check = |steps: &dyn Fn(&mut Ledger), expected: [i64; 2]| {
        let mut ledger = Ledger::default();
        for name in ["a", "b"] {
            ledger.apply(Fact::Node(node(name)));
        }
        ledger.apply(Fact::Pod(Box::new(pod_on(None))));
        let a = ledger.nodes.find("a").unwrap();
        ledger.claim(&uid(1), a, None).unwrap();
        assert!(ledger.claim(&uid(1), a, None).is_err(), "no pod is placed twice");
        steps(&mut ledger);
        let pods = ["a", "b"].map(|name| ledger.nodes.pods[ledger.nodes.find(name).unwrap().get()]);
        assert_eq!(pods, expected);
    };
    check(&|_| {}, [1, 0]);
    check(&|ledger| ledger.apply(Fact::Pod(Box::new(pod_on(None)))), [1, 0]);
    check(&|ledger| ledger.disclaim(&uid(1)).unwrap(), [0, 0]);
    check(&|ledger| ledger.apply(Fact::PodGone(uid(1))), [0, 0]);
    check(&|ledger| ledger.apply(Fact::Pod(Box::new(pod_on(Some("a"))))), [1, 0]);
    // Somebody else was faster.
    check(&|ledger| ledger.apply(Fact::Pod(Box::new(pod_on(Some("b"))))), [0, 1]);
    let bound_then_refused = |ledger: &mut Ledger| {
        ledger.apply(Fact::Pod(Box::new(pod_on(Some("a")))));
        ledger.disclaim(&uid(1)).unwrap();
    };
    check(&bound_then_refused, [1, 0]);
}
