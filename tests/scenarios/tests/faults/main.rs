//! Our components through everything that can go wrong between them and a server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod convergence;
mod ledger;
mod reflector;
mod truth;
mod world;
