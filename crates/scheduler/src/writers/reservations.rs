//! What is written on reservations: the node that they hold something on, why they have none, and where
//! they stand in their lives.

use std::sync::Arc;

use api::condition::{self, Condition};
use api::cpus::RESOURCE_STATUS;
use api::reservation::{ALLOCATED, READY, ReservationPhase, SCHEDULED};
use api::{ObjectMeta, Pod, Reservation};
use chassis::client::{Access, DeleteOptions, Error, Patch};
use engine::fact::{PodRef, ReservationRef, Uid, Version};
use jiff::Timestamp;
use object::time::Time;
use serde_json::{Value, json};

use super::slots::Slots;
use super::{CONFLICTS_MAX, Hands, Place, RETRY, RETRY_MAX, Waits, is_unclear};
use crate::bind::Outcome;
use crate::message::{Adopted, BindOrder, HoldOrder, LifeOrder, Message, TellOrder, Wrote};
use crate::reservations::Step;

fn condition(
    r#type: &str,
    is_true: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Condition {
    Condition {
        r#type: r#type.to_owned(),
        status: if is_true { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_probe_time: Some(Time::from(now)),
        ..Condition::default()
    }
}

/// A status, where the object is still of this version.
fn patch(own: &Reservation, status: &Value) -> Patch<Value> {
    let (uid, version) = (&own.metadata.uid, &own.metadata.resource_version);
    Patch::Merge(json!({
        "metadata": { "uid": uid, "resourceVersion": version },
        "status": status,
    }))
}

/// That a reservation holds this on a node.
fn available(own: &Reservation, node: &str, held: &HoldOrder, now: Timestamp) -> Value {
    let mut conditions = own.status.conditions.clone();
    for (r#type, reason, message) in
        [(SCHEDULED, "Scheduled", &*held.told), (READY, "Available", "")]
    {
        let new = condition(r#type, true, reason, message, now);
        condition::set(&mut conditions, new, Time::from(now));
    }
    json!({
        "phase": ReservationPhase::Available, "nodeName": node, "allocatable": held.amounts,
        "conditions": conditions,
    })
}

impl Hands {
    /// Talks to the server until it is certain whether a reservation holds something on its node; none
    /// where this process may not go on. Whatever is not certain is read first, so that asking again does
    /// no harm.
    pub(super) async fn hold(
        &self,
        order: &BindOrder,
        held: &HoldOrder,
        room: Arc<Slots>,
    ) -> Option<Outcome> {
        let namespace = &*order.pod.namespace;
        let mut place = Place::new(room, None);
        let (mut wait, mut failures) = (RETRY, 0);
        loop {
            if !self.may_write().await {
                return None;
            }
            self.take(order, &mut place, failures).await?;
            let outcome = match self.try_hold(order, held).await {
                Ok(outcome) => Some(outcome),
                Err(Error::NotAllowed { .. }) => {
                    place.leave();
                    continue;
                }
                Err(error) if error.is_conflict() => {
                    place.leave();
                    None
                }
                Err(error) if is_unclear(&error) => {
                    failures += 1;
                    place.unclear(namespace);
                    self.tell_unclear(order, (failures, &error.to_string()));
                    self.answer(Message::Unclear(order.errand())).await;
                    None
                }
                Err(error) => Some(Outcome::NotBound(error.told().into())),
            };
            if let Some(outcome) = outcome {
                place.clear(namespace);
                let are_free = if outcome == Outcome::Bound { &held.leaves } else { &held.adopts };
                for pod in are_free {
                    self.free(pod, &order.pod.uid, &mut place).await;
                }
                return Some(outcome);
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                () = self.clock().sleep(wait) => {}
            }
            wait = (wait * 2).min(RETRY_MAX);
        }
    }

    /// Writes on a pod that it uses a reservation; in words why it cannot.
    async fn adopt(&self, pod: &PodRef, order: &BindOrder) -> Result<Option<String>, Error> {
        let pods: Access<Pod> = self.client.within(&pod.namespace);
        let found = pods.find(&pod.name).await?;
        let is_there = |found: &Pod| {
            let metadata = &found.metadata;
            metadata.uid == *pod.uid.0
                && metadata.deletion_timestamp.is_none()
                && *found.spec.node_name == *order.node
        };
        let Some(found) = found.filter(is_there) else {
            let (namespace, name) = (&pod.namespace, &pod.name);
            return Ok(Some(format!("pod {namespace}/{name}, which it takes over, is gone")));
        };
        let own = ReservationRef { name: order.pod.name.clone(), uid: order.pod.uid.clone() };
        let used = ReservationRef::of(&found);
        if let Some(other) = used.as_ref().filter(|used| **used != own)
            && let Some(other) = self.client.all::<Reservation>().find(&other.name).await?
            && used.as_ref().is_some_and(|used| *used.uid.0 == *other.metadata.uid)
        {
            let (namespace, name) = (&pod.namespace, &pod.name);
            let theirs = &other.metadata.name;
            return Ok(Some(format!("pod {namespace}/{name} uses reservation {theirs} by now")));
        }
        let written = if used.as_ref() == Some(&own) {
            found
        } else {
            let (key, text) = own.stamp();
            let ObjectMeta { uid, resource_version, .. } = &found.metadata;
            let metadata = json!({ "uid": uid, "resourceVersion": resource_version,
                                   "annotations": { key: text } });
            pods.patch(&pod.name, &Patch::Merge(json!({ "metadata": metadata }))).await?
        };
        let version = Version::of(&written.metadata).0;
        let adopted = Adopted { by: own.uid, pod: pod.uid.clone(), version };
        self.answer(Message::Adopted(adopted)).await;
        Ok(None)
    }

    /// Writes on a pod that it does not use a reservation, where it says that it does.
    pub(super) async fn free(&self, pod: &PodRef, reservation: &Uid, place: &mut Place) {
        let pods: Access<Pod> = self.client.within(&pod.namespace);
        let write = || async {
            let found = pods.find(&pod.name).await?;
            let uses = |found: &Pod| {
                let used = ReservationRef::of(found);
                found.metadata.uid == *pod.uid.0 && used.is_some_and(|own| own.uid == *reservation)
            };
            let Some(found) = found.filter(uses) else { return Ok(()) };
            let ObjectMeta { uid, resource_version, .. } = &found.metadata;
            let metadata = json!({ "uid": uid, "resourceVersion": resource_version,
                                   "annotations": { ALLOCATED: null } });
            pods.patch(&pod.name, &Patch::Merge(json!({ "metadata": metadata }))).await.map(drop)
        };
        for _ in 0..CONFLICTS_MAX {
            match self.again(&pod.namespace, place, write).await {
                Err(error) if error.is_conflict() => {}
                Err(error) => {
                    self.warn(pod, &error, "cannot write that a pod does not use a reservation");
                    return;
                }
                Ok(()) => return,
            }
        }
    }

    async fn try_hold(&self, order: &BindOrder, held: &HoldOrder) -> Result<Outcome, Error> {
        let all: Access<Reservation> = self.client.all();
        let name = &*order.pod.name;
        let Some(mut own) = all.find(name).await? else { return Ok(Outcome::Gone) };
        let is_same = own.metadata.uid == *order.pod.uid.0;
        if !is_same || own.metadata.is_going() || own.has_ended() {
            return Ok(Outcome::Gone);
        }
        if own.is_held() {
            return Ok(match *own.status.node_name == *order.node {
                true => Outcome::Bound,
                false => Outcome::Elsewhere(own.status.node_name.into()),
            });
        }
        // Before it is there itself: whoever leads next finds what was begun on the pods.
        for pod in &held.adopts {
            if let Some(why) = self.adopt(pod, order).await? {
                return Ok(Outcome::NotBound(why.into()));
            }
        }
        let mut stamps = order.stamps.clone();
        // What it got elsewhere, it has not.
        if own.metadata.annotations.contains_key(RESOURCE_STATUS) {
            stamps.entry(RESOURCE_STATUS.to_owned()).or_insert_with(|| "{}".to_owned());
        }
        if !stamps.is_empty() {
            let (uid, version) = (&own.metadata.uid, &own.metadata.resource_version);
            let metadata = json!({ "uid": uid, "resourceVersion": version, "annotations": stamps });
            own = all.patch(name, &Patch::Merge(json!({ "metadata": metadata }))).await?;
        }
        let status = available(&own, &order.node, held, self.clock().now());
        all.patch_sub(name, "status", &patch(&own, &status)).await?;
        Ok(Outcome::Bound)
    }

    /// Writes why a reservation has no node, unless it has one by now.
    pub(super) async fn tell_reservation(
        &self,
        order: &TellOrder,
        place: &mut Place,
    ) -> Result<Waits, Error> {
        let Some(told) = &order.condition else { return Ok(Waits::Still) };
        let all: Access<Reservation> = self.client.all();
        let (name, namespace) = (&*order.pod.name, &*order.pod.namespace);
        for _ in 0..CONFLICTS_MAX {
            let own = self.again(namespace, place, || all.find(name)).await?;
            let Some(own) = own.filter(|own| own.metadata.uid == *order.pod.uid.0) else {
                return Ok(Waits::NoLonger);
            };
            if own.is_held() || own.has_ended() {
                return Ok(Waits::NoLonger);
            }
            let now = self.clock().now();
            let mut conditions = own.status.conditions.clone();
            let new = condition(SCHEDULED, false, told.reason, &order.message, now);
            condition::set(&mut conditions, new, Time::from(now));
            let patch = patch(&own, &json!({ "conditions": conditions }));
            let write = || all.patch_sub(name, "status", &patch);
            match self.again(namespace, place, write).await {
                Ok(_) => return Ok(Waits::Still),
                Err(error) if error.is_conflict() => {}
                Err(error) if error.is_not_found() => return Ok(Waits::NoLonger),
                Err(error) => return Err(error),
            }
        }
        Err(Error::Request { what: "others change the reservation all the time".to_owned() })
    }

    /// Writes where a reservation stands in its life.
    pub(super) async fn live(&self, order: LifeOrder, place: &mut Place) -> Message {
        let all: Access<Reservation> = self.client.all();
        let LifeOrder { uid, name, step } = order;
        let written = match &step {
            Step::Nothing => Ok(()),
            Step::Status { patch, .. } | Step::Resize { patch, .. } => {
                let patch = &Patch::Merge(patch);
                self.again("", place, || all.patch_sub(&name, "status", patch)).await.map(drop)
            }
            Step::Free(pods) => {
                for pod in pods {
                    self.free(pod, &uid, place).await;
                }
                Ok(())
            }
            Step::Delete => {
                let options = &DeleteOptions::of(&uid.0);
                self.again("", place, || all.delete(&name, options)).await
            }
        };
        let wrote = match written {
            Ok(()) => Wrote::All,
            // What it is now comes as news, or it is gone.
            Err(error) if error.is_conflict() || error.is_not_found() => Wrote::Nothing,
            Err(error) => {
                tracing::warn!(reservation = &*name, %error, "cannot write what became of it");
                if is_unclear(&error) { Wrote::Nothing } else { Wrote::Refused }
            }
        };
        Message::Lived(uid, wrote)
    }
}
