//! The core: all hollow nodes and their pods as one state machine.
//!
//! Facts and answers go in through [`Kubelets::step`], together with the time; what is to
//! be sent comes out of [`Kubelets::drain`], no more than the caller has room for and
//! rendered at that moment. So a pod that changes twice before a writer is free is told
//! once, memory does not grow when the API server is slow, and heartbeats, which go first,
//! are never stale. Nothing here waits, and nothing knows a socket.
//!
//! What holds, whatever the order of facts and answers:
//!
//! - nothing is written before it is known that nobody else runs nodes of these names;
//! - at most one write about a pod, and one of each task of a node, is under way;
//! - a pod that has ended stays ended, the same way;
//! - an event that was seen before, or comes late, changes nothing;
//! - what somebody else writes over a report is reported again, at a bounded pace;
//! - the same seed and the same steps give the same writes.

mod layouts;
mod nodes;
mod opening;
mod pods;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use api::Pod;
use api::pod::PodPhase;
use chassis::backoff::doubled;
use chassis::key::Key;

use crate::group::{GroupError, NodeGroup, places};
use crate::history::History;
use crate::node::{SeenNode, Strays, Told};
use crate::pod::PodRun;
use crate::request::{Answer, Chore, Request, Ticket};
use crate::seed::{Seed, mix};
use crate::shape::{Shapes, integer_of};
use crate::time::{Now, Stamp, Timers};

/// How long to wait at first before a failed write is tried again.
const RETRY_MIN: Duration = Duration::from_millis(500);
/// How long to wait at most.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How often to ask whether what nodes report is served, while it is not.
const PROBE_MS: u64 = 15_000;
/// How far apart the first reports of the nodes are at most.
const FIRST_REPORT_GAP_MS: u64 = 20;

/// The least time between two reports that overwrite what somebody else wrote, as often as
/// a kubelet compares: two who disagree do not keep the API server busy.
const MEND_MS: u64 = 10_000;

/// How the nodes behave.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The nodes.
    pub groups: Vec<NodeGroup>,
    /// Where spread and variation come from.
    pub seed: u64,
    /// Time between two renewals of a lease.
    pub lease_interval: Duration,
    /// How long a lease lasts.
    pub lease_duration: Duration,
    /// Time between two reports of a node's conditions.
    pub status_interval: Duration,
    /// Time between two reports of a node's load.
    pub metric_interval: Duration,
    /// How long the containers of a Job's pod run, where its annotations do not say.
    pub job_run: Duration,
    /// Who runs the nodes, as another who would do so is told: no two processes may say the same.
    pub holder: String,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            groups: vec![NodeGroup::of_default_type(5)],
            seed: 1,
            lease_interval: Duration::from_secs(10),
            lease_duration: Duration::from_secs(40),
            status_interval: Duration::from_mins(5),
            metric_interval: Duration::from_mins(1),
            job_run: Duration::from_secs(5),
            holder: "hollow nodes".to_owned(),
        }
    }
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// Time passed.
    Tick,
    /// A pod is in this state.
    Pod(Box<Pod>),
    /// All pods that there were at the start have been told.
    PodsListed,
    /// A pod is gone.
    PodGone {
        /// Which.
        key: Key,
        /// The uid it had.
        uid: Box<str>,
    },
    /// A node is in this state.
    Node(SeenNode),
    /// A request ended.
    Answered(Ticket, Answer),
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this, and say how it ended.
    Send(Request),
    /// Say this in the log.
    Warn(String),
    /// Tell users of a pod, by an Event.
    Note(Note),
    /// End: no node can be registered, and this is why.
    GiveUp(Obstacle),
}

/// What is wrong with a pod, for its users.
#[derive(Debug, PartialEq, Eq)]
pub struct Note {
    /// Which pod.
    pub key: Key,
    /// Its uid.
    pub uid: Box<str>,
    /// Why, as one word.
    pub reason: &'static str,
    /// What, in words.
    pub message: String,
}

/// What keeps nodes from being registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The API server will not have them, in its words.
    Refused(String),
    /// Somebody else runs one of them.
    Held {
        /// Which.
        node: String,
        /// Who.
        holder: String,
    },
    /// Somebody else registered one of them while we were about to.
    Met {
        /// Which.
        node: String,
    },
}

/// How many nodes and pods there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes in all.
    pub nodes: usize,
    /// Nodes that the API server knows.
    pub registered: usize,
    /// Nodes that somebody else may still run; until that is known none is registered.
    pub suspected: usize,
    /// Pods by phase: pending, running, succeeded and failed.
    pub pods: [usize; 4],
}

/// What a group offers, in the integers that are counted with.
#[derive(Debug)]
struct Offer {
    group: NodeGroup,
    /// Amounts in the order in which the kubelet looks at them.
    columns: Vec<(Box<str>, i64)>,
}

/// A node.
#[derive(Debug)]
struct NodeRun {
    place: crate::group::Place,
    uid: Box<str>,
    ready_since: Stamp,
    stage: nodes::Registration,
    /// The number that its addresses follow from.
    block: u32,
    /// Whether its object may be there already.
    known: bool,
    /// Whether its object was deleted while we ran.
    gone: bool,
    lease_made: bool,
    metric_made: bool,
    /// What it used lately.
    history: History,
    layout: layouts::Stage,
    chores: [Task; Chore::COUNT],
    /// Whether the watch last showed conditions or amounts that are not ours.
    contradicted: bool,
    /// What it showed of the amounts of others.
    strays: Strays,
    /// Whether a timer is set to look at that again.
    mend_waits: bool,
    /// Places of its pods.
    pods: Vec<u32>,
    /// What they hold, by column of the offer.
    used: Vec<i64>,
    /// The address that was given last.
    last_address: u8,
}

/// One task of a node.
#[derive(Debug, Clone, Copy)]
struct Task {
    state: TaskState,
    failures: u8,
    /// When it should have been done.
    due_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskState {
    Idle,
    Queued,
    InFlight,
    Resting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The regular time of a task.
    Beat(Chore, u32),
    /// The time to try a task or a pod's write again.
    Retry(Ticket),
    /// Something happens in a pod.
    Pod(u32, u32),
    /// The time to overwrite what somebody else said of a pod.
    MendPod(u32, u32),
    /// The time to look whether somebody still contradicts what a node reports.
    MendNode(u32),
    /// The time to ask whether what a task writes is served.
    Probe(Chore),
    /// The time to look whether somebody else runs a node.
    Look(u32),
}

/// A place for a pod, and how many pods have had it.
#[derive(Debug, Default)]
struct Slot {
    life: u32,
    pod: Option<PodRun>,
}

/// All hollow nodes and their pods.
#[derive(Debug)]
pub struct Kubelets {
    setup: Setup,
    seed: Seed,
    opening: opening::Opening,
    offers: Vec<Offer>,
    nodes: Vec<NodeRun>,
    by_name: BTreeMap<Box<str>, u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_key: BTreeMap<Key, u32>,
    shapes: Shapes,
    timers: Timers<Due>,
    /// What waits for a writer, the most urgent first: leases, registrations, pods, the
    /// rest.
    queues: [VecDeque<Ticket>; Queue::COUNT],
    counts: Counts,
    /// The tasks whose reports are served, of those that write what not every server knows.
    served: BTreeSet<Chore>,
    reports: Vec<Effect>,
    /// Until all pods of the start are known: those that are new to their node. What
    /// others hold there must be known before they are given room.
    held: Option<Vec<Pod>>,
}

impl Kubelets {
    /// Nodes that nobody knows yet. The question who else there is is the first thing to drain.
    ///
    /// # Errors
    /// When the groups have no node, too many, or two of one name.
    pub fn new(setup: Setup, now: Now) -> Result<Self, GroupError> {
        let places = places(&setup.groups)?;
        let offers: Vec<Offer> = setup.groups.iter().cloned().map(Offer::new).collect();
        let idle = Task { state: TaskState::Idle, failures: 0, due_ms: 0 };
        let nodes: Vec<NodeRun> = places
            .into_iter()
            .map(|place| NodeRun {
                used: vec![0; offers[place.group].columns.len()],
                place,
                uid: Box::default(),
                ready_since: now.stamp(),
                stage: nodes::Registration::Create,
                block: 0,
                known: false,
                gone: false,
                lease_made: false,
                metric_made: false,
                history: History::default(),
                layout: layouts::Stage::default(),
                chores: [idle; Chore::COUNT],
                contradicted: false,
                strays: Strays::new(),
                mend_waits: false,
                pods: Vec::new(),
                last_address: 0,
            })
            .collect();
        let names =
            nodes.iter().zip(0..).map(|(node, index)| (node.place.name.as_str().into(), index));
        let mut kubelets = Self {
            seed: Seed(setup.seed),
            opening: opening::Opening::default(),
            offers,
            by_name: names.collect(),
            counts: Counts { nodes: nodes.len(), ..Counts::default() },
            nodes,
            slots: Vec::new(),
            free: Vec::new(),
            by_key: BTreeMap::new(),
            shapes: Shapes::default(),
            timers: Timers::new(),
            queues: Default::default(),
            served: BTreeSet::new(),
            reports: Vec::new(),
            held: Some(Vec::new()),
            setup,
        };
        kubelets.spread_beats(now);
        Ok(kubelets)
    }

    /// Takes in what happened.
    pub fn step(&mut self, now: Now, event: Event) {
        match event {
            Event::Tick => {}
            Event::Pod(pod) => self.hold_or_see(now, pod),
            Event::PodsListed => self.see_held(now),
            Event::PodGone { key, uid } => self.lose_pod(now, &key, &uid),
            Event::Node(seen) => self.see_node(now, &seen),
            Event::Answered(Ticket::Pod(slot, life), answer) => {
                self.pod_answered(now, slot, life, answer);
            }
            Event::Answered(Ticket::Node(chore, node), answer) => {
                self.node_answered(now, chore, node, answer);
            }
            Event::Answered(Ticket::Probe(chore), answer) => {
                self.probe_answered(now, chore, &answer);
            }
            Event::Answered(Ticket::Opening, answer) => self.opening_answered(now, answer),
            Event::Answered(Ticket::Look(node), answer) => self.look_answered(now, node, answer),
        }
        while let Some((due_ms, due)) = self.timers.take(now.ms()) {
            self.come_due(now, due_ms, due);
        }
    }

    /// When a [`Event::Tick`] is due next, on the clock that never jumps.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        self.timers.next_ms().map(Duration::from_millis)
    }

    /// What is to be done now; of requests, no more than `room`.
    pub fn drain(&mut self, now: Now, room: usize) -> Vec<Effect> {
        let mut effects = std::mem::take(&mut self.reports);
        let mut room = room;
        while room > 0 {
            let Some(ticket) = self.queues.iter_mut().find_map(VecDeque::pop_front) else { break };
            let request = match ticket {
                Ticket::Node(chore, node) => Some(self.render_chore(now, chore, node)),
                Ticket::Pod(slot, life) => self.render_pod(slot, life),
                Ticket::Probe(chore) => Some(nodes::probe(chore)),
                Ticket::Opening => Some(self.render_opening()),
                Ticket::Look(node) => Some(self.render_look(node)),
            };
            if let Some(request) = request {
                effects.push(Effect::Send(request));
                room -= 1;
            }
        }
        effects
    }

    /// How many nodes and pods there are.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn come_due(&mut self, now: Now, due_ms: u64, due: Due) {
        match due {
            Due::Beat(chore, node) => self.beat(now, due_ms, chore, node),
            Due::Retry(Ticket::Node(chore, node)) => {
                let task = self.task(chore, node);
                if task.state == TaskState::Resting {
                    task.state = TaskState::Idle;
                }
                if !self.nodes[node as usize].gone || chore == Chore::Status {
                    self.want(now.ms(), chore, node);
                }
            }
            Due::Retry(Ticket::Pod(slot, life)) => self.rest_over(now, slot, life),
            Due::Pod(slot, life) => self.pod_due(now, due_ms, slot, life),
            Due::MendNode(node) => {
                self.nodes[node as usize].mend_waits = false;
                self.mend_node(now, node);
            }
            Due::MendPod(slot, life) => self.mend_due(now, slot, life),
            Due::Probe(chore) | Due::Retry(Ticket::Probe(chore)) => {
                self.queue(Queue::Report).push_back(Ticket::Probe(chore))
            }
            Due::Look(node) => self.queue(Queue::Register).push_back(Ticket::Look(node)),
            Due::Retry(ticket @ (Ticket::Opening | Ticket::Look(_))) => {
                self.queue(Queue::Register).push_back(ticket)
            }
        }
    }

    fn retry_at(&mut self, now: Now, ticket: Ticket, failures: u8, after: Option<Duration>) {
        let full = millis(doubled(RETRY_MIN, RETRY_MAX, failures.into()));
        let number = match ticket {
            Ticket::Node(_, node) | Ticket::Look(node) => u64::from(node),
            Ticket::Pod(slot, life) => u64::from(slot) << 32 | u64::from(life),
            Ticket::Probe(_) | Ticket::Opening => 0,
        };
        let spread = mix(self.seed.0 ^ mix(number) ^ u64::from(failures)) % (full / 2);
        let asked = millis(after.unwrap_or_default().min(RETRY_MAX));
        let wait = (full / 2 + spread).max(asked);
        self.timers.set(now.ms().saturating_add(wait), Due::Retry(ticket));
    }

    fn told(&self, node: u32) -> Told<'_> {
        let run = &self.nodes[node as usize];
        Told {
            block: run.block,
            place: &run.place,
            group: &self.offers[run.place.group].group,
            uid: &run.uid,
            ready_since: run.ready_since,
            strays: &run.strays,
            holder: &self.setup.holder,
        }
    }

    fn queue(&mut self, queue: Queue) -> &mut VecDeque<Ticket> {
        &mut self.queues[queue as usize]
    }

    fn task(&mut self, chore: Chore, node: u32) -> &mut Task {
        &mut self.nodes[node as usize].chores[chore as usize]
    }

    fn count(&mut self, phase: PodPhase, by: isize) {
        let column = match phase {
            PodPhase::Pending | PodPhase::Unknown => 0,
            PodPhase::Running => 1,
            PodPhase::Succeeded => 2,
            PodPhase::Failed => 3,
        };
        let count = &mut self.counts.pods[column];
        *count = count.saturating_add_signed(by);
    }
}

/// What waits to be sent, the most urgent first: a node without its lease is taken for dead.
#[derive(Debug, Clone, Copy)]
enum Queue {
    Lease,
    Register,
    Pod,
    Report,
}

impl Queue {
    const COUNT: usize = 4;
}

impl Offer {
    fn new(group: NodeGroup) -> Self {
        let first = ["pods", "cpu", "memory", "ephemeral-storage"];
        let rest = group.capacity.keys().map(String::as_str).filter(|name| !first.contains(name));
        let columns = first.into_iter().chain(rest).map(|name| {
            let amount = group.capacity.get(name).map_or(0, |amount| integer_of(name, amount));
            (Box::from(name), amount)
        });
        Self { columns: columns.collect(), group }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
