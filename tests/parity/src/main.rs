//! Compares the engine with the real scheduler's own code.
//!
//! `decisions`: a seed makes a cluster and a script: pods to ask about, and changes in between.
//! Both sides play it, and every value must be equal: which plugin refuses which node with which
//! code and reasons, and what each plugin gives each of the others. One ledger plays all seeds, so
//! that repair is compared and not only the first answer.
//!
//! `queue`: a seed makes a script of facts and attempts, and both queues must have every pod at the
//! same place after every step.
//!
//! `safety`: the same clusters for the engine alone, and no decision may break a rule that was
//! written down apart from it.
//!
//! `binary`: some of these clusters on a real kube-apiserver, where kube-scheduler itself decides.

mod answer;
mod binary;
mod draw;
mod facts;
mod generate;
mod ours;
mod queue;
mod safety;
mod shrink;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use serde_json::Value;
use truth::{Binaries, Oracle};

use crate::answer::{Answer, Difference};
use crate::generate::Script;
use crate::ours::Ours;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    suite: Option<Suite>,
    #[command(flatten)]
    seeds: Seeds,
}

#[derive(Subcommand)]
enum Suite {
    /// Which nodes take a pod, and how good each is (the default).
    Decisions(Seeds),
    /// Which pods are tried when.
    Queue(Seeds),
    /// Whether decisions keep the rules of the cluster.
    Safety(Seeds),
    /// What kube-scheduler itself does on a real kube-apiserver.
    Binary(Seeds),
}

#[derive(Args)]
struct Seeds {
    /// How many seeds to play.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Say how often the real scheduler gave each reason, to see that all were met.
    #[arg(long)]
    reasons: bool,
}

impl Seeds {
    fn iter(&self) -> impl Iterator<Item = u64> {
        self.first_seed..self.first_seed.saturating_add(self.seeds)
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments.suite {
        Some(Suite::Queue(seeds)) => queues(seeds),
        Some(Suite::Binary(seeds)) => binaries(seeds),
        Some(Suite::Safety(seeds)) => safeties(seeds),
        Some(Suite::Decisions(seeds)) => decisions(seeds).map(Played::told),
        None => decisions(&arguments.seeds).map(Played::told),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("parity: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn oracle() -> Result<Oracle> {
    let say = |line: &str| eprintln!("{line}");
    Oracle::start(&Binaries::locate(&say))
}

/// What came of decisions.
struct Played {
    /// Whether both sides decided alike.
    is_alike: bool,
    /// What was met on the way, and how often.
    met: BTreeMap<String, usize>,
}

impl Played {
    /// Tells what was met, and whether both sides decided alike.
    fn told(self) -> bool {
        println!("{} different reasons and outcomes were met", self.met.len());
        self.is_alike
    }
}

fn decisions(seeds: &Seeds) -> Result<Played> {
    let mut oracle = oracle()?;
    let mut ours = Ours::default();
    let (mut probes, mut failed) = (0, 0);
    let mut reasons = BTreeMap::new();
    for seed in seeds.iter() {
        let script = Script::from_seed(seed);
        probes += script.probes();
        let truth = oracle.ask(&script.request())?;
        count(&truth, &mut reasons);
        let differences = ours.play(&script, &truth)?;
        if let Some(first) = differences.first() {
            failed += 1;
            println!("seed {seed}: {first}");
            let kind = first.kind();
            if play(&script, &mut oracle, &mut Ours::default())?.is_empty() {
                println!("only after the seeds before it: what was kept is wrong");
                continue;
            }
            let small = shrink::shrink(&script, &mut |script: &Script| {
                let found = play(script, &mut oracle, &mut Ours::default())?;
                Ok(found.iter().any(|difference| difference.kind() == kind))
            })?;
            println!("{}", serde_json::to_string_pretty(&small.request())?);
            for difference in play(&small, &mut oracle, &mut Ours::default())? {
                println!("{difference}");
            }
        }
    }
    for (reason, count) in reasons.iter().filter(|_| seeds.reasons) {
        println!("{count:>8} {reason}");
    }
    println!("{} seeds, {probes} questions, {failed} seeds with differences", seeds.seeds);
    Ok(Played { is_alike: failed == 0, met: reasons })
}

/// Counts reasons by what is left of them without names.
fn count(truth: &Value, reasons: &mut BTreeMap<String, usize>) {
    let probes = truth["steps"].as_array().into_iter().flatten().map(|step| &step["probe"]);
    for probe in probes {
        let answer = Answer::from_oracle(probe);
        for refused in answer.refused.values() {
            let said = refused.reasons.join("; ");
            let quoted = said.split('"').enumerate();
            let words: Vec<&str> =
                quoted.map(|(index, part)| if index % 2 == 0 { part } else { "…" }).collect();
            *reasons.entry(format!("{}: {}", refused.plugin, words.concat())).or_default() += 1;
        }
        if let Some(preemption) = &answer.preemption {
            let mut note = |what: String, times: usize| {
                if times > 0 {
                    *reasons.entry(format!("preemption: {what}")).or_default() += times;
                }
            };
            note(format!("{} {}", preemption.code, preemption.reason), 1);
            note("candidates".to_owned(), preemption.candidates.len());
            let victims = preemption.candidates.values().map(|(victims, _)| victims.len());
            note("victims".to_owned(), victims.sum());
            let broken = preemption.candidates.values().filter(|(_, violations)| *violations > 0);
            note("candidates that break a budget".to_owned(), broken.count());
            note("ties".to_owned(), usize::from(preemption.chosen.len() > 1));
            for refused in preemption.refused.values() {
                note(refused.reasons.join("; "), 1);
            }
        }
        for volume in answer.volumes.values().flat_map(BTreeMap::values) {
            let what = if volume.is_empty() { "a volume is made" } else { "a volume is bound" };
            *reasons.entry(what.to_owned()).or_default() += 1;
        }
    }
}

fn play(script: &Script, oracle: &mut Oracle, ours: &mut Ours) -> Result<Vec<Difference>> {
    let truth = oracle.ask(&script.request())?;
    ours.play(script, &truth)
}

fn queues(seeds: &Seeds) -> Result<bool> {
    let mut oracle = oracle()?;
    let (mut compared, mut failed) = (0, 0);
    let mut hints = BTreeMap::<String, usize>::new();
    for seed in seeds.iter() {
        let script = queue::Script::from_seed(seed)?;
        let outcome = queue::compare(&script, &mut oracle)?;
        compared += outcome.compared;
        for (said, count) in &outcome.hints {
            *hints.entry(said.clone()).or_default() += count;
        }
        if outcome.difference.is_none() {
            continue;
        }
        failed += 1;
        let small = queue::shrink(&script, &mut oracle);
        println!("seed {seed}:\n{}", queue::told(&small));
        if let Some(found) = queue::compare(&small, &mut oracle)?.difference {
            println!("after step {:?}:", found.step);
            println!("the real queue has {}\nours has {}", found.truth, found.ours);
        }
    }
    for (said, count) in hints {
        println!("{count:7} {said}");
    }
    println!("{} seeds, {compared} comparisons, {failed} seeds with differences", seeds.seeds);
    Ok(failed == 0)
}

fn safeties(seeds: &Seeds) -> Result<bool> {
    let (mut placed, mut refused, mut failed) = (0, 0, 0);
    for seed in seeds.iter() {
        let outcome = safety::play(seed)?;
        placed += outcome.placed;
        refused += outcome.refused;
        if let Some((broken, log)) = outcome.broken {
            failed += 1;
            println!("{}\nseed {seed}: {broken}", log.join("\n"));
        }
    }
    let seeds = seeds.seeds;
    println!("{seeds} seeds, {placed} pods placed, {refused} refused, {failed} seeds broke a rule");
    Ok(failed == 0 && placed > 0)
}

fn binaries(seeds: &Seeds) -> Result<bool> {
    let mut real = binary::Real::start()?;
    let (mut bound, mut refused, mut left_out, mut failed) = (0, 0, 0, 0);
    for seed in seeds.iter() {
        let outcome = real.play(seed)?;
        bound += outcome.bound;
        refused += outcome.refused;
        left_out += outcome.left_out;
        failed += usize::from(!outcome.differences.is_empty());
        for difference in outcome.differences {
            println!("seed {seed}: {difference}");
        }
    }
    let seeds = seeds.seeds;
    println!(
        "{seeds} seeds, {bound} pods bound by kube-scheduler, {refused} refused; \
         {left_out} objects left out that kube-apiserver refuses; {failed} seeds with differences"
    );
    Ok(failed == 0 && bound > 0 && refused > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::generate::Step;

    /// A share of the seeds that `cargo xtask parity` plays.
    const SHARE: Seeds = Seeds { seeds: 60, first_seed: 1, reasons: false };

    /// What clusters and pods of these seeds have to come to, or nothing is shown about it.
    const MET: [&str; 23] = [
        "InterPodAffinity: node(s) didn't match pod affinity rules",
        "InterPodAffinity: node(s) didn't match pod anti-affinity rules",
        "InterPodAffinity: node(s) didn't satisfy existing pods anti-affinity rules",
        "NodeAffinity: node(s) didn't match Pod's node affinity/selector",
        "NodeAffinity: node(s) didn't match scheduler-enforced node affinity",
        "NodePorts: node(s) didn't have free ports for the requested pod ports",
        "NodeResourcesFit: Insufficient cpu",
        "NodeResourcesFit: Insufficient example.com/gpu",
        "NodeResourcesFit: Too many pods",
        "NodeUnschedulable: node(s) were unschedulable",
        "NodeVolumeLimits: node(s) exceed max volume count",
        "PodTopologySpread: node(s) didn't match pod topology spread constraints",
        "TaintToleration: node(s) had untolerated taint(s)",
        "VolumeBinding: node(s) did not have enough free storage",
        "VolumeBinding: node(s) didn't find available persistent volumes to bind",
        "VolumeRestrictions: node(s) had no available disk",
        "VolumeZone: node(s) had no available volume zone",
        "a volume is bound",
        "a volume is made",
        "preemption: Success ",
        "preemption: candidates",
        "preemption: candidates that break a budget",
        "preemption: victims",
    ];

    #[test]
    fn decisions_are_those_of_kube_scheduler() {
        let Played { is_alike, met } = decisions(&SHARE).unwrap();
        assert!(is_alike, "see the differences above");
        let missing: Vec<&&str> = MET.iter().filter(|what| !met.contains_key(**what)).collect();
        assert!(missing.is_empty(), "these seeds never come to {missing:?}");
    }

    #[test]
    fn queues_are_those_of_kube_scheduler() {
        assert!(queues(&SHARE).unwrap(), "see the differences above");
    }

    #[test]
    fn pods_refused_for_volumes_are_woken_whenever_they_are_there() {
        let mut oracle = oracle().unwrap();
        let mut hints = BTreeMap::<String, usize>::new();
        for seed in SHARE.iter() {
            let script = queue::Script::of_storage(seed).unwrap();
            let outcome = queue::compare(&script, &mut oracle).unwrap();
            assert!(outcome.difference.is_none(), "seed {seed}: {:?}", outcome.difference);
            for (said, count) in outcome.hints {
                *hints.entry(said).or_default() += count;
            }
        }
        assert!(hints[queue::WOKEN_TOO] > 0, "{hints:?}");
    }

    #[test]
    fn kube_scheduler_itself_decides_like_us() {
        let few = Seeds { seeds: 3, ..SHARE };
        assert!(binaries(&few).unwrap(), "see the differences above");
    }

    #[test]
    fn decisions_keep_the_rules_of_the_cluster() {
        assert!(safeties(&SHARE).unwrap(), "see the rules above");
    }

    /// Plays a script in which the two sides differ as docs/COMPATIBILITY.md says, and returns the
    /// nodes that each of them lets the last pod have.
    fn check(objects: Value, steps: Vec<Step>, theirs: &[&str], ours: &[&str]) {
        let objects = objects.as_array().unwrap().clone();
        let script = Script { objects, steps, preempts: false, config: None };
        let truth = oracle().unwrap().ask(&script.request()).unwrap();
        let last = truth["steps"].as_array().unwrap().last().unwrap();
        let answer = Answer::from_oracle(&last["probe"]);
        assert_eq!(answer.totals.keys().collect::<Vec<_>>(), theirs);
        let found = Ours::default().play(&script, &truth).unwrap();
        let mut nodes: std::collections::BTreeSet<&str> = theirs.iter().copied().collect();
        for one in found.iter().filter(|one| one.what.starts_with("refusal")) {
            let node = one.what.rsplit(' ').next().unwrap();
            if one.ours == "None" {
                nodes.insert(node)
            } else {
                nodes.remove(node)
            };
        }
        assert_eq!(nodes.into_iter().collect::<Vec<_>>(), ours);
    }

    fn node(name: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        })
    }

    fn pod(name: &str, namespace: &str, spec: Value) -> Value {
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "uid": name},
            "spec": {"containers": [{"name": "c", "image": "c"}]},
        });
        for (key, value) in spec.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        pod
    }

    /// Plays a script in which the two sides find other victims, as docs/COMPATIBILITY.md says.
    fn check_victims(objects: Value, asked: Value, theirs: &[&str], ours: &[&str]) {
        let objects = objects.as_array().unwrap().clone();
        let steps = vec![Step::Probe(asked)];
        let script = Script { objects, steps, preempts: true, config: None };
        let truth = oracle().unwrap().ask(&script.request()).unwrap();
        let found = Ours::default().play(&script, &truth).unwrap();
        let of_node = |one: &&Difference| one.what == "victims on n";
        let told: Vec<(&str, &str)> = found
            .iter()
            .filter(of_node)
            .map(|one| (one.truth.as_str(), one.ours.as_str()))
            .collect();
        let of = |victims: &[&str]| format!("Some(({victims:?}, 0))");
        assert_eq!(told, [(of(theirs).as_str(), of(ours).as_str())]);
    }

    fn resident(name: &str, namespace: &str, minute: u32, spec: Value) -> Value {
        let mut pod = pod(name, namespace, spec);
        pod["metadata"]["labels"] = json!({"app": "web"});
        pod["spec"]["nodeName"] = json!("n");
        pod["status"] = json!({"startTime": format!("2025-12-01T00:{minute:02}:00Z")});
        pod
    }

    #[test]
    fn a_pod_that_is_leaving_is_not_taken_from_the_spread_twice() {
        let mut leaving = resident("third", "default", 3, json!({}));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut cordoned = node("cordoned");
        cordoned["spec"] = json!({"unschedulable": true});
        let objects = json!([
            node("n"),
            cordoned,
            resident("first", "default", 1, json!({})),
            resident("second", "default", 2, json!({})),
            leaving,
        ]);
        let rule = json!({
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        });
        let spec = json!({"priority": 5, "topologySpreadConstraints": [rule]});
        let mut asked = pod("asked", "default", spec);
        asked["metadata"]["labels"] = json!({"app": "web"});
        // Theirs leaves the first where it is, which still is one too many.
        let theirs = ["default/second", "default/third"];
        check_victims(objects, asked, &theirs, &["default/first", "default/second"]);
    }

    #[test]
    fn a_claim_of_the_same_name_in_another_namespace_is_another_claim() {
        let class = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "fast"},
            "provisioner": "csi.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        });
        let claim = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default", "uid": "data"},
            "spec": {"accessModes": ["ReadWriteOncePod"], "storageClassName": "fast"},
        });
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
        let using = json!({"volumes": volumes});
        let objects = json!([
            class,
            claim,
            node("n"),
            resident("user", "default", 1, using.clone()),
            resident("innocent", "red", 2, using),
        ]);
        let asked = pod("asked", "default", json!({"priority": 5, "volumes": volumes}));
        check_victims(objects, asked, &["red/innocent"], &["default/user"]);
    }

    #[test]
    fn a_namespace_selector_means_the_namespaces_it_selects() {
        let namespace = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        let absent = json!({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]});
        let term = json!({
            "labelSelector": {},
            "namespaceSelector": absent,
            "topologyKey": "kubernetes.io/hostname",
        });
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        let asked = pod("asked", "default", json!({"affinity": {"podAntiAffinity": required}}));
        let objects = json!([
            namespace("default", json!({})),
            namespace("red", json!({"team": "a"})),
            node("n"),
            pod("other", "red", json!({"nodeName": "n"})),
        ]);
        check(objects, vec![Step::Probe(asked)], &[], &["n"]);
    }

    #[test]
    fn a_port_is_free_when_the_last_pod_that_has_it_goes() {
        let containers =
            json!([{"name": "c", "image": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]);
        let with_port = |name: &str| {
            pod(name, "default", json!({"nodeName": "n", "containers": containers.clone()}))
        };
        let gone = Step::Delete {
            kind: "Pod".to_owned(),
            namespace: "default".to_owned(),
            name: "first".to_owned(),
        };
        let asked = pod("asked", "default", json!({"containers": containers.clone()}));
        let objects = json!([node("n"), with_port("first"), with_port("second")]);
        check(objects, vec![gone, Step::Probe(asked)], &["n"], &[]);
    }
}
