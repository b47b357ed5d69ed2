//! Places for those who write, so that the trouble of one namespace is not everybody's.
//!
//! A write that is tried for the first time has one of many places. One that was tried before, and any
//! in a namespace of which several have no clear answer, has one of a few, and of these a namespace has
//! no more than a part: what hangs there (a webhook that never answers) holds up nobody else. Nobody
//! keeps a place while he waits to try again.
//!
//! What is written, and what an answer means, is nothing to this.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::later::Work;

/// With so many writes that have no clear answer, a namespace is in trouble.
const TROUBLE: u32 = 8;
/// Of the places for further tries, one namespace has no more than one in so many.
const SHARES: usize = 4;
/// How many namespaces are remembered of which nobody waits for an answer.
const REMEMBERED_MAX: usize = 1024;

/// Places for one kind of write.
#[derive(Debug)]
pub(super) struct Slots {
    first: Arc<Semaphore>,
    first_max: usize,
    again: Arc<Semaphore>,
    /// How many places one namespace has among those for further tries.
    share_max: usize,
    troubles: Mutex<BTreeMap<Box<str>, Trouble>>,
    /// How many namespaces have any trouble, so that nobody asks where none has.
    troubled: AtomicUsize,
}

/// What a namespace leaves unanswered.
#[derive(Debug)]
struct Trouble {
    /// Writes of which nobody knows yet what became of them.
    open: u32,
    /// Writes that were given up since one was answered.
    lost: u32,
    share: Arc<Semaphore>,
}

/// A place; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    is_first: bool,
    _place: Option<OwnedSemaphorePermit>,
    /// Its part of what the namespace has that it was taken for.
    share: Option<OwnedSemaphorePermit>,
}

impl Slots {
    /// So many places for first tries, and so many for further ones.
    pub(super) fn new(first_max: usize, again_max: usize) -> Arc<Self> {
        Arc::new(Self {
            first: Arc::new(Semaphore::new(first_max)),
            first_max,
            again: Arc::new(Semaphore::new(again_max)),
            share_max: (again_max / SHARES).max(1),
            troubles: Mutex::default(),
            troubled: AtomicUsize::new(0),
        })
    }

    /// How many of the places for first tries are taken.
    pub(super) fn work(&self) -> Work {
        match self.first_max - self.first.available_permits() {
            0 => Work::None,
            taken if 2 * taken <= self.first_max => Work::Some,
            _ => Work::Crowded,
        }
    }

    fn troubles(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Trouble>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether several writes in a namespace have no clear answer.
    fn is_in_trouble(&self, namespace: &str) -> bool {
        self.troubled.load(Ordering::Relaxed) > 0
            && self.troubles().get(namespace).is_some_and(|own| own.open + own.lost >= TROUBLE)
    }

    /// A place for a first try; none where the namespace is in trouble.
    pub(super) async fn first(&self, namespace: &str) -> Option<Turn> {
        if self.is_in_trouble(namespace) {
            return None;
        }
        // They are closed only when they are dropped.
        let place = self.first.clone().acquire_owned().await.ok();
        // It may have come into trouble meanwhile.
        if self.is_in_trouble(namespace) {
            return None;
        }
        Some(Turn { is_first: true, _place: place, share: None })
    }

    /// A place for a further try, or one in a namespace that is in trouble.
    async fn again(&self, namespace: &str) -> Turn {
        let share = self.troubles().get(namespace).map(|own| own.share.clone());
        let share = match share {
            Some(share) => share.acquire_owned().await.ok(),
            None => None,
        };
        let place = self.again.clone().acquire_owned().await.ok();
        Turn { is_first: false, _place: place, share }
    }

    /// Whether a place may be kept for a write in a namespace: one of the many where that is not in
    /// trouble, and one of the few where it is of what that namespace has.
    fn fits(&self, turn: &Turn, namespace: &str) -> bool {
        if turn.is_first {
            return !self.is_in_trouble(namespace);
        }
        match (&turn.share, self.troubles().get(namespace)) {
            (Some(share), Some(own)) => Arc::ptr_eq(share.semaphore(), &own.share),
            (None, None) => true,
            _ => false,
        }
    }

    /// The first answer to a write does not tell what became of it.
    fn unclear(&self, namespace: &str) {
        let mut troubles = self.troubles();
        if let Some(own) = troubles.get_mut(namespace) {
            own.open = own.open.saturating_add(1);
            return;
        }
        if troubles.len() >= REMEMBERED_MAX {
            troubles.retain(|_, own| own.open > 0);
        }
        let share = Arc::new(Semaphore::new(self.share_max));
        troubles.insert(namespace.into(), Trouble { open: 1, lost: 0, share });
        self.troubled.store(troubles.len(), Ordering::Relaxed);
    }

    /// A write is answered clearly, at the first time.
    fn clear(&self, namespace: &str) {
        if self.troubled.load(Ordering::Relaxed) > 0 {
            self.note(namespace, |own| own.lost = 0);
        }
    }

    /// A write is answered clearly after some answers that were not clear.
    fn close(&self, namespace: &str) {
        self.note(namespace, |own| (own.open, own.lost) = (own.open.saturating_sub(1), 0));
    }

    /// A write is given up after some answers that were not clear.
    fn give_up(&self, namespace: &str) {
        self.note(namespace, |own| {
            (own.open, own.lost) = (own.open.saturating_sub(1), own.lost.saturating_add(1));
        });
    }

    fn note(&self, namespace: &str, note: impl FnOnce(&mut Trouble)) {
        let mut troubles = self.troubles();
        let Some(own) = troubles.get_mut(namespace) else { return };
        note(own);
        if own.open + own.lost == 0 {
            troubles.remove(namespace);
            self.troubled.store(troubles.len(), Ordering::Relaxed);
        }
    }
}

/// Somebody who writes one thing after the other, and keeps his place while all goes well.
#[derive(Debug)]
pub(super) struct Place {
    slots: Arc<Slots>,
    turn: Option<Turn>,
    /// Where a write has no clear answer.
    open: Option<Box<str>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Place {
    /// Somebody who may have a place already.
    pub(super) fn new(slots: Arc<Slots>, turn: Option<Turn>) -> Self {
        Self { slots, turn, open: None }
    }

    /// Whether there is a place already for a write in a namespace; one that is not for it is left.
    fn keeps(&mut self, namespace: &str) -> bool {
        let is_kept = self.turn.as_ref().is_some_and(|own| self.slots.fits(own, namespace));
        if !is_kept {
            self.turn = None;
        }
        is_kept
    }

    /// Takes a place for a first try in a namespace; false where the write was tried before, or the
    /// namespace is in trouble: then there is one [`again`](Self::again).
    pub(super) async fn first(&mut self, namespace: &str) -> bool {
        if self.keeps(namespace) {
            return true;
        }
        if self.open.is_none() {
            self.turn = self.slots.first(namespace).await;
        }
        self.turn.is_some()
    }

    /// Takes a place for a further try in a namespace, or for one that has none among the first.
    pub(super) async fn again(&mut self, namespace: &str) {
        if !self.keeps(namespace) {
            self.turn = Some(self.slots.again(namespace).await);
        }
    }

    /// Takes whatever place there is for a write in a namespace.
    pub(super) async fn take(&mut self, namespace: &str) {
        if !self.first(namespace).await {
            self.again(namespace).await;
        }
    }

    /// Leaves the place to others.
    pub(super) fn leave(&mut self) {
        self.turn = None;
    }

    /// The write under way has no clear answer.
    pub(super) fn unclear(&mut self, namespace: &str) {
        self.leave();
        if self.open.is_none() {
            self.slots.unclear(namespace);
            self.open = Some(namespace.into());
        }
    }

    /// The write under way is answered.
    pub(super) fn clear(&mut self, namespace: &str) {
        match self.open.take() {
            Some(open) => {
                // It is one of the few, and what is written next is not tried again.
                self.leave();
                self.slots.close(&open);
            }
            None => self.slots.clear(namespace),
        }
    }

    /// A write that has no clear answer is not tried any more.
    pub(super) fn give_up(&mut self) {
        if let Some(namespace) = self.open.take() {
            self.slots.give_up(&namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// What comes at once.
    fn now<T>(coming: impl Future<Output = T>) -> Option<T> {
        match pin!(coming).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(come) => Some(come),
            Poll::Pending => None,
        }
    }

    #[test]
    fn more_than_half_of_the_places_are_a_crowd() {
        let slots = Slots::new(4, 1);
        let mut taken = Vec::new();
        for expected in [Work::None, Work::Some, Work::Some, Work::Crowded, Work::Crowded] {
            assert_eq!(slots.work(), expected, "{}", taken.len());
            taken.extend(now(slots.first("a")));
        }
    }

    #[test]
    fn what_is_tried_again_takes_no_place_of_a_first_try() {
        let slots = Slots::new(2, 2);
        let again: Vec<_> = (0..2).map(|_| now(slots.again("a")).unwrap()).collect();
        assert!(now(slots.again("b")).is_none() && slots.work() == Work::None);
        let first: Vec<_> = (0..2).map(|_| now(slots.first("a")).unwrap().unwrap()).collect();
        assert!(now(slots.first("b")).is_none() && slots.work() != Work::None);
        drop((again, first));
        assert!(now(slots.again("b")).is_some() && now(slots.first("b")).is_some());
    }

    #[test]
    fn a_namespace_in_trouble_keeps_to_its_share() {
        let check = |again_max: usize, share: usize| {
            let slots = Slots::new(2, again_max);
            for _ in 0..TROUBLE {
                assert!(!slots.is_in_trouble("a"));
                slots.unclear("a");
            }
            assert!(now(slots.first("a")).unwrap().is_none());
            assert!(now(slots.first("b")).unwrap().is_some());
            let turns: Vec<_> = (0..share).map(|_| now(slots.again("a")).unwrap()).collect();
            assert!(now(slots.again("a")).is_none());
            assert_eq!(now(slots.again("b")).is_some(), again_max > share, "{again_max}");
            drop(turns);
            assert!(now(slots.again("a")).is_some());
        };
        check(16, 4);
        check(4, 1);
        check(2, 1);
        check(1, 1);
    }

    #[test]
    fn what_is_given_up_counts_until_something_is_answered() {
        let slots = Slots::new(2, 16);
        for _ in 0..TROUBLE {
            slots.unclear("a");
            slots.give_up("a");
        }
        assert!(slots.is_in_trouble("a"));
        slots.clear("a");
        assert!(!slots.is_in_trouble("a") && slots.troubles().is_empty());
        slots.unclear("a");
        slots.clear("b");
        slots.clear("a");
        assert_eq!(slots.troubles().len(), 1, "that one is still open");
        slots.close("a");
        assert!(slots.troubles().is_empty());
    }

    #[test]
    fn one_who_writes_on_keeps_his_place_where_all_goes_well() {
        let slots = Slots::new(1, 16);
        let mut place = Place::new(slots.clone(), now(slots.first("a")).unwrap());
        now(place.take("a")).unwrap();
        now(place.take("b")).unwrap();
        assert!(slots.work() != Work::None);
        place.unclear("b");
        assert!(slots.work() == Work::None, "he waits without it");
        now(place.take("b")).unwrap();
        assert!(slots.work() == Work::None, "and tries again beside the others");
        place.clear("b");
        assert!(slots.troubles().is_empty());
        now(place.take("b")).unwrap();
        assert!(slots.work() != Work::None, "what he writes next is tried for the first time");
        // One who leaves in the middle counts as one who gave up.
        place.unclear("b");
        drop(place);
        assert_eq!(slots.troubles().get("b").map(|own| (own.open, own.lost)), Some((0, 1)));
        // Where he comes to a namespace in trouble, he leaves his place to others.
        let mut place = Place::new(slots.clone(), now(slots.first("a")).unwrap());
        (0..TROUBLE).for_each(|_| slots.unclear("c"));
        now(place.take("c")).unwrap();
        assert!(slots.work() == Work::None);
    }

    #[test]
    fn one_who_writes_on_elsewhere_takes_his_place_there() {
        let slots = Slots::new(1, 4);
        for namespace in ["a", "b"] {
            (0..TROUBLE).for_each(|_| slots.unclear(namespace));
        }
        let _other = now(slots.again("b")).unwrap();
        let mut place = Place::new(slots.clone(), None);
        now(place.take("a")).unwrap();
        assert!(now(slots.again("a")).is_none());
        assert!(now(place.take("b")).is_none(), "that is another's");
        assert!(now(slots.again("a")).is_some(), "and the one of before is free");
        // Where all is well, he is one of the many.
        now(place.take("a")).unwrap();
        now(place.take("c")).unwrap();
        assert!(slots.work() != Work::None && now(slots.again("a")).is_some());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let slots = Slots::new(1, 1);
        for number in 0..3 * REMEMBERED_MAX {
            let namespace = number.to_string();
            slots.unclear(&namespace);
            slots.give_up(&namespace);
        }
        assert!(slots.troubles().len() <= REMEMBERED_MAX);
    }
}
