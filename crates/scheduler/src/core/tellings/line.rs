//! What is still to be told of pods: what is on its way, what comes after it, and who waits to be told of.
//!
//! Of each pod one thing is told at a time, so that the last word is written last. Where room is made for
//! it, or no longer, it is told at once, since others depend on it. Anything else waits in one line, for as
//! long as it takes: nobody is tried again because there is no time to tell of him. A pod has one place
//! there, whatever is said of it meanwhile, and leaves it when it waits no longer. That is about 400 bytes
//! for a pod, and no text: the words are those that count as written on it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use engine::fact::Uid;
use engine::moment::Moment;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::later::{Busy, Pace};
use crate::message::TellOrder;

/// How many texts are kept to be shared by those of whom the same is said. With more, it is begun anew.
const WORDS_MAX: usize = 1024;
/// How often it is looked whether there is time for those who wait.
const LOOK: Duration = Duration::from_millis(20);

/// What is to be told of a pod.
#[derive(Debug)]
enum Telling {
    /// Something is on its way, and this comes next.
    UnderWay(Option<Box<TellOrder>>),
    /// This waits, since then.
    Waits(Moment, Box<TellOrder>),
}

/// What is to be told of all pods.
#[derive(Debug, Default)]
pub(in crate::core) struct Tellings {
    pods: FxHashMap<Uid, Telling>,
    /// Those who wait, in the order in which they began to.
    line: BTreeSet<(Moment, Uid)>,
    pace: Pace,
    /// What is said of many.
    words: FxHashSet<Arc<str>>,
}

impl Tellings {
    /// The same words, which others may have been told.
    pub(in crate::core) fn share(&mut self, words: &str) -> Arc<str> {
        if let Some(own) = self.words.get(words) {
            return own.clone();
        }
        if self.words.len() >= WORDS_MAX {
            self.words.clear();
        }
        let own: Arc<str> = words.into();
        self.words.insert(own.clone());
        own
    }

    /// Takes in what is to be told of a pod, together with what was to be told before. It comes back where
    /// it is to be told at once.
    pub(super) fn put(&mut self, mut order: Box<TellOrder>, now: Moment) -> Option<Box<TellOrder>> {
        let uid = order.pod.uid.clone();
        let mut since = now;
        match self.pods.remove(&uid) {
            Some(Telling::UnderWay(next)) => {
                if let Some(next) = next {
                    add(&mut order, *next);
                }
                self.pods.insert(uid, Telling::UnderWay(Some(order)));
                return None;
            }
            Some(Telling::Waits(began, old)) => {
                self.line.remove(&(began, uid.clone()));
                add(&mut order, *old);
                since = began;
            }
            None => {}
        }
        if order.is_urgent() {
            self.pods.insert(uid, Telling::UnderWay(None));
            return Some(order);
        }
        self.line.insert((since, uid.clone()));
        self.pods.insert(uid, Telling::Waits(since, order));
        None
    }

    /// What was on its way is told, or cannot be: what comes next is on its way from now on, if anything.
    pub(super) fn ended(&mut self, uid: &Uid) -> Option<Box<TellOrder>> {
        match self.pods.get_mut(uid)? {
            Telling::UnderWay(next) => {
                let next = next.take();
                if next.is_none() {
                    self.pods.remove(uid);
                }
                next
            }
            Telling::Waits(..) => None,
        }
    }

    /// Nothing more is to be told of a pod than what is on its way; says whether something was.
    pub(super) fn hush(&mut self, uid: &Uid) -> bool {
        match self.pods.get_mut(uid) {
            None => false,
            Some(Telling::UnderWay(next)) => next.take().is_some(),
            Some(Telling::Waits(since, _)) => {
                self.line.remove(&(*since, uid.clone()));
                self.pods.remove(uid);
                true
            }
        }
    }

    /// Who waits for the longest time, where there is time for him: he is on his way from now on.
    pub(super) fn next(&mut self, now: Moment, busy: Busy) -> Option<Box<TellOrder>> {
        let (since, _) = self.line.first()?;
        if busy.notes || !self.pace.has_time(passed(*since), passed(now), busy.work) {
            return None;
        }
        self.pace.tell();
        let (_, uid) = self.line.pop_first()?;
        match self.pods.insert(uid, Telling::UnderWay(None)) {
            Some(Telling::Waits(_, order)) => Some(order),
            _ => None,
        }
    }

    /// Nothing is to be told any longer of those who wait.
    pub(super) fn drop_waiting(&mut self) {
        for (_, uid) in std::mem::take(&mut self.line) {
            self.pods.remove(&uid);
        }
    }

    /// A Binding is asked for.
    pub(in crate::core) fn binding(&mut self, now: Moment) {
        self.pace.begin(passed(now));
    }

    /// A Binding is answered.
    pub(in crate::core) fn bound(&mut self, now: Moment) {
        self.pace.done(passed(now));
    }

    /// When to look next whether there is time for somebody; none where nobody waits.
    pub(in crate::core) fn next_due(&self, now: Moment) -> Option<Moment> {
        (!self.line.is_empty()).then(|| now.after(LOOK))
    }

    /// How many wait.
    pub(in crate::core) fn waiting(&self) -> usize {
        self.line.len()
    }

    #[cfg(test)]
    pub(in crate::core) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// What comes after what is on its way.
    #[cfg(test)]
    pub(in crate::core) fn after(&self, uid: &Uid) -> Option<&TellOrder> {
        match self.pods.get(uid)? {
            Telling::UnderWay(next) => next.as_deref(),
            Telling::Waits(..) => None,
        }
    }
}

/// What was to be told before, and counts as written, is told with this.
fn add(order: &mut TellOrder, old: TellOrder) {
    if let (Some(new), Some(old)) = (&mut order.condition, &old.condition) {
        new.is_transition |= old.is_transition;
    }
    order.condition = order.condition.take().or(old.condition);
    order.nominated = order.nominated.take().or(old.nominated);
    order.room = order.room.take().or(old.room);
}

fn passed(now: Moment) -> Duration {
    now.since(Moment::default())
}
