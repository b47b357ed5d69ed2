//! Drydock: an embedded Kubernetes API server.
//!
//! A [`Drydock`] is a value: no statics, no files, no socket of its own. It is a
//! [`tower::Service`] from HTTP requests to answers, so a client in the same process
//! needs no network, and [`serve`] puts one behind TLS for real clients. The time and
//! every random choice come from the [`env::Env`] it is given: the same seed and the
//! same requests give the same bytes.
//!
//! It refuses to know what runs on it: controllers and hollow nodes are clients.

pub mod admission;
pub mod answer;
mod bootstrap;
mod conditions;
pub mod env;
mod expiry;
pub mod faults;
pub mod kinds;
pub mod request;
mod router;
pub mod serve;
pub mod server;
pub mod store;
pub mod subresources;
pub mod verbs;
pub mod write;

pub use router::Drydock;
pub use server::Config;
