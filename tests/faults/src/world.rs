//! A run: the server, the schedulers, everybody else, and the time.

mod actions;
mod batch;
mod koordinator;
mod volumes;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chassis::client::{Client, Options};
use chassis::clock::{Clock, Hand};
use chassis::random::Random;
use drydock::env::Env;
use drydock::request::Identity;
use drydock::{Config, Drydock, Memory, Trusted};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use scheduler::Clients;
use scheduler::config::{self, Configuration};
use scheduler::witness::Place;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::draw::Draw;
use crate::held::Held;
use crate::judge::{Excuses, Judge, Judged, Reading, Snapshot, Standing, identity};
use crate::log::Log;
use crate::network::{Faults, Network};
use crate::rules;
use crate::shapes::{CLASS, CONFIGURATION, PRIORITY_OF_OWN};
use crate::shares::{Share, is_ours};
use crate::witness::{Chosen, Onlooker, Rest};
use actions::BUDGETS;
use batch::{Batch, GROUPS, QUOTAS};
use koordinator::{Koordinator, REPORTS, RESERVATIONS};

/// Steps of a run while there are faults.
const STEPS: usize = 70;
/// How long everything may take once the faults have ended: a watch that stays silent is given up
/// after three minutes and a list that is never answered after one, a lease that nobody renews is free
/// after 15 s, and pods back off for 10 s.
const SETTLED_WITHIN: Duration = Duration::from_secs(330);
/// In the last part of that nobody has to go any longer.
const QUIET: Duration = Duration::from_secs(60);
/// How long schedulers may take until one leads and has looked at all pods.
const STARTED_WITHIN: Duration = Duration::from_secs(60);
/// How much of the past the server remembers of each resource: little, so that watches that come
/// back late have to begin anew.
const EVENTS_REMEMBERED: usize = 12;
/// The smallest step of the runtime's clock.
const TICK: Duration = Duration::from_millis(1);

/// What a run came to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    pub bound: u64,
    pub decided: u64,
    pub waits: u64,
    pub rooms: u64,
    pub starts: u64,
    pub left: u64,
    pub prepared: u64,
    pub held: u64,
    pub inside: u64,
    pub adopted: u64,
    pub own_cpus: u64,
    /// Members of gangs that got nodes.
    pub members: u64,
    /// How often a quota had no room for a pod.
    pub over_quota: u64,
    pub chosen: Chosen,
    pub judged: Judged,
    pub excused: Excuses,
    pub faults: Faults,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.bound += other.bound;
        self.decided += other.decided;
        self.waits += other.waits;
        self.rooms += other.rooms;
        self.starts += other.starts;
        self.left += other.left;
        self.prepared += other.prepared;
        self.held += other.held;
        self.inside += other.inside;
        self.adopted += other.adopted;
        self.own_cpus += other.own_cpus;
        self.members += other.members;
        self.over_quota += other.over_quota;
        self.chosen.add(&other.chosen);
        self.judged.add(&other.judged);
        self.excused.quotas += other.excused.quotas;
        self.excused.landings += other.excused.landings;
        self.excused.sights += other.excused.sights;
        self.excused.uses += other.excused.uses;
        self.faults.add(&other.faults);
    }

    /// What has not happened: what went well where nothing could go wrong shows nothing.
    pub fn lacking(&self) -> Vec<&'static str> {
        let batches = self.chosen.named().into_iter().chain(self.judged.named());
        let all = self.faults.named().into_iter().chain(batches);
        all.filter(|(count, _)| *count == 0).map(|(_, what)| what).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bound, decided, waits, rooms, starts, left, prepared, .. } = self;
        let Self { held, inside, adopted, own_cpus, members, over_quota, excused, faults, .. } =
            self;
        let batches = self.chosen.named().into_iter().chain(self.judged.named());
        for (count, what) in faults.named().into_iter().chain(batches) {
            write!(f, "{count} {what}, ")?;
        }
        let Excuses { landings, sights, uses, quotas } = excused;
        write!(
            f,
            "{decided} binds decided, {prepared} after volumes were made, {waits} times no node, \
             room made {rooms} times, {starts} schedulers started; {landings} Bindings that met \
             others in flight, {sights} times a node seen with too much; {held} reservations \
             placed, {inside} pods inside them, {adopted} taken over, {own_cpus} with CPUs of their own, \
             {uses} uses that met others in flight; {members} members of gangs placed, {over_quota} times \
             no room in a quota, {quotas} times too little by others in flight; {bound} pods bound and {left} impossible at the end"
        )
    }
}

/// How a run ended.
pub struct Run {
    pub log: Log,
    /// The step and what happened in it.
    pub failure: Option<(usize, String)>,
    pub tally: Tally,
}

/// Runs a seed.
pub fn run(seed: u64) -> Run {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without I/O needs nothing of the system");
    runtime.block_on(async {
        let mut world = World::new(seed);
        world.play().await;
        let (excused, judged) = (world.judge.excuses(), world.judge.judged());
        let tally = Tally { excused, judged, faults: world.network.faults(), ..world.tally };
        Run { failure: world.log.failed(), tally, log: world.log.clone() }
    })
}

struct WorldEnv {
    clock: Clock,
    random: Mutex<Random>,
}

impl Env for WorldEnv {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).draw()
    }
}

/// What every scheduler is told.
fn configuration(own: Option<&Koordinator>, batch: Option<&Batch>) -> Configuration {
    let parse = |text: &str| {
        let read = config::parse(Path::new("CONFIGURATION"), text);
        read.expect("the configuration of this program is valid")
    };
    let mut all = parse(CONFIGURATION);
    let own = own.map(Koordinator::configuration).into_iter();
    for text in own.chain(batch.map(Batch::configuration)) {
        all.profiles.extend(parse(&text).profiles);
    }
    all
}

/// Whether an object at this path is not one of Kubernetes' own.
fn is_custom(path: &str) -> bool {
    path.contains(".koordinator.sh/") || path.contains(".sigs.k8s.io/")
}

/// A scheduler that runs.
struct Runner {
    who: usize,
    witness: Arc<Onlooker>,
    stop: CancellationToken,
    task: JoinHandle<String>,
}

struct World {
    seed: u64,
    draw: Draw,
    clock: Clock,
    hand: Hand,
    log: Log,
    judge: Judge,
    network: Network,
    drydock: Drydock,
    /// Places for schedulers, and who is there.
    slots: Vec<Option<Runner>>,
    starts: usize,
    pods_made: usize,
    nodes_made: usize,
    /// Reservations, load reports and layouts of CPUs, where there are any.
    koordinator: Option<Koordinator>,
    /// Gangs and quotas, where there are any.
    batch: Option<Batch>,
    tally: Tally,
}

impl World {
    fn new(seed: u64) -> Self {
        let start = Timestamp::from_second(1_767_225_600).unwrap_or(Timestamp::UNIX_EPOCH);
        let (clock, hand) = Clock::manual(start);
        let env = WorldEnv { clock: clock.clone(), random: Mutex::new(Random::new(seed)) };
        let memory = Memory { bytes_max: 0, events_min: EVENTS_REMEMBERED, ..Memory::default() };
        let log = Log::new(&clock);
        let judge = Judge::new(&log);
        let batch = Batch::drawn(seed);
        judge.govern(batch.as_ref().map(|own| own.regime).unwrap_or_default());
        let mut draw = Draw::new(seed, "world");
        // In some runs there is one scheduler without an election, in others two with one.
        let slots = (0..1 + draw.below(2)).map(|_| None).collect();
        Self {
            seed,
            network: Network::new(&clock, &log, &judge, seed),
            drydock: Drydock::new(Config { memory, ..Config::default() }, env),
            draw,
            clock,
            hand,
            log,
            judge,
            slots,
            starts: 0,
            pods_made: 0,
            nodes_made: 0,
            koordinator: Koordinator::drawn(seed),
            batch,
            tally: Tally::default(),
        }
    }

    async fn play(&mut self) {
        self.found().await;
        self.change_weather();
        for _ in 0..STEPS {
            self.act().await;
            self.act_on_reservations().await;
            self.act_on_batches().await;
            self.keep_house().await;
            let time = match self.draw.below(10) {
                0..4 => self.draw.millis(1, 60),
                4..8 => self.draw.millis(60, 1500),
                8 => self.draw.millis(1500, 6000),
                _ => self.draw.millis(6000, 30_000),
            };
            self.pass(time).await;
            self.inspect().await;
            if self.log.failed().is_some() {
                return;
            }
        }
        self.settle().await;
    }

    /// Ends the faults, waits, and looks whether all is well.
    async fn settle(&mut self) {
        self.log.step("the faults end");
        self.network.heal();
        self.wait(SETTLED_WITHIN.saturating_sub(QUIET)).await;
        let sent_away = self.judge.all_sent_away();
        self.wait(QUIET).await;
        if self.log.failed().is_some() {
            return;
        }
        let more = self.judge.all_sent_away() - sent_away;
        if more > 0 && self.batch.is_some() {
            self.log.violated(&format!("{more} more pods had to go, though nothing has happened"));
        }
        let snapshot = self.inspect().await;
        self.judge.conclude(&snapshot);
        self.conclude_schedulers();
        let is_bound = |pod: &&Standing| !pod.node.is_empty();
        let bound = snapshot.pods.iter().filter(is_bound).count();
        self.tally.bound = bound as u64;
        self.tally.left = (snapshot.pods.len() - bound) as u64;
        for slot in 0..self.slots.len() {
            self.remove(slot);
        }
        if self.batch.is_some() && self.log.failed().is_none() {
            self.conclude_anew(&snapshot).await;
        }
    }

    /// Time passes without faults, and everybody does what is left to do.
    async fn wait(&mut self, time: Duration) {
        let until = self.clock.monotonic() + time;
        while self.clock.monotonic() < until && self.log.failed().is_none() {
            self.keep_house().await;
            for runner in self.slots.iter().flatten().filter(|_| self.batch.is_some()) {
                runner.witness.audit();
            }
            self.finish_deletions().await;
            self.lift_gates().await;
            self.describe_gangs().await;
            self.make_volumes(true).await;
            self.pass(Duration::from_secs(5)).await;
        }
    }

    /// Schedulers have nothing left to do, and hold nothing.
    fn conclude_schedulers(&self) {
        for runner in self.slots.iter().flatten() {
            let Rest { in_flight, missed_wakes, claims, .. } = runner.witness.rest();
            if in_flight > 0 {
                self.log.violated(&format!("s{} has {in_flight} binds in flight", runner.who));
            }
            if claims > 0 {
                self.log.violated(&format!("s{} holds room for {claims} pods", runner.who));
            }
            if missed_wakes > 0 {
                self.log.violated(&format!("s{} missed {missed_wakes} wakes", runner.who));
            }
            self.judge.conclude_audit(runner.who, runner.witness.audit_result());
        }
    }

    /// Those who know nothing but what the server shows find nothing to do that others had left undone.
    async fn conclude_anew(&mut self, before: &Snapshot) {
        self.log.step("those start who know nothing");
        self.wait(STARTED_WITHIN).await;
        let after = self.snapshot().await;
        self.judge.conclude_anew(before, &after);
        self.conclude_schedulers();
        for slot in 0..self.slots.len() {
            self.remove(slot);
        }
    }

    /// Lets time pass, from one thing that is due to the next.
    async fn pass(&mut self, time: Duration) {
        let until = self.clock.monotonic() + time;
        loop {
            // The runtime moves its own clock when all tasks wait, and only then.
            tokio::time::sleep(TICK).await;
            for runner in self.slots.iter().flatten() {
                runner.witness.breathe();
            }
            let left = until.saturating_sub(self.clock.monotonic());
            if left.is_zero() || self.log.failed().is_some() {
                return;
            }
            let due = self.hand.next_due().unwrap_or(left).clamp(Duration::from_nanos(1), left);
            tokio::time::sleep(due).await;
            self.hand.advance(due);
        }
    }

    fn trusting(&self, user: &str) -> Trusted {
        let groups = vec!["system:masters".to_owned()];
        self.drydock.trusting(Identity { user: user.to_owned(), groups })
    }

    /// Starts a scheduler.
    fn start(&mut self, slot: usize) {
        self.starts += 1;
        self.tally.starts += 1;
        let who = self.starts;
        let way = self.network.way(who, self.trusting("system:kube-scheduler"));
        let mut configuration = configuration(self.koordinator.as_ref(), self.batch.as_ref());
        if self.slots.len() == 1 {
            configuration.leader_election = None;
        }
        let clock = self.clock.clone();
        let clients = Clients::made(&configuration.client_connection, |options: &Options| {
            Client::from_service(way.clone(), &Options { clock: clock.clone(), ..options.clone() })
        });
        let witness = Arc::new(Onlooker::new(who, &self.judge));
        let options = scheduler::Options {
            seed: self.seed,
            place: Place::Runtime(witness.clone()),
            ..scheduler::Options::new(configuration, &identity(who))
        };
        self.judge.read(who, Reading::Start, self.judge.now());
        let stop = CancellationToken::new();
        let running = scheduler::run(clients, options, stop.clone());
        let task = tokio::spawn(async move { format!("{:?}", running.await) });
        self.log.note(&format!("s{who} starts"));
        self.slots[slot] = Some(Runner { who, witness, stop, task });
    }

    /// Kills whoever is there.
    fn remove(&mut self, slot: usize) -> Option<usize> {
        let runner = self.slots.get_mut(slot)?.take()?;
        runner.task.abort();
        let Rest { binds, waits, rooms, prepared, held, inside, adopted, .. } =
            runner.witness.rest();
        let Rest { own_cpus, members, over_quota, batch, .. } = runner.witness.rest();
        self.tally.chosen.add(&batch);
        self.tally.members += members;
        self.tally.over_quota += over_quota;
        self.tally.prepared += prepared;
        self.tally.held += held;
        self.tally.inside += inside;
        self.tally.adopted += adopted;
        self.tally.own_cpus += own_cpus;
        self.tally.decided += binds;
        self.tally.waits += waits;
        self.tally.rooms += rooms;
        Some(runner.who)
    }

    /// Schedulers that have ended are started anew.
    async fn keep_house(&mut self) {
        for slot in 0..self.slots.len() {
            let is_over = self.slots[slot].as_ref().is_none_or(|one| one.task.is_finished());
            if !is_over {
                continue;
            }
            if let Some(runner) = &mut self.slots[slot] {
                match (&mut runner.task).await {
                    Ok(ending) => self.log.note(&format!("s{} ended: {ending}", runner.who)),
                    Err(error) => self.log.violated(&format!("s{} died: {error}", runner.who)),
                }
            }
            self.remove(slot);
            self.start(slot);
        }
    }

    /// Asks the server for something, directly.
    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let content_type = match method {
            Method::PATCH if is_custom(path) => "application/merge-patch+json",
            Method::PATCH => "application/strategic-merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, content_type)
            .body(Full::from(bytes))
            .expect("the paths of this module are valid");
        let mut server = self.trusting("world");
        let Ok(answer) = tower::Service::call(&mut server, request).await;
        let code = answer.status();
        let Ok(body) = answer.into_body().collect().await;
        (code, serde_json::from_slice(&body.to_bytes()).unwrap_or_default())
    }

    async fn snapshot(&self) -> Snapshot {
        let (_, pods) = self.ask(Method::GET, "/api/v1/namespaces/default/pods", None).await;
        let (_, nodes) = self.ask(Method::GET, "/api/v1/nodes", None).await;
        let items = |list: &Value| list["items"].as_array().cloned().unwrap_or_default();
        let (mut held, mut reports) = (Vec::new(), Vec::new());
        if self.koordinator.is_some() {
            held = items(&self.ask(Method::GET, RESERVATIONS, None).await.1);
            reports = items(&self.ask(Method::GET, REPORTS, None).await.1);
        }
        let (mut shares, mut groups, mut budgets) = (Vec::new(), Vec::new(), Vec::new());
        if self.batch.is_some() {
            budgets = items(&self.ask(Method::GET, BUDGETS, None).await.1);
            shares = items(&self.ask(Method::GET, QUOTAS, None).await.1);
            groups = items(&self.ask(Method::GET, GROUPS, None).await.1);
        }
        let name = |node: &Value| node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Snapshot {
            places: items(&nodes).iter().map(|one| (name(one), rules::Place::read(one))).collect(),
            pods: items(&pods).iter().map(Standing::read).collect(),
            held: held.iter().map(Held::read).collect(),
            reporting: reports.iter().map(name).collect(),
            shares: shares
                .iter()
                .filter(|one| is_ours(&name(one)))
                .map(|one| (name(one), Share::read(one)))
                .collect(),
            groups: groups.iter().map(name).collect(),
            budgets: budgets.iter().map(name).collect(),
            regime: self.judge.regime(),
        }
    }

    async fn inspect(&self) -> Snapshot {
        let snapshot = self.snapshot().await;
        self.judge.inspect(&snapshot);
        snapshot
    }

    /// What every cluster has.
    async fn found(&mut self) {
        for priority in [10, 100, 1000, PRIORITY_OF_OWN] {
            let class =
                json!({ "metadata": { "name": format!("p{priority}") }, "value": priority });
            let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
            self.must(Method::POST, path, Some(class)).await;
        }
        let class = json!({ "metadata": { "name": CLASS }, "provisioner": "example.com/made",
            "volumeBindingMode": "WaitForFirstConsumer" });
        self.must(Method::POST, "/apis/storage.k8s.io/v1/storageclasses", Some(class)).await;
        let account = json!({ "metadata": { "name": "default" } });
        let path = "/api/v1/namespaces/default/serviceaccounts";
        self.must(Method::POST, path, Some(account)).await;
        self.found_kinds().await;
        self.found_quotas().await;
        for _ in 0..2 + self.draw.below(4) {
            self.add_node().await;
        }
        for slot in 0..self.slots.len() {
            self.start(slot);
        }
    }

    /// Asks for something that must not fail.
    async fn must(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let (code, answer) = self.ask(method.clone(), path, body).await;
        if !code.is_success() {
            self.log.violated(&format!("{method} {path}: {code} {answer}"));
        }
        answer
    }
}
