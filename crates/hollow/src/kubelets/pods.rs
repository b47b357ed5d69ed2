//! The pods of hollow nodes: taking them in, giving them room and an address, telling the
//! API server how they are, and letting them go.

use std::net::Ipv4Addr;
use std::sync::Arc;

use api::Pod;
use api::condition::find;
use api::pod::PodPhase;
use api::priority::PriorityBand;
use api::qos::QosClass;
use chassis::key::Key;
use http::Method;

use super::{Due, Effect, Kubelets, MEND_MS, Note, Queue, millis};
use crate::address::{host_address, number_of, pod_address};
use crate::pod::{Final, Going, NoRoom, PodRun, Resize, Surroundings, Uid, Writing, generation_of};
use crate::request::{Answer, JSON, Request, STRATEGIC, Subject, Ticket};
use crate::seed::within;
use crate::shape::{Amounts, Shape};
use crate::time::{Now, Stamp};

/// How long it takes to start a pod whose annotations do not say.
const START_MS: (u64, u64) = (50, 250);
/// The last number of an address in the block of a node.
const ADDRESS_MAX: u8 = 254;

/// Whether nobody has run a pod yet.
fn is_new(pod: &Pod) -> bool {
    pod.status.start_time.is_none() && !pod.status.phase.is_terminal()
}

/// An amount that a node does not have.
struct Shortage {
    resource: Box<str>,
    requested: i64,
    used: i64,
    capacity: i64,
}

impl Shortage {
    fn message(&self) -> String {
        let Self { resource, requested, used, capacity } = self;
        format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, \
             capacity: {capacity}"
        )
    }
}

impl Kubelets {
    pub(super) fn hold_or_see(&mut self, now: Now, pod: Box<Pod>) {
        let waits = is_new(&pod) || find(&pod.status.conditions, "PodResizePending").is_some();
        match &mut self.held {
            Some(held) if waits && !pod.status.phase.is_terminal() => held.push(*pod),
            _ => self.see_pod(now, &pod),
        }
    }

    /// Looks at the pods that were held back: first those that run, whose amounts were to
    /// change, then the new ones, each the oldest first.
    pub(super) fn see_held(&mut self, now: Now) {
        let mut held = self.held.take().unwrap_or_default();
        held.sort_by(|a, b| {
            let age = |pod: &Pod| pod.metadata.creation_timestamp;
            let rank = |pod: &Pod| (is_new(pod), age(pod));
            rank(a).cmp(&rank(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name))
        });
        for pod in held {
            self.see_pod(now, &pod);
        }
    }

    fn see_pod(&mut self, now: Now, pod: &Pod) {
        let meta = &pod.metadata;
        let key = Key::new(&meta.namespace, &meta.name);
        let known = self.by_key.get(&key).copied();
        let uid = Uid::new(&meta.uid);
        if let Some(slot) = known {
            if self.slots[slot as usize].pod.as_ref().is_some_and(|own| own.uid == uid) {
                return self.change_pod(now, slot, pod);
            }
            self.remove_pod(now, slot);
        }
        if let Some(node) = self.by_name.get(pod.spec.node_name.as_str()).copied() {
            self.take_pod(now, node, pod);
        }
    }

    pub(super) fn lose_pod(&mut self, now: Now, key: &Key, uid: &str) {
        if let Some(held) = &mut self.held {
            held.retain(|pod| pod.metadata.uid != uid);
        }
        let Some(slot) = self.by_key.get(key).copied() else { return };
        let uid = Uid::new(uid);
        if self.slots[slot as usize].pod.as_ref().is_some_and(|own| own.uid == uid) {
            self.remove_pod(now, slot);
        }
    }

    fn shape_of(&mut self, pod: &Pod) -> Arc<Shape> {
        let shape = Shape::of(pod, millis(self.setup.job_run));
        self.shapes.share(shape)
    }

    fn take_pod(&mut self, now: Now, node: u32, pod: &Pod) {
        let shape = self.shape_of(pod);
        let drawn = || within(self.seed.of("start", &pod.metadata.uid), START_MS.0, START_MS.1);
        let create_ms = now.ms().saturating_add(shape.start_ms.unwrap_or_else(drawn));
        let mut run = PodRun::new(pod, shape, node, create_ms);
        if run.adopt(pod, now) {
            let block = self.nodes[node as usize].block;
            run.address = number_of(block, &pod.status.pod_ip).unwrap_or(0);
            self.hold_to_what_is_left(now, &mut run);
        } else if let Err(short) = self.fits(node, &run.shape.requests, &Amounts::new(), 1) {
            run.reject(now, &format!("OutOf{}", short.resource), &short.message());
        } else {
            run.admit(now);
            self.tell_faults(pod, &run.shape);
        }
        let slot = self.place(run);
        self.nodes[node as usize].pods.push(slot);
        let pod_run = self.pod(slot);
        let (key, phase) = (pod_run.key.clone(), pod_run.counted);
        self.by_key.insert(key, slot);
        self.count(phase, 1);
        self.charge(slot);
        self.follow_deletion(now, slot, pod);
        self.pod(slot).compare(pod);
        self.settle(now, slot);
    }

    /// Tells the users of a pod what is wrong with its annotations.
    fn tell_faults(&mut self, pod: &Pod, shape: &Shape) {
        for fault in &shape.faults {
            self.reports.push(Effect::Note(Note {
                key: Key::new(&pod.metadata.namespace, &pod.metadata.name),
                uid: pod.metadata.uid.as_str().into(),
                reason: fault.kind.reason(),
                message: fault.message.to_string(),
            }));
        }
    }

    /// A pod that a former process ran has its room. Where there is none for what it asks for
    /// now, that is a change which the node had not taken: until it can be, the pod holds what
    /// others leave.
    fn hold_to_what_is_left(&mut self, now: Now, run: &mut PodRun) {
        let fits = self.feasible(run.node, &run.shape.requests).and_then(|()| {
            let fits = self.fits(run.node, &run.shape.requests, &Amounts::new(), 0);
            fits.map_err(|short| (NoRoom::Deferred, short.message()))
        });
        let Err((reason, message)) = fits else { return };
        if run.is_finished() {
            return;
        }
        let mut left = (*run.shape).clone();
        for (name, amount) in &mut left.requests {
            if let Some((capacity, used)) = self.column(run.node, name) {
                *amount = (*amount).min(capacity.saturating_sub(used)).max(0);
            }
        }
        let wanted = std::mem::replace(&mut run.shape, self.shapes.share(left));
        let (message, since) = (message.into(), now.stamp());
        run.resize = Some(Box::new(Resize { wanted, reason, message, since }));
        run.touch();
    }

    fn place(&mut self, run: PodRun) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(super::Slot::default());
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        self.slots[slot as usize].pod = Some(run);
        slot
    }

    /// The pod in a place that is known to have one.
    fn pod(&mut self, slot: u32) -> &mut PodRun {
        self.slots[slot as usize].pod.as_mut().expect("the place of a known pod is taken")
    }

    fn change_pod(&mut self, now: Now, slot: u32, pod: &Pod) {
        let shape = self.shape_of(pod);
        let run = self.pod(slot);
        (run.band, run.qos) = (PriorityBand::stated_by(pod), QosClass::of_pod(pod));
        let generation = generation_of(pod);
        if generation > run.generation {
            run.generation = generation;
            if !run.is_finished() {
                run.touch();
            }
        }
        let end = match pod.status.phase {
            PodPhase::Succeeded => Some(Final::Succeeded),
            PodPhase::Failed => Some(Final::Failed),
            PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => None,
        };
        if let Some(end) = end.filter(|_| !run.is_finished()) {
            run.end_as(now, end);
        }
        if !run.is_finished() {
            let told = run.resize.as_ref().map_or(&run.shape, |resize| &resize.wanted);
            if told.faults != shape.faults {
                self.tell_faults(pod, &shape);
            }
            self.reshape(now, slot, &shape);
        }
        self.shapes.release(&shape);
        drop(shape);
        self.pod(slot).heed_gates(now, pod);
        self.follow_deletion(now, slot, pod);
        self.pod(slot).compare(pod);
        self.settle(now, slot);
    }

    /// Takes a change of amounts or annotations, if the node has room for it.
    fn reshape(&mut self, now: Now, slot: u32, shape: &Arc<Shape>) {
        let run = self.pod(slot);
        let waits = run.resize.as_ref().is_some_and(|resize| resize.wanted == *shape);
        if waits || !run.shape.has_containers_of(shape) {
            return;
        }
        if run.shape == *shape {
            // What waited was taken back.
            if let Some(resize) = run.resize.take() {
                run.touch();
                self.shapes.release(&resize.wanted);
            }
            return;
        }
        let (node, old) = (run.node, run.shape.clone());
        if old.has_amounts_of(shape) {
            run.resize = None;
            run.reshape(now, shape.clone());
        } else {
            self.resize(now, slot, node, shape);
        }
        self.shapes.release(&old);
    }

    fn resize(&mut self, now: Now, slot: u32, node: u32, shape: &Arc<Shape>) {
        let old = self.pod(slot).shape.clone();
        let verdict = self.feasible(node, &shape.requests).and_then(|()| {
            let held = if self.pod(slot).charged { old.requests.clone() } else { Amounts::new() };
            let fits = self.fits(node, &shape.requests, &held, 0);
            fits.map_err(|short| (NoRoom::Deferred, short.message()))
        });
        match verdict {
            Ok(()) => {
                self.discharge(slot);
                let run = self.pod(slot);
                run.resize = None;
                run.reshape(now, shape.clone());
                self.charge(slot);
            }
            Err((reason, message)) => {
                let run = self.pod(slot);
                let known = run.resize.as_ref().map(|resize| resize.since);
                let since = known.unwrap_or(now.stamp());
                let (wanted, message) = (shape.clone(), message.into());
                run.resize = Some(Box::new(Resize { wanted, reason, message, since }));
                run.touch();
            }
        }
    }

    fn feasible(&self, node: u32, wanted: &Amounts) -> Result<(), (NoRoom, String)> {
        for name in ["memory", "cpu"] {
            let (capacity, _) = self.column(node, name).unwrap_or((0, 0));
            let requested = wanted.get(name).copied().unwrap_or(0);
            if requested > capacity {
                let message = format!(
                    "Node didn't have enough capacity: {name}, requested: {requested}, \
                     capacity: {capacity}"
                );
                return Err((NoRoom::Infeasible, message));
            }
        }
        Ok(())
    }

    /// What a node has of a resource, and what of it is held.
    fn column(&self, node: u32, name: &str) -> Option<(i64, i64)> {
        let run = &self.nodes[node as usize];
        let columns = &self.offers[run.place.group].columns;
        let index = columns.iter().position(|(own, _)| **own == *name)?;
        Some((columns[index].1, run.used[index]))
    }

    /// Whether a node has room, as the kubelet counts it.
    fn fits(&self, node: u32, wanted: &Amounts, held: &Amounts, pods: i64) -> Result<(), Shortage> {
        let short = |resource: &str, requested, used, capacity| Shortage {
            resource: resource.into(),
            requested,
            used,
            capacity,
        };
        let (room, used) = self.column(node, "pods").unwrap_or((0, 0));
        if used.saturating_add(pods) > room {
            return Err(short("pods", pods, used, room));
        }
        let first = ["cpu", "memory", "ephemeral-storage"];
        let rest = wanted.keys().map(|name| &**name).filter(|name| !first.contains(name));
        for name in first.into_iter().chain(rest) {
            let Some(requested) = wanted.get(name).copied() else { continue };
            let (capacity, used) = match self.column(node, name) {
                Some(column) => column,
                // A resource of the cluster, or one that somebody else counts.
                None if name.contains('/') => continue,
                None => (0, 0),
            };
            let used = used.saturating_sub(held.get(name).copied().unwrap_or(0));
            if requested > capacity.saturating_sub(used) {
                return Err(short(name, requested, used, capacity));
            }
        }
        Ok(())
    }

    fn charge(&mut self, slot: u32) {
        let run = self.pod(slot);
        if !run.charged && !run.is_finished() {
            run.charged = true;
            self.book(slot, 1);
        }
    }

    fn discharge(&mut self, slot: u32) {
        if std::mem::take(&mut self.pod(slot).charged) {
            self.book(slot, -1);
        }
    }

    fn book(&mut self, slot: u32, sign: i64) {
        let run = self.slots[slot as usize].pod.as_ref().expect("a booked pod is known");
        let node = &mut self.nodes[run.node as usize];
        let columns = &self.offers[node.place.group].columns;
        for (used, (name, _)) in node.used.iter_mut().zip(columns) {
            let own =
                if **name == *"pods" { Some(1) } else { run.shape.requests.get(name).copied() };
            *used = used.saturating_add(own.unwrap_or(0).saturating_mul(sign));
        }
    }

    fn follow_deletion(&mut self, now: Now, slot: u32, pod: &Pod) {
        let Some(due) = pod.metadata.deletion_timestamp else { return };
        let deadline = now.due_after(Stamp::from(due), 0);
        let run = self.pod(slot);
        if run.going == Going::Not {
            run.going = Going::Asked;
        }
        run.stop(now, deadline);
    }

    fn recount(&mut self, slot: u32) {
        let run = self.pod(slot);
        let after = run.phase();
        let before = std::mem::replace(&mut run.counted, after);
        if before != after {
            self.count(before, -1);
            self.count(after, 1);
        }
    }

    pub(super) fn pod_due(&mut self, now: Now, due_ms: u64, slot: u32, life: u32) {
        let Some(run) = self.alive(slot, life) else { return };
        if run.wake_ms != due_ms {
            return;
        }
        run.wake_ms = 0;
        run.advance(now);
        self.settle(now, slot);
    }

    fn alive(&mut self, slot: u32, life: u32) -> Option<&mut PodRun> {
        self.slots.get_mut(slot as usize).filter(|own| own.life == life)?.pod.as_mut()
    }

    /// After any change: the count, room and address, the next timer, the next write.
    fn settle(&mut self, now: Now, slot: u32) {
        self.recount(slot);
        if self.pod(slot).is_finished() && self.pod(slot).charged {
            self.discharge(slot);
            let node = self.pod(slot).node;
            self.try_deferred(now, node);
        }
        let run = self.pod(slot);
        if run.has_sandbox() && run.address == 0 && !run.shape.host_network {
            let node = run.node;
            self.pod(slot).address = self.free_address(node);
        }
        let life = self.slots[slot as usize].life;
        let run = self.pod(slot);
        let next = run.next_ms(now).unwrap_or(0);
        // A deadline is found anew at each look, a little off: the earlier one stays.
        if next > 0 && (run.wake_ms == 0 || next < run.wake_ms) {
            run.wake_ms = next;
            self.timers.set(next, Due::Pod(slot, life));
        }
        self.mend(now, slot, life);
        let run = self.pod(slot);
        let going = run.going == Going::Asked && run.is_finished();
        if run.writing == Writing::Idle && (run.is_dirty() || going) {
            run.writing = Writing::Queued;
            self.queue(Queue::Pod).push_back(Ticket::Pod(slot, life));
        }
    }

    /// Tells again what somebody else contradicted, unless something is told anyway.
    fn mend(&mut self, now: Now, slot: u32, life: u32) {
        let run = self.pod(slot);
        if !run.has_drifted() || run.writing != Writing::Idle || run.is_dirty() {
            return;
        }
        if now.ms() >= run.mend_ms {
            run.mend_ms = now.ms().saturating_add(MEND_MS);
            run.touch();
        } else if !std::mem::replace(&mut run.mend_waits, true) {
            let due = run.mend_ms;
            self.timers.set(due, Due::MendPod(slot, life));
        }
    }

    fn free_address(&mut self, node: u32) -> u8 {
        let taken = |kubelets: &Self, finished_too: bool, number: u8| {
            let slots = kubelets.nodes[node as usize].pods.iter();
            let mut pods = slots.filter_map(|slot| kubelets.slots[*slot as usize].pod.as_ref());
            pods.any(|pod| pod.address == number && (finished_too || !pod.is_finished()))
        };
        let last = self.nodes[node as usize].last_address;
        let order = || (last + 1..=ADDRESS_MAX).chain(1..=last);
        // Pods that ended still show their address; it is given again only in need.
        let free = order()
            .find(|number| !taken(self, true, *number))
            .or_else(|| order().find(|number| !taken(self, false, *number)))
            .unwrap_or(ADDRESS_MAX);
        self.nodes[node as usize].last_address = free.min(ADDRESS_MAX - 1);
        free
    }

    /// Looks again at changes of amounts that waited for room.
    fn try_deferred(&mut self, now: Now, node: u32) {
        let slots = self.nodes[node as usize].pods.clone();
        for slot in slots {
            let Some(run) = self.slots[slot as usize].pod.as_ref() else { continue };
            let waits = run.resize.as_ref().filter(|resize| resize.reason == NoRoom::Deferred);
            let Some(wanted) = waits.map(|resize| resize.wanted.clone()) else { continue };
            let old = run.shape.clone();
            let held = if run.charged { old.requests.clone() } else { Amounts::new() };
            if run.is_finished() || self.fits(node, &wanted.requests, &held, 0).is_err() {
                continue;
            }
            self.resize(now, slot, node, &wanted);
            self.shapes.release(&old);
            self.settle(now, slot);
        }
    }

    fn remove_pod(&mut self, now: Now, slot: u32) {
        self.discharge(slot);
        let place = &mut self.slots[slot as usize];
        place.life = place.life.wrapping_add(1);
        let Some(run) = place.pod.take() else { return };
        self.count(run.counted, -1);
        self.by_key.remove(&run.key);
        self.nodes[run.node as usize].pods.retain(|own| *own != slot);
        self.free.push(slot);
        if let Some(resize) = &run.resize {
            self.shapes.release(&resize.wanted);
        }
        self.shapes.release(&run.shape);
        let node = run.node;
        drop(run);
        self.try_deferred(now, node);
    }

    pub(super) fn render_pod(&mut self, slot: u32, life: u32) -> Option<Request> {
        let seed = self.seed;
        let node = self.alive(slot, life)?.node;
        let block = self.nodes[node as usize].block;
        let run = self.alive(slot, life)?;
        let ticket = Ticket::Pod(slot, life);
        let path = format!("/api/v1/namespaces/{}/pods/{}", run.key.namespace(), run.key.name());
        if run.is_dirty() {
            run.writing = Writing::Telling(run.revision());
            let host = host_address(block);
            let address: Option<Ipv4Addr> = match (run.shape.host_network, run.address) {
                (true, _) => Some(host),
                (false, 0) => None,
                (false, number) => Some(pod_address(block, number)),
            };
            let body = run.patch(Surroundings { seed, host, address });
            run.told_resize();
            return Some(Request {
                ticket,
                subject: Subject::PodStatus,
                method: Method::PATCH,
                path: path + "/status",
                content_type: STRATEGIC,
                body,
                late: None,
            });
        }
        if run.going == Going::Asked && run.is_finished() {
            run.writing = Writing::Deleting;
            let uid = &run.uid;
            let body = format!(r#"{{"gracePeriodSeconds":0,"preconditions":{{"uid":"{uid}"}}}}"#);
            return Some(Request {
                ticket,
                subject: Subject::PodDeletion,
                method: Method::DELETE,
                path,
                content_type: JSON,
                body: body.into_bytes(),
                late: None,
            });
        }
        run.writing = Writing::Idle;
        None
    }

    pub(super) fn pod_answered(&mut self, now: Now, slot: u32, life: u32, answer: Answer) {
        let Some(run) = self.alive(slot, life) else { return };
        let was = run.writing;
        if !matches!(was, Writing::Telling(_) | Writing::Deleting) {
            return;
        }
        let (failures, after, why) = match answer {
            Answer::Done(_) | Answer::NotFound | Answer::Exists => {
                run.writing = Writing::Idle;
                run.failures = 0;
                if let Answer::Done(body) = &answer {
                    run.note_version(body);
                }
                match was {
                    Writing::Telling(revision) => run.told(revision),
                    _ => run.going = Going::Done,
                }
                return self.settle(now, slot);
            }
            Answer::Later { after, why } => (run.failures, after, why),
            Answer::Refused(why) => (u8::MAX - 1, None, why),
        };
        run.writing = Writing::Resting;
        run.failures = failures.saturating_add(1);
        let warning = format!("pod {}: {why}; trying again", run.key);
        self.reports.push(Effect::Warn(warning));
        self.retry_at(now, Ticket::Pod(slot, life), failures, after);
    }

    pub(super) fn rest_over(&mut self, now: Now, slot: u32, life: u32) {
        let Some(run) = self.alive(slot, life) else { return };
        if run.writing == Writing::Resting {
            run.writing = Writing::Idle;
            self.settle(now, slot);
        }
    }

    pub(super) fn mend_due(&mut self, now: Now, slot: u32, life: u32) {
        if let Some(run) = self.alive(slot, life) {
            run.mend_waits = false;
            self.settle(now, slot);
        }
    }
}
