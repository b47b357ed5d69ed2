//! How soon a fresh scheduler binds in a full cluster.
//!
//! The clock runs from the start of the process until the observer sees that the one pod without
//! a node has one. It is held against a client that reads the same lists, with the same pages and
//! side by side as well, and throws them away. Which lists those are is not written here: the
//! server counts what Gantry reads, and that both have read the same is checked.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Arguments;
use super::cluster::Cluster;
use super::contender::{Contender, Programs, Row};
use super::fetch::DONE;
use super::pending::{Pending, Sight};
use crate::report::{self, Bar, median};

/// The server rests so long after the pods were created.
const REST: Duration = Duration::from_secs(5);
/// How long the first bind may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is looked whether the process still runs.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked whether the lists are read.
const POLL_EVERY: Duration = Duration::from_millis(5);
/// How tables call the client that throws the lists away.
const REFERENCE: &str = "the same lists, thrown away";

/// How many answers a list took, by its path.
pub type Lists = BTreeMap<String, u64>;

/// Runs the rows and says whether the bar is met.
///
/// # Errors
/// When a program does not start, a request fails, or the pod stays unbound.
pub async fn run(programs: &Programs, arguments: &Arguments) -> Result<bool> {
    // Without Gantry, the writer's lists are read again.
    let subject = [Row::Gantry, Row::BindEvent, Row::Bind].into_iter();
    let subject = subject.into_iter().find(|row| arguments.has(*row));
    let cluster = Cluster::start(programs).await?;
    let size = arguments.bound;
    cluster.resize(size.nodes).await?;
    cluster.create_bound_pods(size.pods, size.nodes).await?;
    tokio::time::sleep(REST).await;
    let mut seconds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 1..=arguments.rounds {
        let mut note = |name: &'static str, figure: f64| {
            eprintln!("first bind, round {round}: {name}: {figure:.2} s");
            seconds.entry(name).or_default().push(figure);
        };
        if let Some(row) = subject {
            let before = cluster.lists_answered().await?;
            let figure = first_bind(&cluster, programs, row).await?;
            let lists = since(&before, &cluster.lists_answered().await?);
            note(row.name(), figure);
            note(REFERENCE, read_lists(&cluster, programs, &lists).await?);
        }
        if arguments.has(Row::KubeScheduler) {
            let row = Row::KubeScheduler;
            note(row.name(), first_bind(&cluster, programs, row).await?);
        }
    }
    let rounds = arguments.rounds;
    println!(
        "\nFirst bind after start, {} nodes and {} bound pods, median of {rounds} rounds\n",
        size.nodes, size.pods
    );
    report::head(&["row", "seconds"]);
    for (name, figures) in &seconds {
        report::row(&[*name, &format!("{:.2}", median(figures))]);
    }
    let Some(ours) = seconds.get(Row::Gantry.name()) else { return Ok(true) };
    println!();
    report::head(&["Gantry", "measured", "bar", ""]);
    let ratio = median(ours) / median(&seconds[REFERENCE]);
    Ok(report::judged("first bind, to the same lists thrown away", ratio, Bar::TimesAtMost(1.5)))
}

/// Seconds from the start of a process to its first bind.
async fn first_bind(cluster: &Cluster, programs: &Programs, row: Row) -> Result<f64> {
    let name = "late";
    cluster.create_pod(crate::load::pod(name)).await?;
    let mut pending = Pending::open(&cluster.client).await?;
    let mut contender = Contender::start(row, programs, cluster.kubeconfig())?;
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let bound = loop {
        tokio::select! {
            sight = pending.next() => if let Sight::Left(_) = sight? {
                break contender.started.elapsed();
            },
            _ = looks.tick() => {
                contender.check()?;
                ensure!(contender.started.elapsed() < PATIENCE, "the pod is not bound");
            }
        }
    };
    drop(contender);
    cluster.delete_pod(name, Some(0)).await?;
    Ok(bound.as_secs_f64())
}

/// Seconds from the start of the client that throws away what it reads until it has read all.
async fn read_lists(cluster: &Cluster, programs: &Programs, lists: &Lists) -> Result<f64> {
    let paths: Vec<String> = lists.keys().cloned().collect();
    let before = cluster.lists_answered().await?;
    let mut fetch = Contender::fetch(programs, cluster.kubeconfig(), &paths)?;
    let ended = loop {
        // It ends by itself when it is done, which the check takes for an error.
        let running = fetch.check();
        let now = Instant::now();
        if fetch.words()?.contains(DONE) {
            break now;
        }
        running.context("the lists could not be read")?;
        ensure!(fetch.started.elapsed() < PATIENCE, "the lists are not read");
        tokio::time::sleep(POLL_EVERY).await;
    };
    let read = since(&before, &cluster.lists_answered().await?);
    ensure!(
        read == *lists,
        "not the same was read: {lists:?} by the row, {read:?} by the client that throws away"
    );
    Ok((ended - fetch.started).as_secs_f64())
}

fn since(before: &Lists, after: &Lists) -> Lists {
    let count = |path: &String| before.get(path).copied().unwrap_or_default();
    let grown = after.iter().map(|(path, answers)| (path.clone(), answers - count(path)));
    grown.filter(|(_, answers)| *answers > 0).collect()
}

/// The lists that kube-apiserver's metrics tell of, those of whole resources only: nothing else
/// here reads all namespaces.
pub fn lists_in(metrics: &str) -> Lists {
    let mut lists = Lists::new();
    for line in metrics.lines() {
        let Some(line) = line.strip_prefix("apiserver_request_total{") else { continue };
        let Some((labels, value)) = line.rsplit_once("} ") else { continue };
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\""))?;
            rest.split_once('"').map(|(value, _)| value)
        };
        if label("verb") != Some("LIST") || label("scope") != Some("cluster") {
            continue;
        }
        let parts = (label("group"), label("version"), label("resource"));
        let (Some(group), Some(version), Some(resource)) = parts else { continue };
        let prefix = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        let answers = value.parse::<f64>().unwrap_or_default() as u64;
        *lists.entry(format!("{prefix}/{version}/{resource}")).or_default() += answers;
    }
    lists
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 101
apiserver_request_total{code="410",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 7
apiserver_request_total{code="0",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 3
apiserver_request_total{code="200",component="apiserver",dry_run="",group="storage.k8s.io",resource="csinodes",scope="cluster",subresource="",verb="LIST",version="v1"} 1e+01
"#;

    #[test]
    fn lists_of_whole_resources_are_counted_by_path() {
        let lists = lists_in(METRICS);
        let expected = [("/api/v1/pods", 102), ("/apis/storage.k8s.io/v1/csinodes", 10)];
        let expected: Lists =
            expected.into_iter().map(|(path, count)| (path.to_owned(), count)).collect();
        assert_eq!(lists, expected);
        let before = Lists::from([("/api/v1/pods".to_owned(), 102)]);
        let grown = Lists::from([("/apis/storage.k8s.io/v1/csinodes".to_owned(), 10)]);
        assert_eq!(since(&before, &lists), grown);
    }
}
