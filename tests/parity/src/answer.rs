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
    /// Nodes that may be taken: of the oracle all that are as good, of us the one we take.
    pub choice: BTreeSet<String>,
    /// Whether the pod may not be tried.
    pub gated: bool,
    /// Who refused the pod, where no node takes it.
    pub plugins: BTreeSet<String>,
    /// What is said of a pod that no node takes.
    pub message: String,
    /// Who would make room, where that was asked.
    pub preemption: Option<Preemption>,
}

/// Who would make room for a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preemption {
    /// What came of it.
    pub code: String,
    /// Why it was not tried.
    pub reason: String,
    /// Where room can be made: who has to go, and how many break a disruption budget.
    pub candidates: BTreeMap<String, (Vec<String>, i64)>,
    /// Where it cannot.
    pub refused: BTreeMap<String, Refused>,
    /// Nodes that may be taken: of the oracle all that are as good, of us the one we take.
    pub chosen: BTreeSet<String>,
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
        let texts = |value: &Value| -> BTreeSet<String> {
            value.as_array().into_iter().flatten().map(text).collect()
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
            choice: texts(&probe["choice"]),
            gated: probe["gated"].is_object(),
            plugins: texts(&probe["unschedulablePlugins"]),
            message: text(&probe["message"]),
            preemption: probe["preemption"].is_object().then(|| {
                let preemption = &probe["preemption"];
                let candidate = |one: &Value| {
                    let victims = one["victims"].as_array().into_iter().flatten();
                    let violations = one["violations"].as_i64().unwrap_or(i64::MIN);
                    (victims.map(text).collect(), violations)
                };
                let code = text(&preemption["code"]);
                if code == "Error" {
                    // What was found before, or why not, counts for nothing then.
                    return Preemption { code, ..Preemption::default() };
                }
                let candidates = map(&preemption["candidates"]);
                let tried = map(&preemption["refused"]);
                Preemption {
                    code,
                    reason: text(&preemption["reason"]),
                    candidates: candidates
                        .iter()
                        .map(|(node, one)| (node.clone(), candidate(one)))
                        .collect(),
                    refused: tried
                        .iter()
                        .map(|(node, status)| (node.clone(), refused(status)))
                        .collect(),
                    chosen: texts(&preemption["chosen"]),
                }
            }),
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
    note("gated".to_owned(), truth.gated.to_string(), ours.gated.to_string());
    note("plugins".to_owned(), format!("{:?}", truth.plugins), format!("{:?}", ours.plugins));
    note("message".to_owned(), truth.message.clone(), ours.message.clone());
    note_choice("choice", &truth.choice, &ours.choice, &mut note);
    let none = Preemption::default();
    let (truth, ours) =
        (truth.preemption.as_ref().unwrap_or(&none), ours.preemption.as_ref().unwrap_or(&none));
    note("code of preemption".to_owned(), truth.code.clone(), ours.code.clone());
    note("reason of preemption".to_owned(), truth.reason.clone(), ours.reason.clone());
    for node in keys(&truth.candidates, &ours.candidates) {
        let told = |answer: &Preemption| format!("{:?}", answer.candidates.get(node));
        note(format!("victims on {node}"), told(truth), told(ours));
    }
    for node in keys(&truth.refused, &ours.refused) {
        let told = |answer: &Preemption| format!("{:?}", answer.refused.get(node));
        note(format!("refusal without victims of {node}"), told(truth), told(ours));
    }
    note_choice("choice of preemption", &truth.chosen, &ours.chosen, &mut note);
    found
}

/// What we take has to be one of those that may be taken.
fn note_choice(
    what: &str,
    truth: &BTreeSet<String>,
    ours: &BTreeSet<String>,
    note: &mut impl FnMut(String, String, String),
) {
    if truth.is_empty() != ours.is_empty() || !ours.is_subset(truth) {
        note(what.to_owned(), format!("{truth:?}"), format!("{ours:?}"));
    }
}

fn keys<'a, T>(a: &'a BTreeMap<String, T>, b: &'a BTreeMap<String, T>) -> BTreeSet<&'a str> {
    a.keys().chain(b.keys()).map(String::as_str).collect()
}
