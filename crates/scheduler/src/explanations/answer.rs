//! What is said of a pod: whether a node can take it, who refuses it where and why, and who could make
//! room.

use std::collections::{BTreeMap, BTreeSet};

use api::schedule_explanation::{
    DetailedExplanation, Explanation, NodeFailedDetail, NodePossibleVictims, PossibleVictim,
    ScheduleExplanationStatus, SchedulingResult,
};
use engine::decide::Decider;
use engine::examination::{Examination, Refused};
use engine::fact::{PodFact, PodRef, Uid};
use engine::ledger::{Ledger, NodeIndex};
use engine::reason::{Reason, Refusal};

use crate::config::Configuration;
use crate::core::{Resort, SCHEDULER_ERROR};
use crate::debug::{Asked, Known};
use crate::why::{Answer, Standing, State};

/// How many nodes are named for one reason: an object must not outgrow what a server stores. How many
/// there are is in the message.
const NODES_NAMED_MAX: usize = 500;
/// How many reasons are told.
const DETAILS_MAX: usize = 100;

/// What is said of a pod.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Content {
    /// Without when it was found to be so.
    pub(super) status: ScheduleExplanationStatus,
    /// Whether another scheduler is to find the pod a node.
    pub(super) is_foreign: bool,
}

impl Content {
    /// That there is no answer.
    pub(super) fn refused(message: String) -> Self {
        let status = ScheduleExplanationStatus { failed_message: message, ..Default::default() };
        Self { status, is_foreign: false }
    }

    /// That there is nobody to be asked about.
    pub(super) fn no_pod(namespace: &str, name: &str) -> Self {
        Self::refused(format!(
            "there is no pod {name} in namespace {namespace}; it is answered when the pod comes. Only \
             pods are answered so far, not jobs or gangs"
        ))
    }

    /// The whole answer for the whole cluster.
    fn of(detail: DetailedExplanation) -> Self {
        let status = ScheduleExplanationStatus {
            schedulable: detail.schedulable,
            schedulable_after_preemption: detail.schedulable_after_preemption,
            failed_message: detail.failed_message.clone(),
            last_update_time: None,
            detailed_explanation: vec![detail],
        };
        Self { status, is_foreign: false }
    }

    /// What a pod was told of its last attempt.
    fn told(message: &str) -> Self {
        let failed_message = message.to_owned();
        let explained =
            Explanation { failed_message: failed_message.clone(), ..Explanation::default() };
        let schedule_explanation = Some(explained);
        let own =
            DetailedExplanation { failed_message, schedule_explanation, ..Default::default() };
        Self::of(own)
    }

    /// That a pod has this node, or gets it.
    fn placed(pod: &PodFact, node: &str) -> Self {
        Self::of(DetailedExplanation {
            schedulable: true,
            schedulable_after_preemption: true,
            schedule_explanation: Some(Explanation {
                schedulable: true,
                feasible_scheduling_result: vec![result(pod, node)],
                ..Explanation::default()
            }),
            ..DetailedExplanation::default()
        })
    }
}

fn result(pod: &PodFact, node: &str) -> SchedulingResult {
    SchedulingResult {
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        uid: pod.uid.0.to_string(),
        node_name: node.to_owned(),
    }
}

/// What there is to be said of a pod; nothing where that is not known yet.
pub(super) fn of(asked: Asked) -> Option<Content> {
    let Asked { fact: pod, answer, known, configuration } = asked;
    let named = |what: &dyn std::fmt::Display| format!("pod {}/{} {what}", pod.namespace, pod.name);
    match (&answer.state, known) {
        (State::Bound { node }, _) => Some(Content::placed(&pod, node)),
        (State::OtherScheduler { scheduler, known }, _) => {
            let words = format!(
                "waits for scheduler {scheduler:?}, and who answers decides for {}: have that one \
                 answer, or correct spec.schedulerName",
                known.join(", ")
            );
            Some(Content { is_foreign: true, ..Content::refused(named(&words)) })
        }
        (State::Waiting { .. }, Some(known)) => waiting(&pod, answer, known, &configuration),
        (state, _) => Some(Content::refused(named(state))),
    }
}

/// What there is to be said of a pod that wants a node.
fn waiting(
    pod: &PodFact,
    mut answer: Answer,
    known: Known,
    configuration: &Configuration,
) -> Option<Content> {
    let profile = answer.profile(pod, configuration)?;
    let Known { mut ledger, standing, told, resort, .. } = known;
    if let Some(Standing::Decided { node }) = &standing {
        return Some(Content::placed(pod, node));
    }
    let mut decider = Decider::new(profile.assemble().profile, &mut ledger, 0);
    let uid = pod.uid.clone();
    let examined = decider.examine(&mut ledger, &uid).ok()?;
    let Some(node) = taken_by(&mut decider, &ledger, &uid, &examined) else {
        return Some(refused(pod, &ledger, &examined, resort.as_ref()));
    };
    answer.name_extenders(pod, configuration);
    let mut content = Content::placed(pod, ledger.nodes.name(node));
    match told {
        // They are not asked here, and have refused it.
        Some(told) if !answer.extenders.is_empty() => content = Content::told(&told.message),
        // A node could be had, and something else is in the way.
        Some(told) if *told.reason == *SCHEDULER_ERROR => {
            content.status.failed_message = told.message.as_ref().into();
        }
        _ => {}
    }
    Some(content)
}

/// The node that a pod would get; none where none can take it.
fn taken_by(
    decider: &mut Decider,
    ledger: &Ledger,
    uid: &Uid,
    examined: &Examination,
) -> Option<NodeIndex> {
    if examined.everywhere.is_some() {
        return None;
    }
    let refused: BTreeSet<NodeIndex> = examined.refused.iter().map(|own| own.node).collect();
    let scores = decider.scores(ledger, ledger.pod(uid)?.ask).into_iter();
    let scores = scores.filter(|own| !refused.contains(&own.node));
    let best = scores.max_by_key(|own| (own.total, std::cmp::Reverse(own.node)));
    // What is held for a pod is on no list of what is free.
    let any = || ledger.nodes.present().iter().find(|node| !refused.contains(node));
    best.map(|own| own.node).or_else(any)
}

fn refused(
    pod: &PodFact,
    ledger: &Ledger,
    examined: &Examination,
    resort: Option<&Resort>,
) -> Content {
    let message = examined.to_string();
    let failed_message = match resort {
        Some(Resort::NoRoom(text)) if examined.nodes > 0 => format!("{message} {text}"),
        _ => message.clone(),
    };
    let room = resort.filter(|resort| matches!(resort, Resort::Room { .. })).is_some();
    Content::of(DetailedExplanation {
        topology_domain: String::new(),
        schedulable: false,
        schedulable_after_preemption: room,
        failed_message,
        schedule_explanation: Some(Explanation {
            schedulable: false,
            failed_message: message,
            feasible_scheduling_result: Vec::new(),
            node_failed_details: details(ledger, examined),
        }),
        node_possible_victims: resort.map(victims).unwrap_or_default(),
        preempt_explanation: resort.map(|resort| preempted(pod, resort)),
    })
}

/// What came of looking for others who make room.
fn preempted(pod: &PodFact, resort: &Resort) -> Explanation {
    match resort {
        Resort::Room { node, .. } => Explanation {
            schedulable: true,
            feasible_scheduling_result: vec![result(pod, node)],
            ..Explanation::default()
        },
        Resort::NoRoom(text) => {
            Explanation { failed_message: text.to_string(), ..Explanation::default() }
        }
    }
}

/// Who goes, or looks for room elsewhere.
fn victims(resort: &Resort) -> Vec<NodePossibleVictims> {
    let Resort::Room { node, victims, passed_over } = resort else { return Vec::new() };
    let named = |pod: &PodRef, is_nominated_pod: bool| PossibleVictim {
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        uid: pod.uid.0.to_string(),
        is_nominated_pod,
    };
    let running = victims.iter().map(|pod| named(pod, false));
    let all = running.chain(passed_over.iter().map(|pod| named(pod, true)));
    vec![NodePossibleVictims { node_name: node.to_string(), possible_victims: all.collect() }]
}

/// Who refuses, why, whether evicting others could help (where it could comes first), and where.
type Details = BTreeMap<Detail, BTreeSet<String>>;
type Detail = (String, String, bool);

/// Nodes that refuse, by plugin and reason.
pub(crate) fn details(ledger: &Ledger, examined: &Examination) -> Vec<NodeFailedDetail> {
    let mut details = Details::new();
    if let Some((plugin, refusal)) = &examined.everywhere {
        note(&mut details, &plugin.to_string(), refusal, None);
    }
    for Refused { node, plugin, refusal } in &examined.refused {
        let plugin = plugin.map(|plugin| plugin.to_string());
        let plugin = plugin.unwrap_or_else(|| naming(refusal));
        note(&mut details, &plugin, refusal, Some(ledger.nodes.name(*node)));
    }
    let detail = |((failed_plugin, reason, is_final), nodes): (Detail, BTreeSet<String>)| {
        let failed_nodes = nodes.into_iter().take(NODES_NAMED_MAX).collect();
        NodeFailedDetail { failed_plugin, reason, preempt_might_help: !is_final, failed_nodes }
    };
    details.into_iter().take(DETAILS_MAX).map(detail).collect()
}

fn note(details: &mut Details, plugin: &str, refusal: &Refusal, node: Option<&str>) {
    let is_final = !refusal.is_curable();
    for reason in &refusal.reasons {
        let key = (plugin.to_owned(), reason.to_string(), is_final);
        details.entry(key).or_default().extend(node.map(str::to_owned));
    }
}

/// Those who named the only nodes to ask.
fn naming(refusal: &Refusal) -> String {
    let named = refusal.reasons.iter().find_map(|reason| match reason {
        Reason::LeftOut { plugins } => Some(plugins),
        _ => None,
    });
    let names = named.into_iter().flatten().map(ToString::to_string);
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use engine::fact::{Fact, NodeFact};
    use engine::plugin::Plugin;
    use engine::reason::Code;

    use super::*;

    #[test]
    fn no_more_nodes_and_reasons_are_named_than_an_object_can_hold() {
        let mut ledger = Ledger::default();
        for number in 0..=NODES_NAMED_MAX {
            let name = format!("node-{number:04}").into();
            ledger.apply(Fact::Node(NodeFact { name, ..NodeFact::default() }));
        }
        let refused = |count: usize| {
            let nodes = ledger.nodes.present().iter();
            let reason = move |number: usize| {
                let resource = format!("example.com/{}", number % count).into();
                Reason::ShortOf { resource, requested: 1, used: 0, allocatable: 0 }
            };
            let refused = nodes.enumerate().map(|(number, node)| Refused {
                node,
                plugin: Some(Plugin::NodeResourcesFit),
                refusal: Refusal::new(Code::Unschedulable, reason(number)),
            });
            Examination { refused: refused.collect(), ..Examination::default() }
        };
        let one = details(&ledger, &refused(1));
        assert_eq!((one.len(), one[0].failed_nodes.len()), (1, NODES_NAMED_MAX));
        assert_eq!(details(&ledger, &refused(DETAILS_MAX + 1)).len(), DETAILS_MAX);
    }
}
