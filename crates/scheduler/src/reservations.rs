//! The lives of reservations: what becomes of them once they hold something, and when they end.
//!
//! Who uses a reservation is in the ledger, and what is written of it is compared with that: there is
//! nothing here to get out of step. What is to be written is decided by [`life`], without I/O.

mod life;
mod meters;
mod size;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::condition;
use api::reservation::SCHEDULED;
use api::{ObjectReference, Reservation, ResourceList};
use engine::fact::{Uid, quantities};
use engine::ledger::Ledger;
use engine::moment::Moment;
use engine::needs::Amounts;

use crate::message::{LifeOrder, Scheduled, Written, Wrote};
pub use life::Step;
use life::{Seen, due, step};
pub(crate) use life::{replaced, time};
pub(crate) use meters::ReservationMeters;
use size::{Refused, Resize};
pub(crate) use size::{amounts, told};

/// After what could not be written, it is looked again.
const AGAIN: Duration = Duration::from_secs(5);
/// The same where there was news of it meanwhile.
const SOON: Duration = Duration::from_millis(200);
/// How often it is looked whether there is room for one that is to hold more.
const ROOM_LOOK: Duration = Duration::from_secs(10);

/// How long what has ended is kept, where it is ever deleted, and what is done with what it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// After so long an ended reservation is deleted; none where nobody deletes any.
    pub kept: Option<Duration>,
    /// Whether pods that used one that is gone say so no longer.
    pub frees_pods: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { kept: Some(Duration::from_secs(86_400)), frees_pods: false }
    }
}

/// All reservations, as the API server shows them.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    settings: Settings,
    /// Whether nothing is written of them: somebody else looks after them.
    is_idle: bool,
    objects: BTreeMap<Uid, Arc<Reservation>>,
    /// When each is to be looked at next.
    due: BTreeMap<Uid, Moment>,
    soonest: BTreeSet<(Moment, Uid)>,
    /// Those of which something is being written, and whether there was news of each meanwhile.
    under_way: BTreeMap<Uid, bool>,
    /// What those asked for that were given their nodes by others, when they were first seen there.
    asked: BTreeMap<Uid, String>,
    /// Those that hold something, as they were when they were first seen to.
    given: BTreeMap<Uid, Arc<Reservation>>,
    /// What changed of them since and counts for nothing there.
    in_vain: BTreeMap<Uid, Refused>,
    /// Those of which it is as it was again.
    taken_back: BTreeSet<Uid>,
    /// Those that name a profile of ours which gives none of them a node, and that profile.
    passed_over: BTreeMap<Uid, Arc<str>>,
    /// Those that were to hold something else, and are not any longer.
    given_up: Vec<Uid>,
    /// Pods that say that they use one which is gone.
    leftovers: Vec<LifeOrder>,
    /// Whether what is shown is what there is.
    is_shown: bool,
}

impl Lives {
    pub(crate) fn with(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Reservations that somebody else looks after.
    pub(crate) fn of_others() -> Self {
        Self { is_idle: true, ..Self::default() }
    }

    /// A reservation is there, or is now this.
    pub(crate) fn put(&mut self, object: Arc<Reservation>, now: Moment) {
        let uid = Uid::new(&object.metadata.uid);
        if object.is_held() {
            let first = self.given.entry(uid.clone()).or_insert_with(|| object.clone());
            match size::immutable_change(first, &object) {
                Some(change) => {
                    self.in_vain.insert(uid.clone(), change);
                }
                None if self.in_vain.remove(&uid).is_some() => {
                    self.taken_back.insert(uid.clone());
                }
                None => {}
            }
        }
        self.objects.insert(uid.clone(), object);
        self.is_shown = false;
        self.plan(uid, Some(now));
    }

    /// A reservation names this profile of ours, which gives none of them a node; none where it gets one, or
    /// that is the business of others.
    pub(crate) fn passed_over(&mut self, uid: &Uid, profile: Option<&Arc<str>>) {
        match profile {
            Some(profile) => self.passed_over.insert(uid.clone(), profile.clone()),
            None => self.passed_over.remove(uid),
        };
    }

    /// What of a reservation cannot be, in words.
    fn malformed(&self, uid: &Uid, asked: &size::Asked) -> Option<String> {
        let unserved = |profile: &Arc<str>| {
            let fix = "name a profile that has plugin Reservation under filter: this one gives reservations \
                       no nodes";
            api::Malformed::new("spec.template.spec.schedulerName", profile, fix)
        };
        let unserved = || self.passed_over.get(uid).map(|profile| unserved(profile).to_string());
        asked.as_ref().err().map(ToString::to_string).or_else(unserved)
    }

    /// A reservation as the API server shows it.
    pub(crate) fn object(&self, uid: &Uid) -> Option<&Arc<Reservation>> {
        self.objects.get(uid)
    }

    /// A reservation is gone, of which the ledger knows who used it.
    pub(crate) fn remove(&mut self, uid: &Uid, ledger: &Ledger) {
        let Some(own) = self.objects.remove(uid) else { return };
        self.is_shown = false;
        self.plan(uid.clone(), None);
        self.under_way.remove(uid);
        self.asked.remove(uid);
        self.given.remove(uid);
        self.in_vain.remove(uid);
        self.taken_back.remove(uid);
        self.passed_over.remove(uid);
        if self.settings.frees_pods {
            let (mut pods, elsewhere) = ledger.adopted(uid);
            pods.extend(elsewhere);
            if !pods.is_empty() {
                let name = own.metadata.name.as_str().into();
                self.leftovers.push(LifeOrder { uid: uid.clone(), name, step: Step::Free(pods) });
            }
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
            // What it is now is told already.
            Wrote::Nothing | Wrote::Refused if has_news => Some(now.after(SOON)),
            Wrote::Nothing | Wrote::Refused => Some(now.after(AGAIN)),
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
        if let Some(at) = at.filter(|_| !self.is_idle) {
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

    /// Those that were to hold something else and are not any longer, since this was last asked.
    pub(crate) fn take_given_up(&mut self) -> Vec<Uid> {
        std::mem::take(&mut self.given_up)
    }

    /// When one is to be looked at.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        if !self.leftovers.is_empty() {
            return Some(Moment(0));
        }
        self.soonest.first().map(|(at, _)| *at)
    }

    /// Whether the template of a reservation asks for something else than when its node was given, and what
    /// becomes of that.
    fn resize(
        &mut self,
        ledger: &Ledger,
        uid: &Uid,
        own: &Reservation,
        asked: &size::Asked,
    ) -> Resize {
        let Ok(Some(asked)) = asked else { return Resize::Nothing };
        let text = size::told(asked);
        let scheduled = condition::find(&own.status.conditions, SCHEDULED);
        let is_told = |message: &str| message.starts_with(size::TOLD);
        let before = match scheduled.filter(|scheduled| is_told(&scheduled.message)) {
            Some(scheduled) => scheduled.message.clone(),
            None => self.asked.entry(uid.clone()).or_insert_with(|| text.clone()).clone(),
        };
        if before != text {
            return size::resize(ledger, uid, asked);
        }
        match self.in_vain.get(uid) {
            Some(change) => Resize::Refused(change.clone()),
            None if self.taken_back.contains(uid) => Resize::TakenBack,
            None => Resize::Nothing,
        }
    }

    /// What is to be written next, where anything is by now.
    pub(crate) fn next(&mut self, ledger: &Ledger, now: Moment) -> Option<LifeOrder> {
        if let Some(order) = self.leftovers.pop() {
            return Some(order);
        }
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
            let Some(own) = self.objects.get(&uid).cloned() else { continue };
            let asked = size::asked(&own);
            let resize = match own.is_held() {
                true => self.resize(ledger, &uid, &own, &asked),
                false => Resize::Nothing,
            };
            if !matches!(resize, Resize::Granted(_)) && ledger.is_resizing(&uid) {
                self.given_up.push(uid.clone());
            }
            let malformed = self.malformed(&uid, &asked);
            let seen = Seen { malformed, resize, ..seen(ledger, &uid, &own) };
            match step(&own, &seen, now, self.settings.kept) {
                Step::Nothing => {
                    // What is due by now and comes to nothing is not due for anything else.
                    let next = due(&own, self.settings.kept).filter(|next| *next > now);
                    let waits =
                        matches!(&seen.resize, Resize::Refused(Refused::Insufficient { .. }));
                    let look = waits.then(|| now.after(ROOM_LOOK));
                    self.plan(uid, next.into_iter().chain(look).min());
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
    let Some(held) = ledger.reservations.find(uid) else {
        return Seen { has_node, ..Seen::default() };
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
    Seen { has_node, owners: Some((owners, allocated)), ..Seen::default() }
}

#[cfg(test)]
mod tests;
