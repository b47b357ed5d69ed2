//! Reading and writing the Lease of an election.

use std::time::Duration;

use api::Lease;
use api::lease::LeaseSpec;
use serde_json::{Value, json};

use super::Config;
use super::machine::{Event, Record};
use crate::client::{Access, Client, Error, ResourceType};
use crate::clock::Clock;

/// What became of a request.
pub(super) enum Answer {
    /// The Lease as it is now.
    Read(Box<Whole>),
    /// The Lease as it was stored.
    Stored(Box<Whole>),
    /// There is none.
    Missing,
    /// Somebody else was faster.
    Conflicted,
    /// No good answer.
    Failed(String),
}

/// A Lease with all that the server said of it, and what is read of that.
#[derive(Debug, Clone, Default)]
pub(super) struct Whole {
    raw: Value,
    lease: Lease,
    version: u64,
}

impl Whole {
    fn parse(raw: Value) -> Result<Self, String> {
        let lease: Lease = serde::Deserialize::deserialize(&raw)
            .map_err(|error| format!("the lease cannot be read: {error}"))?;
        let text = &lease.metadata.resource_version;
        let version = text
            .parse()
            .map_err(|_| format!("the lease's resourceVersion {text:?} is not a number"))?;
        Ok(Self { raw, lease, version })
    }
}

/// Where the Lease is read and written, and what it was last seen to be.
pub(super) struct Desk {
    access: Access<Value>,
    clock: Clock,
    namespace: String,
    name: String,
    /// How long a request may take.
    limit: Duration,
    last: Box<Whole>,
}

impl Desk {
    pub(super) fn new(client: &Client, config: &Config, limit: Duration) -> Self {
        Self {
            access: client.access(ResourceType::of::<Lease>(), &config.namespace),
            clock: client.clock().clone(),
            namespace: config.namespace.clone(),
            name: config.name.clone(),
            limit,
            last: Box::default(),
        }
    }

    /// `namespace/name`.
    pub(super) fn describe(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The Lease as it was last seen.
    pub(super) fn lease(&self) -> &Lease {
        &self.last.lease
    }

    /// Remembers an answer, and says what it means to the machine.
    pub(super) fn note(&mut self, answer: Answer) -> Event {
        match answer {
            Answer::Read(whole) => {
                self.last = whole;
                let record = Record::from(&self.last.lease.spec);
                Event::Found { record, version: self.last.version }
            }
            Answer::Stored(whole) => {
                self.last = whole;
                Event::Stored { version: self.last.version }
            }
            Answer::Missing => Event::Missing,
            Answer::Conflicted => Event::Conflicted,
            Answer::Failed(error) => {
                tracing::warn!(lease = %self.describe(), error, "lease request failed");
                Event::Failed
            }
        }
    }

    /// Reads the Lease; without a resource version, so that the store itself answers.
    pub(super) fn read(&self) -> impl Future<Output = Answer> + Send + use<> {
        let (access, name) = (self.access.clone(), self.name.clone());
        let exchange = async move { access.get(&name).await };
        within(self.clock.clone(), self.limit, Answer::Read, exchange)
    }

    pub(super) fn create(&self, record: Record) -> impl Future<Output = Answer> + Send + use<> {
        let access = self.access.clone();
        let body = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": self.name, "namespace": self.namespace },
            "spec": LeaseSpec::from(record),
        });
        let exchange = async move { access.create(&body).await };
        within(self.clock.clone(), self.limit, Answer::Stored, exchange)
    }

    pub(super) fn update(
        &self,
        record: Record,
        version: u64,
    ) -> impl Future<Output = Answer> + Send + use<> {
        let (access, name) = (self.access.clone(), self.name.clone());
        let mut body = self.last.raw.clone();
        body["metadata"]["resourceVersion"] = version.to_string().into();
        body["spec"] = json!(LeaseSpec::from(record));
        let exchange = async move { access.update(&name, &body).await };
        within(self.clock.clone(), self.limit, Answer::Stored, exchange)
    }
}

async fn within(
    clock: Clock,
    limit: Duration,
    good: fn(Box<Whole>) -> Answer,
    exchange: impl Future<Output = Result<Value, Error>>,
) -> Answer {
    match clock.timeout(limit, exchange).await {
        None => Answer::Failed(format!("no answer within {limit:?}")),
        Some(Ok(raw)) => match Whole::parse(raw) {
            Ok(whole) => good(Box::new(whole)),
            Err(error) => Answer::Failed(error),
        },
        Some(Err(error)) if error.is_not_found() => Answer::Missing,
        Some(Err(error)) if error.is_conflict() || error.is_already_exists() => Answer::Conflicted,
        Some(Err(error)) => Answer::Failed(error.to_string()),
    }
}
