//! Several candidates against one Lease, over a network that delays, loses and reorders: never
//! do two lead at once.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// How long a request is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a run lasts, its faults, and the calm that follows.
const FAULTS: Duration = Duration::from_mins(4);
const CALM: Duration = Duration::from_mins(2);
/// What a model run may take; more is a loop.
const STEPS_MAX: usize = 20_000;

/// What becomes of one request.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// It lands after so many milliseconds, and is answered after so many more.
    Answered(u64, u64),
    /// It never lands.
    Lost,
    /// It lands after so many milliseconds, even if nobody waits any more; no answer comes.
    Unanswered(u64),
}

/// What befalls a candidate.
#[derive(Debug, Clone, Copy)]
enum Blow {
    /// It stands still for so many milliseconds, while its clock runs on.
    Pause(u64),
    /// It ends as it should.
    Stop,
    /// It is killed.
    Kill,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => (0..300_u64, 0..300_u64).prop_map(|(there, back)| Fate::Answered(there, back)),
        2 => (0..6000_u64, 0..6000_u64).prop_map(|(there, back)| Fate::Answered(there, back)),
        2 => Just(Fate::Lost),
        2 => (0..40_000_u64).prop_map(Fate::Unanswered),
    ]
}

fn blow() -> impl Strategy<Value = (u64, usize, Blow)> {
    let what = prop_oneof![
        4 => (0..40_000_u64).prop_map(Blow::Pause),
        1 => Just(Blow::Stop),
        1 => Just(Blow::Kill),
    ];
    (0..240_000_u64, 0..3_usize, what)
}

#[derive(Debug, Clone)]
enum Happening {
    Deliver { who: usize, life: u32, event: Event },
    Land { who: usize, life: u32, effect: Effect, back: Option<u64> },
    Befall { who: usize, blow: Blow },
    Restart { who: usize, life: u32 },
}

struct Candidate {
    machine: Machine,
    /// How far its monotonic clock is ahead of the world's, and its wall clock.
    ahead: Duration,
    wall: Timestamp,
    /// Raised with each restart; what is meant for an earlier life is lost.
    life: u32,
    paused_until: Duration,
    /// Until when it leads, in the world's time.
    leads_until: Duration,
    requests: u32,
    answered: u32,
}

struct World {
    now: Duration,
    lease: Option<(u64, Record)>,
    version: u64,
    last_epoch: u64,
    terms: usize,
    candidates: Vec<Candidate>,
    fates: Vec<Fate>,
    drawn: usize,
    queue: BTreeMap<(Duration, u64), Happening>,
    next: u64,
}

fn machine(who: usize, life: u32) -> Machine {
    let mut config = Config::new("kube-system", "kube-scheduler", &format!("candidate-{who}"));
    config.seed = u64::from(life);
    Machine::new(&config).unwrap()
}

impl World {
    fn new(count: usize, fates: Vec<Fate>, blows: &[(u64, usize, Blow)]) -> Self {
        let candidate = |who: usize| Candidate {
            machine: machine(who, 0),
            ahead: Duration::from_secs(1000 * who as u64),
            wall: Timestamp::from_second(5_000 - 4_000 * i64::try_from(who).unwrap()).unwrap(),
            life: 0,
            paused_until: Duration::ZERO,
            leads_until: Duration::ZERO,
            requests: 0,
            answered: 0,
        };
        let mut world = Self {
            now: Duration::ZERO,
            lease: None,
            version: 100,
            last_epoch: 0,
            terms: 0,
            candidates: (0..count).map(candidate).collect(),
            fates,
            drawn: 0,
            queue: BTreeMap::new(),
            next: 0,
        };
        for who in 0..count {
            world.after(0, Happening::Deliver { who, life: 0, event: Event::Tick });
        }
        for &(at, who, blow) in blows {
            world.after(at, Happening::Befall { who: who % count, blow });
        }
        world
    }

    fn at(&mut self, due: Duration, what: Happening) {
        self.queue.insert((due, self.next), what);
        self.next += 1;
    }

    fn after(&mut self, millis: u64, what: Happening) {
        self.at(self.now + Duration::from_millis(millis), what);
    }

    /// Runs until the time `end`.
    fn run_until(&mut self, end: Duration) {
        for _ in 0..STEPS_MAX {
            let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) else {
                self.now = end;
                return;
            };
            let ((due, _), what) = entry.remove_entry();
            self.now = due;
            self.happen(what);
        }
        panic!("more than {STEPS_MAX} steps: a loop");
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Deliver { who, life, ref event } => {
                let candidate = &mut self.candidates[who];
                if candidate.life != life {
                    return;
                }
                if candidate.paused_until > self.now {
                    let due = candidate.paused_until;
                    return self.at(due, what);
                }
                candidate.answered += u32::from(!matches!(event, Event::Tick | Event::Stop));
                let event = event.clone();
                self.step(who, event);
            }
            Happening::Land { who, life, effect, back } => {
                let event = self.serve(&effect);
                if let Some(back) = back {
                    self.after(back, Happening::Deliver { who, life, event });
                }
            }
            Happening::Befall { who, blow: Blow::Pause(millis) } => {
                let until = self.now + Duration::from_millis(millis);
                self.candidates[who].paused_until = until;
            }
            Happening::Befall { who, blow: Blow::Stop } => {
                let life = self.candidates[who].life;
                self.after(0, Happening::Deliver { who, life, event: Event::Stop });
            }
            Happening::Befall { who, blow: Blow::Kill } => {
                let life = self.candidates[who].life;
                self.restart(who, life);
            }
            Happening::Restart { who, life } => self.restart(who, life),
        }
    }

    fn restart(&mut self, who: usize, life: u32) {
        let candidate = &mut self.candidates[who];
        if candidate.life != life {
            return;
        }
        candidate.life += 1;
        candidate.machine = machine(who, candidate.life);
        candidate.leads_until = Duration::ZERO;
        (candidate.requests, candidate.answered) = (0, 0);
        let life = candidate.life;
        self.after(500, Happening::Deliver { who, life, event: Event::Tick });
    }

    /// What the server does: one write per version, of two only one.
    fn serve(&mut self, effect: &Effect) -> Event {
        let (record, expected) = match effect {
            Effect::Create(record) => (record, None),
            Effect::Update { record, version } => (record, Some(*version)),
            _ => {
                return match &self.lease {
                    None => Event::Missing,
                    Some((version, record)) => {
                        Event::Found { record: record.clone(), version: *version }
                    }
                };
            }
        };
        if self.lease.as_ref().map(|(version, _)| *version) != expected {
            return Event::Conflicted;
        }
        self.version += 1;
        self.lease = Some((self.version, record.clone()));
        Event::Stored { version: self.version }
    }

    fn step(&mut self, who: usize, event: Event) {
        let now = self.now;
        let candidate = &mut self.candidates[who];
        let (ahead, life) = (candidate.ahead, candidate.life);
        // The wall clock of the second runs backwards, which nobody may mind.
        let elapsed = jiff::SignedDuration::try_from(now).unwrap();
        let wall = candidate.wall + if who == 1 { -elapsed } else { elapsed };
        for effect in candidate.machine.step(Now { monotonic: now + ahead, wall }, event) {
            match effect {
                Effect::Read | Effect::Create(_) | Effect::Update { .. } => self.send(who, effect),
                Effect::WakeAt(due) => {
                    let due = due.saturating_sub(ahead).max(now);
                    self.at(due, Happening::Deliver { who, life, event: Event::Tick });
                }
                Effect::Lead { epoch, until } => {
                    assert!(epoch > self.last_epoch, "the epoch went from {}", self.last_epoch);
                    self.last_epoch = epoch;
                    self.terms += 1;
                    self.grant(who, until);
                }
                Effect::Renewed { until } => self.grant(who, until),
                Effect::Lose(loss) => {
                    self.candidates[who].leads_until = Duration::ZERO;
                    if loss != Loss::Stopped {
                        self.after(1000, Happening::Deliver { who, life, event: Event::Stop });
                    }
                }
                Effect::End => self.after(1000, Happening::Restart { who, life }),
                Effect::Observed(_) | Effect::SlowPath => {}
            }
        }
    }

    fn send(&mut self, who: usize, effect: Effect) {
        let candidate = &mut self.candidates[who];
        candidate.requests += 1;
        let pending = candidate.requests - candidate.answered;
        assert_eq!(pending, 1, "{who} has {pending} requests under way");
        let life = candidate.life;
        let calm = if self.now >= FAULTS { Some(Fate::Answered(20, 20)) } else { None };
        let fate = calm.or(self.fates.get(self.drawn).copied()).unwrap_or(Fate::Answered(20, 20));
        self.drawn += 1;
        let patience = u64::try_from(PATIENCE.as_millis()).unwrap();
        let failed = Happening::Deliver { who, life, event: Event::Failed };
        let back = match fate {
            Fate::Answered(there, back) if there + back <= patience => Some(back),
            _ => None,
        };
        if let Fate::Answered(there, _) | Fate::Unanswered(there) = fate {
            self.after(there, Happening::Land { who, life, effect, back });
        }
        if back.is_none() {
            self.after(patience, failed);
        }
    }

    /// Leadership only ever grows here, so that this is where two could meet.
    fn grant(&mut self, who: usize, until: Duration) {
        let until = until.saturating_sub(self.candidates[who].ahead);
        for (other, candidate) in self.candidates.iter().enumerate() {
            assert!(
                other == who || until <= self.now || candidate.leads_until <= self.now,
                "{other} leads until {:?}, and {who} from {:?}",
                candidate.leads_until,
                self.now
            );
        }
        self.candidates[who].leads_until = until;
    }

    fn leaders(&self) -> usize {
        self.candidates.iter().filter(|candidate| candidate.leads_until > self.now).count()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn there_are_never_two_leaders_and_in_the_end_there_is_one(
        count in 2..=3_usize,
        fates in vec(fate(), 0..200),
        blows in vec(blow(), 0..12),
    ) {
        let mut world = World::new(count, fates, &blows);
        world.run_until(FAULTS);
        for candidate in &mut world.candidates {
            candidate.paused_until = Duration::ZERO;
        }
        // The queue may hold what was put off by a pause; it comes in time.
        world.run_until(FAULTS + CALM);
        prop_assert_eq!(world.leaders(), 1);
    }
}

#[test]
fn in_calm_weather_the_first_leads_for_good_and_a_release_hands_over_within_a_try() {
    let mut world = World::new(3, Vec::new(), &[]);
    world.run_until(FAULTS);
    assert_eq!((world.leaders(), world.terms), (1, 1));
    let leader = world.candidates.iter().position(|c| c.leads_until > FAULTS).unwrap();
    world.after(0, Happening::Befall { who: leader, blow: Blow::Stop });
    // Two retry periods and a fifth, and the requests.
    world.run_until(FAULTS + Duration::from_secs(5));
    assert_eq!((world.leaders(), world.terms), (1, 2));
    let (_, record) = world.lease.unwrap();
    assert_eq!(record.transitions, 1);
    assert_ne!(record.holder, format!("candidate-{leader}"));
}
