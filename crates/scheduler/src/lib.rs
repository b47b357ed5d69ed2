//! The scheduler: the shell that stands between an API server and the engine.
//!
//! It is apart from the engine because it may touch files, clocks and the network, which the
//! engine must not. It decides nothing about where pods go.
//!
//! What it is told to do is in [`config`]: a file as kube-scheduler takes it, checked as
//! kube-scheduler checks it, and turned into profiles of the engine.
//!
//! When it runs, everything that scheduling depends on is watched (`feed`) and becomes one line
//! of [`message`]s for the [`core`], a state machine without I/O around the engine that lives on
//! a thread of its own (`thread`). What it decides is written by a bounded number of hands
//! (`writers`), each in the conversation that [`bind`] lays down, and what they hear comes back
//! through the same line. Programs outside that have a say in it are asked by [`extenders`].
//! [`run()`] puts the parts together.
//!
//! [`why`] says why a pod has no node, and [`debug`] what goes on inside: both are asked of a copy.
//! [`top`] says how full nodes are, and [`quotas::tree`] who has which share of them.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use chassis::client::{Source, UnderWay};
//! use scheduler::config::Configuration;
//! use scheduler::{Clients, Options};
//! use tokio_util::sync::CancellationToken;
//!
//! let options = Options::new(Configuration::default(), "scheduler-1");
//! let connection = &options.configuration.client_connection;
//! let source = Source::from_flags(None, None);
//! let clients = Clients::connect(connection, &source, &UnderWay::default()).await?;
//! scheduler::run(clients, options, CancellationToken::new()).await?;
//! # Ok(()) }
//! ```

mod awaited;
pub mod bind;
mod caretaker;
mod clients;
mod complaints;
pub mod config;
mod controllers;
pub mod core;
pub mod debug;
pub mod dismissals;
mod excess;
mod explanations;
pub mod extenders;
mod feed;
mod first_quotas;
pub mod gangs;
mod inbox;
mod later;
pub mod message;
pub mod meters;
mod notes;
mod pace;
mod pod_groups;
mod pulse;
mod quota_profiles;
pub mod quotas;
pub mod reservations;
mod run;
mod stale;
mod status;
mod thread;
pub mod top;
mod volumes;
pub mod why;
pub mod witness;
mod writers;

pub use awaited::Awaited;
pub use clients::Clients;
pub use controllers::{Controllers, UnknownController};
pub use core::Patience;
pub use engine::fact::DEFAULT_SCHEDULER;
pub use run::{Ending, Options, RunError, State, run, tell_of_plugins_to_come};
