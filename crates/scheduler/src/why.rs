//! Why a pod has no node: one answer, which people read as text and programs as JSON.
//!
//! Where a scheduler runs, it answers from a copy of what it knows ([`debug`](crate::debug)).
//! Where none can be asked, the same is worked out from the objects of the cluster. Nothing here
//! decides: the explanation is the engine's own, and the message is the one of the event.
//!
//! A Reservation that has no node is answered for as a pod is, and a gang with the gangs that it starts with.

mod group;
mod intake;
mod quota;
mod reservation;
mod text;
mod told;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use api::pod::PodPhase;
use api::{Pod, condition};
use chassis::client::{Client, Error};
use engine::decide::Decider;
use engine::fact::{Fact, PodFact};
use engine::ledger::Ledger;
use engine::moment::Moment;
use engine::turn::Waiting;
use engine::why;
use serde::{Deserialize, Serialize};

use crate::config::{Configuration, ProfileConfig};
use crate::extenders::consultation::is_interested;
use crate::feed;
use crate::message::Kind;

use group::heeding;
pub(crate) use group::{Candidates, Unplaced};
pub use group::{GangTold, GroupPhase, GroupTold, PlanTold, RefusedTold, gang_from_objects};
use intake::Intake;
pub(crate) use quota::HOLDERS_MAX;
pub use quota::{HolderTold, QuotaShortage, QuotaTold};
pub use reservation::reservation_from_objects;
pub(crate) use reservation::{Asked, find_reservation};
pub use told::{ChangeTold, ConsideredTold, LackTold, LoadTold, Nearest, NodesTold, Shortage};

/// Whom an answer is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Subject {
    /// A pod.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        pod: String,
    },
    /// A Reservation.
    Reservation {
        /// Its name.
        reservation: String,
    },
    /// A gang, whether a PodGroup describes it or its pods do.
    Gang {
        /// Its namespace.
        namespace: String,
        /// Its name.
        gang: String,
    },
}

/// Why a pod has no node, or that it has one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The pod, the Reservation, or the gang.
    #[serde(flatten)]
    pub subject: Subject,
    /// Who answers.
    pub answered_by: AnsweredBy,
    /// How the pod stands.
    #[serde(flatten)]
    pub state: State,
    /// What the event and the condition of the pod say, where no node can take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Extenders that are asked about the pod as well, where a node is looked for. What the nodes
    /// say is without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extenders: Vec<String>,
    /// How the gangs stand that start with the pod, where it is a member of one, or with the gang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupTold>,
    /// Which quota has no room for the pod, where one has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaTold>,
    /// What the pod may not have been meant to say, and what to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// What the nodes say, where a node is looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodesTold>,
    /// Objects that could not be read, and why: the answer does not know of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AnsweredBy {
    /// The scheduler that runs.
    Scheduler,
    /// Whoever asked, from the objects of the cluster.
    Objects,
}

/// How a pod stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum State {
    /// It has ended.
    Ended {
        /// How.
        phase: String,
    },
    /// It has a node.
    Bound {
        /// Which.
        node: String,
    },
    /// It is being deleted, and has no node.
    Deleting,
    /// It is not to be tried yet.
    Gated {
        /// What holds it back.
        gates: Vec<String>,
    },
    /// Another scheduler is to find it a node.
    OtherScheduler {
        /// Whom it names.
        scheduler: String,
        /// In whose names the one who answers decides.
        known: Vec<String>,
    },
    /// Nobody of the name that it says gives Reservations their nodes.
    NotReserving {
        /// Whom it names.
        scheduler: String,
        /// In whose names the one who answers gives Reservations their nodes.
        reserving: Vec<String>,
    },
    /// It is a gang that has not started.
    Unstarted {
        /// Where its group stands in the queue, where the scheduler was asked and it is there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        standing: Option<Standing>,
    },
    /// It is a gang that has started.
    Started,
    /// It is a gang, and nobody has pods start together.
    NotGanging,
    /// It is a Reservation that cannot be read.
    Malformed {
        /// What is wrong, and what to do.
        error: String,
    },
    /// It wants a node.
    Waiting {
        /// Where it stands in the queue, where the scheduler was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        standing: Option<Standing>,
        /// The node on which room is made for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nominated: Option<String>,
    },
}

/// Where a pod stands in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "place", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Standing {
    /// It is one of the next.
    Active,
    /// It was refused lately.
    Backoff {
        /// After so long it is one of the next, at the latest.
        seconds_left: u64,
    },
    /// Its last attempt failed.
    ErrorBackoff {
        /// After so long it is one of the next.
        seconds_left: u64,
    },
    /// It was refused, and waits for a change that may help.
    Waiting,
    /// It may not be tried.
    Gated,
    /// It is being decided about.
    InFlight,
    /// A node was decided on, and is being written.
    Decided {
        /// Which.
        node: String,
    },
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum WhyError {
    /// There is no such pod.
    #[error(
        "there is no pod {name} in namespace {namespace}; `kubectl get pods --all-namespaces` \
         lists those there are"
    )]
    NoPod {
        /// The namespace that was asked for.
        namespace: String,
        /// The name that was asked for.
        name: String,
    },
    /// There is no such Reservation.
    #[error("there is no reservation {name}; `kubectl get reservations` lists those there are")]
    NoReservation {
        /// The name that was asked for.
        name: String,
    },
    /// There is no such gang.
    #[error(
        "there is no gang {name} in namespace {namespace}: no PodGroup has that name, and no pod says \
         that it is of it; `kubectl get podgroups --all-namespaces` lists the PodGroups there are"
    )]
    NoGang {
        /// The namespace that was asked for.
        namespace: String,
        /// The name that was asked for.
        name: String,
    },
    /// The cluster does not tell.
    #[error(transparent)]
    Api(#[from] Error),
}

/// A pod by its name.
///
/// # Errors
/// When there is none, or the server does not tell.
pub(crate) async fn find(client: &Client, namespace: &str, name: &str) -> Result<Pod, WhyError> {
    let pod = client.within::<Pod>(namespace).find(name).await?;
    let none = || WhyError::NoPod { namespace: namespace.to_owned(), name: name.to_owned() };
    pod.ok_or_else(none)
}

/// Says why a pod has no node, from the objects of the cluster alone: every kind that scheduling
/// depends on is listed once.
///
/// # Errors
/// When there is no such pod, or a kind cannot be listed.
pub async fn from_objects(
    client: &Client,
    configuration: &Configuration,
    namespace: &str,
    name: &str,
) -> Result<Answer, WhyError> {
    let pod = find(client, namespace, name).await?;
    let mut answer = Answer::begun(&pod, AnsweredBy::Objects, configuration);
    let mut fact = PodFact::from(&pod);
    let Some(profile) = answer.profile(&fact, configuration) else { return Ok(answer) };
    let mut candidates = Candidates::new();
    group::note(&mut candidates, &mut fact, configuration);
    let profiles = match fact.gang {
        // Members may name several.
        Some(_) => heeding(configuration),
        None => vec![profile],
    };
    let noted = |pod: &mut PodFact| group::note(&mut candidates, pod, configuration);
    let mut ledger =
        listed_with(client, configuration, &profiles, &mut answer.unread, noted).await?;
    // It may have come between two lists.
    if ledger.pod(&fact.uid).is_none() {
        ledger.apply(Fact::Pod(Box::new(fact.clone())));
    }
    answer.name_extenders(&fact, configuration);
    if let Some(own) = &fact.gang {
        let known = (&mut ledger, &candidates);
        answer.tell_group(client, known, &own.gang, configuration).await?;
        if answer.is_held_by_group() {
            return Ok(answer);
        }
    }
    answer.work_out(&mut ledger, profile, &fact, now(client));
    if answer.message.is_none() && !answer.extenders.is_empty() {
        answer.message = last_told(&pod);
    }
    Ok(answer)
}

fn now(client: &Client) -> Moment {
    let nanos = client.clock().now().as_nanosecond();
    Moment(u64::try_from(nanos).unwrap_or_default())
}

/// What all objects add up to for a profile, as things are now; those that cannot be read are named.
///
/// # Errors
/// When a kind cannot be listed.
pub(crate) async fn listed(
    client: &Client,
    configuration: &Configuration,
    profile: &ProfileConfig,
    unread: &mut Vec<String>,
) -> Result<Ledger, Error> {
    let mut ledger = Ledger::default();
    profile.assemble().profile.keep(&mut ledger);
    filled(client, configuration, ledger, unread, |_| ()).await
}

/// The same for several profiles, of pods that this has looked at; those of other schedulers are told apart.
async fn listed_with(
    client: &Client,
    configuration: &Configuration,
    profiles: &[&ProfileConfig],
    unread: &mut Vec<String>,
    noted: impl FnMut(&mut PodFact),
) -> Result<Ledger, Error> {
    let mut ledger = Ledger::default();
    ledger.stand_for(configuration.profiles.iter().map(|own| own.scheduler_name.as_str().into()));
    for profile in profiles {
        profile.assemble().profile.keep(&mut ledger);
    }
    filled(client, configuration, ledger, unread, noted).await
}

async fn filled(
    client: &Client,
    configuration: &Configuration,
    mut ledger: Ledger,
    unread: &mut Vec<String>,
    noted: impl FnMut(&mut PodFact),
) -> Result<Ledger, Error> {
    let kinds = Kind::read_by(&ledger);
    unread.extend(fill_with(client, configuration, &mut ledger, &kinds, noted).await?);
    ledger.catch_up(now(client));
    Ok(ledger)
}

/// Has a ledger know every object of these kinds. What cannot be read is told in words.
///
/// # Errors
/// When a kind cannot be listed.
pub(crate) async fn fill(
    client: &Client,
    configuration: &Configuration,
    ledger: &mut Ledger,
    kinds: &BTreeSet<Kind>,
) -> Result<Vec<String>, Error> {
    fill_with(client, configuration, ledger, kinds, |_| ()).await
}

/// The same of pods that this has looked at first.
async fn fill_with(
    client: &Client,
    configuration: &Configuration,
    ledger: &mut Ledger,
    kinds: &BTreeSet<Kind>,
    mut noted: impl FnMut(&mut PodFact),
) -> Result<Vec<String>, Error> {
    let mut intake = Intake::new(configuration);
    for message in feed::list(client, kinds).await? {
        intake.take(ledger, message, &mut noted);
    }
    Ok(intake.end(ledger))
}

impl Answer {
    /// What the pod itself tells.
    pub(crate) fn begun(pod: &Pod, by: AnsweredBy, configuration: &Configuration) -> Self {
        let (namespace, name) = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        let subject = Subject::Pod { namespace, pod: name };
        Self::about(subject, by, State::of(pod, configuration))
    }

    fn about(subject: Subject, by: AnsweredBy, state: State) -> Self {
        Self {
            subject,
            answered_by: by,
            state,
            message: None,
            extenders: Vec::new(),
            group: None,
            quota: None,
            hints: Vec::new(),
            nodes: None,
            unread: Vec::new(),
        }
    }

    /// Adds who is asked besides the nodes.
    pub(crate) fn name_extenders(&mut self, pod: &PodFact, configuration: &Configuration) {
        // Nobody else is asked about a reservation.
        if matches!(self.subject, Subject::Reservation { .. }) {
            return;
        }
        let asked = configuration.extenders.iter().filter(|one| {
            let says = one.filter_verb.is_some() || one.prioritize.is_some();
            says && is_interested(one, &pod.extended)
        });
        self.extenders = asked.map(|one| one.url_prefix.clone()).collect();
    }

    /// The profile that is to find the pod a node; none where nobody is to.
    pub(crate) fn profile<'a>(
        &self,
        pod: &PodFact,
        configuration: &'a Configuration,
    ) -> Option<&'a ProfileConfig> {
        let mut profiles = configuration.profiles.iter();
        let own = profiles.find(|profile| *profile.scheduler_name == *pod.scheduler);
        own.filter(|_| matches!(self.state, State::Waiting { .. }))
    }

    /// Adds what the nodes say, and the message where none can take the pod.
    fn work_out(
        &mut self,
        ledger: &mut Ledger,
        profile: &ProfileConfig,
        pod: &PodFact,
        now: Moment,
    ) {
        let decider = self.ask_nodes(ledger, profile, pod, now);
        let holders = |ledger: &Ledger, quota: &str| ledger.quota_holders(quota, HOLDERS_MAX);
        if let Some(refusal) = self.ask_quota(ledger, profile, pod, holders) {
            self.refused_by_quota(ledger, refusal);
        } else if self.nodes.as_ref().is_some_and(|nodes| nodes.fitting == 0) {
            let waiting = Waiting::of(ledger, &decider, &pod.uid, 0, now);
            self.message = waiting.ok().map(|waiting| waiting.to_string());
        }
    }

    /// Adds what the nodes say.
    pub(crate) fn ask_nodes(
        &mut self,
        ledger: &mut Ledger,
        profile: &ProfileConfig,
        pod: &PodFact,
        now: Moment,
    ) -> Decider {
        let mut decider = Decider::new(profile.assemble().profile, ledger, 0);
        self.nodes = Some(why::explain(ledger, &mut decider, pod, now).into());
        decider
    }
}

/// What the pod was last told, where it has no node.
fn last_told(pod: &Pod) -> Option<String> {
    let told = condition::find(&pod.status.conditions, "PodScheduled")?;
    let says_no = told.status == "False" && !told.message.is_empty();
    says_no.then(|| told.message.clone())
}

impl State {
    fn of(pod: &Pod, configuration: &Configuration) -> Self {
        let (spec, status) = (&pod.spec, &pod.status);
        let known = configuration.profiles.iter().map(|profile| profile.scheduler_name.clone());
        let known: Vec<String> = known.collect();
        if matches!(status.phase, PodPhase::Succeeded | PodPhase::Failed) {
            Self::Ended { phase: format!("{:?}", status.phase) }
        } else if !spec.node_name.is_empty() {
            Self::Bound { node: spec.node_name.clone() }
        } else if pod.metadata.deletion_timestamp.is_some() {
            Self::Deleting
        } else if !spec.scheduling_gates.is_empty() {
            let gates = spec.scheduling_gates.iter();
            Self::Gated { gates: gates.map(|gate| gate.name.clone()).collect() }
        } else if !known.iter().any(|known| known == pod.scheduler()) {
            Self::OtherScheduler { scheduler: pod.scheduler().to_owned(), known }
        } else {
            let nominated = Some(&status.nominated_node_name).filter(|node| !node.is_empty());
            Self::Waiting { standing: None, nominated: nominated.cloned() }
        }
    }
}
