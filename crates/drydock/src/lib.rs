//! Drydock: an embedded Kubernetes API server.
//!
//! A [`Drydock`] is a value: no statics, no files, no socket of its own. It is a
//! [`tower::Service`] from HTTP requests to answers, so a client in the same process
//! needs no network, and [`serve`] puts one behind TLS for real clients. The time and
//! every random choice come from the [`env::Env`] it is given: the same seed and the
//! same requests give the same bytes.
//!
//! It stands apart from the components so that they meet it as they meet any API server: through
//! requests. It refuses to know what runs on it: controllers and hollow nodes are clients.
//!
//! ```
//! use bytes::Bytes;
//! use drydock::env::SystemEnv;
//! use drydock::request::Identity;
//! use drydock::{Config, Drydock};
//! use http::{Request, StatusCode};
//! use http_body_util::{BodyExt, Full};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Drydock::new(Config::default(), SystemEnv::new(1));
//! let map = r#"{"metadata": {"name": "greeting"}, "data": {"text": "hello"}}"#;
//! let mut request = Request::post("/api/v1/namespaces/default/configmaps")
//!     .body(Full::from(Bytes::from_static(map.as_bytes())))?;
//! // Whoever has proven who he is elsewhere says so here; others bring a token.
//! request.extensions_mut().insert(Identity { user: "me".to_owned(), groups: Vec::new() });
//!
//! let answer = server.answer(request).await;
//! assert_eq!(answer.status(), StatusCode::CREATED);
//! let body = answer.into_body().collect().await?.to_bytes();
//! assert!(body.starts_with(br#"{"apiVersion":"v1","kind":"ConfigMap","#));
//! # Ok(())
//! # }
//! ```

mod admission;
mod answer;
mod apart;
mod bootstrap;
mod conditions;
mod deadline;
pub mod env;
pub mod faults;
mod health;
mod inflight;
mod kinds;
mod metrics;
pub mod request;
mod router;
pub mod serve;
mod server;
mod store;
mod subresources;
mod trusted;
mod verbs;
mod write;

/// Why locking cannot fail: no code that holds one of the locks that say so can panic. Those that
/// are held while a whole object is written guard no state and are taken whoever panicked.
const UNPOISONED: &str = "no holder of this lock panics";

pub use answer::{Answer, Body};
pub use health::HealthCheck;
pub use inflight::InFlight;
pub use router::Drydock;
pub use server::Config;
pub use store::Memory;
pub use trusted::Trusted;
