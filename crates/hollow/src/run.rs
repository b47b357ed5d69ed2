//! The shell around the core: two watches, a bounded number of requests, one task.

use std::time::Duration;

use api::{Node, Pod, Resource as _};
use chassis::client::{Call, Client, Error, Identity, Object, Reason, ResourceType};
use chassis::clock::Clock;
use chassis::events::{Recorder, Subject as About};
use chassis::reflector::{Delta, Feeds, Reflector};
use chassis::shutdown::Shutdown;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde::Deserialize;
use tokio::sync::watch;

use crate::group::GroupError;
use crate::kubelets::{Effect, Event, Kubelets, Note, Obstacle, Setup};
use crate::metrics::HollowMetrics;
use crate::node::SeenNode;
use crate::request::{Answer, Request, Subject, Ticket};
use crate::time::Now;

/// How many events may wait to be looked at.
const EVENTS_MAX: usize = 512;
/// How many of them are looked at before requests are sent again.
const EVENTS_PER_TURN_MAX: usize = 128;
/// Heartbeats that are due within so short a time are sent together.
const TICK_MIN: Duration = Duration::from_millis(20);
/// How long the end of a run may take to tell others that it is over.
const RELEASE_MAX: Duration = Duration::from_secs(5);
/// Who tells users of pods, as their Events name it.
const COMPONENT: &str = "hollow-kubelet";
/// How many warnings a second are worth a line.
const WARNINGS_PER_SECOND_MAX: u32 = 5;

/// What to run, and how.
#[derive(Clone)]
pub struct Options {
    /// The nodes and how they behave.
    pub setup: Setup,
    /// How many requests are in flight at most. The client has a limit of its own.
    pub in_flight_max: usize,
    /// Where to tell what happens.
    pub metrics: chassis::serve::Metrics,
}

impl Default for Options {
    fn default() -> Self {
        Self { setup: Setup::default(), in_flight_max: 64, metrics: chassis::serve::Metrics::new() }
    }
}

/// How many of the nodes the API server knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Those that it knows.
    pub registered: usize,
    /// All of them.
    pub total: usize,
    /// Those that somebody else may still run; until that is known none is registered.
    pub suspected: usize,
}

impl Progress {
    /// Whether it knows them all.
    #[must_use]
    pub fn is_ready(self) -> bool {
        self.registered >= self.total
    }
}

/// Why hollow nodes cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The API server does not accept the nodes.
    #[error("the API server refuses hollow nodes: {0}")]
    Refused(String),
    /// Somebody else runs one of the nodes.
    #[error(
        "node {node} is run by {holder}, which has just renewed its lease: stop that one, or give \
         these nodes names of their own, as in --nodes 5xname=extra"
    )]
    Held {
        /// Which node.
        node: String,
        /// Who runs it.
        holder: String,
    },
    /// Somebody else registered one of the nodes at the same time.
    #[error(
        "somebody else has just registered node {node}: start one after the other, or give these \
         nodes names of their own, as in --nodes 5xname=extra"
    )]
    Met {
        /// Which node.
        node: String,
    },
    /// The watches on pods and nodes have ended, although nobody asked for it.
    #[error("the watches on pods and nodes have ended; this is a defect, please report it")]
    WatchEnded,
}

impl From<Obstacle> for RunError {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::Refused(why) => Self::Refused(why),
            Obstacle::Held { node, holder } => Self::Held { node, holder },
            Obstacle::Met { node } => Self::Met { node },
        }
    }
}

/// Hollow nodes that are ready to run.
pub struct Hollow {
    client: Client,
    kubelets: Kubelets,
    in_flight_max: usize,
    metrics: HollowMetrics,
    counted: chassis::serve::Metrics,
    progress: watch::Sender<Progress>,
    seed: u64,
}

impl Hollow {
    /// Hollow nodes that nobody knows yet.
    ///
    /// # Errors
    /// When there is no node, too many, or two of one name.
    pub fn new(client: Client, options: Options) -> Result<Self, GroupError> {
        let seed = options.setup.seed;
        let kubelets = Kubelets::new(options.setup, now_of(client.clock()))?;
        let total = kubelets.counts().nodes;
        Ok(Self {
            kubelets,
            in_flight_max: options.in_flight_max.max(1),
            metrics: HollowMetrics::register(&options.metrics),
            client: client.counted(&options.metrics),
            counted: options.metrics,
            progress: watch::Sender::new(Progress { total, ..Progress::default() }),
            seed,
        })
    }

    /// How far the registration is, now and from now on.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Runs the nodes until shutdown begins. Nodes and pods stay as they are then; another
    /// run takes them up again.
    ///
    /// # Errors
    /// When somebody else runs one of the nodes, or the API server refuses the first one for
    /// good, as it does for want of access.
    pub async fn run(mut self, shutdown: &Shutdown) -> Result<(), RunError> {
        let result = self.run_until(shutdown).await;
        self.release().await;
        result
    }

    /// Tells that nobody runs the nodes any more, so that whoever does next need not wait.
    async fn release(&self) {
        let sending = futures::stream::iter(self.kubelets.releases())
            .map(|request| send(self.client.clone(), request))
            .buffer_unordered(self.in_flight_max)
            .for_each(async |_| {});
        let ended = self.client.clock().timeout(RELEASE_MAX, sending).await;
        if ended.is_none() {
            tracing::debug!("some leases are not released; the next run waits until they are old");
        }
    }

    async fn run_until(&mut self, shutdown: &Shutdown) -> Result<(), RunError> {
        let pods = ResourceType::namespaced(Pod::GROUP, Pod::VERSION, Pod::PLURAL);
        // Pods that wait for a node are none of our business.
        let reflector =
            Reflector::new(self.client.access::<Seen>(pods, "")).fields("spec.nodeName!=");
        let feeds = Feeds::new(&self.client, shutdown, EVENTS_MAX).seed(self.seed);
        let feeds = feeds.metrics(&self.counted);
        let nodes = ResourceType::cluster(Node::GROUP, Node::VERSION, Node::PLURAL);
        let feeds = feeds.watch_with(reflector, event_of).watch_resource(nodes, node_event_of);
        let mut events = feeds.into_stream();
        let (recorder, writer) = Recorder::new(COMPONENT, &self.client, self.seed, &self.counted);
        shutdown.spawn("events of hollow nodes", writer.run(shutdown.token()));
        let clock = self.client.clock().clone();
        let mut writes = FuturesUnordered::new();
        let mut warnings = Warnings::default();
        loop {
            let now = now_of(&clock);
            let room = self.in_flight_max.saturating_sub(writes.len());
            for effect in self.kubelets.drain(now, room) {
                match effect {
                    Effect::Send(request) => {
                        self.metrics.sent(request.late);
                        writes.push(send(self.client.clone(), request));
                    }
                    Effect::Warn(what) => warnings.tell(now, &what),
                    Effect::Note(note) => tell_users(&recorder, note),
                    Effect::GiveUp(obstacle) => return Err(obstacle.into()),
                }
            }
            self.tell();
            let due = self.kubelets.next_due().map(|due| due.max(now.monotonic + TICK_MIN));
            tokio::select! {
                biased;
                () = shutdown.begun() => return Ok(()),
                Some((ticket, subject, answer)) = writes.next(), if !writes.is_empty() => {
                    self.metrics.answered(subject, &answer);
                    self.kubelets.step(now_of(&clock), Event::Answered(ticket, answer));
                }
                event = events.recv(), if self.kubelets.is_open() => {
                    let Some(event) = event else {
                        // At shutdown the watch may end before we look.
                        if shutdown.has_begun() { return Ok(()) }
                        return Err(RunError::WatchEnded);
                    };
                    let mut next = Some(event);
                    for _ in 0..EVENTS_PER_TURN_MAX {
                        let Some(event) = next else { break };
                        self.kubelets.step(now_of(&clock), event);
                        next = events.try_recv().ok();
                    }
                    if let Some(event) = next {
                        self.kubelets.step(now_of(&clock), event);
                    }
                }
                () = clock.sleep_until(due.unwrap_or(Duration::MAX)), if due.is_some() => {
                    self.kubelets.step(now_of(&clock), Event::Tick);
                }
            }
        }
    }

    fn tell(&mut self) {
        let counts = self.kubelets.counts();
        self.metrics.count(counts);
        let progress = Progress {
            registered: counts.registered,
            total: counts.nodes,
            suspected: counts.suspected,
        };
        self.progress.send_if_modified(|told| std::mem::replace(told, progress) != progress);
    }
}

fn tell_users(recorder: &Recorder, note: Note) {
    let subject = About::named::<Pod>(note.key, note.uid.into());
    recorder.warning(&subject, note.reason, note.message);
}

fn now_of(clock: &Clock) -> Now {
    Now { monotonic: clock.monotonic(), wall: clock.now() }
}

/// A pod as the watch delivers it.
#[derive(Deserialize)]
#[serde(transparent)]
struct Seen(Box<Pod>);

impl Object for Seen {
    fn identity(&self) -> Identity<'_> {
        (&self.0.metadata).into()
    }
}

fn event_of(delta: Delta<Seen>) -> Event {
    match delta {
        Delta::Upserted(Seen(pod)) => Event::Pod(pod),
        Delta::Deleted { key, uid } => Event::PodGone { key, uid },
        Delta::Malformed { key, error, .. } => {
            tracing::warn!(pod = %key, "pod cannot be read and is left alone: {error}");
            Event::Tick
        }
        Delta::Synced => Event::PodsListed,
    }
}

fn node_event_of(delta: Delta<SeenNode>) -> Event {
    match delta {
        Delta::Upserted(node) => Event::Node(node),
        Delta::Malformed { key, error, .. } => {
            tracing::warn!(node = %key, "node cannot be read and is left alone: {error}");
            Event::Tick
        }
        // That a node is gone, its next report tells.
        Delta::Deleted { .. } | Delta::Synced => Event::Tick,
    }
}

async fn send(client: Client, request: Request) -> (Ticket, Subject, Answer) {
    let Request { ticket, subject, method, path, content_type, body, .. } = request;
    let mut call = Call::new(method, path);
    if !body.is_empty() {
        call = call.body(content_type, body);
    }
    let answer = match client.call_bytes(call).await {
        Ok(body) => Answer::Done(body),
        Err(error) => answer_of(&error),
    };
    (ticket, subject, answer)
}

fn answer_of(error: &Error) -> Answer {
    let later = || Answer::Later { after: error.retry_after(), why: error.to_string() };
    match error.reason() {
        Some(Reason::NotFound) => Answer::NotFound,
        Some(Reason::AlreadyExists) => Answer::Exists,
        Some(
            Reason::Unauthorized
            | Reason::Forbidden
            | Reason::Invalid
            | Reason::BadRequest
            | Reason::MethodNotAllowed
            | Reason::Unsupported
            | Reason::TooLarge,
        ) => Answer::Refused(error.to_string()),
        Some(_) | None => later(),
    }
}

/// Warnings, of which a server that is down causes thousands.
#[derive(Default)]
struct Warnings {
    second: u64,
    told: u32,
    kept_back: u32,
}

impl Warnings {
    fn tell(&mut self, now: Now, what: &str) {
        let second = now.monotonic.as_secs();
        if second != self.second {
            if self.kept_back > 0 {
                tracing::warn!("and {} more like it", self.kept_back);
            }
            *self = Self { second, ..Self::default() };
        }
        if self.told < WARNINGS_PER_SECOND_MAX {
            self.told += 1;
            tracing::warn!("{what}");
        } else {
            self.kept_back += 1;
        }
    }
}
