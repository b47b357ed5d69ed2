//! Values in the order of their last use.

/// No place.
const NONE: u32 = u32::MAX;

/// The place of a value, for as long as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(u32);

struct Slot<T> {
    /// Nothing where the place is free.
    value: Option<T>,
    /// The value that was used next.
    newer: u32,
    /// The value that was used before.
    older: u32,
}

/// Values, known by place, linked from the one used last to the one used least recently.
pub struct Recency<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
}

impl<T> Default for Recency<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), newest: NONE, oldest: NONE }
    }
}

impl<T> Recency<T> {
    /// Keeps a value, which counts as used now.
    pub fn insert(&mut self, value: T) -> Place {
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { value: None, newer: NONE, older: NONE });
            u32::try_from(self.slots.len() - 1).expect("fewer than four billion values are kept")
        });
        self.slots[place as usize].value = Some(value);
        self.link(place);
        Place(place)
    }

    /// A value, which counts as used now.
    pub fn use_mut(&mut self, place: Place) -> &mut T {
        if place.0 != self.newest {
            self.unlink(place.0);
            self.link(place.0);
        }
        self.slots[place.0 as usize].value.as_mut().expect("a place is used while it is kept")
    }

    /// A value.
    pub fn get(&self, place: Place) -> &T {
        self.slots[place.0 as usize].value.as_ref().expect("a place is used while it is kept")
    }

    /// Takes out the value that was used least recently, unless it is also the one used last.
    pub fn take_oldest(&mut self) -> Option<T> {
        let oldest = self.oldest;
        if oldest == self.newest {
            return None;
        }
        self.unlink(oldest);
        self.free.push(oldest);
        self.slots[oldest as usize].value.take()
    }

    fn link(&mut self, place: u32) {
        let next = std::mem::replace(&mut self.newest, place);
        let slot = &mut self.slots[place as usize];
        (slot.newer, slot.older) = (NONE, next);
        match next {
            NONE => self.oldest = place,
            next => self.slots[next as usize].newer = place,
        }
    }

    fn unlink(&mut self, place: u32) {
        let Slot { newer, older, .. } = self.slots[place as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_least_recently_goes_first_and_the_last_one_stays() {
        let mut kept = Recency::default();
        let [a, b, _] = ["a", "b", "c"].map(|value| kept.insert(value));
        assert_eq!(*kept.use_mut(a), "a");
        assert_eq!(kept.take_oldest(), Some("b"));
        let d = kept.insert("d");
        assert_eq!(d, b, "a free place is used again");
        assert_eq!(*kept.use_mut(a), "a");
        assert_eq!(*kept.use_mut(a), "a");
        assert_eq!(kept.take_oldest(), Some("c"));
        assert_eq!(kept.take_oldest(), Some("d"));
        assert_eq!(kept.take_oldest(), None);
        assert_eq!(*kept.get(a), "a");
    }
}
