//! What every component of Gantry is mounted on.
//!
//! A component watches objects, asks a core, and writes the answer. Everything in
//! between that is the same for all of them is here: the [`client`] of an API server,
//! the [`reflector`] that turns lists and watches into one ordered stream of deltas, the
//! [`informer`] that keeps them in a [`store`] for all who read it,
//! the [`queue`] and the [`controller`] loop, the [`election`] of a leader, [`events`] for
//! users, the programs [`outside`] that are asked over HTTP, the [`connection`]s to all of them,
//! [`metrics`] and the endpoints that [`serve`] them, [`logging`], [`shutdown`], strict [`config`]
//! files, the [`clock`], and the [`runtime`] of a process that writes much.
//!
//! Each conversation (list and watch, back-off, work queue, rate limit) is a state
//! machine that takes the time as an argument, with a thin shell around it that does the
//! I/O, so that every interleaving can be tested without a socket.
//!
//! This crate knows no resource by name, apart from Events, Leases, the reviews that tell who may
//! see a component's pages, and the two subresources that have a verb of their own (binding and
//! eviction), and decides nothing about any object.

pub mod backoff;
pub mod client;
pub mod clock;
pub mod config;
pub mod connection;
pub mod controller;
pub mod election;
pub mod events;
#[cfg(test)]
mod fake;
pub mod informer;
pub mod key;
pub mod logging;
mod memory;
pub mod metrics;
pub mod outside;
mod permission;
pub mod queue;
pub mod random;
pub mod reflector;
pub mod runtime;
pub mod serve;
pub mod shutdown;
pub mod store;
pub mod words;
