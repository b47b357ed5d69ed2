//! Our controllers on a real kube-apiserver and on drydock, and kube-controller-manager on the
//! real one: the same story must end the same way with each of them.

mod budgets;
mod nodes;

use std::time::Duration;

use anyhow::{Context as _, Result};
use scenarios::backend::Backend;
use scenarios::system::{Cluster, Controllers, PATIENCE, Scheduler};

/// Where a story is played, and who moves it on. The first is the truth.
const STAGES: [(Backend, Controllers, &str); 3] = [
    (Backend::KubeApiServer, Controllers::Theirs, "theirs"),
    (Backend::KubeApiServer, Controllers::Ours, "ours"),
    (Backend::Drydock, Controllers::Ours, "embedded"),
];
/// How long to wait before a question is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// A cluster and a namespace for one story.
struct Play<'a> {
    cluster: &'a Cluster,
    namespace: String,
}

impl Play<'_> {
    /// Runs kubectl in the namespace; it must succeed.
    async fn kubectl(&self, arguments: &str) -> Result<String> {
        self.feed(arguments, "").await
    }

    /// The same with standard input.
    async fn feed(&self, arguments: &str, input: &str) -> Result<String> {
        let mut words = vec!["--namespace", self.namespace.as_str()];
        words.extend(arguments.split(' '));
        self.cluster.kubectl_with(&words, input).await
    }

    /// Fields of objects, as `kubectl get` shows them by a template.
    async fn show(&self, what: &str, template: &str) -> Result<String> {
        let output = format!("jsonpath={template}");
        let mut words = vec!["--namespace", self.namespace.as_str(), "get"];
        words.extend(what.split(' '));
        words.extend(["--output", &output]);
        self.cluster.kubectl(&words).await
    }

    /// Waits until the template shows `wanted`. Words are compared in any order. A question that
    /// fails shows nothing, and is asked again: what is asked for may not be there yet.
    async fn until(&self, what: &str, template: &str, wanted: &str) -> Result<()> {
        let wanted = sorted(wanted);
        let started = tokio::time::Instant::now();
        loop {
            let shown = self.show(what, template).await.map(|shown| sorted(&shown));
            if shown.as_ref().is_ok_and(|shown| *shown == wanted) {
                return Ok(());
            }
            if started.elapsed() >= PATIENCE {
                let shown = shown.context(format!("{what} {template} is not shown"))?;
                anyhow::bail!("{what} {template} stays {shown:?} and does not become {wanted:?}");
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    async fn apply(&self, manifest: &str) -> Result<()> {
        self.feed("apply --filename -", manifest).await.map(|_| ())
    }
}

/// Words in order.
fn sorted(text: &str) -> String {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    words.sort_unstable();
    words.join(" ")
}

/// Plays a story on each stage; what it tells at the end must be the same.
async fn same_end<F>(name: &str, nodes: u32, story: F)
where
    F: AsyncFn(&Play<'_>) -> Result<String>,
{
    let mut truth: Option<String> = None;
    for (backend, controllers, stage) in STAGES {
        let ended = played(name, (backend, controllers, stage), nodes, &story).await;
        let ended = ended.unwrap_or_else(|error| panic!("{name}, {stage}: {error:#}"));
        match &truth {
            None => truth = Some(ended),
            Some(truth) => assert_eq!(&ended, truth, "{name}, {stage}: it ends in another way"),
        }
    }
}

async fn played<F>(
    name: &str,
    (backend, controllers, stage): (Backend, Controllers, &str),
    nodes: u32,
    story: &F,
) -> Result<String>
where
    F: AsyncFn(&Play<'_>) -> Result<String>,
{
    let cluster = Cluster::start(name, backend, controllers, Scheduler::Nobody, nodes).await?;
    let namespace = format!("{name}-{stage}-{}", std::process::id());
    let result = async {
        cluster.kubectl(&["create", "namespace", &namespace]).await?;
        let play = Play { cluster: &cluster, namespace: namespace.clone() };
        if controllers != Controllers::Nobody {
            play.until("serviceaccount default", "{.metadata.name}", "default").await?;
        }
        let ended = story(&play).await?;
        Ok(ended.replace(&namespace, "{ns}"))
    };
    let result: Result<String> = result.await;
    cluster.end().await.context("the cluster does not end well")?;
    result
}
