//! Decisions that last too long: a Binding that nobody answers, volumes that are not ready, extenders
//! that think. They are looked for now and then, and told with what they wait for.
//!
//! Whether the engine itself goes on is seen by [`Pulse`](crate::pulse).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::fact::{PodRef, Uid};
use engine::moment::Moment;
use engine::turn::Verdict;

use super::{Core, Flight, Mission};
use crate::extenders::Binder;
use crate::meters::Meters;

/// How many of them are told one by one at a time; of the others it is told how many there are.
const TOLD_MAX: usize = 16;

/// How long a decision may take before it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// How often it is looked whether any takes longer.
    pub period: Duration,
    /// How long one may take.
    pub timeout: Duration,
}

impl Default for Patience {
    /// What Koordinator's scheduler has.
    fn default() -> Self {
        Self { period: Duration::from_secs(10), timeout: Duration::from_secs(30) }
    }
}

/// What a decision waits for: the phase, and the plugin, as kube-scheduler calls them.
type Awaited = (&'static str, &'static str);

/// An attempt that is not over.
#[derive(Debug)]
struct Wait {
    pod: PodRef,
    profile: Arc<str>,
    awaited: Awaited,
    since: Moment,
}

/// Looks for decisions that last too long.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    patience: Patience,
    /// When it is looked next, where anything is under way.
    next: Option<Moment>,
    /// Those that wait for extenders or volumes. Where a Binding is under way, its flight tells.
    waits: BTreeMap<Uid, Wait>,
    /// Those that were told.
    told: BTreeSet<Uid>,
}

fn awaited(mission: Mission) -> Awaited {
    match mission {
        Mission::Bind(Binder::Server) => ("Bind", "DefaultBinder"),
        Mission::Bind(_) => ("Bind", "Extender"),
        Mission::Prepare => ("PreBind", "VolumeBinding"),
    }
}

impl Overdue {
    /// An attempt that began at this time has come to this verdict.
    pub(super) fn follow(
        &mut self,
        pod: &PodRef,
        (profile, verdict): (&Arc<str>, &Verdict),
        (since, now): (Moment, Moment),
        meters: &Meters,
    ) {
        let awaited = match verdict {
            Verdict::Consult(..) => Some(("Filter", "Extender")),
            Verdict::Prepare(..) => Some(awaited(Mission::Prepare)),
            // What is under way then is known by its flight.
            Verdict::Bind(..) => None,
            Verdict::Await(_) | Verdict::Wait(_) | Verdict::Failed(_) | Verdict::Unprepared(_) => {
                return self.over(&pod.uid, profile, (since, now), meters);
            }
        };
        self.next.get_or_insert(now.after(self.patience.period));
        match awaited {
            None => drop(self.waits.remove(&pod.uid)),
            Some(awaited) => {
                let (pod, profile) = (pod.clone(), profile.clone());
                self.waits.insert(pod.uid.clone(), Wait { pod, profile, awaited, since });
            }
        }
    }

    /// An attempt is over.
    pub(super) fn over(
        &mut self,
        uid: &Uid,
        profile: &Arc<str>,
        (since, now): (Moment, Moment),
        meters: &Meters,
    ) {
        if now.since(since) >= self.patience.timeout {
            meters.timed_out(profile);
        }
        self.forget(uid);
    }

    /// Nobody asks any longer what comes of an attempt.
    pub(super) fn forget(&mut self, uid: &Uid) {
        self.waits.remove(uid);
        self.told.remove(uid);
    }
}

impl Core {
    /// The same, which tells of decisions that last longer.
    #[must_use]
    pub fn with_patience(self, patience: Patience) -> Self {
        Self { overdue: Overdue { patience, ..Overdue::default() }, ..self }
    }

    /// Tells of decisions that last too long, where it is time to look for such.
    pub fn look_after(&mut self, now: Moment) {
        let late = self.newly_late(now);
        for Wait { pod, profile, awaited: (phase, plugin), since } in late.iter().take(TOLD_MAX) {
            tracing::warn!(
                pod = %format_args!("{}/{}", pod.namespace, pod.name),
                profile = &**profile,
                phase,
                plugin,
                seconds = now.since(*since).as_secs(),
                "a decision lasts too long"
            );
        }
        if let Some(others) = late.len().checked_sub(TOLD_MAX).filter(|others| *others > 0) {
            tracing::warn!(others, "more decisions last too long");
        }
    }

    /// Counts decisions that last too long, where it is time to look for such; those of which it was not
    /// known yet are returned.
    fn newly_late(&mut self, now: Moment) -> Vec<Wait> {
        let Self { overdue, flights, meters, .. } = self;
        if overdue.next.is_none_or(|next| now < next) {
            return Vec::new();
        }
        let Overdue { patience, next, waits, told } = overdue;
        let is_any = !flights.is_empty() || !waits.is_empty();
        *next = is_any.then(|| now.after(patience.period));
        let flying = flights.values().filter(|flight| flight.mission != Mission::Prepare);
        let flying = flying.map(|flight| {
            let Flight { pod, attempt, mission, decided, .. } = flight;
            (pod, &attempt.profile, awaited(*mission), *decided)
        });
        let waiting = waits.values().map(|own| (&own.pod, &own.profile, own.awaited, own.since));
        let late = flying.chain(waiting);
        let late = late.filter(|(.., since)| now.since(*since) >= patience.timeout);
        let mut new = Vec::new();
        for (pod, profile, awaited, since) in late {
            meters.timed_out(profile);
            if told.insert(pod.uid.clone()) {
                let (pod, profile) = (pod.clone(), profile.clone());
                new.push(Wait { pod, profile, awaited, since });
            }
        }
        new
    }

    /// When it is to be looked whether a decision lasts too long.
    pub(super) fn next_look(&self) -> Option<Moment> {
        let is_any = !self.flights.is_empty() || !self.overdue.waits.is_empty();
        self.overdue.next.filter(|_| is_any)
    }
}

#[cfg(test)]
impl Core {
    /// How many decisions are found to last too long that were not before.
    pub(super) fn count_newly_late(&mut self, now: Moment) -> usize {
        self.newly_late(now).len()
    }
}
