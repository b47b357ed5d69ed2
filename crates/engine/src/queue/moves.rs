//! The last moves of pods through the queue, and what brought them: why a pod woke, and when.

use std::collections::VecDeque;

use super::Place;
use super::arrivals::{Cause, Line};
use crate::fact::Uid;
use crate::moment::Moment;

/// How many moves are kept.
pub const MOVES_KEPT: usize = 4096;

/// A pod came to a part of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The pod.
    pub uid: Uid,
    /// When.
    pub at: Moment,
    /// Where to.
    pub to: Line,
    /// What brought it.
    pub cause: Cause,
}

/// The last moves, the newest last.
#[derive(Debug, Clone, Default)]
pub struct Moves(VecDeque<Move>);

impl Moves {
    pub(super) fn note(&mut self, uid: &Uid, place: Place, cause: Cause, at: Moment) {
        let Some(to) = Line::of(place) else { return };
        if self.0.len() == MOVES_KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Move { uid: uid.clone(), at, to, cause });
    }

    /// The last moves, the newest last.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Move> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_moves_are_kept() {
        let mut moves = Moves::default();
        let uid = |n: usize| Uid::new(&n.to_string());
        for n in 0..MOVES_KEPT + 5 {
            moves.note(&uid(n), Place::Backoff, "NodeAdd", Moment(n as u64));
            // Where it is decided is no part of the queue.
            moves.note(&uid(n), Place::InFlight(0), "NodeAdd", Moment(n as u64));
        }
        assert_eq!(moves.iter().count(), MOVES_KEPT);
        let first = moves.iter().next().map(|own| (own.uid.clone(), own.to, own.cause));
        assert_eq!(first, Some((uid(5), Line::Backoff, "NodeAdd")));
    }
}
