//! A drydock in this process, clients that reach it well or badly, and the time.
//!
//! Nothing here waits for real: the runtime's clock is paused, and one hand moves it, the
//! server's clock and the components' clock together whenever nobody has anything to do. One
//! seed decides a whole run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use chassis::client::{Client, Options};
use chassis::clock::{Clock, Hand};
use chassis::random::Random;
use drydock::env::Env;
use drydock::faults::{Faults, Faulty};
use drydock::request::Identity;
use drydock::{Config, Drydock, Memory, Trusted};
use http::{Method, Request, Response, StatusCode};
use jiff::Timestamp;
use tower::Service;

/// How far the clocks move at once.
const TICK: Duration = Duration::from_millis(20);

/// Everything that a test needs of a world.
pub struct World {
    pub drydock: Drydock,
    pub clock: Clock,
    hand: Hand,
}

/// The time and the identifiers of the server.
struct WorldEnv {
    clock: Clock,
    random: Mutex<Random>,
}

impl Env for WorldEnv {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn random(&self) -> u64 {
        self.random.lock().unwrap().draw()
    }
}

impl World {
    /// A world whose server remembers so many events of a resource.
    pub fn new(seed: u64, events: usize) -> Self {
        let (clock, hand) = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
        let env = WorldEnv { clock: clock.clone(), random: Mutex::new(Random::new(seed)) };
        let memory = Memory { bytes_max: 0, events_min: events, ..Memory::default() };
        let config = Config { memory, ..Config::default() };
        Self { drydock: Drydock::new(config, env), clock, hand }
    }

    fn options(&self, component: &str) -> Options {
        Options { clock: self.clock.clone(), ..Options::new(component) }
    }

    /// A client that nothing happens to.
    pub fn client(&self) -> Client {
        Client::from_service(self.trusting(), &self.options("test"))
    }

    /// The server for one who may do everything.
    fn trusting(&self) -> Trusted {
        let groups = vec!["system:masters".to_owned()];
        self.drydock.trusting(Identity { user: "test".to_owned(), groups })
    }

    /// A client that meets faults, the switch that ends them, and what came of requests.
    pub fn faulty(&self, faults: Faults, seed: u64) -> Badly {
        let (server, told) = (Counts::default(), Counts::default());
        let inner = Counted { inner: self.trusting(), counts: server.clone() };
        let faulty = Faulty::new(inner, faults, seed);
        let outer = Counted { inner: faulty.clone(), counts: told.clone() };
        let client = Client::from_service(outer, &self.options("faulty"));
        Badly { client, faulty, server, told }
    }

    /// Lets so much time pass.
    pub async fn pass(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            self.tick().await;
            left = left.saturating_sub(TICK);
        }
    }

    /// Lets the smallest bit of time pass, once everybody has done what there was to do.
    pub async fn tick(&self) {
        // The runtime moves its own clock when all tasks wait, and only then.
        tokio::time::sleep(TICK).await;
        self.hand.advance(TICK);
    }

    /// Lets time pass until `done`, at most `limit`.
    pub async fn until(&self, what: &str, limit: Duration, mut done: impl AsyncFnMut() -> bool) {
        let begun = self.clock.monotonic();
        while self.clock.monotonic() - begun < limit {
            if done().await {
                return;
            }
            self.tick().await;
        }
        panic!("{what}: not within {limit:?}");
    }
}

/// A way to the server that is bad.
pub struct Badly {
    pub client: Client,
    faulty: Faulty<Counted<Trusted>>,
    server: Counts,
    told: Counts,
}

impl Badly {
    /// The pods that the server made.
    pub fn made(&self) -> usize {
        self.server.made.load(Ordering::Relaxed)
    }

    /// Those whose answer did not come back: nobody can know that they are not to be made
    /// again until the watch shows them.
    pub fn unknown(&self) -> usize {
        self.made() - self.told.made.load(Ordering::Relaxed)
    }

    /// Ends all faults; there must have been some.
    pub fn heal(&self) {
        let count = |counts: &Counts| counts.asked.load(Ordering::Relaxed);
        let (asked, reached) = (count(&self.told), count(&self.server));
        assert!(reached < asked, "all of {asked} requests have reached the server");
        self.faulty.heal();
    }
}

/// What was asked at one end of the way.
#[derive(Clone, Default)]
struct Counts {
    asked: Arc<AtomicUsize>,
    /// Answers that say a pod was made.
    made: Arc<AtomicUsize>,
}

/// Counts requests and their answers.
#[derive(Clone)]
struct Counted<S> {
    inner: S,
    counts: Counts,
}

impl<S, B, A> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Future: Send + 'static,
{
    type Response = Response<A>;
    type Error = S::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response<A>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let makes_pod = request.method() == Method::POST && request.uri().path().ends_with("/pods");
        self.counts.asked.fetch_add(1, Ordering::Relaxed);
        let (answer, made) = (self.inner.call(request), self.counts.made.clone());
        Box::pin(async move {
            let answer = answer.await?;
            if makes_pod && answer.status() == StatusCode::CREATED {
                made.fetch_add(1, Ordering::Relaxed);
            }
            Ok(answer)
        })
    }
}

/// All that can go wrong, often.
pub const BAD: Faults = Faults {
    delayed: 100,
    lost_before: 40,
    lost_after: 40,
    conflict: 40,
    too_many: 20,
    internal: 40,
    watch_closed: 200,
    watch_stale: 60,
    delay_max: Duration::from_millis(300),
};
