//! Pods to nodes: facts in, decisions out.
//!
//! The engine keeps one ledger of nodes, pods and claims, and answers on it: which nodes can take a
//! pod, how good each is, which is best, and why the others are not. It is apart because it is
//! pure: it knows no API server, no clock, no thread and no randomness but a seed, so that equal
//! facts give equal decisions, byte for byte.

mod cache;
mod clearing;
pub mod cpus;
pub mod decide;
pub mod examination;
pub mod fact;
pub mod gangs;
pub mod gathering;
mod judge;
pub mod ledger;
pub mod moment;
pub mod needs;
mod node_set;
mod nominations;
pub mod numa;
pub mod plugin;
pub mod plugins;
mod pool;
pub mod preemption;
pub mod profile;
pub mod queue;
pub mod quota;
pub mod reason;
pub mod reservations;
mod search;
mod shared;
mod speculate;
pub mod turn;
pub mod why;

pub use turn::Engine;

#[cfg(test)]
mod laws;
