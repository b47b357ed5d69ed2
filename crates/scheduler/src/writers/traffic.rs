//! How much is being written, for whoever asks whether there is time for something else.

use std::sync::Arc;

use super::slots::Slots;
use super::{BINDS_AGAIN_MAX, BINDS_IN_FLIGHT_MAX};
use crate::later::Busy;
use crate::notes::Notes;

/// With so many Events that wait to be written, nothing is told that brings more of them: those of bound
/// pods come first.
const NOTES_AHEAD_MAX: usize = 32;

/// Bindings and Events that are being written; clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Traffic {
    binds: Arc<Slots>,
    notes: Notes,
}

impl Traffic {
    /// Nothing is being written yet.
    pub(crate) fn new(notes: Notes) -> Self {
        Self { binds: Slots::new(BINDS_IN_FLIGHT_MAX, BINDS_AGAIN_MAX), notes }
    }

    /// Places for Bindings.
    pub(super) fn binds(&self) -> &Arc<Slots> {
        &self.binds
    }

    /// What comes before words on pods that have no node.
    pub(crate) fn busy(&self) -> Busy {
        Busy { work: self.binds.work(), notes: self.notes.waiting() >= NOTES_AHEAD_MAX }
    }
}
