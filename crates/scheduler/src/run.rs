//! The scheduler as a whole: elected where it must be, fed, on its thread, with its hands.

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chassis::clock::Clock;
use chassis::controller::go_on_panicking;
use chassis::election::{self, Election, Leadership, News};
use chassis::events::Writer;
use chassis::informer::How;
use chassis::metrics::Metrics;
use chassis::reflector::Fence;
use chassis::serve::Health;
use engine::Engine;
use engine::moment::Moment;
use engine::plugin::Plugin;
use engine::profile::Profile;
use engine::quota::Limit;
use engine::{queue, turn};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::awaited::Awaited;
use crate::caretaker::Caretaker;
use crate::clients::Clients;
use crate::config::{Configuration, Gates, LeaderElection, ProfileConfig};
use crate::controllers::Controllers;
use crate::core::{Core, ERRANDS_MAX, Patience, TELLS_MAX};
use crate::debug::Desk;
use crate::explanations::{self, Explainer};
use crate::extenders::{self, Binders, ExtenderError, Extenders};
use crate::feed::{Feed, Sight};
use crate::first_quotas;
use crate::message::{Kind, Message};
use crate::meters::Meters;
use crate::notes::{LeaseNotes, Notes};
use crate::pod_groups;
use crate::pulse::{Pulse, STALLED};
use crate::quota_profiles;
use crate::quotas::Revoking;
use crate::reservations;
use crate::thread::{Outlets, Timekeeper, Turns};
use crate::witness::Place;
use crate::writers::{Hands, License, Traffic};

/// How many messages may wait for the engine.
const MESSAGES_MAX: usize = 4096;
/// How many questions may wait for extenders: only the last one matters.
const QUESTIONS_MAX: usize = 64;
/// How long events may take to be written when all else has ended.
const EVENTS_GRACE: Duration = Duration::from_secs(5);
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
    /// Where it tells whether its lease is renewed and its engine goes on.
    pub health: Health,
    /// Where it tells how far it is.
    pub state: watch::Sender<State>,
    /// Where it tells what it has not read yet.
    pub awaited: Awaited,
    /// Where it is asked what goes on inside.
    pub desk: Desk,
    /// Where its engine lives.
    pub place: Place,
    /// Whether it answers ScheduleExplanations, which kube-scheduler's role does not let it read.
    pub explains: bool,
    /// What feature gates say.
    pub gates: Gates,
    /// What is looked after beside deciding.
    pub controllers: Controllers,
    /// How long a decision may take before it is told.
    pub patience: Patience,
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
            awaited: Awaited::default(),
            desk: Desk::default(),
            place: Place::Thread,
            explains: false,
            gates: Gates::default(),
            controllers: Controllers::default(),
            patience: Patience::default(),
        }
    }
}

/// How far a scheduler is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Another one works; this one knows what there is and would take over.
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
    /// The engine did not come back from a turn. A lease is not given back, since what was written
    /// last may still land.
    #[error(
        "the engine is in one turn for more than {} s; start it again, and report what the cluster \
         was like", STALLED.as_secs()
    )]
    Stalled,
}

/// Runs a scheduler until `stop` is cancelled or its leadership is lost, and finishes the Bindings
/// that are under way.
///
/// # Errors
/// When it cannot run as configured, in which case nothing was written, or its engine stands still.
///
/// # Panics
/// When a part of it panics: the panic goes on, so that the process ends.
pub async fn run(
    clients: Clients,
    options: Options,
    stop: CancellationToken,
) -> Result<Ending, RunError> {
    let clients = clients.counted(&options.metrics);
    let extenders = Extenders::new(&options.configuration.extenders, &clients.read)?;
    let meters = Meters::register(&options.metrics);
    let pulse = Pulse::new(clients.read.clock());
    let has_thread = options.place.witness().is_none();
    if has_thread {
        pulse.watch(&options.health);
    }
    let own = pulse.clone();
    let running = async {
        let Some(election) = &options.configuration.leader_election else {
            let term = Term { clients, options, meters, extenders, pulse };
            term.work(None, stop).await.finish().await;
            return Ok(Ending::Stopped);
        };
        let config = lease(election, &options);
        let election_meters = election::Meters::register(&options.metrics);
        let election = Election::new(&clients.lease, &config, &election_meters)?;
        election.watchdog().watch(&options.health, LEASE_TOLERANCE);
        let term = Term { clients, options, meters, extenders, pulse };
        Ok(match contend(election, term, stop).await {
            election::Ending::Lost(_) => Ending::LeadershipLost,
            election::Ending::NeverLed | election::Ending::Done => Ending::Stopped,
        })
    };
    tokio::select! {
        biased;
        ended = running => ended,
        () = own.stalled(), if has_thread => Err(RunError::Stalled),
    }
}

/// Has a scheduler stand by until it leads, and work while it does.
async fn contend(election: Election, term: Term, stop: CancellationToken) -> election::Ending {
    let mut turn = Turn::default();
    let (identity, others) = (term.options.identity.clone(), CancellationToken::new());
    let may_stand_by = !term.options.configuration.delay_cache_until_active;
    let (seen, awaited) = (others.clone(), term.options.awaited.clone());
    let (notes, told) = lease_notes(&term);
    let election = election.telling(move |news, lease| {
        notes.tell(news, lease);
        if matches!(news, News::Holder(holder) if !holder.is_empty() && *holder != identity) {
            seen.cancel();
            if !may_stand_by {
                awaited.begin_with_nothing();
            }
        }
    });
    let (end, over) = (CancellationToken::new(), CancellationToken::new());
    let work = {
        let (turn, end, over) = (turn.clone(), end.clone(), over.clone());
        move |leadership: Leadership, asked: CancellationToken| async move {
            turn.begin(leadership);
            tokio::select! {
                biased;
                () = asked.cancelled() => end.cancel(),
                () = over.cancelled() => {}
            }
            over.cancelled().await;
        }
    };
    let working = async {
        // What is first read by a leader is not older than its turn, and read once.
        tokio::select! {
            biased;
            () = turn.begun.cancelled() => {}
            () = end.cancelled() => return,
            () = others.cancelled(), if may_stand_by => turn.fence = Some(Fence::new()),
        }
        let rest = term.work(Some(turn), end.clone()).await;
        // Others need not wait for what is left to be told.
        over.cancel();
        rest.finish().await;
    };
    let contending = async {
        let ending = election.run(stop, work).await;
        end.cancel();
        told.finish().await;
        ending
    };
    tokio::join!(working, contending).1
}

/// What is told of the lease, and what of that is not written yet.
fn lease_notes(term: &Term) -> (LeaseNotes, Rest) {
    let client = &term.clients.events;
    let (notes, writer) = LeaseNotes::new(&term.options, client);
    (notes, Rest::of(writer, client.clock()))
}

/// The turn of a scheduler that others contend with.
#[derive(Debug, Clone, Default)]
struct Turn {
    leadership: Arc<OnceLock<Leadership>>,
    begun: CancellationToken,
    /// Put up when it begins, where it stood by before.
    fence: Option<Fence>,
}

impl Turn {
    fn begin(&self, leadership: Leadership) {
        // An election leads once.
        let _ = self.leadership.set(leadership);
        self.begun.cancel();
    }
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

/// One time of working. Where others contend, it knows what there is before it leads, and decides
/// when it knows all that happened before it began to.
struct Term {
    clients: Clients,
    options: Options,
    meters: Meters,
    extenders: Extenders,
    pulse: Pulse,
}

impl Term {
    async fn work(self, turn: Option<Turn>, stop: CancellationToken) -> Rest {
        let Self { clients, options, meters, mut extenders, pulse } = self;
        let (configuration, seed) = (&gated(&options), options.seed);
        let time = Timekeeper::new(clients.read.clock());
        let (core, names) = core(&options, meters, time.now());

        let (messages, line) = mpsc::channel(MESSAGES_MAX);
        let end_feed = CancellationToken::new();
        let mut feed = JoinSet::new();
        let (client, metrics) = (&clients.read, &options.metrics);
        let (sink, tasks) = (&messages, &mut feed);
        let fence = turn.as_ref().and_then(|turn| turn.fence.as_ref());
        let (awaited, stop_feed, sight) = (&options.awaited, &end_feed, Sight::of(configuration));
        let kinds = &Kind::read_by(core.engine().ledger());
        Feed { client, sink, seed, metrics, awaited, sight, kinds, fence, stop: stop_feed, tasks }
            .start();
        extenders.watch(How { seed, metrics: metrics.clone(), stop: end_feed.clone() }, &mut feed);
        look_after(&clients, &options, turn.as_ref(), &end_feed, &mut feed);

        let (notes, writer) = Notes::new(&names, &options.host, (&clients.events, seed, metrics));
        let rest = Rest::of(writer, clients.events.clock());
        let hands = Hands {
            client: clients.write.clone(),
            traffic: Traffic::new(notes.clone()),
            notes,
            extenders: extenders.clone(),
            license: license(turn.as_ref()),
            seed,
            answers: messages.clone(),
            stop: stop.clone(),
        }
        .licensed();
        let (binds, bind_orders) = mpsc::channel(ERRANDS_MAX);
        let (tells, tell_orders) = mpsc::channel(TELLS_MAX);
        let (questions, question_orders) = mpsc::channel(QUESTIONS_MAX);
        let outlets = Outlets { binds, tells, questions, traffic: hands.traffic.clone() };
        let mut writers = JoinSet::new();
        writers.spawn(hands.clone().bind_all(bind_orders));
        writers.spawn(hands.tell_all(tell_orders));
        writers.spawn(extenders.ask_all(question_orders, messages.clone()));

        let witness = options.place.witness();
        let turns = Turns { core, outlets, time, state: options.state.clone(), pulse, witness };
        let over = start(turns, line);
        let asked = async {
            stop.cancelled().await;
            // The thread listens until it ends.
            let _ = messages.send(Message::Stop).await;
            std::future::pending().await
        };
        let leading = async {
            if let Some(turn) = &turn {
                turn.begun.cancelled().await;
            }
            options.state.send_replace(State::Reading);
            options.desk.open(&messages, &clients.read, configuration);
            if let Some(fence) = fence {
                fence.put_up();
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            () = leading => {}
            () = over => {}
            () = asked => {}
            () = watched(&mut feed) => {}
            () = watched(&mut writers) => {}
        }
        end_feed.cancel();
        joined(feed).await;
        joined(writers).await;
        rest
    }
}

/// Has explanations answered from when this process leads, where it is to do that.
fn explain(
    clients: &Clients,
    options: &Options,
    turn: Option<&Turn>,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) {
    if !options.explains {
        return;
    }
    let rate = options.configuration.client_connection.rate;
    let explainer = Explainer {
        client: clients.write.apart(explanations::IN_FLIGHT_MAX, rate),
        desk: options.desk.clone(),
        license: license(turn),
        begun: turn.map(|turn| turn.begun.clone()),
        metrics: options.metrics.clone(),
        seed: options.seed,
        stop: stop.clone(),
    };
    tasks.spawn(explainer.run());
}

/// Has objects looked after from when this process leads: explanations where it is to do that, and others
/// where a profile has their plugin.
fn look_after(
    clients: &Clients,
    options: &Options,
    turn: Option<&Turn>,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) {
    explain(clients, options, turn, stop, tasks);
    let rate = options.configuration.client_connection.rate;
    let caretaker = |in_flight_max: usize| Caretaker {
        client: clients.write.apart(in_flight_max, rate),
        license: license(turn),
        begun: turn.map(|turn| turn.begun.clone()),
        metrics: options.metrics.clone(),
        seed: options.seed,
        stop: stop.clone(),
    };
    let profiles = &options.configuration.profiles;
    let with = |plugin: Plugin| {
        let has = move |own: &&ProfileConfig| own.lineup.plugins().contains(&plugin);
        profiles.iter().find(has).filter(|_| options.controllers.runs(plugin))
    };
    if with(Plugin::Coscheduling).is_some() {
        tasks.spawn(pod_groups::run(caretaker(pod_groups::IN_FLIGHT_MAX)));
    }
    if let Some(own) = with(Plugin::ElasticQuota) {
        let (name, args) = (own.scheduler_name.clone(), own.args.elastic_quota.clone());
        tasks.spawn(quota_profiles::run(caretaker(quota_profiles::IN_FLIGHT_MAX), name));
        tasks.spawn(first_quotas::run(caretaker(first_quotas::IN_FLIGHT_MAX), args));
    }
}

fn license(turn: Option<&Turn>) -> License {
    match turn {
        None => License::Always,
        Some(turn) => License::WhileLeading(turn.leadership.clone()),
    }
}

/// Tells in the log which plugins do nothing yet, for whoever wrote that they should.
pub fn tell_of_plugins_to_come(configuration: &Configuration) {
    for profile in &configuration.profiles {
        for plugin in profile.to_come() {
            let name = profile.scheduler_name.as_str();
            tracing::warn!(profile = name, %plugin, "a plugin is not there yet, and does nothing");
        }
    }
}

/// The scheduler without its hands, and the names of its profiles.
fn core(options: &Options, meters: Meters, now: Moment) -> (Core, Vec<Arc<str>>) {
    let configuration = &gated(options);
    let profiles = profiles(configuration);
    let names: Vec<Arc<str>> = profiles.iter().map(|(name, _)| name.clone()).collect();
    let engine = Engine::new(settings(options), profiles, now);
    tell_of_what_is_vain(options);
    let mut of_profiles = configuration.profiles.iter();
    let reserving = of_profiles.find(|own| own.lineup.plugins().contains(&Plugin::Reservation));
    let lives = reserving.map(|own| own.args.reservation.lives).unwrap_or_default();
    let frees_pods = options.gates.clean_expired_reservation_allocated;
    let lives = reservations::Settings { frees_pods, ..lives };
    let is_on = options.controllers.runs(Plugin::Reservation);
    let core = Core::new(engine, names.iter().cloned(), meters);
    let mut core = core.keeping(is_on.then_some(lives));
    core = match options.controllers.runs(Plugin::ElasticQuota) {
        true => core.revoking(revoking(configuration)),
        false => core.leaving_quotas(),
    };
    if let Some(args) = configuration.quota_args() {
        core = core.reserving(args.namespace.clone());
    }
    if !options.controllers.runs(Plugin::Coscheduling) {
        core = core.leaving_gangs();
    }
    let core = core.with_patience(options.patience).heeding(options.desk.switches().clone());
    (core.with_binders(Binders::of(&configuration.extenders)), names)
}

/// When pods have to go whose quota uses more than it may; none where they never have to.
fn revoking(configuration: &Configuration) -> Option<Revoking> {
    let args = configuration.quota_args()?;
    let (wait, interval) = (args.overuse_wait, args.revoke_interval);
    let is_on = args.monitors_all && args.settings.options.limit == Limit::Runtime;
    is_on.then_some(Revoking { wait, interval })
}

/// Tells in the log what is asked for and changes nothing.
fn tell_of_what_is_vain(options: &Options) {
    for vain in &options.gates.vain {
        tracing::warn!("{vain}");
    }
    for profile in &options.configuration.profiles {
        for vain in &profile.args.vain {
            tracing::warn!(profile = profile.scheduler_name.as_str(), "{vain}");
        }
    }
}

/// The configuration with what gates say of plugins, so that whoever asks why is told the same.
fn gated(options: &Options) -> Configuration {
    let mut configuration = options.configuration.clone();
    for profile in &mut configuration.profiles {
        let own = &mut profile.args.reservation.plugin;
        own.omits_node_labels = options.gates.omit_node_labels_for_reservation;
        profile.args.coscheduling.tells_all = options.gates.gang_pending_pods;
        options.gates.tell_quotas(&mut profile.args.elastic_quota.settings);
    }
    configuration
}

fn profiles(configuration: &Configuration) -> Vec<(Arc<str>, Profile)> {
    let consulting = extenders::consulting(&configuration.extenders);
    let named = |profile: &ProfileConfig| {
        let assembled = profile.assemble().profile;
        let of_all = configuration.percentage_of_nodes_to_score;
        let consulted_percent = profile.percentage_of_nodes_to_score.unwrap_or(of_all);
        let profile_of_engine =
            Profile { consulting: consulting.clone(), consulted_percent, ..assembled };
        (profile.scheduler_name.as_str().into(), profile_of_engine)
    };
    configuration.profiles.iter().map(named).collect()
}

fn settings(options: &Options) -> turn::Settings {
    let configuration = &options.configuration;
    let queue = queue::Settings {
        backoff_initial: configuration.pod_initial_backoff,
        backoff_max: configuration.pod_max_backoff,
        ..queue::Settings::default()
    };
    let heeds_others = options.gates.cross_scheduler_nomination;
    turn::Settings { queue, seed: options.seed, heeds_others }
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

/// The events that are noted and not written when all else has ended.
struct Rest {
    events: JoinSet<()>,
    give_up: CancellationToken,
    clock: Clock,
}

impl Rest {
    /// Has events written from now on.
    fn of(writer: Writer, clock: &Clock) -> Self {
        let (give_up, mut events) = (CancellationToken::new(), JoinSet::new());
        events.spawn(writer.run(give_up.clone()));
        Self { events, give_up, clock: clock.clone() }
    }

    /// Waits a while for them to be written. Whoever takes notes has ended.
    async fn finish(mut self) {
        let all = async { while self.events.join_next().await.is_some() {} };
        if self.clock.timeout(EVENTS_GRACE, all).await.is_none() {
            self.give_up.cancel();
            while self.events.join_next().await.is_some() {}
        }
    }
}
