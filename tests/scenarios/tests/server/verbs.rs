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

use scenarios::Scenario;
use scenarios::backend::{Backend, Lease, Scope};
use scenarios::client::Client;
use scenarios::request::{Request, User, get};

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

/// What comes of a request: success, or the `reason` of the refusal.
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
    let last = steps.iter().rfind(|step| !step.is_preparation).expect("a case compares something");
    let is_refusal = steps.iter().any(|step| step.expectation.reason.is_some());
    assert!(last.expectation.code.is_some(), "{name} expects nothing");
    assert_eq!(is_refusal, case.outcome != Outcome::Success, "{name} is in the wrong row");
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
         names are `verbs::<file>::<case>::<namespaced|cluster|custom>` in `tests/scenarios/tests/server`. Written by\n\
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
