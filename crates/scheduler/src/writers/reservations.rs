//! What is written on reservations: the node that they hold something on, why they have none, and where
//! they stand in their lives.

use api::condition::{self, Condition};
use api::cpus::RESOURCE_STATUS;
use api::reservation::{READY, ReservationPhase, SCHEDULED};
use api::{Reservation, ResourceList};
use chassis::client::{Access, DeleteOptions, Error, Patch};
use jiff::Timestamp;
use object::time::Time;
use serde_json::{Value, json};

use super::{CONFLICTS_MAX, Hands, Place, RETRY, RETRY_MAX, Waits, is_unclear};
use crate::bind::Outcome;
use crate::message::{BindOrder, LifeOrder, Message, TellOrder, Wrote};
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
fn available(own: &Reservation, node: &str, held: &ResourceList, now: Timestamp) -> Value {
    let mut conditions = own.status.conditions.clone();
    for (r#type, reason) in [(SCHEDULED, "Scheduled"), (READY, "Available")] {
        let new = condition(r#type, true, reason, "", now);
        condition::set(&mut conditions, new, Time::from(now));
    }
    json!({
        "phase": ReservationPhase::Available, "nodeName": node, "allocatable": held,
        "conditions": conditions,
    })
}

impl Hands {
    /// Talks to the server until it is certain whether a reservation holds something on its node; none
    /// where this process may not go on. Whatever is not certain is read first, so that asking again does
    /// no harm.
    pub(super) async fn hold(&self, order: &BindOrder, held: &ResourceList) -> Option<Outcome> {
        let mut wait = RETRY;
        loop {
            if !self.may_write().await {
                return None;
            }
            match self.try_hold(order, held).await {
                Ok(outcome) => return Some(outcome),
                Err(Error::NotAllowed { .. }) => continue,
                Err(error) if error.is_conflict() => {}
                Err(error) if is_unclear(&error) => {
                    let name = &*order.pod.name;
                    tracing::warn!(reservation = name, %error, "it is not clear what is held");
                    self.answer(Message::Unclear(order.errand())).await;
                }
                Err(error) => return Some(Outcome::NotBound(error.told().into())),
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                () = self.clock().sleep(wait) => {}
            }
            wait = (wait * 2).min(RETRY_MAX);
        }
    }

    async fn try_hold(&self, order: &BindOrder, held: &ResourceList) -> Result<Outcome, Error> {
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
            Step::Status { patch, .. } => {
                let patch = &Patch::Merge(patch);
                self.again("", place, || all.patch_sub(&name, "status", patch)).await.map(drop)
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
                Wrote::Nothing
            }
        };
        Message::Lived(uid, wrote)
    }
}
