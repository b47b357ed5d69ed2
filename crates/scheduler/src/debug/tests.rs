use api::Node;
use chassis::metrics::Metrics;
use engine::fact::{Fact, NodeFact};
use engine::profile::Profile;
use engine::turn::{self, Engine};
use serde_json::{Value, json};

use super::*;
use crate::feed;
use crate::message::Kind;
use crate::meters::Meters;

const NAME: &str = "default-scheduler";
const START: Moment = Moment(1_000_000_000_000);

fn node(name: &str) -> Message {
    let allocatable = json!({ "cpu": "4", "memory": "64Gi", "pods": "110" });
    let labels = json!({ "zone": format!("z{}", name.len()), "kubernetes.io/hostname": name });
    let node = json!({
        "metadata": { "name": name, "labels": labels },
        "status": { "allocatable": allocatable },
    });
    let node: Node = serde_json::from_value(node).unwrap();
    Message::Fact(Fact::Node(NodeFact::from(&node)))
}

fn pod(name: &str, cpu: &str, node: &str) -> Pod {
    let requests = json!({ "cpu": cpu, "memory": "1Mi" });
    let pod = json!({
        "metadata": { "name": name, "namespace": "shop", "uid": name, "labels": { "app": name } },
        "spec": { "schedulerName": NAME, "nodeName": node, "containers": [
            { "name": "main", "resources": { "requests": requests } }] },
    });
    serde_json::from_value(pod).unwrap()
}

fn core() -> Core {
    let profiles = vec![(NAME.into(), Profile::kubernetes())];
    let engine = Engine::new(turn::Settings::default(), profiles, START);
    let mut core = Core::new(engine, [NAME.into()], Meters::register(&Metrics::new()));
    for kind in Kind::ALL {
        core.take(Message::Synced(kind), START);
    }
    core
}

fn json_of(view: &impl Serialize) -> Value {
    serde_json::to_value(view).unwrap()
}

#[test]
fn the_views_show_who_waits_what_is_taken_and_what_was_decided() {
    let mut core = core();
    let facts = [node("n1"), feed::news(pod("there", "1", "n1"))];
    for message in facts
        .into_iter()
        .chain([feed::news(pod("small", "500m", "")), feed::news(pod("large", "9", ""))])
    {
        core.take(message, START);
    }
    while core.decide(START).is_some() {}
    core.take(feed::news(pod("next", "1", "")), START);
    let queue = json_of(&QueueView::of(&core, None, START));
    assert_eq!(
        queue,
        json!({
            "counts": { "active": 1, "waiting": 1 },
            "pods": [
                { "namespace": "shop", "pod": "next", "place": "active" },
                { "namespace": "shop", "pod": "large", "place": "waiting",
                  "refusedBy": ["NodeResourcesFit"] },
            ],
            "leftOut": 0,
        })
    );
    assert_eq!(QueueView::of(&core, Some("other"), START), QueueView::default());
    let snapshot = core.engine().ledger().snapshot(None);
    assert_eq!(
        json_of(&LedgerView::of(&snapshot, None)),
        json!({ "nodes": [{
            "node": "n1",
            "allocatable": { "cpu": "4", "memory": "64Gi", "ephemeral-storage": "0" },
            "requested": { "cpu": "1500m", "memory": "2Mi", "ephemeral-storage": "0" },
            "pods": 2,
            "podsAllowed": 110,
            "claims": ["shop/small"],
            "nominated": [],
        }] })
    );
    let decisions: Vec<DecisionView> = core.decided().map(Into::into).collect();
    let told: Vec<_> = decisions
        .iter()
        .map(|one| (one.pod.as_str(), one.verdict.as_str(), one.node.as_deref()))
        .collect();
    assert_eq!(told, [("large", "wait", None), ("small", "bind", Some("n1"))]);
    assert_eq!(decisions[0].time, "1970-01-01T00:16:40Z");
    let told = core.told(&Uid::new("large")).map(|told| &*told.message);
    assert_eq!(decisions[0].message.as_deref(), told);
}

#[test]
fn the_scheduler_says_what_it_told_last_and_explains_from_a_copy() {
    let mut core = core();
    let large = pod("large", "9", "");
    for message in [node("n1"), feed::news(large.clone())] {
        core.take(message, START);
    }
    while core.decide(START).is_some() {}
    let configuration = Configuration::default();
    let uid = Uid::new("large");
    let answer = Answer::begun(&large, AnsweredBy::Scheduler, &configuration);
    let answer = explained(answer, Known::of(&core, &uid, START), &large, &configuration);
    assert_eq!(answer.message.as_deref(), core.told(&uid).map(|told| &*told.message));
    assert!(answer.message.is_some_and(|text| text.contains("1 Insufficient cpu")));
    let standing = Some(Standing::Waiting);
    assert_eq!(answer.state, State::Waiting { standing, nominated: None });
    let nodes = answer.nodes.unwrap();
    assert_eq!((nodes.all, nodes.fitting), (1, 0));
    assert_eq!(nodes.changes[0].change, "request 4 of cpu, not 9");
}

#[tokio::test]
async fn whoever_asks_wrongly_or_too_early_is_told() {
    let check = |answer: Result<Answer, Refusal>, code: u16, message: &str| {
        let refusal = answer.unwrap_err();
        assert_eq!((refusal.code, refusal.message.as_str()), (code, message));
    };
    let desk = Desk::default();
    let usage = "say which pod: /debug/why?namespace=NAMESPACE&pod=NAME";
    check(desk.why(&Query::new()).await, 400, usage);
    let query = Query::from([("pod".to_owned(), "web-0".to_owned())]);
    check(desk.why(&query).await, 503, &Refusal::idle().message);
    let (parts, ()) =
        http::Request::get("/debug/why?namespace=a%20b&pod=c").body(()).unwrap().into_parts();
    let asked: Vec<(String, String)> = asked(&parts).into_iter().collect();
    let pairs = [("namespace", "a b"), ("pod", "c")];
    assert_eq!(asked, pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
}
