//! Events of a component, as both servers take them and show them in both of their groups.

use chassis::client::{Client, ListOptions, Options, ResourceType, Source};
use chassis::events::{self, Note, Recorder, Repeats, Subject, Tone};
use chassis::key::Key;
use chassis::metrics::Metrics;
use scenarios::backend::{BACKENDS, Backend, Lease, Scope};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn pod(namespace: &str, name: &str) -> Subject {
    Subject::named::<api::Pod>(Key::namespaced(namespace, name), "u-1".into())
}

fn note(subject: Subject, reason: &'static str, action: &'static str, message: String) -> Note {
    let tone = Tone::Normal;
    let repeats = Repeats::Never;
    Note { subject, related: None, tone, reason: reason.into(), action, message, repeats }
}

/// What a scheduler tells, three times over where it repeats, and a word on the cluster.
fn tell(recorder: &Recorder, namespace: &str) {
    let message = format!("Successfully assigned {namespace}/web to n1");
    recorder.tell(note(pod(namespace, "web"), "Scheduled", "Binding", message));
    for _ in 0..3 {
        let message = format!("0/1 nodes are available: {}", "no ".repeat(400));
        recorder.named("other-scheduler").tell(Note {
            tone: Tone::Warning,
            repeats: Repeats::Perhaps,
            ..note(pod(namespace, "big"), "FailedScheduling", "Scheduling", message)
        });
    }
    let message = "Preempted by pod u-1 on node n1".to_owned();
    recorder.tell(Note {
        related: Some(pod(namespace, "big")),
        ..note(pod(namespace, "old"), "Preempted", "Preempting", message)
    });
    let node = Subject::named::<api::Node>(Key::cluster(&format!("n.{namespace}")), "u-2".into());
    recorder.normal(&node, "Odd", "a node is odd".to_owned());
}

/// Reason, who, how often, of what, because of what, and the words; sorted.
fn shown(event: &Value) -> String {
    let text = |pointer: &str| event.pointer(pointer).map_or("-".to_owned(), ToString::to_string);
    let fields = [
        "/reason",
        "/action",
        "/type",
        "/reportingController",
        "/reportingInstance",
        "/series/count",
        "/regarding/kind",
        "/regarding/name",
        "/related/name",
        "/note",
    ];
    fields.map(text).join(" ")
}

async fn play(backend: Backend) -> Vec<String> {
    let lease = Lease::take(backend, Scope::Namespaced, "recorder").await.unwrap();
    let source = Source::from_flags(Some(lease.kubeconfig.clone()), None);
    let client = Client::connect(&source, &Options::new("recorder")).await.unwrap();
    let namespace = format!("recorder-{}", std::process::id());
    let namespaces = client.access::<Value>(ResourceType::cluster("", "v1", "namespaces"), "");
    namespaces.create(&json!({ "metadata": { "name": namespace } })).await.unwrap();

    let metrics = Metrics::new();
    let options = events::Options::series("default-scheduler", "host-1", 0);
    let (recorder, writer) = Recorder::with(&options, &client.apart(8, None), &metrics);
    tell(&recorder, &namespace);
    drop(recorder);
    writer.run(CancellationToken::new()).await;
    let text = metrics.render();
    assert!(text.contains("gantry_events_total{result=\"dropped\"} 0\n"), "{text}");

    let events = ResourceType::namespaced("events.k8s.io", "v1", "events");
    let mut found = client
        .access::<Value>(events.clone(), &namespace)
        .list_all(&ListOptions::default())
        .await
        .unwrap();
    let of_node = ListOptions {
        field_selector: format!("regarding.name=n.{namespace}"),
        ..ListOptions::default()
    };
    found.extend(client.access::<Value>(events, "default").list_all(&of_node).await.unwrap());
    let mut lines: Vec<String> =
        found.iter().map(|event| shown(event).replace(&namespace, "NS")).collect();
    lines.sort();
    lease.give_back().await.unwrap();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn both_servers_take_events_with_series() {
    for backend in BACKENDS {
        let no = "no ".repeat(400);
        let cut = &format!("0/1 nodes are available: {no}")[..1020];
        let want = [
            format!(
                "\"FailedScheduling\" \"Scheduling\" \"Warning\" \"other-scheduler\" \
                 \"other-scheduler-host-1\" 3 \"Pod\" \"big\" - \"{cut} ...\""
            ),
            "\"Odd\" \"Odd\" \"Normal\" \"default-scheduler\" \"default-scheduler-host-1\" - \"Node\" \
             \"n.NS\" - \"a node is odd\""
                .to_owned(),
            "\"Preempted\" \"Preempting\" \"Normal\" \"default-scheduler\" \
             \"default-scheduler-host-1\" - \"Pod\" \"old\" \"big\" \"Preempted by pod u-1 on node n1\""
                .to_owned(),
            "\"Scheduled\" \"Binding\" \"Normal\" \"default-scheduler\" \"default-scheduler-host-1\" - \
             \"Pod\" \"web\" - \"Successfully assigned NS/web to n1\""
                .to_owned(),
        ];
        assert_eq!(play(*backend).await, want, "{}", backend.name());
    }
}
