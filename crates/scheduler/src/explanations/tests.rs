use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::Node;
use engine::Engine;
use engine::fact::{Fact, NodeFact, PodFact};
use engine::profile::Profile;
use engine::turn;
use serde_json::{Value, json};

use super::questions::{CONFIRM_AFTER, LOOK_AGAIN, PAUSE};
use super::*;
use crate::config::Configuration;
use crate::core::Core;
use crate::debug::Known;
use crate::feed;
use crate::message::{Kind, Message};
use crate::meters::Meters;
use crate::why::{Answer, AnsweredBy};
use api::schedule_explanation::ScheduleExplanationStatus;

const NAME: &str = "default-scheduler";

fn moment(text: &str) -> Moment {
    let time: object::time::Time = text.parse().unwrap();
    Moment(u64::try_from(time.timestamp().as_nanosecond()).unwrap())
}

fn start() -> Moment {
    moment("2026-01-01T12:00:00Z")
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// An explanation that was made when it all began.
fn explanation(name: &str, spec: Value) -> ScheduleExplanation {
    let object = json!({
        "metadata": { "name": name, "namespace": "shop", "uid": name, "resourceVersion": "1",
                      "creationTimestamp": "2026-01-01T12:00:00Z" },
        "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

fn asking(key: &str) -> ScheduleExplanation {
    explanation("why", json!({ "questionObjectKey": key, "ttl": "24h" }))
}

/// The same with what was written on it, as the server shows it then.
fn written(object: &ScheduleExplanation, write: &Write) -> ScheduleExplanation {
    let own = serde_json::to_value(object).unwrap();
    let version = own["metadata"]["resourceVersion"].as_str().unwrap();
    let uid = &object.metadata.uid;
    assert_eq!(write.patch["metadata"], json!({ "uid": uid, "resourceVersion": version }));
    let mut own = object::patch::merge::apply(own.clone(), write.patch.clone()).unwrap();
    own["metadata"]["resourceVersion"] = format!("{version}0").into();
    serde_json::from_value(own).unwrap()
}

fn said(words: &str) -> Option<Content> {
    Some(Content::refused(words.to_owned()))
}

#[test]
fn an_answer_is_written_when_it_changes_and_confirmed_within_a_minute() {
    let mut questions = Questions::default();
    let uid = Uid::new("why");
    let mut object = asking("shop/web-0");
    questions.put(object.clone(), start());
    let (mut now, mut writes) = (start(), Vec::new());
    let end = start().after(seconds(200));
    while let Some(due) = questions.next_due().filter(|due| *due < end) {
        now = due;
        let step = questions.next(now).expect("it is due");
        let ask = Step::Ask { uid: uid.clone(), namespace: "shop".into(), pod: "web-0".into() };
        assert_eq!(step, ask);
        let words = if now < start().after(seconds(100)) { "no" } else { "still no" };
        if let Some(write) = questions.answered(&uid, said(words), now) {
            object = written(&object, &write);
            questions.put(object.clone(), now);
            writes.push((now.since(start()).as_secs(), object.status.failed_message.clone()));
        }
    }
    let writes: Vec<(u64, &str)> = writes.iter().map(|(at, own)| (*at, own.as_str())).collect();
    let before = (0..100).step_by(15).map(|at| (at, "no"));
    let after = (100..200).step_by(15).map(|at| (at, "still no"));
    assert_eq!(writes, before.chain(after).collect::<Vec<_>>());
    assert!(CONFIRM_AFTER + LOOK_AGAIN < seconds(60));
    assert!(now > start().after(seconds(190)));
}

#[test]
fn a_changed_question_is_answered_at_once_and_what_others_write_is_corrected() {
    let mut questions = Questions::default();
    let uid = Uid::new("why");
    questions.put(asking("shop/web-0"), start());
    assert!(questions.next(start()).is_some());
    let write = questions.answered(&uid, said("no"), start()).unwrap();
    let mut object = written(&asking("shop/web-0"), &write);
    questions.put(object.clone(), start());
    assert_eq!(questions.next_due(), Some(start().after(LOOK_AGAIN)));
    object.status.failed_message = "maybe".to_owned();
    questions.put(object.clone(), start());
    let later = start().after(LOOK_AGAIN);
    assert!(questions.next(later).is_some());
    let write = questions.answered(&uid, said("no"), later).expect("it was corrected");
    assert_eq!(write.patch["status"]["failedMessage"], "no");
    object.spec.question_object_key = "shop/web-1".to_owned();
    questions.put(object, later);
    let soon = later.after(PAUSE);
    assert_eq!(questions.next_due(), Some(soon));
    let step = questions.next(soon);
    assert!(matches!(step, Some(Step::Ask { pod, .. }) if pod == "web-1"));
}

#[test]
fn an_explanation_that_has_lived_its_time_is_deleted() {
    let check = |ttl: Value, ends: Option<u64>| {
        let spec = json!({ "questionObjectKey": "shop/web-0", "ttl": ttl });
        let mut questions = Questions::default();
        questions.put(explanation("why", spec), start());
        let end = start().after(seconds(2 * 86_400));
        let mut deleted = None;
        while let Some(due) = questions.next_due().filter(|due| *due < end && deleted.is_none()) {
            if let Some(Step::Delete { uid, name }) = questions.next(due) {
                assert_eq!(
                    (&*uid.0, name.namespace.as_str(), name.name.as_str()),
                    ("why", "shop", "why")
                );
                deleted = Some(due.since(start()).as_secs());
            }
        }
        assert_eq!(deleted, ends, "{ttl}");
    };
    check(json!("3s"), Some(3));
    check(json!("1h"), Some(3600));
    check(Value::Null, Some(86_400));
    check(json!("0s"), None);
}

#[test]
fn what_cannot_be_read_is_told_and_asks_nobody() {
    let check = |spec: Value, words: &str| {
        let mut questions = Questions::default();
        questions.put(explanation("why", spec), start());
        let Some(Step::Write(write)) = questions.next(start()) else { panic!("nothing is told") };
        let told = write.patch["status"]["failedMessage"].as_str().unwrap();
        assert!(told.starts_with(words), "{told}");
        assert_eq!(write.patch["status"]["schedulable"], false);
    };
    check(
        json!({ "questionObjectKey": "web-0" }),
        "spec.questionObjectKey has the value \"web-0\"",
    );
    check(json!({}), "spec.questionObjectKey has the value \"\"");
    let ttl = json!({ "questionObjectKey": "shop/web-0", "ttl": "soon" });
    check(ttl, "spec.ttl has the value \"soon\"");
}

#[test]
fn a_thousand_questions_take_turns_with_pauses_between_and_what_is_gone_is_forgotten() {
    let mut questions = Questions::default();
    let mut objects = BTreeMap::new();
    for number in 0..1000 {
        let name = format!("why-{number}");
        let object = explanation(&name, json!({ "questionObjectKey": "shop/web-0" }));
        questions.put(object.clone(), start());
        objects.insert(Uid::new(&name), object);
    }
    let (mut now, end) = (start(), start().after(seconds(180)));
    let mut asked = BTreeSet::new();
    let mut confirmed: BTreeMap<Uid, Vec<Moment>> = BTreeMap::new();
    while now < end {
        let Some(Step::Ask { uid, .. }) = questions.next(now) else { panic!("it is due") };
        if asked.len() == 1000 {
            asked.clear();
        }
        assert!(asked.insert(uid.clone()), "none is asked twice before all were");
        assert_eq!(questions.next(now), None, "there is a pause");
        if let Some(write) = questions.answered(&uid, said("no"), now) {
            let object = written(&objects[&uid], &write);
            questions.put(object.clone(), now);
            objects.insert(uid.clone(), object);
            confirmed.entry(uid).or_default().push(now);
        }
        now = questions.next_due().unwrap();
    }
    assert_eq!(confirmed.len(), 1000);
    for (uid, times) in &confirmed {
        let all = [&[start()], &times[..], &[end]].concat();
        let longest = all.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap();
        assert!(longest < seconds(60), "{uid:?} stood for {longest:?}");
    }
    for uid in objects.keys() {
        questions.remove(uid);
    }
    assert_eq!(questions.next_due(), None);
}

#[test]
fn the_pod_of_another_scheduler_is_left_to_that_one() {
    let mut questions = Questions::default();
    let uid = Uid::new("why");
    questions.put(asking("shop/web-0"), start());
    let foreign = Content { is_foreign: true, ..said("not ours").unwrap() };
    let write = questions.answered(&uid, Some(foreign.clone()), start());
    assert!(write.is_some(), "where nobody has answered, that is said");
    let mut object = asking("shop/web-0");
    object.status.failed_message = "theirs".to_owned();
    object.status.last_update_time = Some("2026-01-01T11:00:00Z".parse().unwrap());
    questions.put(object, start());
    assert_eq!(questions.answered(&uid, Some(foreign), start()), None);
    assert_eq!(questions.answered(&uid, None, start()), None, "nobody knows yet");
}

fn node(name: &str, more: Value) -> Message {
    let mut node = json!({
        "metadata": { "name": name },
        "status": { "allocatable": { "cpu": "4", "memory": "64Gi", "pods": "110" } },
    });
    node["spec"] = more;
    let node: Node = serde_json::from_value(node).unwrap();
    Message::Fact(Fact::Node(NodeFact::from(&node)))
}

fn pod(name: &str, cpu: &str, node: &str, priority: i32) -> Pod {
    let pod = json!({
        "metadata": { "name": name, "namespace": "shop", "uid": name },
        "spec": { "schedulerName": NAME, "nodeName": node, "priority": priority, "containers": [
            { "name": "main", "resources": { "requests": { "cpu": cpu } } }] },
    });
    serde_json::from_value(pod).unwrap()
}

/// What is said of a pod once it was tried among these.
fn explained(asked: &Pod, others: Vec<Message>) -> ScheduleExplanationStatus {
    let profiles = vec![(NAME.into(), Profile::kubernetes())];
    let engine = Engine::new(turn::Settings::default(), profiles, start());
    let metrics = Metrics::new();
    let mut core = Core::new(engine, [NAME.into()], Meters::register(&metrics));
    for kind in Kind::ALL {
        core.take(Message::Synced(kind), start());
    }
    for message in others.into_iter().chain([feed::news(asked.clone())]) {
        core.take(message, start());
    }
    while core.next_order(start()).is_some() {}
    let configuration = Arc::new(Configuration::default());
    let answer = Answer::begun(asked, AnsweredBy::Scheduler, &configuration);
    let fact = PodFact::from(asked);
    let waits = answer.profile(&fact, &configuration).is_some();
    let known = waits.then(|| Known::of(&core, &Uid::new(&asked.metadata.uid), start()));
    let asked = Asked { fact, answer, known, configuration };
    answer::of(asked).expect("it is known").status
}

fn json_of(status: &ScheduleExplanationStatus) -> String {
    serde_json::to_string_pretty(status).unwrap()
}

#[test]
fn nodes_that_refuse_are_told_by_plugin_and_reason() {
    let nodes = vec![
        node("small-b", json!({})),
        node("small-a", json!({})),
        node("tainted", json!({ "taints": [{ "key": "gpu", "effect": "NoSchedule" }] })),
        node("cordoned", json!({ "unschedulable": true })),
    ];
    let status = explained(&pod("web-0", "9", "", 0), nodes);
    insta::assert_snapshot!(json_of(&status), @r#"
{
  "schedulable": false,
  "schedulableAfterPreemption": false,
  "failedMessage": "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu. no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling.",
  "detailedExplanation": [
    {
      "schedulable": false,
      "schedulableAfterPreemption": false,
      "failedMessage": "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu. no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling.",
      "scheduleExplanation": {
        "schedulable": false,
        "failedMessage": "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu.",
        "nodeFailedDetails": [
          {
            "failedPlugin": "NodeResourcesFit",
            "reason": "Insufficient cpu",
            "preemptMightHelp": false,
            "failedNodes": [
              "small-a",
              "small-b"
            ]
          },
          {
            "failedPlugin": "NodeUnschedulable",
            "reason": "node(s) were unschedulable",
            "preemptMightHelp": false,
            "failedNodes": [
              "cordoned"
            ]
          },
          {
            "failedPlugin": "TaintToleration",
            "reason": "node(s) had untolerated taint(s)",
            "preemptMightHelp": false,
            "failedNodes": [
              "tainted"
            ]
          }
        ]
      },
      "preemptExplanation": {
        "schedulable": false,
        "failedMessage": "no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
      }
    }
  ]
}
"#);
}

#[test]
fn who_makes_room_is_told_with_the_node() {
    let others = vec![node("full", json!({})), feed::news(pod("low", "3", "full", 1))];
    let status = explained(&pod("web-0", "2", "", 9), others);
    insta::assert_snapshot!(json_of(&status), @r#"
{
  "schedulable": false,
  "schedulableAfterPreemption": true,
  "failedMessage": "0/1 nodes are available: 1 Insufficient cpu.",
  "detailedExplanation": [
    {
      "schedulable": false,
      "schedulableAfterPreemption": true,
      "failedMessage": "0/1 nodes are available: 1 Insufficient cpu.",
      "scheduleExplanation": {
        "schedulable": false,
        "failedMessage": "0/1 nodes are available: 1 Insufficient cpu.",
        "nodeFailedDetails": [
          {
            "failedPlugin": "NodeResourcesFit",
            "reason": "Insufficient cpu",
            "preemptMightHelp": true,
            "failedNodes": [
              "full"
            ]
          }
        ]
      },
      "nodePossibleVictims": [
        {
          "nodeName": "full",
          "possibleVictims": [
            {
              "namespace": "shop",
              "name": "low",
              "uid": "low",
              "isNominatedPod": false
            }
          ]
        }
      ],
      "preemptExplanation": {
        "schedulable": true,
        "feasibleSchedulingResult": [
          {
            "namespace": "shop",
            "name": "web-0",
            "uid": "web-0",
            "nodeName": "full"
          }
        ]
      }
    }
  ]
}
"#);
}

#[test]
fn a_pod_that_has_a_node_or_gets_one_is_told_which() {
    let placed = |status: &ScheduleExplanationStatus| {
        assert!(status.schedulable && status.schedulable_after_preemption);
        assert_eq!(status.failed_message, "");
        let explained = status.detailed_explanation[0].schedule_explanation.as_ref().unwrap();
        assert!(explained.schedulable && explained.node_failed_details.is_empty());
        explained.feasible_scheduling_result[0].node_name.clone()
    };
    let bound = explained(&pod("web-0", "1", "n1", 0), vec![node("n1", json!({}))]);
    assert_eq!(placed(&bound), "n1");
    // It was decided, and its Binding is under way.
    let decided = explained(&pod("web-0", "1", "", 0), vec![node("n1", json!({}))]);
    assert_eq!(placed(&decided), "n1");
}

#[test]
fn a_pod_that_nobody_is_to_find_a_node_for_is_told_why() {
    let check = |change: fn(&mut Pod), words: &str| {
        let mut own = pod("web-0", "1", "", 0);
        change(&mut own);
        let status = explained(&own, vec![node("n1", json!({}))]);
        assert!(!status.schedulable && status.detailed_explanation.is_empty());
        assert!(status.failed_message.contains(words), "{}", status.failed_message);
    };
    check(|pod| pod.spec.scheduler_name = "another".into(), "waits for scheduler \"another\"");
    check(|pod| pod.status.phase = api::pod::PodPhase::Failed, "pod shop/web-0 has ended (Failed)");
    let nobody = Content::no_pod("shop", "web-0").status.failed_message;
    assert!(nobody.starts_with("there is no pod web-0 in namespace shop; "), "{nobody}");
}

/// What is said of a pod that two nodes could take and that was not tried since it was told this.
fn untried(reason: &str, configuration: Configuration) -> ScheduleExplanationStatus {
    let profile = Profile::kubernetes();
    let engine = Engine::new(turn::Settings::default(), vec![(NAME.into(), profile)], start());
    let mut core = Core::new(engine, [NAME.into()], Meters::register(&Metrics::new()));
    let mut asked = pod("web-0", "1", "", 0);
    let told = json!([{ "type": "PodScheduled", "status": "False", "reason": reason,
                        "message": "told before" }]);
    asked.status.conditions = serde_json::from_value(told).unwrap();
    for message in [
        node("busy", json!({})),
        node("idle", json!({})),
        feed::news(pod("there", "2", "busy", 0)),
        feed::news(asked.clone()),
    ] {
        // Nothing is decided before all kinds are told: the pod waits.
        core.take(message, start());
    }
    let configuration = Arc::new(configuration);
    let answer = Answer::begun(&asked, AnsweredBy::Scheduler, &configuration);
    let known = Some(Known::of(&core, &Uid::new("web-0"), start()));
    let asked = Asked { fact: PodFact::from(&asked), answer, known, configuration };
    answer::of(asked).expect("it is known").status
}

#[test]
fn a_pod_that_fits_is_told_the_best_node_and_what_else_is_in_the_way() {
    let check = |reason: &str, configuration: Configuration, node: Option<&str>, told: &str| {
        let status = untried(reason, configuration);
        let detail = status.detailed_explanation[0].schedule_explanation.as_ref().unwrap();
        let result = detail.feasible_scheduling_result.first();
        assert_eq!(result.map(|own| own.node_name.as_str()), node, "{reason}");
        assert_eq!((status.schedulable, status.failed_message.as_str()), (node.is_some(), told));
    };
    let plain = Configuration::default;
    check("Unschedulable", plain(), Some("idle"), "");
    check("SchedulerError", plain(), Some("idle"), "told before");
    let file = format!(
        "apiVersion: {}\nkind: {}\nextenders: [{{urlPrefix: 'http://e', filterVerb: f}}]\n",
        crate::config::API_VERSION,
        crate::config::KIND
    );
    let extended = crate::config::parse("f".as_ref(), &file).unwrap();
    check("Unschedulable", extended, None, "told before");
}
