//! What is written on quotas, and pods that have to go for them.

use chassis::key::Key;
use serde_json::json;

use super::*;
use crate::dismissals::{Cause, DismissOrder, Dismissal};

/// A server that gives these answers one after the other, and the last one from then on; and how often it
/// was asked.
fn answering(
    clock: &Clock,
    answers: &'static [(u16, &'static str)],
) -> (Client, Arc<Mutex<usize>>) {
    let asked = Arc::new(Mutex::new(0));
    let count = asked.clone();
    let service = tower::service_fn(move |request: http::Request<_>| {
        drop(request);
        let mut count = count.lock().unwrap();
        let (code, body) = answers[(*count).min(answers.len() - 1)];
        *count += 1;
        let body = http_body_util::Full::new(bytes::Bytes::from(body));
        let response = http::Response::builder().status(code).body(body).unwrap();
        async move { Ok::<_, std::convert::Infallible>(response) }
    });
    let options = Options { clock: clock.clone(), timeout: TIMEOUT, ..Options::new("test") };
    (Client::from_service(service, &options), asked)
}

/// What is answered to a telling within some seconds, and how often the server was asked.
async fn told(
    telling: Telling,
    answers: &'static [(u16, &'static str)],
) -> (Option<Message>, usize) {
    let (clock, hand) = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
    let (client, asked) = answering(&clock, answers);
    let (notes, _) = Notes::new(&["s".into()], "host", (&client, 0, &Metrics::new()));
    let mut bench = Bench::at(client, notes, hand, Arc::default());
    let (orders, line) = mpsc::channel(1);
    tokio::spawn(bench.hands.clone().tell_all(line));
    orders.send(telling).await.unwrap();
    bench.pass(Duration::from_secs(10)).await;
    let asked = *asked.lock().unwrap();
    (bench.answers.pop().map(|(_, answer)| answer), asked)
}

const QUOTA: &str = r#"{"metadata":{"name":"q","namespace":"b","uid":"q","resourceVersion":"7"}}"#;
const STATUS: &str = r#"{"kind":"Status","status":"Failure"}"#;
const BUDGET: &str = r#"{"kind":"Status","status":"Failure","code":429,"message":"Cannot evict pod as it would violate the pod's disruption budget.","details":{"causes":[{"reason":"DisruptionBudget","message":"no"}]}}"#;
const BUSY: &str = r#"{"kind":"Status","status":"Failure","code":429}"#;

#[tokio::test]
async fn what_a_quota_says_is_written_whatever_answers_are_lost_and_what_it_is_then_is_told() {
    let check =
        async |answers: &'static [(u16, &'static str)], expected: (Wrote, bool), asked: usize| {
            let order = QuotaOrder { key: Key::namespaced("b", "q"), patch: json!({}) };
            let (message, times) = told(Telling::Quota(Box::new(order)), answers).await;
            let Some(Message::QuotaWritten(written)) = message else { panic!("{message:?}") };
            assert_eq!((written.wrote, written.object.is_some()), expected, "{answers:?}");
            assert_eq!((written.key, times), (Key::namespaced("b", "q"), asked), "{answers:?}");
        };
    check(&[(200, QUOTA)], (Wrote::All, true), 1).await;
    check(&[(503, "lost"), (200, QUOTA)], (Wrote::All, true), 2).await;
    check(&[(409, STATUS)], (Wrote::Nothing, false), 1).await;
    check(&[(404, STATUS)], (Wrote::Nothing, false), 1).await;
    check(&[(503, "lost")], (Wrote::Nothing, false), 4).await;
    check(&[(403, STATUS)], (Wrote::Refused, false), 1).await;
}

#[tokio::test]
async fn a_budget_that_does_not_let_a_pod_go_is_not_asked_again_at_once() {
    let check =
        async |answers: &'static [(u16, &'static str)], expected: Dismissal, asked: usize| {
            let (pod, object) = (pod_of("b", 1), (Key::namespaced("b", "q"), "q".into()));
            let uid = pod.uid.clone();
            let order = DismissOrder { pod, cause: Cause::Quota, object, words: "too much".into() };
            let (message, times) = told(Telling::Dismiss(Box::new(order)), answers).await;
            let Some(Message::Dismissed(own, answer)) = message else { panic!("{message:?}") };
            assert_eq!((own, answer, times), (uid, expected, asked), "{answers:?}");
        };
    check(&[(201, "{}")], Dismissal::Goes, 1).await;
    check(&[(429, BUDGET), (201, "{}")], Dismissal::Stays, 1).await;
    check(&[(429, BUSY), (201, "{}")], Dismissal::Goes, 2).await;
    check(&[(403, STATUS)], Dismissal::Stays, 1).await;
    check(&[(404, STATUS)], Dismissal::Goes, 1).await;
    check(&[(409, STATUS)], Dismissal::Goes, 1).await;
}
