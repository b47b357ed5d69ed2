//! Reservations: who waits hears of those that are for it.

use super::{Engine, Question};
use crate::fact::{Size, Uid};
use crate::moment::Moment;
use crate::queue::Change;

impl Engine {
    /// A reservation is to hold this from now on, before it says so; none where it holds what it says.
    pub fn resize(&mut self, uid: &Uid, size: Option<Size>, now: Moment) {
        let is_given_up = size.is_none() && self.ledger.is_resizing(uid);
        if size.is_none() && !is_given_up {
            return;
        }
        self.refused.clear();
        // Whoever was refused for what it was to hold may have it.
        let change = is_given_up.then(|| Change::unplaced(&self.ledger, uid)).flatten();
        self.ledger.resize(uid, size);
        if let Some(change) = change {
            self.queue.notice(&self.ledger, change, now);
        }
    }

    /// Finds out anew which reservations are for pods that wait, since others are there than before, and
    /// wakes those for which others are.
    pub(super) fn invite_all(&mut self, now: Moment) {
        let epoch = self.ledger.reservations.epoch();
        let mut invited: Vec<Uid> = Vec::new();
        for uid in self.unbound.all() {
            let Some(own) = self.unbound.get_mut(&uid).filter(|own| own.invited != epoch) else {
                continue;
            };
            own.invited = epoch;
            if self.ledger.invite(&uid, &own.labels, &own.owners) {
                invited.push(uid);
            }
        }
        let mut pending = Vec::new();
        for uid in &invited {
            let row = self.ledger.pod(uid).filter(|row| !row.is_placed());
            let Some((own, row)) = self.unbound.get(uid).zip(row) else { continue };
            let question = Question::of(own.profile, row, &self.ledger);
            pending.push(question.pending(uid, row, own.gated, own.consulted));
            self.searches.follow(uid, question);
        }
        self.queue.regroup(pending, now);
        self.follow_asks(&invited, now);
        for uid in invited {
            let entry = self.entry_of(&uid);
            self.queue.notice(&self.ledger, Change::Invited(entry), now);
        }
    }
}

#[cfg(test)]
mod tests;
