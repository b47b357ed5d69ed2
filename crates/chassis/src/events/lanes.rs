//! One thing at a time in each lane, any number of lanes side by side.

use std::collections::{BTreeMap, VecDeque};

/// Who is under way in which lane, and who waits behind.
#[derive(Debug)]
pub struct Lanes<L, W> {
    /// Those that wait, by the lane that somebody is under way in.
    waiting: BTreeMap<L, VecDeque<W>>,
    held: usize,
}

impl<L, W> Default for Lanes<L, W> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), held: 0 }
    }
}

impl<L: Ord, W> Lanes<L, W> {
    /// Somebody wants to go in a lane; returned if that can be now.
    pub fn enter(&mut self, lane: L, who: W) -> Option<W> {
        match self.waiting.get_mut(&lane) {
            Some(waiting) => {
                waiting.push_back(who);
                self.held += 1;
                None
            }
            None => {
                self.waiting.insert(lane, VecDeque::new());
                Some(who)
            }
        }
    }

    /// Whoever was under way in a lane has arrived; the next one in it may go.
    pub fn leave(&mut self, lane: &L) -> Option<W> {
        let next = self.waiting.get_mut(lane).and_then(VecDeque::pop_front);
        match &next {
            Some(_) => self.held -= 1,
            None => {
                self.waiting.remove(lane);
            }
        }
        next
    }

    /// How many wait.
    pub fn held(&self) -> usize {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Nobody overtakes in a lane, two are never under way in it, and all arrive.
        #[test]
        fn order_holds_within_a_lane(steps in prop::collection::vec((0..4u8, any::<bool>()), 0..80)) {
            let mut lanes = Lanes::default();
            let (mut under_way, mut arrived) = (BTreeMap::new(), BTreeMap::<u8, Vec<usize>>::new());
            let mut entered = BTreeMap::<u8, Vec<usize>>::new();
            let mut leave = |lanes: &mut Lanes<u8, usize>, under_way: &mut BTreeMap<u8, usize>, lane| {
                if let Some(who) = under_way.remove(&lane) {
                    arrived.entry(lane).or_default().push(who);
                    under_way.extend(lanes.leave(&lane).map(|next| (lane, next)));
                }
            };
            for (turn, (lane, comes)) in steps.into_iter().enumerate() {
                if comes {
                    entered.entry(lane).or_default().push(turn);
                    if let Some(who) = lanes.enter(lane, turn) {
                        prop_assert_eq!(under_way.insert(lane, who), None);
                    }
                } else {
                    leave(&mut lanes, &mut under_way, lane);
                }
                let waiting = entered.values().map(Vec::len).sum::<usize>();
                prop_assert!(lanes.held() <= waiting);
            }
            while let Some((&lane, _)) = under_way.first_key_value() {
                leave(&mut lanes, &mut under_way, lane);
            }
            prop_assert_eq!(lanes.held(), 0);
            prop_assert!(lanes.waiting.is_empty());
            prop_assert_eq!(arrived, entered);
        }
    }
}
