//! drydock against kube-apiserver with etcd: the same client, interleaved rounds, medians.

use std::path::Path;

use anyhow::Result;
use chassis::client::Client;

use crate::load;
use crate::processes::cost_of;
use crate::subjects::{Gantry, Truth, client};

/// Sizes of the load.
#[derive(clap::Args)]
pub struct Arguments {
    /// Pods created and bound per round, and then listed.
    #[arg(long, default_value_t = 10_000)]
    pods: usize,
    /// Watchers of the fan-out.
    #[arg(long, default_value_t = 100)]
    watchers: usize,
    /// Writes that every watcher sees.
    #[arg(long, default_value_t = 1_000)]
    writes: usize,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// Nodes that pods are bound to.
const NODES: usize = 100;
/// Lists per round.
const LISTS: usize = 5;

#[derive(Default)]
struct Figures {
    binds: Vec<f64>,
    lists: Vec<f64>,
    events: Vec<f64>,
    replayed: Vec<f64>,
    memory_bytes: Vec<f64>,
}

/// Runs the comparison and says whether every bar is met.
///
/// # Errors
/// When a program does not start or a request fails.
pub async fn run(gantry: &Path, arguments: &Arguments) -> Result<bool> {
    let truth = Truth::start(gantry)?;
    let up =
        Gantry::start(gantry, &["--nodes", "0", "--controllers", "none", "--scheduler", "none"])?;
    let theirs = client(truth.kubeconfig()).await?;
    let ours = client(&up.kubeconfig).await?;
    let (mut our_figures, mut their_figures) = (Figures::default(), Figures::default());
    load::prepare(&ours, NODES).await?;
    load::prepare(&theirs, NODES).await?;
    for number in 1..=arguments.rounds {
        eprintln!("round {number} of {}: drydock", arguments.rounds);
        round(&ours, arguments, &["gantry"], &mut our_figures).await?;
        eprintln!("round {number} of {}: kube-apiserver and etcd", arguments.rounds);
        round(&theirs, arguments, &["kube-apiserver", "etcd"], &mut their_figures).await?;
    }
    Ok(report(arguments, &our_figures, &their_figures))
}

async fn round(
    client: &Client,
    arguments: &Arguments,
    programs: &[&str],
    figures: &mut Figures,
) -> Result<()> {
    let node = |index: usize| format!("bench-{}", index % NODES);
    figures.binds.push(load::create_and_bind(client, "pod", arguments.pods, node).await?);
    for _ in 0..LISTS {
        figures.lists.push(load::list(client, arguments.pods).await?);
    }
    let events = load::fan_out(client, arguments.watchers, arguments.writes).await?;
    figures.events.push(events.live);
    figures.replayed.push(events.replayed);
    figures.memory_bytes.push(cost_of(programs)?.memory_bytes as f64);
    load::clean(client).await
}

fn report(arguments: &Arguments, ours: &Figures, theirs: &Figures) -> bool {
    let (pods, watchers) = (arguments.pods, arguments.watchers);
    println!("| what | drydock | kube-apiserver + etcd | ratio | bar |");
    println!("|---|---|---|---|---|");
    let rows = [
        row(
            &format!("pods created and bound per second ({pods})"),
            &ours.binds,
            &theirs.binds,
            4.0,
        ),
        row(&format!("lists of {pods} pods per second"), &ours.lists, &theirs.lists, 2.0),
        row(
            &format!("events per second to {watchers} watchers, as they are written"),
            &ours.events,
            &theirs.events,
            2.0,
        ),
        row(
            &format!("events per second to {watchers} watchers, read again"),
            &ours.replayed,
            &theirs.replayed,
            2.0,
        ),
        memory_row(&ours.memory_bytes, &theirs.memory_bytes),
    ];
    rows.into_iter().all(|met| met)
}

fn row(what: &str, ours: &[f64], theirs: &[f64], bar: f64) -> bool {
    let (ours, theirs) = (median(ours), median(theirs));
    let ratio = ours / theirs;
    println!("| {what} | {ours:.1} | {theirs:.1} | {ratio:.1}x | at least {bar:.0}x |");
    ratio >= bar
}

fn memory_row(ours: &[f64], theirs: &[f64]) -> bool {
    let mib = 1024.0 * 1024.0;
    let (ours, theirs) = (median(ours) / mib, median(theirs) / mib);
    let ratio = theirs / ours;
    println!(
        "| resident MiB under that load | {ours:.0} | {theirs:.0} | 1/{ratio:.1} | at most 1/5 |"
    );
    ratio >= 5.0
}

/// The middle value.
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
