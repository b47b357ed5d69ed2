//! Before anything is registered: whether somebody else runs nodes of these names, and which
//! addresses are taken.
//!
//! Two who run one node would contradict each other without end. So all leases are read first.
//! One of our nodes that another holder renewed lately is looked at again when its next renewal
//! is overdue: renewed meanwhile, somebody runs it, and we give up before anything is written;
//! as it was, whoever held it is gone, and the node is taken over.

use std::collections::BTreeMap;

use http::Method;
use object::time::MicroTime;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::nodes::{LEASES, NODES, Registration, request};
use super::{Due, Effect, Kubelets, NodeRun, Obstacle, Queue};
use crate::address::{Blocks, block_of};
use crate::node::{SeenLease, SeenNode, release};
use crate::request::{Answer, Chore, JSON, MERGE, Request, Subject, Ticket};
use crate::time::{Now, Stamp};

/// How many objects to ask for at a time.
const PAGE: usize = 500;
/// A kubelet renews its lease four times in the time that it lasts.
const RENEWALS_PER_DURATION: u64 = 4;
/// How much later than due a renewal may come.
const LATE_MS: u64 = 2_500;

/// How far it is.
#[derive(Debug, Default)]
pub(super) struct Opening {
    stage: Stage,
    /// Where the next page of a list begins.
    page: String,
    failures: u8,
    /// Nodes that somebody else may run, and when that one last said so.
    suspects: BTreeMap<u32, MicroTime>,
    blocks: Blocks,
    /// Blocks that our nodes have already.
    kept: BTreeMap<u32, u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Leases,
    Nodes,
    Suspects,
    Open,
}

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMeta {
    #[serde(rename = "continue")]
    next: String,
}

impl Kubelets {
    /// Whether registration has begun. Until then facts about pods and nodes must wait: their
    /// addresses are not known.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.opening.stage == Stage::Open
    }

    /// How many nodes somebody else may run.
    pub(super) fn suspects(&self) -> usize {
        self.opening.suspects.len()
    }

    /// What tells, at the end, that nobody runs the nodes any more.
    #[must_use]
    pub fn releases(&self) -> Vec<Request> {
        // The first lease of a node may be under way.
        let is_held = |node: &&NodeRun| node.stage == Registration::Done && !node.gone;
        let held = self.nodes.iter().filter(is_held);
        held.map(|node| {
            let path = format!("{LEASES}/{}", node.place.name);
            request(Ticket::Opening, Subject::Lease, Method::PATCH, path, MERGE, release())
        })
        .collect()
    }

    pub(super) fn render_opening(&self) -> Request {
        let list = if self.opening.stage == Stage::Leases { LEASES } else { NODES };
        let mut path = format!("{list}?limit={PAGE}");
        if !self.opening.page.is_empty() {
            path.push_str("&continue=");
            path.extend(self.opening.page.bytes().map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                    char::from(byte).to_string()
                }
                _ => format!("%{byte:02X}"),
            }));
        }
        request(Ticket::Opening, Subject::Opening, Method::GET, path, JSON, Vec::new())
    }

    pub(super) fn render_look(&self, node: u32) -> Request {
        let path = format!("{LEASES}/{}", self.nodes[node as usize].place.name);
        request(Ticket::Look(node), Subject::Opening, Method::GET, path, JSON, Vec::new())
    }

    pub(super) fn opening_answered(&mut self, now: Now, answer: Answer) {
        if !matches!(self.opening.stage, Stage::Leases | Stage::Nodes) {
            return;
        }
        let body = match answer {
            Answer::Done(body) => body,
            // A server without leases has nobody who holds one.
            Answer::NotFound | Answer::Exists => b"{}".as_slice().into(),
            Answer::Refused(why) => {
                return self.reports.push(Effect::GiveUp(Obstacle::Refused(why)));
            }
            Answer::Later { after, why } => return self.put_off(now, Ticket::Opening, after, &why),
        };
        let read = match self.opening.stage {
            Stage::Leases => read_page(&body).map(|(leases, next)| {
                for lease in &leases {
                    self.suspect(now, lease);
                }
                next
            }),
            _ => read_page(&body).map(|(nodes, next)| {
                for node in &nodes {
                    self.note_node(node);
                }
                next
            }),
        };
        match read {
            Err(error) => {
                let why = format!("cannot read what there is: {error}");
                self.put_off(now, Ticket::Opening, None, &why);
            }
            Ok(next) => {
                self.opening.failures = 0;
                self.opening.page = next;
                if self.opening.page.is_empty() {
                    self.opening.stage = match self.opening.stage {
                        Stage::Leases => Stage::Nodes,
                        _ => Stage::Suspects,
                    };
                }
                match self.opening.stage {
                    Stage::Suspects => self.open_unless_suspects(now),
                    _ => self.queue(Queue::Register).push_back(Ticket::Opening),
                }
            }
        }
    }

    pub(super) fn look_answered(&mut self, now: Now, node: u32, answer: Answer) {
        let Some(before) = self.opening.suspects.get(&node).copied() else { return };
        let lease: SeenLease = match answer {
            Answer::Done(body) => match serde_json::from_slice(&body) {
                Ok(lease) => lease,
                Err(error) => {
                    let why = format!("cannot read its lease: {error}");
                    return self.put_off(now, Ticket::Look(node), None, &why);
                }
            },
            Answer::NotFound | Answer::Exists => SeenLease::default(),
            Answer::Refused(why) => {
                return self.reports.push(Effect::GiveUp(Obstacle::Refused(why)));
            }
            Answer::Later { after, why } => {
                return self.put_off(now, Ticket::Look(node), after, &why);
            }
        };
        let renewed = lease.spec.renew_time.is_some_and(|renewed| renewed != before);
        match self.stranger(&lease).filter(|_| renewed) {
            Some(holder) => {
                let node = self.nodes[node as usize].place.name.clone();
                self.reports.push(Effect::GiveUp(Obstacle::Held { node, holder }));
            }
            None => {
                self.opening.suspects.remove(&node);
                self.counts.suspected = self.suspects();
                self.open_unless_suspects(now);
            }
        }
    }

    /// Whoever holds a lease and is not us.
    fn stranger(&self, lease: &SeenLease) -> Option<String> {
        lease.holder().filter(|holder| *holder != self.setup.holder).map(str::to_owned)
    }

    /// Looks whether somebody else may run the node of a lease, and says when to look again.
    fn suspect(&mut self, now: Now, lease: &SeenLease) {
        let Some(node) = self.by_name.get(&lease.metadata.name).copied() else { return };
        let (Some(_), Some(renewed)) = (self.stranger(lease), lease.spec.renew_time) else {
            return;
        };
        let seconds = lease.spec.lease_duration_seconds.unwrap_or(0);
        let lasts_ms = u64::from(seconds) * 1000;
        let age = now.wall.as_millisecond().saturating_sub(renewed.timestamp().as_millisecond());
        if u64::try_from(age).is_ok_and(|age| age > lasts_ms) {
            return;
        }
        let overdue_ms = lasts_ms / RENEWALS_PER_DURATION + LATE_MS;
        let due = now.due_after(Stamp::of(renewed.timestamp()), overdue_ms);
        // However far ahead the other one's clock is.
        let due = due.min(now.ms().saturating_add(overdue_ms));
        if self.opening.suspects.insert(node, renewed).is_none() {
            self.timers.set(due, Due::Look(node));
        }
        self.counts.suspected = self.suspects();
    }

    fn note_node(&mut self, seen: &SeenNode) {
        let own = self.by_name.get(&seen.metadata.name);
        if let Some(node) = own {
            self.nodes[*node as usize].known = true;
        }
        let Some(block) = seen.addresses().find_map(block_of) else { return };
        if self.opening.blocks.take(block)
            && let Some(node) = own
        {
            self.opening.kept.insert(*node, block);
        }
    }

    fn open_unless_suspects(&mut self, now: Now) {
        if self.opening.stage != Stage::Suspects || !self.opening.suspects.is_empty() {
            return;
        }
        let opening = std::mem::take(&mut self.opening);
        let (mut blocks, kept) = (opening.blocks, opening.kept);
        for (node, index) in self.nodes.iter_mut().zip(0..) {
            let prefix = &self.offers[node.place.group].group.prefix;
            let Some(block) = kept.get(&index).copied().or_else(|| blocks.give(prefix)) else {
                let why = "other nodes have all addresses of nodes, 172.16.0.0 and on; delete \
                           some of them";
                let obstacle = Obstacle::Refused(why.to_owned());
                return self.reports.push(Effect::GiveUp(obstacle));
            };
            node.block = block;
        }
        self.opening.stage = Stage::Open;
        for node in 0..self.nodes.len() {
            self.want(now.ms(), Chore::Register, u32::try_from(node).unwrap_or(u32::MAX));
        }
    }

    fn put_off(&mut self, now: Now, ticket: Ticket, after: Option<std::time::Duration>, why: &str) {
        // A page that is too old is never to be had: the list begins anew.
        self.opening.page.clear();
        let failures = self.opening.failures;
        self.opening.failures = failures.saturating_add(1);
        self.reports.push(Effect::Warn(format!("nodes: {why}; trying again")));
        self.retry_at(now, ticket, failures, after);
    }
}

fn read_page<T: DeserializeOwned>(body: &[u8]) -> serde_json::Result<(Vec<T>, String)> {
    let page: Page<T> = serde_json::from_slice(body)?;
    Ok((page.items, page.metadata.next))
}
