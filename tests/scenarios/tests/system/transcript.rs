//! What programs print on a cluster, to be compared with what they print on another.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use regex::Regex;
use scenarios::system::{Cluster, PATIENCE};

use crate::events::Events;
use crate::story::differing;

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

    /// Runs `kubectl describe` and keeps what it prints but for what no two runs share. Events of
    /// the same second come in no order, so they are put in one.
    pub async fn describe(&mut self, arguments: &str) -> Result<()> {
        let arguments = format!("describe {arguments}");
        let printed = scrubbed(&self.quietly(&arguments).await?);
        let (object, events) = printed.split_once("\nEvents:").unwrap_or((&printed, ""));
        let mut events: Vec<&str> = events.lines().collect();
        events.sort_unstable();
        self.keep(&arguments, &format!("{object}\nEvents:{}\n", events.join("\n")));
        Ok(())
    }

    /// Waits until the namespace may have pods.
    pub async fn settle(&self) -> Result<()> {
        self.quietly("wait --for=create serviceaccount/default --timeout=30s").await.map(drop)
    }

    /// Applies a manifest and keeps nothing.
    pub async fn apply(&self, manifest: &str) -> Result<()> {
        self.quietly_with("apply --filename -", manifest).await.map(drop)
    }

    /// Fields of an object by a JSONPath template.
    pub async fn show(&self, what: &str, template: &str) -> Result<String> {
        let output = format!("--output=jsonpath={template}");
        let mut words = self.words("get");
        words.extend(what.split(' ').chain([output.as_str()]));
        self.cluster.kubectl(&words).await
    }

    /// Waits until a JSONPath template shows these words of an object, in any order.
    pub async fn until(&self, object: &str, template: &str, wanted: &str) -> Result<()> {
        let sorted = |text: &str| {
            let mut words: Vec<&str> = text.split_whitespace().collect();
            words.sort_unstable();
            words.join(" ")
        };
        let wanted = sorted(wanted);
        let mut is_wanted = |shown: &str| match sorted(shown) == wanted {
            true => Ok(()),
            false => Err(format!("{shown:?} is not {wanted:?}")),
        };
        self.until_shown(object, template, &mut is_wanted).await
    }

    /// Waits until a template shows of an object, such as `node a`, what is wanted. `is_wanted`
    /// tells what is missing.
    pub async fn until_shown(
        &self,
        object: &str,
        template: &str,
        is_wanted: &mut dyn FnMut(&str) -> Result<(), String>,
    ) -> Result<()> {
        // As a list: kubectl may miss a change while it begins to watch one object.
        let list = object.replace(' ', " --field-selector=metadata.name=");
        self.follow(&list, template, is_wanted).await.with_context(|| object.to_owned())
    }

    /// Looks at each object of a list, as a template shows it, and at what becomes of it, until
    /// one is wanted. Nothing may be a range in the template: kubectl shows only one.
    pub async fn follow(
        &self,
        list: &str,
        template: &str,
        is_wanted: &mut dyn FnMut(&str) -> Result<(), String>,
    ) -> Result<()> {
        let output = format!("--output=jsonpath={template}{{\"\\n\"}}");
        let mut words = self.words("get --watch");
        words.extend(list.split(' ').chain([output.as_str()]));
        let mut following = self.cluster.kubectl_following(&words)?;
        let mut missing = "it is not shown".to_owned();
        let found = async {
            while let Err(why) = is_wanted(&following.next().await?) {
                missing = why;
            }
            anyhow::Ok(())
        };
        let found = tokio::time::timeout(PATIENCE, found).await;
        found.unwrap_or_else(|late| Err(late.into())).context(missing)
    }

    /// Waits until controllers have told `expected` of the objects that `which` selects, in the
    /// form of [`Events::shown`].
    pub async fn until_told(&self, which: &str, expected: &str) -> Result<()> {
        let expected = expected.trim_start();
        let mut events = Events::default();
        let mut is_wanted = |line: &str| {
            events.take(serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?);
            let shown = events.shown().replace(&self.namespace, "{ns}");
            let differing = differing(&shown, expected);
            if differing.is_empty() { Ok(()) } else { Err(format!("\n{differing}")) }
        };
        self.follow(format!("events {which}").trim_end(), "{$}", &mut is_wanted).await
    }

    /// Runs kubectl, which must succeed, until it prints so many lines. How many objects there are
    /// cannot be followed: kubectl's watch tells of one at a time, and of one that goes as of one
    /// that changes.
    pub async fn until_lines(&self, arguments: &str, count: usize) -> Result<()> {
        let begun = Instant::now();
        loop {
            let printed = self.quietly(arguments).await?;
            if printed.lines().count() == count {
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "{arguments} prints {printed}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
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
