//! A fence: whoever is behind it knows everything that happened before it was put up.
//!
//! A process that begins to lead must see what the one before it did. It puts up a fence, and its
//! reflectors tell when they have come past: because they have listed anew, or because their watch
//! shows the revision that the store of their kind had then. Kinds may be kept in stores of their
//! own, which count apart; so each reflector asks for the revision of its kind, and holds no other
//! against what it sees.
//!
//! A watch of which nothing comes may be up to date or may be late, and only a list tells; where
//! that is cheap it is asked for at once, and otherwise after the watch was given a moment.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::SetOnce;

use super::machine::{Machine, PAGE_LIMIT};
use crate::backoff::Backoff;
use crate::client::{Access, ListOptions, Nameplate};
use crate::clock::Clock;

/// How long a watch of many objects is given to show something newer by itself.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the revision is asked for before a list is, which goes on until there is one.
const TRIES_MAX: u32 = 4;
/// The first wait between tries.
const RETRY_MIN: Duration = Duration::from_millis(200);
/// The longest wait between tries, even where the server asks for more.
const RETRY_MAX: Duration = Duration::from_secs(2);

/// What reflectors have to come past, once it is up; clones share it. Those who wait for it are
/// woken in the order in which they came, so that one seed gives one run.
#[derive(Debug, Clone, Default)]
pub struct Fence(Arc<SetOnce<()>>);

impl Fence {
    /// No fence yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts it up: what the server has now, and only a list or a version that comes after this
    /// moment can show, has to be seen. Once up, it stays.
    pub fn put_up(&self) {
        // Refused where it is up.
        let _ = self.0.set(());
    }
}

type Asking = Pin<Box<dyn Future<Output = Option<u64>> + Send>>;

/// One reflector's way past a fence.
#[derive(Debug)]
pub(super) struct Gate(Way);

enum Way {
    /// There is none, or it is passed.
    Free,
    /// The fence is not up.
    Before { fence: Fence, revision: Revision },
    /// It is up.
    Behind {
        /// The lists that were begun before.
        lists: u32,
        goal: Goal,
    },
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Free => "Free",
            Self::Before { .. } => "Before",
            Self::Behind { .. } => "Behind",
        })
    }
}

/// What has to be seen.
enum Goal {
    /// That is not clear before there is a watch.
    Unset(Revision),
    /// The revision of the store, which is asked for.
    Asked(Asking),
    /// This revision; until then the watch may show it by itself.
    Revision(u64, Duration),
    /// What a new list shows.
    List,
}

/// Who can be asked for the revision of a kind's store.
pub(super) struct Revision {
    access: Access<Nameplate>,
    backoff: Backoff,
}

impl Revision {
    pub(super) fn of(access: Access<Nameplate>, seed: u64) -> Self {
        Self { access, backoff: Backoff::new(RETRY_MIN, RETRY_MAX, seed) }
    }

    /// The revision, read by quorum; none where the server counts otherwise, or does not say.
    async fn ask(mut self) -> Option<u64> {
        let options = ListOptions { limit: 1, ..ListOptions::default() };
        for tries in 0..TRIES_MAX {
            match self.access.list(&options).await {
                Ok(page) => return page.resource_version.parse().ok(),
                Err(error) => {
                    tracing::debug!(resource = %self.access.resource(), %error, "no revision");
                    let asked = error.retry_after().unwrap_or_default().min(RETRY_MAX);
                    let wait = self.backoff.wait(tries).max(asked);
                    self.access.client().clock().sleep(wait).await;
                }
            }
        }
        None
    }
}

impl Gate {
    pub(super) fn none() -> Self {
        Self(Way::Free)
    }

    pub(super) fn at(fence: &Fence, revision: Revision) -> Self {
        Self(Way::Before { fence: fence.clone(), revision })
    }

    /// Whether this is the moment at which the fence is passed: it is so once.
    pub(super) fn is_passed(&mut self, machine: &Machine) -> bool {
        let Way::Behind { lists, goal } = &self.0 else { return false };
        let is_listed = machine.lists() != *lists;
        let is_seen = matches!(goal, Goal::Revision(revision, _) if machine.has_passed(*revision));
        let passed = machine.is_settled() && (is_listed || is_seen);
        if passed {
            self.0 = Way::Free;
        }
        passed
    }

    /// Comes when there is something new: the fence is put up, it is clear what has to be seen,
    /// or the watch had its time. What has begun goes on when this is dropped and called again.
    pub(super) async fn turned(&mut self, clock: &Clock, machine: &Machine) {
        match &mut self.0 {
            Way::Free => return std::future::pending().await,
            Way::Before { fence, .. } => {
                fence.0.wait().await;
            }
            // A list that is under way, or a wait for one, ends by itself.
            Way::Behind { .. } if !machine.is_settled() => return std::future::pending().await,
            Way::Behind { goal, .. } => match goal {
                Goal::Unset(_) | Goal::List => {}
                Goal::Asked(asking) => {
                    let revision = asking.await;
                    let due = clock.monotonic() + PATIENCE;
                    *goal = revision.map_or(Goal::List, |revision| Goal::Revision(revision, due));
                    return;
                }
                Goal::Revision(_, due) => {
                    clock.sleep_until(*due).await;
                    *goal = Goal::List;
                }
            },
        }
        self.go_on(machine);
    }

    /// Takes the step that needs no waiting.
    fn go_on(&mut self, machine: &Machine) {
        let is_few = machine.known() <= PAGE_LIMIT as usize;
        self.0 = match std::mem::replace(&mut self.0, Way::Free) {
            Way::Before { revision, .. } => {
                Way::Behind { lists: machine.lists(), goal: Goal::Unset(revision) }
            }
            Way::Behind { lists, goal: Goal::Unset(revision) } => {
                // One page costs as much as to ask for the revision, and tells more.
                let goal = if is_few { Goal::List } else { Goal::Asked(Box::pin(revision.ask())) };
                Way::Behind { lists, goal }
            }
            other => other,
        };
    }

    /// Whether a list is to be asked for now.
    pub(super) fn wants_list(&self, machine: &Machine) -> bool {
        matches!(&self.0, Way::Behind { lists, goal: Goal::List }
            if machine.is_settled() && machine.lists() == *lists)
    }
}
