//! What must hold whatever happens, in whatever order.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::World;
use crate::kubelets::Setup;

#[derive(Debug, Clone)]
enum Op {
    Create { name: u8, node: u8, kind: u8, cpu: u8 },
    Delete { name: u8, grace: u8 },
    Remove { name: u8 },
    Resize { name: u8, cpu: u8 },
    Gate { name: u8, status: &'static str },
    Wait { ms: u32 },
    Fail { requests: u8 },
    Repeat,
    Restart,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0..12u8, 0..3u8, 0..10u8, 0..4u8)
            .prop_map(|(name, node, kind, cpu)| Op::Create { name, node, kind, cpu }),
        3 => (0..12u8, 0..20u8).prop_map(|(name, grace)| Op::Delete { name, grace }),
        1 => (0..12u8).prop_map(|name| Op::Remove { name }),
        1 => (0..12u8, 0..4u8).prop_map(|(name, cpu)| Op::Resize { name, cpu }),
        2 => (0..12u8, prop::sample::select(vec!["True", "False", "Unknown"]))
            .prop_map(|(name, status)| Op::Gate { name, status }),
        6 => (0..8000u32).prop_map(|ms| Op::Wait { ms }),
        1 => (1..20u8).prop_map(|requests| Op::Fail { requests }),
        1 => Just(Op::Repeat),
        1 => Just(Op::Restart),
    ];
    vec(op, 1..40)
}

fn setup(seed: u64) -> Setup {
    Setup { groups: vec!["3x4cpu,5pods".parse().unwrap()], seed, ..Setup::default() }
}

fn template(kind: u8, cpu: u8) -> (Value, Value) {
    let cpu = cpu.to_string();
    let main = json!({ "name": "main", "resources": { "requests": { "cpu": cpu } } });
    let mut spec = json!({ "containers": [main] });
    let mut annotations = json!({});
    let mut say = |key: &str, value: &str| {
        annotations[format!("hollow.gantry.dev/{key}")] = value.into();
    };
    spec["restartPolicy"] = ["Always", "OnFailure", "Never"][usize::from(kind) % 3].into();
    match kind {
        0 => {}
        1 => say("run-seconds", "3"),
        2 => say("exit-code", "1"),
        3 => spec["initContainers"] = json!([{ "name": "init" }]),
        4 => say("stop-seconds", "4"),
        5 => spec["activeDeadlineSeconds"] = 6.into(),
        6 => spec["initContainers"] = json!([{ "name": "side", "restartPolicy": "Always" }]),
        9 => spec["readinessGates"] = json!([{ "conditionType": "gate" }]),
        _ => say("ready-seconds", "0.7"),
    }
    if kind.is_multiple_of(2) {
        say("run-seconds", "2.5");
    }
    (spec, annotations)
}

fn play(seed: u64, ops: &[Op]) -> World {
    let mut world = World::new(&["3x4cpu,5pods"], seed);
    let name = |name: u8| format!("p{name}");
    for op in ops {
        match *op {
            Op::Create { name: pod, node, kind, cpu } => {
                let (spec, annotations) = template(kind, cpu);
                world.create(&name(pod), &format!("node-000{node}"), spec, annotations);
            }
            Op::Delete { name: pod, grace } => world.delete(&name(pod), grace.into()),
            Op::Remove { name: pod } => world.remove(&format!("default/{}", name(pod))),
            Op::Resize { name: pod, cpu } => world.change(&name(pod), |pod| {
                let requests = &mut pod["spec"]["containers"][0]["resources"]["requests"];
                requests["cpu"] = cpu.to_string().into();
            }),
            Op::Gate { name: pod, status } => {
                if world.pods.contains_key(&format!("default/{}", name(pod))) {
                    let said = json!([{ "type": "gate", "status": status }]);
                    world.contradict(&name(pod), json!({ "conditions": said }));
                }
            }
            Op::Wait { ms } => world.run(ms.into()),
            Op::Fail { requests } => world.failing = requests.into(),
            Op::Repeat => world.repeat(),
            Op::Restart => world.restart(setup(seed)),
        }
    }
    world.failing = 0;
    // Longer than the longest wait before another try, and every deadline and grace.
    world.run(120_000);
    world
}

/// Whether a pod should be ready: all its containers are, and the gate, where it has one, is open.
fn should_be_ready(pod: &Value) -> bool {
    let status = &pod["status"];
    let lists = [&status["containerStatuses"], &status["initContainerStatuses"]];
    let containers = lists.into_iter().filter_map(Value::as_array).flatten();
    let is_open = pod["spec"]["readinessGates"].is_null() || holds(pod, "gate");
    is_open && containers.into_iter().all(|container| container["ready"] == true)
}

fn holds(pod: &Value, kind: &str) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|own| own["type"] == kind && own["status"] == "True")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    // The world itself fails on a second final phase, a restart count that sinks, or two
    // requests at a time about one thing.
    #[test]
    fn by_time_alone_every_pod_runs_or_ends_and_every_deletion_is_done(
        seed in any::<u64>(),
        ops in ops(),
    ) {
        let world = play(seed, &ops);
        let mut live = [0usize; 4];
        let mut addresses = Vec::new();
        for (key, pod) in &world.pods {
            let phase = pod["status"]["phase"].as_str().unwrap();
            prop_assert!(pod["metadata"]["deletionTimestamp"].is_null(), "{} is still there", key);
            let column = ["Pending", "Running", "Succeeded", "Failed"].iter().position(|p| *p == phase);
            live[column.unwrap()] += 1;
            prop_assert!(phase != "Pending", "{} did not start: {}", key, pod["status"]);
            if phase == "Running" {
                prop_assert_eq!(holds(pod, "Ready"), should_be_ready(pod), "{}", pod);
                addresses.push(pod["status"]["podIP"].as_str().unwrap().to_owned());
            }
        }
        prop_assert_eq!(world.kubelets.counts().pods, live);
        let count = addresses.len();
        addresses.sort();
        addresses.dedup();
        prop_assert_eq!(addresses.len(), count, "two pods have one address");
        // Room is held by those that run, and by nobody else.
        let mut used = [0i64; 3];
        for pod in world.pods.values().filter(|pod| pod["status"]["phase"] == "Running") {
            let node: usize = pod["spec"]["nodeName"].as_str().unwrap()[8..].parse().unwrap();
            used[node] += 1;
        }
        let held: Vec<i64> = world.kubelets.nodes.iter().map(|node| node.used[0]).collect();
        prop_assert_eq!(held, used);
        prop_assert!(world.kubelets.nodes.iter().all(|node| node.used[1] <= 4000));
        prop_assert!(world.kubelets.shapes.len() <= 2 * world.pods.len());
    }

    #[test]
    fn one_seed_and_one_story_give_the_same_requests(seed in any::<u64>(), ops in ops()) {
        prop_assert_eq!(play(seed, &ops).log, play(seed, &ops).log);
    }

    #[test]
    fn events_that_were_seen_before_change_nothing(seed in any::<u64>(), ops in ops()) {
        let (mut plain, mut repeated) = (play(seed, &ops), play(seed, &ops));
        for _ in 0..20 {
            plain.run(700);
            repeated.repeat();
            repeated.run(350);
            repeated.repeat();
            repeated.run(350);
        }
        prop_assert_eq!(plain.log, repeated.log);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn heartbeats_are_never_late_and_never_all_at_once(nodes in 1..100u32, seed in any::<u64>()) {
        let mut world = World::new(&[nodes.to_string().as_str()], seed);
        world.run(60_000);
        prop_assert!(world.longest_gap_ms <= 10_000 + 1000, "{} ms", world.longest_gap_ms);
        let sent = |from: u64| {
            let renewals = world.log.iter().filter(|line| line.contains("/leases/"));
            let times = renewals.map(|line| line.split(' ').next().unwrap().parse::<u64>().unwrap());
            times.filter(|time| (from..from + 1000).contains(time)).count()
        };
        // A tenth of the nodes in each second, give or take one.
        let most = (40..50).map(|second| sent(second * 1000)).max().unwrap();
        prop_assert!(most <= nodes as usize / 10 + 2, "{} at once", most);
    }
}
