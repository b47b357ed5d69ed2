//! The scheduler's clients of the API server: what is urgent does not wait behind what is not.

use std::time::Duration;

use chassis::client::{Client, ConnectError, Options, Source, UnderWay};
use chassis::metrics::Metrics;

use crate::config::ClientConnection;
use crate::{notes, writers};

/// How long a Binding, a status or an event may go unanswered.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The clients of one scheduler.
#[derive(Clone)]
pub struct Clients {
    /// Lists and watches.
    pub read: Client,
    /// Binds and writes statuses.
    pub write: Client,
    /// Writes events, on a budget of their own. They follow Bindings, over the same connections.
    pub events: Client,
    /// Renews the lease, whatever the others do.
    pub lease: Client,
}

/// How each client behaves.
struct Plan {
    read: Options,
    write: Options,
    lease: Options,
}

impl Plan {
    fn of(connection: &ClientConnection, under_way: &UnderWay) -> Self {
        let limited = |component| Options { rate: connection.rate, ..Options::new(component) };
        Self {
            read: limited("scheduler"),
            write: Options {
                timeout: WRITE_TIMEOUT,
                in_flight_max: writers::IN_FLIGHT_MAX,
                under_way: under_way.clone(),
                ..limited("scheduler")
            },
            lease: Options::new("scheduler"),
        }
    }
}

impl Clients {
    /// Clients that `make` makes, one for each set of options.
    pub fn made(connection: &ClientConnection, make: impl Fn(&Options) -> Client) -> Self {
        let plan = Plan::of(connection, &UnderWay::default());
        Self::of(make(&plan.read), make(&plan.write), make(&plan.lease), connection)
    }

    fn of(read: Client, write: Client, lease: Client, connection: &ClientConnection) -> Self {
        let events = write.apart(notes::IN_FLIGHT_MAX, connection.rate);
        Self { read, write, events, lease }
    }

    /// The same clients, which count their requests there.
    #[must_use]
    pub fn counted(&self, metrics: &Metrics) -> Self {
        Self {
            read: self.read.counted(metrics),
            write: self.write.counted(metrics),
            events: self.events.counted(metrics),
            lease: self.lease.counted(metrics),
        }
    }

    /// Clients of the server that `source` tells of, whose writes are counted while they are under
    /// way. No request is sent.
    ///
    /// # Errors
    /// When the configuration of the cluster cannot be found or read.
    pub async fn connect(
        connection: &ClientConnection,
        source: &Source,
        under_way: &UnderWay,
    ) -> Result<Self, ConnectError> {
        let plan = Plan::of(connection, under_way);
        let read = Client::connect(source, &plan.read).await?;
        let write = Client::connect(source, &plan.write).await?;
        let lease = Client::connect(source, &plan.lease).await?;
        Ok(Self::of(read, write, lease, connection))
    }
}
