//! A conversation, and how it is played.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::backend::{BACKENDS, Backend, Lease, Scope};
use crate::client::{Answer, Client, WAIT_MAX};
use crate::compare::mismatches;
use crate::differences::{DIFFERENCES, faults};
use crate::normalise::normalised;
use crate::request::{Request, User, get, post};

/// How often a server is asked whether it serves a new resource yet: nothing can be watched
/// before it does.
const SERVED_POLL: Duration = Duration::from_millis(20);

/// The longest part of a scenario's name in the name of its namespace.
const NAMESPACE_STEM_MAX: usize = 40;

/// Requests in order, played alike on every server.
///
/// In its texts `{ns}` stands for a namespace of its own, which exists, with the service
/// account `default`, when the first step is played.
#[derive(Debug, Clone)]
pub struct Scenario {
    name: String,
    scope: Scope,
    definitions: Vec<Value>,
    steps: Vec<Request>,
}

impl Scenario {
    /// A scenario without steps, on a server shared with others.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            scope: Scope::Namespaced,
            definitions: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Plays on a server nobody else uses meanwhile.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.scope = Scope::Exclusive;
        self
    }

    /// Plays on a server of its own.
    #[must_use]
    pub fn fresh(mut self) -> Self {
        self.scope = Scope::Fresh;
        self
    }

    /// Installs a `CustomResourceDefinition` first, where it is not there, and waits until its
    /// objects are served.
    #[must_use]
    pub fn definition(mut self, definition: Value) -> Self {
        self.definitions.push(definition);
        self
    }

    /// Adds a request.
    #[must_use]
    pub fn step(mut self, request: Request) -> Self {
        self.steps.push(request);
        self
    }

    /// Adds requests.
    #[must_use]
    pub fn steps(mut self, requests: impl IntoIterator<Item = Request>) -> Self {
        self.steps.extend(requests);
        self
    }

    /// Plays on every backend and compares each with the truth.
    ///
    /// # Panics
    /// Where an answer is not as expected or differs from the truth, with all differences.
    pub async fn run(&self) {
        if let Err(error) = self.compared().await {
            panic!("{}: {error:#}", self.name);
        }
    }

    async fn compared(&self) -> Result<()> {
        let mut truth = None;
        let authorizing = BACKENDS
            .iter()
            .filter(|backend| **backend == Backend::KubeApiServer || !self.needs_authorization());
        for backend in authorizing {
            let played = self.played(*backend).await;
            let played = played.with_context(|| format!("played on {}", backend.name()))?;
            let Some(truth) = &truth else {
                truth = Some(played);
                continue;
            };
            let faults = faults(&self.name, &mismatches(&played, truth), DIFFERENCES);
            ensure!(
                faults.is_empty(),
                "{} does not answer as kube-apiserver does:\n{}\nsteps:\n{}",
                backend.name(),
                faults.join("\n"),
                self.summary()
            );
        }
        Ok(())
    }

    /// Whether somebody asks who may do nothing: see [`crate::differences::AUTHORIZATION`].
    fn needs_authorization(&self) -> bool {
        self.steps.iter().any(|step| step.user == User::Outsider)
    }

    async fn played(&self, backend: Backend) -> Result<Value> {
        let lease = Lease::take(backend, self.scope, &self.name).await?;
        let result = self.play(&Client::new(&lease.server)?).await;
        let returned = lease.give_back().await;
        let played = result?;
        returned?;
        Ok(played)
    }

    /// Plays on one server and returns the answers, normalised.
    ///
    /// # Errors
    /// Where an answer is not as expected or does not come.
    pub async fn play(&self, client: &Client) -> Result<Value> {
        let namespace = fresh_namespace(&self.name);
        prepare_namespace(client, &namespace).await?;
        for definition in &self.definitions {
            install(client, definition).await?;
        }
        let mut values = BTreeMap::from([("ns".to_owned(), namespace.clone())]);
        let (mut answers, mut preparation) = (Vec::new(), Vec::new());
        for (index, step) in self.steps.iter().enumerate() {
            let request = step.filled(&values);
            let mut answer = answered(client, &request).await?;
            check(&request, &answer)
                .with_context(|| format!("step {index}: {} {}", request.method, request.path))?;
            for (name, pointer) in &request.captures {
                let value = answer.body.pointer(pointer).and_then(Value::as_str);
                let value = value.with_context(|| {
                    format!("step {index} has no text at {pointer}: {}", answer.body)
                })?;
                values.insert(name.clone(), value.to_owned());
            }
            key_lists(&mut answer.body, &request.keys);
            let kept = if request.is_preparation { &mut preparation } else { &mut answers };
            kept.push(answer);
        }
        Ok(normalised(&answers, &preparation, &namespace, Timestamp::now()))
    }

    fn summary(&self) -> String {
        let compared = self.steps.iter().filter(|step| !step.is_preparation);
        let lines = compared.enumerate();
        let lines = lines.map(|(index, step)| format!("  /{index} {} {}", step.method, step.path));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Whether a server asks to come again because a kind has changed just now. kube-apiserver does for a
/// moment, one verb after another, and every client comes again.
fn is_not_ready(answer: &Answer) -> bool {
    let said = answer.body["message"].as_str();
    answer.code == 429 && said == Some("storage is (re)initializing")
}

/// Whether a request is sent again after this answer: one that is awaited until it is as expected,
/// and any while a kind is not ready.
fn is_repeated(request: &Request, answer: &Answer) -> bool {
    is_not_ready(answer) || (request.is_awaited && check(request, answer).is_err())
}

/// The first answer to a request after which it is not repeated, or the last one in time.
async fn answered(client: &Client, request: &Request) -> Result<Answer> {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        let answer = client.send(request).await?;
        if !is_repeated(request, &answer) || Instant::now() >= deadline {
            return Ok(answer);
        }
        tokio::time::sleep(SERVED_POLL).await;
    }
}

/// Turns lists into maps where a request says so.
fn key_lists(value: &mut Value, keys: &[(String, String)]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| key_lists(item, keys)),
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                key_lists(member, keys);
                let known = keys.iter().find(|(list, _)| list == name);
                if let (Some((_, key)), Value::Array(items)) = (known, &mut *member) {
                    let name = |item: &Value| {
                        item.pointer(key).and_then(Value::as_str).unwrap_or_default().to_owned()
                    };
                    *member = items.iter().map(|item| (name(item), item.clone())).collect();
                }
            }
        }
        _ => {}
    }
}

fn check(request: &Request, answer: &Answer) -> Result<()> {
    let expectation = &request.expectation;
    let is_code_right = match expectation.code {
        Some(code) => code == answer.code,
        None => !request.is_preparation || (200..300).contains(&answer.code),
    };
    let wanted = expectation.code.map_or("a success".to_owned(), |code| code.to_string());
    ensure!(is_code_right, "answers {} instead of {wanted}: {}", answer.code, answer.body);
    if let Some(reason) = &expectation.reason {
        let found = answer.body["reason"].as_str().unwrap_or_default();
        ensure!(found == reason, "has the reason {found:?} instead of {reason:?}: {}", answer.body);
    }
    if let Some(wanted) = expectation.warnings {
        let found = answer.headers.get("warning").map_or(&[][..], Vec::as_slice);
        ensure!(
            found.len() == wanted,
            "has {} warnings instead of {wanted}: {found:?}",
            found.len()
        );
    }
    for (pointer, wanted) in &expectation.values {
        let found = answer.body.pointer(pointer).unwrap_or(&Value::Null);
        ensure!(found == wanted, "has {found} at {pointer} instead of {wanted}: {}", answer.body);
    }
    Ok(())
}

/// A name no other scenario has, on this or an earlier run.
fn fresh_namespace(scenario: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let seed = format!("{scenario} {} {count} {}", std::process::id(), Timestamp::now());
    let digest = Sha256::digest(seed);
    let stem: String = scenario.chars().take(NAMESPACE_STEM_MAX).collect();
    let stem = stem.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let stem = stem.trim_matches('-');
    format!("t-{stem}-{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3])
}

async fn prepare_namespace(client: &Client, namespace: &str) -> Result<()> {
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let requests = [
        post("/api/v1/namespaces", json!({"metadata": {"name": namespace}})),
        // Without it admission refuses every pod; its controller does not run here.
        post(&accounts, json!({"metadata": {"name": "default"}})),
    ];
    for request in requests {
        let answer = client.send(&request).await?;
        ensure!(answer.code == 201, "cannot prepare the namespace: {}", answer.body);
    }
    Ok(())
}

/// Installs a definition and waits until its objects are served.
async fn install(client: &Client, definition: &Value) -> Result<()> {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = client.send(&post(path, definition.clone())).await?;
    ensure!(matches!(answer.code, 201 | 409), "cannot install a definition: {}", answer.body);
    let text = |pointer: &str| {
        let value = definition.pointer(pointer).and_then(Value::as_str);
        value.with_context(|| format!("the definition has no text at {pointer}"))
    };
    let (group, plural) = (text("/spec/group")?, text("/spec/names/plural")?);
    let collection = format!("/apis/{group}/{}/{plural}", text("/spec/versions/0/name")?);
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        let answer = client.send(&get(&collection).query("limit", "1")).await?;
        match answer.code {
            200 => return Ok(()),
            404 | 503 => {}
            code => bail!("{collection} answers {code}: {}", answer.body),
        }
        ensure!(Instant::now() < deadline, "{collection} is not served after 10 s");
        tokio::time::sleep(SERVED_POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_a_valid_name_of_its_own() {
        let check = |scenario: &str, stem: &str| {
            let name = fresh_namespace(scenario);
            assert!(name.starts_with(stem) && name.len() <= 63, "{name}");
            assert_ne!(name, fresh_namespace(scenario));
        };
        check("a_pod_is_created", "t-a-pod-is-created-");
        check(&"x".repeat(300), "t-xxxx");
        check("ÄÖ_", "t-");
    }

    #[test]
    fn what_is_awaited_and_a_kind_that_is_not_ready_are_asked_again() {
        let verdict = |request: Request, (code, message): (u16, &str), expected: bool| {
            let body = json!({ "message": message });
            let answer = Answer { code, headers: BTreeMap::new(), body };
            assert_eq!(is_repeated(&request, &answer), expected, "{request:?} {answer:?}");
        };
        let (not_ready, busy) = ((429, "storage is (re)initializing"), (429, "come again"));
        verdict(get("/"), not_ready, true);
        verdict(get("/").expect(200), not_ready, true);
        verdict(get("/").preparation(), not_ready, true);
        verdict(get("/").expect(200), busy, false);
        verdict(get("/").expect(200), (200, "storage is (re)initializing"), false);
        verdict(get("/").expect(200).awaited(), busy, true);
        verdict(get("/").expect(200).awaited(), (200, ""), false);
    }

    #[test]
    fn an_answer_must_meet_every_expectation() {
        let answer = Answer {
            code: 404,
            headers: BTreeMap::new(),
            body: json!({"reason": "NotFound", "a": [1]}),
        };
        let verdict = |request: Request, expected: bool| {
            assert_eq!(check(&request, &answer).is_ok(), expected, "{request:?}");
        };
        verdict(get("/"), true);
        verdict(get("/").preparation(), false);
        verdict(get("/").expect(404), true);
        verdict(get("/").expect(200), false);
        verdict(get("/").refused(404, "NotFound"), true);
        verdict(get("/").refused(404, "Gone"), false);
        verdict(get("/").with("/a/0", 1), true);
        verdict(get("/").with("/a/1", 1), false);
        verdict(get("/").warned(0), true);
        verdict(get("/").warned(1), false);
    }

    #[test]
    fn lists_are_keyed_where_a_request_says_so() {
        let mut body = json!({"a": [{"n": {"x": "k"}, "b": [{"i": "1"}]}, {}], "c": [{"i": "2"}]});
        key_lists(
            &mut body,
            &[("a".to_owned(), "/n/x".to_owned()), ("b".to_owned(), "/i".to_owned())],
        );
        assert_eq!(
            body,
            json!({"a": {"k": {"n": {"x": "k"}, "b": {"1": {"i": "1"}}}, "": {}}, "c": [{"i": "2"}]})
        );
    }
}
