use std::convert::Infallible;

use chassis::client::Options;
use engine::fact::{PodRef, Uid};
use engine::turn::{Counsel, Ticket};
use http::{Request, Response};
use http_body_util::Full;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::config;

/// An API server that knows one pod.
fn api_server() -> Client {
    let pod = json!({
        "metadata": { "name": "p", "namespace": "ns", "uid": "u", "managedFields": [{}] },
        "spec": { "containers": [{ "name": "main", "image": "i",
            "resources": { "limits": { "e/x": "1" } } }] },
    });
    let service = tower::service_fn(move |request: Request<_>| {
        let is_known = request.uri().path() == "/api/v1/namespaces/ns/pods/p";
        drop(request);
        let body = if is_known { pod.to_string() } else { "{}".to_owned() };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        if !is_known {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        async move { Ok::<_, Infallible>(response) }
    });
    Client::from_service(service, &Options::new("test"))
}

/// An extender that answers every request with this; empty for nothing at all.
async fn extender(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answered(stream, answer));
        }
    });
    address
}

async fn answered(stream: TcpStream, answer: &str) {
    let mut stream = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while stream.read_line(&mut line).await.is_ok_and(|read| read > 2) {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert!(body["Pod"]["metadata"].get("managedFields").is_none(), "{body}");
    let answer = match answer {
        "" => return std::future::pending().await,
        "endless" => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n[").await;
            while stream.write_all(&[b' '; 1 << 16]).await.is_ok() {}
            return;
        }
        "500" => "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".to_owned(),
        body => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
    };
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// Extenders, of which the only one is at this address, as one line of a file. It is waited for, but
/// not where it has no answer.
fn configured(address: &str, answer: &str, line: &str) -> Extenders {
    let timeout = if answer.is_empty() { "200ms" } else { "60s" };
    let text = format!(
        "apiVersion: {}\nkind: {}\nextenders:\n- {{urlPrefix: 'http://{address}', httpTimeout: \
         {timeout}, nodeCacheCapable: true, {line}}}\n",
        config::API_VERSION,
        config::KIND
    );
    let configuration = config::parse("f".as_ref(), &text).unwrap();
    Extenders::new(&configuration.extenders, &api_server()).unwrap()
}

fn pod() -> PodRef {
    PodRef { uid: Uid::new("u"), namespace: "ns".into(), name: "p".into(), is_reservation: false }
}

fn allowed(nodes: &[&str]) -> Advice {
    let allowed = nodes.iter().map(|node| ((*node).into(), 0)).collect();
    Advice::Counsel(Counsel { allowed, ..Counsel::default() })
}

#[tokio::test]
async fn whatever_an_extender_answers_there_is_advice() {
    let check = async |answer: &'static str, line: &str, expected: Advice| {
        let address = extender(answer).await;
        let order =
            ConsultOrder { ticket: Ticket(1), pod: pod(), nodes: vec!["a".into(), "b".into()] };
        let advice = configured(&address, answer, line).ask(&order).await;
        let advice = match advice {
            Advice::Failed(why) => Advice::Failed(why.replace(&address, "E").into()),
            counsel => counsel,
        };
        assert_eq!(advice, expected, "{answer} {line}");
    };
    let failed = |why: &str| Advice::Failed(why.into());
    let (filter, may) = ("filterVerb: f", "filterVerb: f, ignorable: true");
    check(r#"{"NodeNames":["b"]}"#, filter, allowed(&["b"])).await;
    let code = "failed f with extender at URL http://E/f, code 500";
    check("500", filter, failed(code)).await;
    let late = "Post \"http://E/f\": context deadline exceeded (Client.Timeout exceeded while \
                awaiting headers)";
    check("", filter, failed(late)).await;
    let page = "extender \"http://E/f\" answers what is not understood: expected value at line 1 \
                column 1";
    check("<html>", filter, failed(page)).await;
    check(r#"{"Error":"no"}"#, filter, failed("no")).await;
    let all = allowed(&["a", "b"]);
    for answer in ["500", "", "<html>", r#"{"Error":"no"}"#, r#"{"NodeNames":["c"]}"#] {
        check(answer, may, all.clone()).await;
        check(answer, "prioritizeVerb: p, weight: 1", all.clone()).await;
    }
    let other = "filterVerb: f, managedResources: [{name: e/y}]";
    check("500", other, all.clone()).await;
    // Nobody reads what never ends.
    let address = extender("endless").await;
    let endless = configured(&address, "endless", filter);
    let order = ConsultOrder { ticket: Ticket(1), pod: pod(), nodes: vec!["a".into()] };
    let advice = endless.ask(&order).await;
    let long = format!("Post \"http://{address}/f\": the answer is longer than 67108864 bytes");
    assert_eq!(advice, failed(&long));
    let gone = PodRef { uid: Uid::new("v"), ..pod() };
    let order = ConsultOrder { pod: gone, ..order };
    assert_eq!(endless.ask(&order).await, failed("asking extenders: the pod is gone"));
}

#[tokio::test]
async fn what_an_extender_says_of_a_binding_is_held_against_the_pod() {
    let check = async |answer: &'static str, line: &str, expected: Option<Event>| {
        let address = extender(answer).await;
        let order = BindOrder {
            pod: pod(),
            number: 1,
            node: "a".into(),
            scheduler: "s".into(),
            binder: Binder::Extender,
            version: Box::default(),
            stamps: std::collections::BTreeMap::new(),
            held: None,
        };
        let event = configured(&address, answer, line).bind(&order).await;
        let event = event.map(|event| match event {
            Event::Conflicted(said) => Event::Conflicted(said.replace(&address, "E").into()),
            // How a connection ends is told in many ways.
            Event::Unclear(own) => Event::Unclear(Unclear { words: Box::default(), ..own }),
            event => event,
        });
        assert_eq!(event, expected, "{answer} {line}");
    };
    let conflicted = |said: &str| Some(Event::Conflicted(said.into()));
    let (bind, may) = ("bindVerb: b", "bindVerb: b, ignorable: true");
    let lie = conflicted("extender \"http://E\" says that it bound the pod, which has no node");
    check("{}", bind, lie.clone()).await;
    check("{}", may, lie).await;
    check(r#"{"Error":"no"}"#, bind, conflicted("no")).await;
    check("500", bind, conflicted("failed b with extender at URL http://E/b, code 500")).await;
    let (patience, lands_within) = (None, Duration::MAX);
    let silence = Unclear { words: Box::default(), patience, lands_within };
    check("", bind, Some(Event::Unclear(silence))).await;
    for answer in [r#"{"Error":"no"}"#, "500", "", "<html>"] {
        check(answer, may, None).await;
    }
    check("{}", "filterVerb: f", None).await;
}

#[test]
fn those_are_asked_about_who_name_what_somebody_manages() {
    let check = |lines: &str, consulting: Consulting, binder: Binder| {
        let text = format!(
            "apiVersion: {}\nkind: {}\nextenders: [{lines}]",
            config::API_VERSION,
            config::KIND
        );
        let extenders = config::parse("f".as_ref(), &text).unwrap().extenders;
        assert_eq!(super::consulting(&extenders), consulting, "{lines}");
        assert_eq!(Binders::of(&extenders).of_pod(&["e/x".into()]), binder, "{lines}");
    };
    let naming =
        |names: &[&str]| Consulting::Naming(names.iter().map(|one| (*one).into()).collect());
    let (x, y) = ("managedResources: [{name: e/x}]", "managedResources: [{name: e/y}]");
    check("", Consulting::Never, Binder::Server);
    check("{urlPrefix: 'http://e', filterVerb: f}", Consulting::Always, Binder::Server);
    let scores = format!("{{urlPrefix: 'http://e', prioritizeVerb: p, weight: 1, {x}}}");
    check(&scores, naming(&["e/x"]), Binder::Server);
    let both = format!("{scores}, {{urlPrefix: 'http://f', filterVerb: f, {y}}}");
    check(&both, naming(&["e/x", "e/y"]), Binder::Server);
    let binds = "urlPrefix: 'http://e', bindVerb: b";
    check(&format!("{{{binds}}}"), Consulting::Never, Binder::Extender);
    check(&format!("{{{binds}, {x}}}"), Consulting::Never, Binder::Extender);
    check(&format!("{{{binds}, {y}}}"), Consulting::Never, Binder::Server);
    let may = format!("{{{binds}, ignorable: true}}");
    check(&may, Consulting::Never, Binder::IgnorableExtender);
}
