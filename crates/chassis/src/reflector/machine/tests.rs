//! The machine against a model of an API server: random histories, lost connections,
//! expired versions and tokens, repeated events.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::client::{NameplateMeta, Reason};

/// How many objects the model puts on a page.
const MODEL_PAGE: usize = 2;
const KEYS: u8 = 5;

fn object(key: &str, uid: u64, version: u64) -> Nameplate {
    let metadata = NameplateMeta {
        namespace: "shop".to_owned(),
        name: key.to_owned(),
        uid: format!("u{uid}"),
        resource_version: version.to_string(),
        ..NameplateMeta::default()
    };
    Nameplate { metadata }
}

fn gone() -> Failure {
    let refusal = Refusal {
        reason: Reason::Expired,
        code: 410,
        message: "too old resource version".to_owned(),
        retry_after: None,
        causes: Vec::new(),
        is_status: true,
    };
    Failure::Refused(Box::new(refusal))
}

#[derive(Debug, Clone)]
struct Change {
    version: u64,
    key: String,
    uid: u64,
    deleted: bool,
    malformed: bool,
}

/// An API server: its history, and from where on it still has it.
#[derive(Debug, Default)]
struct Model {
    history: Vec<Change>,
    version: u64,
    compacted: u64,
    uids: u64,
}

type State = BTreeMap<String, (u64, u64, bool)>;

impl Model {
    fn at(&self, version: u64) -> State {
        let mut state = State::new();
        for change in self.history.iter().take_while(|change| change.version <= version) {
            if change.deleted {
                state.remove(&change.key);
            } else {
                let entry = (change.uid, change.version, change.malformed);
                state.insert(change.key.clone(), entry);
            }
        }
        state
    }

    fn write(&mut self, key: u8, gap: u64, malformed: bool) {
        let key = format!("k{}", key % KEYS);
        let uid = self.at(self.version).get(&key).map_or(0, |entry| entry.0);
        self.version += gap;
        self.uids += u64::from(uid == 0);
        let uid = if uid == 0 { self.uids } else { uid };
        let version = self.version;
        self.history.push(Change { version, key, uid, deleted: false, malformed });
    }

    fn delete(&mut self, key: u8) {
        let key = format!("k{}", key % KEYS);
        let Some(&(uid, ..)) = self.at(self.version).get(&key) else { return };
        self.version += 1;
        let version = self.version;
        self.history.push(Change { version, key, uid, deleted: true, malformed: false });
    }

    fn page(&self, token: Option<&str>) -> Result<Page<Nameplate>, Failure> {
        let (version, after) = match token.and_then(|token| token.split_once(':')) {
            Some((version, after)) => (version.parse().unwrap(), after),
            None => (self.version, ""),
        };
        if version < self.compacted {
            return Err(gone());
        }
        let state = self.at(version);
        let rest: Vec<_> = state.iter().filter(|(key, _)| key.as_str() > after).collect();
        let (mut items, mut malformed) = (Vec::new(), Vec::new());
        for &(key, &(uid, seen, bad)) in rest.iter().take(MODEL_PAGE) {
            let object = object(key, uid, seen);
            if bad { malformed.push((object, "bad".to_owned())) } else { items.push(object) }
        }
        let next = (rest.len() > MODEL_PAGE).then(|| format!("{version}:{}", rest[1].0));
        Ok(Page { items, malformed, resource_version: version.to_string(), next })
    }
}

/// A consumer that checks each delta against the guarantee.
#[derive(Debug, Default)]
struct Consumer {
    /// uid and version; the version of a malformed object is not told.
    state: BTreeMap<Key, Option<(String, u64)>>,
    newest: BTreeMap<Key, u64>,
    synced: u32,
}

impl Consumer {
    fn take(&mut self, delta: Delta<Nameplate>) {
        match delta {
            Delta::Upserted(object) => {
                let identity = object.identity();
                let version: u64 = identity.resource_version.parse().unwrap();
                let newest = self.newest.insert(identity.key(), version).unwrap_or(0);
                assert!(version > newest, "{} at {version} after {newest}", identity.name);
                let entry = Some((identity.uid.to_owned(), version));
                if let Some(Some((uid, _))) = self.state.insert(identity.key(), entry) {
                    assert_eq!(uid, identity.uid, "replaced without a deletion");
                }
            }
            Delta::Malformed { key, .. } => {
                self.state.insert(key, None);
            }
            Delta::Deleted { key, uid } => match self.state.remove(&key) {
                Some(Some((delivered, _))) => assert_eq!(*delivered, *uid),
                Some(None) => {}
                None => panic!("{key} deleted twice, or never delivered"),
            },
            Delta::Synced => self.synced += 1,
        }
    }

    fn agrees(&self, state: &State) {
        let told: Vec<_> = self.state.iter().map(|(key, entry)| (key.name(), entry)).collect();
        let want: Vec<_> = state
            .iter()
            .map(|(key, &(uid, version, bad))| (key, (!bad).then(|| (format!("u{uid}"), version))))
            .collect();
        assert_eq!(told.len(), want.len(), "{told:?} {want:?}");
        for (told, want) in told.iter().zip(&want) {
            assert_eq!((told.0, told.1), (want.0.as_str(), &want.1));
        }
    }
}

#[derive(Debug)]
enum Pending {
    List(Option<String>),
    Watch { from: u64, cursor: Option<usize> },
    Wake,
}

struct World {
    model: Model,
    machine: Machine,
    consumer: Consumer,
    pending: Pending,
    now: Duration,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            model: Model { version: 1, ..Model::default() },
            machine: Machine::new(seed),
            consumer: Consumer::default(),
            pending: Pending::Wake,
            now: Duration::ZERO,
        };
        world.feed(Input::Start);
        world
    }

    fn feed(&mut self, input: Input<Nameplate>) {
        self.now += Duration::from_millis(10);
        let listed = match &input {
            Input::Page(page) if page.next.is_none() => page.resource_version.parse().ok(),
            _ => None,
        };
        let effects = self.machine.step(self.now, input);
        let count = effects.len();
        for (index, effect) in effects.into_iter().enumerate() {
            let last = index + 1 == count;
            match effect {
                Effect::Deliver(delta) => {
                    let synced = delta == Delta::Synced;
                    self.consumer.take(delta);
                    if synced {
                        self.consumer.agrees(&self.model.at(listed.expect("a list ended")));
                    }
                }
                Effect::Report(_) => {}
                Effect::List { continue_token, .. } => {
                    assert!(last, "a request is the last effect");
                    self.pending = Pending::List(continue_token);
                }
                Effect::Watch { resource_version, .. } => {
                    assert!(last, "a request is the last effect");
                    let from = resource_version.parse().unwrap();
                    self.pending = Pending::Watch { from, cursor: None };
                }
                Effect::WakeAfter(wait) => {
                    assert!(last && wait <= Duration::from_secs(30));
                    self.pending = Pending::Wake;
                }
            }
        }
    }

    /// The server answers the pending request once, as it should; `repeats` events that
    /// were told before come again at the start of a watch.
    fn answer(&mut self, repeats: usize) {
        match &mut self.pending {
            Pending::Wake => self.feed(Input::Woke),
            Pending::List(token) => {
                let page = self.model.page(token.as_deref());
                self.feed(page.map_or_else(Input::Failed, Input::Page));
            }
            Pending::Watch { from, cursor: None } if *from < self.model.compacted => {
                self.feed(Input::Failed(gone()));
            }
            Pending::Watch { from, cursor } => {
                let start = self.model.history.partition_point(|change| change.version <= *from);
                let at = cursor.unwrap_or(start.saturating_sub(repeats));
                *cursor = Some(at);
                let Some(change) = self.model.history.get(at).cloned() else { return };
                *cursor = Some(at + 1);
                let nameplate = object(&change.key, change.uid, change.version);
                let error = "bad".to_owned();
                self.feed(Input::Event(match (change.deleted, change.malformed) {
                    (true, _) => Event::Deleted(nameplate),
                    (false, true) => Event::Malformed { nameplate, error },
                    (false, false) => Event::Applied(nameplate),
                }));
            }
        }
    }

    fn bookmark(&mut self) {
        if let Pending::Watch { cursor: Some(at), .. } = self.pending {
            let told = self.model.history[..at].last().map_or(0, |change| change.version);
            let all = at == self.model.history.len();
            let version = if all { self.model.version } else { told };
            let resource_version = version.to_string();
            self.feed(Input::Event(Event::Bookmark { resource_version }));
        }
    }

    fn watching(&self) -> bool {
        matches!(self.pending, Pending::Watch { .. })
    }

    fn settle(&mut self) {
        let told_all = |world: &Self| match world.pending {
            Pending::Watch { cursor: Some(at), .. } => at == world.model.history.len(),
            _ => false,
        };
        for _ in 0..2000 {
            if told_all(self) {
                return;
            }
            self.answer(0);
        }
        panic!("the reflector does not settle: {:?}", self.pending);
    }
}

#[derive(Debug, Clone)]
enum Action {
    Write { key: u8, gap: u64, malformed: bool },
    Delete { key: u8 },
    Compact,
    Answer { repeats: usize },
    Bookmark,
    Close,
    Break,
    Gone,
    Busy,
}

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (0..KEYS, 1..3u64, prop::bool::weighted(0.1))
            .prop_map(|(key, gap, malformed)| Action::Write { key, gap, malformed }),
        3 => (0..KEYS).prop_map(|key| Action::Delete { key }),
        1 => Just(Action::Compact),
        9 => (0..4usize).prop_map(|repeats| Action::Answer { repeats }),
        1 => Just(Action::Bookmark),
        1 => Just(Action::Close),
        1 => Just(Action::Break),
        1 => Just(Action::Gone),
        1 => Just(Action::Busy),
    ]
}

impl World {
    fn act(&mut self, action: &Action) {
        match *action {
            Action::Write { key, gap, malformed } => self.model.write(key, gap, malformed),
            Action::Delete { key } => self.model.delete(key),
            Action::Compact => self.model.compacted = self.model.version,
            Action::Answer { repeats } => self.answer(repeats),
            Action::Bookmark => self.bookmark(),
            Action::Close if self.watching() => self.feed(Input::WatchEnded),
            Action::Gone if self.watching() => {
                let Failure::Refused(refusal) = gone() else { return };
                self.feed(Input::Event(Event::Refused(*refusal)));
            }
            Action::Break if !matches!(self.pending, Pending::Wake) => {
                self.feed(Input::Failed(Failure::Lost("reset by peer".to_owned())));
            }
            Action::Busy if !matches!(self.pending, Pending::Wake) => {
                let refusal = Refusal::parse(429, Some(1), b"");
                self.feed(Input::Failed(Failure::Refused(Box::new(refusal))));
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// In order, without loss or repeats, whatever happens in between.
    #[test]
    fn deltas_add_up_to_the_servers_state(
        seed in any::<u64>(),
        actions in prop::collection::vec(any_action(), 0..120),
    ) {
        let mut world = World::new(seed);
        for action in &actions {
            world.act(action);
        }
        world.settle();
        world.consumer.agrees(&world.model.at(world.model.version));
        prop_assert_eq!(world.machine.known(), world.consumer.state.len());
        prop_assert!(world.consumer.synced > 0);
    }
}

fn started() -> Machine {
    let mut machine = Machine::new(1);
    let _ = machine.step::<Nameplate>(Duration::ZERO, Input::Start);
    let items = vec![object("a", 1, 3), object("b", 2, 4)];
    let page = Page { items, malformed: Vec::new(), resource_version: "9".to_owned(), next: None };
    let _ = machine.step(Duration::ZERO, Input::Page(page));
    machine
}

/// What a step of a started machine asks for, in short.
fn after(inputs: Vec<Input<Nameplate>>) -> Vec<String> {
    let mut machine = started();
    let mut effects = Vec::new();
    for input in inputs {
        effects = machine.step(Duration::from_millis(1), input);
    }
    let told = |effect: &Effect<Nameplate>| match effect {
        Effect::Deliver(Delta::Upserted(object)) => format!("+{}", object.metadata.name),
        Effect::Deliver(Delta::Deleted { key, uid }) => format!("-{} {uid}", key.name()),
        Effect::Deliver(Delta::Malformed { key, .. }) => format!("?{}", key.name()),
        Effect::Deliver(Delta::Synced) => "synced".to_owned(),
        Effect::Report(text) => text.clone(),
        Effect::List { limit, continue_token } => {
            format!("list {limit} {}", continue_token.as_deref().unwrap_or("start"))
        }
        Effect::Watch { resource_version, .. } => format!("watch {resource_version}"),
        Effect::WakeAfter(_) => "wait".to_owned(),
    };
    effects.iter().map(told).collect()
}

fn refused(code: u16) -> Input<Nameplate> {
    Input::Failed(Failure::Refused(Box::new(Refusal::parse(code, None, b""))))
}

#[test]
fn a_watch_goes_on_where_it_was_unless_its_version_is_gone() {
    let event = |version| Input::Event(Event::Applied(object("a", 1, version)));
    let bookmark = || Input::Event(Event::Bookmark { resource_version: "20".to_owned() });
    let lost = || Input::Failed(Failure::Lost("reset".to_owned()));
    let check = |inputs, want: &[&str]| assert_eq!(after(inputs), want);
    check(vec![event(12), Input::WatchEnded], &["watch 12"]);
    check(vec![bookmark(), Input::WatchEnded], &["watch 20"]);
    check(vec![Input::WatchEnded], &["wait"]);
    check(vec![event(12), lost()], &["watch lost: reset", "wait"]);
    check(vec![event(12), lost(), Input::Woke], &["watch 12"]);
    check(vec![refused(503), Input::Woke], &["watch 9"]);
    check(vec![refused(404), Input::Woke], &["list 500 start"]);
    check(vec![Input::Failed(gone())], &["list 500 start"]);
}

#[test]
fn events_told_before_are_dropped() {
    let check = |event, want: &[&str]| assert_eq!(after(vec![Input::Event(event)]), want);
    check(Event::Applied(object("a", 1, 3)), &[]);
    check(Event::Applied(object("a", 1, 8)), &[]);
    check(Event::Applied(object("a", 1, 10)), &["+a"]);
    check(Event::Applied(object("a", 7, 10)), &["-a u1", "+a"]);
    check(Event::Deleted(object("a", 1, 8)), &[]);
    check(Event::Deleted(object("a", 1, 10)), &["-a u1"]);
    check(Event::Deleted(object("c", 3, 10)), &[]);
    check(Event::Malformed { nameplate: object("c", 3, 10), error: "e".to_owned() }, &["?c"]);
}

#[test]
fn a_new_list_is_told_as_a_difference() {
    let list = |items, next: Option<&str>| {
        let next = next.map(str::to_owned);
        Input::Page(Page { items, malformed: Vec::new(), resource_version: "30".to_owned(), next })
    };
    let gone = || Input::Failed(gone());
    let same = || vec![object("a", 1, 3), object("b", 2, 4)];
    let check = |inputs, want: &[&str]| assert_eq!(after(inputs), want);
    check(vec![gone(), list(same(), None)], &["synced", "watch 30"]);
    check(vec![gone(), list(vec![], None)], &["-a u1", "-b u2", "synced", "watch 30"]);
    check(vec![gone(), list(vec![object("a", 1, 25)], Some("t"))], &["+a", "list 500 t"]);
    // The token expires: the list starts over, and nothing is told twice.
    check(
        vec![gone(), list(vec![object("a", 1, 25)], Some("t")), gone(), list(same(), None)],
        &["+a", "synced", "watch 30"],
    );
    let half = || list(vec![object("a", 1, 25)], Some("t"));
    let restarts = vec![gone(), half(), gone(), half(), gone()];
    check(restarts, &["list 0 start"]);
}

/// The waits of a machine whose lists are all answered, and whose watches end as `ends` say,
/// each after so many milliseconds.
fn waits(ends: Vec<(u64, Input<Nameplate>)>) -> Vec<Duration> {
    let mut machine = Machine::new(7);
    let mut now = Duration::ZERO;
    let mut waits = Vec::new();
    let mut ends = ends.into_iter();
    let mut effects = machine.step(now, Input::Start);
    loop {
        let input = match effects.pop() {
            Some(Effect::List { .. }) => {
                let resource_version = "9".to_owned();
                let (items, malformed) = (Vec::new(), Vec::new());
                Input::Page(Page { items, malformed, resource_version, next: None })
            }
            Some(Effect::WakeAfter(wait)) => {
                now += wait;
                waits.push(wait);
                Input::Woke
            }
            Some(Effect::Watch { .. }) | None => {
                let Some((after, end)) = ends.next() else { return waits };
                now += Duration::from_millis(after);
                end
            }
            Some(other) => panic!("{other:?}"),
        };
        effects = machine.step(now, input);
    }
}

#[test]
fn a_list_whose_watch_is_refused_each_time_becomes_rarer() {
    let growing = |waits: &[Duration]| {
        for (turn, wait) in waits.iter().enumerate() {
            let full = DELAY_MIN.saturating_mul(1 << turn.min(16)).min(DELAY_MAX);
            assert!(*wait >= full / 2 && *wait <= full, "{turn}: {waits:?}");
        }
    };
    for (code, first) in [(403, 0), (404, 0), (410, 1), (500, 0)] {
        let end = |_| (1, if code == 410 { Input::Failed(gone()) } else { refused(code) });
        let waits = waits((0..9).map(end).collect());
        // The first version that expired is in the nature of things.
        assert_eq!(waits.len(), 9 - first, "{code}");
        growing(&waits);
    }
    // A watch that told something, or lasted, makes it begin anew.
    let bookmark = || Input::Event(Event::Bookmark { resource_version: "10".to_owned() });
    let told =
        waits(vec![(1, refused(403)), (1, refused(403)), (1, bookmark()), (1, refused(403))]);
    growing(&told[..2]);
    growing(&told[2..]);
    let lasted = waits(vec![(1, refused(403)), (1, refused(403)), (1000, refused(403))]);
    growing(&lasted[2..]);
}

fn unknown_kind() -> Failure {
    let body = br#"404 page not found"#;
    Failure::Refused(Box::new(Refusal::parse(404, None, body)))
}

#[test]
fn a_kind_that_need_not_be_there_is_nothing_until_it_is() {
    let mut machine = Machine::new(1).of_what_may_be_absent();
    let mut step = |input: Input<Nameplate>| {
        let effects = machine.step(Duration::ZERO, input);
        let told = effects.iter().map(|effect| match effect {
            Effect::Deliver(Delta::Upserted(_)) => "upserted",
            Effect::Deliver(Delta::Deleted { .. }) => "deleted",
            Effect::Deliver(Delta::Synced) => "synced",
            Effect::Deliver(Delta::Malformed { .. }) => "malformed",
            Effect::Report(_) => "report",
            Effect::List { .. } => "list",
            Effect::Watch { .. } => "watch",
            Effect::WakeAfter(_) => "wait",
        });
        (told.collect::<Vec<_>>().join(" "), machine.is_settled())
    };
    let is = |told: &str, settled: bool| (told.to_owned(), settled);
    let page = |name: &str, next: Option<&str>| {
        Input::Page(Page {
            items: vec![object(name, 1, 1)],
            malformed: Vec::new(),
            resource_version: "1".to_owned(),
            next: next.map(str::to_owned),
        })
    };
    let unknown = || Input::Failed(unknown_kind());
    assert_eq!(step(Input::Start), is("list", false));
    assert_eq!(step(unknown()), is("report synced wait", true));
    // That is told once.
    assert_eq!(step(Input::Woke), is("list", false));
    assert_eq!(step(unknown()), is("wait", true));
    // Whoever has to know what there is by now has it looked for at once, and is not told by a list
    // that fails.
    assert_eq!(step(Input::Relist), is("list", false));
    assert_eq!(step(Input::Failed(Failure::Lost("no".to_owned()))), is("report wait", false));
    assert_eq!(step(Input::Woke), is("list", false));
    assert_eq!(step(page("a", None)), is("upserted synced watch", true));
    // It goes again, with all that there was of it, be it from half a list.
    assert_eq!(step(unknown()), is("report wait", false));
    assert_eq!(step(Input::Woke), is("list", false));
    assert_eq!(step(page("b", Some("more"))), is("upserted list", false));
    assert_eq!(step(unknown()), is("report deleted deleted synced wait", true));
    assert_eq!(step(Input::Woke), is("list", false));
    assert_eq!(step(page("c", Some("more"))), is("upserted list", false));
    assert_eq!(step(unknown()), is("deleted synced wait", true));
    // Of one that must be there, that is a trouble.
    let mut machine = Machine::new(1);
    assert_eq!(machine.step::<Nameplate>(Duration::ZERO, Input::Start).len(), 1);
    let effects = machine.step::<Nameplate>(Duration::ZERO, Input::Failed(unknown_kind()));
    assert!(matches!(effects[..], [Effect::Report(_), Effect::WakeAfter(_)]), "{effects:?}");
}
