//! What both sides say of a pod, and where they differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

/// Why a node is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Who refuses.
    pub plugin: String,
    /// Whether evicting pods could help.
    pub code: String,
    /// Why.
    pub reasons: Vec<String>,
}

/// What one side says of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Why nodes are refused.
    pub refused: BTreeMap<String, Refused>,
    /// What each plugin gives each node that takes the pod. What gives nothing is left out.
    pub scores: BTreeMap<String, BTreeMap<String, i64>>,
    /// The sums.
    pub totals: BTreeMap<String, i64>,
    /// What each claim that waits for a node would get there; empty where a volume is made.
    pub volumes: BTreeMap<String, BTreeMap<String, String>>,
}

impl Answer {
    /// What the oracle says of a pod.
    pub fn from_oracle(probe: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let map = |value: &Value| value.as_object().cloned().unwrap_or_default();
        let numbers = |value: &Value| -> BTreeMap<String, i64> {
            map(value)
                .iter()
                .map(|(name, one)| (name.clone(), one.as_i64().unwrap_or(i64::MIN)))
                .collect()
        };
        let refused = |status: &Value| Refused {
            plugin: text(&status["plugin"]),
            code: text(&status["code"]),
            reasons: status["reasons"].as_array().into_iter().flatten().map(text).collect(),
        };
        let mut scores: BTreeMap<_, _> = map(&probe["scores"])
            .iter()
            .map(|(plugin, one)| (plugin.clone(), numbers(one)))
            .collect();
        scores.retain(|_, nodes| nodes.values().any(|score| *score != 0));
        Self {
            refused: map(&probe["nodes"])
                .iter()
                .map(|(node, status)| (node.clone(), refused(status)))
                .collect(),
            scores,
            volumes: map(&probe["volumes"])
                .iter()
                .map(|(node, claims)| {
                    let claims = map(claims);
                    let told = claims.iter().map(|(claim, volume)| (claim.clone(), text(volume)));
                    (node.clone(), told.collect())
                })
                .collect(),
            totals: numbers(&probe["totals"]),
        }
    }
}

/// A value that is not equal.
#[derive(Debug)]
pub struct Difference {
    /// What was asked about.
    pub pod: String,
    /// Which value.
    pub what: String,
    /// What the real scheduler says.
    pub truth: String,
    /// What we say.
    pub ours: String,
}

impl Difference {
    /// What sort of value differs, without the node.
    pub fn kind(&self) -> String {
        let words = self.what.split(' ').filter(|word| !word.starts_with("node-"));
        words.collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pod, what, truth, ours } = self;
        write!(f, "{pod}: {what}: the real scheduler says {truth}, we say {ours}")
    }
}

/// Every value that is not equal.
pub fn differences(pod: &str, truth: &Answer, ours: &Answer) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut note = |what: String, truth: String, ours: String| {
        if truth != ours {
            found.push(Difference { pod: pod.to_owned(), what, truth, ours });
        }
    };
    for node in keys(&truth.refused, &ours.refused) {
        let told = |answer: &Answer| format!("{:?}", answer.refused.get(node));
        note(format!("refusal of {node}"), told(truth), told(ours));
    }
    for plugin in keys(&truth.scores, &ours.scores) {
        let empty = BTreeMap::new();
        let (a, b) = (truth.scores.get(plugin), ours.scores.get(plugin));
        let (a, b) = (a.unwrap_or(&empty), b.unwrap_or(&empty));
        for node in keys(a, b) {
            let told = |scores: &BTreeMap<String, i64>| format!("{:?}", scores.get(node));
            note(format!("score of {plugin} on {node}"), told(a), told(b));
        }
    }
    for node in keys(&truth.totals, &ours.totals) {
        let told = |answer: &Answer| format!("{:?}", answer.totals.get(node));
        note(format!("total of {node}"), told(truth), told(ours));
    }
    for node in keys(&truth.volumes, &ours.volumes) {
        let told = |answer: &Answer| format!("{:?}", answer.volumes.get(node));
        note(format!("volumes on {node}"), told(truth), told(ours));
    }
    found
}

fn keys<'a, T>(a: &'a BTreeMap<String, T>, b: &'a BTreeMap<String, T>) -> BTreeSet<&'a str> {
    a.keys().chain(b.keys()).map(String::as_str).collect()
}
