//! How long a pod that was refused is left alone.

use std::time::Duration;

use super::{History, Queue, Wake, arrivals};
use crate::fact::Uid;
use crate::moment::Moment;

impl Queue {
    /// An entry that is here again had got its nodes and lost them: it has been through this before, and is
    /// left alone for a while.
    pub(crate) fn failed_again(&mut self, uid: &Uid, history: History, now: Moment) {
        self.settle(now);
        let Some(mut entry) = self.take(uid) else { return };
        let History { attempts, refusals, errors } = history;
        (entry.attempts, entry.refusals, entry.errors) = (attempts, refusals, errors);
        self.fail(&mut entry, now);
        entry.place = self.place(&entry, Wake::AfterBackoff, now);
        self.arrived(uid, entry.place, arrivals::FAILED);
        self.enter(uid.clone(), entry);
        self.forget_changes();
    }
}

/// How long a pod is left alone after so many failures in a row.
pub(super) fn backoff(initial: Duration, most: Duration, failures: u32) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    initial.saturating_mul(factor).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_back_off_doubles_up_to_its_most() {
        let check = |failures, expected| {
            let (initial, most) = (Duration::from_secs(1), Duration::from_secs(10));
            assert_eq!(backoff(initial, most, failures), Duration::from_secs(expected));
        };
        check(0, 0);
        check(1, 1);
        check(2, 2);
        check(4, 8);
        check(5, 10);
        check(33, 10);
        check(u32::MAX, 10);
    }
}
