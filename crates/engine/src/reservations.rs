//! Reservations: capacity that is held on a node for pods that are still to come.
//!
//! A reservation gets its node as a pod does. Then it is there like a pod, but for what pods use of it
//! ([`crate::ledger::Reservations`]). A pod that it is for is asked of its node as if the reservation
//! were not there: whatever that held is free for this one pod, and for all plugins alike. A pod that can
//! use a reservation does, before any other node is thought of.

mod inside;
mod ranks;
mod suit;
mod takeover;
mod tally;
mod told;

#[cfg(test)]
mod tests;

pub use inside::{Place, Within};
pub(crate) use ranks::Ranks;
pub use suit::Unsuited;
pub use tally::Tally;
pub(crate) use told::Met;
