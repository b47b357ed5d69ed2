use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::laws::preemption::{NOW, after, crowded, told, waiting};
use crate::laws::step;
use crate::turn::Waiting;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_search_in_slices_finds_what_one_in_one_go_finds(
        steps in prop_oneof![1 => vec(step(), 1..80), 4 => crowded()],
        units in 1..9_usize,
        forgets in any::<bool>(),
    ) {
        let (mut ledger, decider) = after(&steps);
        for pod in waiting(&ledger) {
            let before = told(&ledger);
            let Waiting { examination, last_resorts, .. } =
                Waiting::of(&mut ledger, &decider, &pod, 3, NOW).unwrap();
            let mut search = Search::begin(&decider, &ledger, &pod, 3, 0, NOW).unwrap();
            let mut slices = 0;
            loop {
                // A change of nothing that matters: all that was gathered is gathered again.
                let revision = if forgets { slices } else { 0 };
                let work = &mut Work::of(units);
                match search.advance(&decider, &mut ledger, revision, work).unwrap() {
                    Progress::Unfinished => slices += 1,
                    Progress::Finished => break,
                    Progress::Moot => prop_assert!(false, "nothing changed"),
                }
                prop_assert_eq!(&told(&ledger), &before);
            }
            prop_assert!(slices as usize >= examination.refused.len() / (units * 2));
            prop_assert!(search.confirm(&decider, &mut ledger));
            let found = search.end(&decider, &ledger).unwrap();
            let found = found.map(|(own, last_resorts)| (Arc::new(own), last_resorts));
            prop_assert_eq!(found, Some((examination, last_resorts)));
            prop_assert_eq!(told(&ledger), before);
        }
    }
}
