//! What programs print on a cluster, to be compared with what they print on another.

use std::sync::LazyLock;

use anyhow::Result;
use regex::Regex;
use scenarios::backend::{BACKENDS, Backend};
use scenarios::system::{Cluster, Controllers, Scheduler};

/// A deployment whose pods end at once.
pub const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: registry.example/web:1}]
";

/// What no two runs share, and what stands in its place: times, ages in a column
/// of their own, uids, revisions, generated endings, hashes, addresses of pods, the width of columns.
const UNSHARED: [(&str, &str); 10] = [
    (r"[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} [+-]\d{4}", "{time}"),
    (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z", "{time}"),
    (r"(?m)^(\d+m)?\d+s\b|[ \t]{2,}(\d+m)?\d+s([ \t]{2,}|[ \t]*$)", " {age}$3"),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "{uid}"),
    (r"(Resource Version:\s+)\d+", "$1{revision}"),
    (r"kube-api-access-[a-z0-9]{5}", "kube-api-access-{suffix}"),
    (r"://[0-9a-f]{64}", "://{hash}"),
    (r"10\.128\.\d+\.\d+", "{address}"),
    (r"(?m)[ \t]+", " "),
    (r"-{2,}", "--"),
];

/// `text` without what no two runs share.
pub fn scrubbed(text: &str) -> String {
    static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let compiled = UNSHARED.map(|(pattern, name)| (Regex::new(pattern).unwrap(), name));
        compiled.into_iter().collect()
    });
    PATTERNS.iter().fold(text.to_owned(), |text, (pattern, name)| {
        pattern.replace_all(&text, *name).into_owned()
    })
}

/// What a cluster printed, command by command.
pub struct Transcript<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The namespace of the commands.
    pub namespace: String,
    /// What was printed.
    pub lines: Vec<String>,
}

impl Transcript<'_> {
    /// Runs kubectl, which must succeed, and keeps what it prints.
    pub async fn run(&mut self, arguments: &str) -> Result<()> {
        self.run_with(arguments, "").await
    }

    /// The same with standard input.
    pub async fn run_with(&mut self, arguments: &str, input: &str) -> Result<()> {
        let printed = self.quietly_with(arguments, input).await?;
        self.keep(arguments, &printed);
        Ok(())
    }

    /// Runs kubectl, which must succeed, and keeps what it prints but for what no two runs share.
    pub async fn run_scrubbed(&mut self, arguments: &str) -> Result<()> {
        let printed = self.quietly(arguments).await?;
        self.keep(arguments, &scrubbed(&printed));
        Ok(())
    }

    /// Runs `kubectl describe` and keeps what it prints but for what no two runs share, and but
    /// for events: our controllers write none.
    pub async fn describe(&mut self, arguments: &str) -> Result<()> {
        let arguments = format!("describe {arguments}");
        let printed = self.quietly(&arguments).await?;
        let before_events = printed.split("\nEvents:").next().unwrap_or_default();
        self.keep(&arguments, &scrubbed(before_events));
        Ok(())
    }

    /// Runs kubectl, which must succeed, and keeps nothing.
    pub async fn quietly(&self, arguments: &str) -> Result<String> {
        self.quietly_with(arguments, "").await
    }

    async fn quietly_with(&self, arguments: &str, input: &str) -> Result<String> {
        self.cluster.kubectl_with(&self.words(arguments), input).await
    }

    /// The words of a command in the namespace.
    pub fn words<'b>(&'b self, arguments: &'b str) -> Vec<&'b str> {
        ["--namespace", self.namespace.as_str()].into_iter().chain(arguments.split(' ')).collect()
    }

    /// Keeps what a command printed.
    pub fn keep(&mut self, command: &str, printed: &str) {
        self.lines.push(format!("$ kubectl {command}\n{printed}"));
    }

    /// Puts `name` for `value` in all that was printed: a name that was generated.
    pub fn call(&mut self, value: &str, name: &str) {
        for line in &mut self.lines {
            *line = line.replace(value, name);
        }
    }
}

/// A server and who moves its workloads on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cast(Backend, Controllers);

/// The real server with the real controllers: the truth.
const REAL: Cast = Cast(Backend::KubeApiServer, Controllers::Theirs);

/// Plays on every backend, each with the controllers that belong to it, and compares what was
/// printed. A cluster without nodes has neither controllers nor a scheduler.
pub async fn alike<F>(name: &str, nodes: u32, script: F)
where
    F: AsyncFn(&mut Transcript<'_>) -> Result<()>,
{
    let casts = match nodes {
        0 => BACKENDS.iter().map(|backend| Cast(*backend, Controllers::Nobody)).collect(),
        _ => vec![REAL, Cast(Backend::Drydock, Controllers::Ours)],
    };
    compared(name, &casts, nodes, script).await;
}

/// Plays with the real controllers on the real server, and with ours on both servers, and
/// compares what was printed.
pub async fn alike_with_any_controllers<F>(name: &str, nodes: u32, script: F)
where
    F: AsyncFn(&mut Transcript<'_>) -> Result<()>,
{
    let ours = BACKENDS.iter().map(|backend| Cast(*backend, Controllers::Ours));
    let casts: Vec<Cast> = [REAL].into_iter().chain(ours).collect();
    compared(name, &casts, nodes, script).await;
}

async fn compared<F>(name: &str, casts: &[Cast], nodes: u32, script: F)
where
    F: AsyncFn(&mut Transcript<'_>) -> Result<()>,
{
    let mut first: Option<String> = None;
    for cast in casts {
        let printed = played(name, *cast, nodes, &script).await;
        let printed = printed.unwrap_or_else(|error| panic!("{name} with {cast:?}: {error:#}"));
        match &first {
            None => first = Some(printed),
            Some(truth) => {
                let differing = differing(&printed, truth);
                assert!(
                    differing.is_empty(),
                    "{name} with {cast:?} prints other things:\n{differing}"
                );
            }
        }
    }
}

/// The lines of `ours` (`-`) and of `truth` (`+`) between their common first and last lines.
fn differing(ours: &str, truth: &str) -> String {
    let (ours, truth): (Vec<&str>, Vec<&str>) = (ours.lines().collect(), truth.lines().collect());
    let alike = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let first = ours.iter().zip(&truth).take_while(alike).count();
    let shorter = ours.len().min(truth.len()) - first;
    let last = ours.iter().rev().zip(truth.iter().rev()).take(shorter).take_while(alike).count();
    let between = |lines: &[&str], sign: &str| {
        let lines = lines[first..lines.len() - last].iter();
        lines.map(|line| format!("{sign} {line}\n")).collect::<String>()
    };
    between(&ours, "-") + &between(&truth, "+")
}

async fn played<F>(name: &str, cast: Cast, nodes: u32, script: &F) -> Result<String>
where
    F: AsyncFn(&mut Transcript<'_>) -> Result<()>,
{
    let Cast(backend, controllers) = cast;
    let scheduler = if nodes == 0 { Scheduler::Nobody } else { Scheduler::Theirs };
    let cluster = Cluster::start(name, backend, controllers, scheduler, nodes).await?;
    // A name of its own: two casts may share a server.
    let namespace = format!("{name}-{}-{controllers:?}", std::process::id()).to_lowercase();
    cluster.kubectl(&["create", "namespace", &namespace]).await?;
    let mut transcript = Transcript { cluster: &cluster, namespace, lines: Vec::new() };
    let result = script(&mut transcript).await;
    let printed = transcript.lines.join("").replace(&transcript.namespace, "{ns}");
    cluster.end().await?;
    result.map(|()| printed)
}

#[test]
fn what_no_two_runs_share_is_replaced() {
    let check = |text: &str, expected: &str| assert_eq!(scrubbed(text), expected, "{text}");
    check("Start Time:  Sun, 15 Nov 2026 12:48:41 +0000", "Start Time: {time}");
    check("at 2026-11-15T12:48:41Z, 2026-11-15T12:48:41.123456Z", "at {time}, {time}");
    check("hello  0 (0%)   12s\nx", "hello 0 (0%) {age}\nx");
    check("1/1   Running   0    5s    x", "1/1 Running 0 {age} x");
    check("2m10s   Normal  Scheduled", " {age} Normal Scheduled");
    check("op=Exists for 300s\ncpu:   100m", "op=Exists for 300s\ncpu: 100m");
    check("UID: 3c821fbf-5910-4163-a7ff-0d388687ffb2", "UID: {uid}");
    check("Resource Version:  39\nReplicas: 39", "Resource Version: {revision}\nReplicas: 39");
    check("from kube-api-access-znqwc (ro)", "from kube-api-access-{suffix} (ro)");
    check("---------  --", "-- --");
}

#[test]
fn only_lines_that_differ_are_shown() {
    let check = |ours: &str, truth: &str, expected: &str| {
        assert_eq!(differing(ours, truth), expected, "{ours:?} {truth:?}");
    };
    check("a\nb\nc", "a\nb\nc", "");
    check("a\nb\nc", "a\nx\ny\nc", "- b\n+ x\n+ y\n");
    check("a\na", "a", "- a\n");
    check("", "a", "+ a\n");
}
