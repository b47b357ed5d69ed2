//! Scenarios: conversations with an API server, written once and played on every backend.
//!
//! A [`Scenario`] is a list of requests. It is played on a real kube-apiserver, which is the
//! truth, and on drydock; the answers are compared whole, after [`normalise`] has replaced
//! what no two servers share. A difference that is meant is listed in [`differences`], with
//! both values, and a scenario also fails when a listed difference is gone.
//!
//! This crate refuses to know how a server works inside: it sees bytes on the wire.
//!
//! ```no_run
//! use scenarios::{Scenario, request::{delete, get, post}};
//! use serde_json::json;
//!
//! # async fn play() {
//! let path = "/api/v1/namespaces/{ns}/configmaps";
//! Scenario::new("a_deleted_config_map_is_gone")
//!     .step(post(path, json!({"metadata": {"name": "a"}})).expect(201))
//!     .step(delete(&format!("{path}/a")).expect(200))
//!     .step(get(&format!("{path}/a")).refused(404, "NotFound"))
//!     .run()
//!     .await;
//! # }
//! ```

pub mod backend;
pub mod client;
pub mod compare;
pub mod differences;
pub mod embedded;
pub mod normalise;
pub mod request;
pub mod running;
pub mod scenario;
pub mod system;

pub use backend::Server;
pub use client::{Answer, Client};
pub use scenario::Scenario;
