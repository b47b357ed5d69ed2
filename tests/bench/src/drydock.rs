//! drydock against kube-apiserver with etcd: the same client, interleaved rounds, medians.

use std::path::Path;

use anyhow::Result;
use chassis::client::Client;

use crate::load;
use crate::processes::cost_of;
use crate::report::{self, Bar, median};
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
const MIB: f64 = 1024.0 * 1024.0;
/// Lists per round.
const LISTS: usize = 5;

#[derive(Default)]
struct Figures {
    binds: Vec<f64>,
    lists: Vec<f64>,
    events: Vec<f64>,
    replayed: Vec<f64>,
    memory_mib: Vec<f64>,
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
    Ok(print(arguments, &our_figures, &their_figures))
}

async fn round(
    client: &Client,
    arguments: &Arguments,
    programs: &[&str],
    figures: &mut Figures,
) -> Result<()> {
    let node = |index: usize| load::node_name(index % NODES);
    figures.binds.push(load::create_and_bind(client, "pod", arguments.pods, node).await?);
    for _ in 0..LISTS {
        figures.lists.push(load::list(client, arguments.pods).await?);
    }
    let events = load::fan_out(client, arguments.watchers, arguments.writes).await?;
    figures.events.push(events.live);
    figures.replayed.push(events.replayed);
    figures.memory_mib.push(cost_of(programs)?.memory_bytes as f64 / MIB);
    load::clean(client).await
}

fn print(arguments: &Arguments, ours: &Figures, theirs: &Figures) -> bool {
    let (pods, watchers) = (arguments.pods, arguments.watchers);
    report::head(&["what", "drydock", "kube-apiserver + etcd", "ratio", "bar"]);
    let created = format!("pods created and bound per second ({pods})");
    let lists = format!("lists of {pods} pods per second");
    let live = format!("events per second to {watchers} watchers, as they are written");
    let replayed = format!("events per second to {watchers} watchers, read again");
    let rows = [
        row(&created, &ours.binds, &theirs.binds, Bar::TimesAtLeast(4.0)),
        row(&lists, &ours.lists, &theirs.lists, Bar::TimesAtLeast(2.0)),
        row(&live, &ours.events, &theirs.events, Bar::TimesAtLeast(2.0)),
        row(&replayed, &ours.replayed, &theirs.replayed, Bar::TimesAtLeast(2.0)),
        row(
            "resident MiB under that load",
            &ours.memory_mib,
            &theirs.memory_mib,
            Bar::OneToAtMost(5.0),
        ),
    ];
    rows.into_iter().all(|met| met)
}

fn row(what: &str, ours: &[f64], theirs: &[f64], bar: Bar) -> bool {
    let (ours, theirs) = (median(ours), median(theirs));
    let ratio = ours / theirs;
    let (ours, theirs) = (format!("{ours:.1}"), format!("{theirs:.1}"));
    report::row(&[what, &ours, &theirs, &bar.shows(ratio), &bar.to_string()]);
    bar.is_met(ratio)
}
