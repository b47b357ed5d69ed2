//! Where the CPUs of nodes are: reported once, and looked at whenever conditions are reported, since
//! others can write there.

use api::NodeResourceTopology;
use http::Method;

use super::Kubelets;
use super::nodes::request;
use crate::layout::says;
use crate::node::layout_body;
use crate::request::{Answer, Chore, JSON, MERGE, Request, Subject, Ticket};
use crate::time::Now;

const LAYOUTS: &str = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies";
pub(super) const LAYOUTS_GROUP: &str = "/apis/topology.node.k8s.io/v1alpha1";

/// What is to be done next about the layout of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is none, as far as is known.
    #[default]
    Create,
    /// There is one, which may say something else.
    Read,
    /// It does.
    Mend,
}

impl Kubelets {
    /// Whether a node has anything to say by such a task.
    pub(super) fn has_reports(&self, chore: Chore, node: u32) -> bool {
        let group = &self.offers[self.nodes[node as usize].place.group].group;
        chore != Chore::Layout || group.layout.is_some()
    }

    /// Sees to the layout of a node that has one, where layouts are served.
    pub(super) fn want_layout(&mut self, due_ms: u64, node: u32) {
        let is_there = !self.nodes[node as usize].gone;
        if is_there && self.served.contains(&Chore::Layout) && self.has_reports(Chore::Layout, node)
        {
            self.want(due_ms, Chore::Layout, node);
        }
    }

    pub(super) fn render_layout(&self, node: u32) -> Request {
        let ticket = Ticket::Node(Chore::Layout, node);
        let run = &self.nodes[node as usize];
        let own = format!("{LAYOUTS}/{}", run.place.name);
        let body = || self.told(node).layout().map_or(Vec::new(), |layout| layout_body(&layout));
        let (method, path, content_type, body) = match run.layout {
            Stage::Create => (Method::POST, LAYOUTS.to_owned(), JSON, body()),
            Stage::Read => (Method::GET, own, JSON, Vec::new()),
            Stage::Mend => (Method::PATCH, own, MERGE, body()),
        };
        request(ticket, Subject::NodeLayout, method, path, content_type, body)
    }

    pub(super) fn layout_done(&mut self, now: Now, node: u32, answer: &Answer) {
        let stage = self.nodes[node as usize].layout;
        let (next, is_done) = match (stage, answer) {
            (Stage::Create, Answer::NotFound) => {
                // The kind itself is gone.
                self.unserve(now, Chore::Layout);
                (Stage::Create, true)
            }
            (Stage::Create, Answer::Exists) => (Stage::Read, false),
            (_, Answer::NotFound) => (Stage::Create, false),
            (Stage::Read, Answer::Done(body)) if !self.is_told(node, body) => (Stage::Mend, false),
            _ => (Stage::Read, true),
        };
        let run = &mut self.nodes[node as usize];
        run.layout = next;
        run.chores[Chore::Layout as usize].failures = 0;
        if !is_done {
            self.want_layout(now.ms(), node);
        }
    }

    /// Whether an object says where the CPUs of a node are. One that cannot be read does not.
    fn is_told(&self, node: u32, body: &[u8]) -> bool {
        let seen = serde_json::from_slice::<NodeResourceTopology>(body);
        let own = self.told(node).layout();
        own.is_none_or(|own| seen.is_ok_and(|seen| says(&seen, &own)))
    }
}
