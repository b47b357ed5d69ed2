//! What is held and what is used of it add up, whatever comes first.

use proptest::prelude::*;

use super::*;
use crate::fact::{Allotment, Fact, NodeFact, PodFact, ReservationFact, ReservationRef};
use crate::ledger::LoadSettings;
use crate::needs::{Amounts, Requests};

const NODES: [&str; 2] = ["a", "b"];

#[derive(Debug, Clone)]
enum Step {
    Pod { number: u8, node: usize, cpu: i64, inside: Option<u8> },
    PodGone(u8),
    Held { number: u8, node: usize, cpu: i64, pods: Option<i64> },
    HeldGone(u8),
    Node(usize),
    NodeGone(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..5_u8, 0..2_usize, 1..6_i64, proptest::option::of(0..3_u8))
            .prop_map(|(number, node, cpu, inside)| Step::Pod { number, node, cpu, inside }),
        2 => (0..5_u8).prop_map(Step::PodGone),
        3 => (0..3_u8, 0..2_usize, 1..12_i64, proptest::option::of(0..3_i64))
            .prop_map(|(number, node, cpu, pods)| Step::Held { number, node, cpu, pods }),
        2 => (0..3_u8).prop_map(Step::HeldGone),
        1 => (0..2_usize).prop_map(Step::Node),
        1 => (0..2_usize).prop_map(Step::NodeGone),
    ]
}

fn requests(cpu: i64) -> Requests {
    let charged = Amounts { cpu_millis: cpu, ..Amounts::default() };
    Requests { charged, cpu_millis_scored: cpu, memory_bytes_scored: 0 }
}

fn fact(step: &Step) -> Fact {
    let of = |uid: String, node: usize, cpu: i64| {
        let mut pod = PodFact::new(&uid, "ns", &uid);
        pod.node = Some(NODES[node].into());
        (pod.needs.requests, pod.needs.taken) = (requests(cpu), requests(cpu));
        pod
    };
    match step {
        Step::Pod { number, node, cpu, inside } => {
            let mut pod = of(format!("p{number}"), *node, *cpu);
            let name = inside.map(|inside| format!("r{inside}"));
            pod.allotment = name.map(|name| Allotment {
                reservation: Some(ReservationRef {
                    name: name.as_str().into(),
                    uid: Uid::new(&name),
                }),
                ..Allotment::default()
            });
            Fact::Pod(Box::new(pod))
        }
        Step::PodGone(number) => Fact::PodGone(Uid::new(&format!("p{number}"))),
        Step::Held { number, node, cpu, pods } => {
            let pod = of(format!("r{number}"), *node, *cpu);
            let amounts = requests(*cpu).charged;
            let rules = ReservationRules { amounts, pods: *pods, ..ReservationRules::default() };
            Fact::Reservation(Box::new(ReservationFact { pod, rules: Arc::new(rules) }))
        }
        Step::HeldGone(number) => Fact::PodGone(Uid::new(&format!("r{number}"))),
        Step::Node(node) => Fact::Node(NodeFact {
            name: NODES[*node].into(),
            pods_allowed: 9,
            ..NodeFact::default()
        }),
        Step::NodeGone(node) => Fact::NodeGone(NODES[*node].into()),
    }
}

/// What the last facts of each object say, in the order of the objects.
fn latest(steps: &[Step]) -> Vec<Step> {
    let mut nodes = [false; 2];
    let (mut pods, mut held) = (BTreeMap::new(), BTreeMap::new());
    for step in steps {
        match step {
            Step::Pod { number, .. } => drop(pods.insert(*number, step.clone())),
            Step::PodGone(number) => drop(pods.remove(number)),
            Step::Held { number, .. } => drop(held.insert(*number, step.clone())),
            Step::HeldGone(number) => drop(held.remove(number)),
            Step::Node(node) => nodes[*node] = true,
            Step::NodeGone(node) => nodes[*node] = false,
        }
    }
    let nodes = (0..2).filter(|node| nodes[*node]).map(Step::Node);
    nodes.chain(held.into_values()).chain(pods.into_values()).collect()
}

/// What is charged to each node that is there.
fn charged(ledger: &Ledger) -> Vec<Option<(i64, i64)>> {
    let of = |name: &&str| {
        let node = ledger.nodes.find(name).filter(|node| ledger.nodes.present().contains(*node))?;
        let cpu = ledger.nodes.resources.requested(node, "cpu");
        Some((cpu, ledger.nodes.pods[node.get()]))
    };
    NODES.iter().map(of).collect()
}

/// The same as people are told it: what pods request, and what is held besides.
fn balanced(ledger: &Ledger) -> Vec<Option<(i64, i64)>> {
    let mut ledger = ledger.clone();
    let settings = LoadSettings::default();
    ledger.keep_loads(settings.clone());
    let charged = charged(&ledger);
    let of = |(name, charged): (&&str, Option<(i64, i64)>)| {
        let (book, node) = (ledger.loads.book(&settings)?, ledger.nodes.find(name)?);
        let own = ledger.balance(book, node);
        let spare: i64 = ledger.reservations.on(node).map(|held| held.spare.pods).sum();
        charged.map(|_| (own.requested.cpu_millis + own.reserved.cpu_millis, own.pods + spare))
    };
    NODES.iter().zip(charged).map(of).collect()
}

/// The same by the rule: all pods, and of each reservation what no pod uses.
fn expected(steps: &[Step]) -> Vec<Option<(i64, i64)>> {
    let latest = latest(steps);
    let is_there =
        |node: usize| latest.iter().any(|step| matches!(step, Step::Node(own) if *own == node));
    let of = |place: usize| {
        let (mut cpu_sum, mut pod_sum) = (0, 0);
        let users = |held: u8| {
            let mut sum = (0, 0);
            for step in &latest {
                if let Step::Pod { node, cpu, inside: Some(inside), .. } = step
                    && (*node, *inside) == (place, held)
                {
                    sum = (sum.0 + cpu, sum.1 + 1);
                }
            }
            sum
        };
        for step in &latest {
            match step {
                Step::Pod { node, cpu, .. } if *node == place => {
                    (cpu_sum, pod_sum) = (cpu_sum + cpu, pod_sum + 1);
                }
                Step::Held { number, node, cpu, pods } if *node == place => {
                    let (used, count) = users(*number);
                    cpu_sum += (cpu - used).max(0);
                    pod_sum += (pods.unwrap_or(1) - count).max(0);
                }
                _ => {}
            }
        }
        is_there(place).then_some((cpu_sum, pod_sum))
    };
    (0..2).map(of).collect()
}

proptest! {
    /// What pods use of a reservation is counted once, whatever came when, and nothing stays behind.
    #[test]
    fn a_node_is_charged_for_its_pods_and_for_what_of_reservations_no_pod_uses(
        steps in proptest::collection::vec(step(), 0..40),
    ) {
        let mut ledger = Ledger::default();
        for step in &steps {
            ledger.apply(fact(step));
        }
        prop_assert_eq!(charged(&ledger), expected(&steps));
        prop_assert_eq!(balanced(&ledger), charged(&ledger), "what people are told adds up to it");
        let mut anew = Ledger::default();
        for step in latest(&steps).iter().rev() {
            ledger.apply(fact(step));
            anew.apply(fact(step));
        }
        prop_assert_eq!(charged(&ledger), charged(&anew), "in another order, and twice");
        for number in 0..5 {
            ledger.apply(fact(&Step::PodGone(number)));
            ledger.apply(fact(&Step::HeldGone(number)));
        }
        for node in 0..2 {
            ledger.apply(fact(&Step::NodeGone(node)));
        }
        prop_assert!(ledger.reservations.is_empty() && ledger.asks.is_empty());
        prop_assert!(ledger.nodes.is_empty());
    }
}
