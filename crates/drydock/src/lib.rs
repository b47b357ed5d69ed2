//! Drydock: an embedded Kubernetes API server.
//!
//! A [`Drydock`] is a value: no statics, no files, no socket of its own. It is a
//! [`tower::Service`] from HTTP requests to answers, so a client in the same process
//! needs no network, and [`serve`] puts one behind TLS for real clients. The time and
//! every random choice come from the [`env::Env`] it is given: the same seed and the
//! same requests give the same bytes.
//!
//! It refuses to know what runs on it: controllers and hollow nodes are clients.

mod admission;
mod answer;
mod bootstrap;
mod conditions;
mod deadline;
pub mod env;
pub mod faults;
mod kinds;
mod metrics;
pub mod request;
mod router;
pub mod serve;
mod server;
mod store;
mod subresources;
mod verbs;
mod write;

/// Why locking cannot fail: no code that holds a lock of this crate can panic.
const UNPOISONED: &str = "no holder of this lock panics";

pub use answer::{Answer, Body};
pub use router::Drydock;
pub use server::Config;
