//! A scheduler whose process is killed again and again while pods arrive.
//!
//! The process is this test program once more: what it runs is the scheduler as `gantry scheduler`
//! runs it, and nothing of it is asked before it is killed.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use chassis::random::Random;
use futures::StreamExt as _;
use futures::stream;
use scenarios::backend::{BACKENDS, Backend, Scope};
use scenarios::running::Running;
use tokio::sync::Semaphore;

use crate::yard::{Yard, alone};

/// Set in the process that is killed: the kubeconfig of its server.
const KUBECONFIG: &str = "GANTRY_TEST_KILLED_KUBECONFIG";
const NODES: u32 = 20;
/// How many pods are made at once.
const CREATIONS: usize = 16;
/// How long the pods that are left may take once nobody is killed any longer.
const REST: Duration = Duration::from_secs(120);

/// What runs in the process that is killed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of the other tests, which start it"]
async fn a_scheduler_to_be_killed() {
    let kubeconfig = std::env::var_os(KUBECONFIG).expect("the others say where the server is");
    let _running = Running::start(alone(), kubeconfig.as_ref()).await.unwrap();
    // It ends with whoever started it, even where that one is killed itself.
    let read = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    tokio::task::spawn_blocking(read).await.unwrap().unwrap();
}

/// A process that schedules.
struct Process(Child);

impl Process {
    fn start(yard: &Yard) -> Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .args(["--exact", "killed::a_scheduler_to_be_killed", "--ignored", "--nocapture"])
            .env(KUBECONFIG, yard.kubeconfig())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot run this program")?;
        Ok(Self(child))
    }

    /// Kills it as `kill -9` does. It must not have ended before.
    fn kill(mut self) -> Result<()> {
        ensure!(self.0.try_wait()?.is_none(), "the scheduler has ended by itself");
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

/// Lets `pods` pods arrive and kills the scheduler `kills` times, each time when it has bound some
/// of those that arrived since the last time.
async fn besieged(yard: &Yard, pods: usize, kills: usize) -> Result<()> {
    for number in 0..NODES {
        yard.node(&format!("n{number}"), 64).await?;
    }
    let begun = Instant::now();
    let share = pods / (kills + 1);
    let allowed = Arc::new(Semaphore::new(0));
    let arrivals = async {
        let all = stream::iter(0..pods).map(async |number| {
            // Never closed, and never given back: each pod arrives once.
            allowed.acquire().await?.forget();
            yard.pod(&format!("p{number}"), "1m").await
        });
        let made: Vec<Result<()>> = all.buffer_unordered(CREATIONS).collect().await;
        made.into_iter().collect::<Result<()>>()
    };
    let killing = async {
        let mut random = Random::new(1);
        for kill in 0..kills {
            let before = yard.seen(|seen| seen.bound);
            let process = Process::start(yard)?;
            allowed.add_permits(share);
            // Most of them are on their way then, and some may not even have been made.
            let some = 1 + usize::try_from(random.draw() % (share as u64 / 2))?;
            let what = format!("{some} pods more bound after {kill} kills");
            yard.until(&what, |seen| seen.bound >= before + some).await?;
            process.kill()?;
        }
        let process = Process::start(yard)?;
        allowed.add_permits(pods - kills * share);
        yard.until_within(REST, "all bound", |seen| seen.bound == pods).await?;
        process.kill()
    };
    let (arrived, killed) = tokio::join!(arrivals, killing);
    arrived?;
    killed?;
    let there =
        yard.seen(|seen| seen.pods.values().filter(|p| !p.spec.node_name.is_empty()).count());
    ensure!(there == pods, "{there} of {pods} pods are there and have a node");
    let told = yard.seen(|seen| seen.events.values().filter(|e| &*e.reason == "Scheduled").count());
    eprintln!(
        "{pods} pods were bound once each through {kills} kills in {:.1} s; {told} events tell so",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

async fn all_are_bound_once(backend: Backend, scope: Scope, pods: usize, kills: usize) {
    let yard = Yard::open("besieged", backend, scope).await.unwrap();
    let told = besieged(&yard, pods, kills).await;
    // Whether a pod ever changed its node is looked at here.
    let closed = yard.close().await;
    told.with_context(|| backend.name()).unwrap();
    closed.with_context(|| backend.name()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_pod_is_bound_once_though_the_scheduler_is_killed_while_they_arrive() {
    for backend in BACKENDS {
        all_are_bound_once(*backend, Scope::Exclusive, 420, 6).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: `cargo xtask test --long` runs it"]
async fn five_thousand_pods_are_bound_once_though_the_scheduler_is_killed_twenty_times() {
    all_are_bound_once(Backend::KubeApiServer, Scope::Fresh, 5000, 20).await;
}
