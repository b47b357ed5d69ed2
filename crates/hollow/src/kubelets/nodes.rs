//! The tasks of nodes: registering, renewing leases, reporting conditions and load, and which
//! reports are served.

use http::Method;

use super::layouts::{LAYOUTS_GROUP, Stage};
use super::{
    Due, Effect, FIRST_REPORT_GAP_MS, Kubelets, MEND_MS, Obstacle, PROBE_MS, Queue, TaskState,
    millis,
};
use crate::node::{SeenNode, renewal, report};
use crate::request::{Answer, Chore, JSON, MERGE, Request, STRATEGIC, Subject, Ticket};
use crate::time::{Now, Stamp};
use crate::usage::{self, Usage};

pub(super) const NODES: &str = "/api/v1/nodes";
pub(super) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const METRICS: &str = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics";
const METRICS_GROUP: &str = "/apis/slo.koordinator.sh/v1alpha1";

/// How far a node is in becoming known. One that exists already is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Registration {
    Create,
    Read,
    Label,
    Report,
    Done,
}

/// The question whether what a task writes is served.
pub(super) fn probe(chore: Chore) -> Request {
    let group = if chore == Chore::Layout { LAYOUTS_GROUP } else { METRICS_GROUP };
    let ticket = Ticket::Probe(chore);
    request(ticket, Subject::Probe, Method::GET, group.to_owned(), JSON, Vec::new())
}

pub(super) fn request(
    ticket: Ticket,
    subject: Subject,
    method: Method,
    path: String,
    content_type: &'static str,
    body: Vec<u8>,
) -> Request {
    Request { ticket, subject, method, path, content_type, body, late: None }
}

impl Kubelets {
    /// Gives every node its moment in each interval, evenly and in an order by seed, and
    /// asks who else there is.
    pub(super) fn spread_beats(&mut self, now: Now) {
        for (rank, node) in self.ranked() {
            for chore in [Chore::Lease, Chore::Status, Chore::Metric] {
                let interval = self.interval(chore);
                let offset = interval * rank / self.nodes.len() as u64;
                self.timers.set(now.ms() + offset, Due::Beat(chore, node));
            }
        }
        self.queue(Queue::Register).push_back(Ticket::Opening);
        self.timers.set(now.ms(), Due::Probe(Chore::Metric));
        if self.offers.iter().any(|offer| offer.group.layout.is_some()) {
            self.timers.set(now.ms(), Due::Probe(Chore::Layout));
        }
    }

    fn ranked(&self) -> impl Iterator<Item = (u64, u32)> + use<> {
        let names = self.nodes.iter().zip(0u32..);
        let mut order: Vec<(u64, u32)> =
            names.map(|(node, index)| (self.seed.of("beat", &node.place.name), index)).collect();
        order.sort_unstable();
        (0..).zip(order.into_iter().map(|(_, index)| index))
    }

    fn interval(&self, chore: Chore) -> u64 {
        let interval = match chore {
            Chore::Lease => self.setup.lease_interval,
            Chore::Status | Chore::Register | Chore::Layout => self.setup.status_interval,
            Chore::Metric => self.setup.metric_interval,
        };
        millis(interval).max(1)
    }

    /// The regular time of a task has come; the next one is set first, on the same grid
    /// however late this one is.
    pub(super) fn beat(&mut self, now: Now, due_ms: u64, chore: Chore, node: u32) {
        let interval = self.interval(chore);
        let missed = now.ms().saturating_sub(due_ms) / interval;
        let next = due_ms.saturating_add(interval.saturating_mul(missed + 1));
        self.timers.set(next, Due::Beat(chore, node));
        if chore == Chore::Metric && !self.served.contains(&chore) {
            return;
        }
        let run = &self.nodes[node as usize];
        let known = run.stage == Registration::Done;
        // Whether a node that is gone has come back is only asked now and then.
        if known && (!run.gone || chore == Chore::Status) {
            self.want(due_ms, chore, node);
        }
        if known && chore == Chore::Status {
            self.want_layout(due_ms, node);
        }
    }

    /// Queues a task that does not wait already.
    pub(super) fn want(&mut self, due_ms: u64, chore: Chore, node: u32) {
        let task = self.task(chore, node);
        if task.state != TaskState::Idle {
            return;
        }
        task.state = TaskState::Queued;
        task.due_ms = due_ms;
        let queue = match chore {
            Chore::Lease => Queue::Lease,
            Chore::Register => Queue::Register,
            Chore::Status | Chore::Metric | Chore::Layout => Queue::Report,
        };
        self.queue(queue).push_back(Ticket::Node(chore, node));
    }

    pub(super) fn render_chore(&mut self, now: Now, chore: Chore, node: u32) -> Request {
        let task = self.task(chore, node);
        task.state = TaskState::InFlight;
        let late = std::time::Duration::from_millis(now.ms().saturating_sub(task.due_ms));
        let mut request = match chore {
            Chore::Register => self.render_registration(now, node),
            Chore::Lease => self.render_lease(now, node),
            Chore::Status => {
                let path = format!("{NODES}/{}/status", self.nodes[node as usize].place.name);
                let body = self.told(node).status_patch(self.seed, now);
                let ticket = Ticket::Node(chore, node);
                request(ticket, Subject::NodeStatus, Method::PATCH, path, STRATEGIC, body)
            }
            Chore::Metric => self.render_metric(now, node),
            Chore::Layout => self.render_layout(node),
        };
        if !matches!(chore, Chore::Register | Chore::Layout) {
            request.late = Some(late);
        }
        request
    }

    fn render_registration(&mut self, now: Now, node: u32) -> Request {
        let ticket = Ticket::Node(Chore::Register, node);
        let told = self.told(node);
        let own = format!("{NODES}/{}", told.place.name);
        let stage = self.nodes[node as usize].stage;
        let (method, path, content_type, body) = match stage {
            Registration::Create => {
                (Method::POST, NODES.to_owned(), JSON, told.object(self.seed, now))
            }
            Registration::Read => (Method::GET, own, JSON, Vec::new()),
            Registration::Label => (Method::PATCH, own, MERGE, told.label_patch()),
            Registration::Report | Registration::Done => {
                let body = told.status_patch(self.seed, now);
                (Method::PATCH, own + "/status", STRATEGIC, body)
            }
        };
        request(ticket, Subject::Node, method, path, content_type, body)
    }

    fn render_lease(&mut self, now: Now, node: u32) -> Request {
        let ticket = Ticket::Node(Chore::Lease, node);
        let seconds = self.setup.lease_duration.as_secs();
        let run = &self.nodes[node as usize];
        let own = format!("{LEASES}/{}", run.place.name);
        let (method, path, content_type, body) = if !run.lease_made {
            (Method::POST, LEASES.to_owned(), JSON, self.told(node).lease(seconds, now))
        } else if run.chores[Chore::Lease as usize].failures > 0 {
            (Method::PATCH, own, MERGE, self.told(node).lease_patch(seconds, now))
        } else {
            (Method::PATCH, own, MERGE, renewal(now))
        };
        request(ticket, Subject::Lease, method, path, content_type, body)
    }

    fn render_metric(&mut self, now: Now, node: u32) -> Request {
        let ticket = Ticket::Node(Chore::Metric, node);
        let run = &self.nodes[node as usize];
        if !run.metric_made {
            let body = self.told(node).metric(self.setup.metric_interval.as_secs());
            let path = METRICS.to_owned();
            return request(ticket, Subject::NodeMetric, Method::POST, path, JSON, body);
        }
        let path = format!("{METRICS}/{}/status", run.place.name);
        let body = self.load(now, node);
        request(ticket, Subject::NodeMetric, Method::PATCH, path, MERGE, body)
    }

    fn load(&mut self, now: Now, node: u32) -> Vec<u8> {
        let run = &self.nodes[node as usize];
        let seconds = u64::from(now.stamp().seconds());
        let amount = |name: &str| {
            let columns = &self.offers[run.place.group].columns;
            let found = columns.iter().find(|(own, _)| **own == *name);
            found.and_then(|(_, amount)| u64::try_from(*amount).ok()).unwrap_or(0)
        };
        let capacity = Usage { cpu_millis: amount("cpu"), memory_bytes: amount("memory") };
        let system = usage::of_system(self.seed, &run.place.name, capacity, seconds);
        let slots = run.pods.iter().filter_map(|slot| self.slots[*slot as usize].pod.as_ref());
        let running = slots.filter(|pod| pod.phase() == api::pod::PodPhase::Running);
        let mut pods: Vec<_> =
            running.map(|pod| (pod, usage::of_pod(self.seed, pod, seconds))).collect();
        pods.sort_by(|(a, _), (b, _)| {
            (a.key.namespace(), a.key.name()).cmp(&(b.key.namespace(), b.key.name()))
        });
        let used = pods.iter().fold(system, |sum, (_, usage)| sum.plus(*usage));
        let second = u32::try_from(now.monotonic.as_secs()).unwrap_or(u32::MAX);
        let interval = self.setup.metric_interval.as_secs();
        let history = &mut self.nodes[node as usize].history;
        history.note(second, u32::try_from(interval).unwrap_or(u32::MAX), used);
        report(now, (used, system), history, &pods)
    }

    pub(super) fn node_answered(&mut self, now: Now, chore: Chore, node: u32, answer: Answer) {
        let task = self.task(chore, node);
        if task.state != TaskState::InFlight {
            return;
        }
        task.state = TaskState::Idle;
        let (after, why) = match answer {
            Answer::Later { after, why } => (after, why),
            Answer::Refused(why) if chore == Chore::Register && self.counts.registered == 0 => {
                self.reports.push(Effect::GiveUp(Obstacle::Refused(why)));
                return;
            }
            Answer::Refused(why) => {
                self.task(chore, node).failures = u8::MAX - 1;
                (None, why)
            }
            answer => return self.chore_done(now, chore, node, answer),
        };
        let task = self.task(chore, node);
        task.state = TaskState::Resting;
        let failures = task.failures;
        task.failures = failures.saturating_add(1);
        let name = &self.nodes[node as usize].place.name;
        self.reports.push(Effect::Warn(format!("node {name}: {why}; trying again")));
        self.retry_at(now, Ticket::Node(chore, node), failures, after);
    }

    fn chore_done(&mut self, now: Now, chore: Chore, node: u32, answer: Answer) {
        match chore {
            Chore::Register => self.registration_done(now, node, &answer),
            Chore::Lease => self.lease_done(now, node, &answer),
            Chore::Status => {
                let run = &mut self.nodes[node as usize];
                let gone = std::mem::replace(&mut run.gone, answer == Answer::NotFound);
                if gone && !run.gone {
                    // Another object of the same name: it is taken over as at the start.
                    run.stage = Registration::Read;
                    (run.lease_made, run.metric_made) = (false, false);
                    run.layout = Stage::default();
                    self.counts.registered = self.counts.registered.saturating_sub(1);
                    self.want(now.ms(), Chore::Register, node);
                }
                self.task(chore, node).failures = 0;
            }
            Chore::Metric => self.metric_done(now, node, &answer),
            Chore::Layout => self.layout_done(now, node, &answer),
        }
    }

    fn registration_done(&mut self, now: Now, node: u32, answer: &Answer) {
        let run = &mut self.nodes[node as usize];
        let tried = run.chores[Chore::Register as usize].failures > 0;
        // The answer to an earlier try of ours may have been lost.
        let known = std::mem::replace(&mut run.known, true) || tried;
        if run.stage == Registration::Create && *answer == Answer::Exists && !known {
            let node = run.place.name.clone();
            return self.reports.push(Effect::GiveUp(Obstacle::Met { node }));
        }
        let next = match (run.stage, answer) {
            (Registration::Create, Answer::Done(body)) => match serde_json::from_slice(body) {
                Ok(SeenNode { metadata, .. }) => {
                    run.uid = metadata.uid;
                    Registration::Done
                }
                // It is there now; its uid must be read again.
                Err(_) => Registration::Read,
            },
            (Registration::Create, Answer::Exists) => Registration::Read,
            (_, Answer::NotFound) => Registration::Create,
            (Registration::Read, Answer::Done(body)) => match serde_json::from_slice(body) {
                Ok(SeenNode { metadata, status }) => {
                    run.uid = metadata.uid;
                    let ready = api::condition::find(status.conditions(), "Ready");
                    let kept = ready.filter(|ready| ready.is_true());
                    let since = kept.and_then(|ready| ready.last_transition_time);
                    run.ready_since = since.map_or(now.stamp(), Stamp::from);
                    Registration::Label
                }
                Err(error) => {
                    let why = format!("cannot read the node that exists: {error}");
                    let answer = Answer::Later { after: None, why };
                    run.chores[Chore::Register as usize].state = TaskState::InFlight;
                    return self.node_answered(now, Chore::Register, node, answer);
                }
            },
            (Registration::Label, _) => Registration::Report,
            (Registration::Report | Registration::Done, _) => Registration::Done,
            (stage, _) => stage,
        };
        run.stage = next;
        run.chores[Chore::Register as usize].failures = 0;
        if next != Registration::Done {
            return self.want(now.ms(), Chore::Register, node);
        }
        run.gone = false;
        self.counts.registered += 1;
        self.want(now.ms(), Chore::Lease, node);
        if self.served.contains(&Chore::Metric) {
            self.want(now.ms(), Chore::Metric, node);
        }
        self.want_layout(now.ms(), node);
    }

    fn lease_done(&mut self, now: Now, node: u32, answer: &Answer) {
        let run = &mut self.nodes[node as usize];
        let task = &mut run.chores[Chore::Lease as usize];
        match answer {
            Answer::Exists => {
                // An old lease: the next write names everything in it.
                run.lease_made = true;
                task.failures = 1;
                self.want(now.ms(), Chore::Lease, node);
            }
            Answer::NotFound => {
                // Leases end with their node; whether it is gone, its own report tells.
                let ticket = Ticket::Node(Chore::Lease, node);
                run.lease_made = false;
                task.state = TaskState::Resting;
                let failures = task.failures;
                task.failures = failures.saturating_add(1);
                self.want(now.ms(), Chore::Status, node);
                self.retry_at(now, ticket, failures, None);
            }
            _ => {
                run.lease_made = true;
                task.failures = 0;
            }
        }
    }

    /// Takes in what the watch shows of a node. Whoever thought it dead is told otherwise.
    pub(super) fn see_node(&mut self, now: Now, seen: &SeenNode) {
        let Some(node) = self.by_name.get(&seen.metadata.name).copied() else { return };
        let run = &mut self.nodes[node as usize];
        if run.stage != Registration::Done || run.uid != seen.metadata.uid {
            return;
        }
        let own = &self.offers[run.place.group].group.capacity;
        run.strays = seen.strays(own);
        run.contradicted = !run.strays.is_empty() || !seen.says_what_nodes_report(own);
        if run.contradicted && !seen.is_ready() {
            run.ready_since = now.stamp();
        }
        self.mend_node(now, node);
    }

    /// Reports again what somebody contradicted, and looks after a while whether they still do.
    pub(super) fn mend_node(&mut self, now: Now, node: u32) {
        let run = &mut self.nodes[node as usize];
        if run.contradicted && !run.gone && !std::mem::replace(&mut run.mend_waits, true) {
            self.timers.set(now.ms().saturating_add(MEND_MS), Due::MendNode(node));
            self.want(now.ms(), Chore::Status, node);
        }
    }

    fn metric_done(&mut self, now: Now, node: u32, answer: &Answer) {
        let run = &mut self.nodes[node as usize];
        run.chores[Chore::Metric as usize].failures = 0;
        match (answer, run.metric_made) {
            (Answer::NotFound, false) => {
                // The kind itself is gone.
                self.unserve(now, Chore::Metric);
            }
            (Answer::NotFound, true) => {
                run.metric_made = false;
                if !run.gone {
                    self.want(now.ms(), Chore::Metric, node);
                }
            }
            (_, false) => {
                run.metric_made = true;
                self.want(now.ms(), Chore::Metric, node);
            }
            (_, true) => {}
        }
    }

    /// What a task writes is not served any more; whether it is again, is asked after a while.
    pub(super) fn unserve(&mut self, now: Now, chore: Chore) {
        if self.served.remove(&chore) {
            self.timers.set(now.ms() + PROBE_MS, Due::Probe(chore));
        }
    }

    pub(super) fn probe_answered(&mut self, now: Now, chore: Chore, answer: &Answer) {
        if !matches!(answer, Answer::Done(_)) {
            self.timers.set(now.ms() + PROBE_MS, Due::Probe(chore));
            return;
        }
        if !self.served.insert(chore) {
            return;
        }
        let gap = (self.interval(chore) / self.nodes.len() as u64).min(FIRST_REPORT_GAP_MS);
        for (rank, node) in self.ranked() {
            // The first report comes soon; the regular ones have their own moment.
            let run = &self.nodes[node as usize];
            if run.stage == Registration::Done && self.has_reports(chore, node) {
                let ticket = Ticket::Node(chore, node);
                self.timers.set(now.ms() + gap * rank, Due::Retry(ticket));
            }
        }
    }
}
