//! What is written where a reservation gets its node.

use std::collections::BTreeSet;

use http_body_util::BodyExt;
use serde_json::json;

use super::*;
use crate::message::{HoldOrder, LifeOrder, Wrote};
use crate::reservations::Step;

const RESERVATION: &str = "/apis/scheduling.koordinator.sh/v1alpha1/reservations/r";
const ALLOCATED: &str = "scheduling.koordinator.sh/reservation-allocated";

type Objects = Arc<Mutex<BTreeMap<String, Value>>>;

/// A server with these objects, which carries out what is asked and then does not answer the requests
/// that begin so, the first time.
fn forgetful(clock: &Clock, objects: &Objects, lost: &'static [&'static str]) -> Client {
    let (objects, told) = (objects.clone(), Arc::new(Mutex::new(Vec::new())));
    let service = tower::service_fn(move |request: http::Request<_>| {
        let (objects, told) = (objects.clone(), told.clone());
        async move {
            let (parts, body) = request.into_parts();
            let line = format!("{} {}", parts.method, parts.uri.path());
            let patch = BodyExt::collect(body).await.unwrap().to_bytes();
            let path = parts.uri.path().trim_end_matches("/status").to_owned();
            let mut objects = objects.lock().unwrap();
            let found = objects.get_mut(&path).map(|own| {
                if parts.method == http::Method::PATCH {
                    let patch = serde_json::from_slice(&patch).unwrap();
                    *own = object::patch::merge::apply(own.clone(), patch).unwrap();
                }
                own.to_string()
            });
            let mut told = told.lock().unwrap();
            let is_lost = lost.contains(&&*line) && !told.contains(&line);
            told.push(line);
            let (code, body) = match found {
                _ if is_lost => (503, "lost".to_owned()),
                Some(body) => (200, body),
                None => (404, json!({ "kind": "Status", "code": 404 }).to_string()),
            };
            let body = http_body_util::Full::new(bytes::Bytes::from(body));
            let response = http::Response::builder().status(code);
            Ok::<_, std::convert::Infallible>(response.body(body).unwrap())
        }
    });
    let options = Options { clock: clock.clone(), timeout: TIMEOUT, ..Options::new("test") };
    Client::from_service(service, &options)
}

fn pod_path(name: &str) -> String {
    format!("/api/v1/namespaces/b/pods/{name}")
}

/// What came of a reservation that takes over two pods.
struct Held {
    outcome: Option<Outcome>,
    objects: Objects,
    /// Of which it was said that they are taken over.
    adopted: BTreeSet<Uid>,
}

/// What comes of a reservation that takes over two pods, where these are there.
async fn hold(pods: &[&str], lost: &'static [&'static str]) -> Held {
    let objects = Objects::default();
    let pod = |name: &&str| {
        let pod = json!({ "metadata": { "name": name, "namespace": "b", "uid": name },
                          "spec": { "nodeName": "n1" } });
        (pod_path(name), pod)
    };
    objects.lock().unwrap().extend(pods.iter().map(pod));
    let reservation = json!({ "metadata": { "name": "r", "uid": "r" } });
    objects.lock().unwrap().insert(RESERVATION.to_owned(), reservation);
    let (clock, hand) = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
    let client = forgetful(&clock, &objects, lost);
    let (notes, _) = Notes::new(&["s".into()], "host", (&client, 0, &Metrics::new()));
    let mut bench = Bench::at(client, notes, hand, Arc::default());
    let Work::Bind(mut order) = binding_of("b", 0) else { panic!("it is a Binding") };
    order.pod = PodRef { uid: Uid::new("r"), name: "r".into(), is_reservation: true, ..order.pod };
    let held = HoldOrder { adopts: vec![pod_of("b", 1), pod_of("b", 2)], ..HoldOrder::default() };
    order.held = Some(held);
    let (orders, line) = mpsc::channel(1);
    tokio::spawn(bench.hands.clone().bind_all(line));
    orders.send(Work::Bind(order)).await.unwrap();
    bench.pass(Duration::from_secs(20)).await;
    let (mut outcome, mut adopted) = (None, BTreeSet::new());
    for (_, answer) in bench.answers {
        match answer {
            Message::Answered(_, Answer::Definite(found)) => outcome = Some(found),
            Message::Adopted(one) => {
                assert_eq!((one.by, outcome.is_none()), (Uid::new("r"), true));
                adopted.insert(one.pod);
            }
            _ => {}
        }
    }
    Held { outcome, objects, adopted }
}

fn uses(objects: &Objects, pod: &str) -> Option<String> {
    let objects = objects.lock().unwrap();
    objects[&pod_path(pod)]["metadata"]["annotations"][ALLOCATED].as_str().map(str::to_owned)
}

#[tokio::test]
async fn what_is_held_is_written_once_whatever_answers_are_lost() {
    let status = "PATCH /apis/scheduling.koordinator.sh/v1alpha1/reservations/r/status";
    let pod = "PATCH /api/v1/namespaces/b/pods/b1";
    for lost in [&[][..], &[status][..], &[pod][..], &[status, pod][..]] {
        let lost: &'static [&'static str] = Box::leak(lost.into());
        let Held { outcome, objects, adopted } = hold(&["b1", "b2"], lost).await;
        assert_eq!(adopted, ["b1", "b2"].map(Uid::new).into(), "{lost:?}");
        assert_eq!(outcome, Some(Outcome::Bound), "{lost:?}");
        let own = objects.lock().unwrap()[RESERVATION]["status"].clone();
        assert_eq!((&own["phase"], &own["nodeName"]), (&json!("Available"), &json!("n1")));
        for pod in ["b1", "b2"] {
            let expected = r#"{"name":"r","uid":"r"}"#;
            assert_eq!(uses(&objects, pod).as_deref(), Some(expected), "{lost:?}");
        }
    }
}

#[tokio::test]
async fn where_one_that_is_taken_over_is_gone_nothing_is_left_of_it_on_the_others() {
    let Held { outcome, objects, .. } = hold(&["b1"], &[]).await;
    let words = "pod b/b2, which it takes over, is gone";
    assert_eq!(outcome, Some(Outcome::NotBound(words.into())));
    assert_eq!(uses(&objects, "b1"), None);
    assert_eq!(objects.lock().unwrap()[RESERVATION]["status"], Value::Null);
}

#[tokio::test]
async fn s11_14_pods_that_used_one_that_is_gone_say_so_no_longer() {
    let read = "GET /api/v1/namespaces/b/pods/b1";
    let write = "PATCH /api/v1/namespaces/b/pods/b1";
    for lost in [&[][..], &[read][..], &[write][..]] {
        let objects = Objects::default();
        let pod = |(name, uid, used): (&str, &str, &str)| {
            let uses = json!({ "name": "r", "uid": used }).to_string();
            let metadata = json!({ "name": name, "namespace": "b", "uid": uid,
                                   "annotations": { ALLOCATED: uses, "kept": "yes" } });
            (pod_path(name), json!({ "metadata": metadata, "spec": { "nodeName": "n1" } }))
        };
        // The second uses another one by now, and the third is another pod of that name.
        let pods = [("b1", "b1", "r"), ("b2", "b2", "s"), ("b3", "new", "r")];
        objects.lock().unwrap().extend(pods.map(pod));
        let (clock, hand) = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
        let client = forgetful(&clock, &objects, Box::leak(lost.into()));
        let (notes, _) = Notes::new(&["s".into()], "host", (&client, 0, &Metrics::new()));
        let mut bench = Bench::at(client, notes, hand, Arc::default());
        let step = Step::Free((1..=4).map(|number| pod_of("b", number)).collect());
        let (orders, line) = mpsc::channel(1);
        tokio::spawn(bench.hands.clone().tell_all(line));
        let order = LifeOrder { uid: Uid::new("r"), name: "r".into(), step };
        orders.send(Telling::Life(Box::new(order))).await.unwrap();
        bench.pass(Duration::from_secs(20)).await;
        let is_told = |(_, answer): &(_, Message)| matches!(answer, Message::Lived(uid, Wrote::All) if *uid == Uid::new("r"));
        assert!(bench.answers.iter().any(is_told), "{lost:?}");
        let says = ["b1", "b2", "b3"].map(|pod| uses(&objects, pod).is_some());
        assert_eq!(says, [false, true, true], "{lost:?}");
        let kept = &objects.lock().unwrap()[&pod_path("b1")]["metadata"]["annotations"]["kept"];
        assert_eq!(kept, "yes");
    }
}
