//! How the process runs: its lease and its client.

use std::path::PathBuf;
use std::time::Duration;

use chassis::client::Rate;
use object::field::{Error, Errors, Path};
use object::time;

use super::file;

/// How much later than planned a try may come; a leader must be able to try more than once.
const JITTER: f64 = 1.2;
/// How many requests may be sent at once where the file limits how many per second, but not this.
const BURST: i32 = 100;

/// How one of several schedulers becomes the one that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderElection {
    /// The namespace of the lease.
    pub namespace: String,
    /// The name of the lease.
    pub name: String,
    /// For how long others leave a leader that does not renew alone.
    pub lease_duration: Duration,
    /// For how long a leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// The pause between two tries.
    pub retry_period: Duration,
}

/// How the API server is reached.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientConnection {
    /// A kubeconfig file, where the file names one.
    pub kubeconfig: Option<PathBuf>,
    /// A limit on requests, where the file sets one.
    pub rate: Option<Rate>,
    /// What the file wants to be sent. It is kept and not needed: the client sends JSON.
    pub content_type: Option<String>,
    /// What the file wants to be asked for; likewise.
    pub accept_content_types: Option<String>,
}

fn filled(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

/// The election, or none where the file turns it off.
pub(super) fn leader_election(
    wire: &file::LeaderElection,
    errors: &mut Errors,
) -> Option<LeaderElection> {
    if wire.leader_elect == Some(false) {
        return None;
    }
    let path = Path::new("leaderElection");
    let mut length = |value: Option<time::Duration>, standard: i64, field: &str| {
        let value = value.filter(|value| value.as_nanos() != 0);
        let value = value.unwrap_or(time::Duration::from_secs(standard));
        u64::try_from(value.as_nanos()).map(Duration::from_nanos).unwrap_or_else(|_| {
            let path = path.child(field);
            errors.push(Error::invalid(&path, value.to_string(), "must be greater than zero"));
            Duration::ZERO
        })
    };
    let lease_duration = length(wire.lease_duration, 15, "leaseDuration");
    let renew_deadline = length(wire.renew_deadline, 10, "renewDeadline");
    let retry_period = length(wire.retry_period, 2, "retryPeriod");
    let shown = |duration: Duration| {
        time::Duration::from_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
            .to_string()
    };
    if lease_duration <= renew_deadline {
        let path = path.child("leaseDuration");
        let fix = "must be greater than `RenewDeadline`";
        errors.push(Error::invalid(&path, shown(renew_deadline), fix));
    }
    if renew_deadline.as_secs_f64() <= retry_period.as_secs_f64() * JITTER {
        let path = path.child("renewDeadline");
        let fix = "renewDeadline must be greater than retryPeriod*JitterFactor";
        errors.push(Error::invalid(&path, shown(renew_deadline), fix));
    }
    if let Some(lock) = filled(wire.resource_lock.as_ref()).filter(|lock| lock != "leases") {
        let path = path.child("resourceLock");
        errors.push(Error::invalid(&path, lock, "resourceLock value must be \"leases\""));
    }
    let name =
        |text: Option<&String>, standard: &str| filled(text).unwrap_or_else(|| standard.to_owned());
    Some(LeaderElection {
        namespace: name(wire.resource_namespace.as_ref(), "kube-system"),
        name: name(wire.resource_name.as_ref(), "kube-scheduler"),
        lease_duration,
        renew_deadline,
        retry_period,
    })
}

/// The client. A rate of 0 or below is no limit, and so is none: the API server has its own.
pub(super) fn client(wire: &file::ClientConnection, errors: &mut Errors) -> ClientConnection {
    let path = Path::new("clientConnection");
    let burst = wire.burst.filter(|burst| *burst != 0).unwrap_or(BURST);
    let burst = u32::try_from(burst).unwrap_or_else(|_| {
        errors.push(Error::invalid(&path.child("burst"), burst, "must be non-negative"));
        0
    });
    let qps = wire.qps.unwrap_or(0.0);
    if qps.abs() > f64::from(f32::MAX) {
        errors.push(Error::invalid(&path.child("qps"), qps, "must be a number of 32 bits"));
    }
    ClientConnection {
        kubeconfig: filled(wire.kubeconfig.as_ref()).map(PathBuf::from),
        rate: (qps > 0.0).then_some(Rate { qps, burst }),
        content_type: filled(wire.content_type.as_ref()),
        accept_content_types: filled(wire.accept_content_types.as_ref()),
    }
}
