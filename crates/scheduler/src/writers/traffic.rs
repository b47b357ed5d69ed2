//! How much is being written, for whoever asks whether there is time for something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::slots::Slots;
use super::{BINDS_AGAIN_MAX, BINDS_IN_FLIGHT_MAX};
use crate::later::{Busy, Work};
use crate::notes::Notes;

/// With so many Events that wait to be written, nothing is told that brings more of them: those of bound
/// pods come first.
const NOTES_AHEAD_MAX: usize = 32;

/// Bindings and Events that are being written; clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Traffic {
    binds: Arc<Slots>,
    notes: Notes,
    /// How many bound pods are still to be told of.
    untold: Arc<AtomicUsize>,
}

impl Traffic {
    /// Nothing is being written yet.
    pub(crate) fn new(notes: Notes) -> Self {
        let binds = Slots::new(BINDS_IN_FLIGHT_MAX, BINDS_AGAIN_MAX);
        Self { binds, notes, untold: Arc::default() }
    }

    /// Places for Bindings.
    pub(super) fn binds(&self) -> &Arc<Slots> {
        &self.binds
    }

    /// So many bound pods are still to be told of.
    pub(super) fn hold(&self, untold: usize) {
        self.untold.store(untold, Ordering::Relaxed);
    }

    /// What comes before words on pods that have no node: Bindings, and when there are none, Events of
    /// those that have got theirs. They are told as fast as the server takes them, and are soon done.
    pub(crate) fn busy(&self) -> Busy {
        let work = self.binds.work();
        let is_telling = work == Work::None && self.untold.load(Ordering::Relaxed) > 0;
        Busy { work, notes: is_telling || self.notes.waiting() >= NOTES_AHEAD_MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn events_of_bound_pods_go_before_words_on_those_that_wait() {
        let traffic = Traffic::new(Notes::default());
        assert!(!traffic.busy().notes);
        traffic.clone().hold(1);
        assert!(traffic.busy().notes, "nothing else is being written");
        let place = traffic.binds().first("n").await;
        assert!(place.is_some() && traffic.busy().work != Work::None);
        assert!(!traffic.busy().notes, "they wait for Bindings, and others need not wait for them");
        drop(place);
        traffic.hold(0);
        assert!(!traffic.busy().notes);
    }
}
