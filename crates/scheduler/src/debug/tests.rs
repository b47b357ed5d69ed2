use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::{Node, Pod};
use chassis::client;
use chassis::clock::{Clock, Hand};
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
pub(super) const START: Moment = Moment(1_000_000_000_000);

pub(super) fn node(name: &str) -> Message {
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
fn gangs_stand_in_the_queue_with_their_members() {
    let profile =
        Profile { gangs: Some(engine::gangs::Settings::default()), ..Profile::kubernetes() };
    let engine = Engine::new(turn::Settings::default(), vec![(NAME.into(), profile)], START);
    let mut core = Core::new(engine, [NAME.into()], Meters::register(&Metrics::new()));
    Kind::ALL.into_iter().for_each(|kind| drop(core.take(Message::Synced(kind), START)));
    core.take(node("n1"), START);
    for name in ["a", "b"] {
        let mut member = pod(name, "9", "");
        let told = [("name", "g"), ("min-available", "2")];
        let told =
            told.map(|(key, own)| (format!("gang.scheduling.koordinator.sh/{key}"), own.into()));
        member.metadata.annotations.extend(told);
        core.take(feed::news(member), START);
    }
    while core.next_order(START).is_some() {}
    let shown = |namespace| json_of(&QueueCopy::of(&core, namespace, START).into_view());
    let row = json!({ "kind": "GangGroup", "pod": "shop/g", "members": 2, "place": "waiting",
                      "refusedBy": ["NodeResourcesFit"] });
    let all = json!({ "counts": { "waiting": 1 }, "pods": [row], "leftOut": 0 });
    assert_eq!((shown(None), shown(Some("shop"))), (all.clone(), all));
    assert_eq!(shown(Some("other"))["pods"], json!([]));
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
    while core.next_order(START).is_some() {}
    core.take(feed::news(pod("next", "1", "")), START);
    let queue = json_of(&QueueCopy::of(&core, None, START).into_view());
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
    let other = QueueCopy::of(&core, Some("other"), START).into_view();
    assert_eq!(other, QueueView::default());
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
fn what_became_of_a_pod_is_told_in_order_with_what_woke_it() {
    let mut core = core();
    let at = |seconds: u64| START.after(Duration::from_secs(seconds));
    for message in
        [node("n1"), feed::news(pod("large", "9", "")), feed::news(pod("small", "1", ""))]
    {
        core.take(message, START);
    }
    let orders: Vec<_> = std::iter::from_fn(|| core.next_order(START)).collect();
    let bind = orders.iter().find_map(|order| match order {
        crate::message::Order::Bind(order) => Some(order.errand()),
        _ => None,
    });
    let bound = crate::message::Answer::Definite(crate::bind::Outcome::Bound);
    core.take(Message::Answered(bind.unwrap(), bound), at(2));
    core.take(Message::Told(Uid::new("large")), at(3));
    let mut larger = node("n2");
    if let Message::Fact(Fact::Node(own)) = &mut larger {
        own.allocatable.cpu_millis = 16_000;
    }
    core.take(larger, at(20));
    while core.next_order(at(20)).is_some() {}
    let audit = |query: &[(&str, &str)]| {
        let query = query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        AuditCopy::of(&core, &About::of(&query.collect())).into_view()
    };
    let one = audit(&[("namespace", "shop"), ("pod", "large")]);
    let told: Vec<_> = one.decisions.iter().map(|own| (own.attempt, &*own.verdict)).collect();
    assert_eq!(told, [(1, "wait"), (2, "bind")]);
    assert_eq!(one.decisions[0].refused_by, ["NodeResourcesFit"]);
    let moves: Vec<_> = one.moves.iter().map(|own| (&*own.to, &*own.cause)).collect();
    let expected = [
        ("active", "UnschedulablePodAdd"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("active", "NodeAdd"),
    ];
    assert_eq!(moves, expected);
    assert_eq!(one.moves[2].time, "1970-01-01T00:17:00Z");
    let small = audit(&[("namespace", "shop"), ("pod", "small")]);
    let [own] = &small.decisions[..] else { panic!("{small:?}") };
    assert_eq!((own.answer.as_deref(), own.answer_seconds), (Some("bound"), Some(2.0)));
    assert_eq!(audit(&[("pod", "large")]), AuditView::default(), "it is in another namespace");
    assert_eq!(audit(&[("namespace", "shop")]), audit(&[]));
    core.take(Message::Fact(Fact::PodGone(Uid::new("large"))), at(21));
    let gone = AuditCopy::of(&core, &About::of(&Query::new())).into_view();
    assert_eq!((gone.moves.len(), &gone.moves[0].pod), (4, &None), "its uid is all that is left");
}

#[test]
fn the_scheduler_says_what_it_told_last_and_explains_from_a_copy() {
    let mut core = core();
    let large = pod("large", "9", "");
    for message in [node("n1"), feed::news(large.clone())] {
        core.take(message, START);
    }
    while core.next_order(START).is_some() {}
    let configuration = Configuration::default();
    let uid = Uid::new("large");
    let answer = Answer::begun(&large, AnsweredBy::Scheduler, &configuration);
    let answer =
        explained(answer, Known::of(&core, &uid, START), &PodFact::from(&large), &configuration);
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
    let usage = "say which pod: /debug/why?namespace=NAMESPACE&pod=NAME, or which Reservation: \
                 /debug/why?reservation=NAME, or which gang: /debug/why?namespace=NAMESPACE&gang=NAME";
    check(desk.why(&Query::new()).await, 400, usage);
    let query = Query::from([("pod".to_owned(), "web-0".to_owned())]);
    check(desk.why(&query).await, 503, &Refusal::idle().message);
    let (parts, ()) =
        http::Request::get("/debug/why?namespace=a%20b&pod=c").body(()).unwrap().into_parts();
    let asked: Vec<(String, String)> = asked(&parts).into_iter().collect();
    let pairs = [("namespace", "a b"), ("pod", "c")];
    assert_eq!(asked, pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
}

/// A desk whose scheduler is the test, and the clock that it looks at.
fn opened() -> (Desk, mpsc::Sender<Message>, mpsc::Receiver<Message>, Hand) {
    opened_for(&Configuration::default())
}

/// The same of one that is told this.
pub(super) fn opened_for(
    configuration: &Configuration,
) -> (Desk, mpsc::Sender<Message>, mpsc::Receiver<Message>, Hand) {
    let (clock, hand) = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
    let service = tower::service_fn(|_: http::Request<client::Body>| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
    });
    let options = client::Options { clock, ..client::Options::new("test") };
    let (sender, line) = mpsc::channel(8);
    let desk = Desk::default();
    let client = Client::from_service(service, &options);
    desk.open(&sender, &client, configuration);
    (desk, sender, line, hand)
}

/// Whether something, which is begun thereby, does not end at once.
async fn is_pending(work: &mut (impl Future + Unpin)) -> bool {
    tokio::select! {
        biased;
        _ = work => false,
        () = std::future::ready(()) => true,
    }
}

fn look(line: &mut mpsc::Receiver<Message>) -> Look {
    match line.try_recv() {
        Ok(Message::Look(look)) => look,
        other => panic!("{other:?} is no look"),
    }
}

#[tokio::test]
async fn who_hangs_up_keeps_the_turn_until_the_engine_has_seen_it_and_costs_it_nothing() {
    let (desk, _sender, mut line, _hand) = opened();
    let core = core();
    let was_looked = Arc::new(AtomicBool::new(false));
    let own = was_looked.clone();
    let (clerk, turn) = (desk.clerk().unwrap(), desk.turn().await);
    let mut asks = Box::pin(clerk.look(turn, move |_, _| own.store(true, Ordering::Relaxed)));
    assert!(is_pending(&mut asks).await);
    drop(asks);
    // The next one waits although nobody wants to know the first.
    let (query, mut sent) = (Query::new(), 0);
    let mut next = Box::pin(desk.queue(&query));
    for _ in 0..3 {
        assert!(is_pending(&mut next).await);
        sent += line.len();
    }
    assert_eq!(sent, 3, "one look in the line, seen three times");
    look(&mut line).at(&core, START);
    assert!(!was_looked.load(Ordering::Relaxed));
    assert!(is_pending(&mut next).await);
    look(&mut line).at(&core, START);
    assert_eq!(next.await.unwrap(), QueueView::default());
}

#[tokio::test]
async fn the_engine_is_left_alone_for_nine_times_as_long_as_a_look_took() {
    let (desk, _sender, mut line, hand) = opened();
    let core = core();
    let (clerk, turn, own) = (desk.clerk().unwrap(), desk.turn().await, hand.clone());
    let slow = move |_: &Core, _| own.advance(Duration::from_millis(10));
    let mut asks = Box::pin(clerk.look(turn, slow));
    assert!(is_pending(&mut asks).await);
    look(&mut line).at(&core, START);
    drop(asks.await.map_err(|refusal| refusal.message).unwrap());
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(hand.next_due(), Some(Duration::from_millis(90)));
    let mut next = Box::pin(desk.turn());
    assert!(is_pending(&mut next).await);
    hand.advance(Duration::from_millis(90));
    next.await;
}

#[tokio::test]
async fn an_answer_that_nobody_waits_for_is_worked_out_before_the_next() {
    let (desk, _sender, _line, _hand) = opened();
    let (begin, begun) = std::sync::mpsc::channel();
    let seen = Seen { what: (), turn: desk.turn().await };
    let mut works = Box::pin(seen.worked_out(move |()| begun.recv()));
    assert!(is_pending(&mut works).await);
    drop(works);
    let mut next = Box::pin(desk.turn());
    assert!(is_pending(&mut next).await);
    begin.send(()).unwrap();
    next.await;
}
