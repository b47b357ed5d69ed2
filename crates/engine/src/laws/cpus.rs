//! CPUs and NUMA nodes: what is kept of nodes in one state is what each of them says for itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Step, binding, in_whole_cpus, play, policy, seen, uid};
use crate::cpus::{Cpu, CpuTopology, Exclusive};
use crate::decide::Decider;
use crate::fact::{CpuLayout, CpuRules, Fact, NodeFact, PodFact};
use crate::ledger::{Ask, Ledger};
use crate::needs::{Amounts, CpuNeeds, Needs, Requests, Wish};
use crate::plugins::node_numa_resource::NodeNuma;
use crate::profile::{Profile, Weight};

/// Nodes of one sort, so that many are in one state.
const NODES: u8 = 6;
const PODS: u8 = 12;

fn decider(ledger: &mut Ledger) -> Decider {
    let profile = Profile::default().filter(NodeNuma::default());
    Decider::new(profile.score(NodeNuma::default(), Weight(1)), ledger, 7)
}

fn needs() -> impl Strategy<Value = Needs> {
    let numa = (proptest::option::weighted(0.3, policy()), proptest::option::of(any::<bool>()));
    let own = (any::<bool>(), proptest::option::of(binding().prop_map(Wish::So)), numa);
    let amounts = (0..16_i64, 0..5_i64);
    (amounts, own).prop_map(|((cpu, memory), (is_sensitive, required, (numa, is_apart)))| {
        let charged = Amounts { cpu_millis: cpu * 100, memory_bytes: memory, ..Amounts::default() };
        let requests = in_whole_cpus(Requests { charged, ..Requests::default() });
        let exclusive = if is_apart.is_some() { Exclusive::Core } else { Exclusive::None };
        let preferred = None;
        let malformed = None;
        let cpus =
            CpuNeeds { is_sensitive, required, preferred, exclusive, numa, is_apart, malformed };
        Needs { taken: requests.clone(), requests, cpus: Some(cpus), ..Needs::default() }
    })
}

/// A node that may say how pods lie on its NUMA nodes, and hardly ever that it offers more than it has.
fn node() -> impl Strategy<Value = Fact> {
    let own =
        (proptest::option::weighted(0.7, policy()), proptest::option::weighted(0.1, Just(1_500)));
    (0..NODES, own).prop_map(|(number, (policy, ratio))| {
        let ratios = ratio.map(|ratio| ("cpu".into(), ratio)).into_iter().collect();
        Fact::Node(NodeFact {
            name: format!("node-{number}").into(),
            allocatable: Amounts { cpu_millis: 8_000, memory_bytes: 16, ..Amounts::default() },
            pods_allowed: 10,
            cpus: Some(Arc::new(CpuRules { policy, ratios, ..CpuRules::default() })),
            ..NodeFact::default()
        })
    })
}

/// Two NUMA nodes, or four.
fn layout() -> impl Strategy<Value = Fact> {
    (0..NODES, prop_oneof![4 => Just(2_u32), 1 => Just(4)]).prop_map(|(number, numas)| {
        let each = 8 / numas;
        let cpu = |id| Cpu { id, core: id / 2, numa: id / each, socket: 0 };
        let (cpu_millis, memory_bytes) = (i64::from(each) * 1_000, i64::from(16 / numas));
        let has = Amounts { cpu_millis, memory_bytes, ..Amounts::default() };
        let layout = CpuLayout {
            topology: CpuTopology::new((0..8).map(cpu)),
            zones: (0..numas).map(|numa| (numa, has.clone())).collect(),
            ..CpuLayout::default()
        };
        Fact::Layout { node: format!("node-{number}").into(), layout: Some(Arc::new(layout)) }
    })
}

fn pod() -> impl Strategy<Value = Fact> {
    (0..PODS, needs()).prop_map(|(number, needs)| {
        let pod = PodFact::new(&uid(number).0, "default", &uid(number).0);
        Fact::Pod(Box::new(PodFact { needs, ..pod }))
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => node().prop_map(Step::Fact),
        1 => layout().prop_map(Step::Fact),
        4 => pod().prop_map(Step::Fact),
        1 => (0..PODS).prop_map(|number| Step::Fact(Fact::PodGone(uid(number)))),
        6 => (0..PODS).prop_map(Step::Decide),
        1 => (0..PODS).prop_map(Step::Refuse),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn what_is_kept_of_a_state_is_what_each_node_in_it_says(
        nodes in (vec(node(), 4..12), vec(layout(), 4..12)),
        steps in vec(step(), 1..50),
        asks in vec(needs(), 3),
    ) {
        let mut ledger = Ledger::default();
        let mut kept = decider(&mut ledger);
        nodes.0.into_iter().chain(nodes.1).for_each(|fact| ledger.apply(fact));
        let asks: Vec<Ask> =
            asks.iter().map(|needs| ledger.hold("default", &BTreeMap::new(), needs)).collect();
        for (number, step) in (0..).zip(&steps) {
            play(&mut ledger, &mut kept, step, number);
            let mut fresh = decider(&mut ledger);
            for ask in &asks {
                prop_assert_eq!(seen(&ledger, &mut kept, *ask), seen(&ledger, &mut fresh, *ask));
                let totals = kept.totals(&ledger, *ask);
                let scores = kept.scores(&ledger, *ask);
                let scores: Vec<_> = scores.iter().map(|own| (own.node, own.total)).collect();
                prop_assert_eq!(totals, scores);
                for node in ledger.nodes.present().iter() {
                    let is_able = kept.feasible(&ledger, *ask).contains(node);
                    prop_assert_eq!(kept.refusal(&ledger, *ask, node).is_none(), is_able);
                }
            }
        }
    }
}
