//! The scheduler as a whole: elected where it must be, fed, on its thread, with its hands.

use std::sync::Arc;
use std::time::Duration;

use chassis::clock::Clock;
use chassis::controller::go_on_panicking;
use chassis::election::{self, Election};
use chassis::informer::How;
use chassis::metrics::Metrics;
use chassis::serve::Health;
use engine::Engine;
use engine::profile::Profile;
use engine::{queue, turn};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clients::Clients;
use crate::config::{Configuration, LeaderElection, ProfileConfig};
use crate::core::{BINDS_MAX, Core, TELLS_MAX};
use crate::debug::Desk;
use crate::extenders::{self, Binders, ExtenderError, Extenders};
use crate::feed::Feed;
use crate::message::Message;
use crate::meters::Meters;
use crate::notes::Notes;
use crate::thread::{Outlets, Timekeeper, Turns};
use crate::witness::Place;
use crate::writers::{Hands, License};

/// How many messages may wait for the engine.
const MESSAGES_MAX: usize = 4096;
/// How many questions may wait for extenders: only the last one matters.
const QUESTIONS_MAX: usize = 64;
/// How long events may take to be written when all else has ended.
const EVENTS_GRACE: Duration = Duration::from_secs(2);
/// How much longer than its lease lasts a leader may be silent and count as alive.
const LEASE_TOLERANCE: Duration = Duration::from_secs(20);

/// How a scheduler runs.
#[derive(Clone)]
pub struct Options {
    /// What it is told to do.
    pub configuration: Configuration,
    /// What ties between nodes and waits after failures are drawn from.
    pub seed: u64,
    /// The name of this process in the lease, which no other may have.
    pub identity: String,
    /// The machine it runs on, as events name it.
    pub host: String,
    /// Where it counts.
    pub metrics: Metrics,
    /// Where it tells whether its lease is renewed.
    pub health: Health,
    /// Where it tells how far it is.
    pub state: watch::Sender<State>,
    /// Where it is asked what goes on inside.
    pub desk: Desk,
    /// Where its engine lives.
    pub place: Place,
}

impl Options {
    /// A scheduler that is told this, under a name that no other process may have.
    #[must_use]
    pub fn new(configuration: Configuration, identity: &str) -> Self {
        Self {
            configuration,
            seed: 0,
            identity: identity.to_owned(),
            host: "localhost".to_owned(),
            metrics: Metrics::new(),
            health: Health::new(),
            state: watch::Sender::default(),
            desk: Desk::default(),
            place: Place::Thread,
        }
    }
}

/// How far a scheduler is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Another one works; this one would take over.
    #[default]
    Standby,
    /// It reads what there is.
    Reading,
    /// It decides.
    Deciding,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was asked to.
    Stopped,
    /// Another one may work by now.
    LeadershipLost,
}

/// Why a scheduler cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An extender cannot be asked.
    #[error(transparent)]
    Extender(#[from] ExtenderError),
    /// The election cannot be held.
    #[error("leaderElection: {0}")]
    Election(#[from] election::ConfigError),
}

/// Runs a scheduler until `stop` is cancelled or its leadership is lost, and finishes the Bindings
/// that are under way.
///
/// # Errors
/// When it cannot run as configured; nothing was written then.
///
/// # Panics
/// When a part of it panics: the panic goes on, so that the process ends.
pub async fn run(
    clients: Clients,
    options: Options,
    stop: CancellationToken,
) -> Result<Ending, RunError> {
    let extenders = Extenders::new(&options.configuration.extenders, &clients.read)?;
    let meters = Meters::register(&options.metrics);
    let Some(election) = &options.configuration.leader_election else {
        Term { clients, options, meters, extenders }.work(License::Always, stop).await;
        return Ok(Ending::Stopped);
    };
    let config = lease(election, &options);
    let election_meters = election::Meters::register(&options.metrics);
    let election = Election::new(&clients.lease, &config, &election_meters)?;
    election.watchdog().watch(&options.health, LEASE_TOLERANCE);
    let term = Term { clients, options, meters, extenders };
    let ending = election
        .run(stop, move |leadership, end| term.work(License::WhileLeading(leadership), end))
        .await;
    Ok(match ending {
        election::Ending::Lost(_) => Ending::LeadershipLost,
        election::Ending::NeverLed | election::Ending::Done => Ending::Stopped,
    })
}

fn lease(election: &LeaderElection, options: &Options) -> election::Config {
    let LeaderElection { namespace, name, lease_duration, renew_deadline, retry_period } = election;
    election::Config {
        lease_duration: *lease_duration,
        renew_deadline: *renew_deadline,
        retry_period: *retry_period,
        seed: options.seed,
        ..election::Config::new(namespace, name, &options.identity)
    }
}

/// One time of working: everything in it begins with it, so that what it knows of the cluster is
/// not older than its leadership.
struct Term {
    clients: Clients,
    options: Options,
    meters: Meters,
    extenders: Extenders,
}

impl Term {
    async fn work(self, license: License, stop: CancellationToken) {
        let Self { clients, options, meters, mut extenders } = self;
        let (configuration, seed) = (&options.configuration, options.seed);
        options.state.send_replace(State::Reading);
        let profiles = profiles(configuration);
        let names: Vec<Arc<str>> = profiles.iter().map(|(name, _)| name.clone()).collect();
        let time = Timekeeper::new(clients.read.clock());
        let engine = Engine::new(settings(configuration, seed), profiles, time.now());
        let binders = Binders::of(&configuration.extenders);
        let core = Core::new(engine, names.iter().cloned(), meters).with_binders(binders);

        let (messages, line) = mpsc::channel(MESSAGES_MAX);
        options.desk.open(&messages, &clients.read, configuration);
        let end_feed = CancellationToken::new();
        let mut feed = JoinSet::new();
        let (client, metrics) = (&clients.read, &options.metrics);
        let (sink, tasks) = (&messages, &mut feed);
        Feed { client, sink, seed, metrics, stop: &end_feed, tasks }.start();
        let how = How { seed, metrics: metrics.clone(), stop: end_feed.clone() };
        extenders.watch(how, &mut feed);

        let with = (&clients.events, seed, metrics);
        let (notes, writer) = Notes::new(&names, &options.host, with);
        let give_up = CancellationToken::new();
        let mut events = JoinSet::new();
        events.spawn(writer.run(give_up.clone()));
        let hands = Hands {
            client: clients.write.clone(),
            notes,
            extenders: extenders.clone(),
            license,
            seed,
            answers: messages.clone(),
            stop: stop.clone(),
        };
        let (binds, bind_orders) = mpsc::channel(BINDS_MAX);
        let (tells, tell_orders) = mpsc::channel(TELLS_MAX + BINDS_MAX);
        let mut writers = JoinSet::new();
        writers.spawn(hands.clone().bind_all(bind_orders));
        writers.spawn(hands.tell_all(tell_orders));

        let (questions, question_orders) = mpsc::channel(QUESTIONS_MAX);
        writers.spawn(extenders.ask_all(question_orders, messages.clone()));
        let outlets = Outlets { binds, tells, questions };
        let witness = match options.place {
            Place::Thread => None,
            Place::Runtime(witness) => Some(witness),
        };
        let turns = Turns { core, outlets, time, state: options.state.clone(), witness };
        let over = start(turns, line);
        let asked = async {
            stop.cancelled().await;
            // The thread listens until it ends.
            let _ = messages.send(Message::Stop).await;
            std::future::pending().await
        };
        tokio::select! {
            biased;
            () = over => {}
            () = asked => {}
            () = watched(&mut feed) => {}
            () = watched(&mut writers) => {}
        }
        end_feed.cancel();
        joined(feed).await;
        joined(writers).await;
        finish(events, &give_up, clients.events.clock()).await;
    }
}

fn profiles(configuration: &Configuration) -> Vec<(Arc<str>, Profile)> {
    let consulting = extenders::consulting(&configuration.extenders);
    let named = |profile: &ProfileConfig| {
        let assembled = profile.assemble().profile;
        let profile_of_engine = Profile { consulting: consulting.clone(), ..assembled };
        (profile.scheduler_name.as_str().into(), profile_of_engine)
    };
    configuration.profiles.iter().map(named).collect()
}

fn settings(configuration: &Configuration, seed: u64) -> turn::Settings {
    let queue = queue::Settings {
        backoff_initial: configuration.pod_initial_backoff,
        backoff_max: configuration.pod_max_backoff,
        ..queue::Settings::default()
    };
    turn::Settings { queue, seed }
}

/// Has the engine take its turns where it lives. What is returned comes when it has ended.
async fn start(turns: Turns, line: mpsc::Receiver<Message>) {
    if turns.witness.is_some() {
        turns.run_among_tasks(line).await;
    } else {
        start_thread(turns, line).await;
    }
}

/// Starts the engine's thread. What is returned comes when it has ended, and panics when it did.
fn start_thread(turns: Turns, line: mpsc::Receiver<Message>) -> impl Future<Output = ()> {
    let (tell, told) = oneshot::channel();
    let thread = std::thread::Builder::new().name("engine".to_owned()).spawn(move || {
        turns.run(line);
        // Nobody listens only when everything is dropped.
        let _ = tell.send(());
    });
    async move {
        let thread = thread.expect("the system has room for one more thread");
        if told.await.is_err()
            && let Err(panic) = thread.join()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Goes on panicking where one of the tasks does; otherwise it never comes.
async fn watched(tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            go_on_panicking(error);
        }
    }
    std::future::pending().await
}

async fn joined(mut tasks: JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            go_on_panicking(error);
        }
    }
}

/// Waits a while for the events that are noted to be written. Whoever takes notes has ended.
async fn finish(mut events: JoinSet<()>, give_up: &CancellationToken, clock: &Clock) {
    let all = async { while events.join_next().await.is_some() {} };
    if clock.timeout(EVENTS_GRACE, all).await.is_none() {
        give_up.cancel();
        while events.join_next().await.is_some() {}
    }
}
