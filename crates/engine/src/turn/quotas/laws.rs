//! What holds of quotas whatever is decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::pod_group::{GangId, GangTerms};
use proptest::collection::vec;
use proptest::prelude::*;

use super::tests::{gone, member, quota};
use crate::fact::{DEFAULT_SCHEDULER, Fact, PodFact, Uid};
use crate::gangs::{self, Membership};
use crate::moment::Moment;
use crate::preemption;
use crate::profile::{LastResort, Profile};
use crate::quota::{self, Options};
use crate::turn::tests::{START, node, told};
use crate::turn::{Answer, Decision, Engine, Settings, Verdict};

/// How much time passes between two rounds: longer than any pod is left alone after a refusal.
const ROUND: u64 = 11_000_000_000;
/// In so many rounds all is quiet.
const ROUNDS: usize = 60;
/// So many rounds are quiet then.
const QUIET: usize = 20;
/// So many decisions are made in a round at most.
const DECISIONS_MAX: usize = 2_000;

/// A cluster whose pods are made again when they have to go.
struct World {
    engine: Engine,
    now: Moment,
    pods: BTreeMap<Uid, PodFact>,
    made: usize,
    evicted: usize,
    /// Whether pods are made again before those are gone that they are made for.
    is_eager: bool,
    /// What pods become while others are asked to go: which of them, of which quota and of which size.
    changes: Vec<(usize, usize, i64)>,
}

/// What there is: nodes, quotas, and pods by quota, size and priority. The first so many of them are a gang, and
/// so many have nodes before the others come.
#[derive(Debug, Clone)]
struct Given {
    nodes: Vec<i64>,
    quotas: Vec<String>,
    pods: Vec<(usize, i64, i32)>,
    gang: usize,
    early: usize,
    is_eager: bool,
    memory: Memory,
}

/// Of memory what each node has, what quotas are guaranteed, and what pods ask for, around and around; there is
/// none where nothing is said.
#[derive(Debug, Clone, Default)]
struct Memory {
    of_each_node: i64,
    mins: Vec<i64>,
    pods: Vec<i64>,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn given() -> impl Strategy<Value = Given> {
    let quotas = vec((0..6_i64, 1..9_i64, 0..6_usize), 2..4);
    let pods = vec((0..4_usize, 0..4_i64, 0..3_i32), 1..10);
    (vec(1..6_i64, 1..4), quotas, pods, 0..10_usize, any::<bool>()).prop_map(
        |(nodes, quotas, pods, early, is_eager)| {
            let told = |(number, (min, max, above)): (usize, (i64, i64, usize))| {
                // Some are below the first one, and some of these say nothing of CPUs.
                let parent = if number > 0 && above < 2 { NAMES[0] } else { "" };
                if number > 0 && above == 0 {
                    return format!("{}<{parent} - -", NAMES[number]);
                }
                let (min, max) = (min.min(max) * 1_000, max * 1_000);
                format!("{}<{parent} {min} {max}", NAMES[number])
            };
            let count = quotas.len();
            let quotas = quotas.into_iter().enumerate().map(told).collect();
            let of = |(quota, size, priority)| (quota % count, size, priority);
            let pods = pods.into_iter().map(of).collect();
            Given { nodes, quotas, pods, gang: 0, early, is_eager, memory: Memory::default() }
        },
    )
}

fn memory() -> impl Strategy<Value = Memory> {
    (1..6_i64, vec(0..6_i64, 1..4), vec(0..4_i64, 1..10))
        .prop_map(|(of_each_node, mins, pods)| Memory { of_each_node, mins, pods })
}

impl World {
    fn new(given: &Given, last_resorts: &[LastResort], options: Options) -> Self {
        let settings = quota::Settings { options, ..quota::Settings::default() };
        let last_resorts = last_resorts.to_vec();
        let profile = Profile {
            quota: Some(settings),
            gangs: Some(gangs::Settings::default()),
            last_resorts,
            ..Profile::kubernetes()
        };
        let engine =
            Engine::new(Settings::default(), vec![(DEFAULT_SCHEDULER.into(), profile)], START);
        let mut own = Self {
            engine,
            now: START,
            pods: BTreeMap::new(),
            made: 0,
            evicted: 0,
            is_eager: given.is_eager,
            changes: Vec::new(),
        };
        for (number, cpu) in given.nodes.iter().enumerate() {
            let Fact::Node(mut fact) = node(&format!("n{number}"), cpu * 1_000) else { continue };
            fact.allocatable.memory_bytes = given.memory.of_each_node;
            own.engine.apply(Fact::Node(fact), START);
        }
        let mut mins = given.memory.mins.iter().cycle();
        for text in &given.quotas {
            let Fact::Quota(mut fact) = quota(text) else { continue };
            if let Some(min) = mins.next() {
                let names = [(&mut fact.min, *min), (&mut fact.max, 8), (&mut fact.weight, 8)];
                for (list, own) in names {
                    list.insert("memory".into(), own);
                }
            }
            own.engine.apply(Fact::Quota(fact), START);
        }
        let mut memory = given.memory.pods.iter().cycle();
        let min_available = u32::try_from(given.gang).ok();
        let terms = Some(Box::new(GangTerms { min_available, ..GangTerms::default() }));
        own.engine.apply(
            Fact::Gang { id: GangId::new("default", "g"), terms, has_started: false },
            START,
        );
        for (number, (quota, size, priority)) in given.pods.iter().enumerate() {
            if number == given.early {
                own.round(|_, _| ());
            }
            let gang = (number < given.gang).then(|| {
                let gang = GangId::new("default", "g");
                Membership { gang, terms: None, created: Moment(0), incarnation: None }
            });
            let (priority, gang) = (*priority, gang.map(Arc::new));
            let mut fact = PodFact { priority, gang, ..member("", NAMES[*quota], size * 1_000) };
            fact.needs.requests.charged.memory_bytes = memory.next().copied().unwrap_or(0);
            fact.needs.taken = fact.needs.requests.clone();
            own.make(fact);
        }
        own
    }

    /// A pod like this one is made.
    fn make(&mut self, like: PodFact) {
        self.made += 1;
        let name = format!("p{}", self.made);
        let uid = Uid::new(&name);
        let fact = PodFact { uid: uid.clone(), name: name.into(), node: None, ..like };
        self.pods.insert(uid, fact.clone());
        self.engine.apply(told(fact), self.now);
    }

    fn evict(&mut self, uid: &Uid) {
        let Some(fact) = self.pods.remove(uid) else { return };
        self.evicted += 1;
        if self.is_eager {
            self.make(fact);
            self.engine.apply(gone(&uid.0), self.now);
        } else {
            self.engine.apply(gone(&uid.0), self.now);
            self.make(fact);
        }
    }

    /// A pod that has no node becomes the next one of those that pods become.
    fn change(&mut self) {
        let Some((pod, quota, size)) = self.changes.pop() else { return };
        let mut waiting = self.pods.values_mut().filter(|fact| fact.node.is_none());
        let Some(fact) = waiting.nth(pod) else { return };
        let like = member("", NAMES[quota], size * 1_000);
        (fact.quota, fact.needs) = (like.quota, like.needs);
        let fact = fact.clone();
        self.engine.apply(told(fact), self.now);
    }

    /// Decides all that can be decided, and does it; whoever has to go is gone at once.
    fn round(&mut self, mut after: impl FnMut(&mut Engine, &Uid)) {
        for _ in 0..DECISIONS_MAX {
            let Some(Decision { pod, verdict, .. }) = self.engine.decide(self.now) else {
                if self.engine.next_due(self.now).is_some_and(|due| due <= self.now) {
                    continue;
                }
                break;
            };
            match verdict {
                Verdict::Bind(node, _) => {
                    after(&mut self.engine, &pod.uid);
                    let fact = self.pods.get_mut(&pod.uid).expect("it is there");
                    fact.node = Some(node);
                    let fact = fact.clone();
                    self.engine.apply(told(fact), self.now);
                    self.engine.answered(&pod.uid, Answer::Done, self.now);
                }
                Verdict::Wait(waiting) => {
                    if waiting.room().is_some() {
                        self.change();
                    }
                    self.engine.done(&pod.uid, self.now);
                    let victims = waiting.room().map(|room| room.victims.clone());
                    for victim in victims.into_iter().flatten() {
                        self.evict(&victim.pod.uid);
                    }
                }
                Verdict::Await(_) => self.engine.done(&pod.uid, self.now),
                other => panic!("{other:?}"),
            }
        }
        self.now = Moment(self.now.0 + ROUND);
    }
}

fn ways() -> impl Strategy<Value = Vec<LastResort>> {
    let by_priority = LastResort::DefaultPreemption(preemption::Settings::default());
    prop_oneof![
        Just(vec![LastResort::ElasticQuota]),
        Just(vec![LastResort::Coscheduling, LastResort::ElasticQuota]),
        Just(vec![LastResort::ElasticQuota, LastResort::Coscheduling]),
        Just(vec![by_priority, LastResort::ElasticQuota]),
    ]
}

/// What has become of a world, and whether the last rounds were quiet.
fn settled(given: &Given, ways: &[LastResort], options: Options) -> (World, bool) {
    let mut world = World::new(given, ways, options);
    for _ in 0..ROUNDS - QUIET {
        world.round(|_, _| ());
    }
    let before = world.evicted;
    for _ in 0..QUIET {
        world.round(|_, _| ());
    }
    let is_quiet = world.evicted == before;
    (world, is_quiet)
}

#[test]
fn what_is_taken_back_is_not_taken_again_by_who_only_borrows() {
    // The last pod comes when all others have their nodes.
    let check = |nodes: &[i64], pods: &[(usize, i64, i32)], ways: &[LastResort]| {
        for is_eager in [false, true] {
            let quotas = ["a< 2000 4000", "b< 0 4000", "c< 2000 4000"].map(str::to_owned);
            let (nodes, quotas, pods) = (nodes.to_vec(), quotas.to_vec(), pods.to_vec());
            let early = pods.len() - 1;
            let memory = Memory::default();
            let given = Given { nodes, quotas, pods, gang: 0, early, is_eager, memory };
            let (world, is_quiet) = settled(&given, ways, Options::default());
            let last = &world.pods[&Uid::new(&format!("p{}", given.pods.len()))];
            let outcome = (world.evicted, last.node.is_some(), is_quiet);
            assert_eq!(outcome, (1, true, true), "{given:?} {ways:?}");
        }
    };
    let by_priority = LastResort::DefaultPreemption(preemption::Settings::default());
    for ways in [
        &[LastResort::ElasticQuota][..],
        &[LastResort::Coscheduling, LastResort::ElasticQuota],
        &[by_priority, LastResort::ElasticQuota],
    ] {
        // b has all, of which a is guaranteed some.
        check(&[4], &[(1, 2, 9), (1, 2, 9), (0, 2, 0)], ways);
        check(&[4], &[(1, 4, 9), (0, 2, 0)], ways);
        // b may use as much as before, and no node has room for both.
        check(&[3, 3], &[(1, 2, 9), (1, 2, 9), (0, 2, 0)], ways);
        // Who asks for nothing that quotas count.
        check(&[4], &[(1, 0, 0), (0, 0, 0), (1, 4, 9), (0, 2, 0)], ways);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn lending_and_taking_back_come_to_rest(
        given in given(),
        ways in ways(),
        scales_min in any::<bool>(),
    ) {
        let options = Options { scales_min, ..Options::default() };
        let (world, is_quiet) = settled(&given, &ways, options);
        prop_assert!(is_quiet, "{} pods had to go", world.evicted);
        prop_assert!(world.evicted <= 4 * given.pods.len(), "{} pods had to go", world.evicted);
    }

    #[test]
    fn lending_and_taking_back_of_two_resources_come_to_rest(
        given in given(),
        memory in memory(),
        ways in ways(),
    ) {
        let given = Given { memory, ..given };
        let (world, is_quiet) = settled(&given, &ways, Options::default());
        prop_assert!(is_quiet, "{} pods had to go", world.evicted);
        prop_assert!(world.evicted <= 4 * given.pods.len(), "{} pods had to go", world.evicted);
    }

    #[test]
    fn no_decision_has_a_quota_use_more_than_its_ceiling(
        given in given(),
        ways in ways(),
        scales_min in any::<bool>(),
        guarantees_usage in any::<bool>(),
        gang in 0..4_usize,
    ) {
        let given = Given { gang, ..given };
        let options = Options { scales_min, guarantees_usage, ..Options::default() };
        let mut world = World::new(&given, &ways, options);
        for _ in 0..9 {
            world.round(|engine, uid| {
                let view = engine.quota_view("").expect("there is a tree");
                for name in NAMES {
                    let Some(own) = view.register().get(name) else { continue };
                    let standing = view.standing(name).expect("it has a place");
                    for (resource, most) in &own.max {
                        assert!(standing.used[resource] <= *most, "{name} with {uid:?}");
                    }
                }
            });
        }
    }

    #[test]
    fn pods_that_become_others_while_room_is_made_leave_nothing_behind(
        given in given(),
        ways in ways(),
        changes in vec((0..4_usize, 0..4_usize, 0..4_i64), 0..9),
    ) {
        let mut world = World::new(&given, &ways, Options::default());
        world.changes = changes;
        for _ in 0..9 {
            world.round(|engine, _| assert!(engine.ledger().quotas.keeps_what_was_pledged()));
            prop_assert!(world.engine.ledger().quotas.keeps_what_was_pledged());
        }
        for uid in world.pods.keys() {
            world.engine.apply(Fact::PodGone(uid.clone()), world.now);
        }
        prop_assert!(world.engine.ledger().quotas.is_empty());
    }
}
