//! Pods that cannot be tried before another one is answered for.

use super::{Entry, Place, Queue, arrivals};
use crate::fact::Uid;

impl Queue {
    /// A popped pod cannot be tried before another one is answered for, and is not tried till then.
    /// What changes meanwhile it need not hear of: it is as if it had not been popped.
    pub fn set_aside(&mut self, uid: &Uid) {
        let flying = |entry: &Entry| matches!(entry.place, Place::InFlight(_));
        if !self.pods.get(uid).is_some_and(flying) {
            return;
        }
        if let Some(mut entry) = self.take(uid) {
            entry.attempts = entry.attempts.saturating_sub(1);
            entry.place = Place::Aside;
            self.enter(uid.clone(), entry);
        }
        self.forget_changes();
    }

    /// Whether no pod is set aside.
    pub(crate) fn is_nobody_aside(&self) -> bool {
        self.aside.is_empty()
    }

    /// The first of the pods that were set aside can be popped again.
    pub fn rejoin(&mut self) {
        if let Some(uid) = self.aside.first().map(|(_, _, uid)| uid.clone()) {
            self.move_to(&uid, Place::Active, arrivals::ASIDE);
        }
    }
}
