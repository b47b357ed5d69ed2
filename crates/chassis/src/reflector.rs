//! One kind's objects as an ordered stream of deltas.
//!
//! [`machine`] decides what to ask the server next and what is news; [`Reflector`] carries
//! it out over a [`Client`](crate::client::Client), and [`Feeds`] joins several kinds into
//! one stream of a component's own type. The guarantee is the machine's: in API order,
//! without loss or repeats, through lost connections and expired versions.
//!
//! Nothing here keeps objects: that is a [`Store`](crate::store::Store), or the core.

mod fence;
pub mod machine;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::client::{
    Access, Error, EventStream, ListOptions, Object, Page, ResourceType, Unread, WatchOptions,
    innermost_cause,
};
use crate::clock::Clock;
use crate::controller::go_on_panicking;
use crate::metrics::{Metrics, ReflectorMeters};
use crate::random::seed_for;
use crate::shutdown::Shutdown;

pub use fence::Fence;
use fence::{Gate, Revision};
pub use machine::Delta;
use machine::{Effect, Failure, Input, Machine, SILENCE_MAX};

/// How long after its own time limit a watch that the server has not ended is given up.
const OVERTIME: Duration = Duration::from_secs(30);

/// Who hears of troubles.
type Hears = Arc<dyn Fn(&str) + Send + Sync>;

/// Lists and watches the objects of one resource, for ever.
pub struct Reflector<T> {
    access: Access<T>,
    label_selector: String,
    field_selector: String,
    seed: u64,
    meters: ReflectorMeters,
    troubles: Option<Hears>,
    may_be_absent: bool,
}

impl<T: Object> Reflector<T> {
    /// A reflector of all objects that `access` reaches.
    #[must_use]
    pub fn new(access: Access<T>) -> Self {
        Self {
            access,
            label_selector: String::new(),
            field_selector: String::new(),
            seed: 0,
            meters: ReflectorMeters::default(),
            troubles: None,
            may_be_absent: false,
        }
    }

    /// What is watched.
    #[must_use]
    pub fn resource(&self) -> &ResourceType {
        self.access.resource()
    }

    /// Only objects with these labels.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.label_selector);
        self
    }

    /// Only objects with these field values.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.field_selector);
        self
    }

    /// What spreads the waits after failures, together with what is watched.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The seed of what is watched, so that those who share a seed do not wait alike.
    fn own_seed(&self) -> u64 {
        let resource = self.access.resource().to_string();
        let name = ["reflector", &resource, &self.label_selector, &self.field_selector];
        seed_for(self.seed, &name)
    }

    /// Counts its lists and watches there.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.meters = metrics.reflector(self.access.resource().to_string());
        self
    }

    /// Tells `hear` of each trouble as well as the log.
    #[must_use]
    pub fn troubles(mut self, hear: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.troubles = Some(Arc::new(hear));
        self
    }

    /// Takes it for nothing where the server does not know the kind, and looks for it now and then.
    #[must_use]
    pub fn may_be_absent(mut self) -> Self {
        self.may_be_absent = true;
        self
    }

    fn report(&self, what: &str) {
        tracing::warn!(resource = %self.access.resource(), "{what}");
        if let Some(hear) = &self.troubles {
            hear(what);
        }
    }

    /// Runs until `stop` is cancelled or the receiver is gone. Each delta goes through
    /// `map` into the bounded `sink`; a slow receiver slows the watch, and the server
    /// ends a watch that is too slow, which costs a new list and no delta.
    pub async fn run<E: Send>(
        self,
        sink: mpsc::Sender<E>,
        map: impl Fn(Delta<T>) -> E + Send,
        stop: CancellationToken,
    ) {
        let passed = None::<fn() -> E>;
        self.drive(Line { sink, map, passed }, Gate::none(), stop).await;
    }

    /// The same behind a fence: `passed` is sent once, after the last delta of what the server had
    /// when the fence was put up.
    pub async fn run_fenced<E: Send>(
        self,
        sink: mpsc::Sender<E>,
        map: impl Fn(Delta<T>) -> E + Send,
        (fence, passed): (&Fence, impl Fn() -> E + Send),
        stop: CancellationToken,
    ) {
        let seed = seed_for(self.own_seed(), &["revision"]);
        let gate = Gate::at(fence, Revision::of(self.access.nameplates(), seed));
        self.drive(Line { sink, map, passed: Some(passed) }, gate, stop).await;
    }

    /// Runs until `stop` is cancelled. Each delta is given to `take`, which must not wait:
    /// the watch stands still while it runs.
    pub async fn run_with(self, take: impl FnMut(Delta<T>) + Send, stop: CancellationToken) {
        self.drive(Hands(take), Gate::none(), stop).await;
    }

    async fn drive(self, mut outlet: impl Outlet<T>, mut gate: Gate, stop: CancellationToken) {
        let clock = self.access.client().clock().clone();
        let mut machine = Machine::new(self.own_seed());
        if self.may_be_absent {
            machine = machine.of_what_may_be_absent();
        }
        let mut open = Open { ahead: None, watch: None };
        let mut is_first = true;
        let mut input = Input::Start;
        loop {
            let mut request = None;
            for effect in machine.step(clock.monotonic(), input) {
                match effect {
                    Effect::Deliver(delta) => {
                        let is_taken = tokio::select! {
                            biased;
                            is_taken = outlet.put(delta) => is_taken,
                            () = stop.cancelled() => return,
                        };
                        if !is_taken {
                            return;
                        }
                    }
                    Effect::Report(what) => self.report(&what),
                    other => request = Some(other),
                }
            }
            if let Some(Effect::List { continue_token: None, .. }) = &request {
                self.meters.listed(std::mem::replace(&mut is_first, false));
            }
            let mut performing = pin!(self.perform(request, &mut open, &clock));
            input = loop {
                if gate.is_passed(&machine) {
                    let is_taken = tokio::select! {
                        biased;
                        is_taken = outlet.pass() => is_taken,
                        () = stop.cancelled() => return,
                    };
                    if !is_taken {
                        return;
                    }
                }
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = outlet.closed() => return,
                    () = gate.turned(&clock, &machine) => if gate.wants_list(&machine) {
                        break Input::Relist;
                    },
                    input = &mut performing => break input,
                }
            };
        }
    }

    fn page(&self, limit: u32, continue_token: Option<String>) -> ListOptions {
        ListOptions {
            label_selector: self.label_selector.clone(),
            field_selector: self.field_selector.clone(),
            limit,
            continue_token,
            resource_version: None,
        }
    }

    /// A page of a list; the one after it is on its way when this one is read.
    async fn list(
        &self,
        limit: u32,
        token: Option<String>,
        ahead: &mut Option<Ahead<T>>,
    ) -> Result<Page<T>, Error> {
        let unread = match ahead.take().filter(|ahead| Some(&ahead.token) == token.as_ref()) {
            Some(ahead) => ahead.page.await.unwrap_or_else(|error| {
                go_on_panicking(error);
                Err(Error::Request { what: "the page ahead was given up".to_owned() })
            }),
            None => self.access.fetch(&self.page(limit, token)).await,
        }?;
        if let Some(token) = unread.next() {
            *ahead = Some(self.fetch_ahead(limit, token));
            // So that it is asked for before this one is read.
            tokio::task::yield_now().await;
        }
        unread.read()
    }

    fn fetch_ahead(&self, limit: u32, token: String) -> Ahead<T> {
        let (access, options) = (self.access.clone(), self.page(limit, Some(token.clone())));
        let fetched = tokio::spawn(async move { access.fetch(&options).await });
        Ahead { token, page: AbortOnDropHandle::new(fetched) }
    }

    /// Carries out what the machine asks for; where it asks for nothing, the watch goes on.
    async fn perform(
        &self,
        request: Option<Effect<T>>,
        open: &mut Open<T>,
        clock: &Clock,
    ) -> Input<T> {
        let Open { ahead, watch } = open;
        match request {
            Some(Effect::List { limit, continue_token }) => {
                *watch = None;
                match self.list(limit, continue_token, ahead).await {
                    Ok(page) => Input::Page(page),
                    Err(error) => Input::Failed(failure_of(error)),
                }
            }
            Some(Effect::WakeAfter(delay)) => {
                *watch = None;
                clock.sleep(delay).await;
                Input::Woke
            }
            Some(Effect::Watch { resource_version, timeout }) => {
                let options = WatchOptions {
                    label_selector: self.label_selector.clone(),
                    field_selector: self.field_selector.clone(),
                    resource_version,
                    timeout: Some(timeout),
                };
                *watch = None;
                self.meters.watched();
                match self.access.watch(&options).await {
                    Ok(stream) => {
                        let deadline = clock.monotonic() + timeout + OVERTIME;
                        watch.insert(Watch { stream, deadline }).next(clock).await
                    }
                    Err(error) => Input::Failed(failure_of(error)),
                }
            }
            Some(Effect::Deliver(_) | Effect::Report(_)) | None => match watch {
                Some(watch) => watch.next(clock).await,
                // The machine always asks for something when no watch is open.
                None => Input::Failed(Failure::Lost("no watch is open".to_owned())),
            },
        }
    }
}

/// What a reflector has open.
struct Open<T> {
    /// The next page of a list, which is on its way while this one is read.
    ahead: Option<Ahead<T>>,
    watch: Option<Watch<T>>,
}

/// A page that is on its way. Dropping it ends the request.
struct Ahead<T> {
    token: String,
    page: AbortOnDropHandle<Result<Unread<T>, Error>>,
}

/// Where deltas go.
trait Outlet<T>: Send {
    /// Hands on a delta, and says whether anybody took it.
    fn put(&mut self, delta: Delta<T>) -> impl Future<Output = bool> + Send;

    /// Tells that the fence is passed, and says whether anybody took it.
    fn pass(&mut self) -> impl Future<Output = bool> + Send;

    /// Comes when nobody will take any more.
    fn closed(&self) -> impl Future<Output = ()> + Send;
}

/// A bounded channel.
struct Line<E, F, P> {
    sink: mpsc::Sender<E>,
    map: F,
    passed: Option<P>,
}

impl<T, E, F, P> Outlet<T> for Line<E, F, P>
where
    T: Send,
    E: Send,
    F: Fn(Delta<T>) -> E + Send,
    P: Fn() -> E + Send,
{
    fn put(&mut self, delta: Delta<T>) -> impl Future<Output = bool> + Send {
        let (mapped, sink) = ((self.map)(delta), &self.sink);
        async move { sink.send(mapped).await.is_ok() }
    }

    fn pass(&mut self) -> impl Future<Output = bool> + Send {
        let (passed, sink) = (self.passed.as_ref().map(|passed| passed()), &self.sink);
        async move {
            match passed {
                Some(passed) => sink.send(passed).await.is_ok(),
                None => true,
            }
        }
    }

    fn closed(&self) -> impl Future<Output = ()> + Send {
        let sink = self.sink.clone();
        async move { sink.closed().await }
    }
}

/// A function that takes each at once.
struct Hands<F>(F);

impl<T: Send, F: FnMut(Delta<T>) + Send> Outlet<T> for Hands<F> {
    fn put(&mut self, delta: Delta<T>) -> impl Future<Output = bool> + Send {
        (self.0)(delta);
        std::future::ready(true)
    }

    fn pass(&mut self) -> impl Future<Output = bool> + Send {
        std::future::ready(true)
    }

    fn closed(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

struct Watch<T> {
    stream: EventStream<T>,
    deadline: Duration,
}

impl<T: Object> Watch<T> {
    async fn next(&mut self, clock: &Clock) -> Input<T> {
        let left = self.deadline.saturating_sub(clock.monotonic());
        match clock.timeout(left.min(SILENCE_MAX), self.stream.next()).await {
            None if left > SILENCE_MAX => Input::Silent,
            None => Input::Failed(Failure::Lost("silent beyond its time limit".to_owned())),
            Some(Ok(Some(event))) => Input::Event(event),
            Some(Ok(None)) => Input::WatchEnded,
            Some(Err(error)) => Input::Failed(Failure::Lost(told(&error))),
        }
    }
}

fn failure_of(error: Error) -> Failure {
    match error {
        Error::Refused { refusal, .. } => Failure::Refused(refusal),
        other => Failure::Lost(told(&other)),
    }
}

/// An error with its innermost cause, on one line; the layers between say little.
fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let (text, root) = (error.to_string(), innermost_cause(error).to_string());
    if text.contains(&root) { text } else { format!("{text}: {root}") }
}

/// Several kinds, joined into one stream of a component's own type.
///
/// Order holds within a kind, as it does on the server; between kinds there is none.
pub struct Feeds<E> {
    client: crate::client::Client,
    shutdown: Shutdown,
    sink: mpsc::Sender<E>,
    stream: mpsc::Receiver<E>,
    seed: u64,
    metrics: Option<Metrics>,
}

impl<E: Send + 'static> Feeds<E> {
    /// No kinds yet; at most `capacity` deltas wait for the component.
    #[must_use]
    pub fn new(client: &crate::client::Client, shutdown: &Shutdown, capacity: usize) -> Self {
        let (sink, stream) = mpsc::channel(capacity.max(1));
        let (client, shutdown) = (client.clone(), shutdown.clone());
        Self { client, shutdown, sink, stream, seed: 0, metrics: None }
    }

    /// Counts the lists and watches of the kinds added from here on there.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// What spreads the waits after failures.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Adds all objects of a kind, each delta turned into an `E`.
    #[must_use]
    pub fn watch<T: api::Resource + Object>(
        self,
        map: impl Fn(Delta<T>) -> E + Send + 'static,
    ) -> Self {
        self.watch_resource(ResourceType::of::<T>(), map)
    }

    /// Adds all objects of a resource that has no struct of its own, or is read as another.
    #[must_use]
    pub fn watch_resource<T: Object>(
        self,
        resource: ResourceType,
        map: impl Fn(Delta<T>) -> E + Send + 'static,
    ) -> Self {
        let access = self.client.access::<T>(resource, "");
        self.watch_with(Reflector::new(access), map)
    }

    /// Adds a reflector of the caller's making.
    #[must_use]
    pub fn watch_with<T: Object>(
        self,
        reflector: Reflector<T>,
        map: impl Fn(Delta<T>) -> E + Send + 'static,
    ) -> Self {
        let name = format!("reflector {}", reflector.access.resource());
        let reflector = match &self.metrics {
            Some(metrics) => reflector.metrics(metrics),
            None => reflector,
        };
        let run = reflector.seed(self.seed).run(self.sink.clone(), map, self.shutdown.token());
        self.shutdown.spawn(name, run);
        self
    }

    /// The stream; it ends when shutdown begins.
    #[must_use]
    pub fn into_stream(self) -> mpsc::Receiver<E> {
        self.stream
    }
}

#[cfg(test)]
mod tests;
