use super::*;
use chassis::client::Refusal;

fn refused(code: u16, retry_after: Option<u64>) -> Error {
    let body = format!(r#"{{"kind":"Status","status":"Failure","message":"said","code":{code}}}"#);
    let refusal = Box::new(Refusal::parse(code, retry_after, body.as_bytes()));
    Error::Refused { verb: http::Method::POST, path: "/".to_owned(), refusal }
}

fn unclear(patience: Option<Duration>) -> Event {
    Event::Unclear(Unclear { words: "said".into(), patience })
}

fn silence() -> Event {
    Event::Unclear(Unclear { words: "POST /: no answer within 1s".into(), patience: None })
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
    for code in [408, 429, 500, 502, 503, 504] {
        check(Err(refused(code, None)), unclear(None));
    }
    let asked = Some(Duration::from_secs(7));
    check(Err(refused(429, Some(7))), unclear(asked));
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
