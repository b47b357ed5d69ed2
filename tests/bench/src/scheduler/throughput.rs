//! Pods a second, and what they cost.
//!
//! All pods are there before a row begins, and nobody schedules them. Then the row's process is
//! started. The clock runs from the first bind that the observer sees, so that what a process
//! needs to start and to read the cluster is not in a rate (it has its own bar, and its own
//! column here), to the last bind, and on until the store counts an event for every pod. CPU is
//! that of the whole process, reading included, up to that moment.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Arguments;
use super::cluster::Cluster;
use super::contender::{Contender, Entrant, Programs, REQUESTS_PER_SECOND_MAX, Row};
use super::samples::{Comparison, Named, Samples};
use super::sights::{Seen, Sights};
use super::workload::{Size, Workload, pod};
use crate::report::{self, Bar};
use crate::subjects::IN_FLIGHT;

/// The server rests so long after the pods were created.
pub const REST: Duration = Duration::from_secs(2);
/// Without an event for so long, a row has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often events are counted once all pods are bound.
const COUNT_EVERY: Duration = Duration::from_millis(20);

/// What one row of one round came to.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Seconds from the start of the process to the first bind.
    pub first_bind: f64,
    /// Pods a second to the last bind.
    pub to_last_bind: f64,
    /// Seconds from the first bind to the last.
    pub binds: f64,
    /// Pods a second to the last event.
    pub to_last_event: f64,
    /// Milliseconds of CPU a pod.
    pub cpu: f64,
    /// The most megabytes that were resident.
    pub peak: f64,
}

impl Sample {
    /// What a row has come to that has bound its pods, and told of them by then where it tells of any.
    ///
    /// # Errors
    /// When its process has ended.
    pub fn of(contender: &Contender, bound: &Seen, told: Option<Instant>) -> Result<Self> {
        let cost = contender.cost()?;
        let pods = bound.pods.len() as f64;
        let binds = (bound.last - bound.first).as_secs_f64();
        let tellings = told.map_or(f64::NAN, |told| (told - bound.first).as_secs_f64());
        Ok(Self {
            first_bind: (bound.first - contender.started).as_secs_f64(),
            to_last_bind: pods / binds,
            binds,
            to_last_event: pods / tellings,
            cpu: cost.cpu.as_secs_f64() * 1000.0 / pods,
            peak: cost.memory_bytes_peak as f64 / 1e6,
        })
    }
}

/// Runs all sizes and loads and says whether every bar is met.
///
/// # Errors
/// When a program does not start, a request fails, or pods stay unbound.
pub async fn run(programs: &Programs, arguments: &Arguments) -> Result<bool> {
    let cluster = Cluster::start(programs, &[]).await?;
    println!(
        "\nOffered load: all pods are there before a row begins. Client limits: a writer keeps \
         {IN_FLIGHT} requests under way over HTTP/1.1, Bindings and Events together; Gantry keeps up to \
         64 of each; both schedulers may send {REQUESTS_PER_SECOND_MAX} requests a second."
    );
    let mut met = true;
    for size in &arguments.sizes {
        cluster.resize(size.nodes).await?;
        for workload in &arguments.workloads {
            let mut samples = Samples::new();
            for round in 0..arguments.rounds {
                for row in arguments.rows(round) {
                    cluster.create_pods(size.pods, |index| pod(*workload, index)).await?;
                    tokio::time::sleep(REST).await;
                    let entrant = row.into();
                    let sample = measure(&cluster, programs, entrant, *size, *workload).await?;
                    cluster.clean().await?;
                    let name = row.name();
                    eprintln!("{size}, {workload}, round {}: {name}: {sample:.2?}", round + 1);
                    samples.add(row, sample);
                }
            }
            println!("\n{size}, {workload}, median of {} rounds\n", arguments.rounds);
            print(&samples);
            met &= samples.judge(Row::Gantry, &bars(*workload));
        }
    }
    Ok(met)
}

/// Lets a row bind all pods of a load, which are there. They stay.
///
/// # Errors
/// When a program does not start, a request fails, or pods stay unbound.
pub async fn measure(
    cluster: &Cluster,
    programs: &Programs,
    entrant: Entrant,
    size: Size,
    workload: Workload,
) -> Result<Sample> {
    let mut waiting = Sights::of_waiting(&cluster.client).await?;
    let mut contender = Contender::start(entrant, programs, cluster.kubeconfig())?;
    let bound = contender.until(waiting.leave(size.pods)).await?;
    let told = match entrant.row.writes_events() {
        true => Some(all_told(cluster, &mut contender, size.pods).await?),
        false => None,
    };
    let sample = Sample::of(&contender, &bound, told)?;
    drop(contender);
    cluster.verify(size.pods, entrant.row.writes_events()).await?;
    if workload == Workload::Own {
        cluster.verify_cpus().await?;
    }
    Ok(sample)
}

/// Waits until there is an event for every pod, and says when that was.
///
/// # Errors
/// When a request fails, or events stay away.
pub async fn all_told(
    cluster: &Cluster,
    contender: &mut Contender,
    pods: usize,
) -> Result<Instant> {
    let (mut count, mut quiet_since) = (0, Instant::now());
    loop {
        let now_there = cluster.event_count().await?;
        let now = Instant::now();
        if now_there >= pods {
            return Ok(now);
        }
        if now_there > count {
            (count, quiet_since) = (now_there, now);
        }
        contender.check()?;
        let quiet = quiet_since.elapsed();
        ensure!(quiet < PATIENCE, "{count} of {pods} pods have an event, and no more come");
        tokio::time::sleep(COUNT_EVERY).await;
    }
}

/// Prints what the rounds came to.
pub fn print<R: Named>(samples: &Samples<R, Sample>) {
    report::head(&[
        "row",
        "pods/s to the last bind",
        "pods/s to the last event",
        "CPU ms/pod",
        "peak MB",
        "first bind after s",
        "first to last bind s",
    ]);
    for row in samples.rows() {
        report::row(&[
            row.name().to_owned(),
            format!("{:.0}", samples.median(row, |sample| sample.to_last_bind)),
            match samples.median(row, |sample| sample.to_last_event) {
                none if none.is_nan() => "none".to_owned(),
                rate => format!("{rate:.0}"),
            },
            format!("{:.2}", samples.median(row, |sample| sample.cpu)),
            format!("{:.0}", samples.median(row, |sample| sample.peak)),
            format!("{:.2}", samples.median(row, |sample| sample.first_bind)),
            format!("{:.2}", samples.median(row, |sample| sample.binds)),
        ]);
    }
}

fn bars(workload: Workload) -> [Comparison<Row, Sample>; 6] {
    let (share, limit_cpu, their_cpu) = match workload {
        Workload::Plain | Workload::Own => (90.0, 1.5, 5.0),
        Workload::Mixed => (85.0, 1.8, 8.0),
    };
    [
        Comparison {
            what: "throughput to the last event",
            than: Row::BindEvent,
            of: |sample| sample.to_last_event,
            bar: Bar::PercentAtLeast(share),
        },
        Comparison {
            what: "throughput to the last bind",
            than: Row::Bind,
            of: |sample| sample.to_last_bind,
            bar: Bar::PercentAtLeast(80.0),
        },
        Comparison {
            what: "CPU per pod",
            than: Row::BindEvent,
            of: |sample| sample.cpu,
            bar: Bar::TimesAtMost(limit_cpu),
        },
        Comparison {
            what: "CPU per pod",
            than: Row::BindEventGathering,
            of: |sample| sample.cpu,
            bar: Bar::ToldTimes,
        },
        Comparison {
            what: "CPU per pod",
            than: Row::KubeScheduler,
            of: |sample| sample.cpu,
            bar: Bar::OneToAtMost(their_cpu),
        },
        Comparison {
            what: "peak memory",
            than: Row::KubeScheduler,
            of: |sample| sample.peak,
            bar: Bar::OneToAtMost(2.0),
        },
    ]
}
