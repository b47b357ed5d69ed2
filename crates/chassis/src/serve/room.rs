//! The room behind a port: how many connections are open, and who has to go for the next one.
//!
//! Nobody has to say who they are to connect, so a place is nobody's for good. When all are taken,
//! whoever comes gets that of somebody on whom nobody works: of a stranger before one who is
//! known, of those one from the address that has the most places, and of these the one whose last
//! request is longest ago. Strangers who connect in a flood from one
//! address keep out nobody from elsewhere.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// So many places; clones share them.
#[derive(Debug, Clone)]
pub(super) struct Room {
    places: Arc<Mutex<Places>>,
    /// Told when a place may have become free.
    freed: Arc<Notify>,
    places_max: usize,
}

#[derive(Debug, Default)]
struct Places {
    taken: BTreeMap<u64, Place>,
    turn: u64,
}

#[derive(Debug)]
struct Place {
    from: IpAddr,
    /// The turn in which its request ended, or it was taken.
    since: u64,
    is_known: bool,
    is_busy: bool,
    leave: CancellationToken,
}

impl Places {
    fn next_turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    /// Has one go who can, and says whether there was one.
    fn make_room(&mut self) -> bool {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for place in self.taken.values() {
            *counts.entry(place.from).or_default() += 1;
        }
        let idle = self.taken.iter().filter(|(_, place)| !place.is_busy);
        let leaves_before = |place: &Place| {
            (place.is_known, Reverse(counts.get(&place.from).copied()), place.since)
        };
        let Some((&id, _)) = idle.min_by_key(|(_, place)| leaves_before(place)) else {
            return false;
        };
        if let Some(place) = self.taken.remove(&id) {
            place.leave.cancel();
        }
        true
    }
}

impl Room {
    pub(super) fn new(places_max: usize) -> Self {
        Self { places: Arc::default(), freed: Arc::default(), places_max }
    }

    /// A place for one more; it waits only while everybody is busy.
    pub(super) async fn enter(&self, from: IpAddr) -> Seat {
        loop {
            let freed = self.freed.notified();
            if let Some(seat) = self.try_enter(from) {
                return seat;
            }
            freed.await;
        }
    }

    fn try_enter(&self, from: IpAddr) -> Option<Seat> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.taken.len() >= self.places_max && !places.make_room() {
            return None;
        }
        let id = places.next_turn();
        let leave = CancellationToken::new();
        let place =
            Place { from, since: id, is_known: false, is_busy: false, leave: leave.clone() };
        places.taken.insert(id, place);
        Some(Seat { room: self.clone(), id, leave })
    }
}

/// A connection's place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    room: Room,
    id: u64,
    leave: CancellationToken,
}

impl Seat {
    /// Comes when somebody else has got the place.
    pub(super) async fn lost(&self) {
        self.leave.cancelled().await;
    }

    /// It is known who has the place.
    pub(super) fn know(&self) {
        self.change(|place, _| place.is_known = true);
    }

    /// A request is being answered until what is returned is dropped.
    pub(super) fn work(self: &Arc<Self>) -> Work {
        self.change(|place, _| place.is_busy = true);
        Work(self.clone())
    }

    pub(super) fn is_busy(&self) -> bool {
        let places = self.room.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.taken.get(&self.id).is_some_and(|place| place.is_busy)
    }

    fn change(&self, change: impl FnOnce(&mut Place, u64)) {
        let mut places = self.room.places.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = places.next_turn();
        if let Some(place) = places.taken.get_mut(&self.id) {
            change(place, turn);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut places = self.room.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.taken.remove(&self.id);
        drop(places);
        self.room.freed.notify_one();
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Work(Arc<Seat>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.change(|place, turn| (place.is_busy, place.since) = (false, turn));
        self.0.room.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    /// What comes soon, if at all.
    async fn soon<F: Future>(work: F) -> F::Output {
        tokio::time::timeout(Duration::from_secs(5), work).await.expect("nobody has to wait")
    }

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    async fn entered(room: &Room) -> Seat {
        soon(room.enter(HERE)).await
    }

    /// Who of a full room has lost their place.
    fn lost(seats: &[Arc<Seat>]) -> Vec<usize> {
        let gone = |(n, seat): (usize, &Arc<Seat>)| seat.leave.is_cancelled().then_some(n);
        seats.iter().enumerate().filter_map(gone).collect()
    }

    #[tokio::test]
    async fn who_comes_gets_the_place_of_who_has_been_idle_longest() {
        let room = Room::new(3);
        let mut seats = Vec::new();
        for _ in 0..3 {
            seats.push(Arc::new(entered(&room).await));
        }
        // The first has asked since, and the second is known.
        drop(seats[0].work());
        seats[1].know();
        let mut busy = Vec::new();
        for want in [vec![2], vec![0, 2], vec![0, 1, 2]] {
            let seat = Arc::new(entered(&room).await);
            busy.push(seat.work());
            seats.push(seat);
            assert_eq!(lost(&seats), want);
        }
    }

    #[tokio::test]
    async fn a_flood_from_one_address_keeps_out_nobody_from_another() {
        let room = Room::new(8);
        let flood = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));
        let probe = Arc::new(entered(&room).await);
        let mut seats = vec![probe];
        for _ in 0..100 {
            seats.push(Arc::new(soon(room.enter(flood)).await));
        }
        assert!(!seats[0].leave.is_cancelled(), "though it came first");
        let from_elsewhere = entered(&room).await;
        assert!(!from_elsewhere.leave.is_cancelled() && !seats[0].leave.is_cancelled());
        assert_eq!(lost(&seats).len(), 94);
    }

    #[tokio::test]
    async fn who_is_busy_stays_and_who_comes_waits() {
        let room = Room::new(2);
        let (first, second) = (Arc::new(entered(&room).await), Arc::new(entered(&room).await));
        let (busy, other) = (first.work(), second.work());
        assert!(first.is_busy());
        let mut comes = Box::pin(room.enter(HERE));
        assert!(futures::poll!(comes.as_mut()).is_pending());
        drop(busy);
        let third = soon(comes).await;
        assert_eq!(lost(&[first, second.clone()]), [0]);
        drop(third);
        let _fourth = entered(&room).await;
        assert!(second.is_busy() && !second.leave.is_cancelled());
        drop(other);
        assert!(!second.is_busy());
    }
}
