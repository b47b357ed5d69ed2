//! A fence: whoever is behind it knows everything that happened before it was put up.
//!
//! A process that begins to lead must see what the one before it did. It puts up a fence at the
//! revision that it has read then, and its reflectors tell when they have come past: because their
//! watch shows a later version, or else because they have listed anew. A watch of which nothing
//! comes may be up to date or may be late, and only a list tells; where that is cheap it is asked
//! for at once, and otherwise after the watch was given a moment.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::SetOnce;

use super::machine::{Machine, PAGE_LIMIT};
use crate::clock::Clock;

/// How long a watch of many objects is given to show something newer by itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// The revision that reflectors have to come past, once there is one; clones share it. Those who
/// wait for it are woken in the order in which they came, so that one seed gives one run.
#[derive(Debug, Clone, Default)]
pub struct Fence(Arc<SetOnce<u64>>);

impl Fence {
    /// No fence yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts it up at a revision that the server has had; where none is known, only a list that
    /// begins after this moment is new enough. Once up, it stays.
    pub fn put_up(&self, revision: Option<u64>) {
        // Refused where it is up.
        let _ = self.0.set(revision.unwrap_or(u64::MAX));
    }
}

/// One reflector's way past a fence.
#[derive(Debug)]
pub(super) struct Gate {
    fence: Option<Fence>,
    /// The revision to come past, the lists that were begun before, and until when the watch may
    /// show something by itself.
    way: Option<(u64, u32, Duration)>,
}

impl Gate {
    pub(super) fn none() -> Self {
        Self { fence: None, way: None }
    }

    pub(super) fn at(fence: &Fence) -> Self {
        Self { fence: Some(fence.clone()), way: None }
    }

    /// Whether this is the moment at which the fence is passed: it is so once.
    pub(super) fn is_passed(&mut self, machine: &Machine) -> bool {
        let Some((revision, lists, _)) = self.way else { return false };
        let is_listed = machine.lists() != lists;
        let passed = machine.is_watching() && (is_listed || machine.has_passed(revision));
        if passed {
            *self = Self::none();
        }
        passed
    }

    /// Comes when the fence is put up, and when the watch had its time.
    pub(super) async fn turned(&mut self, clock: &Clock, machine: &Machine) {
        if let Some((_, _, due)) = self.way {
            // A list that is under way, or a wait for one, ends by itself.
            if machine.is_watching() {
                return clock.sleep_until(due).await;
            }
            return std::future::pending().await;
        }
        let Some(fence) = &self.fence else { return std::future::pending().await };
        let revision = *fence.0.wait().await;
        let few = machine.known() <= PAGE_LIMIT as usize;
        let patience = if few { Duration::ZERO } else { PATIENCE };
        self.way = Some((revision, machine.lists(), clock.monotonic() + patience));
    }

    /// Whether a list is to be asked for now.
    pub(super) fn wants_list(&self, clock: &Clock, machine: &Machine) -> bool {
        self.way.is_some_and(|(revision, _, due)| {
            machine.is_watching() && !machine.has_passed(revision) && clock.monotonic() >= due
        })
    }
}
