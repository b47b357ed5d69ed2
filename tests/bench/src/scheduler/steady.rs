//! How soon a pod is bound while pods come and go.
//!
//! Hollow nodes run what is bound to them. First the limit is found: pods are created as fast as
//! the server takes them while the bind + event writer binds and the nodes report, and pods a
//! second until the last one has a node and an event, and runs, are the limit of this whole. Then,
//! for each scheduler, pods arrive evenly at a share of that limit, and a tenth of them is deleted
//! a moment after it was bound. One watch sees a pod appear and get its node; the time between the
//! two counts, so that how long the observer's watch takes is not in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::Arguments;
use super::cluster::Cluster;
use super::contender::{Contender, Programs, Row};
use super::samples::{Comparison, Named as _, Samples};
use super::sights::{Sight, Sights};
use super::throughput::all_told;
use super::workload::{Workload, pod, unbound};
use crate::report::{self, Bar, median, percentile};
use crate::subjects::{Cores, HollowNodes, IN_FLIGHT};

/// What the hollow nodes are: the same as those of the other parts.
const NODES: &str = "32cpu,256Gi,110pods,zone=zone-0+zone-1+zone-2";
/// The share of the limit at which pods arrive.
const SHARE: f64 = 0.6;
/// Of so many pods one is deleted,
const DELETED_OF: usize = 10;
/// so long after it was bound.
const DELETED_AFTER: Duration = Duration::from_secs(1);
/// Pods that a scheduler binds before the clock runs, to have read the cluster.
const WARM_UP_PODS: usize = 20;
/// How long the last pod may take to be bound.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether the process still runs.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked whether the nodes run their pods.
const COUNT_EVERY: Duration = Duration::from_millis(50);

/// What one scheduler of one round came to.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Milliseconds from creation to bound: the middle, and all but one of a hundred.
    median: f64,
    p99: f64,
    /// Pods a second that really arrived.
    arrived: f64,
    /// Milliseconds of CPU a pod.
    cpu: f64,
    /// The most megabytes that were resident.
    peak: f64,
}

/// Runs the schedulers and says whether the bar is met.
///
/// # Errors
/// When a program does not start, a request fails, or pods stay unbound.
pub async fn run(programs: &Programs, arguments: &Arguments) -> Result<bool> {
    let cluster = Arc::new(Cluster::start(programs, &[]).await?);
    let nodes = arguments.hollow_nodes;
    let kubeconfig = cluster.kubeconfig();
    let _hollow = HollowNodes::start(&programs.gantry, kubeconfig, nodes, NODES, Cores::All)?;
    let limit = limit(&cluster, programs, arguments.limit_pods).await?;
    let rate = limit * SHARE;
    eprintln!("steady load: the limit is {limit:.0} pods/s, pods arrive at {rate:.0}/s");
    let mut samples = Samples::new();
    for round in 0..arguments.rounds {
        for row in arguments.rows(round) {
            // What a writer comes to that does not think is what the server takes.
            if matches!(row, Row::KubeScheduler | Row::Gantry | Row::BindEvent) {
                let sample = measure(&cluster, programs, row, rate, arguments.seconds).await?;
                eprintln!("steady load, round {}: {}: {sample:.2?}", round + 1, row.name());
                samples.add(row, sample);
            }
        }
    }
    let title = format!(
        "\nSteady load: {rate:.0} pods/s, which is {:.0} % of the limit, for {} s on {nodes} \
         hollow nodes, one of {DELETED_OF} deleted; median of {} rounds\n",
        SHARE * 100.0,
        arguments.seconds,
        arguments.rounds
    );
    println!("{title}");
    print(&samples);
    let (what, of): (_, fn(&Sample) -> f64) = ("p99 from creation to bound", |own| own.p99);
    Ok(samples.judge(
        Row::Gantry,
        &[
            Comparison { what, than: Row::KubeScheduler, of, bar: Bar::OneToAtMost(5.0) },
            Comparison { what, than: Row::BindEvent, of, bar: Bar::ToldTimes },
        ],
    ))
}

/// The most pods a second that server, nodes and a writer that does not think do together.
async fn limit(cluster: &Arc<Cluster>, programs: &Programs, pods: usize) -> Result<f64> {
    let mut pending = Sights::of_waiting(&cluster.client).await?;
    let mut contender = Contender::start(Row::BindEvent.into(), programs, cluster.kubeconfig())?;
    warm_up(cluster, &mut pending, &mut contender).await?;
    all_told(cluster, &mut contender, WARM_UP_PODS).await?;
    let began = Instant::now();
    let mut arrivals = Arrivals::start(cluster, f64::INFINITY, pods);
    let mut load = Load::new(Arc::clone(cluster), pods);
    load.follow(&mut pending, &mut contender, &mut arrivals).await?;
    all_told(cluster, &mut contender, WARM_UP_PODS + pods).await?;
    // Those who run pods lag behind. What they still have to write is part of the load.
    while cluster.has_pending().await? {
        contender.check()?;
        ensure!(began.elapsed() < PATIENCE * 2, "the nodes do not run their pods");
        tokio::time::sleep(COUNT_EVERY).await;
    }
    let limit = pods as f64 / began.elapsed().as_secs_f64();
    load.finish().await?;
    drop(contender);
    cluster.clean().await?;
    Ok(limit)
}

async fn measure(
    cluster: &Arc<Cluster>,
    programs: &Programs,
    row: Row,
    rate: f64,
    seconds: u64,
) -> Result<Sample> {
    let pods = (rate * seconds as f64) as usize;
    ensure!(pods > 1, "{rate:.1} pods/s for {seconds} s are no load; let them arrive for longer");
    let mut pending = Sights::of_waiting(&cluster.client).await?;
    let mut contender = Contender::start(row.into(), programs, cluster.kubeconfig())?;
    warm_up(cluster, &mut pending, &mut contender).await?;
    let before = contender.cost()?;
    let mut arrivals = Arrivals::start(cluster, rate, pods);
    let mut load = Load::new(Arc::clone(cluster), pods);
    load.follow(&mut pending, &mut contender, &mut arrivals).await?;
    let cost = contender.cost()?;
    let waits: Vec<f64> = load.waits.iter().map(|wait| wait.as_secs_f64() * 1000.0).collect();
    let arrived = load.rate();
    load.finish().await?;
    drop(contender);
    cluster.clean().await?;
    Ok(Sample {
        median: median(&waits),
        p99: percentile(&waits, 99),
        arrived,
        cpu: (cost.cpu - before.cpu).as_secs_f64() * 1000.0 / pods as f64,
        peak: cost.memory_bytes_peak as f64 / 1e6,
    })
}

/// Lets a contender bind a few pods, after which it has read the cluster.
async fn warm_up(
    cluster: &Arc<Cluster>,
    pending: &mut Sights,
    contender: &mut Contender,
) -> Result<()> {
    let names: Vec<String> = (0..WARM_UP_PODS).map(|index| format!("early-{index}")).collect();
    for name in &names {
        cluster.create_pod(unbound(name)).await?;
    }
    contender.until(pending.leave(names.len())).await.map(|_| ())
}

/// Pods that are being created, evenly or as fast as the server takes them.
struct Arrivals {
    failures: mpsc::Receiver<anyhow::Error>,
}

impl Arrivals {
    fn start(cluster: &Arc<Cluster>, rate: f64, pods: usize) -> Self {
        let cluster = Arc::clone(cluster);
        let (failed, failures) = mpsc::channel(1);
        tokio::spawn(async move {
            let began = tokio::time::Instant::now();
            let room = Arc::new(Semaphore::new(IN_FLIGHT));
            for index in 0..pods {
                tokio::time::sleep_until(began + Duration::from_secs_f64(index as f64 / rate))
                    .await;
                let (cluster, failed) = (Arc::clone(&cluster), failed.clone());
                let Ok(turn) = Arc::clone(&room).acquire_owned().await else { return };
                tokio::spawn(async move {
                    if let Err(error) = cluster.create_pod(pod(Workload::Mixed, index)).await {
                        // Who follows the load ends with the first failure; a second is not news.
                        let _ = failed.try_send(error);
                    }
                    drop(turn);
                });
            }
        });
        Self { failures }
    }

    /// The first failure; never ends where there is none.
    async fn failure(&mut self) -> anyhow::Error {
        match self.failures.recv().await {
            Some(error) => error.context("cannot create a pod"),
            None => std::future::pending().await,
        }
    }
}

/// A load as it is seen.
struct Load {
    cluster: Arc<Cluster>,
    pods: usize,
    /// When pods appeared that have no node yet.
    waiting: BTreeMap<String, Instant>,
    /// How long the others waited.
    waits: Vec<Duration>,
    first: Option<Instant>,
    last: Option<Instant>,
    deletions: JoinSet<Result<()>>,
}

impl Load {
    fn new(cluster: Arc<Cluster>, pods: usize) -> Self {
        Self {
            cluster,
            pods,
            waiting: BTreeMap::new(),
            waits: Vec::with_capacity(pods),
            first: None,
            last: None,
            deletions: JoinSet::new(),
        }
    }

    /// Watches until every pod is bound, and deletes some of them.
    async fn follow(
        &mut self,
        pending: &mut Sights,
        contender: &mut Contender,
        arrivals: &mut Arrivals,
    ) -> Result<()> {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        let mut quiet_since = Instant::now();
        while self.waits.len() < self.pods {
            tokio::select! {
                sight = pending.next() => {
                    quiet_since = Instant::now();
                    self.see(sight?, quiet_since)?;
                }
                error = arrivals.failure() => return Err(error),
                _ = looks.tick() => {
                    contender.check()?;
                    let (bound, pods) = (self.waits.len(), self.pods);
                    let quiet = quiet_since.elapsed();
                    ensure!(quiet < PATIENCE, "{bound} of {pods} pods are bound, and no more come");
                }
            }
        }
        Ok(())
    }

    fn see(&mut self, sight: Sight, now: Instant) -> Result<()> {
        match sight {
            Sight::Here(name) => {
                self.first.get_or_insert(now);
                self.last = Some(now);
                // A pod that is told to be unschedulable is seen again; it came the first time.
                self.waiting.entry(name).or_insert(now);
            }
            Sight::Gone(name) => {
                let since = self.waiting.remove(&name);
                let since = since.with_context(|| format!("pod {name} was bound unseen"))?;
                self.waits.push(now - since);
                let index = self.waits.len();
                if index.is_multiple_of(DELETED_OF) {
                    let cluster = Arc::clone(&self.cluster);
                    self.deletions.spawn(async move {
                        tokio::time::sleep(DELETED_AFTER).await;
                        cluster.delete_pod(&name, None).await
                    });
                }
            }
        }
        Ok(())
    }

    /// Pods a second, from the first that appeared to the last.
    fn rate(&self) -> f64 {
        let span = self.last.zip(self.first).map(|(last, first)| last - first);
        self.pods as f64 / span.unwrap_or_default().as_secs_f64()
    }

    /// Waits for the deletions, and makes sure that all pods were bound.
    async fn finish(mut self) -> Result<()> {
        while let Some(deleted) = self.deletions.join_next().await {
            deleted??;
        }
        self.cluster.verify(self.pods, false).await
    }
}

fn print(samples: &Samples<Row, Sample>) {
    report::head(&[
        "row",
        "ms from creation to bound, median",
        "p99",
        "pods/s that arrived",
        "CPU ms/pod",
        "peak MB",
    ]);
    for row in samples.rows() {
        report::row(&[
            row.name().to_owned(),
            format!("{:.1}", samples.median(row, |sample| sample.median)),
            format!("{:.1}", samples.median(row, |sample| sample.p99)),
            format!("{:.0}", samples.median(row, |sample| sample.arrived)),
            format!("{:.2}", samples.median(row, |sample| sample.cpu)),
            format!("{:.0}", samples.median(row, |sample| sample.peak)),
        ]);
    }
}
