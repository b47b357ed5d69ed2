//! Every verb, on a namespaced native kind, a cluster-scoped native kind and a custom kind, with
//! success and each reason it can refuse for: a table, of which each cell is a test and
//! `docs/SERVER_COVERAGE.md` is the rendering.

mod create;
mod delete;
mod patch;
mod read;
mod resource;
mod update;
mod watch;

use std::fmt::Write as _;

use http::Method;
use scenarios::Scenario;
use scenarios::backend::{Backend, Lease, Scope};
use scenarios::client::Client;
use scenarios::request::{Request, User, get, watch};
use serde_json::Value;

use resource::Resource;

/// The verbs of the API, in the order of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verb {
    Create,
    Get,
    List,
    Watch,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

/// What comes of a request: success, or the refusal, most of which are named for their `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Success,
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Expired,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    Timeout,
    /// A refusal with code 500 and without a reason.
    Unnamed,
    /// A refusal with code 404 in plain text: nothing at all is served at the path.
    NoSuchPath,
}

/// What is answered where nothing is served at a path.
const NO_SUCH_PATH: &str = "404 page not found\n";

impl Verb {
    /// Whether a request is one of this verb.
    fn is_of(self, request: &Request) -> bool {
        let is_watch = request.events.is_some();
        match self {
            Self::Create => request.method == Method::POST,
            Self::Get | Self::List => request.method == Method::GET && !is_watch,
            Self::Watch => is_watch,
            Self::Update => request.method == Method::PUT,
            Self::Patch => request.method == Method::PATCH,
            Self::Delete | Self::DeleteCollection => request.method == Method::DELETE,
        }
    }
}

impl Outcome {
    /// The `reason` of the refusal, where it has one; it may be empty.
    fn reason(self) -> Option<String> {
        match self {
            Self::Success | Self::NoSuchPath => None,
            Self::Unnamed => Some(String::new()),
            named => Some(format!("{named:?}")),
        }
    }

    /// Whether exactly this outcome is what a request expects.
    fn is_expected_by(self, request: &Request) -> bool {
        let code = request.expectation.code;
        let is_code_right = match self {
            Self::Success => code.is_some_and(|code| (200..300).contains(&code)),
            Self::Unnamed => code == Some(500),
            Self::NoSuchPath => {
                let whole = (String::new(), Value::from(NO_SUCH_PATH));
                code == Some(404) && request.expectation.values.contains(&whole)
            }
            _ => code.is_some(),
        };
        is_code_right && expected_reason(request) == self.reason()
    }
}

/// The reason a request expects to be refused for. A watch that has begun tells it in an event.
fn expected_reason(request: &Request) -> Option<String> {
    let in_event = request.expectation.values.iter().find_map(|(pointer, value)| {
        let is_reason = request.events.is_some() && pointer == "/0/object/reason";
        is_reason.then(|| value.as_str().unwrap_or_default().to_owned())
    });
    request.expectation.reason.clone().or(in_event)
}

/// One row of the table.
struct Case {
    name: &'static str,
    verb: Verb,
    outcome: Outcome,
    resources: &'static [&'static str],
    steps: fn(&Resource) -> Vec<Request>,
}

/// Writes the table and, for each of its cells, a test.
macro_rules! cases {
    ($($name:ident: $verb:ident, $outcome:ident, [$($resource:ident)+] => $steps:expr;)+) => {
        /// The rows of this part of the table.
        pub(super) const CASES: &[super::Case] = &[$(super::Case {
            name: stringify!($name),
            verb: super::Verb::$verb,
            outcome: super::Outcome::$outcome,
            resources: &[$(stringify!($resource)),+],
            steps: $steps,
        }),+];
        $(mod $name {$(
            #[tokio::test]
            async fn $resource() {
                let resource = crate::verbs::resource::$resource();
                crate::verbs::play(super::CASES, stringify!($name), &resource).await;
            }
        )+})+
    };
}
use cases;

async fn play(cases: &[Case], name: &str, resource: &Resource) {
    let case = cases.iter().find(|case| case.name == name).expect("the macro wrote the case");
    let steps = (case.steps)(resource);
    let mut asked = steps.iter().filter(|step| !step.is_preparation && case.verb.is_of(step));
    let asked = asked.next_back().expect("a case compares an answer of its verb");
    assert!(
        case.outcome.is_expected_by(asked),
        "{name} is in the row {:?}, and its last {:?} expects {:?}",
        case.outcome,
        case.verb,
        asked.expectation
    );
    scenario(case, resource).run().await;
}

fn scenario(case: &Case, resource: &Resource) -> Scenario {
    let scenario = Scenario::new(&format!("{}_{}", case.name, resource.label));
    let scenario = match &resource.definition {
        Some(definition) => scenario.definition(definition.clone()),
        None => scenario,
    };
    scenario.steps((case.steps)(resource))
}

fn all_cases() -> impl Iterator<Item = &'static Case> {
    [create::CASES, read::CASES, watch::CASES, update::CASES, patch::CASES, delete::CASES]
        .into_iter()
        .flatten()
}

/// The page: for each verb and outcome, how many tests each sort of kind has, and their names.
fn page() -> String {
    let labels = ["namespaced", "cluster", "custom"];
    let mut cases: Vec<&Case> = all_cases().collect();
    cases.sort_by_key(|case| (case.verb, case.outcome));
    let cells: usize = cases.iter().map(|case| case.resources.len()).sum();
    let mut text = format!(
        "# Coverage of the API server\n\n\
         Every verb on a namespaced native kind (ConfigMap), a cluster-scoped native kind (PriorityClass) and a custom\n\
         kind, with success and each reason it can refuse for. Each cell is the number of tests, {cells} in all; their\n\
         names are `verbs::<file>::<case>::<namespaced|cluster|custom>` in `tests/scenarios/tests/server`. A\n\
         case stands in the row of what its last request of that verb must answer: `Unnamed` is a refusal with code 500 and\n\
         no reason, `NoSuchPath` one with code 404 in plain text, and the others are the `reason` itself. Written by\n\
         `GANTRY_WRITE=1 cargo test -p scenarios --test server page`; a test keeps it current.\n\n\
         | verb | outcome | namespaced | cluster | custom | cases |\n|---|---|---:|---:|---:|---|\n"
    );
    for row in cases.chunk_by(|a, b| (a.verb, a.outcome) == (b.verb, b.outcome)) {
        let counts: Vec<String> = labels
            .iter()
            .map(|label| row.iter().filter(|case| case.resources.contains(label)).count())
            .map(|count| if count == 0 { "–".to_owned() } else { count.to_string() })
            .collect();
        let names: Vec<String> = row.iter().map(|case| case.name.replace('_', " ")).collect();
        let (verb, outcome) = (format!("{:?}", row[0].verb).to_lowercase(), row[0].outcome);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {verb} | {outcome:?} | {} | {} |",
            counts.join(" | "),
            names.join("; ")
        );
    }
    text
}

#[test]
fn a_case_belongs_to_the_row_of_what_it_expects() {
    let check = |outcome: Outcome, request: Request, expected: bool| {
        assert_eq!(outcome.is_expected_by(&request), expected, "{outcome:?} {request:?}");
    };
    let expired = || watch("/", 1).expect(200).with("/0/object/reason", "Expired");
    check(Outcome::Success, get("/").expect(200), true);
    check(Outcome::Success, get("/"), false);
    check(Outcome::Success, get("/").expect(404), false);
    check(Outcome::Success, get("/").refused(404, "NotFound"), false);
    check(Outcome::Success, expired(), false);
    check(Outcome::Expired, expired(), true);
    check(Outcome::NotFound, get("/").refused(404, "NotFound"), true);
    check(Outcome::NotFound, get("/").refused(409, "Conflict"), false);
    check(Outcome::NotFound, get("/").expect(404), false);
    check(Outcome::Unnamed, get("/").refused(500, ""), true);
    check(Outcome::Unnamed, get("/").expect(500), false);
    check(Outcome::NoSuchPath, get("/").expect(404), false);
    check(Outcome::NoSuchPath, get("/").expect(404).with("", NO_SUCH_PATH), true);
}

#[test]
fn the_coverage_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SERVER_COVERAGE.md");
    if std::env::var_os("GANTRY_WRITE").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == page(),
        "docs/SERVER_COVERAGE.md is not current: run \
         `GANTRY_WRITE=1 cargo test -p scenarios --test server page`"
    );
}

/// While this holds, scenarios in which an outsider asks are not played on drydock.
#[tokio::test]
async fn nobody_is_refused_for_lack_of_rights() {
    let lease = Lease::take(Backend::Drydock, Scope::Namespaced, "outsider").await.unwrap();
    let client = Client::new(&lease.server).unwrap();
    let answer = client.send(&get("/api/v1/namespaces").by(User::Outsider)).await.unwrap();
    assert_eq!(
        answer.code, 200,
        "drydock authorizes now: take `needs_authorization` out of scenario.rs, `AUTHORIZATION` \
         out of differences.rs and the entry out of docs/COMPATIBILITY.md"
    );
    lease.give_back().await.unwrap();
}
