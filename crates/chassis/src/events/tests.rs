//! The writer against a scripted server.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::client;
use crate::fake::{Reply, Script, Tail};
use crate::logging;

fn node() -> Subject {
    let who = Identity { namespace: "", name: "n1", uid: "u", resource_version: "" };
    Subject::of::<api::Node>(who)
}

/// Runs a writer on these answers until so many requests were sent, and returns them.
async fn asked(
    replies: Vec<Reply>,
    count: usize,
    note: impl Fn(&Recorder),
) -> Vec<(String, Value)> {
    asked_by(&Options::counted("node-controller", 0), replies, count, note).await
}

async fn asked_by(
    options: &Options,
    replies: Vec<Reply>,
    count: usize,
    note: impl Fn(&Recorder),
) -> Vec<(String, Value)> {
    let script = Script::new(replies);
    let (clock, hand) = Clock::manual(Timestamp::UNIX_EPOCH);
    let client = script.client(&client::Options { clock, ..client::Options::new("test") });
    let (recorder, writer) = Recorder::with(options, &client, &Metrics::new());
    note(&recorder);
    let stop = CancellationToken::new();
    let running = tokio::spawn(writer.run(stop.clone()));
    for _ in 0..10_000 {
        if script.lines().len() >= count {
            break;
        }
        tokio::task::yield_now().await;
        if let Some(due) = hand.next_due().filter(|due| *due <= RETRY_MAX) {
            hand.advance(due);
        }
    }
    stop.cancel();
    running.await.unwrap();
    let read = |body: &str| serde_json::from_str(body).unwrap();
    script.asked().iter().map(|asked| (asked.line.clone(), read(&asked.body))).collect()
}

#[tokio::test]
async fn an_event_is_written_once_and_then_counted() {
    let replies = vec![Reply::new(201, "{}"), Reply::new(200, "{}"), Reply::new(404, "{}")];
    let sent = asked(replies, 4, |recorder| {
        for _ in 0..3 {
            recorder.warning(&node(), "Odd", "it is odd".to_owned());
        }
    })
    .await;
    let path = "/api/v1/namespaces/default/events";
    let name = sent[0].1["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("n1."), "{name}");
    assert_eq!(sent[0].0, format!("POST {path}"));
    let want = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": name, "namespace": "default" },
        "involvedObject": { "apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u" },
        "type": "Warning", "reason": "Odd", "message": "it is odd", "count": 1,
        "firstTimestamp": "1970-01-01T00:00:00Z", "lastTimestamp": "1970-01-01T00:00:00Z",
        "source": { "component": "node-controller" },
        "reportingComponent": "node-controller", "reportingInstance": "",
    });
    assert_eq!(sent[0].1, want);
    assert_eq!(sent[1].0, format!("PATCH {path}/{name}"));
    assert_eq!(sent[1].1["count"], 2);
    // One that has expired is told anew, with its count.
    assert_eq!(
        (sent[2].0.as_str(), &sent[2].1["count"]),
        (&*format!("PATCH {path}/{name}"), &json!(3))
    );
    assert_eq!((sent[3].0.as_str(), &sent[3].1["count"]), (&*format!("POST {path}"), &json!(3)));
}

#[tokio::test]
async fn what_is_not_answered_is_tried_again_and_what_is_refused_is_not() {
    let lost = || Reply::watch(&["{".to_owned()], Tail::Break);
    let busy = Reply::new(429, "{}");
    let mut replies = vec![Reply::new(403, "{}"), lost(), busy, Reply::new(201, "{}")];
    replies.push(Reply::new(201, "{}"));
    let sent = asked(replies, 5, |recorder| {
        for reason in ["Refused", "Lost", "Well"] {
            recorder.normal(&node(), reason, "it is".to_owned());
        }
    })
    .await;
    let reasons: Vec<&str> =
        sent.iter().map(|(_, body)| body["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["Refused", "Lost", "Lost", "Lost", "Well"]);
}

fn pod(name: &str) -> Subject {
    let who = Identity { namespace: "shop", name, uid: "u", resource_version: "" };
    Subject::of::<api::Pod>(who)
}

#[tokio::test]
async fn events_of_different_objects_are_written_side_by_side_and_those_of_one_in_order() {
    // No request is answered: what waits for an answer is never sent.
    let names: Vec<String> = (0..IN_FLIGHT_MAX - 1).map(|n| format!("p{n}")).collect();
    let sent = asked(Vec::new(), IN_FLIGHT_MAX, |recorder| {
        recorder.normal(&pod("slow"), "First", "it is".to_owned());
        recorder.normal(&pod("slow"), "Second", "it is".to_owned());
        for name in &names {
            recorder.normal(&pod(name), "Scheduled", "it is".to_owned());
        }
    })
    .await;
    let told = |(_, body): &(String, Value)| {
        let name = body["involvedObject"]["name"].as_str().unwrap();
        format!("{name} {}", body["reason"].as_str().unwrap())
    };
    let mut want = vec!["slow First".to_owned()];
    want.extend(names.iter().map(|name| format!("{name} Scheduled")));
    let mut told: Vec<String> = sent.iter().map(told).collect();
    want.sort();
    told.sort();
    assert_eq!(told, want);
}

#[tokio::test(start_paused = true)]
async fn a_writer_keeps_up_with_a_thousand_objects_a_second() {
    // A server that takes ten milliseconds for each event, on a clock that skips the waits.
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let body = http_body_util::Full::new(bytes::Bytes::from_static(b"{}"));
        Ok::<_, std::io::Error>(http::Response::builder().status(201).body(body).unwrap())
    });
    let client = Client::from_service(service, &client::Options::new("test"));
    let metrics = Metrics::new();
    let (recorder, writer) = Recorder::new("test", &client, 0, &metrics);
    for n in 0..1000 {
        recorder.normal(&pod(&format!("p{n}")), "Scheduled", "it is".to_owned());
    }
    drop(recorder);
    let begun = tokio::time::Instant::now();
    writer.run(CancellationToken::new()).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let text = metrics.render();
    assert!(text.contains("gantry_events_total{result=\"written\"} 1000\n"), "{text}");
}

#[tokio::test]
async fn a_full_line_never_makes_anyone_wait_and_what_is_spared_takes_no_place_in_it() {
    let script = Script::new([]);
    let client = script.client(&client::Options::new("test"));
    let metrics = Metrics::new();
    let (recorder, _writer) = Recorder::new("test", &client, 0, &metrics);
    // An object that has had its share leaves the line to others.
    for _ in 0..WAITING_MAX {
        recorder.normal(&node(), "Made", "it is".to_owned());
    }
    let text = metrics.render();
    assert!(text.contains("gantry_events_total{result=\"dropped\"} 0\n"), "{text}");
    let spared = WAITING_MAX - 25;
    assert!(
        text.contains(&format!("gantry_events_total{{result=\"spared\"}} {spared}\n")),
        "{text}"
    );
    for n in 0..spared + 7 {
        recorder.normal(&pod(&format!("p{n}")), "Scheduled", "it is".to_owned());
    }
    let text = metrics.render();
    assert!(text.contains("gantry_events_total{result=\"dropped\"} 7\n"), "{text}");
    // Nor does one component crowd out another.
    let (other, _writer) = Recorder::new("other", &client, 0, &metrics);
    other.normal(&node(), "Made", "it is".to_owned());
    let text = metrics.render();
    assert!(text.contains("gantry_events_total{result=\"dropped\"} 7\n"), "{text}");
}

fn options() -> Options {
    Options::series("default-scheduler", "host-1", 0)
}

pub(super) fn scheduled(name: &str) -> Note {
    Note {
        subject: pod(name),
        related: None,
        tone: Tone::Normal,
        reason: "Scheduled".into(),
        action: "Binding",
        message: format!("Successfully assigned shop/{name} to n1"),
        repeats: Repeats::Never,
    }
}

#[tokio::test]
async fn a_series_is_written_as_events_of_the_new_group() {
    let failed = |message: &str| Note {
        related: Some(node()),
        tone: Tone::Warning,
        reason: "FailedScheduling".into(),
        action: "Scheduling",
        message: message.to_owned(),
        repeats: Repeats::Perhaps,
        ..scheduled("a")
    };
    let replies = vec![Reply::new(201, "{}"), Reply::new(404, "{}"), Reply::new(201, "{}")];
    let sent = asked_by(&options(), replies, 3, |recorder| {
        for _ in 0..3 {
            recorder.named("other-scheduler").tell(failed(&"é".repeat(600)));
        }
    })
    .await;
    let path = "/apis/events.k8s.io/v1/namespaces/shop/events";
    let name = sent[0].1["metadata"]["name"].as_str().unwrap().to_owned();
    let mut want = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": { "name": name, "namespace": "shop" },
        "eventTime": "1970-01-01T00:00:00.000000Z",
        "reportingController": "other-scheduler",
        "reportingInstance": "other-scheduler-host-1",
        "action": "Scheduling", "reason": "FailedScheduling", "type": "Warning",
        "regarding": { "apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "a", "uid": "u" },
        "related": { "apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u" },
        "note": format!("{} ...", "é".repeat(510)),
    });
    assert_eq!(sent[0], (format!("POST {path}"), want.clone()));
    let series = json!({ "count": 2, "lastObservedTime": "1970-01-01T00:00:00.000000Z" });
    assert_eq!(sent[1], (format!("PATCH {path}/{name}"), json!({ "series": series })));
    // One that has expired is told anew, as the series it has become.
    want["series"] = series;
    assert_eq!(sent[2], (format!("POST {path}"), want));
}

#[tokio::test]
async fn the_last_count_is_written_when_all_recorders_are_gone() {
    let script = Script::new([201, 200, 200].map(|code| Reply::new(code, "{}")));
    let client = script.client(&client::Options::new("test"));
    let (recorder, writer) = Recorder::with(&options(), &client, &Metrics::new());
    for _ in 0..5 {
        recorder.normal(&pod("a"), "Odd", "it is".to_owned());
    }
    drop(recorder);
    writer.run(CancellationToken::new()).await;
    let sent = script.asked();
    let counts: Vec<Value> = sent
        .iter()
        .map(|asked| serde_json::from_str::<Value>(&asked.body).unwrap()["series"]["count"].clone())
        .collect();
    assert_eq!(counts, [json!(null), json!(2), json!(5)]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_repeat_goes_at_the_pace_that_the_options_allow_and_what_is_left_is_counted() {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let body = http_body_util::Full::new(bytes::Bytes::from_static(b"{}"));
        Ok::<_, std::io::Error>(http::Response::builder().status(201).body(body).unwrap())
    });
    let client = Client::from_service(service, &client::Options::new("test")).apart(128, None);
    let metrics = Metrics::new();
    let options = Options { in_flight_max: 128, waiting_max: 20_000, ..options() };
    let (recorder, writer) = Recorder::with(&options, &client, &metrics);
    for n in 0..20_000 {
        recorder.tell(scheduled(&format!("p{n}")));
    }
    let stop = CancellationToken::new();
    let running = tokio::spawn(writer.run(stop.clone()));
    tokio::time::sleep(Duration::from_millis(1005)).await;
    stop.cancel();
    running.await.unwrap();
    // A hundred rounds of 128.
    let text = metrics.render();
    assert!(text.contains("gantry_events_total{result=\"written\"} 12800\n"), "{text}");
    assert!(text.contains("gantry_events_total{result=\"dropped\"} 7200\n"), "{text}");
}

#[tokio::test]
async fn who_runs_it_hears_once_of_each_reason_and_at_the_end_of_all() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber =
        logging::subscriber(logging::Format::Text, "warn", move || writer.clone()).unwrap();
    let _guard = tracing::subscriber::set_default(subscriber);
    let script = Script::new(vec![Reply::new(403, "{}"); 3]);
    let client = script.client(&client::Options::new("test"));
    let options = Options { waiting_max: 3, ..options() };
    let (recorder, writer) = Recorder::with(&options, &client, &Metrics::new());
    for n in 0..5 {
        recorder.tell(scheduled(&format!("p{n}")));
    }
    drop(recorder);
    writer.run(CancellationToken::new()).await;
    let told = lines.text();
    let want = [
        ("an event cannot be written (no room to wait): allow this component more", 1),
        ("an event cannot be written (forbidden): let this component create and patch events", 1),
        ("5 events were not written: 3 forbidden, 2 no room to wait", 1),
        ("WARN", 3),
    ];
    for (words, count) in want {
        assert_eq!(told.matches(words).count(), count, "{words}: {told}");
    }
}

/// Log lines that are kept.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn events_that_nobody_answers_hold_up_those_of_no_other_namespace() {
    let plain = options();
    one_namespace_is_dead(&Options { in_flight_max: 64, waiting_max: 5000, ..plain.clone() }).await;
    one_namespace_is_dead(&plain).await;
}

/// Nothing is answered in namespace `a` for a minute; in another one the server is once too busy, for
/// the last event of all.
async fn one_namespace_is_dead(options: &Options) {
    const OTHERS: usize = 200;
    let (clock, hand) = Clock::manual(Timestamp::UNIX_EPOCH);
    let time = clock.clone();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let written = heard.clone();
    let others = Arc::new(AtomicUsize::new(0));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let is_of = |one: &str| request.uri().path().contains(&format!("/namespaces/{one}/"));
        let (is_dead, is_other) = (is_of("a"), is_of("b"));
        let is_busy = is_other && others.fetch_add(1, Ordering::Relaxed) == OTHERS;
        drop(request);
        let (written, time) = (written.clone(), time.clone());
        async move {
            if is_dead && time.monotonic() < Duration::from_mins(1) {
                std::future::pending::<()>().await;
            }
            let status = if is_busy { 503 } else { 201 };
            if !is_busy {
                written.lock().unwrap().push((time.monotonic(), is_other));
            }
            let body = http_body_util::Full::new(bytes::Bytes::from_static(b"{}"));
            Ok::<_, std::io::Error>(http::Response::builder().status(status).body(body).unwrap())
        }
    });
    let timeout = Duration::from_secs(10);
    let asking = client::Options { clock: clock.clone(), timeout, ..client::Options::new("test") };
    let client = Client::from_service(service, &asking);
    let metrics = Metrics::new();
    let (recorder, writer) = Recorder::with(options, &client, &metrics);
    let running = tokio::spawn(writer.run(CancellationToken::new()));
    let tell = |namespace: &str, number: usize| {
        let name = format!("p{number}");
        let who = Identity { namespace, name: &name, uid: "u", resource_version: "" };
        let subject = Subject::of::<api::Pod>(who);
        recorder.tell(Note { subject, ..scheduled(&name) });
    };
    for number in 0..2000 {
        // Some of one object, which wait for each other.
        tell("a", number / 2);
    }
    for number in 0..OTHERS {
        tell("b", number);
    }
    let step = Duration::from_millis(100);
    let pass = async |until: Duration| {
        while clock.monotonic() < until {
            for _ in 0..300 {
                tokio::task::yield_now().await;
            }
            hand.advance(step);
        }
    };
    pass(Duration::from_secs(30)).await;
    tell("b", OTHERS);
    pass(Duration::from_secs(90)).await;
    drop(recorder);
    running.await.unwrap();
    let heard = heard.lock().unwrap();
    let of = |other: bool| heard.iter().filter(move |(_, own)| *own == other).map(|(at, _)| *at);
    assert_eq!((of(true).count(), of(false).count()), (OTHERS + 1, 2000), "none is lost");
    let late = of(true).filter(|at| *at > timeout + step);
    let late: Vec<Duration> = late.collect();
    let soon = Duration::from_secs(30) + 2 * RETRY_MIN + step;
    assert!(late.len() == 1 && late[0] < soon, "{late:?}");
    // When it answers again, all is written before long.
    assert!(of(false).max() < Some(Duration::from_secs(90)), "{:?}", of(false).max());
}
