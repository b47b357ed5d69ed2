//! The hands of the scheduler: Bindings, statuses and events, written as far as this process may.
//!
//! What is to be said to the API server and in which order is in [`bind`](crate::bind) and
//! [`status`](crate::status); here it is sent.

use std::sync::Arc;
use std::time::Duration;

use api::Pod;
use chassis::client::{Access, Binding, Client, Error, Nameplate, Patch, Reason, ResourceType};
use chassis::clock::Clock;
use chassis::controller::go_on_panicking;
use chassis::election::Leadership;
use chassis::random::seed_for;
use serde::de::IgnoredAny;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::bind::{Conversation, Effect, Event, Found, Outcome};
use crate::message::{Answer, BindOrder, Kind, Message, TellOrder, Unreadable};
use crate::notes::Notes;
use crate::status;

/// How many Bindings are under way at once: where a kube-apiserver saturates.
const BINDS_IN_FLIGHT_MAX: usize = 64;
/// How many statuses are under way at once.
const TELLS_IN_FLIGHT_MAX: usize = 16;
/// How often a leader whose lease is late looks whether it may write again.
const LEASE_LOOK: Duration = Duration::from_millis(100);

/// Whether this process may write.
#[derive(Debug, Clone)]
pub(crate) enum License {
    /// Nobody else does.
    Always,
    /// While it leads.
    WhileLeading(Leadership),
}

impl License {
    fn is_valid(&self, now: Duration) -> bool {
        match self {
            Self::Always => true,
            Self::WhileLeading(leadership) => leadership.is_valid(now),
        }
    }
}

/// What writers share.
#[derive(Clone)]
pub(crate) struct Hands {
    pub(crate) client: Client,
    pub(crate) notes: Notes,
    pub(crate) license: License,
    pub(crate) seed: u64,
    /// Where answers go.
    pub(crate) answers: mpsc::Sender<Message>,
    /// Cancelled when nothing new is begun.
    pub(crate) stop: CancellationToken,
}

impl Hands {
    fn clock(&self) -> &Clock {
        self.client.clock()
    }

    /// Waits until a write may be sent; false where it never may.
    async fn may_write(&self) -> bool {
        while !self.license.is_valid(self.clock().monotonic()) {
            if self.stop.is_cancelled() {
                return false;
            }
            self.clock().sleep(LEASE_LOOK).await;
        }
        true
    }

    /// Who listens is gone only when everything ends.
    async fn answer(&self, message: Message) {
        let _ = self.answers.send(message).await;
    }

    /// Binds pods until no more orders come, and waits for those under way.
    pub(crate) async fn bind_all(self, mut orders: mpsc::Receiver<BindOrder>) {
        let own = Arc::new(self);
        let room = Arc::new(Semaphore::new(BINDS_IN_FLIGHT_MAX));
        let mut tasks = JoinSet::new();
        while let Some(order) = orders.recv().await {
            let (own, room) = (own.clone(), room.clone());
            tasks.spawn(async move { own.bind(order, &room).await });
            while let Some(ended) = tasks.try_join_next() {
                if let Err(error) = ended {
                    go_on_panicking(error);
                }
            }
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                go_on_panicking(error);
            }
        }
    }

    async fn bind(&self, order: BindOrder, room: &Semaphore) {
        let uid = order.pod.uid.clone();
        let answer = match self.converse(&order, room).await {
            None => Answer::Abandoned,
            Some(outcome) => Answer::Definite(outcome),
        };
        match &answer {
            Answer::Definite(Outcome::Bound) => self.notes.scheduled(&order),
            Answer::Definite(Outcome::Elsewhere(node)) => {
                let pod = format!("{}/{}", order.pod.namespace, order.pod.name);
                tracing::info!(
                    pod,
                    ours = &*order.node,
                    theirs = &**node,
                    "pod is bound elsewhere"
                );
            }
            _ => {}
        }
        self.answer(Message::Answered(uid, answer)).await;
    }

    /// Talks to the server until it is certain what became of the Binding; none where this
    /// process may not go on.
    async fn converse(&self, order: &BindOrder, room: &Semaphore) -> Option<Outcome> {
        let uid = &order.pod.uid;
        let seed = seed_for(self.seed, &["bind", &uid.0]);
        let mut conversation = Conversation::new(&order.node, seed);
        let pods: Access<Pod> = self.client.within(&order.pod.namespace);
        let mut effect = conversation.step(Event::Begin)?;
        loop {
            let event = match effect {
                Effect::End(outcome) => return Some(outcome),
                Effect::Send => {
                    if !self.may_write().await {
                        return None;
                    }
                    let _turn = room.acquire().await.ok();
                    let binding = Binding {
                        pod: &order.pod.name,
                        uid: Some(&uid.0),
                        node: &order.node,
                        ..Binding::default()
                    };
                    sent(pods.bind(&binding).await)
                }
                Effect::Read => {
                    let _turn = room.acquire().await.ok();
                    read(pods.get(&order.pod.name).await, &uid.0)
                }
                Effect::Wait(wait) => {
                    self.answer(Message::Unclear(uid.clone())).await;
                    tokio::select! {
                        () = self.clock().sleep(wait) => Event::Woke,
                        () = self.stop.cancelled() => return None,
                    }
                }
            };
            effect = conversation.step(event)?;
        }
    }

    /// Tells why pods wait until no more orders come, and waits for what is under way.
    pub(crate) async fn tell_all(self, mut orders: mpsc::Receiver<Telling>) {
        let own = Arc::new(self);
        let room = Arc::new(Semaphore::new(TELLS_IN_FLIGHT_MAX));
        let mut tasks = JoinSet::new();
        while let Some(order) = orders.recv().await {
            // Only closed when it is dropped.
            let Ok(turn) = room.clone().acquire_owned().await else { return };
            let own = own.clone();
            tasks.spawn(async move {
                let message = match order {
                    Telling::Wait(order) => own.tell(&order).await,
                    Telling::Unreadable(what) => own.complain(&what).await,
                };
                drop(turn);
                own.answer(message).await;
            });
            while let Some(ended) = tasks.try_join_next() {
                if let Err(error) = ended {
                    go_on_panicking(error);
                }
            }
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                go_on_panicking(error);
            }
        }
    }

    async fn tell(&self, order: &TellOrder) -> Message {
        self.notes.waits(order);
        let Some(condition) = &order.condition else { return Message::Told };
        if !self.may_write().await {
            return Message::Told;
        }
        let pod = &order.pod;
        let patch = status::unscheduled(&pod.uid.0, condition, &order.message, self.clock().now());
        let pods: Access<IgnoredAny> =
            self.client.access(ResourceType::of::<Pod>(), &pod.namespace);
        match pods.patch_sub(&pod.name, "status", &Patch::Strategic(patch)).await {
            Ok(_) => Message::Told,
            Err(error) => {
                if !error.is_not_found() {
                    tracing::warn!(pod = %pod.name, %error, "cannot write the condition of a pod");
                }
                Message::Untold(pod.uid.clone())
            }
        }
    }

    async fn complain(&self, what: &Unreadable) -> Message {
        let Unreadable { kind, key, error } = what;
        tracing::warn!(?kind, %key, error, "an object cannot be read");
        if *kind == Kind::Pod {
            // Its uid, without which nobody finds the event, is still to be read.
            let pods: Access<Nameplate> =
                self.client.access(ResourceType::of::<Pod>(), key.namespace());
            if let Ok(plate) = pods.get(key.name()).await {
                self.notes.unreadable(&plate, error);
            }
        }
        Message::Told
    }
}

/// Something to be told to users.
#[derive(Debug)]
pub(crate) enum Telling {
    /// Why a pod waits.
    Wait(TellOrder),
    /// That an object cannot be read.
    Unreadable(Unreadable),
}

/// What an answer to a Binding means.
fn sent(answer: Result<(), Error>) -> Event {
    let Err(error) = answer else { return Event::Done };
    let Some(refusal) = error.refusal() else { return Event::Unclear(None) };
    let said = || refusal.message.as_str().into();
    match (refusal.code, &refusal.reason) {
        (404, _) => Event::Missing,
        (409, _) | (_, Reason::Conflict) => Event::Conflicted(said()),
        // Others who answer in the server's place may have handed it on.
        (408 | 429, _) => Event::Unclear(refusal.retry_after),
        (400..=499, _) => Event::Refused(said()),
        _ => Event::Unclear(refusal.retry_after),
    }
}

/// What a read of the pod means.
fn read(answer: Result<Pod, Error>, uid: &str) -> Event {
    match answer {
        Ok(pod) if pod.metadata.uid != uid => Event::Read(Found::Nothing),
        Ok(pod) if !pod.spec.node_name.is_empty() => {
            Event::Read(Found::Bound(pod.spec.node_name.into()))
        }
        Ok(pod) if pod.metadata.deletion_timestamp.is_some() => Event::Read(Found::Going),
        Ok(_) => Event::Read(Found::Unbound),
        Err(error) if error.is_not_found() => Event::Missing,
        Err(error) => Event::Unclear(error.retry_after()),
    }
}

#[cfg(test)]
mod tests;
