mod gangs;
mod nominations;
mod overdue;
mod quotas;
mod reservations;
mod sights;
mod tellings;

use std::time::Duration;

use api::cpus::{CPU_TOPOLOGY, RESOURCE_STATUS};
use api::reservation::ALLOCATED;
use api::{Node, NodeResourceTopology, Pod};
use chassis::metrics::Metrics;
use engine::fact::{NodeFact, StorageFact};
use engine::plugins::node_numa_resource::NodeNuma;
use engine::plugins::reservation::Reservation;
use engine::profile::Profile;
use serde_json::{Value, json};

use super::*;
use crate::config::{self, Extender};
use crate::debug::DecisionView;
use crate::message::{TellOrder, Wrote};
use crate::reservations::Step;
use crate::{extenders, feed};

const NAME: &str = "default-scheduler";
const START: Moment = Moment(1_000_000_000_000);

fn core() -> Core {
    extended(&[])
}

/// A scheduler with these extenders.
fn extended(extenders: &[Extender]) -> Core {
    counted(extenders, &Metrics::new())
}

/// The same that counts there.
fn counted(extenders: &[Extender], metrics: &Metrics) -> Core {
    let consulting = extenders::consulting(extenders);
    let profiles = vec![(NAME.into(), Profile { consulting, ..Profile::kubernetes() })];
    let engine = Engine::new(turn::Settings::default(), profiles, START);
    let core = Core::new(engine, [NAME.into()], Meters::register(metrics));
    core.with_binders(Binders::of(extenders))
}

fn node(name: &str, cpu: u32) -> Message {
    let allocatable = json!({ "cpu": cpu.to_string(), "memory": "64Gi", "pods": "100000" });
    let node = json!({ "metadata": { "name": name }, "status": { "allocatable": allocatable } });
    let node: Node = serde_json::from_value(node).unwrap();
    Message::Fact(Fact::Node(NodeFact::from(&node)))
}

/// A pod that asks for so many CPUs, with more of its own.
fn pod(name: &str, cpu: &str, more: Value) -> Message {
    let mut pod = json!({
        "metadata": { "name": name, "namespace": "ns", "uid": name, "generation": 1 },
        "spec": { "schedulerName": NAME, "containers": [
            { "name": "main", "resources": { "requests": { "cpu": cpu } } }] },
    });
    pod = object::patch::merge::apply(pod, more).unwrap();
    let pod: Pod = serde_json::from_value(pod).unwrap();
    feed::news(pod)
}

/// A scheduler that decides, on a node with so many CPUs.
fn deciding(cpu: u32) -> Core {
    begun(core(), cpu)
}

fn begun(mut core: Core, cpu: u32) -> Core {
    tell(&mut core, [node("n1", cpu)]);
    tell(&mut core, Kind::ALL.map(Message::Synced));
    core
}

fn tell(core: &mut Core, messages: impl IntoIterator<Item = Message>) {
    for message in messages {
        assert_eq!(core.take(message, START), None);
    }
}

fn decisions(core: &mut Core, now: Moment) -> Vec<Order> {
    std::iter::from_fn(|| core.next_order(now)).collect()
}

/// What is decided, in few words.
fn shown(order: &Order) -> String {
    match order {
        Order::Bind(order) => format!("{} to {}", order.pod.name, order.node),
        Order::Group(order) => format!("group {}", order.key),
        Order::Consult(order) => format!("{} of {}?", order.pod.name, order.nodes.join("+")),
        Order::Prepare(order) => format!("{} first needs {:?}", order.pod.name, order.writes),
        Order::Tell(order) => {
            let TellOrder { pod, message, condition, nominated, room, .. } = &**order;
            let condition = condition.as_ref().map_or("unchanged".to_owned(), |condition| {
                let sign = if condition.is_transition { "now" } else { "still" };
                format!("{sign} {} of {}", condition.reason, condition.generation)
            });
            let nominated =
                nominated.as_ref().map_or(String::new(), |node| format!(" on {node:?}"));
            let room = room.as_ref().map_or(String::new(), |room| {
                let names = |pods: &[PodRef]| {
                    pods.iter().map(|pod| pod.name.to_string()).collect::<Vec<_>>().join("+")
                };
                format!(" instead of {} past {}", names(&room.victims), names(&room.passed_over))
            });
            // What is said of last resorts is the engine's business.
            let message = message.split(" no new claims").next().unwrap_or_default();
            format!("{}: {message} ({condition}){nominated}{room}", pod.name)
        }
        Order::Complain(what) => format!("{} cannot be read: {}", what.key, what.error),
        Order::Live(order) => match &order.step {
            Step::Delete => format!("{} goes", order.name),
            step => format!("{}: {step:?}", order.name),
        },
        Order::Report(order) => format!("{order:?}"),
        Order::Quota(order) => format!("{}: {}", order.key, order.patch),
        Order::Dismiss(order) => format!("{} goes for {}", order.pod.name, order.object.0),
    }
}

#[track_caller]
fn check(core: &mut Core, now: Moment, expected: &[&str]) {
    let decided: Vec<String> = decisions(core, now).iter().map(shown).collect();
    assert_eq!(decided, expected);
}

/// What came of the Binding of a pod that is in flight.
fn answer(core: &Core, pod: &str, outcome: Outcome) -> Message {
    Message::Answered(errand(core, pod), Answer::Definite(outcome))
}

fn errand(core: &Core, pod: &str) -> Errand {
    let uid = Uid::new(pod);
    Errand { number: core.flights[&uid].number, uid }
}

#[test]
fn what_the_author_of_a_pod_says_that_it_got_counts_for_nothing() {
    let mut core = deciding(8);
    let own = json!({ "name": "r", "uid": "u" }).to_string();
    let annotations = json!({ RESOURCE_STATUS: r#"{"cpuset":"0-3"}"#, ALLOCATED: own });
    let more = json!({ "metadata": { "annotations": annotations } });
    tell(&mut core, [pod("forger", "1", more), pod("plain", "1", json!({}))]);
    for order in decisions(&mut core, START) {
        let Order::Bind(order) = order else { panic!("{order:?}") };
        let stamps: Vec<_> = order.stamps.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        match &*order.pod.name {
            "forger" => assert_eq!(stamps, [(ALLOCATED, "{}"), (RESOURCE_STATUS, "{}")]),
            _ => assert_eq!(stamps, []),
        }
    }
}

#[test]
fn nothing_is_decided_before_everything_is_told() {
    let mut core = core();
    tell(&mut core, [pod("p", "1", json!({})), node("n1", 4)]);
    for kind in Kind::read_by(core.engine().ledger()) {
        check(&mut core, START, &[]);
        assert!(!core.is_filled());
        assert_eq!(core.next_due(START), None, "only a message can help");
        tell(&mut core, [Message::Synced(kind)]);
    }
    assert!(core.is_filled());
    check(&mut core, START, &["p to n1"]);
}

#[test]
fn what_no_node_helps_with_is_told_with_a_reason_of_its_own() {
    let mut core = deciding(4);
    let rule = json!({ "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule" });
    let rules = json!({ "spec": { "topologySpreadConstraints": vec![rule; 257] } });
    let claims = json!({ "spec": { "resourceClaims": [{ "name": "gpu" }] } });
    let most = "9223372036854775807";
    tell(&mut core, [pod("a", "1", rules), pod("b", "1", claims), pod("c", most, json!({}))]);
    let told: Vec<String> = decisions(&mut core, START).iter().map(shown).collect();
    let ends = ["(now TooManyTerms of 1)", "(now ResourceClaimsNotAllocated of 1)"];
    for (told, end) in told.iter().zip(ends.iter().chain(&["(now Unschedulable of 1)"])) {
        assert!(told.ends_with(end), "{told}");
    }
    assert!(told[2].starts_with("c: 0/1 nodes are available: 1 Insufficient cpu."), "{told:?}");
}

#[test]
fn only_pods_that_are_ours_and_have_no_node_get_one() {
    let mut core = deciding(4);
    tell(
        &mut core,
        [
            pod("theirs", "1", json!({ "spec": { "schedulerName": "other" } })),
            pod("there", "1", json!({ "spec": { "nodeName": "n1" } })),
            pod("gated", "1", json!({ "spec": { "schedulingGates": [{ "name": "g" }] } })),
            pod("ended", "1", json!({ "status": { "phase": "Succeeded" } })),
            pod("a", "3", json!({})),
            pod("b", "1", json!({})),
        ],
    );
    let late = "b: 0/1 nodes are available: 1 Insufficient cpu. (now Unschedulable of 1)";
    check(&mut core, START, &["a to n1", late]);
}

#[test]
fn no_more_is_decided_than_can_be_written() {
    let mut core = deciding(1000);
    let pods = BINDS_MAX + 5;
    tell(&mut core, (0..pods).map(|n| pod(&format!("p{n}"), "1", json!({}))));
    let bound = decisions(&mut core, START);
    assert_eq!(bound.len(), BINDS_MAX);
    assert_eq!(core.next_due(START), core.next_look());
    let Order::Bind(first) = &bound[0] else { panic!("{bound:?}") };
    let Order::Bind(second) = &bound[1] else { panic!("{bound:?}") };
    tell(&mut core, [Message::Answered(first.errand(), Answer::Definite(Outcome::Bound))]);
    assert_eq!(decisions(&mut core, START).len(), 1);
    // One that is unclear holds up nobody, and is told to be so as often as one likes.
    tell(&mut core, [second, second].map(|order| Message::Unclear(order.errand())));
    assert_eq!(decisions(&mut core, START).len(), 1);
    let answer = Answer::Definite(Outcome::Bound);
    tell(&mut core, [Message::Answered(second.errand(), answer)]);
    assert_eq!(decisions(&mut core, START).len(), 0, "it had made room before");
}

#[test]
fn a_condition_is_written_when_it_changes() {
    let told = |sign: &str| {
        format!("p: 0/1 nodes are available: 1 Insufficient cpu. ({sign} Unschedulable of 1)")
    };
    let unchanged = told("now").replace("now Unschedulable of 1", "unchanged");
    let mut core = deciding(1);
    tell(&mut core, [pod("p", "2", json!({}))]);
    check(&mut core, START, &[&told("now")]);
    tell(&mut core, [Message::Told(Uid::new("p"))]);
    let mut now = START;
    // A node that is large enough wakes it, and is not for everybody.
    let mut again = |core: &mut Core, message: Message, expected: &str| {
        now = now.after(Duration::from_secs(60));
        assert_eq!(core.take(message, now), None);
        check(core, now, &[expected]);
    };
    let mut tainted = node("n2", 4);
    if let Message::Fact(Fact::Node(node)) = &mut tainted {
        node.unschedulable = true;
    }
    let cordoned = "1 Insufficient cpu, 1 node(s) were unschedulable.";
    let two = told("still").replace("0/1", "0/2").replace("1 Insufficient cpu.", cordoned);
    again(&mut core, tainted, &two);
    // The server has it, and so would a scheduler that starts anew.
    let mut core = deciding(1);
    tell(&mut core, [pod("p", "2", json!({}))]);
    let Some(Order::Tell(first)) = core.next_order(START) else { panic!("it waits") };
    let condition = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": &*first.message });
    let mut core = deciding(1);
    tell(&mut core, [pod("p", "2", json!({ "status": { "conditions": [condition] } }))]);
    check(&mut core, START, &[&unchanged]);
    tell(&mut core, [Message::Untold(Uid::new("p"))]);
    assert_eq!(core.telling, 0);
}

#[test]
fn one_thing_is_told_of_a_pod_at_a_time_and_the_last_one_last() {
    let mut core = deciding(1);
    tell(&mut core, [pod("p", "2", json!({}))]);
    assert_eq!(decisions(&mut core, START).len(), 1);
    // While that is on its way, it is tried twice more.
    let mut now = START;
    for name in ["n2", "n3"] {
        let mut cordoned = node(name, 4);
        if let Message::Fact(Fact::Node(node)) = &mut cordoned {
            node.unschedulable = true;
        }
        now = now.after(Duration::from_secs(60));
        assert_eq!(core.take(cordoned, now), None);
        check(&mut core, now, &[]);
    }
    assert_eq!(core.telling, 1);
    let last = "p: 0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable. \
                (still Unschedulable of 1)";
    let next = core.take(Message::Told(Uid::new("p")), now).map(|order| shown(&order));
    assert_eq!(next.as_deref(), Some(last));
    assert_eq!(core.take(Message::Told(Uid::new("p")), now), None);
    assert_eq!((core.telling, core.tellings.is_empty()), (0, true));
    // Of one that has a node by then, nothing is told.
    tell(&mut core, [pod("q", "2", json!({}))]);
    assert_eq!(decisions(&mut core, now).len(), 1);
    now = now.after(Duration::from_secs(60));
    assert_eq!(core.take(Message::Untold(Uid::new("q")), now), None);
    assert_eq!(decisions(&mut core, now.after(Duration::from_secs(20))).len(), 1);
    tell(&mut core, [pod("q", "2", json!({ "spec": { "nodeName": "n1" } }))]);
    assert_eq!(core.take(Message::Told(Uid::new("q")), now), None);
    assert_eq!((core.telling, core.tellings.is_empty()), (0, true));
}

#[test]
fn room_is_made_for_a_pod_and_taken_back_from_a_lesser_one() {
    let with = |priority: i32| json!({ "spec": { "priority": priority } });
    let mut core = deciding(4);
    let placed = json!({ "spec": { "nodeName": "n1", "priority": 0 } });
    tell(&mut core, [pod("v", "4", placed.clone()), pod("p", "4", with(5))]);
    let why = "0/1 nodes are available: 1 Insufficient cpu.";
    let p = format!("p: {why} (now Unschedulable of 1) on \"n1\" instead of v past ");
    check(&mut core, START, &[&p]);
    // Its victim goes; one that matters more is there first.
    let going = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let going = object::patch::merge::apply(placed, going).unwrap();
    tell(&mut core, [pod("v", "4", going), pod("q", "4", with(9)), Message::Told(Uid::new("p"))]);
    let q = format!("q: {why} (now Unschedulable of 1) on \"n1\" instead of  past p");
    // Who is passed over looks elsewhere at once.
    let p = format!("p: {why} (still Unschedulable of 1)");
    check(&mut core, START, &[&q, &p]);
    tell(&mut core, [Message::Fact(Fact::PodGone(Uid::new("v"))), Message::Told(Uid::new("q"))]);
    let due = START.after(Duration::from_secs(20));
    let decided: Vec<String> = decisions(&mut core, due).iter().map(shown).collect();
    assert_eq!(decided.first().map(String::as_str), Some("q to n1"), "{decided:?}");
}

#[test]
fn nobody_has_to_go_from_a_node_that_is_gone() {
    let with = |priority: i32| json!({ "spec": { "priority": priority } });
    let mut core = deciding(1);
    tell(&mut core, [pod("p", "4", with(5))]);
    assert_eq!(decisions(&mut core, START).len(), 1);
    // While that is on its way, room is to be made where another one is only expected.
    tell(&mut core, [node("n2", 4), pod("v", "4", with(0))]);
    check(&mut core, START, &["v to n2"]);
    let later = START.after(Duration::from_secs(60));
    check(&mut core, later, &[]);
    let next = core.tellings.after(&Uid::new("p"));
    let next = next.map(|next| shown(&Order::Tell(Box::new(next.clone()))));
    assert!(next.as_ref().is_some_and(|next| next.contains("\"n2\" instead of v")), "{next:?}");
    // It does not come, and nobody will.
    let refused = answer(&core, "v", Outcome::NotBound("no".into()));
    assert_eq!(core.take(refused, later), None);
    tell(&mut core, [Message::Fact(Fact::NodeGone("n2".into()))]);
    let Some(Order::Tell(next)) = core.take(Message::Told(Uid::new("p")), later) else {
        panic!("it is still to be told")
    };
    assert_eq!(next.room.map(|room| room.victims), Some(Vec::new()));
}

#[test]
fn a_refused_binding_is_told_and_tried_again() {
    let mut core = deciding(4);
    tell(&mut core, [pod("p", "1", json!({}))]);
    check(&mut core, START, &["p to n1"]);
    let no = answer(&core, "p", Outcome::NotBound("no".into()));
    tell(&mut core, [no]);
    let words = "p: running Bind plugin \"DefaultBinder\": no (now SchedulerError of 1)";
    check(&mut core, START, &[words]);
    let due = core.next_due(START).expect("it is tried again");
    check(&mut core, due, &["p to n1"]);
    for (outcome, why) in [(Outcome::Gone, "gone"), (Outcome::Elsewhere("n2".into()), "taken")] {
        let mut core = deciding(4);
        tell(&mut core, [pod("p", "4", json!({})), pod("q", "4", json!({}))]);
        let first = decisions(&mut core, START);
        let Order::Bind(first) = &first[0] else { panic!("{first:?}") };
        let other = if &*first.pod.name == "p" { "q" } else { "p" };
        let lost = Message::Answered(first.errand(), Answer::Definite(outcome));
        assert_eq!(core.take(lost, START), None);
        let due = START.after(Duration::from_secs(20));
        core.look_after(due);
        check(&mut core, due, &[&format!("{other} to n1")]);
        assert!(core.next_due(due).is_none_or(|next| next > due), "{why}");
    }
}

#[test]
fn the_end_waits_for_what_is_under_way() {
    let mut core = deciding(4);
    tell(&mut core, [pod("p", "1", json!({}))]);
    check(&mut core, START, &["p to n1"]);
    tell(&mut core, [pod("q", "1", json!({})), Message::Stop]);
    check(&mut core, START, &[]);
    assert!(!core.is_over());
    let abandoned = Message::Answered(errand(&core, "p"), Answer::Abandoned);
    tell(&mut core, [abandoned]);
    assert!(core.is_over());
    check(&mut core, START, &[]);
}

#[test]
fn an_object_that_cannot_be_read_is_told_of_and_the_rest_goes_on() {
    use chassis::key::Key;

    use crate::message::Unreadable;
    let mut core = deciding(4);
    let (kind, key) = (Kind::Pod, Key::namespaced("ns", "bad"));
    let what = Unreadable { kind, key, error: "no quantity".to_owned() };
    let bad = || Message::Unreadable(Box::new(what.clone()));
    tell(&mut core, [pod("p", "1", json!({})), bad()]);
    check(&mut core, START, &["ns/bad cannot be read: no quantity", "p to n1"]);
    // One that can be read by now is none any longer.
    tell(&mut core, [Message::Complained, bad(), pod("bad", "1", json!({}))]);
    check(&mut core, START, &["bad to n1"]);
    // Who waits to lead tells nobody before it does.
    let mut core = super::tests::core();
    tell(&mut core, Kind::ALL.map(Message::Listed));
    tell(&mut core, [bad(), node("n1", 4)]);
    check(&mut core, START, &[]);
    tell(&mut core, Kind::ALL.map(Message::Synced));
    check(&mut core, START, &["ns/bad cannot be read: no quantity"]);
}

#[test]
fn what_happens_is_counted_under_the_names_of_kube_scheduler() {
    let metrics = Metrics::new();
    let mut core = begun(counted(&[], &metrics), 4);
    let with = |priority: i32| json!({ "spec": { "priority": priority } });
    let gated = json!({ "spec": { "schedulingGates": [{ "name": "g" }] } });
    tell(&mut core, [pod("v", "3", with(0)), pod("g", "1", gated)]);
    check(&mut core, START, &["v to n1"]);
    let later = START.after(Duration::from_secs(3));
    let bound = answer(&core, "v", Outcome::Bound);
    assert_eq!(core.take(bound, later), None);
    let placed = json!({ "spec": { "nodeName": "n1", "priority": 0 } });
    tell(&mut core, [pod("v", "3", placed), pod("p", "3", with(5)), pod("huge", "9", with(0))]);
    assert_eq!(decisions(&mut core, later).len(), 2);
    assert_eq!(core.take(Message::Told(Uid::new("p")), later), None);
    core.measure();
    let shown = metrics.render();
    let holds = |line: &str| assert!(shown.lines().any(|own| own == line), "{line} in\n{shown}");
    for line in [
        "scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"default-scheduler\"} 1",
        "scheduler_pod_scheduling_sli_duration_seconds_sum{attempts=\"1\"} 3",
        "scheduler_preemption_attempts_total 2",
        "scheduler_preemption_victims_sum 1",
        "scheduler_preemption_victims_count 1",
        "scheduler_pending_pods{queue=\"unschedulable\"} 2",
        "scheduler_pending_pods{queue=\"gated\"} 1",
        "scheduler_unschedulable_pods{plugin=\"NodeResourcesFit\",profile=\"default-scheduler\"} 2",
        "scheduler_unschedulable_pods{plugin=\"SchedulingGates\",profile=\"default-scheduler\"} 1",
        "scheduler_queue_incoming_pods_total{queue=\"active\",event=\"UnschedulablePodAdd\"} 3",
        "scheduler_queue_incoming_pods_total{queue=\"unschedulable\",\
         event=\"UnschedulablePodAdd\"} 1",
        "scheduler_queue_incoming_pods_total{queue=\"unschedulable\",\
         event=\"ScheduleAttemptFailure\"} 2",
        "scheduler_cache_size{type=\"nodes\"} 1",
        "scheduler_cache_size{type=\"pods\"} 1",
        "scheduler_cache_size{type=\"assumed_pods\"} 0",
    ] {
        holds(line);
    }
    for gone in ["p", "huge", "g"] {
        tell(&mut core, [Message::Fact(Fact::PodGone(Uid::new(gone)))]);
    }
    core.measure();
    let none = "scheduler_unschedulable_pods{plugin=\"NodeResourcesFit\",\
                profile=\"default-scheduler\"} 0";
    assert!(metrics.render().contains(none));
}

/// Extenders as a file has them.
#[test]
fn how_many_nodes_were_looked_at_and_could_take_a_pod_is_counted_where_it_got_one() {
    let metrics = Metrics::new();
    let mut core = begun(counted(&[], &metrics), 4);
    tell(&mut core, [node("n2", 1), node("n3", 2)]);
    // Three could take the first, one the second, and none the last.
    let wants = [("a", "1"), ("b", "3"), ("c", "9")];
    tell(&mut core, wants.map(|(name, cpu)| pod(name, cpu, json!({}))));
    assert_eq!(decisions(&mut core, START).len(), 3);
    let shown = metrics.render();
    for line in [
        "scheduler_pod_scheduling_evaluated_nodes_sum 6",
        "scheduler_pod_scheduling_evaluated_nodes_count 2",
        "scheduler_pod_scheduling_feasible_nodes_sum 4",
        "scheduler_pod_scheduling_feasible_nodes_count 2",
    ] {
        assert!(shown.lines().any(|own| own == line), "{shown}");
    }
}

fn configured(lines: &str) -> Vec<Extender> {
    let text =
        format!("apiVersion: {}\nkind: {}\nextenders: {lines}", config::API_VERSION, config::KIND);
    config::parse("f".as_ref(), &text).unwrap().extenders
}

#[test]
fn an_answer_is_about_its_own_errand_and_no_other_of_the_pod() {
    let mut core = begun(core(), 4);
    tell(&mut core, [pod("p", "1", json!({}))]);
    check(&mut core, START, &["p to n1"]);
    let own = errand(&core, "p");
    let other = Errand { number: own.number + 1, ..own.clone() };
    let no = Answer::Definite(Outcome::NotBound("no".into()));
    for answer in
        [Answer::Unprepared("no".into()), Answer::Prepared([].into()), Answer::Abandoned, no]
    {
        assert_eq!(core.take(Message::Answered(other.clone(), answer), START), None);
    }
    assert_eq!(core.take(Message::Unclear(other), START), None);
    assert_eq!((core.flights.len(), core.unclear), (1, 0));
    tell(&mut core, [Message::Answered(own, Answer::Definite(Outcome::Bound))]);
    assert_eq!(core.flights.len(), 0);
}

#[test]
fn an_extender_that_never_binds_holds_up_its_own_pods_only() {
    let lines = "[{urlPrefix: 'http://e', bindVerb: b, managedResources: [{name: e/x, \
                 ignoredByScheduler: true}]}]";
    let mut core = begun(extended(&configured(lines)), 100_000);
    let wants = json!({ "spec": { "containers": [{ "name": "main",
        "resources": { "limits": { "e/x": "1" }, "requests": { "cpu": "1" } } }] } });
    let theirs = FOREIGN_MAX + 500;
    tell(&mut core, (0..theirs).map(|n| pod(&format!("p{n}"), "1", wants.clone())));
    let (orders, told): (Vec<Order>, Vec<Order>) =
        decisions(&mut core, START).into_iter().partition(|one| matches!(one, Order::Bind(_)));
    assert_eq!((orders.len(), core.foreign, core.held_back()), (FOREIGN_MAX, FOREIGN_MAX, 500));
    let words = "too many pods wait for an extender to bind them; the pod is tried again after a \
                 while (now SchedulerError of 1)";
    assert_eq!(told.iter().filter(|one| shown(one).ends_with(words)).count(), 500);
    tell(&mut core, [pod("q", "1", json!({}))]);
    check(&mut core, START, &["q to n1"]);
    let Order::Bind(first) = &orders[0] else { panic!("{orders:?}") };
    tell(&mut core, [Message::Answered(first.errand(), Answer::Definite(Outcome::Bound))]);
    let due = core.next_due(START).expect("the others are tried again");
    assert_eq!(decisions(&mut core, due).len(), 1);
}

#[test]
fn bindings_that_nobody_answers_hold_up_only_pods_of_their_namespace() {
    let of = |namespace: &str, n: usize| {
        let name = format!("{namespace}{n}");
        pod(&name, "1", json!({ "metadata": { "namespace": namespace } }))
    };
    let unclear = |core: &mut Core, orders: &[Order]| {
        for order in orders {
            let Order::Bind(order) = order else { panic!("{order:?}") };
            let message = match order.number % 2 {
                0 => Message::Held(order.errand()),
                _ => Message::Unclear(order.errand()),
            };
            tell(core, [message]);
        }
    };
    // All that there is in these namespaces is decided, and nothing of it answered.
    let fill = |core: &mut Core, namespace: &str, count: usize| {
        tell(core, (0..count).map(|n| of(namespace, n)));
        let mut told = Vec::new();
        loop {
            let orders = decisions(core, START);
            if orders.is_empty() && core.next_due(START).is_none_or(|due| due > START) {
                return told;
            }
            let (bound, others): (Vec<Order>, Vec<Order>) =
                orders.into_iter().partition(|one| matches!(one, Order::Bind(_)));
            unclear(core, &bound);
            told.extend(others);
        }
    };
    let metrics = Metrics::new();
    let mut core = counted(&[], &metrics);
    core = begun(core, 1_000_000);
    let told = fill(&mut core, "a", APART_IN_NAMESPACE_MAX + 300);
    assert_eq!((core.flights.len(), core.held_back()), (APART_IN_NAMESPACE_MAX, 300));
    // Their owners hear of it, it counts, and nobody is shown a node that was never asked for.
    let words = "too many pods of the namespace, or of all namespaces together, wait for an answer of \
                 the API server to their Bindings; the pod is tried again after a while (now \
                 SchedulerError of 1)";
    assert_eq!(told.iter().filter(|one| shown(one).ends_with(words)).count(), 300);
    let errors = "scheduler_schedule_attempts_total{result=\"error\",\
                  profile=\"default-scheduler\"} 300";
    assert!(metrics.render().contains(errors));
    for decided in core.decided().rev().take(300).map(DecisionView::from) {
        assert_eq!((&*decided.verdict, decided.node), ("heldBack", None));
    }
    for namespace in ["b", "c", "d"] {
        fill(&mut core, namespace, APART_IN_NAMESPACE_MAX);
    }
    assert_eq!((core.apart, core.held_back()), (APART_MAX, 0));
    // With so many, a namespace that has any gets no more, and one that has none goes on.
    fill(&mut core, "e", 3 * BINDS_MAX);
    assert_eq!((core.flights.len(), core.held_back()), (APART_MAX + BINDS_MAX, 2 * BINDS_MAX));
    tell(&mut core, [of("f", 0)]);
    check(&mut core, START, &["f0 to n1"]);
    let uids: Vec<Uid> = core.in_flight().cloned().collect();
    for uid in uids {
        let number = core.flights[&uid].number;
        let bound = Answer::Definite(Outcome::Bound);
        tell(&mut core, [Message::Answered(Errand { uid, number }, bound)]);
    }
    assert_eq!((core.apart, core.apart_in.len(), core.unclear), (0, 0, 0));
}

#[test]
fn extenders_are_asked_about_their_pods_and_what_they_say_is_told() {
    let lines = "[{urlPrefix: 'http://e', filterVerb: f, managedResources: [{name: e/x, \
                 ignoredByScheduler: true}]}]";
    let mut core = begun(extended(&configured(lines)), 4);
    let wants = json!({ "spec": { "containers": [{ "name": "main",
        "resources": { "limits": { "e/x": "1" }, "requests": { "cpu": "1" } } }] } });
    tell(&mut core, [pod("p", "1", wants.clone()), pod("q", "1", json!({}))]);
    let orders = decisions(&mut core, START);
    assert_eq!(orders.iter().map(shown).collect::<Vec<_>>(), ["p of n1?", "q to n1"]);
    let Order::Consult(first) = &orders[0] else { panic!("{orders:?}") };
    let advised = |ticket, advice| Message::Advised(ticket, advice);
    tell(&mut core, [advised(first.ticket, turn::Advice::Failed("down".into()))]);
    check(&mut core, START, &["p: down (now SchedulerError of 1)"]);
    let due = core.next_due(START).expect("it is tried again");
    let Some(Order::Consult(again)) = core.next_order(due) else {
        panic!("it is asked about again")
    };
    let allowed = [("n1".into(), 0)].into();
    let counsel = turn::Counsel { allowed, ..turn::Counsel::default() };
    assert_eq!(core.take(advised(again.ticket, turn::Advice::Counsel(counsel)), due), None);
    check(&mut core, due, &["p to n1"]);
}

#[test]
fn an_extender_binds_its_own_pods_and_holds_up_nobody_else() {
    let check = |ignorable: bool, binder: Binder, words: &str| {
        let lines = format!("[{{urlPrefix: 'http://e', bindVerb: b, ignorable: {ignorable}}}]");
        let mut core = begun(extended(&configured(&lines)), 1000);
        let pods = FOREIGN_MAX;
        tell(&mut core, (0..pods).map(|n| pod(&format!("p{n}"), "1", json!({}))));
        let orders = decisions(&mut core, START);
        assert_eq!(orders.len(), pods, "nobody waits for those it has not bound");
        let Order::Bind(first) = &orders[0] else { panic!("{orders:?}") };
        assert_eq!(first.binder, binder);
        let refused = Answer::Definite(Outcome::NotBound("no".into()));
        tell(&mut core, [Message::Answered(first.errand(), refused)]);
        let told = core.tell_waiting(START).unwrap();
        let expected = format!("{}: {words} (now SchedulerError of 1)", first.pod.name);
        assert_eq!(shown(&told), expected);
        let Order::Bind(second) = &orders[1] else { panic!("{orders:?}") };
        let bound = Message::Answered(second.errand(), Answer::Definite(Outcome::Bound));
        tell(&mut core, [bound]);
        assert_eq!((core.flights.len(), core.apart, core.unclear), (pods - 2, pods - 2, 0));
        assert_eq!((core.foreign, core.apart_in.len(), core.held_back()), (pods - 2, 0, 0));
    };
    check(false, Binder::Extender, "no");
    check(true, Binder::IgnorableExtender, "running Bind plugin \"DefaultBinder\": no");
}

/// An object of the cluster's storage.
fn stored<T: serde::de::DeserializeOwned>(wire: Value) -> Message
where
    for<'a> StorageFact: From<&'a T>,
{
    let object: T = serde_json::from_value(wire).unwrap();
    Message::Fact(Fact::Storage((&object).into()))
}

/// The claim `data`, as it is when this volume was made for it.
fn data(volume: Option<&str>) -> Message {
    let mut claim = json!({
        "metadata": { "name": "data", "namespace": "ns", "uid": "data" },
        "spec": { "storageClassName": "late", "accessModes": ["ReadWriteOnce"],
                  "resources": { "requests": { "storage": "1Gi" } } },
        "status": { "phase": "Pending" },
    });
    if let Some(volume) = volume {
        claim["metadata"]["annotations"] = json!({
            "pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n1" });
        claim["spec"]["volumeName"] = volume.into();
        claim["status"]["phase"] = "Bound".into();
    }
    stored::<api::PersistentVolumeClaim>(claim)
}

#[test]
fn an_attempt_with_volumes_lasts_until_the_pod_is_bound_and_is_decided_once() {
    let check = |happens: &dyn Fn(&mut Core, Moment), expected: [&str; 4]| {
        let metrics = Metrics::new();
        let mut core = begun(counted(&[], &metrics), 4);
        let class = json!({ "metadata": { "name": "late" }, "provisioner": "somebody",
                            "volumeBindingMode": "WaitForFirstConsumer" });
        let volumes = json!({ "spec": { "volumes": [
            { "name": "v", "persistentVolumeClaim": { "claimName": "data" } }] } });
        tell(&mut core, [stored::<api::StorageClass>(class), data(None), pod("p", "1", volumes)]);
        let Some(Order::Prepare(_)) = core.next_order(START) else {
            panic!("it has no volume yet")
        };
        core.took(Duration::from_secs(2));
        happens(&mut core, START.after(Duration::from_secs(40)));
        let shown = metrics.render();
        for line in expected {
            assert!(shown.lines().any(|own| own == line), "{line} in\n{shown}");
        }
    };
    let prepared = |core: &mut Core| {
        let written = Message::Answered(errand(core, "p"), Answer::Prepared([0].into()));
        assert_eq!(core.take(written, START), None);
    };
    let bound = |core: &mut Core, later: Moment| {
        prepared(core);
        let volume = json!({ "metadata": { "name": "disk" }, "status": { "phase": "Bound" },
            "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
                      "storageClassName": "late", "claimRef": {
                          "namespace": "ns", "name": "data", "uid": "data" } } });
        tell(core, [stored::<api::PersistentVolume>(volume), data(Some("disk"))]);
        let Some(Order::Bind(_)) = core.next_order(later) else { panic!("it is ready") };
        core.took(Duration::from_secs(1));
        assert_eq!(core.take(answer(core, "p", Outcome::Bound), later), None);
    };
    let labels = |result: &str| format!("{{result=\"{result}\",profile=\"default-scheduler\"}}");
    let attempt = |what: &str, result: &str, value: &str| {
        format!("scheduler_scheduling_attempt_duration_seconds_{what}{} {value}", labels(result))
    };
    let algorithm = "scheduler_scheduling_algorithm_duration_seconds";
    let [sum, count] = ["sum 2", "count 1"].map(|what| format!("{algorithm}_{what}"));
    let lines = ["sum", "count"]
        .map(|what| attempt(what, "scheduled", if what == "sum" { "40" } else { "1" }));
    check(&bound, [&sum, &count, &lines[0], &lines[1]]);
    let given_up = |core: &mut Core| {
        let later = START.after(Duration::from_secs(601));
        let Some(Order::Tell(_)) = core.next_order(later) else { panic!("nobody made a volume") };
        core.took(Duration::from_secs(1));
        assert_eq!((core.flights.len(), core.preparations, core.apart), (0, 0, 0));
    };
    let late = |core: &mut Core, _: Moment| {
        prepared(core);
        given_up(core);
    };
    // What is asked for is not even written by then, and whoever comes back is not wanted any longer.
    let stuck = |core: &mut Core, _: Moment| {
        let errand = errand(core, "p");
        let recall = core.flights[&errand.uid].recall.clone().unwrap();
        given_up(core);
        assert!(recall.is_recalled());
        let answer = Answer::Unprepared("no".into());
        assert_eq!(core.take(Message::Answered(errand, answer), START), None);
    };
    let lines = ["sum", "count"]
        .map(|what| attempt(what, "error", if what == "sum" { "602" } else { "1" }));
    check(&late, [&sum, &count, &lines[0], &lines[1]]);
    check(&stuck, [&sum, &count, &lines[0], &lines[1]]);
}

#[test]
fn what_is_refused_and_need_not_be_told_is_timed_as_well() {
    let metrics = Metrics::new();
    let mut core = begun(counted(&[], &metrics), 4);
    tell(&mut core, [pod("a", "9", json!({})), pod("b", "10", json!({}))]);
    assert_eq!(decisions(&mut core, START).len(), 2);
    core.took(Duration::from_secs(4));
    // Whoever waits for long is tried again; the first telling is still being written.
    let later = START.after(Duration::from_secs(400));
    let told: Vec<String> = decisions(&mut core, later).iter().map(shown).collect();
    assert_eq!(told, [""; 0]);
    core.took(Duration::from_secs(4));
    let shown = metrics.render();
    let labels = "{result=\"unschedulable\",profile=\"default-scheduler\"}";
    let attempts = |name: &str| {
        let start = format!("{name}{labels} ");
        let line = shown.lines().find_map(|own| own.strip_prefix(&start));
        line.unwrap_or_default().to_owned()
    };
    let count = attempts("scheduler_schedule_attempts_total");
    assert_eq!(attempts("scheduler_scheduling_attempt_duration_seconds_count"), count);
    assert_eq!(attempts("scheduler_scheduling_attempt_duration_seconds_sum"), "8", "{told:?}");
}

/// Upstream finds out when it writes on the pod before the Binding; here the Binding is the one write.
#[test]
fn s10_79_a_pod_that_goes_while_it_is_being_bound_leaves_its_cpus_to_others() {
    let profiles = vec![(NAME.into(), Profile::kubernetes().filter(NodeNuma::default()))];
    let engine = Engine::new(turn::Settings::default(), profiles, START);
    let mut core = begun(Core::new(engine, [NAME.into()], Meters::register(&Metrics::new())), 8);
    let cpus = (0..4).map(|id| json!({ "id": id, "core": id / 2, "socket": 0, "node": 0 }));
    let topology = json!({ "detail": cpus.collect::<Vec<_>>() }).to_string();
    let layout = json!({ "metadata": { "name": "n1", "annotations": { CPU_TOPOLOGY: topology } },
                         "topologyPolicies": [], "zones": [] });
    let layout: NodeResourceTopology = serde_json::from_value(layout).unwrap();
    let sensitive = |more: Value| {
        let own = json!({ "metadata": { "labels": { "koordinator.sh/qosClass": "LSR" } } });
        object::patch::merge::apply(own, more).unwrap()
    };
    tell(&mut core, [Message::Fact(Fact::from(&layout)), pod("a", "4", sensitive(json!({})))]);
    let given = |orders: &[Order]| match orders {
        [Order::Bind(order)] => order.stamps[RESOURCE_STATUS].clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(given(&decisions(&mut core, START)), r#"{"cpuset":"0-3"}"#);
    tell(&mut core, [pod("b", "4", sensitive(json!({})))]);
    let orders = decisions(&mut core, START);
    assert!(matches!(&orders[..], [Order::Tell(_)]), "{orders:?}");
    let going = json!({ "metadata": { "deletionTimestamp": "1970-01-01T00:00:01Z" } });
    tell(&mut core, [Message::Told(Uid::new("b")), pod("a", "4", sensitive(going))]);
    let gone = answer(&core, "a", Outcome::Gone);
    tell(&mut core, [gone]);
    // The answer is enough: that the pod is gone may be heard much later.
    let later = START.after(Duration::from_secs(60));
    assert_eq!(given(&decisions(&mut core, later)), r#"{"cpuset":"0-3"}"#);
    tell(&mut core, [Message::Fact(Fact::PodGone(Uid::new("a")))]);
    assert_eq!(decisions(&mut core, later), []);
}
