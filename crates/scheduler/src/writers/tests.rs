mod quotas;
mod reservations;

use std::collections::BTreeMap;
use std::sync::Mutex;

use chassis::client::{Options, Refusal};
use chassis::clock::Hand;
use chassis::metrics::Metrics;
use engine::fact::{ClaimReference, Uid};
use serde_json::json;

use super::*;
use crate::message::{ConditionOrder, Recall, RoomOrder};

fn refused(code: u16, retry_after: Option<u64>) -> Error {
    let body = format!(r#"{{"kind":"Status","status":"Failure","message":"said","code":{code}}}"#);
    let refusal = Box::new(Refusal::parse(code, retry_after, body.as_bytes()));
    Error::Refused { verb: http::Method::POST, path: "/".to_owned(), refusal }
}

fn unclear(patience: Option<Duration>) -> Event {
    Event::Unclear(Unclear { words: "said".into(), patience, lands_within: LAND_MAX })
}

/// The server was too busy to look at it.
fn busy(patience: Option<Duration>) -> Event {
    Event::Unclear(Unclear { words: "said".into(), patience, lands_within: Duration::ZERO })
}

fn silence() -> Event {
    let words = "POST /: no answer within 1s".into();
    Event::Unclear(Unclear { words, patience: None, lands_within: LAND_MAX })
}

/// A page of somebody in between.
fn page(code: u16) -> Error {
    let refusal = Box::new(Refusal::parse(code, None, b"said"));
    Error::Refused { verb: http::Method::POST, path: "/".to_owned(), refusal }
}

fn silent() -> Error {
    let limit = Duration::from_secs(1);
    Error::TimedOut { verb: http::Method::POST, path: "/".to_owned(), limit }
}

#[test]
fn an_answer_to_a_binding_is_definite_or_unclear() {
    let check = |answer: Result<(), Error>, expected: Event| {
        let told = format!("{answer:?}");
        assert_eq!(sent(answer), expected, "{told}");
    };
    let said = || "said".into();
    check(Ok(()), Event::Done);
    check(Err(refused(404, None)), Event::Missing);
    check(Err(refused(409, None)), Event::Conflicted(said()));
    for code in [400, 401, 403, 413, 422] {
        check(Err(refused(code, None)), Event::Refused(said()));
    }
    for code in [408, 500, 502, 503, 504] {
        check(Err(refused(code, None)), unclear(None));
    }
    check(Err(refused(429, None)), busy(None));
    check(Err(page(429)), unclear(None));
    let asked = Some(Duration::from_secs(7));
    check(Err(refused(429, Some(7))), busy(asked));
    check(Err(refused(503, Some(7))), unclear(asked));
    check(Err(silent()), silence());
    check(Err(page(404)), unclear(None));
}

#[test]
fn a_read_shows_where_the_pod_is() {
    let check = |pod: Result<&str, Error>, expected: Event| {
        let told = format!("{pod:?}");
        let pod = pod.map(|pod| serde_json::from_str(pod).unwrap());
        assert_eq!(read(pod, "u1"), expected, "{told}");
    };
    let found = Event::Read;
    check(Ok(r#"{"metadata":{"uid":"u2"}}"#), found(Found::Nothing));
    check(Ok(r#"{"metadata":{"uid":"u1"}}"#), found(Found::Unbound));
    let bound = r#"{"metadata":{"uid":"u1"},"spec":{"nodeName":"n"}}"#;
    check(Ok(bound), found(Found::Bound("n".into())));
    let going = r#"{"metadata":{"uid":"u1","deletionTimestamp":"2026-01-01T00:00:00Z"}}"#;
    check(Ok(going), found(Found::Going));
    check(Err(refused(404, None)), Event::Missing);
    check(Err(refused(500, None)), unclear(None));
    check(Err(silent()), silence());
    check(Err(page(404)), unclear(None));
}

/// The pod that the server is first too busy for.
const BUSY: &str = "b150";

/// A server on which nothing that is asked in namespace `a` is ever answered, and everything else at
/// once with this, but the first time that it is asked about one pod; and the requests that it got.
fn half_dead(clock: &Clock, body: &'static str) -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = asked.clone();
    let service = tower::service_fn(move |request: http::Request<_>| {
        let line = format!("{} {}", request.method(), request.uri().path());
        let (is_dead, is_created) = (line.contains("/namespaces/a/"), line.starts_with("POST"));
        drop(request);
        let mut heard = heard.lock().unwrap();
        let is_busy = line.contains(BUSY) && !heard.contains(&line);
        heard.push(line);
        async move {
            if is_dead {
                std::future::pending::<()>().await;
            }
            let body = http_body_util::Full::new(bytes::Bytes::from(body));
            let code = match is_created {
                _ if is_busy => 503,
                true => 201,
                false => 200,
            };
            Ok::<_, std::convert::Infallible>(
                http::Response::builder().status(code).body(body).unwrap(),
            )
        }
    });
    let options = Options {
        clock: clock.clone(),
        timeout: TIMEOUT,
        in_flight_max: IN_FLIGHT_MAX,
        ..Options::new("test")
    };
    (Client::from_service(service, &options), asked)
}

const TIMEOUT: Duration = Duration::from_secs(10);

/// Hands at a server half of which is dead, on a clock of their own.
struct Bench {
    hands: Hands,
    line: mpsc::Receiver<Message>,
    hand: Hand,
    asked: Arc<Mutex<Vec<String>>>,
    /// Answers so far: when, and what.
    answers: Vec<(Duration, Message)>,
}

impl Bench {
    fn new(body: &'static str) -> Self {
        let (clock, hand) = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
        let (client, asked) = half_dead(&clock, body);
        let (notes, _) = Notes::new(&["s".into()], "host", (&client, 0, &Metrics::new()));
        Self::at(client, notes, hand, asked)
    }

    fn at(client: Client, notes: Notes, hand: Hand, asked: Arc<Mutex<Vec<String>>>) -> Self {
        let (answers, line) = mpsc::channel(100_000);
        let extenders = Extenders::new(&[], &client).unwrap();
        let (license, stop) = (License::Always, CancellationToken::new());
        let traffic = Traffic::new(notes.clone());
        let hands = Hands { client, notes, traffic, extenders, license, seed: 1, answers, stop };
        Self { hands, line, hand, asked, answers: Vec::new() }
    }

    /// Lets so much time pass.
    async fn pass(&mut self, time: Duration) {
        let (clock, step) = (self.hands.clock().clone(), Duration::from_millis(100));
        let until = clock.monotonic() + time;
        while clock.monotonic() < until {
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
            while let Ok(answer) = self.line.try_recv() {
                self.answers.push((clock.monotonic(), answer));
            }
            self.hand.advance(step);
        }
    }
}

fn pod_of(namespace: &str, number: usize) -> PodRef {
    let name = format!("{namespace}{number}");
    PodRef {
        uid: Uid::new(&name),
        namespace: namespace.into(),
        name: name.into(),
        is_reservation: false,
    }
}

fn binding_of(namespace: &str, number: usize) -> Work {
    Work::Bind(BindOrder {
        pod: pod_of(namespace, number),
        number: number as u64,
        version: Box::default(),
        node: "n1".into(),
        scheduler: "s".into(),
        binder: Binder::Server,
        stamps: BTreeMap::new(),
        held: None,
    })
}

fn telling_of(namespace: &str, number: usize) -> Telling {
    let condition = ConditionOrder { reason: "no", generation: 1, is_transition: true };
    Telling::Wait(Box::new(TellOrder {
        reservations: None,
        pod: pod_of(namespace, number),
        version: "1".into(),
        scheduler: "s".into(),
        message: "no".into(),
        condition: Some(condition),
        nominated: None,
        room: None,
    }))
}

#[tokio::test]
async fn bindings_of_which_nothing_is_heard_hold_up_those_of_no_other_namespace() {
    let mut bench = Bench::new("{}");
    let (orders, line) = mpsc::channel(10_000);
    let writing = tokio::spawn(bench.hands.clone().bind_all(line));
    for number in 0..200 {
        orders.send(binding_of("a", number)).await.unwrap();
    }
    bench.pass(Duration::from_secs(1)).await;
    for number in 0..200 {
        orders.send(binding_of("b", number)).await.unwrap();
    }
    bench.pass(Duration::from_secs(20)).await;
    // A place is theirs as soon as the first of the others were given up, and then for good.
    let is_bound = |(at, answer): &&(Duration, Message)| {
        let is_bound = matches!(answer, Message::Answered(errand, Answer::Definite(Outcome::Bound))
            if errand.uid.0.starts_with('b'));
        is_bound && *at <= TIMEOUT + Duration::from_secs(1)
    };
    assert_eq!(bench.answers.iter().filter(is_bound).count(), 200);
    let held = |(_, answer): &&(Duration, Message)| matches!(answer, Message::Held(_));
    assert_eq!(bench.answers.iter().filter(held).count(), 200 - BINDS_IN_FLIGHT_MAX);
    let begun = bench.hands.clock().monotonic();
    orders.send(binding_of("b", 200)).await.unwrap();
    bench.pass(Duration::from_secs(2)).await;
    let last = bench.answers.iter().find(
        |(_, answer)| matches!(answer, Message::Answered(errand, _) if *errand.uid.0 == *"b200"),
    );
    assert!(last.is_some_and(|(at, _)| *at < begun + Duration::from_secs(1)), "{last:?}");
    // Those are tried again, no more than a few at a time.
    let asked = bench.asked.lock().unwrap().iter().filter(|one| one.contains("/a/")).count();
    assert!((BINDS_IN_FLIGHT_MAX + 4..BINDS_IN_FLIGHT_MAX + 13).contains(&asked), "{asked}");
    // The end waits for what is under way, and for nothing that would be tried again.
    drop(orders);
    bench.hands.stop.cancel();
    bench.pass(TIMEOUT + Duration::from_secs(1)).await;
    assert!(writing.is_finished());
}

#[tokio::test]
async fn while_some_bindings_are_always_under_way_it_is_told_in_time_of_others() {
    let (clock, hand) = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
    let (client, asked) = half_dead(&clock, "{}");
    let (notes, writer) = Notes::new(&["s".into()], "host", (&client, 0, &Metrics::new()));
    let mut bench = Bench::at(client, notes, hand, asked);
    let telling = tokio::spawn(writer.run(CancellationToken::new()));
    let (orders, line) = mpsc::channel(100);
    let writing = tokio::spawn(bench.hands.clone().bind_all(line));
    for number in 0..BINDS_IN_FLIGHT_MAX / 2 {
        orders.send(binding_of("a", number)).await.unwrap();
    }
    for number in 0..90 {
        orders.send(binding_of("b", number)).await.unwrap();
        bench.pass(Duration::from_millis(100)).await;
    }
    let is_event = |line: &&String| line.ends_with("/namespaces/b/events");
    let told = bench.asked.lock().unwrap().iter().filter(is_event).count();
    assert!((40..50).contains(&told), "{told} of the first 40 within five seconds each");
    writing.abort();
    telling.abort();
}

#[tokio::test]
async fn tellings_of_which_nothing_is_heard_hold_up_those_of_no_other_namespace() {
    let mut bench = Bench::new("{}");
    let (orders, line) = mpsc::channel(10_000);
    let writing = tokio::spawn(bench.hands.clone().tell_all(line));
    for (namespace, count) in [("a", 2000), ("b", 200)] {
        for number in 0..count {
            orders.send(telling_of(namespace, number)).await.unwrap();
        }
    }
    bench.pass(Duration::from_secs(60)).await;
    let told = |(at, answer): &&(Duration, Message)| {
        matches!(answer, Message::Told(uid) if uid.0.starts_with('b'))
            && *at <= TIMEOUT + Duration::from_secs(1)
    };
    assert_eq!(bench.answers.iter().filter(told).count(), 200);
    let asked = bench.asked.lock().unwrap().iter().filter(|one| one.contains(BUSY)).count();
    assert_eq!(asked, 2, "that one was tried again meanwhile");
    // More than some do not wait; they are found out anew.
    let untold = |(at, answer): &&(Duration, Message)| {
        matches!(answer, Message::Untold(uid) if uid.0.starts_with('a'))
            && *at <= TIMEOUT + Duration::from_secs(1)
    };
    assert_eq!(bench.answers.iter().filter(untold).count(), 2000 - TELLINGS_IN_TROUBLE_MAX);
    drop(orders);
    bench.hands.stop.cancel();
    bench.pass(TIMEOUT + Duration::from_secs(1)).await;
    assert!(writing.is_finished());
}

#[tokio::test]
async fn what_cannot_be_told_is_given_up_after_some_tries() {
    let mut bench = Bench::new("{}");
    let (orders, line) = mpsc::channel(10);
    let writing = tokio::spawn(bench.hands.clone().tell_all(line));
    orders.send(telling_of("a", 0)).await.unwrap();
    drop(orders);
    bench.pass(TRIES_MAX * (TIMEOUT + RETRY) + Duration::from_secs(1)).await;
    assert!(writing.is_finished());
    assert!(matches!(bench.answers[..], [(_, Message::Untold(_))]), "{:?}", bench.answers);
    assert_eq!(bench.asked.lock().unwrap().len(), TRIES_MAX as usize);
}

/// What is asked of a server that answers deletions like this, one after the other, and everything
/// else well, where a pod has to go for another, and whether all was done. Who is found after a deletion has this uid.
async fn evicted(deletions: &'static [u16], later: &'static str) -> (Vec<String>, bool) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = asked.clone();
    let service = tower::service_fn(move |request: http::Request<_>| {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        drop(request);
        let mut heard = heard.lock().unwrap();
        let is_deletion = |line: &&String| line.starts_with("DELETE");
        let before = heard.iter().filter(is_deletion).count();
        heard.push(format!("{method} {}", path.rsplit('/').next().unwrap_or_default()));
        let (code, body) = match method {
            http::Method::DELETE => {
                let code = deletions[before];
                let status = if code < 300 { "Success" } else { "Failure" };
                (code, format!(r#"{{"kind":"Status","status":"{status}","code":{code}}}"#))
            }
            http::Method::POST => (201, "{}".to_owned()),
            _ => {
                let uid = if before > 0 { later } else { "a0" };
                let metadata = json!({ "name": "a0", "uid": uid, "resourceVersion": "7" });
                (200, json!({ "metadata": metadata }).to_string())
            }
        };
        let body = http_body_util::Full::new(bytes::Bytes::from(body));
        let answer = http::Response::builder().status(code).body(body).unwrap();
        async move { Ok::<_, std::convert::Infallible>(answer) }
    });
    let (clock, hand) = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
    let client = Client::from_service(service, &Options { clock, ..Options::new("test") });
    let (notes, writer) = Notes::new(&["s".into()], "host", (&client, 0, &Metrics::new()));
    let room = RoomOrder { node: "n1".into(), victims: vec![pod_of("a", 0)], passed_over: vec![] };
    let Telling::Wait(order) = telling_of("b", 0) else { panic!("it waits") };
    let order = TellOrder { condition: None, ..*order };
    let mut bench = Bench::at(client, notes, hand, asked);
    let hands = bench.hands.clone();
    let writing = tokio::spawn(writer.run(CancellationToken::new()));
    let evicting = tokio::spawn(async move {
        let mut place = Place::new(Slots::new(1, 1), None);
        hands.make_room(&order, &room, &mut place).await
    });
    bench.pass(Duration::from_secs(2)).await;
    let is_made = evicting.await.unwrap();
    let Bench { hands, asked, .. } = bench;
    drop(hands);
    writing.await.unwrap();
    let asked = asked.lock().unwrap();
    (asked.clone(), is_made)
}

#[tokio::test]
async fn of_a_pod_that_had_to_go_it_is_told_though_the_answer_was_lost() {
    let begun = ["GET a0", "PATCH status", "DELETE a0"];
    let check = async |deletions: &'static [u16], more: &[&str]| {
        let (asked, is_made) = evicted(deletions, "another").await;
        assert_eq!(asked, [&begun[..], more].concat(), "{deletions:?}");
        assert!(is_made, "{deletions:?}");
    };
    check(&[200], &["POST events"]).await;
    check(&[503, 200], &["DELETE a0", "POST events"]).await;
    check(&[503, 404], &["DELETE a0", "POST events"]).await;
    check(&[503, 409], &["DELETE a0", "GET a0", "POST events"]).await;
    // Somebody else was faster.
    check(&[404], &[]).await;
    check(&[409], &["GET a0"]).await;
    // Somebody in between refuses it with the same code, and it stays.
    let (asked, is_made) = evicted(&[409], "a0").await;
    assert_eq!(
        (asked, is_made),
        (
            vec!["GET a0".to_owned(), "PATCH status".into(), "DELETE a0".into(), "GET a0".into()],
            false
        )
    );
}

#[tokio::test]
async fn the_end_waits_for_no_further_victim_and_no_further_try() {
    let mut bench = Bench::new("{}");
    let (orders, line) = mpsc::channel(10);
    let (binds, bind_line) = mpsc::channel(1000);
    let telling = tokio::spawn(bench.hands.clone().tell_all(line));
    let binding = tokio::spawn(bench.hands.clone().bind_all(bind_line));
    let victims = (0..100).map(|number| pod_of("a", number)).collect();
    let room = RoomOrder { node: "n1".into(), victims, passed_over: Vec::new() };
    let Telling::Wait(order) = telling_of("b", 0) else { panic!("it waits") };
    let order = TellOrder { room: Some(Box::new(room)), ..*order };
    orders.send(Telling::Wait(Box::new(order))).await.unwrap();
    for number in 0..200 {
        binds.send(binding_of("a", number)).await.unwrap();
    }
    bench.pass(Duration::from_secs(25)).await;
    drop((orders, binds));
    bench.hands.stop.cancel();
    bench.pass(TIMEOUT + Duration::from_secs(1)).await;
    assert!(telling.is_finished() && binding.is_finished());
}

#[tokio::test]
async fn what_nobody_wants_any_longer_is_not_prepared() {
    let mut bench = Bench::new(r#"{"metadata":{"uid":"u"}}"#);
    let (orders, line) = mpsc::channel(100);
    let writing = tokio::spawn(bench.hands.clone().bind_all(line));
    let prepare = |namespace: &str, number: usize| {
        let claim =
            ClaimReference { namespace: namespace.into(), name: "c".into(), uid: "u".into() };
        let volume = format!("v{number}").into();
        PrepareOrder {
            pod: pod_of(namespace, number),
            number: number as u64,
            writes: vec![Write::KeepVolume { volume, claim }],
            recall: Recall::default(),
        }
    };
    for number in 0..PREPARES_IN_FLIGHT_MAX {
        orders.send(Work::Prepare(prepare("a", number))).await.unwrap();
    }
    let (last, wanted) = (prepare("b", 98), prepare("b", 99));
    let recall = last.recall.clone();
    for order in [last, wanted] {
        orders.send(Work::Prepare(order)).await.unwrap();
    }
    bench.pass(Duration::from_secs(1)).await;
    recall.recall();
    bench.pass(TIMEOUT + Duration::from_secs(1)).await;
    let answered: Vec<_> = bench
        .answers
        .iter()
        .filter_map(|(_, message)| match message {
            Message::Answered(errand, answer) if errand.uid.0.starts_with('b') => {
                Some((errand.number, answer.clone()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(answered, [(98, Answer::Abandoned), (99, Answer::Prepared([0].into()))]);
    let volumes: Vec<String> = bench.asked.lock().unwrap().clone();
    let of = |name: &str| volumes.iter().filter(|line| line.ends_with(name)).count();
    assert_eq!((of("/v98"), of("/v99")), (0, 2), "read and patched, or neither");
    drop(orders);
    bench.hands.stop.cancel();
    bench.pass(TIMEOUT + Duration::from_secs(1)).await;
    assert!(writing.is_finished());
}
