//! The pods of a race: the same objects for every row.

use std::fmt;
use std::str::FromStr;

use api::qos::{QOS_CLASS_LABEL, QosClass};
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::load;

/// As many pods as a Deployment of a good size has.
const PODS_PER_APP: usize = 50;

/// Counts of CPUs that pods ask for that get their own: 1 to this.
const COUNTS: usize = 8;

/// Nodes and pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Nodes.
    pub nodes: usize,
    /// Pods.
    pub pods: usize,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('x').and_then(|(nodes, pods)| {
            Some(Self { nodes: nodes.parse().ok()?, pods: pods.parse().ok()? })
        });
        let size = parts.filter(|size| size.nodes > 0 && size.pods > 0);
        size.ok_or_else(|| "write nodes x pods, such as 1000x5000".to_owned())
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} nodes x {} pods", self.nodes, self.pods)
    }
}

/// What pods ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// CPU and memory.
    Plain,
    /// A third of the pods the same, a third would rather not share a node with their app, and a
    /// third spread their app over the zones.
    Mixed,
    /// CPUs of their own, one to eight of them, and memory.
    #[value(skip)]
    Own,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Mixed => "mixed",
            Self::Own => "with CPUs of their own",
        })
    }
}

/// The name of a pod.
pub fn pod_name(index: usize) -> String {
    format!("pod-{index:06}")
}

/// A pod that the schedulers are to bind.
pub fn unbound(name: &str) -> Value {
    let mut pod = load::pod(name);
    pod["spec"]["schedulerName"] = json!("default-scheduler");
    pod
}

/// The pod with this number.
pub fn pod(workload: Workload, index: usize) -> Value {
    let (kind, of_kind) = match workload {
        Workload::Plain | Workload::Own => (0, index),
        Workload::Mixed => (index % 3, index / 3),
    };
    let app = format!("{}-{}", ["plain", "apart", "spread"][kind], of_kind / PODS_PER_APP);
    let mut pod = unbound(&pod_name(index));
    pod["metadata"]["labels"]["app"] = json!(app);
    let same_app = json!({"matchLabels": {"app": app}});
    if workload == Workload::Own {
        let cpus = index % COUNTS + 1;
        pod["metadata"]["labels"][QOS_CLASS_LABEL] = json!(QosClass::Lsr.as_str());
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpus.to_string());
    }
    match kind {
        1 => {
            let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": same_app});
            pod["spec"]["affinity"]["podAntiAffinity"] = json!({
                "preferredDuringSchedulingIgnoredDuringExecution":
                    [{"weight": 100, "podAffinityTerm": term}],
            });
        }
        2 => {
            pod["spec"]["topologySpreadConstraints"] = json!([{
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": same_app,
            }]);
        }
        _ => {}
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_two_numbers_that_are_not_zero() {
        let check = |text: &str, expected: Option<(usize, usize)>| {
            let size = text.parse::<Size>().ok();
            assert_eq!(size.map(|size| (size.nodes, size.pods)), expected, "{text}");
        };
        check("1000x5000", Some((1000, 5000)));
        check("1x1", Some((1, 1)));
        check("0x5", None);
        check("5", None);
        check("axb", None);
        check("5x-1", None);
    }

    #[test]
    fn pods_that_get_cpus_of_their_own_ask_for_whole_ones_as_such() {
        let asked = |index: usize| {
            let pod = pod(Workload::Own, index);
            assert_eq!(pod["metadata"]["labels"]["koordinator.sh/qosClass"], "LSR");
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].clone()
        };
        assert_eq!((asked(0), asked(7), asked(8)), (json!("1"), json!("8"), json!("1")));
    }

    #[test]
    fn a_mixed_load_is_three_thirds_and_a_selector_means_only_its_own_app() {
        let count = |workload: Workload, pointer: &str| {
            (0..300).filter(|index| pod(workload, *index).pointer(pointer).is_some()).count()
        };
        let (apart, spread) = ("/spec/affinity", "/spec/topologySpreadConstraints");
        assert_eq!((count(Workload::Plain, apart), count(Workload::Plain, spread)), (0, 0));
        assert_eq!((count(Workload::Mixed, apart), count(Workload::Mixed, spread)), (100, 100));
        for index in 0..300 {
            let pod = pod(Workload::Mixed, index);
            assert_eq!(pod["spec"]["schedulerName"], "default-scheduler");
            let app = pod["metadata"]["labels"]["app"].as_str();
            let selector = pod.pointer("/spec/topologySpreadConstraints/0/labelSelector").or(pod
                .pointer(
                    "/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution\
                     /0/podAffinityTerm/labelSelector",
                ));
            let means = selector.map(|selector| selector["matchLabels"]["app"].as_str());
            assert!(means.is_none_or(|means| means == app), "{pod}");
        }
    }
}
