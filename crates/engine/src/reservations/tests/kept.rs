//! What is kept of reservations equals what is found out afresh, whatever happens.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::fact::{Fact, PodFact, Visitor};
use crate::laws::reservations::RESERVATIONS;
use crate::laws::{Step, decider, play, step, uid};
use crate::ledger::Ledger;
use crate::plugin::reserving;
use crate::reservations::Ranks;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn kept_ranks_and_known_guests_equal_fresh_ones(steps in vec(step(), 1..60)) {
        let mut ledger = Ledger::default();
        let mut kept = decider(&mut ledger);
        let mut pods = BTreeMap::new();
        for (number, step) in (0..).zip(&steps) {
            if let Step::Fact(Fact::Pod(pod)) = step {
                pods.insert(pod.uid.clone(), pod.clone());
            }
            play(&mut ledger, &mut kept, step, number);
            for uid in (0..RESERVATIONS.start).map(uid) {
                let waits = ledger.pod(&uid).is_some_and(|row| !row.is_placed());
                let Some(PodFact { namespace, name, labels, owners, .. }) =
                    pods.get(&uid).filter(|_| waits).map(|pod| &**pod)
                else {
                    continue;
                };
                ledger.invite(&uid, labels, owners);
                let ask = ledger.pod(&uid).unwrap().ask;
                let known = ask.guests.map(|id| ledger.asks.guests.get(id).clone());
                let visitor = Visitor { uid: &uid, namespace, name, labels, owners };
                prop_assert_eq!(known, ledger.reservations.guests(visitor));
                let filter = reserving(&kept.profile.filters).unwrap().clone();
                let mut fresh = Ranks::default();
                let fresh = fresh.of(&ledger, ask, &filter).clone();
                prop_assert_eq!(kept.ranks.of(&ledger, ask, &filter), &fresh);
            }
        }
    }
}
