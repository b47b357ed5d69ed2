//! Why a gang has not started, as people and programs are told it: how the gangs of its group stand, what
//! they wait for, and what comes of planning the group in thought.

mod text;

use std::collections::BTreeMap;

use api::pod_group::GangId;
use chassis::client::Client;
use engine::decide::Decider;
use engine::fact::{PodFact, Uid};
use engine::gangs::Readiness;
use engine::ledger::{Ledger, QuotaHolders};
use engine::moment::Moment;
use engine::turn::Candidate;
use engine::why::{
    Deciders, GangStand, GroupRefused, GroupStand, Seat, explain_beside, plan_group,
};
use serde::{Deserialize, Serialize};

use super::{
    Answer, AnsweredBy, HOLDERS_MAX, NodesTold, QuotaTold, State, Subject, WhyError, find,
    listed_with, now,
};
use crate::config::{Configuration, ProfileConfig};
use crate::extenders::consulting;

/// Gangs that start at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupTold {
    /// All that they name, in order, as one text.
    pub name: String,
    /// The gang of the pod, where a pod is asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_of: Option<String>,
    /// How far they have come.
    pub phase: GroupPhase,
    /// How each of them stands.
    pub gangs: Vec<GangTold>,
    /// What they wait for, where that is no node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// What else stands in the way, and what to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// What comes of looking for nodes for all that are needed, where all of them are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanTold>,
}

/// How far a group has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GroupPhase {
    /// Something is missing before any node is looked at.
    Collecting,
    /// All members that are needed are there, and want nodes.
    Complete,
    /// They have nodes, which are being written.
    Starting,
    /// It has started: each member that comes is by itself.
    Started,
}

/// How a gang stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GangTold {
    /// Which, as `namespace/name`.
    pub gang: String,
    /// Whether a PodGroup describes it, and not its pods.
    pub is_object: bool,
    /// How many members there must be, where that is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<u32>,
    /// Which of them count.
    pub match_policy: String,
    /// How many are there.
    pub members: usize,
    /// How many of them have a node.
    pub placed: usize,
    /// How many wait for one and may be tried.
    pub waiting: usize,
    /// How many are held back by scheduling gates.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gated: usize,
    /// How many wait for another scheduler.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub of_other_schedulers: usize,
    /// How many have to get a node at once, where all that are needed are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<usize>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// What comes of looking for nodes for a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanTold {
    /// How many members have to get a node.
    pub needed: usize,
    /// How many of these get one.
    pub fitting: usize,
    /// The first that gets none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedTold>,
}

/// A member that gets no node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedTold {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Which quota has no room, where one has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaTold>,
    /// Whether that is about all members that are needed, and not about this one beside the others.
    #[serde(default)]
    pub is_quota_for_all: bool,
    /// What the nodes say of it while the others have theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodesTold>,
}

/// Members of gangs that want a node, and who decides for each.
pub(crate) type Candidates = BTreeMap<Uid, Candidate>;

/// A member of which it is still to be found out why no node takes it.
pub(crate) struct Unplaced {
    uid: Uid,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Who has a node in thought meanwhile.
    seats: Vec<Seat>,
}

/// Profiles whose pods start together with others.
pub(crate) fn heeding(configuration: &Configuration) -> Vec<&ProfileConfig> {
    let all = configuration.profiles.iter();
    all.filter(|own| own.assemble().profile.gangs.is_some()).collect()
}

/// Notes whether a pod is a member that wants a node. A profile without gangs has each pod start by itself.
pub(super) fn note(candidates: &mut Candidates, pod: &mut PodFact, configuration: &Configuration) {
    let mut profiles = configuration.profiles.iter();
    let Some(own) = profiles.find(|own| *own.scheduler_name == *pod.scheduler) else { return };
    if pod.gang.is_none() {
        return;
    }
    if own.assemble().profile.gangs.is_none() {
        pod.gang = None;
    } else if pod.node.is_none() && !pod.deleting {
        let consulting = consulting(&configuration.extenders);
        let is_consulted = consulting.is_about(&pod.extended);
        let scheduler = pod.scheduler.clone();
        candidates.insert(pod.uid.clone(), Candidate { scheduler, is_consulted });
    }
}

/// Members of a gang that start by themselves, since no profile of their scheduler heeds gangs: how many of
/// each.
#[derive(Debug, Default)]
pub(super) struct Strays(BTreeMap<String, usize>);

impl Strays {
    /// Notes whether a pod is one.
    pub(super) fn note(&mut self, pod: &PodFact, gang: &GangId, configuration: &Configuration) {
        let is_member = pod.gang.as_ref().is_some_and(|own| own.gang == *gang);
        let mut profiles = configuration.profiles.iter();
        let own = profiles.find(|own| *own.scheduler_name == *pod.scheduler);
        if is_member && own.is_some_and(|own| own.assemble().profile.gangs.is_none()) {
            *self.0.entry(pod.scheduler.to_string()).or_default() += 1;
        }
    }

    /// What to do about them.
    pub(super) fn hints(&self, configuration: &Configuration) -> impl Iterator<Item = String> {
        let names: Vec<&str> =
            heeding(configuration).iter().map(|own| own.scheduler_name.as_str()).collect();
        let names = names.join(" or ");
        self.0.iter().map(move |(scheduler, count)| {
            let who = if *count == 1 { "1 pod names".to_owned() } else { format!("{count} pods name") };
            format!(
                "{who} the gang and scheduler {scheduler}, which has each pod start by itself: make pods with \
                 schedulerName {names} instead"
            )
        })
    }
}

/// Says why a gang has not started, from the objects of the cluster alone: every kind that scheduling
/// depends on is listed once.
///
/// # Errors
/// When there is no such gang, or a kind cannot be listed.
pub async fn gang_from_objects(
    client: &Client,
    configuration: &Configuration,
    namespace: &str,
    name: &str,
) -> Result<Answer, WhyError> {
    let mut answer = Answer::of_gang(namespace, name, AnsweredBy::Objects, configuration);
    let profiles = heeding(configuration);
    if profiles.is_empty() {
        return Ok(answer);
    }
    let gang = GangId::new(namespace, name);
    let (mut candidates, mut strays) = (Candidates::new(), Strays::default());
    let noted = |pod: &mut PodFact| {
        strays.note(pod, &gang, configuration);
        note(&mut candidates, pod, configuration);
    };
    let mut ledger =
        listed_with(client, configuration, &profiles, &mut answer.unread, noted).await?;
    answer.tell_group(client, (&mut ledger, &candidates), &gang, configuration).await?;
    match &mut answer.group {
        Some(told) => {
            told.hints.extend(strays.hints(configuration));
            Ok(answer)
        }
        None => Err(WhyError::no_gang(namespace, name)),
    }
}

impl WhyError {
    pub(crate) fn no_gang(namespace: &str, name: &str) -> Self {
        Self::NoGang { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl Answer {
    /// Begins the answer about a gang.
    pub(crate) fn of_gang(
        namespace: &str,
        name: &str,
        by: AnsweredBy,
        configuration: &Configuration,
    ) -> Self {
        let subject = Subject::Gang { namespace: namespace.to_owned(), gang: name.to_owned() };
        let state = match heeding(configuration).is_empty() {
            true => State::NotGanging,
            false => State::Unstarted { standing: None },
        };
        Self::about(subject, by, state)
    }

    /// Whether the pod waits for others, so that no node is looked for it alone.
    pub(crate) fn is_held_by_group(&self) -> bool {
        self.group.as_ref().is_some_and(|own| own.phase != GroupPhase::Started)
    }

    /// Adds how the group of a gang stands, from the objects of the cluster, and why a member gets no node.
    pub(super) async fn tell_group(
        &mut self,
        client: &Client,
        (ledger, candidates): (&mut Ledger, &Candidates),
        gang: &GangId,
        configuration: &Configuration,
    ) -> Result<(), WhyError> {
        let holders = |ledger: &Ledger, quota: &str| ledger.quota_holders(quota, HOLDERS_MAX);
        let Some(unplaced) = self.ask_group(ledger, gang, candidates, configuration, holders)
        else {
            return Ok(());
        };
        match find(client, &unplaced.namespace, &unplaced.name).await {
            Ok(pod) => {
                let fact = PodFact::from(&pod);
                self.explain_unplaced(ledger, &unplaced, &fact, configuration, now(client));
                Ok(())
            }
            // It went meanwhile: what is known of it is told.
            Err(WhyError::NoPod { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Adds how the group of a gang stands and what comes of planning it in thought, and says of which member
    /// it is still to be found out why no node takes it.
    pub(crate) fn ask_group(
        &mut self,
        ledger: &mut Ledger,
        gang: &GangId,
        candidates: &Candidates,
        configuration: &Configuration,
        holders: impl FnOnce(&Ledger, &str) -> QuotaHolders,
    ) -> Option<Unplaced> {
        let is_consulted = |uid: &Uid| candidates.get(uid).is_some_and(|own| own.is_consulted);
        let stand = GroupStand::of(ledger, gang, is_consulted)?;
        let mut told = GroupTold::of(&stand);
        if let Subject::Pod { .. } = self.subject {
            told.member_of = Some(gang.to_string());
        } else if told.phase == GroupPhase::Started {
            self.state = State::Started;
        }
        let mut unplaced = None;
        if let Readiness::Ready(_) = stand.readiness {
            let (mut deciders, of) = deciders(ledger, candidates, configuration);
            let mut deciders = Deciders { all: &mut deciders, of: &of };
            let plan = plan_group(ledger, &stand, &mut deciders);
            self.message = plan.refused.as_ref().map(|own| own.waiting.to_string());
            let refused = plan.refused.as_ref();
            told.plan = Some(PlanTold {
                needed: plan.needed,
                fitting: plan.seats.len(),
                refused: refused.and_then(|own| RefusedTold::of(own, ledger, holders)),
            });
            let is_by_nodes = |own: &GroupRefused| own.quota.is_none();
            unplaced = plan.refused.filter(is_by_nodes).and_then(|own| {
                let row = ledger.pod(&own.member)?;
                let (namespace, name) = (row.namespace.to_string(), row.name.to_string());
                Some(Unplaced { uid: own.member, namespace, name, seats: plan.seats })
            });
        }
        self.group = Some(told);
        unplaced
    }

    /// Adds what the nodes say of a member that gets none, where this is still the same pod.
    pub(crate) fn explain_unplaced(
        &mut self,
        ledger: &mut Ledger,
        unplaced: &Unplaced,
        fact: &PodFact,
        configuration: &Configuration,
        now: Moment,
    ) {
        let mut profiles = configuration.profiles.iter();
        let profile = profiles.find(|own| *own.scheduler_name == *fact.scheduler);
        let plan = self.group.as_mut().and_then(|own| own.plan.as_mut());
        let refused = plan.and_then(|own| own.refused.as_mut());
        let Some((profile, refused)) = profile.zip(refused) else { return };
        if fact.uid == unplaced.uid {
            let mut decider = Decider::new(profile.assemble().profile, ledger, 0);
            let told = explain_beside(ledger, &mut decider, &unplaced.seats, fact, now);
            refused.nodes = Some(told.into());
        }
    }
}

/// Those who decide for members, and which is whose.
fn deciders(
    ledger: &mut Ledger,
    candidates: &Candidates,
    configuration: &Configuration,
) -> (Vec<Decider>, BTreeMap<Uid, usize>) {
    let profiles = heeding(configuration);
    let number = |own: &Candidate| {
        profiles.iter().position(|profile| *profile.scheduler_name == *own.scheduler)
    };
    let of = candidates.iter().filter_map(|(uid, own)| Some((uid.clone(), number(own)?)));
    let of = of.collect();
    let decider = |own: &&ProfileConfig| Decider::new(own.assemble().profile, ledger, 0);
    (profiles.iter().map(decider).collect(), of)
}

impl GroupTold {
    fn of(stand: &GroupStand) -> Self {
        let (phase, waits_for) = match &stand.readiness {
            Readiness::Started => (GroupPhase::Started, None),
            Readiness::Ready(_) => (GroupPhase::Complete, None),
            Readiness::Waits(wait) => (GroupPhase::Collecting, Some(wait.to_string())),
        };
        let hint = |gang: &GangId| {
            let names = &stand.group.key;
            match stand.unknown.contains(gang) {
                true => format!(
                    "gang {gang}, which is named to start with these, is not there: create it, or take it \
                     out of annotation gang.scheduling.koordinator.sh/groups"
                ),
                false => format!(
                    "gang {gang} does not name the same gangs, so that it has to start first: have it \
                     name {names} as well, or take it out of annotation \
                     gang.scheduling.koordinator.sh/groups"
                ),
            }
        };
        let hints = match phase {
            GroupPhase::Collecting => stand.group.first.iter().map(hint).collect(),
            _ => Vec::new(),
        };
        Self {
            name: stand.group.key.to_string(),
            member_of: None,
            phase,
            gangs: stand.gangs.iter().map(GangTold::of).collect(),
            waits_for,
            hints,
            plan: None,
        }
    }
}

impl GangTold {
    fn of(own: &GangStand) -> Self {
        Self {
            gang: own.gang.to_string(),
            is_object: own.is_object,
            min: own.min,
            match_policy: own.policy.as_str().to_owned(),
            members: own.members,
            placed: own.placed,
            waiting: own.waiting,
            gated: own.gated,
            of_other_schedulers: own.others,
            needed: own.needed,
        }
    }
}

impl RefusedTold {
    fn of(
        own: &GroupRefused,
        ledger: &Ledger,
        holders: impl FnOnce(&Ledger, &str) -> QuotaHolders,
    ) -> Option<Self> {
        let row = ledger.pod(&own.member)?;
        let quota = own.quota.as_ref();
        let quota = quota.map(|own| QuotaTold::of(own, &holders(ledger, &own.refusal.quota)));
        Some(Self {
            namespace: row.namespace.to_string(),
            pod: row.name.to_string(),
            quota,
            is_quota_for_all: own.is_whole,
            nodes: None,
        })
    }
}
