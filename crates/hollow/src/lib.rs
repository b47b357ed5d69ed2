//! Nodes whose kubelet is simulated.
//!
//! They register, renew leases, report conditions and load, and run pods through their
//! life, against any API server, so that five thousand of them fit on one core. All that a
//! kubelet decides is in [`kubelets`], a pure state machine; a thin shell around it has
//! one watch on all bound pods and a bounded number of requests in flight.
//!
//! Which nodes there are is said by [`group`], and what a pod does by its annotations, see
//! [`behaviour`]. This crate holds a client and nothing else: it does not know whether a
//! real API server or an embedded one is behind it, and decides nothing about where pods
//! go.

mod address;
pub mod behaviour;
pub mod group;
mod history;
pub mod kubelets;
mod layout;
mod metrics;
mod node;
mod pod;
pub mod request;
mod run;
mod seed;
mod shape;
mod time;
mod usage;

pub use group::{GroupError, NodeGroup};
pub use kubelets::Setup;
pub use layout::Layout;
pub use node::{KUBELET_VERSION, SeenNode};
pub use run::{Hollow, Options, Progress, RunError};
pub use time::Now;
