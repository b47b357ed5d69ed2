//! What the core asks to be sent, and what it is told of the answer.

use std::time::Duration;

use bytes::Bytes;
use http::Method;

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// What a request is about, so that its answer finds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ticket {
    /// A task of a node.
    Node(Chore, u32),
    /// A pod: its place, and the how-manieth pod in that place it is.
    Pod(u32, u32),
    /// The question whether what this task writes is served.
    Probe(Chore),
    /// The question who else there is, before anything is registered.
    Opening,
    /// The question whether somebody else still runs a node.
    Look(u32),
}

/// A task of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Chore {
    /// Renewing its lease.
    Lease,
    /// Becoming known to the API server.
    Register,
    /// Reporting its conditions.
    Status,
    /// Reporting its load.
    Metric,
    /// Reporting where its CPUs are.
    Layout,
}

impl Chore {
    /// How many there are.
    pub(crate) const COUNT: usize = 5;
}

/// What is written, as metrics tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A node being registered or adopted.
    Node,
    /// The lease of a node.
    Lease,
    /// The conditions of a node.
    NodeStatus,
    /// The load of a node.
    NodeMetric,
    /// Where the CPUs of a node are.
    NodeLayout,
    /// The status of a pod.
    PodStatus,
    /// The end of a pod.
    PodDeletion,
    /// The question whether what nodes report is served.
    Probe,
    /// The question who else there is.
    Opening,
}

impl Subject {
    /// One word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Lease => "lease",
            Self::NodeStatus => "node_status",
            Self::NodeMetric => "node_metric",
            Self::NodeLayout => "node_layout",
            Self::PodStatus => "pod_status",
            Self::PodDeletion => "pod_deletion",
            Self::Probe => "probe",
            Self::Opening => "opening",
        }
    }
}

/// One request to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Where its answer belongs.
    pub ticket: Ticket,
    /// What it is about.
    pub subject: Subject,
    /// The verb.
    pub method: Method,
    /// The path.
    pub path: String,
    /// The type of the body.
    pub content_type: &'static str,
    /// The body; empty for none.
    pub body: Vec<u8>,
    /// How much later than it should it is sent; heartbeats alone can be late.
    pub late: Option<Duration>,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was done; the body of the answer.
    Done(Bytes),
    /// The object, or its resource, does not exist.
    NotFound,
    /// An object of that name exists.
    Exists,
    /// Another try may help: a conflict, a busy server, no answer at all.
    Later {
        /// How long the server asks to wait.
        after: Option<Duration>,
        /// What went wrong.
        why: String,
    },
    /// The server will not do this.
    Refused(String),
}
