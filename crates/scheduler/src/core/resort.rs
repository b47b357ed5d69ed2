//! What came of looking for others who make room for a pod, for whoever explains it.

use engine::fact::{PodRef, Uid};
use engine::preemption::{LastResorts, NoRoom, Outcome};

use super::Core;
use crate::message::RoomOrder;

/// What came of looking for others who make room for a pod, when it was last tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resort {
    /// Room is made.
    Room {
        /// The node.
        node: Box<str>,
        /// Who goes.
        victims: Vec<PodRef>,
        /// Who waited for room there, and has to look elsewhere.
        passed_over: Vec<PodRef>,
    },
    /// It is not, in the words of the event.
    NoRoom(Box<str>),
}

impl Core {
    /// Remembers what came of it.
    pub(super) fn note_resort(
        &mut self,
        uid: &Uid,
        resorts: &LastResorts,
        room: Option<&RoomOrder>,
    ) {
        let Some(waiting) = self.waiting.get_mut(uid) else { return };
        let resort = match (&resorts.preemption, room) {
            // Room is being made, as was noted before.
            (Some(Outcome::NoRoom(NoRoom::Leaving)), _) if waiting.resort.is_some() => return,
            (_, Some(RoomOrder { node, victims, passed_over })) => {
                let (victims, passed_over) = (victims.clone(), passed_over.clone());
                Some(Resort::Room { node: node.clone(), victims, passed_over })
            }
            _ if resorts.text.is_empty() => None,
            _ => Some(Resort::NoRoom(resorts.text.as_str().into())),
        };
        waiting.resort = resort.map(Box::new);
    }

    /// What came of looking for others who make room for a pod.
    pub(crate) fn resort(&self, uid: &Uid) -> Option<&Resort> {
        self.waiting.get(uid)?.resort.as_deref()
    }
}
