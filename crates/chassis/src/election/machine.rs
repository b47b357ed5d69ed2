//! Leader election as a state machine: what happened and the time in, effects out.
//!
//! The machine never waits and never asks. Whoever drives it carries out the one request that
//! a step asks for, feeds the answer back, and comes again at the time it names. It follows
//! client-go's elector on a Lease, so that programs of both kinds exclude each other:
//!
//! - a candidate takes the Lease that is free, or whose record has not changed for the
//!   record's own duration **since the candidate first saw it**; no time that another has
//!   written is ever compared with a clock;
//! - a leader renews at once with the version that it knows, reads only when that fails, and
//!   gives up when a round of tries has lasted for the renew deadline;
//! - every write carries the version that it builds upon, so that of two only one is done.
//!
//! It is stricter than client-go where that costs nothing. Validity is counted from the moment
//! at which the write was **sent**: the others count from a later one. A leader that reads
//! another's name has lost at once. And only what is read to be our own is released.

use std::time::Duration;

use api::lease::LeaseSpec;
use jiff::Timestamp;
use object::time::MicroTime;

use super::{Config, ConfigError};
use crate::random::{Random, seed_for};

/// Candidates wait for the retry period and up to so many fifths of it more.
const JITTER_FIFTHS: u32 = 6;
/// The duration of a lease that nobody holds, in seconds.
const RELEASED_SECONDS: i32 = 1;

/// The time, on both of the clocks that a step needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Since some moment of ours; everything is decided by it.
    pub monotonic: Duration,
    /// The time of day, which is only written down.
    pub wall: Timestamp,
}

/// Who holds the Lease, as it says itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The holder; empty for none.
    pub holder: String,
    /// After so many seconds without a change others may take it.
    pub duration_seconds: i32,
    /// When the holder took it, by the holder's clock.
    pub acquired: Option<MicroTime>,
    /// When the holder last renewed it, by the holder's clock.
    pub renewed: Option<MicroTime>,
    /// How often it changed hands.
    pub transitions: i32,
}

impl Record {
    fn duration(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.duration_seconds).unwrap_or(0))
    }
}

impl From<&LeaseSpec> for Record {
    fn from(spec: &LeaseSpec) -> Self {
        Self {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            duration_seconds: spec.lease_duration_seconds.unwrap_or_default(),
            acquired: spec.acquire_time,
            renewed: spec.renew_time,
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }
}

impl From<Record> for LeaseSpec {
    fn from(record: Record) -> Self {
        Self {
            holder_identity: Some(record.holder),
            lease_duration_seconds: Some(record.duration_seconds),
            acquire_time: record.acquired,
            renew_time: record.renewed,
            lease_transitions: Some(record.transitions),
        }
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Time passed; also how the machine is started.
    Tick,
    /// The Lease was read.
    Found {
        /// What it says.
        record: Record,
        /// Its resource version.
        version: u64,
    },
    /// There is no such Lease.
    Missing,
    /// The write was done.
    Stored {
        /// The resource version that it made.
        version: u64,
    },
    /// The write was not done: the Lease had changed, or was there already.
    Conflicted,
    /// No good answer; a write may be done, now or later.
    Failed,
    /// The process ends and nothing that needs the leadership runs any more.
    Stop,
}

/// What is to be done. A step asks for at most one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Read the Lease, from the store and not from a cache.
    Read,
    /// Create the Lease.
    Create(Record),
    /// Write this, if the Lease still has this version.
    Update {
        /// What it shall say.
        record: Record,
        /// The version that it must have.
        version: u64,
    },
    /// Come again at this monotonic time, if nothing happens before.
    WakeAt(Duration),
    /// Another than before holds the Lease; empty for nobody.
    Observed(String),
    /// We lead.
    Lead {
        /// Greater than that of every term before.
        epoch: u64,
        /// Until when, unless renewed.
        until: Duration,
    },
    /// We lead on.
    Renewed {
        /// Until when, unless renewed again.
        until: Duration,
    },
    /// A renewal needed to read first.
    SlowPath,
    /// We lead no more.
    Lose(Loss),
    /// There is nothing left to do.
    End,
}

/// Why a leadership ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The Lease could not be renewed in time.
    Deadline,
    /// The Lease says another name.
    Taken,
    /// It was given up.
    Stopped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Seeking,
    Leading {
        /// When this round of tries has lasted too long.
        give_up: Duration,
    },
    /// Lost, and what needed the leadership may still run.
    Lost {
        taken: bool,
    },
    Releasing,
    Ended,
}

/// The request under way.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Read { since: Duration },
    Write { record: Record, since: Duration, blindly: bool },
}

#[derive(Debug, Clone)]
struct Seen {
    record: Record,
    version: u64,
    /// When we first saw this record.
    at: Duration,
}

/// The state machine of one candidate.
#[derive(Debug)]
pub struct Machine {
    identity: String,
    duration_seconds: i32,
    /// How long a renewal lasts for those who write.
    valid_for: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
    is_released: bool,
    random: Random,
    stage: Stage,
    asked: Option<Asked>,
    seen: Option<Seen>,
    /// When to try next.
    due: Duration,
    reported: String,
}

impl Machine {
    /// A candidate that has not looked yet.
    ///
    /// # Errors
    /// When the configuration cannot work.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let duration_seconds = config.check()?;
        // What others wait for is written in whole seconds.
        let written = Duration::from_secs(u64::from(duration_seconds.unsigned_abs()));
        Ok(Self {
            identity: config.identity.clone(),
            duration_seconds,
            valid_for: config.renew_deadline.min(written),
            renew_deadline: config.renew_deadline,
            retry_period: config.retry_period,
            is_released: config.is_released_on_stop,
            random: Random::new(seed_for(config.seed, &["election", &config.identity])),
            stage: Stage::Seeking,
            asked: None,
            seen: None,
            due: Duration::ZERO,
            reported: String::new(),
        })
    }

    /// Takes note of an event and says what to do.
    pub fn step(&mut self, now: Now, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Tick => {}
            Event::Stop => self.stop(now, &mut effects),
            answer => {
                // An answer to nothing is a defect of the driver that does no harm.
                if let Some(asked) = self.asked.take() {
                    self.answered(now, asked, answer, &mut effects);
                }
            }
        }
        if let Stage::Leading { give_up } = self.stage
            && now.monotonic >= give_up
        {
            self.lose(Loss::Deadline, &mut effects);
        }
        let is_trying = matches!(self.stage, Stage::Seeking | Stage::Leading { .. });
        if is_trying && self.asked.is_none() && now.monotonic >= self.due {
            self.attempt(now, &mut effects);
        }
        let due = (is_trying && self.asked.is_none()).then_some(self.due);
        let wake = match self.stage {
            Stage::Leading { give_up } => Some(due.map_or(give_up, |due| due.min(give_up))),
            _ => due,
        };
        effects.extend(wake.map(Effect::WakeAt));
        effects
    }

    /// Begins a try: a leader writes on what it knows, everybody else reads.
    fn attempt(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let Some(seen) = self.seen.clone().filter(|seen| {
            matches!(self.stage, Stage::Leading { .. }) && is_fresh(seen, now.monotonic)
        }) else {
            return self.read(now.monotonic, effects);
        };
        let record = self.renewal(now, &seen.record);
        self.write(now, record, Some(seen.version), true, effects);
    }

    fn read(&mut self, since: Duration, effects: &mut Vec<Effect>) {
        self.asked = Some(Asked::Read { since });
        effects.push(Effect::Read);
    }

    fn write(
        &mut self,
        now: Now,
        record: Record,
        version: Option<u64>,
        blindly: bool,
        effects: &mut Vec<Effect>,
    ) {
        self.asked = Some(Asked::Write { record: record.clone(), since: now.monotonic, blindly });
        effects.push(match version {
            Some(version) => Effect::Update { record, version },
            None => Effect::Create(record),
        });
    }

    fn answered(&mut self, now: Now, asked: Asked, answer: Event, effects: &mut Vec<Effect>) {
        match (asked, answer) {
            (Asked::Read { since }, Event::Found { record, version }) => {
                self.see(now, record, version, effects);
                self.found(now, since, effects);
            }
            (Asked::Read { .. }, Event::Missing) => match self.stage {
                Stage::Seeking | Stage::Leading { .. } => {
                    let record = self.fresh_record(now, 0);
                    self.write(now, record, None, false, effects);
                }
                Stage::Releasing => self.end(effects),
                Stage::Lost { .. } | Stage::Ended => {}
            },
            (Asked::Write { record, since, .. }, Event::Stored { version }) => {
                self.see(now, record, version, effects);
                self.stored(now, since, version, effects);
            }
            (Asked::Write { blindly: true, .. }, _)
                if matches!(self.stage, Stage::Leading { .. }) =>
            {
                self.read(now.monotonic, effects);
            }
            (asked, _) => self.failed(now, &asked, effects),
        }
    }

    /// Remembers what the Lease says; the time only where it says something new.
    fn see(&mut self, now: Now, record: Record, version: u64, effects: &mut Vec<Effect>) {
        if record.holder != self.reported {
            self.reported.clone_from(&record.holder);
            effects.push(Effect::Observed(record.holder.clone()));
        }
        let known = self.seen.as_ref().filter(|seen| seen.record == record);
        let at = known.map_or(now.monotonic, |seen| seen.at);
        self.seen = Some(Seen { record, version, at });
    }

    /// Decides on what was just read; `since` is when it was asked for.
    fn found(&mut self, now: Now, since: Duration, effects: &mut Vec<Effect>) {
        let Some(seen) = self.seen.clone() else { return };
        let is_ours = seen.record.holder == self.identity;
        match self.stage {
            Stage::Seeking => {
                let is_free = seen.record.holder.is_empty() || !is_fresh(&seen, since);
                if is_ours {
                    let record = self.renewal(now, &seen.record);
                    self.write(now, record, Some(seen.version), false, effects);
                } else if is_free {
                    let transitions = seen.record.transitions.max(0).saturating_add(1);
                    let record = self.fresh_record(now, transitions);
                    self.write(now, record, Some(seen.version), false, effects);
                } else {
                    self.retry_later(now);
                }
            }
            Stage::Leading { .. } if is_ours => {
                effects.push(Effect::SlowPath);
                let record = self.renewal(now, &seen.record);
                self.write(now, record, Some(seen.version), false, effects);
            }
            Stage::Leading { .. } => self.lose(Loss::Taken, effects),
            Stage::Releasing if is_ours => {
                let wall = Some(MicroTime::from(now.wall));
                let record = Record {
                    holder: String::new(),
                    duration_seconds: RELEASED_SECONDS,
                    acquired: wall,
                    renewed: wall,
                    transitions: seen.record.transitions.max(0),
                };
                self.write(now, record, Some(seen.version), false, effects);
            }
            Stage::Releasing => self.end(effects),
            Stage::Lost { .. } | Stage::Ended => {}
        }
    }

    /// A write that was sent at `since` is done.
    fn stored(&mut self, now: Now, since: Duration, version: u64, effects: &mut Vec<Effect>) {
        let until = since.saturating_add(self.valid_for);
        match self.stage {
            // So late an answer is worth nothing; the next try finds our own name.
            Stage::Seeking if until <= now.monotonic => self.due = now.monotonic,
            Stage::Seeking => {
                self.next_round(now);
                effects.push(Effect::Lead { epoch: version, until });
            }
            Stage::Leading { .. } => {
                self.next_round(now);
                effects.push(Effect::Renewed { until });
            }
            Stage::Releasing => match &self.seen {
                Some(seen) if seen.record.holder.is_empty() => self.end(effects),
                _ => self.read(now.monotonic, effects),
            },
            Stage::Lost { .. } | Stage::Ended => {}
        }
    }

    fn failed(&mut self, now: Now, asked: &Asked, effects: &mut Vec<Effect>) {
        match self.stage {
            Stage::Seeking | Stage::Leading { .. } => self.retry_later(now),
            Stage::Releasing => match asked {
                // It may be done: whoever holds the Lease is read.
                Asked::Write { record, .. } if !record.holder.is_empty() => {
                    self.read(now.monotonic, effects);
                }
                _ => self.end(effects),
            },
            Stage::Lost { .. } | Stage::Ended => {}
        }
    }

    fn stop(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if matches!(self.stage, Stage::Leading { .. }) {
            self.lose(Loss::Stopped, effects);
        }
        let is_written = matches!(self.asked, Some(Asked::Write { .. }));
        let may_be_ours = match self.stage {
            Stage::Seeking => is_written,
            Stage::Lost { taken } => !taken,
            Stage::Leading { .. } | Stage::Releasing | Stage::Ended => return,
        };
        if !(may_be_ours && self.is_released) {
            return self.end(effects);
        }
        self.stage = Stage::Releasing;
        if self.asked.is_none() {
            self.read(now.monotonic, effects);
        }
    }

    fn lose(&mut self, loss: Loss, effects: &mut Vec<Effect>) {
        self.stage = Stage::Lost { taken: loss == Loss::Taken };
        effects.push(Effect::Lose(loss));
    }

    fn end(&mut self, effects: &mut Vec<Effect>) {
        self.stage = Stage::Ended;
        self.asked = None;
        effects.push(Effect::End);
    }

    fn next_round(&mut self, now: Now) {
        self.due = now.monotonic.saturating_add(self.retry_period);
        self.stage = Stage::Leading { give_up: self.due.saturating_add(self.renew_deadline) };
    }

    /// Candidates spread their tries, a leader does not.
    fn retry_later(&mut self, now: Now) {
        let jitter = match self.stage {
            Stage::Seeking => self.random.below(self.retry_period * JITTER_FIFTHS / 5),
            _ => Duration::ZERO,
        };
        self.due = now.monotonic.saturating_add(self.retry_period).saturating_add(jitter);
    }

    fn fresh_record(&self, now: Now, transitions: i32) -> Record {
        let wall = Some(MicroTime::from(now.wall));
        Record {
            holder: self.identity.clone(),
            duration_seconds: self.duration_seconds,
            acquired: wall,
            renewed: wall,
            transitions,
        }
    }

    fn renewal(&self, now: Now, old: &Record) -> Record {
        let fresh = self.fresh_record(now, old.transitions.max(0));
        Record { acquired: old.acquired, ..fresh }
    }
}

/// Whether a record was seen so recently that its holder may still lead.
fn is_fresh(seen: &Seen, now: Duration) -> bool {
    seen.at.saturating_add(seen.record.duration()) > now
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
