//! The lives of reservations: what becomes of them once they hold something, and when they end.
//!
//! Who uses a reservation is in the ledger, and what is written of it is compared with that: there is
//! nothing here to get out of step. What is to be written is decided by [`life`], without I/O.

mod life;
mod meters;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::condition;
use api::reservation::SCHEDULED;
use api::{ObjectReference, Reservation, ResourceList};
use engine::fact::{ReservationFact, Uid, quantities};
use engine::ledger::Ledger;
use engine::moment::Moment;
use engine::needs::Amounts;

use crate::message::{LifeOrder, Scheduled, Written, Wrote};
pub use life::Step;
use life::{Seen, due, step};
pub(crate) use meters::ReservationMeters;

/// After what could not be written, it is looked again.
const AGAIN: Duration = Duration::from_secs(5);

/// How long what has ended is kept, where it is ever deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// After so long an ended reservation is deleted; none where nobody deletes any.
    pub kept: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { kept: Some(Duration::from_secs(86_400)) }
    }
}

/// All reservations, as the API server shows them.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    settings: Settings,
    objects: BTreeMap<Uid, Arc<Reservation>>,
    /// When each is to be looked at next.
    due: BTreeMap<Uid, Moment>,
    soonest: BTreeSet<(Moment, Uid)>,
    /// Those of which something is being written, and whether there was news of each meanwhile.
    under_way: BTreeMap<Uid, bool>,
    /// Whether what is shown is what there is.
    is_shown: bool,
}

impl Lives {
    pub(crate) fn with(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// A reservation is there, or is now this.
    pub(crate) fn put(&mut self, object: Arc<Reservation>, now: Moment) {
        let uid = Uid::new(&object.metadata.uid);
        self.objects.insert(uid.clone(), object);
        self.is_shown = false;
        self.plan(uid, Some(now));
    }

    /// A reservation is gone.
    pub(crate) fn remove(&mut self, uid: &Uid) {
        if self.objects.remove(uid).is_some() {
            self.is_shown = false;
            self.plan(uid.clone(), None);
            self.under_way.remove(uid);
        }
    }

    /// Something that is written of a reservation may not be so any longer.
    pub(crate) fn touch(&mut self, uid: Uid, now: Moment) {
        if self.objects.contains_key(&uid) {
            self.plan(uid, Some(now));
        }
    }

    /// The nodes are others: what is on one that is gone has ended.
    pub(crate) fn touch_on(&mut self, node: &str, now: Moment) {
        let on = self.objects.iter().filter(|(_, own)| own.status.node_name == node);
        let on: Vec<Uid> = on.map(|(uid, _)| uid.clone()).collect();
        on.into_iter().for_each(|uid| self.plan(uid, Some(now)));
    }

    /// What was to be written on a reservation is written, or is not.
    pub(crate) fn lived(&mut self, uid: &Uid, wrote: Wrote, now: Moment) {
        let has_news = self.under_way.remove(uid).unwrap_or(false);
        let again = match wrote {
            Wrote::Nothing => Some(now.after(AGAIN)),
            // What was written is told, and was not looked at.
            Wrote::All if has_news => Some(now),
            // It will be told.
            Wrote::All => return,
        };
        if self.objects.contains_key(uid) {
            self.plan(uid.clone(), again);
        }
    }

    fn plan(&mut self, uid: Uid, at: Option<Moment>) {
        if let Some(old) = self.due.remove(&uid) {
            self.soonest.remove(&(old, uid.clone()));
        }
        if let Some(at) = at {
            self.soonest.insert((at, uid.clone()));
            self.due.insert(uid, at);
        }
    }

    /// Shows what there is, where that is not shown yet.
    pub(crate) fn show(&mut self, meters: &ReservationMeters) {
        if !std::mem::replace(&mut self.is_shown, true) {
            meters.show(self.objects.values().map(|own| &**own));
        }
    }

    /// When one is to be looked at.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.soonest.first().map(|(at, _)| *at)
    }

    /// What is to be written next, where anything is by now.
    pub(crate) fn next(&mut self, ledger: &Ledger, now: Moment) -> Option<LifeOrder> {
        loop {
            let (at, uid) = self.soonest.first()?;
            if *at > now {
                return None;
            }
            let uid = uid.clone();
            self.plan(uid.clone(), None);
            if let Some(has_news) = self.under_way.get_mut(&uid) {
                *has_news = true;
                continue;
            }
            let Some(own) = self.objects.get(&uid) else { continue };
            let seen = seen(ledger, &uid, own);
            match step(own, &seen, now, self.settings.kept) {
                Step::Nothing => {
                    // What is due by now and comes to nothing is not due for anything else.
                    let next = due(own, self.settings.kept).filter(|next| *next > now);
                    self.plan(uid, next);
                }
                step => {
                    let name = own.metadata.name.as_str().into();
                    self.under_way.insert(uid.clone(), false);
                    return Some(LifeOrder { uid, name, step });
                }
            }
        }
    }
}

/// What is written on a reservation that has no node.
pub(crate) fn written(own: &Reservation) -> Written {
    let scheduled = condition::find(&own.status.conditions, SCHEDULED);
    Written {
        version: own.metadata.resource_version.as_str().into(),
        generation: own.metadata.generation,
        scheduled: scheduled.map(Scheduled::from),
        nominated: Box::default(),
        forged: Box::default(),
    }
}

/// What is to be seen of a reservation.
fn seen(ledger: &Ledger, uid: &Uid, own: &Reservation) -> Seen {
    let node = ledger.nodes.find(&own.status.node_name);
    let has_node = node.is_some_and(|node| ledger.nodes.present().contains(node));
    let malformed = ReservationFact::of(own).err().map(|error| error.to_string());
    let Some(held) = ledger.reservations.find(uid) else {
        return Seen { has_node, owners: None, malformed };
    };
    let (mut owners, mut used) = (Vec::new(), Amounts::default());
    for (uid, row) in ledger.users(held) {
        used.add(&ledger.asks.requests.get(row.ask.taken).charged, 1);
        owners.push(ObjectReference {
            namespace: row.namespace.clone(),
            name: row.name.clone(),
            uid: (*uid.0).into(),
            ..ObjectReference::default()
        });
    }
    let mut allocated: ResourceList = quantities(&used);
    allocated.retain(|name, _| own.status.allocatable.contains_key(name));
    Seen { has_node, owners: Some((owners, allocated)), malformed }
}

#[cfg(test)]
mod tests;
