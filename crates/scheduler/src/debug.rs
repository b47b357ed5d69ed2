//! What goes on inside a scheduler, for people: `/debug/why`, `/debug/queue`, `/debug/ledger`,
//! `/debug/decisions` and `/debug/audit`, as JSON; and for programs that ask Koordinator's scheduler: `/apis/v1`.
//!
//! Whoever asks puts a [`Look`] into the line of the engine's thread, which copies what is asked
//! for and goes on; the answer is worked out elsewhere. One question is answered at a time, whether
//! or not anybody still waits for it, and the next one waits until the engine's thread had nine
//! times as long for its work as the look took. So many of them cannot hold up binds.

mod apis;
mod audit;
mod gang;
mod switches;
mod views;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use chassis::client::Client;
use chassis::serve::{self, Site};
use engine::fact::{PodFact, Uid};
use engine::ledger::{Ledger, QuotaHolders};
use engine::moment::Moment;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard, mpsc, oneshot};

use crate::config::Configuration;
use crate::core::{Core, Resort, SCHEDULER_ERROR};
use crate::message::{Message, Scheduled};
use crate::why::{self, Answer, AnsweredBy, Standing, State, WhyError};

use audit::{About, AuditCopy};
pub use audit::{AuditView, MoveView};
pub use switches::{Flags, Set, Switches};
use views::QueueCopy;
pub(crate) use views::{Decided, Fate, time};
pub use views::{DecisionView, LedgerView, NodeView, QueueRow, QueueView, ROWS_MAX};

/// The paths that are answered.
pub const PATHS: [&str; 5] =
    ["/debug/why", "/debug/queue", "/debug/ledger", "/debug/decisions", "/debug/audit"];
/// How much longer than a look took the engine's thread is left alone.
const REST_FACTOR: u32 = 9;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A look at the engine's thread, which takes no longer than to copy what is asked for.
pub struct Look(Box<Glance>);

type Glance = dyn FnOnce(&Core, Moment) + Send;

impl Look {
    /// A look of this sort.
    #[cfg(test)]
    pub(crate) fn new(glance: impl FnOnce(&Core, Moment) + Send + 'static) -> Self {
        Self(Box::new(glance))
    }

    /// Looks.
    pub(crate) fn at(self, core: &Core, now: Moment) {
        (self.0)(core, now);
    }
}

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Look")
    }
}

/// Where a scheduler is asked; clones are the same. It answers while it works.
#[derive(Clone, Default)]
pub struct Desk {
    clerk: Arc<Mutex<Option<Clerk>>>,
    /// Held while a question is answered.
    turn: Arc<Turn<()>>,
    /// Held while all objects are listed for a question.
    listing: Arc<Turn<()>>,
    /// What is told in the log of single decisions.
    switches: Switches,
}

/// Who knows how to ask.
#[derive(Clone)]
struct Clerk {
    /// It does not keep the engine's thread alive.
    line: mpsc::WeakSender<Message>,
    client: Client,
    configuration: Arc<Configuration>,
}

/// Why there is no answer, as it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What is wrong, and what to do.
    pub message: String,
    #[serde(skip)]
    code: u16,
}

impl Refusal {
    fn new(code: StatusCode, message: impl Into<String>) -> Self {
        Self { message: message.into(), code: code.as_u16() }
    }

    fn idle() -> Self {
        let text = "this scheduler does not work now: it waits for its lease, or ends; ask the \
                    one that holds the lease";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    fn early() -> Self {
        let text = "this scheduler has not read everything there is yet; ask again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

impl From<WhyError> for Refusal {
    fn from(error: WhyError) -> Self {
        match &error {
            WhyError::NoPod { .. } | WhyError::NoReservation { .. } | WhyError::NoGang { .. } => {
                Self::new(StatusCode::NOT_FOUND, error.to_string())
            }
            WhyError::Api(cause) => Self::new(StatusCode::BAD_GATEWAY, cause.told()),
        }
    }
}

/// What the engine's thread knows of one pod and of all nodes.
pub(crate) struct Known {
    pub(crate) ledger: Ledger,
    pub(crate) now: Moment,
    pub(crate) standing: Option<Standing>,
    pub(crate) told: Option<Scheduled>,
    pub(crate) resort: Option<Resort>,
    /// Who uses the quotas that the pod is held against.
    pub(crate) holders: BTreeMap<Box<str>, QuotaHolders>,
    /// The gangs that start with it, where it is of one.
    pub(crate) group: Option<gang::KnownGroup>,
}

/// A pod, or a reservation, that is asked about, and what is known of it.
pub(crate) struct Asked {
    pub(crate) fact: PodFact,
    /// What the pod itself tells.
    pub(crate) answer: Answer,
    /// Nothing where nobody is to find it a node.
    pub(crate) known: Option<Known>,
    pub(crate) configuration: Arc<Configuration>,
}

/// A site with the pages of a scheduler. They show names and specs of everybody's pods: serve them
/// to those only who may see those.
#[must_use]
pub fn pages(site: Site, desk: &Desk) -> Site {
    let [why, queue, ledger, decisions, audit] = PATHS;
    let own = desk.clone();
    let site = site.page(why, move |parts: Parts| {
        let desk = own.clone();
        async move { replied(desk.why(&asked(&parts)).await).await }
    });
    let own = desk.clone();
    let site = site.page(queue, move |parts: Parts| {
        let desk = own.clone();
        async move { replied(desk.queue(&asked(&parts)).await).await }
    });
    let own = desk.clone();
    let site = site.page(ledger, move |parts: Parts| {
        let desk = own.clone();
        async move { replied(desk.ledger(&asked(&parts)).await).await }
    });
    let own = desk.clone();
    let site = site.page(decisions, move |_: Parts| {
        let desk = own.clone();
        async move { replied(desk.decisions().await).await }
    });
    let own = desk.clone();
    let site = site.page(audit, move |parts: Parts| {
        let desk = own.clone();
        async move { replied(desk.audit(&asked(&parts)).await).await }
    });
    let own = desk.clone();
    let site = site.page(switches::PATH, move |_: Parts| {
        let desk = own.clone();
        async move { replied(Ok(desk.switches.shown())).await }
    });
    let own = desk.clone();
    let site = site.switch(switches::PATH, move |parts: Parts, body: Bytes| {
        let desk = own.clone();
        async move { replied(desk.switches.put(parts.uri.path(), &asked(&parts), &body)).await }
    });
    let own = desk.clone();
    site.page(apis::PATH, move |parts: Parts| {
        let desk = own.clone();
        async move { replied(desk.apis(parts.uri.path(), &asked(&parts)).await).await }
    })
}

/// What is asked, by the names of the query.
type Query = BTreeMap<String, String>;

fn asked(parts: &Parts) -> Query {
    let query = parts.uri.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

async fn replied(answer: Result<impl Serialize + Send + 'static, Refusal>) -> serve::Answer {
    let written = match answer {
        Ok(answer) => elsewhere(move || serde_json::to_vec(&answer).unwrap_or_default()).await,
        Err(refusal) => Err(refusal),
    };
    let (code, body) = match written {
        Ok(body) => (StatusCode::OK, body),
        Err(refusal) => {
            let code = StatusCode::from_u16(refusal.code);
            let body = serde_json::to_vec(&refusal).unwrap_or_default();
            (code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), body)
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

impl Desk {
    /// What is told in the log of single decisions.
    #[must_use]
    pub fn switches(&self) -> &Switches {
        &self.switches
    }

    /// A scheduler works, and is asked through this line.
    pub(crate) fn open(
        &self,
        line: &mpsc::Sender<Message>,
        client: &Client,
        configuration: &Configuration,
    ) {
        let configuration = Arc::new(configuration.clone());
        let clerk = Clerk { line: line.downgrade(), client: client.clone(), configuration };
        *self.clerk.lock().unwrap_or_else(PoisonError::into_inner) = Some(clerk);
    }

    fn clerk(&self) -> Result<Clerk, Refusal> {
        let clerk = self.clerk.lock().unwrap_or_else(PoisonError::into_inner);
        clerk.clone().ok_or_else(Refusal::idle)
    }

    async fn why(&self, query: &Query) -> Result<Answer, Refusal> {
        if let Some(name) = query.get("reservation").filter(|name| !name.is_empty()) {
            return self.why_reservation(name).await;
        }
        let usage = "say which pod: /debug/why?namespace=NAMESPACE&pod=NAME, or which Reservation: \
                     /debug/why?reservation=NAME, or which gang: \
                     /debug/why?namespace=NAMESPACE&gang=NAME";
        let bad = || Refusal::new(StatusCode::BAD_REQUEST, usage);
        let namespace = query.get("namespace").map_or("default", String::as_str);
        if let Some(name) = query.get("gang").filter(|name| !name.is_empty()) {
            return self.why_gang(namespace, name).await;
        }
        let name = query.get("pod").filter(|name| !name.is_empty()).ok_or_else(bad)?;
        let clerk = self.clerk()?;
        let pod = why::find(&clerk.client, namespace, name).await?;
        let answer = Answer::begun(&pod, AnsweredBy::Scheduler, &clerk.configuration);
        let fact = PodFact::from(&pod);
        match fact.gang {
            Some(_) => self.why_member(answer, fact).await,
            None => self.explain(answer, fact, None).await,
        }
    }

    async fn why_reservation(&self, name: &str) -> Result<Answer, Refusal> {
        let clerk = self.clerk()?;
        let own = why::find_reservation(&clerk.client, name).await?;
        let asked = why::Asked::begun(&own, AnsweredBy::Scheduler, &clerk.configuration);
        let takes_over = asked.takes_over();
        let why::Asked { mut answer, fact } = asked;
        let Some(fact) = fact else { return Ok(answer) };
        let profile = answer.profile(&fact, &clerk.configuration).filter(|_| takes_over);
        // What is listed is large: one is listed at a time, until it is answered.
        let _listing = match profile {
            Some(_) => Some(self.listing.lock().await),
            None => None,
        };
        // Pods are not copied on the engine's thread; here all of them may be taken over.
        let listed = match profile {
            Some(profile) => {
                let configuration = &clerk.configuration;
                let listed = why::listed(&clerk.client, configuration, profile, &mut answer.unread);
                let ledger = listed.await;
                Some(ledger.map_err(WhyError::from)?)
            }
            None => None,
        };
        self.explain(answer, fact, listed).await
    }

    /// Explains what the engine's thread knows, or what objects add up to.
    async fn explain(
        &self,
        answer: Answer,
        fact: PodFact,
        listed: Option<Ledger>,
    ) -> Result<Answer, Refusal> {
        let work = move |asked: Asked| {
            let Asked { fact, answer, known, configuration } = asked;
            let Some(mut known) = known else { return answer };
            if let Some(ledger) = listed {
                known.ledger = ledger;
            }
            explained(answer, known, &fact, &configuration)
        };
        self.ask(answer, fact, work).await
    }

    /// Has an answer about a pod worked out, from a copy of what is known of it.
    pub(crate) async fn ask_about<A: Send + 'static>(
        &self,
        pod: &api::Pod,
        work: impl FnOnce(Asked) -> A + Send + 'static,
    ) -> Result<A, Refusal> {
        let answer = Answer::begun(pod, AnsweredBy::Scheduler, &self.clerk()?.configuration);
        self.ask(answer, PodFact::from(pod), work).await
    }

    async fn ask<A: Send + 'static>(
        &self,
        answer: Answer,
        fact: PodFact,
        work: impl FnOnce(Asked) -> A + Send + 'static,
    ) -> Result<A, Refusal> {
        let clerk = self.clerk()?;
        let configuration = clerk.configuration.clone();
        if answer.profile(&fact, &configuration).is_none() {
            return Ok(work(Asked { fact, answer, known: None, configuration }));
        }
        let (uid, turn) = (fact.uid.clone(), self.turn().await);
        let known = clerk.look(turn, move |core, now| Known::of(core, &uid, now)).await?;
        let asked = |known| Asked { fact, answer, known: Some(known), configuration };
        known.worked_out(move |known| work(asked(known))).await
    }

    async fn queue(&self, query: &Query) -> Result<QueueView, Refusal> {
        let namespace = query.get("namespace").cloned();
        let turn = self.turn().await;
        let look = move |core: &Core, now| QueueCopy::of(core, namespace.as_deref(), now);
        self.clerk()?.look(turn, look).await?.worked_out(QueueCopy::into_view).await
    }

    async fn ledger(&self, query: &Query) -> Result<LedgerView, Refusal> {
        let node = query.get("node").cloned();
        let turn = self.turn().await;
        let look = |core: &Core, _| core.engine().ledger().snapshot(None);
        let ledger = self.clerk()?.look(turn, look).await?;
        if let Some(node) = &node
            && ledger.what.nodes.find(node).is_none()
        {
            let text = format!("there is no node {node}");
            return Err(Refusal::new(StatusCode::NOT_FOUND, text));
        }
        ledger.worked_out(move |ledger| LedgerView::of(&ledger, node.as_deref())).await
    }

    async fn decisions(&self) -> Result<Vec<DecisionView>, Refusal> {
        let turn = self.turn().await;
        let look = |core: &Core, _| core.decided().cloned().collect::<Vec<Decided>>();
        let decided = self.clerk()?.look(turn, look).await?;
        decided.worked_out(|decided| decided.iter().map(Into::into).collect()).await
    }

    async fn audit(&self, query: &Query) -> Result<AuditView, Refusal> {
        let asked = About::of(query);
        let turn = self.turn().await;
        let look = move |core: &Core, _| AuditCopy::of(core, &asked);
        self.clerk()?.look(turn, look).await?.worked_out(AuditCopy::into_view).await
    }

    /// Waits until no other question is answered.
    async fn turn(&self) -> Held {
        Arc::new(self.turn.clone().lock_owned().await)
    }
}

/// The turn of one question. It goes where the work goes: whoever asked may hang up meanwhile.
type Held = Arc<OwnedMutexGuard<()>>;

/// What was seen on the engine's thread.
struct Seen<R> {
    what: R,
    turn: Held,
}

impl Clerk {
    /// Looks, where somebody still wants to know when it comes to that.
    async fn look<R: Send + 'static>(
        &self,
        turn: Held,
        look: impl FnOnce(&Core, Moment) -> R + Send + 'static,
    ) -> Result<Seen<R>, Refusal> {
        let line = self.line.upgrade().ok_or_else(Refusal::idle)?;
        let (tell, told) = oneshot::channel();
        let (clock, runtime) = (self.client.clock().clone(), Handle::current());
        let look = Look(Box::new(move |core, now| {
            if tell.is_closed() {
                return;
            }
            let begun = clock.monotonic();
            let what = core.is_filled().then(|| look(core, now));
            let rest = clock.monotonic().saturating_sub(begun) * REST_FACTOR;
            if !rest.is_zero() {
                let held = turn.clone();
                runtime.spawn(async move {
                    clock.sleep(rest).await;
                    drop(held);
                });
            }
            // Whoever asked may be gone by now.
            let _ = tell.send(what.map(|what| Seen { what, turn }));
        }));
        line.send(Message::Look(look)).await.map_err(|_| Refusal::idle())?;
        told.await.map_err(|_| Refusal::idle())?.ok_or_else(Refusal::early)
    }
}

impl<R: Send + 'static> Seen<R> {
    /// Works out an answer of it.
    async fn worked_out<A: Send + 'static>(
        self,
        work: impl FnOnce(R) -> A + Send + 'static,
    ) -> Result<A, Refusal> {
        let Self { what, turn } = self;
        let work = move || {
            let answer = work(what);
            drop(turn);
            answer
        };
        elsewhere(work).await
    }
}

/// Does some work where nobody waits for it but the one who asked.
async fn elsewhere<A: Send + 'static>(
    work: impl FnOnce() -> A + Send + 'static,
) -> Result<A, Refusal> {
    let failed = |error: tokio::task::JoinError| {
        let text = format!("the answer could not be worked out: {error}");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    };
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

impl Known {
    pub(crate) fn of(core: &Core, uid: &Uid, now: Moment) -> Self {
        let engine = core.engine();
        let claim = engine.ledger().pod(uid).and_then(|row| row.node());
        let decided = claim.map(|node| {
            let node = engine.ledger().nodes.name(node).to_owned();
            Standing::Decided { node }
        });
        let queued = || engine.queue().standing(uid).map(|own| views::standing(own, now));
        let gang = engine.ledger().pod(uid).and_then(|row| row.gang.as_ref());
        let kept = gang.filter(|_| engine.ledger().gangs.are_kept());
        let (group, members) = kept.map(|own| gang::KnownGroup::of(core, &own.gang, now)).unzip();
        let uids = || members.iter().flatten().chain([uid]);
        Self {
            ledger: engine.ledger().snapshot(uids()),
            now,
            standing: decided.or_else(queued),
            told: core.told(uid).cloned(),
            resort: core.resort(uid).cloned(),
            holders: holders(engine.ledger(), uids()),
            group,
        }
    }
}

/// Who uses the quotas that pods are held against.
fn holders<'a>(
    ledger: &Ledger,
    uids: impl Iterator<Item = &'a Uid>,
) -> BTreeMap<Box<str>, QuotaHolders> {
    let quotas: BTreeSet<Box<str>> = uids.flat_map(|uid| ledger.quotas_of(uid)).collect();
    let of = |quota: &str| ledger.quota_holders(quota, why::HOLDERS_MAX);
    quotas.into_iter().map(|quota| (quota.clone(), of(&quota))).collect()
}

/// What is known, said of one pod.
fn explained(
    mut answer: Answer,
    known: Known,
    pod: &PodFact,
    configuration: &Configuration,
) -> Answer {
    let Known { mut ledger, now, standing: own, told, mut holders, .. } = known;
    let is_decided = matches!(own, Some(Standing::Decided { .. }));
    if let State::Waiting { standing, .. } = &mut answer.state {
        *standing = own;
    }
    if let Some(profile) = answer.profile(pod, configuration).filter(|_| !is_decided) {
        answer.name_extenders(pod, configuration);
        answer.ask_nodes(&mut ledger, profile, pod, now);
        let holders = |_: &Ledger, quota: &str| holders.remove(quota).unwrap_or_default();
        let is_over = answer.ask_quota(&mut ledger, profile, pod, holders).is_some();
        let fitting = answer.nodes.as_ref().map_or(0, |nodes| nodes.fitting);
        // Why no node could take it says nothing where one can, unlike why it was not written.
        let is_refused = is_over || fitting == 0 || !answer.extenders.is_empty();
        let told = told.filter(|told| is_refused || *told.reason == *SCHEDULER_ERROR);
        answer.message = told.map(|told| told.message.as_ref().into());
    }
    answer
}
