//! The hands of the scheduler: Bindings, statuses and events, written as far as this process may.
//!
//! What is to be said to the API server and in which order is in [`bind`](crate::bind) and
//! [`status`](crate::status), and who waits for whom in [`slots`]; here it is sent.

mod dismissals;
mod reservations;
mod rooms;
mod slots;
mod standings;
mod traffic;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::{PersistentVolume, PersistentVolumeClaim, Pod, Resource};
use chassis::client::{
    Access, Binding, Client, Error, Nameplate, Patch, Reason, Refusal, ResourceType,
};
use chassis::clock::Clock;
use chassis::controller::go_on_panicking;
use chassis::election::Leadership;
use chassis::random::seed_for;
use engine::fact::PodRef;
use engine::plugins::volume_binding::Write;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::bind::{Conversation, Effect, Event, Found, LAND_MAX, Outcome, Unclear};
use crate::core::TELLS_MAX;
use crate::dismissals::{DismissOrder, Dismissal};
use crate::extenders::{Binder, Extenders};
use crate::gangs::GroupOrder;
use crate::later::{Busy, Later};
use crate::message::{
    Answer, BindOrder, Kind, LifeOrder, Message, PrepareOrder, Receipt, ReportOrder, TellOrder,
    Unreadable, Wrote,
};
use crate::notes::Notes;
use crate::quotas::QuotaOrder;
use crate::status;
use crate::volumes::{self, Step};
use slots::{Place, Slots};
pub(crate) use traffic::Traffic;

/// How many Bindings are under way at once: where a kube-apiserver saturates.
const BINDS_IN_FLIGHT_MAX: usize = 64;
/// How many more that were unclear before, or are in a namespace in trouble.
const BINDS_AGAIN_MAX: usize = 16;
/// How many notes of bound pods may wait to be told; more are told at once.
const LATER_MAX: usize = 100_000;
/// How often it is looked whether there is time for notes.
const LATER_LOOK: Duration = Duration::from_millis(20);
/// How many notes are handed over before they are written: enough until the next look.
const NOTES_AHEAD_MAX: usize = 128;
/// How many pods are prepared at once.
const PREPARES_IN_FLIGHT_MAX: usize = 16;
/// How many more of which something was unclear before, or in a namespace in trouble.
const PREPARES_AGAIN_MAX: usize = 4;
/// After so many answers to a Binding that do not tell, and each time after as many again, users are
/// told of it: by then, some seconds have passed.
const UNCLEAR_TOLD: u32 = 6;
/// How many statuses are under way at once.
const TELLS_IN_FLIGHT_MAX: usize = 16;
/// How many more that were unclear before, or are in a namespace in trouble.
const TELLS_AGAIN_MAX: usize = 4;
/// How many tellings there may be, most of which wait to be tried again, before no more of a namespace
/// in trouble are begun: such are not told, and found out anew after a while.
const TELLINGS_IN_TROUBLE_MAX: usize = 1024;
/// How many requests are under way at once, all sorts together.
pub(crate) const IN_FLIGHT_MAX: usize = BINDS_IN_FLIGHT_MAX
    + BINDS_AGAIN_MAX
    + PREPARES_IN_FLIGHT_MAX
    + PREPARES_AGAIN_MAX
    + TELLS_IN_FLIGHT_MAX
    + TELLS_AGAIN_MAX;
/// How often a leader whose lease is late looks whether it may write again.
const LEASE_LOOK: Duration = Duration::from_millis(100);
/// How often anything but a Binding is tried while its answers are unclear.
const TRIES_MAX: u32 = 4;
/// How often something is written anew because it has changed meanwhile.
const CONFLICTS_MAX: u32 = 4;
/// How long to wait between tries.
const RETRY: Duration = Duration::from_millis(200);
/// How long to wait at most, even where the server asks for more.
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Whether this process may write.
#[derive(Debug, Clone)]
pub(crate) enum License {
    /// Nobody else does.
    Always,
    /// While it leads; it may not have begun to.
    WhileLeading(Arc<OnceLock<Leadership>>),
}

impl License {
    pub(crate) fn is_valid(&self, now: Duration) -> bool {
        match self {
            Self::Always => true,
            Self::WhileLeading(own) => own.get().is_some_and(|own| own.is_valid(now)),
        }
    }
}

/// Whether a pod waits for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Still,
    NoLonger,
}

/// What writers share.
#[derive(Clone)]
pub(crate) struct Hands {
    pub(crate) client: Client,
    pub(crate) notes: Notes,
    pub(crate) traffic: Traffic,
    pub(crate) extenders: Extenders,
    pub(crate) license: License,
    pub(crate) seed: u64,
    /// Where answers go.
    pub(crate) answers: mpsc::Sender<Message>,
    /// Cancelled when nothing new is begun.
    pub(crate) stop: CancellationToken,
}

impl Hands {
    /// The same hands, whose every write is allowed at the moment at which it is sent.
    pub(crate) fn licensed(self) -> Self {
        let (license, clock) = (self.license.clone(), self.clock().clone());
        let may_write = move || license.is_valid(clock.monotonic());
        let client = self.client.guarded(may_write.clone());
        let extenders = self.extenders.clone().guarded(may_write);
        Self { client, extenders, ..self }
    }

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

    /// Binds and prepares pods until no more orders come, and waits for those under way.
    pub(crate) async fn bind_all(self, mut orders: mpsc::Receiver<Work>) {
        let own = Arc::new(self);
        let bench = Slots::new(PREPARES_IN_FLIGHT_MAX, PREPARES_AGAIN_MAX);
        let mut tasks = JoinSet::new();
        let (bound, line) = mpsc::channel(LATER_MAX);
        let telling = tokio::spawn(own.clone().tell_later(line));
        while let Some(order) = orders.recv().await {
            let (own, bench, bound) = (own.clone(), bench.clone(), bound.clone());
            let room = own.traffic.binds().clone();
            // What few pods need has its own place: each task is as large as the largest of these.
            tasks.spawn(async move {
                match order {
                    Work::Bind(order) => own.bind(order, room, &bound).await,
                    Work::Prepare(order) => Box::pin(own.prepare(order, bench)).await,
                }
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
        drop(bound);
        if let Err(error) = telling.await {
            go_on_panicking(error);
        }
    }

    /// Tells which pods are bound: while Bindings are under way, only of those that are so for long.
    async fn tell_later(self: Arc<Self>, mut bound: mpsc::Receiver<BindOrder>) {
        let mut later = Later::default();
        loop {
            tokio::select! {
                biased;
                order = bound.recv() => match order {
                    Some(order) => later.put(self.clock().monotonic(), order),
                    None => break,
                },
                () = self.clock().sleep(LATER_LOOK), if !later.is_empty() => {}
            }
            let work = self.traffic.binds().work();
            let busy = || Busy { work, notes: self.notes.waiting() >= NOTES_AHEAD_MAX };
            while let Some(order) = later.next(self.clock().monotonic(), busy()) {
                self.notes.scheduled(&order);
            }
            self.traffic.hold(later.len());
        }
        while let Some(order) = later.next(self.clock().monotonic(), Busy::default()) {
            self.notes.scheduled(&order);
        }
    }

    async fn bind(&self, order: BindOrder, room: Arc<Slots>, bound: &mpsc::Sender<BindOrder>) {
        let errand = order.errand();
        let outcome = match &order.held {
            Some(held) => Box::pin(self.hold(&order, held, room)).await,
            None => self.converse(&order, room).await,
        };
        let answer = match outcome {
            None => Answer::Abandoned,
            Some(outcome) => Answer::Definite(outcome),
        };
        match &answer {
            Answer::Definite(Outcome::Bound) => {
                if let Err(lost) = bound.try_send(order) {
                    self.notes.scheduled(&lost.into_inner());
                }
            }
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
        self.answer(Message::Answered(errand, answer)).await;
    }

    /// Talks to the server until it is certain what became of the Binding; none where this
    /// process may not go on.
    async fn converse(&self, order: &BindOrder, room: Arc<Slots>) -> Option<Outcome> {
        let (uid, namespace) = (&order.pod.uid, &*order.pod.namespace);
        let seed = seed_for(self.seed, &["bind", &uid.0]);
        let mut conversation = Conversation::new(&order.node, seed);
        if order.binder != Binder::Server {
            conversation = conversation.through_others();
        }
        let pods: Access<Pod> = self.client.within(namespace);
        let mut place = Place::new(room, None);
        let mut effect = conversation.step(self.clock().monotonic(), Event::Begin)?;
        loop {
            let event = match effect {
                Effect::End(outcome) => {
                    // What others leave unanswered says nothing of the namespace.
                    if order.binder != Binder::Extender {
                        place.clear(namespace);
                    }
                    return Some(outcome);
                }
                Effect::Send => {
                    if !self.may_write().await {
                        return None;
                    }
                    if order.binder != Binder::Server
                        && let Some(event) = Box::pin(self.extenders.bind(order)).await
                    {
                        event
                    } else {
                        self.take(order, &mut place, conversation.unclear().0).await?;
                        let binding = Binding {
                            pod: &order.pod.name,
                            uid: Some(&uid.0),
                            node: &order.node,
                            annotations: order.stamps.clone(),
                            ..Binding::default()
                        };
                        match pods.bind(&binding).await {
                            // It was not sent. Where this process may write again, it will be.
                            Err(Error::NotAllowed { .. }) => {
                                place.leave();
                                continue;
                            }
                            answer => sent(answer),
                        }
                    }
                }
                Effect::Read => {
                    self.take(order, &mut place, conversation.unclear().0).await?;
                    read(Box::pin(pods.get(&order.pod.name)).await, &uid.0)
                }
                Effect::Wait(wait) => {
                    match order.binder {
                        Binder::Extender => place.leave(),
                        Binder::Server | Binder::IgnorableExtender => place.unclear(namespace),
                    }
                    self.tell_unclear(order, conversation.unclear());
                    self.answer(Message::Unclear(order.errand())).await;
                    tokio::select! {
                        biased;
                        () = self.clock().sleep(wait) => Event::Woke,
                        () = self.stop.cancelled() => return None,
                    }
                }
            };
            effect = conversation.step(self.clock().monotonic(), event)?;
        }
    }

    /// Takes a place from which to ask about a Binding of which so many answers were unclear; none where
    /// this process ends before there is one, and the question was asked before or belongs to a namespace
    /// in trouble.
    async fn take(&self, order: &BindOrder, place: &mut Place, failures: u32) -> Option<()> {
        let namespace = &order.pod.namespace;
        if failures == 0 && place.first(namespace).await {
            return Some(());
        }
        Box::pin(async {
            if failures == 0 {
                // Others need not wait for it.
                self.answer(Message::Held(order.errand())).await;
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => None,
                () = place.again(namespace) => Some(()),
            }
        })
        .await
    }

    /// Says of a Binding that is asked for again and again what its answers are.
    fn tell_unclear(&self, order: &BindOrder, (failures, words): (u32, &str)) {
        if failures == 0 || !failures.is_multiple_of(UNCLEAR_TOLD) {
            return;
        }
        let (pod, node) = (&order.pod, &*order.node);
        let pod = format!("{}/{}", pod.namespace, pod.name);
        tracing::warn!(pod, node, failures, words, "it is not clear whether a pod is bound");
        self.notes.unclear(order, words);
    }

    /// Tells why pods wait until no more orders come, and waits for what is under way.
    pub(crate) async fn tell_all(self, mut orders: mpsc::Receiver<Telling>) {
        let own = Arc::new(self);
        let room = Slots::new(TELLS_IN_FLIGHT_MAX, TELLS_AGAIN_MAX);
        let mut tasks = JoinSet::new();
        while let Some(order) = orders.recv().await {
            let turn = room.first(order.namespace()).await;
            let own = own.clone();
            let tellings_max = if turn.is_some() { TELLS_MAX } else { TELLINGS_IN_TROUBLE_MAX };
            if tasks.len() >= tellings_max {
                own.answer(order.untold()).await;
            } else {
                let mut place = Place::new(room.clone(), turn);
                tasks.spawn(async move {
                    let message = match order {
                        // Whoever leads next finds out anew, and need not wait for this.
                        order if own.stop.is_cancelled() => order.untold(),
                        Telling::Wait(order) => own.tell(*order, &mut place).await,
                        Telling::Unreadable(what) => own.complain(&what, &mut place).await,
                        Telling::Life(order) => own.live(*order, &mut place).await,
                        Telling::Report(order) => own.report(&order),
                        Telling::Quota(order) => own.tell_quota(*order, &mut place).await,
                        Telling::Group(order) => own.tell_group(*order, &mut place).await,
                        Telling::Dismiss(order) => own.dismiss(*order, &mut place).await,
                    };
                    drop(place);
                    own.answer(message).await;
                });
            }
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

    async fn tell(&self, order: TellOrder, place: &mut Place) -> Message {
        self.notes.waits(&order);
        let mut is_done = true;
        let told = match order.pod.is_reservation {
            true => Box::pin(self.tell_reservation(&order, place)).await,
            false => self.tell_status(&order, place).await,
        };
        match told {
            Ok(Waits::Still) => {}
            // Nothing is to be told of it, and nobody has to go for it.
            Ok(Waits::NoLonger) => return Message::Needless(order.pod.uid),
            Err(error) => {
                self.warn(&order.pod, &error, "cannot write why a pod has no node");
                is_done = false;
            }
        }
        if let Some(room) = &order.room {
            is_done &= self.make_room(&order, room, place).await;
        }
        let uid = order.pod.uid;
        if is_done { Message::Told(uid) } else { Message::Untold(uid) }
    }

    /// Writes why a pod has no node, unless it has one by now.
    async fn tell_status(&self, order: &TellOrder, place: &mut Place) -> Result<Waits, Error> {
        let Some(mut patch) = status::unscheduled(order, self.clock().now()) else {
            return Ok(Waits::Still);
        };
        let namespace = &order.pod.namespace;
        let mut version = order.version.to_string();
        for _ in 0..CONFLICTS_MAX {
            if !version.is_empty() {
                patch["metadata"]["resourceVersion"] = version.into();
            }
            match self.patch_status(&order.pod, patch.clone(), place).await {
                Ok(()) => return Ok(Waits::Still),
                Err(error) if error.is_conflict() => {}
                Err(error) if error.is_not_found() => return Ok(Waits::NoLonger),
                Err(error) => return Err(error),
            }
            let pods: Access<Pod> = self.client.within(namespace);
            let find = || pods.find(&order.pod.name);
            let Some(pod) = self.again(namespace, place, find).await? else {
                return Ok(Waits::NoLonger);
            };
            if pod.metadata.uid != *order.pod.uid.0 || !pod.spec.node_name.is_empty() {
                return Ok(Waits::NoLonger);
            }
            version = pod.metadata.resource_version;
        }
        Err(Error::Request { what: "others change the pod all the time".to_owned() })
    }

    /// Writes a status, as often as it takes and as is allowed.
    async fn patch_status(
        &self,
        pod: &PodRef,
        patch: Value,
        place: &mut Place,
    ) -> Result<(), Error> {
        let pods: Access<IgnoredAny> =
            self.client.access(ResourceType::of::<Pod>(), &pod.namespace);
        let patch = &Patch::Strategic(patch);
        let write = || pods.patch_sub(&pod.name, "status", patch);
        self.again(&pod.namespace, place, write).await.map(drop)
    }

    /// Tries a write that may be repeated until the answer is clear, some times. Nobody waits for it
    /// who writes in another namespace.
    async fn again<T, F>(
        &self,
        namespace: &str,
        place: &mut Place,
        write: impl Fn() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        // Whatever the write before this one ended with, this is another.
        place.give_up();
        let mut tries = 0;
        loop {
            if !self.may_write().await {
                return Err(Error::Request { what: "this process no longer leads".to_owned() });
            }
            let is_placed = tokio::select! {
                biased;
                () = place.take(namespace) => true,
                () = self.stop.cancelled() => false,
            };
            if !is_placed {
                return Err(Error::Request { what: "this process ends".to_owned() });
            }
            let error = match write().await {
                Err(Error::NotAllowed { .. }) => continue,
                Err(error) if is_unclear(&error) => error,
                answer => {
                    place.clear(namespace);
                    return answer;
                }
            };
            place.unclear(namespace);
            tries += 1;
            let wait = error.retry_after().unwrap_or(RETRY).min(RETRY_MAX);
            let is_over = tries >= TRIES_MAX
                || tokio::select! {
                    biased;
                    () = self.stop.cancelled() => true,
                    () = self.clock().sleep(wait) => false,
                };
            if is_over {
                return Err(error);
            }
        }
    }

    fn warn(&self, pod: &PodRef, error: &Error, what: &str) {
        // A pod that is gone needs nothing.
        if !error.is_not_found() {
            tracing::warn!(pod = %format_args!("{}/{}", pod.namespace, pod.name), %error, "{what}");
        }
    }

    async fn prepare(&self, order: PrepareOrder, bench: Arc<Slots>) {
        let mut place = Place::new(bench, None);
        let answer = tokio::select! {
            biased;
            // What is not sent yet is not wanted any longer.
            () = order.recall.recalled() => Answer::Abandoned,
            answer = self.ready_all(&order, &mut place) => answer,
        };
        drop(place);
        self.answer(Message::Answered(order.errand(), answer)).await;
    }

    async fn ready_all(&self, order: &PrepareOrder, place: &mut Place) -> Answer {
        let mut versions = Vec::with_capacity(order.writes.len());
        for write in &order.writes {
            if !self.may_write().await {
                return Answer::Abandoned;
            }
            match self.ready(write, place).await {
                Ok(version) => versions.push(version),
                Err(_) if self.stop.is_cancelled() => return Answer::Abandoned,
                Err(why) => return Answer::Unprepared(why.into()),
            }
        }
        Answer::Prepared(versions.into())
    }

    /// Carries out one write that prepares a pod, and says which version that made; an error in words
    /// where it cannot be.
    async fn ready(&self, write: &Write, place: &mut Place) -> Result<u64, String> {
        match write {
            Write::KeepVolume { volume, claim } => {
                // A volume that is kept for a claim that is gone is lost with it.
                let claims: Access<PersistentVolumeClaim> = self.client.within(&claim.namespace);
                let find = || claims.find(&claim.name);
                let own = self.again(&claim.namespace, place, find).await;
                let own = own.map_err(|error| format!("binding volumes: {}", error.told()))?;
                volumes::is_wanted(own.as_ref(), claim)?;
                let volumes: Access<PersistentVolume> = self.client.all();
                let whose = (&**volume, &*claim.namespace);
                self.mend(&volumes, whose, place, |own| volumes::keep(own, claim)).await
            }
            Write::SelectNode { namespace, claim, node } => {
                let claims: Access<PersistentVolumeClaim> = self.client.within(namespace);
                let whose = (&**claim, &**namespace);
                self.mend(&claims, whose, place, |own| volumes::select(own, node)).await
            }
        }
    }

    /// Reads an object and patches it as it needs, anew where it has changed meanwhile: the change
    /// may be our own, of which we did not hear. It is for somebody in a namespace. The version is
    /// returned in which it is as needed.
    async fn mend<T>(
        &self,
        objects: &Access<T>,
        (name, namespace): (&str, &str),
        place: &mut Place,
        step: impl Fn(&T) -> Step,
    ) -> Result<u64, String>
    where
        T: Resource + DeserializeOwned,
    {
        let version = |own: &T| own.meta().resource_version.parse().unwrap_or(0);
        let told = |error: Error| format!("binding volumes: {}", error.told());
        let mut tries = 0;
        loop {
            let own = self.again(namespace, place, || objects.get(name)).await.map_err(told)?;
            let patch = match step(&own) {
                Step::Nothing => return Ok(version(&own)),
                Step::Never(why) => return Err(why),
                Step::Patch(patch) => Patch::Merge(patch),
            };
            tries += 1;
            match self.again(namespace, place, || objects.patch(name, &patch)).await {
                Ok(own) => return Ok(version(&own)),
                Err(error) if error.is_conflict() && tries < CONFLICTS_MAX => {}
                Err(error) => return Err(told(error)),
            }
        }
    }

    fn report(&self, order: &ReportOrder) -> Message {
        self.notes.reports(order);
        Message::Complained
    }

    async fn complain(&self, what: &Unreadable, place: &mut Place) -> Message {
        let Unreadable { kind, key, error } = what;
        tracing::warn!(?kind, %key, error, "an object cannot be read");
        if *kind == Kind::Pod {
            // Its uid, without which nobody finds the event, is still to be read.
            let pods: Access<Nameplate> =
                self.client.access(ResourceType::of::<Pod>(), key.namespace());
            let get = || pods.get(key.name());
            if let Ok(plate) = self.again(key.namespace(), place, get).await {
                self.notes.unreadable(&plate, error);
            }
        }
        Message::Complained
    }
}

/// Something that a pod waits for.
#[derive(Debug)]
pub(crate) enum Work {
    /// A Binding.
    Bind(BindOrder),
    /// What has to be there before.
    Prepare(PrepareOrder),
}

/// Something to be told to users.
#[derive(Debug)]
pub(crate) enum Telling {
    /// Why a pod waits.
    Wait(Box<TellOrder>),
    /// That an object cannot be read.
    Unreadable(Unreadable),
    /// Where a reservation stands in its life.
    Life(Box<LifeOrder>),
    /// That a node does not report its load, or does again.
    Report(ReportOrder),
    /// How a quota stands.
    Quota(Box<QuotaOrder>),
    /// Why a gang has not started.
    Group(Box<GroupOrder>),
    /// A pod has to go for its quota.
    Dismiss(Box<DismissOrder>),
}

impl Telling {
    /// Where it is told.
    fn namespace(&self) -> &str {
        match self {
            Self::Wait(order) => &order.pod.namespace,
            Self::Unreadable(what) => what.key.namespace(),
            Self::Quota(order) => order.key.namespace(),
            Self::Group(order) => order.key.namespace(),
            Self::Dismiss(order) => &order.pod.namespace,
            Self::Life(_) | Self::Report(_) => "",
        }
    }

    /// What is answered where it is not told.
    pub(crate) fn untold(self) -> Message {
        match self {
            Self::Wait(order) => Message::Untold(order.pod.uid),
            Self::Unreadable(what) => {
                tracing::warn!(kind = ?what.kind, key = %what.key, "an object cannot be read");
                Message::Complained
            }
            Self::Life(order) => Message::Lived(order.uid, Wrote::Nothing),
            Self::Report(_) => Message::Complained,
            Self::Group(order) => Message::GroupWritten(Box::new(Receipt::of_nothing(order.key))),
            Self::Dismiss(order) => Message::Dismissed(order.pod.uid, Dismissal::Stays),
            Self::Quota(order) => Message::QuotaWritten(Box::new(Receipt::of_nothing(order.key))),
        }
    }
}

/// Whether nobody knows what became of a request.
fn is_unclear(error: &Error) -> bool {
    match error.refusal() {
        Some(refusal) => matches!(refusal.code, 408 | 429 | 500..),
        None => matches!(error, Error::TimedOut { .. } | Error::Unreachable { .. }),
    }
}

/// What an answer to a Binding means.
fn sent(answer: Result<(), Error>) -> Event {
    let Err(error) = answer else { return Event::Done };
    let Some(refusal) = error.refusal() else { return unclear(&error) };
    let said = || refusal.message.as_str().into();
    match (refusal.code, &refusal.reason) {
        (404, _) if refusal.is_status => Event::Missing,
        (409, _) | (_, Reason::Conflict) => Event::Conflicted(said()),
        // Others who answer in the server's place may have handed it on.
        (404 | 408 | 429, _) => unclear(&error),
        (400..=499, _) => Event::Refused(said()),
        _ => unclear(&error),
    }
}

fn unclear(error: &Error) -> Event {
    // The server says so before it looks at a request.
    let is_turned_away = |no: &Refusal| no.code == 429 && no.is_status;
    let lands_within = match error.refusal() {
        Some(no) if is_turned_away(no) => Duration::ZERO,
        _ => LAND_MAX,
    };
    Event::Unclear(Unclear {
        words: error.told().into(),
        patience: error.retry_after(),
        lands_within,
    })
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
        Err(error) if error.refusal().is_some_and(|no| no.code == 404 && no.is_status) => {
            Event::Missing
        }
        Err(error) => unclear(&error),
    }
}

#[cfg(test)]
mod tests;
