//! Stories: commands that are played on several stages and must print the same on each.

use std::time::Instant;

use anyhow::{Context as _, Result};
use futures::future::join_all;
use scenarios::backend::Backend;
use scenarios::system::{Cluster, Controllers, Scheduler, Setting, mark};

use crate::transcript::Transcript;

/// A server and who moves its workloads on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage(pub Backend, pub Controllers);

const THEIRS: Stage = Stage(Backend::KubeApiServer, Controllers::Theirs);
const OURS: Stage = Stage(Backend::KubeApiServer, Controllers::Ours);
const EMBEDDED: Stage = Stage(Backend::Drydock, Controllers::Ours);

/// Real controllers on a real server, which are the truth, and ours on both servers.
pub const ALL: &[Stage] = &[THEIRS, OURS, EMBEDDED];
/// Each server with the controllers that belong to it.
pub const SERVERS: &[Stage] = &[THEIRS, EMBEDDED];
/// Our controllers on both servers.
pub const OUR_CONTROLLERS: &[Stage] = &[OURS, EMBEDDED];
/// Drydock as `gantry up` runs it.
pub const DRYDOCK: &[Stage] = &[EMBEDDED];
/// Both servers with nobody on them.
const BARE: &[Stage] = &[
    Stage(Backend::KubeApiServer, Controllers::Nobody),
    Stage(Backend::Drydock, Controllers::Nobody),
];

/// What a story is called and what it needs.
#[derive(Debug, Clone, Copy)]
pub struct Story {
    name: &'static str,
    stages: &'static [Stage],
    scheduler: Scheduler,
    nodes: u32,
}

impl Story {
    /// A story of controllers on clusters with so many nodes and kube-scheduler. It is played on
    /// all stages.
    pub fn new(name: &'static str, nodes: u32) -> Self {
        Self { name, stages: ALL, scheduler: Scheduler::Theirs, nodes }
    }

    /// A story of servers alone.
    pub fn bare(name: &'static str) -> Self {
        Self { name, stages: BARE, scheduler: Scheduler::Nobody, nodes: 0 }
    }

    /// The same on these stages.
    pub fn on(self, stages: &'static [Stage]) -> Self {
        Self { stages, ..self }
    }

    /// The same without a scheduler.
    pub fn unscheduled(self) -> Self {
        Self { scheduler: Scheduler::Nobody, ..self }
    }

    /// Plays on all stages at the same time; each must print what the first prints.
    pub async fn alike<F>(self, script: F)
    where
        F: AsyncFn(&mut Transcript<'_>) -> Result<()>,
    {
        let stages: Vec<(Stage, Scheduler)> =
            self.stages.iter().map(|stage| (*stage, self.scheduler)).collect();
        self.compared(&stages, script).await;
    }

    /// Plays with kube-scheduler on a real server, which is the truth, and with our scheduler on
    /// both servers.
    pub async fn scheduled_alike<F>(self, script: F)
    where
        F: AsyncFn(&mut Transcript<'_>) -> Result<()>,
    {
        let stages =
            [(THEIRS, Scheduler::Theirs), (THEIRS, Scheduler::Ours), (EMBEDDED, Scheduler::Ours)];
        self.compared(&stages, script).await;
    }

    async fn compared<F>(self, stages: &[(Stage, Scheduler)], script: F)
    where
        F: AsyncFn(&mut Transcript<'_>) -> Result<()>,
    {
        let script = &script;
        let plays = stages.iter().map(|(stage, scheduler)| {
            Self { scheduler: *scheduler, ..self }.played(*stage, script)
        });
        let mut first = None;
        let mut faults = Vec::new();
        for (stage, printed) in stages.iter().zip(join_all(plays).await) {
            match (printed, &first) {
                (Err(error), _) => faults.push(format!("with {stage:?}: {error:#}")),
                (Ok(printed), None) => first = Some(printed),
                (Ok(printed), Some(truth)) => {
                    let differing = differing(&printed, truth);
                    if !differing.is_empty() {
                        faults
                            .push(format!("with {stage:?} other things are printed:\n{differing}"));
                    }
                }
            }
        }
        assert!(faults.is_empty(), "{}\n{}", self.name, faults.join("\n"));
    }

    async fn played<F>(self, stage: Stage, script: &F) -> Result<String>
    where
        F: AsyncFn(&mut Transcript<'_>) -> Result<()>,
    {
        let Stage(backend, controllers) = stage;
        let Self { name, scheduler, nodes, .. } = self;
        let setting = Setting { backend, controllers, scheduler, nodes };
        let cluster = Cluster::start(name, setting).await?;
        let begun = Instant::now();
        // A name of its own: two stages may be played on the same server.
        let stagehands = format!("{controllers:?}-{scheduler:?}");
        let namespace = format!("{name}-{}-{stagehands}", mark()).to_lowercase();
        let mut transcript = Transcript { cluster: &cluster, namespace, lines: Vec::new() };
        let told = async {
            cluster.kubectl(&["create", "namespace", &transcript.namespace]).await?;
            if controllers != Controllers::Nobody {
                transcript.settle().await?;
            }
            script(&mut transcript).await?;
            Ok(transcript.lines.concat().replace(&transcript.namespace, "{ns}"))
        };
        let mut told: Result<String> = told.await;
        if told.is_err() {
            let there = transcript.quietly("get pods,events --output=wide").await;
            let there = there.unwrap_or_else(|error| format!("{error:#}"));
            told = told.with_context(|| format!("there is meanwhile\n{there}"));
        }
        let ended = cluster.end().await;
        eprintln!("{name} with {stage:?} {scheduler:?}: {:.1} s", begun.elapsed().as_secs_f64());
        let told = told?;
        ended.context("the cluster does not end well")?;
        Ok(told)
    }
}

/// The lines of `ours` (`-`) and of `truth` (`+`) between their common first and last lines.
pub fn differing(ours: &str, truth: &str) -> String {
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
