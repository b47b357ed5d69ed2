//! Single stories.

use http::Method;
use serde_json::{Value, json};

use super::world::World;
use crate::kubelets::{Obstacle, Setup};

fn one() -> Value {
    json!({ "containers": [{ "name": "main", "image": "nginx:1" }] })
}

fn asking(cpu: &str) -> Value {
    json!({ "containers": [{ "name": "main", "resources": { "requests": { "cpu": cpu } } }] })
}

fn with(mut spec: Value, field: &str, value: impl Into<Value>) -> Value {
    spec[field] = value.into();
    spec
}

/// Runs one pod for a while and says how it is: phase, the state of each container, and
/// its restarts.
fn check(spec: Value, annotations: Value, seconds: u64, want: &str) {
    let mut world = World::new(&["1"], 1);
    let annotations: serde_json::Map<String, Value> = annotations
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| (format!("hollow.gantry.dev/{key}"), value.clone()))
        .collect();
    world.create("p", "node-0000", spec.clone(), annotations.into());
    // The API server takes a moment to hear of it.
    world.run(seconds * 1000 + 100);
    let mut told = world.phase("p");
    for list in ["/initContainerStatuses", "/containerStatuses"] {
        for container in world.status("p", list).as_array().into_iter().flatten() {
            let state = &container["state"];
            let (kind, detail) = state.as_object().unwrap().iter().next().unwrap();
            let word = detail["reason"].as_str().unwrap_or(kind);
            let ready = if container["ready"] == true { "+" } else { "" };
            told.push_str(&format!(" {word}{ready}:{}", container["restartCount"]));
        }
    }
    assert_eq!(told, want, "{spec} after {seconds} s");
}

#[test]
fn a_pod_is_created_runs_and_ends_as_its_annotations_say() {
    check(one(), json!({}), 0, "Pending ContainerCreating:0");
    check(one(), json!({}), 1, "Running running+:0");
    check(one(), json!({ "start-seconds": "3" }), 2, "Pending ContainerCreating:0");
    check(one(), json!({ "ready-seconds": "3" }), 2, "Running running:0");
    check(one(), json!({ "ready-seconds": "3" }), 5, "Running running+:0");
    check(one(), json!({ "ready-seconds": "9", "run-seconds": "8" }), 8, "Running running:0");
    let never = with(one(), "restartPolicy", "Never");
    check(never.clone(), json!({ "run-seconds": "2" }), 9, "Succeeded Completed:0");
    let failing = json!({ "run-seconds": "2", "exit-code": "3" });
    check(never, failing.clone(), 9, "Failed Error:0");
    check(one(), json!({ "run-seconds": "soon" }), 9, "Pending CreateContainerConfigError:0");
    let late = with(one(), "activeDeadlineSeconds", 5);
    check(late, json!({}), 9, "Failed Error:0");
}

#[test]
fn containers_are_started_again_after_growing_waits() {
    let failing = json!({ "start-seconds": "0", "run-seconds": "2", "exit-code": "3" });
    check(one(), failing.clone(), 2, "Running Error:0");
    check(one(), failing.clone(), 4, "Running running+:1");
    check(one(), failing.clone(), 6, "Running CrashLoopBackOff:1");
    check(one(), failing.clone(), 16, "Running running+:2");
    check(one(), failing.clone(), 18, "Running CrashLoopBackOff:2");
    check(one(), failing, 38, "Running running+:3");
    let well = json!({ "start-seconds": "0", "run-seconds": "2" });
    check(with(one(), "restartPolicy", "OnFailure"), well.clone(), 9, "Succeeded Completed:0");
    check(one(), well, 6, "Running CrashLoopBackOff:1");
}

#[test]
fn init_containers_and_sidecars_have_their_turn() {
    let spec = json!({
        "initContainers": [
            { "name": "one" }, { "name": "side", "restartPolicy": "Always" }, { "name": "two" },
        ],
        "containers": [{ "name": "main" }, { "name": "other" }],
    });
    let slow = json!({ "start-seconds": "0", "init-seconds": "2", "run-seconds": "4" });
    let waiting = "PodInitializing";
    check(
        spec.clone(),
        slow.clone(),
        1,
        &format!("Pending running:0 {waiting}:0 {waiting}:0 {waiting}:0 {waiting}:0"),
    );
    check(
        spec.clone(),
        slow.clone(),
        3,
        &format!("Pending Completed+:0 running+:0 running:0 {waiting}:0 {waiting}:0"),
    );
    check(
        spec.clone(),
        slow.clone(),
        5,
        "Running Completed+:0 running+:0 Completed+:0 running+:0 running+:0",
    );
    let never = with(spec.clone(), "restartPolicy", "Never");
    check(
        never.clone(),
        slow,
        9,
        "Succeeded Completed+:0 Completed:0 Completed+:0 Completed:0 Completed:0",
    );
    let failing = json!({ "start-seconds": "0", "init-exit-code": "1" });
    check(
        never,
        failing.clone(),
        9,
        &format!("Failed Error:0 {waiting}:0 {waiting}:0 {waiting}:0 {waiting}:0"),
    );
    check(
        spec,
        failing,
        9,
        &format!("Pending CrashLoopBackOff:1 {waiting}:0 {waiting}:0 {waiting}:0 {waiting}:0"),
    );
    // One container may end while another goes on.
    let two = json!({ "containers": [{ "name": "a" }, { "name": "b" }], "restartPolicy": "Never" });
    check(two, json!({ "run-seconds.a": "1" }), 9, "Running Completed:0 running+:0");
}

#[test]
fn a_pod_that_does_not_fit_fails_as_on_a_real_node() {
    let mut world = World::new(&["1x4cpu,2pods"], 1);
    world.create("a", "node-0000", asking("3"), json!({}));
    world.create("b", "node-0000", asking("2"), json!({}));
    world.create("c", "node-0000", asking("1"), json!({}));
    world.create("d", "node-0000", asking("0"), json!({}));
    world.run(2000);
    assert_eq!(
        ["a", "b", "c", "d"].map(|name| world.phase(name)),
        ["Running", "Failed", "Running", "Failed"]
    );
    assert_eq!(world.status("b", "/reason"), "OutOfcpu");
    assert_eq!(
        world.status("b", "/message"),
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 2000, used: 3000, \
         capacity: 4000"
    );
    assert_eq!(world.status("d", "/reason"), "OutOfpods");
    // What ended makes room.
    world.delete("a", 30);
    world.run(1000);
    world.create("e", "node-0000", asking("3"), json!({}));
    world.run(2000);
    assert_eq!([world.phase("a"), world.phase("e")], ["gone", "Running"]);
}

#[test]
fn deletion_waits_for_the_containers_and_no_longer_than_the_grace() {
    let slow = json!({ "hollow.gantry.dev/stop-seconds": "5" });
    let mut world = World::new(&["1"], 1);
    world.create("polite", "node-0000", one(), slow.clone());
    world.create("slow", "node-0000", one(), slow);
    world.run(2000);
    world.delete("polite", 30);
    world.delete("slow", 3);
    world.run(2000);
    assert_eq!([world.phase("polite"), world.phase("slow")], ["Running", "Running"]);
    world.run(2000);
    assert_eq!([world.phase("polite"), world.phase("slow")], ["Running", "gone"]);
    world.run(2000);
    assert_eq!(world.phase("polite"), "gone");
    for name in ["polite", "slow"] {
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        assert_eq!(world.asked(&Method::DELETE, &path), 1);
    }
}

#[test]
fn amounts_change_in_place_when_there_is_room() {
    let mut world = World::new(&["1x4cpu"], 1);
    world.create("a", "node-0000", asking("1"), json!({}));
    world.create("b", "node-0000", asking("2"), json!({}));
    world.run(2000);
    let ask = |world: &mut World, cpu: &str| {
        world.change("a", |pod| {
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu.into();
        });
        world.run(1000);
    };
    let told = |world: &World| {
        let conditions = world.status("a", "/conditions");
        let pending =
            conditions.as_array().unwrap().iter().find(|c| c["type"] == "PodResizePending");
        let cpu = world.status("a", "/containerStatuses/0/allocatedResources/cpu");
        let reason = pending.map_or(Value::Null, |condition| condition["reason"].clone());
        format!("{} {}", cpu.as_str().unwrap(), reason.as_str().unwrap_or("-"))
    };
    ask(&mut world, "2");
    assert_eq!(told(&world), "2 -");
    ask(&mut world, "3");
    assert_eq!(told(&world), "2 Deferred");
    ask(&mut world, "5");
    assert_eq!(told(&world), "2 Infeasible");
    ask(&mut world, "2");
    assert_eq!(told(&world), "2 -");
    ask(&mut world, "3");
    world.delete("b", 30);
    world.run(1000);
    assert_eq!(told(&world), "3 -");
}

#[test]
fn another_process_takes_up_pods_where_the_former_left_them() {
    let setup = || Setup { groups: vec!["1x4cpu".parse().unwrap()], ..Setup::default() };
    let mut world = World::new(&["1x4cpu"], 1);
    let until = json!({ "hollow.gantry.dev/run-seconds": "20" });
    world.create("runs", "node-0000", with(asking("3"), "restartPolicy", "Never"), until);
    world.run(5000);
    let address = world.status("runs", "/podIP");
    // Bound while nobody was there; by name it comes first, but the room is taken.
    world.create("bound", "node-0000", asking("2"), json!({}));
    world.restart(setup());
    world.run(2000);
    assert_eq!([world.phase("runs"), world.phase("bound")], ["Running", "Failed"]);
    assert_eq!(world.status("runs", "/podIP"), address);
    world.run(20_000);
    assert_eq!(world.phase("runs"), "Succeeded");
    assert_eq!(world.asked(&Method::POST, "/api/v1/nodes"), 2);
    assert_eq!(world.asked(&Method::PATCH, "/api/v1/nodes/node-0000"), 1);
}

#[test]
fn another_process_gives_no_more_room_than_there_is() {
    let setup = || Setup { groups: vec!["1x4cpu".parse().unwrap()], ..Setup::default() };
    let check = |told_before: bool| {
        let mut world = World::new(&["1x4cpu"], 1);
        world.create("a", "node-0000", asking("1"), json!({}));
        world.create("b", "node-0000", asking("3"), json!({}));
        world.run(5000);
        world.change("a", |pod| {
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2".into();
        });
        if told_before {
            world.run(1000);
        }
        world.restart(setup());
        world.run(1000);
        assert_eq!(world.kubelets.nodes[0].used[1], 4000);
        let waits = |world: &World, pod: &str| {
            let conditions = world.status(pod, "/conditions");
            conditions.as_array().unwrap().iter().any(|own| own["type"] == "PodResizePending")
        };
        // Where nobody knows which of them was changed, it may be either.
        assert!(waits(&world, "a") || !told_before && waits(&world, "b"));
        world.delete("b", 0);
        world.run(5000);
        assert_eq!(world.kubelets.nodes[0].used[1], 2000);
        assert!(!waits(&world, "a"));
    };
    check(true);
    check(false);
}

#[test]
fn a_node_that_somebody_deleted_is_left_in_peace() {
    let mut world = World::new(&["2"], 1);
    world.run(1000);
    world.forget_node("node-0001");
    world.run(700_000);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-0001";
    let before = world.asked(&Method::PATCH, lease);
    world.run(100_000);
    assert_eq!(world.asked(&Method::PATCH, lease), before);
    assert_eq!(world.asked(&Method::POST, "/api/v1/nodes"), 2);
}

#[test]
fn the_load_of_a_node_is_that_of_its_pods_and_its_own() {
    let mut world = World::new(&["1"], 1);
    let load = |cpu: &str| json!({ "hollow.gantry.dev/cpu-usage": cpu, "hollow.gantry.dev/memory-usage": "64Mi" });
    world.create("a", "node-0000", one(), load("250m"));
    world.create("b", "node-0000", one(), load("2"));
    world.run(130_000);
    let metric = &world.metrics["node-0000"];
    assert_eq!(metric.metadata.owner_references[0].kind, "Node");
    let policy = metric.spec.metric_collect_policy.as_ref().unwrap();
    assert_eq!(policy.report_interval_seconds, Some(60));
    let pods: Vec<String> = metric
        .status
        .pods_metric
        .iter()
        .map(|pod| {
            let amount = |name: &str| pod.pod_usage.resources.get(name).unwrap().to_string();
            format!("{} {} {}", pod.pod.name(), amount("cpu"), amount("memory"))
        })
        .collect();
    assert_eq!(pods, ["a 250m 64Mi", "b 2 64Mi"]);
    let usage = metric.status.node_metric.as_ref().unwrap();
    let millis = |own: &api::node_metric::ResourceMap| {
        own.resources.get("cpu").unwrap().checked_scaled_value(-3).unwrap()
    };
    assert_eq!(millis(&usage.node_usage), millis(&usage.system_usage) + 2250);
    assert!(metric.status.update_time.is_some());
}

#[test]
fn load_is_reported_once_a_minute_also_when_the_kind_was_gone_for_a_while() {
    let mut world = World::new(&["1"], 1);
    let own = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics/node-0000/status";
    let reports = |world: &mut World| {
        let before = world.asked(&Method::PATCH, own);
        world.run(600_000);
        world.asked(&Method::PATCH, own) - before
    };
    world.run(130_000);
    assert_eq!(reports(&mut world), 10);
    // It goes and comes again between two reports.
    world.are_metrics_served = false;
    world.metrics.clear();
    while world.asked(&Method::POST, "/apis/slo.koordinator.sh/v1alpha1/nodemetrics") < 2 {
        world.run(100);
    }
    world.run(1_000);
    world.are_metrics_served = true;
    world.run(70_000);
    assert_eq!(reports(&mut world), 10);
}

#[test]
fn a_report_tells_what_was_used_for_a_while() {
    let mut world = World::new(&["1"], 1);
    world.run(130_000);
    let windows = |world: &World| -> Vec<(i64, Vec<i64>)> {
        let usage = world.metrics["node-0000"].status.node_metric.clone().unwrap();
        let millis = |own: &api::node_metric::ResourceMap| {
            own.resources.get("cpu").unwrap().checked_scaled_value(-3).unwrap()
        };
        let figures = |one: &api::node_metric::AggregatedUsage| {
            ["avg", "p50", "p90", "p95", "p99"]
                .map(|figure| millis(one.usage.get(figure).unwrap()))
                .into()
        };
        let seconds = |one: &api::node_metric::AggregatedUsage| {
            one.duration.unwrap().as_nanos() / 1_000_000_000
        };
        usage.aggregated_node_usages.iter().map(|one| (seconds(one), figures(one))).collect()
    };
    assert_eq!(windows(&world), [], "too little is known");
    world.run(1_800_000);
    // A pod that is there for three minutes is seen in what is highest, and not in what is usual.
    let load = json!({ "hollow.gantry.dev/cpu-usage": "4" });
    world.create("hot", "node-0000", one(), load);
    world.run(180_000);
    let told = windows(&world);
    let lengths: Vec<i64> = told.iter().map(|(seconds, _)| *seconds).collect();
    assert_eq!(lengths, [300, 600, 1800]);
    let is_hot = |figure: &i64| *figure > 4_000;
    let hot: Vec<Vec<bool>> =
        told.iter().map(|(_, figures)| figures.iter().map(is_hot).collect()).collect();
    let rare = [false, false, true, true, true];
    assert_eq!(hot, [rare, rare, [false, false, false, true, true]]);
}

const STATUS: &str = "/api/v1/namespaces/default/pods/p/status";

fn unready() -> Value {
    json!({ "conditions": [
        { "type": "Ready", "status": "False", "lastTransitionTime": "2027-01-15T09:00:00Z" },
    ] })
}

fn condition(world: &World, kind: &str) -> Value {
    let conditions = world.status("p", "/conditions");
    conditions.as_array().unwrap().iter().find(|own| own["type"] == kind).cloned().unwrap()
}

fn is_ready(world: &World) -> bool {
    condition(world, "Ready")["status"] == "True"
}

#[test]
fn what_others_write_over_the_status_of_a_pod_is_told_again() {
    let check = |status: Value, writes: usize| {
        let mut world = World::new(&["1"], 1);
        world.create("p", "node-0000", one(), json!({}));
        world.run(5000);
        let (before, told) = (world.pods.clone(), world.asked(&Method::PATCH, STATUS));
        world.contradict("p", status.clone());
        world.run(1000);
        let mut after = world.pods["default/p"]["status"].clone();
        let mut want = before["default/p"]["status"].clone();
        for status in [&mut after, &mut want] {
            let list = status["conditions"].as_array_mut().unwrap();
            list.retain(|own| own["type"] != "mine");
            list.sort_by_key(|own| own["type"].to_string());
        }
        assert_eq!(after, want, "{status}");
        assert_eq!(world.asked(&Method::PATCH, STATUS) - told, writes, "{status}");
    };
    check(unready(), 1);
    check(json!({ "phase": "Pending" }), 1);
    check(json!({ "startTime": "2027-01-15T09:00:00Z" }), 1);
    check(json!({ "containerStatuses": [] }), 1);
    let other = json!({ "type": "PodReadyToStartContainers", "status": "True", "reason": "x" });
    check(json!({ "conditions": [other] }), 1);
    // What is not the node's is left alone.
    check(json!({ "conditions": [{ "type": "mine", "status": "False" }] }), 0);
    check(json!({}), 0);
}

/// A ready container behind readiness gates: what is told of the pod while others say `told`.
#[test]
fn a_pod_is_ready_when_its_gates_are_open_too() {
    let check = |gates: &[&str], told: &[(&str, &str)], want: Result<(), &str>| {
        let mut world = World::new(&["1"], 1);
        let named = gates.iter().map(|name| json!({ "conditionType": name }));
        let spec = with(one(), "readinessGates", named.collect::<Vec<_>>());
        world.create("p", "node-0000", spec, json!({}));
        world.run(5000);
        let said = told.iter().map(|(name, status)| json!({ "type": name, "status": status }));
        world.contradict("p", json!({ "conditions": said.collect::<Vec<_>>() }));
        world.run(5000);
        let (ready, containers) =
            (condition(&world, "Ready"), condition(&world, "ContainersReady"));
        assert_eq!(containers["status"], "True");
        assert_eq!(ready["status"] == "True", want.is_ok(), "{gates:?} {told:?}");
        let reason = want.is_err().then_some("ReadinessGatesNotReady");
        let why = (ready["reason"].as_str(), ready["message"].as_str());
        assert_eq!(why, (reason, want.err()), "{gates:?} {told:?}");
    };
    check(&[], &[("a", "False")], Ok(()));
    check(&["a"], &[("a", "True")], Ok(()));
    let missing = "corresponding condition of pod readiness gate \"a\" does not exist.";
    check(&["a"], &[("b", "True")], Err(missing));
    let closed = "the status of pod readiness gate \"a\" is not \"True\", but False";
    check(&["a"], &[("a", "False")], Err(closed));
    let unknown = "the status of pod readiness gate \"b\" is not \"True\", but Unknown";
    check(&["b", "a"], &[("b", "Unknown")], Err(&format!("{unknown}, {missing}")));
    check(&["b", "a"], &[("b", "True"), ("a", "False")], Err(closed));
    // Conditions of the node itself: the first is known when the gates are looked at.
    check(&["Initialized"], &[], Ok(()));
    let never = "corresponding condition of pod readiness gate \"ContainersReady\" does not exist.";
    check(&["ContainersReady"], &[], Err(never));
}

#[test]
fn a_gate_that_moves_is_told_once_and_survives_a_restart() {
    let mut world = World::new(&["1"], 1);
    let spec = with(one(), "readinessGates", json!([{ "conditionType": "a" }]));
    world.create("p", "node-0000", spec, json!({}));
    world.run(5000);
    let ready_since = condition(&world, "ContainersReady")["lastTransitionTime"].clone();
    for status in ["True", "False", "True"] {
        let told = world.asked(&Method::PATCH, STATUS);
        world.contradict("p", json!({ "conditions": [{ "type": "a", "status": status }] }));
        world.run(5000);
        assert_eq!(condition(&world, "Ready")["status"], status);
        assert_eq!(world.asked(&Method::PATCH, STATUS), told + 1);
    }
    let before = world.status("p", "/conditions");
    world.restart(Setup { groups: vec!["1".parse().unwrap()], ..Setup::default() });
    world.run(20_000);
    assert_eq!(world.status("p", "/conditions"), before);
    // It is the gate that moved, not the containers.
    assert_eq!(condition(&world, "ContainersReady")["lastTransitionTime"], ready_since);
    assert_ne!(condition(&world, "Ready")["lastTransitionTime"], ready_since);
}

#[test]
fn two_who_disagree_about_a_pod_write_at_a_bounded_pace() {
    let mut world = World::new(&["1"], 1);
    world.create("p", "node-0000", one(), json!({}));
    world.run(5000);
    let told = world.asked(&Method::PATCH, STATUS);
    for _ in 0..600 {
        world.contradict("p", unready());
        world.run(100);
    }
    let writes = world.asked(&Method::PATCH, STATUS) - told;
    assert!((6..=7).contains(&writes), "{writes} in a minute");
    world.run(20_000);
    assert!(is_ready(&world));
}

#[test]
fn an_event_from_before_the_last_report_is_no_contradiction() {
    let mut world = World::new(&["1"], 1);
    world.create("p", "node-0000", one(), json!({}));
    let mut past = vec![world.pods["default/p"].clone()];
    for _ in 0..20 {
        world.run(100);
        past.push(world.pods["default/p"].clone());
    }
    world.run(20_000);
    let told = world.asked(&Method::PATCH, STATUS);
    for pod in &past[..past.len() - 1] {
        world.tell_late(pod);
        world.run(500);
    }
    assert_eq!(world.asked(&Method::PATCH, STATUS), told);
}

#[test]
fn pods_that_were_given_up_meanwhile_are_ready_again_after_a_restart() {
    let mut world = World::new(&["1"], 1);
    world.create("p", "node-0000", one(), json!({}));
    world.run(5000);
    world.contradict("p", unready());
    world.restart(Setup { groups: vec!["1".parse().unwrap()], ..Setup::default() });
    world.run(1000);
    assert!(is_ready(&world), "{}", world.status("p", ""));
}

#[test]
fn a_node_that_somebody_gave_up_reports_at_once_that_it_is_there() {
    const REPORT: &str = "/api/v1/nodes/node-0000/status";
    let mut world = World::new(&["1"], 1);
    world.run(5000);
    let (ready, since) = world.condition("node-0000", "Ready");
    let unknown = |kind: &str| {
        json!({ "conditions": [{ "type": kind, "status": "Unknown",
                                 "lastTransitionTime": "2027-01-15T09:00:00Z" }] })
    };
    let told = world.asked(&Method::PATCH, REPORT);
    world.contradict_node("node-0000", &unknown("Ready"));
    world.run(100);
    let (ready_again, since_again) = world.condition("node-0000", "Ready");
    assert_eq!((ready.as_str(), ready_again.as_str()), ("True", "True"));
    assert!(since_again > since, "{since_again}");
    assert_eq!(world.asked(&Method::PATCH, REPORT), told + 1);
    // One that disagrees for a minute is answered every ten seconds.
    for _ in 0..600 {
        world.contradict_node("node-0000", &unknown("DiskPressure"));
        world.run(100);
    }
    let reports = world.asked(&Method::PATCH, REPORT) - told;
    assert!((6..=8).contains(&reports), "{reports} in a minute");
    world.run(20_000);
    assert_eq!(world.condition("node-0000", "DiskPressure").0, "False");
    assert_eq!(world.condition("node-0000", "Ready").1, since_again);
    let settled = world.asked(&Method::PATCH, REPORT);
    world.run(60_000);
    assert_eq!(world.asked(&Method::PATCH, REPORT), settled);
}

#[test]
fn a_node_stands_by_its_amounts_and_leaves_those_of_others() {
    let check = |status: Value, want: &str| {
        let mut world = World::new(&["1x4cpu,8Gi"], 1);
        world.run(5000);
        world.contradict_node("node-0000", &status);
        world.run(1000);
        let status_of = |field: &str| {
            let amounts = world.nodes["node-0000"]["status"][field].as_object().unwrap().clone();
            let told = amounts.iter().filter(|(name, _)| *name != "ephemeral-storage");
            told.map(|(name, amount)| format!("{name}={}", amount.as_str().unwrap()))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let told = format!("{} | {}", status_of("capacity"), status_of("allocatable"));
        assert_eq!(told, want, "{status}");
    };
    let own = "cpu=4 memory=8Gi pods=110";
    let same = format!("{own} | {own}");
    check(json!({ "capacity": { "cpu": "400" } }), &same);
    check(json!({ "allocatable": { "cpu": "1", "memory": null } }), &same);
    check(json!({ "capacity": { "pods": null }, "allocatable": { "pods": "1" } }), &same);
    // What others add to the capacity can be had; what is not in it cannot.
    let added = json!({ "capacity": { "example.com/dongle": "4" } });
    let with = "cpu=4 example.com/dongle=4 memory=8Gi pods=110";
    check(added, &format!("{with} | {with}"));
    check(json!({ "allocatable": { "example.com/dongle": "4" } }), &same);
    let both = json!({ "capacity": { "example.com/dongle": "4" },
                       "allocatable": { "example.com/dongle": "4" } });
    check(both, &format!("{with} | {with}"));
}

#[test]
fn who_disagrees_about_amounts_is_answered_at_a_bounded_pace() {
    let mut world = World::new(&["1"], 1);
    world.run(5000);
    let told = world.asked(&Method::PATCH, "/api/v1/nodes/node-0000/status");
    for _ in 0..600 {
        world.contradict_node("node-0000", &json!({ "allocatable": { "cpu": "1" } }));
        world.run(100);
    }
    let reports = world.asked(&Method::PATCH, "/api/v1/nodes/node-0000/status") - told;
    assert!((6..=8).contains(&reports), "{reports} in a minute");
}

/// Another process that runs the nodes of this one, and what it does after `kept` is what the
/// lease of the first node becomes.
fn second(holder: &str, change: impl FnOnce(&mut World)) -> World {
    let mut world = World::new(&["2"], 1);
    world.run(5000);
    change(&mut world);
    let groups = vec!["2".parse().unwrap()];
    world.restart(Setup { groups, holder: holder.to_owned(), ..Setup::default() });
    world
}

#[test]
fn nodes_that_somebody_else_runs_are_left_to_them() {
    let mut world = second("another", |_| {});
    world.run(1000);
    assert!(!world.kubelets.is_open());
    assert_eq!(world.kubelets.counts().suspected, 2);
    // The first process goes on: it renews its lease.
    let renewed = object::time::MicroTime::from(super::world::at(world.now_ms).wall);
    let lease = world.leases.get_mut("node-0001").unwrap();
    lease["spec"]["renewTime"] = renewed.to_string().into();
    let before = world.nodes.clone();
    world.run(15_000);
    let holder = "hollow nodes".to_owned();
    assert_eq!(world.gave_up, Some(Obstacle::Held { node: "node-0001".to_owned(), holder }));
    assert_eq!(world.nodes, before);
}

#[test]
fn of_two_who_begin_at_the_same_time_one_gives_up() {
    let mut world = World::new(&["2"], 1);
    let node = json!({ "metadata": { "name": "node-0001", "uid": "other" } });
    world.nodes.insert("node-0001".to_owned(), node);
    world.run(1000);
    assert_eq!(world.gave_up, Some(Obstacle::Met { node: "node-0001".to_owned() }));
    // One's own request of which the answer was lost is no such thing.
    let mut world = World::new(&["2"], 3);
    world.failing = 3;
    world.run(60_000);
    assert_eq!((&world.gave_up, world.kubelets.counts().registered), (&None, 2));
}

#[test]
fn nodes_that_nobody_runs_any_more_are_taken_over() {
    let check = |holder: &str, change: fn(&mut World), wait_ms: u64| {
        let mut world = second(holder, change);
        let mut waited = 0;
        while !world.kubelets.is_open() {
            world.run(100);
            waited += 100;
            assert!(waited < 60_000);
        }
        assert_eq!(world.gave_up, None);
        assert!(waited <= wait_ms && waited + 3000 > wait_ms, "{waited} of {wait_ms}");
        world.run(1000);
        let held = &world.leases["node-0000"]["metadata"]["annotations"];
        assert_eq!(held["hollow.gantry.dev/held-by"], holder);
    };
    let nothing = |_: &mut World| {};
    // It was killed: nobody renews.
    check("another", nothing, 12_600);
    // It ended as it should.
    let ended = |world: &mut World| {
        for request in world.kubelets.releases() {
            world.take(&request);
        }
    };
    check("another", ended, 200);
    // It ended long ago.
    check("another", |world| world.now_ms += 60_000, 200);
    // It was this very one.
    check("hollow nodes", nothing, 200);
    // A kubelet that was there before, which says no more than its name.
    let kubelet = |world: &mut World| {
        for lease in world.leases.values_mut() {
            lease["metadata"]["annotations"] = Value::Null;
        }
    };
    check("another", kubelet, 12_600);
}

#[test]
fn groups_of_different_names_share_no_addresses() {
    let addresses = |world: &World| -> Vec<String> {
        let status = world.nodes.values().map(|node| &node["status"]["addresses"][0]["address"]);
        status.map(|address| address.as_str().unwrap().to_owned()).collect()
    };
    let mut world = World::new(&["3", "3xname=extra", "3xname=other"], 1);
    world.run(1000);
    let mut all = addresses(&world);
    assert!(all.contains(&"172.16.0.1".to_owned()), "{all:?}");
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 9);
    // Another process goes around what is there, and knows its own again.
    let before = world.nodes.clone();
    let groups = vec!["3".parse().unwrap(), "3xname=third".parse().unwrap()];
    world.nodes.get_mut("extra-0000").unwrap()["status"]["addresses"][0]["address"] =
        "172.16.0.4".into();
    world.restart(Setup { groups, ..Setup::default() });
    world.run(1000);
    assert_eq!(
        world.nodes["node-0002"]["status"]["addresses"],
        before["node-0002"]["status"]["addresses"]
    );
    let mut all = addresses(&world);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 12);
}

#[test]
fn users_are_told_of_annotations_that_make_no_sense_once() {
    let mut world = World::new(&["1"], 1);
    let annotations = json!({ "hollow.gantry.dev/run-seconds": "soon",
                              "hollow.gantry.dev/exitcode": "1" });
    world.create("p", "node-0000", one(), annotations);
    world.create("q", "node-0000", one(), json!({ "hollow.gantry.dev/run-seconds": "3" }));
    world.run(20_000);
    world.repeat();
    world.run(1000);
    let unreadable = "default/p InvalidAnnotation annotation hollow.gantry.dev/run-seconds: \
                      \"soon\" is no number of seconds; write one such as 30 or 0.5, at most \
                      316224000";
    let unknown = "default/p UnknownAnnotation annotation hollow.gantry.dev/exitcode=\"1\" is \
                   unknown and means nothing: did you mean hollow.gantry.dev/exit-code?";
    assert_eq!(world.notes, [unreadable, unknown]);
    assert_eq!(world.phase("p"), "Pending");
    // Mended, it runs; broken in another way, that is told.
    world.change("p", |pod| {
        pod["metadata"]["annotations"] = json!({ "hollow.gantry.dev/cpu-usage": "1" });
    });
    world.run(2000);
    assert_eq!((world.phase("p").as_str(), world.notes.len()), ("Running", 2));
    world.change("p", |pod| {
        pod["metadata"]["annotations"] = json!({ "hollow.gantry.dev/cpu-usage": "much" });
    });
    world.run(2000);
    assert_eq!(world.notes.len(), 3);
    assert!(world.notes[2].contains("cpu-usage: \"much\" is no amount"), "{}", world.notes[2]);
}
