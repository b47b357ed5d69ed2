//! How soon a fresh scheduler binds in a full cluster.
//!
//! The clock runs from the start of the process until the observer sees that the one pod without
//! a node has one. It is held against a client that reads the same lists, with the same pages and
//! side by side as well, and throws them away. Which lists those are is not written here: the
//! server's audit log tells what Gantry asks for, and that both have read the same is checked.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Arguments;
use super::audit::{Audit, Lists};
use super::cluster::Cluster;
use super::contender::{Contender, Programs, Row};
use super::fetch::DONE;
use super::samples::Named as _;
use super::sights::Sights;
use super::workload::unbound;
use crate::report::{self, Bar, median};

/// The server rests so long before each row.
const REST: Duration = Duration::from_secs(5);
/// How long reading may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is looked whether the lists are read.
const POLL_EVERY: Duration = Duration::from_millis(5);
/// How long after an answer the audit log tells of it, at most.
const AUDIT_WITHIN: Duration = Duration::from_millis(500);
/// The pod that is to be bound.
const LATE: &str = "late";
/// How tables call the client that throws the lists away.
const REFERENCE: &str = "the same lists, thrown away";

/// Runs the rows and says whether the bar is met.
///
/// # Errors
/// When a program does not start, a request fails, or the pod stays unbound.
pub async fn run(programs: &Programs, arguments: &Arguments) -> Result<bool> {
    // Without Gantry, the writer's lists are read again.
    let subject = [Row::Gantry, Row::BindEvent, Row::Bind].into_iter();
    let subject = subject.into_iter().find(|row| arguments.has(*row));
    let audit = Audit::prepare()?;
    let cluster = Cluster::start(programs, &audit.flags()).await?;
    let size = arguments.bound;
    cluster.resize(size.nodes).await?;
    cluster.create_bound_pods(size.pods, size.nodes).await?;
    // Which lists the row reads, it shows in a first run that does not count.
    let lists = match subject {
        Some(row) => first_bind(&cluster, programs, &audit, row).await?.1,
        None => Lists::default(),
    };
    let mut seconds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 1..=arguments.rounds {
        let mut note = |name: &'static str, figure: f64| {
            eprintln!("first bind, round {round}: {name}: {figure:.2} s");
            seconds.entry(name).or_default().push(figure);
        };
        let mut turns: Vec<Option<Row>> = subject.map_or(Vec::new(), |row| vec![Some(row), None]);
        turns.extend(arguments.has(Row::KubeScheduler).then_some(Some(Row::KubeScheduler)));
        // No row always follows the same one.
        if round % 2 == 0 {
            turns.reverse();
        }
        for turn in turns {
            match turn {
                Some(row) => {
                    let (figure, listed) = first_bind(&cluster, programs, &audit, row).await?;
                    let is_the_same = Some(row) != subject || listed == lists;
                    ensure!(is_the_same, "other lists than at first: {lists:?}, then {listed:?}");
                    note(row.name(), figure);
                }
                None => note(REFERENCE, read_lists(&cluster, programs, &audit, &lists).await?),
            }
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

/// Seconds from the start of a process to its first bind, and what it has listed.
async fn first_bind(
    cluster: &Cluster,
    programs: &Programs,
    audit: &Audit,
    row: Row,
) -> Result<(f64, Lists)> {
    // That of the row before has a node by now; the lists are to be as long for every row.
    cluster.delete_pod(LATE, Some(0)).await?;
    cluster.create_pod(unbound(LATE)).await?;
    let mut waiting = Sights::of_waiting(&cluster.client).await?;
    tokio::time::sleep(REST).await;
    let mark = audit.mark()?;
    let mut contender = Contender::start(row.into(), programs, cluster.kubeconfig())?;
    let bound = contender.until(waiting.leave(1)).await?.last - contender.started;
    drop(contender);
    tokio::time::sleep(AUDIT_WITHIN).await;
    Ok((bound.as_secs_f64(), audit.since(mark)?))
}

/// Seconds from the start of the client that throws away what it reads until it has read all.
async fn read_lists(
    cluster: &Cluster,
    programs: &Programs,
    audit: &Audit,
    lists: &Lists,
) -> Result<f64> {
    let asked: Vec<String> = lists.keys().cloned().collect();
    let of = |resource: &str| asked.iter().any(|list| list.starts_with(resource));
    ensure!(of("/api/v1/pods") && of("/api/v1/nodes"), "pods and nodes are not listed: {asked:?}");
    tokio::time::sleep(REST).await;
    let mark = audit.mark()?;
    let mut fetch = Contender::fetch(programs, cluster.kubeconfig(), &asked)?;
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
    tokio::time::sleep(AUDIT_WITHIN).await;
    let read = audit.since(mark)?;
    ensure!(
        read == *lists,
        "not the same was read: {lists:?} by the row, {read:?} by the client that throws away"
    );
    Ok((ended - fetch.started).as_secs_f64())
}
