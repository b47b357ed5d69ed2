//! What is shown of the queue, of the ledger and of decisions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chassis::words::cut;
use engine::fact::{PodRef, Uid};
use engine::ledger::{Ledger, NodeIndex, PodRow};
use engine::moment::Moment;
use engine::needs::Amounts;
use engine::plugin::{Plugin, Plugins};
use engine::queue::{self, Rejection};
use engine::turn::{self, Engine, Verdict};
use engine::why::amount;
use serde::{Deserialize, Serialize};

use crate::core::Core;
use crate::why::Standing;

/// How much is kept of why a pod waits.
const MESSAGE_KEPT: usize = 2048;
/// How many pods of the queue are shown.
pub const ROWS_MAX: usize = 1000;

/// Where the pods stand that want a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueView {
    /// How many there are by where they stand.
    pub counts: BTreeMap<String, usize>,
    /// Those that are tried next, in their order, and then others.
    pub pods: Vec<QueueRow>,
    /// How many are not shown.
    pub left_out: usize,
}

/// What a Reservation is among pods.
const RESERVATION: &str = "Reservation";
/// What gangs that start at once are among pods.
const GANG_GROUP: &str = "GangGroup";

/// A pod that wants a node, or gangs whose members want some at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueRow {
    /// `Reservation` where it is one, `GangGroup` where it is gangs, and no pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its namespace, which Reservations and gangs do not have.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name, or the gangs.
    pub pod: String,
    /// How many members the gangs have, where it is gangs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<usize>,
    /// Where it stands.
    #[serde(flatten)]
    pub standing: Standing,
    /// The plugins that refused it last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_by: Vec<String>,
}

/// What the facts add up to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerView {
    /// The nodes by name.
    pub nodes: Vec<NodeView>,
}

/// What is known of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// Its name.
    pub node: String,
    /// What pods may request of it.
    pub allocatable: BTreeMap<String, String>,
    /// What pods do request, those included that are only decided for it, and what reservations hold that
    /// no pod uses.
    pub requested: BTreeMap<String, String>,
    /// How many pods it has, those included.
    pub pods: i64,
    /// How many it takes.
    pub pods_allowed: i64,
    /// Pods that were decided for it, and are not seen there yet.
    pub claims: Vec<String>,
    /// Pods for which room is made on it.
    pub nominated: Vec<String>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionView {
    /// When it was made.
    pub time: String,
    /// `Reservation` where it is about one, and no pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The pod's namespace, which Reservations do not have.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// In whose name.
    pub scheduler: String,
    /// How often the pod had been tried, this time included.
    pub attempt: u32,
    /// `bind`, `prepare`, `heldBack`, `consult`, `wait`, `failed` or `unprepared`.
    pub verdict: String,
    /// The node that was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The plugins that refused it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_by: Vec<String>,
    /// How long the attempt had lasted by then, where it waited for somebody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// What came of a Binding: `bound`, `refused` or `lost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// How long after the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_seconds: Option<f64>,
}

/// A pod or a Reservation, as it is told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Whose {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) kind: Option<String>,
}

impl Whose {
    fn new(is_reservation: bool, namespace: &str, name: &str) -> Self {
        let (kind, namespace) = match is_reservation {
            true => (Some(RESERVATION.to_owned()), String::new()),
            false => (None, namespace.to_owned()),
        };
        Self { namespace, name: name.to_owned(), kind }
    }

    /// The one of this row.
    pub(super) fn of(row: &PodRow) -> Self {
        Self::new(row.is_reservation(), &row.namespace, &row.name)
    }

    /// Whether it is in this namespace.
    pub(super) fn is_within(&self, namespace: &str) -> bool {
        self.kind.is_none() && self.namespace == namespace
    }
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Some(kind) => write!(f, "{kind} {}", self.name),
            None => write!(f, "{}/{}", self.namespace, self.name),
        }
    }
}

/// A decision as it is remembered.
#[derive(Debug, Clone)]
pub(crate) struct Decided {
    at: Moment,
    pod: PodRef,
    scheduler: Arc<str>,
    attempt: u32,
    fate: Fate,
    /// When the attempt began.
    since: Moment,
    answer: Option<(Moment, &'static str)>,
}

/// What was decided, in few words.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    Bind(Box<str>),
    Prepare(Box<str>),
    /// The pod could have had a node, to which nobody can bind it for now.
    HeldBack(&'static str),
    Consult(usize),
    Wait(Box<str>, Plugins),
    Failed(Box<str>),
    Unprepared(Box<str>),
}

impl Fate {
    /// What a verdict means, which has this message where the pod waits: what every node said is too
    /// much to keep.
    pub(crate) fn of(verdict: &Verdict, message: &str) -> Self {
        match verdict {
            Verdict::Bind(node, _) => Self::Bind(node.clone()),
            Verdict::Prepare(node, _) => Self::Prepare(node.clone()),
            Verdict::Consult(_, nodes) => Self::Consult(nodes.len()),
            Verdict::Wait(waiting) => {
                let Rejection { unschedulable, pending, .. } = waiting.rejection;
                let message = cut(message.to_owned(), MESSAGE_KEPT);
                Self::Wait(message.into(), unschedulable.and(pending))
            }
            Verdict::Await(wait) => {
                let message = cut(wait.to_string(), MESSAGE_KEPT);
                Self::Wait(message.into(), Plugins::from_iter([Plugin::Coscheduling]))
            }
            Verdict::Failed(why) => Self::Failed(why.clone()),
            Verdict::Unprepared(failure) => Self::Unprepared(failure.to_string().into()),
        }
    }
}

impl Decided {
    pub(crate) fn new(
        pod: &PodRef,
        scheduler: &Arc<str>,
        attempt: u32,
        fate: Fate,
        (since, at): (Moment, Moment),
    ) -> Self {
        let (pod, scheduler) = (pod.clone(), scheduler.clone());
        Self { at, pod, scheduler, attempt, fate, since, answer: None }
    }

    /// What it is about.
    pub(super) fn whose(&self) -> Whose {
        let PodRef { namespace, name, is_reservation, .. } = &self.pod;
        Whose::new(*is_reservation, namespace, name)
    }

    /// Whose decision it is.
    pub(crate) fn uid(&self) -> &Uid {
        &self.pod.uid
    }

    /// What came of it, where that is to be waited for.
    pub(crate) fn answered(&mut self, answer: turn::Answer, now: Moment) {
        let word = match answer {
            turn::Answer::Done => "bound",
            turn::Answer::Refused => "refused",
            turn::Answer::Lost => "lost",
        };
        self.answer = Some((now, word));
    }
}

impl From<&Decided> for DecisionView {
    fn from(decided: &Decided) -> Self {
        let Decided { at, pod: _, scheduler, attempt, fate, since, answer } = decided;
        let mut refused_by = Vec::new();
        let (verdict, node, message) = match fate {
            Fate::Bind(node) => ("bind", Some(node.to_string()), None),
            Fate::Prepare(node) => ("prepare", Some(node.to_string()), None),
            Fate::HeldBack(why) => ("heldBack", None, Some((*why).to_owned())),
            Fate::Consult(nodes) => {
                ("consult", None, Some(format!("extenders are asked about {nodes} nodes")))
            }
            Fate::Failed(why) => ("failed", None, Some(why.to_string())),
            Fate::Wait(why, plugins) => {
                refused_by = plugins.iter().map(|plugin| plugin.to_string()).collect();
                ("wait", None, Some(why.to_string()))
            }
            Fate::Unprepared(why) => ("unprepared", None, Some(why.to_string())),
        };
        let Whose { kind, namespace, name } = decided.whose();
        Self {
            time: time(*at),
            kind,
            namespace,
            pod: name,
            scheduler: scheduler.to_string(),
            attempt: *attempt,
            verdict: verdict.to_owned(),
            node,
            message,
            refused_by,
            seconds: Some(at.since(*since).as_secs_f64()).filter(|seconds| *seconds > 0.0),
            answer: answer.map(|(_, word)| word.to_owned()),
            answer_seconds: answer.map(|(then, _)| then.since(*at).as_secs_f64()),
        }
    }
}

/// A moment, as it is told.
pub(crate) fn time(at: Moment) -> String {
    let time = jiff::Timestamp::from_nanosecond(at.0.into());
    time.map(|time| time.to_string()).unwrap_or_default()
}

/// Where a pod stands, as it is told.
pub(super) fn standing(standing: queue::Standing, now: Moment) -> Standing {
    let left = |until: Moment| until.next_window().since(now);
    let seconds = |left: Duration| left.as_secs() + u64::from(left.subsec_nanos() > 0);
    match standing {
        queue::Standing::Active => Standing::Active,
        queue::Standing::Backoff(until) => Standing::Backoff { seconds_left: seconds(left(until)) },
        queue::Standing::ErrorBackoff(until) => {
            Standing::ErrorBackoff { seconds_left: seconds(left(until)) }
        }
        queue::Standing::Waiting => Standing::Waiting,
        queue::Standing::Gated => Standing::Gated,
        queue::Standing::InFlight => Standing::InFlight,
    }
}

/// The places of the queue, by the number of each.
const PLACES: [&str; 6] = ["active", "backoff", "errorBackoff", "waiting", "gated", "inFlight"];

fn place(standing: queue::Standing) -> usize {
    match standing {
        queue::Standing::Active => 0,
        queue::Standing::Backoff(_) => 1,
        queue::Standing::ErrorBackoff(_) => 2,
        queue::Standing::Waiting => 3,
        queue::Standing::Gated => 4,
        queue::Standing::InFlight => 5,
    }
}

/// What is copied of the queue, before it is put in order and into words.
pub(super) struct QueueCopy {
    counts: [usize; PLACES.len()],
    rows: Vec<RowCopy>,
    now: Moment,
}

struct RowCopy {
    whose: Whose,
    members: Option<usize>,
    standing: queue::Standing,
    refused: Plugins,
}

/// What an entry of the queue stands for, where that is of the namespace which is asked about, if one is: a pod,
/// or gangs that have so many members.
fn entry(engine: &Engine, uid: &Uid, namespace: Option<&str>) -> Option<(Whose, Option<usize>)> {
    let ledger = engine.ledger();
    if let Some(row) = ledger.pod(uid) {
        let is_within = |own: &str| *row.namespace == *own && !row.is_reservation();
        return namespace.is_none_or(is_within).then(|| (Whose::of(row), None));
    }
    let group = engine.group_of_entry(uid)?;
    let is_within = |own: &str| group.gangs.iter().any(|gang| gang.namespace() == own);
    let members = group.gangs.iter().map(|gang| ledger.gangs.members(gang).len()).sum();
    let (name, kind) = (group.key.to_string(), Some(GANG_GROUP.to_owned()));
    let whose = Whose { namespace: String::new(), name, kind };
    namespace.is_none_or(is_within).then_some((whose, Some(members)))
}

impl QueueCopy {
    /// The pods and gangs of one namespace, or of all.
    pub(super) fn of(core: &Core, namespace: Option<&str>, now: Moment) -> Self {
        let engine = core.engine();
        let queue = engine.queue();
        let mut copy = Self { counts: [0; PLACES.len()], rows: Vec::new(), now };
        let mut take = |uid: &Uid, standing: queue::Standing| {
            let Some((whose, members)) = entry(engine, uid, namespace) else { return };
            copy.counts[place(standing)] += 1;
            if copy.rows.len() == ROWS_MAX {
                return;
            }
            let refused = queue.rejection(uid).unwrap_or_default();
            let refused = refused.unschedulable.and(refused.pending);
            copy.rows.push(RowCopy { whose, members, standing, refused });
        };
        for uid in queue.active() {
            take(uid, queue::Standing::Active);
        }
        for (uid, own) in queue.standings().filter(|(_, own)| *own != queue::Standing::Active) {
            take(uid, own);
        }
        copy
    }

    /// The same for people.
    pub(super) fn into_view(self) -> QueueView {
        let Self { counts, mut rows, now } = self;
        let active = counts[place(queue::Standing::Active)].min(rows.len());
        rows[active..].sort_by(|a, b| a.whose.cmp(&b.whose));
        let all: usize = counts.iter().sum();
        let counts = PLACES.into_iter().zip(counts).filter(|(_, count)| *count > 0);
        let row = |row: RowCopy| QueueRow {
            kind: row.whose.kind,
            namespace: row.whose.namespace,
            pod: row.whose.name,
            members: row.members,
            standing: standing(row.standing, now),
            refused_by: row.refused.iter().map(|plugin| plugin.to_string()).collect(),
        };
        QueueView {
            counts: counts.map(|(place, count)| (place.to_owned(), count)).collect(),
            left_out: all - rows.len(),
            pods: rows.into_iter().map(row).collect(),
        }
    }
}

impl LedgerView {
    /// One node, or all that are there.
    pub(super) fn of(ledger: &Ledger, only: Option<&str>) -> Self {
        let mut claims: BTreeMap<NodeIndex, Vec<String>> = BTreeMap::new();
        for (_, row) in ledger.pods().filter(|(_, row)| !row.is_bound()) {
            if let Some(node) = row.node() {
                claims.entry(node).or_default().push(named(row));
            }
        }
        let nodes = ledger.nodes.present().iter();
        let nodes = nodes.filter(|node| only.is_none_or(|name| ledger.nodes.name(*node) == name));
        let view = |node| NodeView::of(ledger, node, claims.get(&node).cloned());
        let mut nodes: Vec<NodeView> = nodes.map(view).collect();
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        Self { nodes }
    }
}

fn named(row: &PodRow) -> String {
    Whose::of(row).to_string()
}

impl NodeView {
    fn of(ledger: &Ledger, node: NodeIndex, claims: Option<Vec<String>>) -> Self {
        let nodes = &ledger.nodes;
        let (name, at) = (nodes.name(node), node.get());
        let (allocatable, requested) = (nodes.resources.allowed(node), requested(ledger, node));
        let mut claims = claims.unwrap_or_default();
        claims.sort_unstable();
        let awaited = ledger.awaited(name).filter_map(|uid| ledger.pod(uid));
        Self {
            node: name.to_owned(),
            allocatable: told(&allocatable),
            requested: told(&requested),
            pods: nodes.pods[at],
            pods_allowed: nodes.pods_allowed[at],
            claims,
            nominated: awaited.map(named).collect(),
        }
    }
}

/// What pods request of a node, of what it has.
pub(super) fn requested(ledger: &Ledger, node: NodeIndex) -> Amounts {
    let (resources, at) = (&ledger.nodes.resources, node.get());
    let scalars = resources.allowed(node).scalars.into_iter();
    let taken = |name: Box<str>| {
        let requested = resources.requested(node, &name);
        (name, requested)
    };
    Amounts {
        cpu_millis: resources.cpu.requested[at],
        memory_bytes: resources.memory.requested[at],
        storage_bytes: resources.storage.requested[at],
        scalars: scalars.map(|(name, _)| taken(name)).collect(),
    }
}

fn told(amounts: &Amounts) -> BTreeMap<String, String> {
    let Amounts { cpu_millis, memory_bytes, storage_bytes, scalars } = amounts;
    let common =
        [("cpu", *cpu_millis), ("memory", *memory_bytes), ("ephemeral-storage", *storage_bytes)];
    let scalars = scalars.iter().map(|(name, own)| (&**name, *own));
    let all = common.into_iter().chain(scalars);
    all.map(|(name, own)| (name.to_owned(), amount(name, own))).collect()
}
