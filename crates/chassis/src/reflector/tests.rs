//! The reflector against a scripted server: what is asked, and what is delivered.

use jiff::Timestamp;

use super::*;
use crate::client::{Client, Nameplate, Options};
use crate::clock::Hand;
use crate::fake::{Reply, Script, Tail, event, list, object};

struct Run {
    script: Script,
    stream: mpsc::Receiver<Delta<Nameplate>>,
    shutdown: Shutdown,
    hand: Hand,
}

fn run(replies: Vec<Reply>) -> Run {
    let script = Script::new(replies);
    let (clock, hand) = Clock::manual(Timestamp::UNIX_EPOCH);
    let client = script.client(&Options { clock, ..Options::new("test") });
    let shutdown = Shutdown::new();
    let pods = ResourceType::namespaced("", "v1", "pods");
    let stream =
        Feeds::new(&client, &shutdown, 4).watch_resource(pods, |delta| delta).into_stream();
    Run { script, stream, shutdown, hand }
}

impl Run {
    /// The next `count` deltas, in short.
    async fn deltas(&mut self, count: usize) -> Vec<String> {
        let mut told = Vec::new();
        while told.len() < count {
            let delta = tokio::time::timeout(Duration::from_secs(10), self.stream.recv());
            told.push(match delta.await.expect("a delta comes").expect("the stream goes on") {
                Delta::Upserted(object) => {
                    format!("+{} {}", object.metadata.name, object.metadata.resource_version)
                }
                Delta::Deleted { key, uid } => format!("-{} {uid}", key.name()),
                Delta::Malformed { key, .. } => format!("?{}", key.name()),
                Delta::Synced => "synced".to_owned(),
            });
        }
        told
    }

    /// Lets the waits of the reflector pass until `count` requests were sent.
    async fn until_asked(&self, count: usize) {
        for _ in 0..10_000 {
            if self.script.lines().len() >= count {
                return;
            }
            tokio::task::yield_now().await;
            if let Some(due) = self.hand.next_due()
                && due <= Duration::from_secs(30)
            {
                self.hand.advance(due);
            }
        }
        panic!("asked only {:?}", self.script.lines());
    }

    /// Ends the reflector, and returns what it asked, without the spread of timeouts.
    async fn asked(self) -> Vec<String> {
        self.shutdown.begin();
        self.shutdown.join(&Clock::system(), Duration::from_secs(5)).await.unwrap();
        let cut = |line: String| {
            line.split("&timeoutSeconds=")
                .next()
                .unwrap_or_default()
                .replace("GET /api/v1/pods?", "")
        };
        self.script.lines().into_iter().map(cut).collect()
    }
}

fn watch_from(version: u64) -> String {
    format!("watch=true&allowWatchBookmarks=true&resourceVersion={version}")
}

#[tokio::test]
async fn a_list_in_pages_then_a_watch_that_breaks_and_goes_on() {
    let mut run = run(vec![
        list(9, "next", &[object("a", "u1", 3)]),
        list(9, "", &[object("b", "u2", 4)]),
        Reply::watch(
            &[
                event("MODIFIED", &object("a", "u1", 12)),
                event("BOOKMARK", r#"{"metadata":{"resourceVersion":"15"}}"#),
            ],
            Tail::Break,
        ),
        Reply::watch(
            &[
                event("MODIFIED", &object("a", "u1", 12)),
                event("DELETED", &object("b", "u2", 17)),
                event(
                    "ADDED",
                    r#"{"metadata":{"namespace":"shop","name":"c","resourceVersion":"18"},"x":"é"}"#,
                ),
            ],
            Tail::Hang,
        ),
    ]);
    assert_eq!(run.deltas(4).await, ["+a 3", "+b 4", "synced", "+a 12"]);
    run.until_asked(4).await;
    assert_eq!(run.deltas(2).await, ["-b u2", "+c 18"]);
    let asked = ["limit=500", "limit=500&continue=next", &watch_from(9), &watch_from(15)];
    assert_eq!(run.asked().await, asked);
}

#[tokio::test]
async fn the_next_page_is_on_its_way_while_this_one_is_taken() {
    let many: Vec<String> =
        (1..=9).map(|index| object(&format!("p{index}"), &format!("u{index}"), index)).collect();
    let mut run = run(vec![
        list(9, "next", &many),
        list(9, "", &[object("z", "u0", 4)]),
        Reply::watch(&[], Tail::Hang),
    ]);
    // The line to the component is shorter than a page, and nobody has taken anything.
    run.until_asked(2).await;
    let deltas = run.deltas(11).await;
    assert_eq!(deltas[8..], ["+p9 9", "+z 4", "synced"]);
    run.until_asked(3).await;
    assert_eq!(run.asked().await, ["limit=500", "limit=500&continue=next", &watch_from(9)]);
}

#[tokio::test]
async fn an_expired_version_is_a_new_list_told_as_a_difference() {
    let gone = r#"{"kind":"Status","status":"Failure","reason":"Expired","code":410}"#;
    let mut run = run(vec![
        list(9, "", &[object("a", "u1", 3), object("b", "u2", 4), object("c", "u3", 5)]),
        Reply::watch(&[event("ERROR", gone)], Tail::Hang),
        list(30, "", &[object("a", "u1", 3), object("b", "u9", 22)]),
        Reply::new(410, gone),
        list(31, "", &[object("a", "u1", 3), object("b", "u9", 22)]),
    ]);
    assert_eq!(run.deltas(4).await, ["+a 3", "+b 4", "+c 5", "synced"]);
    assert_eq!(run.deltas(4).await, ["-b u2", "+b 22", "-c u3", "synced"]);
    run.until_asked(6).await;
    assert_eq!(run.deltas(1).await, ["synced"]);
    let list = "limit=500".to_owned();
    let asked = [list.clone(), watch_from(9), list.clone(), watch_from(30), list, watch_from(31)];
    assert_eq!(run.asked().await, asked);
}

#[tokio::test]
async fn refusals_and_silence_are_tried_again() {
    let mut run = run(vec![
        Reply::new(503, "starting"),
        Reply::new(403, r#"{"status":"Failure","reason":"Forbidden","message":"no","code":403}"#),
        list(9, "", &[]),
        Reply::watch(&[], Tail::End),
        Reply::watch(&["<html>".to_owned()], Tail::Hang),
        Reply::watch(&[event("ADDED", &object("a", "u1", 11))], Tail::Hang),
    ]);
    run.until_asked(6).await;
    assert_eq!(run.deltas(2).await, ["synced", "+a 11"]);
    assert_eq!(run.asked().await[5], watch_from(9));
}

#[tokio::test]
async fn a_watch_that_falls_silent_is_asked_for_again_from_where_it_was() {
    let bookmark = event("BOOKMARK", r#"{"metadata":{"resourceVersion":"15"}}"#);
    let mut run = run(vec![
        list(9, "", &[]),
        Reply::watch(&[bookmark], Tail::Hang),
        Reply::watch(&[], Tail::Hang),
        Reply::watch(&[event("ADDED", &object("a", "u1", 18))], Tail::Hang),
    ]);
    assert_eq!(run.deltas(1).await, ["synced"]);
    let settle = async || {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    };
    for (asked, version) in [(2, 9), (3, 15), (4, 15)] {
        settle().await;
        assert_eq!(run.script.lines().len(), asked, "{version}");
        run.hand.advance(machine::SILENCE_MAX - Duration::from_secs(1));
        settle().await;
        assert_eq!(run.script.lines().len(), asked, "not before its time");
        run.hand.advance(Duration::from_secs(1));
    }
    assert_eq!(run.deltas(1).await, ["+a 18"]);
    let asked = run.asked().await;
    assert_eq!(asked[..4], ["limit=500".to_owned(), watch_from(9), watch_from(15), watch_from(15)]);
}

#[tokio::test]
async fn feeds_count_the_lists_and_watches_of_every_kind() {
    // Lists are answered, and watches are not.
    let service = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
        if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            std::future::pending::<()>().await;
        }
        let list = r#"{"metadata":{"resourceVersion":"9"},"items":[]}"#;
        Ok::<_, std::io::Error>(http::Response::new(http_body_util::Full::new(list.into())))
    });
    let client = Client::from_service(service, &Options::new("test"));
    let (shutdown, metrics) = (Shutdown::new(), Metrics::new());
    let feeds = Feeds::<()>::new(&client, &shutdown, 4).metrics(&metrics);
    let nodes = Reflector::new(client.access(ResourceType::cluster("", "v1", "nodes"), ""));
    let mut stream = feeds
        .watch_resource(ResourceType::namespaced("", "v1", "pods"), |_: Delta<Nameplate>| ())
        .watch_with(nodes, |_: Delta<Nameplate>| ())
        .into_stream();
    for _ in 0..2 {
        stream.recv().await.expect("both are synced");
    }
    let text = metrics.render();
    for resource in ["pods", "nodes"] {
        let is_it = |line: &&str| {
            line.starts_with("gantry_reflector_lists_total") && line.contains(resource)
        };
        let line = text.lines().find(is_it).unwrap_or_default();
        assert!(line.ends_with(" 1"), "{resource}: {text}");
    }
    shutdown.begin();
    shutdown.join(&Clock::system(), Duration::from_secs(5)).await.unwrap();
}

#[tokio::test]
async fn the_reflector_ends_when_nobody_listens() {
    let run = run(vec![list(9, "", &[object("a", "u1", 3)])]);
    drop(run.stream);
    run.shutdown.begin();
    assert_eq!(run.shutdown.join(&Clock::system(), Duration::from_secs(5)).await, Ok(()));
}

/// A reflector behind a fence, its words in short.
fn fenced(replies: Vec<Reply>) -> (Script, mpsc::Receiver<String>, Fence, CancellationToken) {
    let script = Script::new(replies);
    let client = script.client(&Options::new("test"));
    let (sink, line) = mpsc::channel(16);
    let (fence, stop) = (Fence::new(), CancellationToken::new());
    let access = client.access::<Nameplate>(ResourceType::namespaced("", "v1", "pods"), "");
    let map = |delta: Delta<Nameplate>| match delta {
        Delta::Upserted(object) => format!("+{}", object.metadata.name),
        Delta::Deleted { key, .. } => format!("-{}", key.name()),
        other => format!("{other:?}").to_lowercase(),
    };
    let (own, end) = (fence.clone(), stop.clone());
    tokio::spawn(async move {
        let behind = (&own, || "passed".to_owned());
        Reflector::new(access).run_fenced(sink, map, behind, end).await;
    });
    (script, line, fence, stop)
}

async fn told(line: &mut mpsc::Receiver<String>, expected: &[&str]) {
    for one in expected {
        let next = tokio::time::timeout(Duration::from_secs(10), line.recv());
        assert_eq!(next.await.expect("something comes").as_deref(), Some(*one));
    }
}

async fn until_asked(script: &Script, count: usize) {
    let asked = async {
        while script.lines().len() < count {
            tokio::task::yield_now().await;
        }
    };
    let asked = tokio::time::timeout(Duration::from_secs(10), asked).await;
    assert!(asked.is_ok(), "asked only {:?}", script.lines());
}

fn silent() -> Reply {
    Reply::watch(&[], Tail::Hang)
}

#[tokio::test]
async fn a_fence_is_passed_when_all_before_it_is_told() {
    // Of few objects a list tells most quickly, whatever the numbers are. It is told once.
    let first = || list(9, "", &[object("a", "u1", 3)]);
    let second = list(20, "", &[object("b", "u2", 18)]);
    let (script, mut line, fence, stop) = fenced(vec![first(), silent(), second, silent()]);
    told(&mut line, &["+a", "synced"]).await;
    until_asked(&script, 2).await;
    fence.put_up();
    fence.put_up();
    told(&mut line, &["+b", "-a", "synced", "passed"]).await;
    until_asked(&script, 4).await;
    assert!(line.try_recv().is_err());
    stop.cancel();
    // A list that was begun before is not new enough, and no watch is opened between the two.
    let (script, mut line, fence, stop) = fenced(vec![first(), first(), silent()]);
    fence.put_up();
    told(&mut line, &["+a", "synced", "synced", "passed"]).await;
    until_asked(&script, 3).await;
    stop.cancel();
}

/// So many objects that a list of them is not asked for lightly.
fn many() -> Vec<String> {
    (0..=machine::PAGE_LIMIT)
        .map(|n| object(&format!("p{n}"), &format!("u{n}"), u64::from(n) + 1))
        .collect()
}

/// A fenced reflector that has listed many, and watches.
async fn watching_many(
    replies: Vec<Reply>,
) -> (Script, mpsc::Receiver<String>, Fence, CancellationToken) {
    let first = list(1000, "", &many());
    let (script, mut line, fence, stop) = fenced(std::iter::once(first).chain(replies).collect());
    while line.recv().await.expect("all are told") != "synced" {}
    until_asked(&script, 2).await;
    (script, line, fence, stop)
}

#[tokio::test]
async fn a_watch_of_many_is_held_against_the_revision_of_its_own_kind() {
    const REVISION: &str = "GET /api/v1/pods?limit=1";
    // What it has shown is enough: the store of its kind has come no further.
    let later = event("MODIFIED", &object("p0", "u0", 1012));
    let (script, mut line, fence, stop) =
        watching_many(vec![Reply::watch(&[later], Tail::Hang), list(1012, "next", &many()[..1])])
            .await;
    told(&mut line, &["+p0"]).await;
    fence.put_up();
    told(&mut line, &["passed"]).await;
    assert_eq!(script.lines()[2..], [REVISION]);
    stop.cancel();
    // A silent watch may be late: after a moment a list tells what it has missed. The same where
    // the server does not count, or refuses to say.
    let refused = || Reply::new(403, "{}");
    let uncounted = Reply::new(200, r#"{"metadata":{"resourceVersion":"x"},"items":[]}"#);
    for (asked, answers) in
        [(1, vec![list(1013, "", &[])]), (1, vec![uncounted]), (4, vec![refused(); 4])]
    {
        let mut replies = vec![silent()];
        replies.extend(answers);
        replies.extend([list(1013, "", &many()[1..]), silent()]);
        let (script, mut line, fence, stop) = watching_many(replies).await;
        fence.put_up();
        told(&mut line, &["-p0", "synced", "passed"]).await;
        until_asked(&script, asked + 4).await;
        let lines = &script.lines()[2..];
        assert!(lines[..asked].iter().all(|line| line == REVISION), "{lines:?}");
        assert_eq!(lines[asked], "GET /api/v1/pods?limit=500");
        stop.cancel();
    }
}

#[tokio::test]
async fn troubles_are_told_to_who_asks_for_them() {
    let script = Script::new([Reply::new(403, "no"), list(9, "", &[])]);
    let client = script.client(&Options::new("test"));
    let access = client.access::<Nameplate>(ResourceType::namespaced("", "v1", "pods"), "");
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let own = heard.clone();
    let reflector =
        Reflector::new(access).troubles(move |what| own.lock().unwrap().push(what.to_owned()));
    let (sink, mut line) = mpsc::channel(4);
    let stop = CancellationToken::new();
    tokio::spawn(reflector.run(sink, |delta: Delta<Nameplate>| delta, stop.clone()));
    assert_eq!(line.recv().await, Some(Delta::Synced));
    assert_eq!(*heard.lock().unwrap(), ["cannot list: no (403)"]);
    stop.cancel();
}
