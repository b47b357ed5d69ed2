//! What requests look like on the wire, and what becomes of the answers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::fake::{Asked, Reply, Script, Tail, list, object};

fn pods(client: &Client, namespace: &str) -> Access<Value> {
    client.access(ResourceType::namespaced("", "v1", "pods"), namespace)
}

fn good(count: usize) -> Vec<Reply> {
    vec![Reply::new(200, "{}"); count]
}

#[tokio::test]
async fn each_verb_is_the_request_that_the_api_server_knows() {
    let script = Script::new(good(10));
    let client = script.client(&Options::new("scheduler"));
    let pods = pods(&client, "shop");
    pods.get("a").await.unwrap();
    pods.create(&json!({"x": 1})).await.unwrap();
    pods.update("a", &json!({"x": 2})).await.unwrap();
    pods.patch("a", &Patch::Merge(json!({"x": 3}))).await.unwrap();
    pods.patch("a", &Patch::Json(json!([]))).await.unwrap();
    pods.patch_sub("a", "status", &Patch::Strategic(json!({"x": 4}))).await.unwrap();
    let preconditions = Some(Preconditions { uid: Some("u1".into()), resource_version: None });
    let options =
        DeleteOptions { grace_period_seconds: Some(0), preconditions, ..DeleteOptions::default() };
    pods.delete("a", &options).await.unwrap();
    let which = ListOptions { label_selector: "app=web".into(), ..ListOptions::default() };
    pods.delete_all(&which, &DeleteOptions::default()).await.unwrap();
    let annotations = [("k".to_owned(), "v".to_owned())].into();
    let binding =
        Binding { pod: "a", uid: Some("u1"), node: "n1", annotations, ..Binding::default() };
    pods.bind(&binding).await.unwrap();
    pods.evict(&Eviction { pod: "a", options }).await.unwrap();
    let asked: Vec<String> = script
        .asked()
        .iter()
        .map(|Asked { line, content_type, body, .. }| {
            let line = line.replace("/api/v1/namespaces/shop/pods", "*");
            format!("{line} {content_type} {body}").trim_end().to_owned()
        })
        .collect();
    insta::assert_snapshot!(asked.join("\n"), @r#"
    GET */a
    POST * application/json {"x":1}
    PUT */a application/json {"x":2}
    PATCH */a application/merge-patch+json {"x":3}
    PATCH */a application/json-patch+json []
    PATCH */a/status application/strategic-merge-patch+json {"x":4}
    DELETE */a application/json {"gracePeriodSeconds":0,"preconditions":{"uid":"u1"}}
    DELETE *?labelSelector=app=web application/json {}
    POST */a/binding application/json {"apiVersion":"v1","kind":"Binding","metadata":{"name":"a","uid":"u1","annotations":{"k":"v"}},"target":{"apiVersion":"v1","kind":"Node","name":"n1"}}
    POST */a/eviction application/json {"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a","namespace":"shop"},"deleteOptions":{"gracePeriodSeconds":0,"preconditions":{"uid":"u1"}}}
    "#);
    let agent = format!("gantry/{} (scheduler)", env!("CARGO_PKG_VERSION"));
    assert!(script.asked().iter().all(|asked| asked.user_agent == agent));
}

#[tokio::test]
async fn a_whole_list_is_read_page_by_page() {
    let script =
        Script::new([list(5, "t1", &[object("a", "u", 1)]), list(5, "", &[object("b", "u", 2)])]);
    let client = script.client(&Options::new("test"));
    let options = ListOptions { limit: 1, ..ListOptions::default() };
    let all = pods(&client, "").list_all(&options).await.unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(script.lines()[1], "GET /api/v1/pods?limit=1&continue=t1");
}

#[tokio::test]
async fn a_refusal_can_be_matched_and_names_the_request() {
    let missing =
        r#"{"status":"Failure","reason":"NotFound","message":"pods \"a\" not found","code":404}"#;
    let script = Script::new([Reply::new(404, missing), Reply::new(404, missing)]);
    let client = script.client(&Options::new("test"));
    let error = pods(&client, "shop").get("a").await.unwrap_err();
    assert!(error.is_not_found() && error.told() == "pods \"a\" not found");
    let text = "GET /api/v1/namespaces/shop/pods/a: pods \"a\" not found (404)";
    assert_eq!(error.to_string(), text);
    assert_eq!(pods(&client, "shop").find("a").await.unwrap(), None);
}

#[tokio::test]
async fn an_answer_that_does_not_come_or_cannot_be_read_is_an_error() {
    let (clock, hand) = Clock::manual(Timestamp::UNIX_EPOCH);
    let script = Script::new([
        Reply::watch(&["{".to_owned()], Tail::Hang),
        Reply::watch(&["{".to_owned()], Tail::Break),
        Reply::new(200, "{"),
    ]);
    let client = script.client(&Options { clock, ..Options::new("test") });
    let late = tokio::spawn({
        let pods = pods(&client, "shop");
        async move { pods.get("a").await }
    });
    while script.lines().is_empty() || hand.next_due().is_none() {
        tokio::task::yield_now().await;
    }
    hand.advance(Duration::from_mins(1));
    let error = late.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "GET /api/v1/namespaces/shop/pods/a: no answer within 60s");
    let error = pods(&client, "shop").get("a").await.unwrap_err();
    let want = "no answer from the API server in this process: connection reset by peer";
    assert!(error.to_string().ends_with(want), "{error}");
    let error = pods(&client, "shop").get("a").await.unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "{error}");
}

#[tokio::test]
async fn requests_beyond_the_rate_wait_their_turn() {
    let (clock, hand) = Clock::manual(Timestamp::UNIX_EPOCH);
    let script = Script::new(good(3));
    let rate = Some(Rate { qps: 1.0, burst: 1 });
    let client = script.client(&Options { clock, rate, ..Options::new("test") });
    let writes = tokio::spawn({
        let pods = pods(&client, "shop");
        async move {
            for _ in 0..2 {
                pods.get("a").await.unwrap();
            }
        }
    });
    while hand.next_due() != Some(Duration::from_secs(1)) {
        tokio::task::yield_now().await;
    }
    assert_eq!(script.lines().len(), 1);
    hand.advance(Duration::from_secs(1));
    writes.await.unwrap();
    assert_eq!(script.lines().len(), 2);
}

#[tokio::test]
async fn a_kind_with_a_struct_is_written_where_its_metadata_says() {
    let script = Script::new(good(3));
    let client = script.client(&Options::new("hollow"));
    let mut lease = api::Lease::default();
    "n1".clone_into(&mut lease.metadata.name);
    let error = client.create(&lease).await.unwrap_err().to_string();
    assert_eq!(error, "invalid request: Lease n1 needs a namespace");
    "kube-node-lease".clone_into(&mut lease.metadata.namespace);
    client.create(&lease).await.unwrap();
    client.replace(&lease).await.unwrap();
    client.all::<api::Node>().get("n1").await.unwrap();
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let lines = [format!("POST {path}"), format!("PUT {path}/n1"), "GET /api/v1/nodes/n1".into()];
    assert_eq!(script.lines(), lines);
    let body: Value = serde_json::from_str(&script.asked()[1].body).unwrap();
    assert_eq!(body, api::Resource::to_json(&lease));
}

#[tokio::test]
async fn metadata_alone_is_asked_for_in_gets_lists_and_watches() {
    let listed = r#"{"metadata":{"resourceVersion":"1"},"items":[]}"#;
    let replies = ["{}", listed, "", "{}"].map(|body| Reply::new(200, body));
    let script = Script::new(replies);
    let client = script.client(&Options::new("test"));
    let plain = pods(&client, "shop");
    let slim = plain.clone().metadata_only();
    slim.get("a").await.unwrap();
    slim.list(&ListOptions::default()).await.unwrap();
    slim.watch(&WatchOptions::default()).await.unwrap();
    plain.get_sub("a", "scale").await.unwrap();
    let accepted: Vec<String> = script.asked().into_iter().map(|asked| asked.accept).collect();
    let form = |kind: &str| format!("application/json;as={kind};g=meta.k8s.io;v=v1");
    let one = form("PartialObjectMetadata");
    let want = [one.clone(), form("PartialObjectMetadataList"), one, "application/json".to_owned()];
    assert_eq!(accepted, want);
    assert_eq!(script.lines()[3], "GET /api/v1/namespaces/shop/pods/a/scale");
}

#[tokio::test]
async fn requests_are_counted_by_what_came_back() {
    let lost = Reply::watch(&[], Tail::Break);
    let replies = [200, 200, 201, 404].map(|status| Reply::new(status, "{}"));
    let script = Script::new(replies.into_iter().chain([Reply::new(200, ""), lost]));
    let metrics = Metrics::new();
    let client = script.client(&Options::new("test"));
    // One that counts takes nothing of one that does not.
    client.call_unread(Call::new(Method::GET, "/x")).await.unwrap();
    let client = client.counted(&metrics);
    client.call_unread(Call::new(Method::GET, "/x")).await.unwrap();
    client.call_unread(Call::new(Method::POST, "/x")).await.unwrap();
    client.call_unread(Call::new(Method::GET, "/x")).await.unwrap_err();
    client.open(Call::new(Method::GET, "/x?watch=true")).await.unwrap();
    client.call_unread(Call::new(Method::PATCH, "/x")).await.unwrap_err();
    client.guarded(|| false).call_unread(Call::new(Method::PUT, "/x")).await.unwrap_err();
    let host = "the API server in this process";
    let text = metrics.render();
    let told = text.lines().filter(|line| line.starts_with("rest_client_requests_total{"));
    let mut told: Vec<String> = told.map(|line| line.replace(host, "H")).collect();
    told.sort();
    let expected = [
        r#"rest_client_requests_total{code="200",host="H",method="GET"} 2"#,
        r#"rest_client_requests_total{code="201",host="H",method="POST"} 1"#,
        r#"rest_client_requests_total{code="404",host="H",method="GET"} 1"#,
        r#"rest_client_requests_total{code="<error>",host="H",method="PATCH"} 1"#,
    ];
    assert_eq!(told, expected);
    // A watch takes as long as it takes, and what was not sent took nothing.
    let durations = "rest_client_request_duration_seconds_count{";
    let told = text.lines().filter_map(|line| line.strip_prefix(durations));
    let mut told: Vec<String> = told.map(|line| line.replace(host, "H")).collect();
    told.sort();
    let count = |verb: &str, count: u8| format!(r#"host="H",verb="{verb}"}} {count}"#);
    assert_eq!(told, [count("GET", 2), count("PATCH", 1), count("POST", 1)]);
}
