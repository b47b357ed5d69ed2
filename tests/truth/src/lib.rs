//! The real control plane that tests compare with: etcd, kube-apiserver,
//! kube-controller-manager, kube-scheduler and kubectl, found or built, started and ended, the
//! scheduler's own code behind a pipe, and the Python client of Kubernetes.
//!
//! It is apart because both the chores (`cargo xtask`) and the scenario tests need it, the
//! former without an async runtime. It refuses to know what is tested: it hands out kubeconfig
//! files and keeps logs, no more.
//!
//! **Invariant:** nothing started here outlives the process that started it, however that
//! process ends. Each program runs under a shell that reads from a pipe held by this process
//! and kills the program when the pipe closes.
//!
//! ```no_run
//! let binaries = truth::Binaries::locate(&|line| eprintln!("{line}"));
//! let plane = truth::ControlPlane::start(&binaries, 1)?;
//! println!("kubectl --kubeconfig {} get namespaces", plane.servers()[0].kubeconfig().display());
//! # anyhow::Ok(())
//! ```

mod binaries;
mod kubeconfig;
mod oracle;
mod plain;
mod plane;
mod process;
mod proxy;
mod python;
mod secret;

pub use binaries::{Binaries, KUBERNETES_VERSION, Program, go_run};
pub use kubeconfig::{Access, Kubeconfig};
pub use oracle::Oracle;
pub use plane::{ApiServer, Companion, ControlPlane, Etcd, Flags};
pub use process::Process;
pub use proxy::Proxy;
pub use python::python;

/// The environment variable that carries the kubeconfigs of servers that run already: a path
/// list, written by `cargo xtask test` and read by the scenario tests.
pub const KUBECONFIGS_VARIABLE: &str = "GANTRY_TRUTH_KUBECONFIGS";

/// The environment variable that carries the address of the etcd behind those servers, so that
/// a test can start one more server on it.
pub const ETCD_VARIABLE: &str = "GANTRY_TRUTH_ETCD";
