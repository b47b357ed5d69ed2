//! What holds of gangs whatever happens, and whenever.

use std::collections::btree_map::Entry;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::fact::NodeFact;
use crate::gangs::Readiness;
use crate::profile::LastResort;

/// Gangs of 3, 2 and 4 at first, of which the last two start together.
const MINS: [(&str, u32, &[&str]); 3] =
    [("g0", 3, &[]), ("g1", 2, &["g1", "g2"]), ("g2", 4, &["g1", "g2"])];
const PODS: u8 = 14;
const NODES: u8 = 4;
const QUOTAS: [&str; 2] = ["q0", "q1"];
/// How many turns it takes at most until nothing is to be done any longer.
const TURNS_MAX: usize = 5_000;

/// What a pod is that comes, or becomes.
#[derive(Debug, Clone)]
struct Own {
    /// By the number of its gang; of none where there is no such gang.
    gang: usize,
    millis: i64,
    priority: i32,
    /// By the number of its quota; of none where there is no such quota.
    quota: usize,
}

#[derive(Debug, Clone)]
enum Step {
    Pod(u8, Own),
    Relabelled(u8, usize),
    Deleting(u8),
    AnotherScheduler(u8),
    Gone(u8),
    Terms(usize, u32, Option<MatchPolicy>),
    Node(u8, i64, bool),
    NodeGone(u8),
    Quota(usize, i64),
    Answer(u8, Answer),
    /// What was to be done for a pod that waits is done, or cannot be.
    Told(u8, bool),
    Wait(u64),
    Decide(u8),
}

fn own() -> impl Strategy<Value = Own> {
    let own = (0..=MINS.len(), 1..4_i64, 0..2_i32, 0..=QUOTAS.len() + 1);
    own.prop_map(|(gang, millis, priority, quota)| Own {
        gang,
        millis: millis * 100,
        priority,
        quota,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let policies = [
        None,
        Some(MatchPolicy::OnlyWaiting),
        Some(MatchPolicy::WaitingAndRunning),
        Some(MatchPolicy::OnceSatisfied),
    ];
    let answer = prop_oneof![
        3 => Just(Answer::Done), 2 => Just(Answer::Refused), 1 => Just(Answer::Lost)
    ];
    let gang = || 0..=MINS.len();
    prop_oneof![
        8 => (0..PODS, own()).prop_map(|(pod, own)| Step::Pod(pod, own)),
        1 => (0..PODS, gang()).prop_map(|(pod, gang)| Step::Relabelled(pod, gang)),
        1 => (0..PODS).prop_map(Step::Deleting),
        1 => (0..PODS).prop_map(Step::AnotherScheduler),
        1 => (0..PODS).prop_map(Step::Gone),
        1 => (0..MINS.len(), 1..5_u32, proptest::sample::select(policies.to_vec()))
            .prop_map(|(gang, min, policy)| Step::Terms(gang, min, policy)),
        3 => (0..NODES, 0..8_i64, proptest::bool::weighted(0.1))
            .prop_map(|(node, millis, is_cordoned)| Step::Node(node, millis * 100, is_cordoned)),
        1 => (0..NODES).prop_map(Step::NodeGone),
        1 => (0..QUOTAS.len(), 0..12_i64).prop_map(|(quota, most)| Step::Quota(quota, most * 100)),
        4 => (0..PODS, answer).prop_map(|(pod, answer)| Step::Answer(pod, answer)),
        3 => (0..PODS, proptest::bool::weighted(0.8)).prop_map(|(pod, done)| Step::Told(pod, done)),
        1 => (0..700_u64).prop_map(Step::Wait),
        5 => (1..8_u8).prop_map(Step::Decide),
    ]
}

fn quota_of(name: &str, most: i64) -> Fact {
    let max: quota::ByResource = [("cpu".into(), most)].into();
    Fact::Quota(Box::new(QuotaFact::new(name, max)))
}

fn pod_name(number: u8) -> String {
    format!("p{number}")
}

/// An engine, what is under way, and what the objects are.
struct World {
    engine: Engine,
    now: Moment,
    facts: BTreeMap<Uid, PodFact>,
    /// Bindings that are still to be answered, by the nodes that they name.
    sent: BTreeMap<Uid, Box<str>>,
    /// Pods of which is told that they are not bound, and still to be what became of them.
    lost: BTreeSet<Uid>,
    /// Pods for which something is to be done while they wait.
    telling: BTreeSet<Uid>,
    /// How many members of each gang have to start at once.
    mins: BTreeMap<&'static str, usize>,
    /// Gangs of which some member was ever bound.
    started: BTreeSet<GangId>,
    /// Pods that are being bound, and of which gang each was when that began.
    binding: BTreeMap<Uid, Option<GangId>>,
    /// By the first of those that start together: that members of a group are being bound of which nobody
    /// was before.
    begun: BTreeSet<&'static str>,
}

/// Gangs that start together, by the first of them.
const TOGETHER: [(&str, &[&str]); 2] = [("g0", &["g0"]), ("g1", &["g1", "g2"])];

impl World {
    fn new() -> Self {
        let profile = Profile {
            gangs: Some(GangSettings::default()),
            quota: Some(quota::Settings::default()),
            last_resorts: vec![LastResort::Coscheduling, LastResort::ElasticQuota],
            ..Profile::kubernetes()
        };
        let profiles = vec![(DEFAULT_SCHEDULER.into(), profile)];
        let engine = Engine::new(Settings::default(), profiles, START).with_members_per_turn(2);
        let (facts, sent) = (BTreeMap::new(), BTreeMap::new());
        let (lost, telling) = (BTreeSet::new(), BTreeSet::new());
        let mut world = Self {
            engine,
            now: START,
            facts,
            sent,
            lost,
            telling,
            mins: BTreeMap::new(),
            started: BTreeSet::new(),
            binding: BTreeMap::new(),
            begun: BTreeSet::new(),
        };
        for (number, (_, min, _)) in MINS.into_iter().enumerate() {
            world.play(Step::Terms(number, min, None));
        }
        for (number, _) in QUOTAS.iter().enumerate() {
            world.play(Step::Quota(number, 1_000));
        }
        world
    }

    fn tell(&mut self, fact: Fact) {
        self.engine.apply(fact, self.now);
        self.look();
    }

    /// Whenever members of a group begin to be bound of which nobody ever was, as many of each of its gangs
    /// have nodes as have to start.
    fn look(&mut self) {
        let bound = self.facts.values().filter(|fact| fact.node.is_some());
        self.started.extend(bound.filter_map(gang_of));
        let due = self.engine.due.iter().filter(|own| matches!(own.verdict, Verdict::Bind(..)));
        let binding = due.map(|own| &own.pod.uid).chain(self.sent.keys());
        let binding = binding.map(|uid| {
            let gang = || self.facts.get(uid).and_then(gang_of);
            (uid.clone(), self.binding.get(uid).cloned().unwrap_or_else(gang))
        });
        self.binding = binding.collect();
        for (first, names) in TOGETHER {
            let ids: Vec<GangId> = names.iter().map(|name| id(name)).collect();
            if !self.binding.values().flatten().any(|gang| ids.contains(gang)) {
                self.begun.remove(first);
                continue;
            }
            if !self.begun.insert(first) || ids.iter().any(|own| self.started.contains(own)) {
                continue;
            }
            for (name, own) in names.iter().zip(&ids) {
                let is_own = |fact: &PodFact| gang_of(fact).as_ref() == Some(own);
                let members = self.facts.iter().filter(|(_, fact)| is_own(fact));
                let rows = members.filter_map(|(uid, _)| self.engine.ledger().pod(uid));
                let min = self.mins[name];
                let placed = rows.filter(|row| row.is_placed() && !row.is_deleting()).count();
                assert!(placed >= min, "{placed} of {min} of {name} have a node, and it starts");
            }
        }
    }

    /// Changes a pod that is there, and tells it.
    fn change(&mut self, number: u8, change: impl FnOnce(&mut PodFact)) {
        if let Some(fact) = self.facts.get_mut(&uid(&pod_name(number))) {
            change(fact);
            let fact = told(fact.clone());
            self.tell(fact);
        }
    }

    fn forget(&mut self, uid: &Uid) {
        self.facts.remove(uid);
        self.sent.remove(uid);
        self.lost.remove(uid);
        self.telling.remove(uid);
        self.tell(Fact::PodGone(uid.clone()));
    }

    fn play(&mut self, step: Step) {
        match step {
            Step::Pod(number, own) => {
                let name = pod_name(number);
                let Entry::Vacant(place) = self.facts.entry(uid(&name)) else { return };
                let quota = QUOTAS.get(own.quota).map(|own| (*own).into());
                let gang = membership(&name, own.gang);
                let priority = own.priority;
                let fact = PodFact { gang, quota, priority, ..pod(&name, own.millis) };
                place.insert(fact.clone());
                self.tell(told(fact));
            }
            Step::Relabelled(number, gang) => {
                self.change(number, |own| own.gang = membership(&pod_name(number), gang));
            }
            Step::Deleting(number) => self.change(number, |own| own.deleting = true),
            Step::AnotherScheduler(number) => self.change(number, |own| {
                own.scheduler = "else".into();
            }),
            Step::Gone(number) => self.forget(&uid(&pod_name(number))),
            Step::Terms(number, min, match_policy) => {
                let (name, _, with) = MINS[number];
                let groups = groups(with);
                self.mins.insert(name, usize::try_from(min).expect("it is small"));
                self.tell(gang(name, GangTerms { groups, match_policy, ..terms(min) }));
            }
            Step::Node(number, millis, unschedulable) => {
                let Fact::Node(own) = node(&format!("n{number}"), millis) else { return };
                self.tell(Fact::Node(NodeFact { unschedulable, ..own }));
            }
            Step::NodeGone(number) => self.tell(Fact::NodeGone(format!("n{number}").into())),
            Step::Quota(number, most) => self.tell(quota_of(QUOTAS[number], most)),
            Step::Answer(number, answer) => self.answer(&uid(&pod_name(number)), answer),
            Step::Told(number, done) => {
                let uid = uid(&pod_name(number));
                match self.telling.remove(&uid) {
                    true if done => self.engine.done(&uid, self.now),
                    true => self.engine.undone(&uid, self.now),
                    false => {}
                }
            }
            Step::Wait(seconds) => self.now = self.now.after(Duration::from_secs(seconds)),
            Step::Decide(times) => (0..times).for_each(|_| self.decide()),
        }
    }

    fn answer(&mut self, uid: &Uid, answer: Answer) {
        let Some(node) = self.sent.remove(uid) else { return };
        if answer == Answer::Done {
            self.started.extend(self.facts.get(uid).and_then(gang_of));
        }
        self.engine.answered(uid, answer, self.now);
        self.look();
        let fact = self.facts.get_mut(uid);
        match answer {
            Answer::Done => {
                if let Some(fact) = fact {
                    fact.node = Some(node);
                    let fact = told(fact.clone());
                    self.tell(fact);
                }
            }
            Answer::Lost => drop(self.lost.insert(uid.clone())),
            Answer::Refused => {}
        }
    }

    fn decide(&mut self) {
        let Some(decision) = self.engine.decide(self.now) else { return };
        let uid = decision.pod.uid;
        match decision.verdict {
            Verdict::Bind(node, _) => {
                let claim = self.engine.ledger().pod(&uid).and_then(|row| row.claim);
                let claimed = claim.map(|node| self.engine.ledger().nodes.name(node));
                assert_eq!(claimed, Some(&*node), "{uid:?} is bound where it is not charged");
                self.sent.insert(uid, node);
            }
            Verdict::Wait(_) => drop(self.telling.insert(uid)),
            _ => {}
        }
        self.look();
    }

    /// Whether a pod is ours to place and has no node.
    fn waits(&self, uid: &Uid) -> bool {
        let row = self.engine.ledger().pod(uid);
        let is_ours = self.engine.unbound.get(uid).is_some();
        is_ours && row.is_some_and(|row| !row.is_placed() && !row.gated)
    }

    /// What is wrong, where anything is.
    fn wrong(&self) -> Option<String> {
        let engine = &self.engine;
        let claims = engine.ledger().pods().filter(|(_, row)| row.claim.is_some());
        for (uid, _) in claims {
            let is_due = engine.due.iter().any(|own| own.pod.uid == *uid);
            let is_gang = engine.gangs.releases.holds(uid) || engine.is_given(uid);
            if !(is_due || is_gang || self.sent.contains_key(uid)) {
                return Some(format!("{uid:?} has a node and nobody binds it"));
            }
            if engine.queue().standing(uid).is_some() {
                return Some(format!("{uid:?} has a node and looks for one"));
            }
        }
        let strays = self.facts.keys().filter(|uid| self.waits(uid));
        let stray = strays.filter_map(|uid| self.strays(uid)).next();
        let stray = stray.or_else(|| engine.unsound_release());
        stray.or_else(|| self.half_a_gang()).or_else(|| self.miscounted())
    }

    /// A gang of which something else is kept than what its members add up to.
    fn miscounted(&self) -> Option<String> {
        let ledger = self.engine.ledger();
        let names = MINS.iter().map(|(name, ..)| id(name));
        let wrong = names.into_iter().find(|gang| {
            let rows = || ledger.gangs.members(gang).filter_map(|uid| ledger.pod(uid));
            let leaving = ledger.gangs.leaving(gang);
            let stays = |uid: &&Uid| {
                let row = ledger.pod(uid).filter(|row| row.is_placed() && !row.is_deleting());
                row.is_some() && !leaving.contains(*uid)
            };
            let placed = ledger.gangs.members(gang).filter(stays).count();
            let waiting = rows().filter(|row| row.may_be_tried()).count();
            let counts = ledger.gangs.counts(gang);
            (counts.waiting, counts.placed) != (waiting, placed)
        });
        wrong.map(|gang| format!("{gang}: {:?}", ledger.gangs.counts(&gang)))
    }

    /// Why a pod that waits is not where it has to be.
    fn strays(&self, uid: &Uid) -> Option<String> {
        let engine = &self.engine;
        let stands = engine.queue().standing(uid).is_some();
        let Some(gang) = engine.member_of(uid) else {
            return (!stands).then(|| format!("{uid:?} is forgotten"));
        };
        let group = engine.ledger().group_of(gang);
        let entry = engine.gang_entry(gang);
        let is_queued = engine.queue().standing(&entry).is_some();
        let is_busy = engine.is_planned(&entry)
            || engine.gangs.releases.contains(&group.key)
            || engine.gangs.rooms.contains_key(&entry);
        let readiness = engine.ledger().readiness(&group);
        let is_right = match &readiness {
            Readiness::Started => {
                let may_end = engine.gangs.releases.is_pending(&group.key);
                stands != (may_end || engine.is_planned(&entry))
            }
            _ if is_busy => !stands,
            Readiness::Ready(_) => is_queued && !stands,
            Readiness::Waits(_) => !is_queued && !stands,
        };
        (!is_right).then(|| {
            format!("{uid:?} of {group:?}, {readiness:?}: alone {stands}, queued {is_queued}")
        })
    }

    /// A group of which nobody was ever bound has a node for all that it needs, or for nobody.
    fn half_a_gang(&self) -> Option<String> {
        let engine = &self.engine;
        if engine.is_planning() {
            return None;
        }
        for (name, ..) in MINS {
            let group = engine.ledger().group_of(&id(name));
            let has_started = group.gangs.iter().any(|own| engine.ledger().gangs.has_started(own));
            if has_started || engine.gangs.releases.contains(&group.key) {
                continue;
            }
            // What was under way when its time was over is kept until it is known what became of it.
            for own in &group.gangs {
                let members = engine.ledger().gangs.members(own);
                let mut held = members.filter(|uid| !self.sent.contains_key(uid));
                // Whoever goes is of the gang that was there before.
                let held = held.find(|uid| engine.ledger().gangs.placed(own).contains(*uid));
                if let Some(uid) = held {
                    return Some(format!("{uid:?} of {name} has a node alone"));
                }
            }
        }
        None
    }

    /// Everything is answered and done, and nothing is too small any longer: after this all that may be
    /// placed is.
    fn heal(&mut self) -> Result<(), String> {
        for uid in std::mem::take(&mut self.lost) {
            self.forget(&uid);
        }
        self.tell(node("large", 100_000));
        for name in QUOTAS {
            self.tell(quota_of(name, 100_000));
        }
        let mut quiet = 0;
        for _ in 0..TURNS_MAX {
            let before = (self.sent.len(), self.telling.len());
            self.decide();
            for uid in self.sent.keys().cloned().collect::<Vec<Uid>>() {
                self.answer(&uid, Answer::Done);
            }
            for uid in std::mem::take(&mut self.telling) {
                self.engine.done(&uid, self.now);
            }
            if let Some(wrong) = self.wrong() {
                return Err(wrong);
            }
            let is_due = self.engine.next_due(self.now).is_some_and(|due| due <= self.now);
            if is_due || before != (self.sent.len(), self.telling.len()) {
                continue;
            }
            // Whoever rests is tried again after a while, and so is who waits for too long.
            self.now = self.now.after(Duration::from_secs(40));
            quiet += 1;
            if quiet > 30 {
                return Ok(());
            }
        }
        Err("it does not come to rest".to_owned())
    }

    /// A pod that could have a node and has none.
    fn left_over(&self) -> Option<String> {
        let waiting = self.facts.keys().filter(|uid| self.waits(uid));
        let mut waiting = waiting.filter(|uid| match self.engine.member_of(uid) {
            None => true,
            Some(gang) => {
                let group = self.engine.ledger().group_of(gang);
                !matches!(self.engine.ledger().readiness(&group), Readiness::Waits(_))
            }
        });
        waiting.next().map(|uid| format!("{uid:?} waits for nothing"))
    }

    /// Nothing is left of what is gone.
    fn end(mut self) -> Result<(), String> {
        for number in 0..PODS {
            self.forget(&uid(&pod_name(number)));
        }
        for (name, ..) in MINS {
            self.tell(Fact::Gang { id: id(name), terms: None, has_started: false });
        }
        self.now = self.now.after(Duration::from_secs(9));
        for _ in 0..100 {
            self.decide();
        }
        let Self { engine, .. } = &self;
        let own = &engine.gangs;
        let is_empty = [
            ("queue", engine.queue().is_empty()),
            ("releases", own.releases.is_empty()),
            ("gangs", engine.ledger().gangs.is_empty() && own.groups.is_empty()),
            ("names", own.by_uid.is_empty() && own.started.is_empty()),
            ("told", own.told.is_empty() && own.refused.is_empty() && own.told_of.is_empty()),
            ("waits", own.waits.is_empty() && own.tell_at.is_empty()),
            ("news", own.news.is_empty() && engine.queue().turned_count() == 0),
            ("namers", own.namers.is_empty() && own.alone.is_empty()),
            ("rooms", own.rooms.is_empty() && own.sums.is_empty() && engine.rooms.is_empty()),
            ("quotas", engine.ledger().quotas.is_empty()),
            ("asks", engine.ledger().asks.is_empty()),
        ];
        match is_empty.into_iter().find(|(_, is_empty)| !is_empty) {
            Some((what, _)) => Err(format!("something is left of {what}")),
            None => Ok(()),
        }
    }
}

fn gang_of(fact: &PodFact) -> Option<GangId> {
    fact.gang.as_ref().map(|own| own.gang.clone())
}

fn membership(name: &str, gang: usize) -> Option<Arc<Membership>> {
    let (gang, ..) = MINS.get(gang)?;
    member(name, gang, 0).gang
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_gang_holds_nodes_while_fewer_than_it_needs_have_one(steps in vec(step(), 0..100)) {
        let mut world = World::new();
        for step in steps {
            world.play(step);
            prop_assert_eq!(world.wrong(), None);
        }
        prop_assert_eq!(world.heal(), Ok(()));
        prop_assert_eq!(world.left_over(), None);
        prop_assert_eq!(world.end(), Ok(()));
    }
}
