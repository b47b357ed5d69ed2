//! Programs that are asked over HTTP which nodes a pod may get, how good those are, and to bind it.
//!
//! A pod that an extender cares for leaves the engine's turn as a question. What is asked in which
//! order and what the answers come to is in [`consultation`], without I/O; the questions are sent
//! here, one pod after the other, since extenders rely on that. Other pods go on meanwhile. A
//! question is dropped as soon as the engine asks another one: then nobody wants the answer.

pub mod consultation;
mod nodes;
mod wire;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::Pod;
use bytes::Bytes;
use chassis::client::{Access, Client, ResourceType};
use chassis::informer::How;
use chassis::outside::{Limits, Peer, PeerError, PostError};
use engine::fact::PodFact;
use engine::profile::Consulting;
use engine::turn::Advice;
use http::{StatusCode, Uri};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::bind::{Event, Unclear};
use crate::config::Extender;
use crate::message::{BindOrder, ConsultOrder, Message};
use consultation::{Consultation, Effect, is_interested};
use nodes::WholeNodes;
use wire::{Binding, Bound, Nodes, Scores};
pub use wire::{Filtered, Scored};

/// Longer answers are read on a thread of their own.
const READ_HERE_MAX: usize = 256 << 10;
/// How long an answer may be: whole nodes of a large cluster, and then some.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How long an answer may be that says whether a pod is bound: many may come at once.
const BOUND_BYTES_MAX: usize = 1 << 20;

/// About which pods extenders are asked before they get a node.
#[must_use]
pub fn consulting(extenders: &[Extender]) -> Consulting {
    let asked =
        extenders.iter().filter(|one| one.filter_verb.is_some() || one.prioritize.is_some());
    let mut resources = BTreeSet::new();
    let mut is_asked = false;
    for extender in asked {
        if extender.managed_resources.is_empty() {
            return Consulting::Always;
        }
        is_asked = true;
        resources.extend(extender.managed_resources.iter().map(|name| name.as_str().into()));
    }
    if is_asked { Consulting::Naming(resources) } else { Consulting::Never }
}

/// Which pods an extender binds; the others are bound as usual.
#[derive(Debug, Clone, Default)]
pub struct Binders(Option<Extender>);

/// Who binds a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Binder {
    /// We do, by a Binding.
    #[default]
    Server,
    /// An extender does.
    Extender,
    /// An extender does, or else we do.
    IgnorableExtender,
}

impl Binders {
    /// Who binds pods when these extenders are configured.
    #[must_use]
    pub fn of(extenders: &[Extender]) -> Self {
        Self(extenders.iter().find(|one| one.bind_verb.is_some()).cloned())
    }

    /// Who binds a pod that names these resources.
    #[must_use]
    pub fn of_pod(&self, extended: &[Box<str>]) -> Binder {
        match self.0.as_ref().filter(|own| is_interested(own, extended)) {
            None => Binder::Server,
            Some(own) if own.ignorable => Binder::IgnorableExtender,
            Some(_) => Binder::Extender,
        }
    }
}

/// Why an extender cannot be asked: what secures its connection cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("extender {url}: tlsConfig: {source}")]
pub struct ExtenderError {
    /// The extender.
    url: String,
    source: PeerError,
}

/// All extenders, with connections to them; clones share those.
#[derive(Clone)]
pub(crate) struct Extenders {
    extenders: Arc<[Extender]>,
    peers: Arc<[Peer]>,
    client: Client,
    nodes: Option<WholeNodes>,
}

/// Why there is no answer.
enum Failure {
    /// Nobody was reached.
    Nobody(String),
    /// The answer does not say what it should.
    Answered(String),
    /// None came: what was asked may be done or not, now or later.
    Unclear(String),
}

impl Failure {
    fn words(self) -> String {
        match self {
            Self::Nobody(words) | Self::Answered(words) | Self::Unclear(words) => words,
        }
    }
}

impl Extenders {
    /// Reads what secures the connections. None is made yet, and nothing is asked.
    ///
    /// # Errors
    /// When a certificate, a key or an authority cannot be read or used.
    pub(crate) fn new(extenders: &[Extender], client: &Client) -> Result<Self, ExtenderError> {
        let peer = |extender: &Extender| {
            let uri: Uri = extender.url_prefix.parse().unwrap_or_default();
            Peer::new(&uri, &extender.tls, extender.timeout, client.clock())
                .map_err(|source| ExtenderError { url: extender.url_prefix.clone(), source })
        };
        let peers = extenders.iter().map(peer).collect::<Result<_, _>>()?;
        Ok(Self { extenders: extenders.into(), peers, client: client.clone(), nodes: None })
    }

    /// The same extenders, who are asked for something only where that is allowed at that moment.
    pub(crate) fn guarded(self, may: impl Fn() -> bool + Clone + Send + Sync + 'static) -> Self {
        let peers = self.peers.iter().map(|peer| peer.guarded(may.clone())).collect();
        Self { peers, ..self }
    }

    /// Has nodes watched where an extender wants whole ones.
    pub(crate) fn watch(&mut self, how: How, tasks: &mut JoinSet<()>) {
        let asked = |one: &&Extender| one.filter_verb.is_some() || one.prioritize.is_some();
        if self.extenders.iter().filter(asked).any(|one| !one.knows_nodes) {
            let (nodes, watching) = WholeNodes::watch(&self.client, how);
            self.nodes = Some(nodes);
            tasks.spawn(watching);
        }
    }

    /// Asks about one pod after the other until no more questions come.
    pub(crate) async fn ask_all(
        self,
        mut questions: mpsc::Receiver<ConsultOrder>,
        answers: mpsc::Sender<Message>,
    ) {
        let mut next = questions.recv().await;
        while let Some(order) = next.take() {
            next = tokio::select! {
                biased;
                newer = questions.recv() => newer,
                advice = self.ask(&order) => {
                    // Who listens is gone only when everything ends.
                    let _ = answers.send(Message::Advised(order.ticket, advice)).await;
                    questions.recv().await
                }
            };
        }
    }

    async fn ask(&self, order: &ConsultOrder) -> Advice {
        match self.consult(order).await {
            Ok(advice) => advice,
            Err(why) => Advice::Failed(why.into()),
        }
    }

    async fn consult(&self, order: &ConsultOrder) -> Result<Advice, String> {
        let told = |error: chassis::client::Error| format!("asking extenders: {}", error.told());
        let pods: Access<Value> =
            self.client.access(ResourceType::of::<Pod>(), &order.pod.namespace);
        let mut whole = pods.get(&order.pod.name).await.map_err(told)?;
        nodes::trim(&mut whole);
        let pod = serde_json::to_vec(&whole).map_err(|error| error.to_string())?;
        let lean: Pod = serde_json::from_value(whole).map_err(|error| error.to_string())?;
        if *lean.metadata.uid != *order.pod.uid.0 {
            return Err("asking extenders: the pod is gone".to_owned());
        }
        let extended = PodFact::from(&lean).extended;
        let mut consultation = Consultation::new(&self.extenders, &extended, order.nodes.clone());
        loop {
            match consultation.step() {
                Effect::End(advice) => return Ok(advice),
                Effect::Filter(place) => {
                    let own = &self.extenders[place];
                    let verb = own.filter_verb.as_deref().unwrap_or_default();
                    let body = self.question(own, &pod, consultation.nodes()).await?;
                    let answer = self.post::<Filtered>(place, verb, body, ANSWER_BYTES_MAX).await;
                    consultation.filtered(place, answer.map_err(Failure::words));
                }
                Effect::Score(places) => {
                    for (place, answer) in self.score(&places, &pod, consultation.nodes()).await? {
                        consultation.scored(place, answer.map_err(Failure::words));
                    }
                }
            }
        }
    }

    /// What several extenders say at once of how good nodes are, in the order of the extenders.
    async fn score(
        &self,
        places: &[usize],
        pod: &[u8],
        nodes: &[Box<str>],
    ) -> Result<Vec<(usize, Result<Vec<Scored>, Failure>)>, String> {
        let mut asking = JoinSet::new();
        for place in places {
            let (own, place) = (&self.extenders[*place], *place);
            let body = self.question(own, pod, nodes).await?;
            let verb = own.prioritize.as_ref().map_or(String::new(), |one| one.verb.clone());
            let all = self.clone();
            asking.spawn(async move {
                let answer = all.post::<Scores>(place, &verb, body, ANSWER_BYTES_MAX).await;
                (place, answer.map(|scores| scores.0))
            });
        }
        let mut answers = asking.join_all().await;
        answers.sort_by_key(|(place, _)| *place);
        Ok(answers)
    }

    async fn question(
        &self,
        own: &Extender,
        pod: &[u8],
        names: &[Box<str>],
    ) -> Result<Bytes, String> {
        let Some(nodes) = self.nodes.as_ref().filter(|_| !own.knows_nodes) else {
            return Ok(wire::question(pod, Nodes::Names(names)));
        };
        let whole = nodes.named(names).await;
        let whole = whole.map_err(|error| format!("asking extenders: {}", error.told()))?;
        Ok(wire::question(pod, Nodes::Whole(&whole)))
    }

    /// Asks one extender, in the words of kube-scheduler where it fails.
    async fn post<T: Default + DeserializeOwned + Send + 'static>(
        &self,
        place: usize,
        verb: &str,
        body: Bytes,
        bytes_max: usize,
    ) -> Result<T, Failure> {
        let own = &self.extenders[place];
        let url = format!("{}/{verb}", own.url_prefix.trim_end_matches('/'));
        let bad = |error: http::uri::InvalidUri| Failure::Nobody(format!("{url}: {error}"));
        let uri: Uri = url.parse().map_err(bad)?;
        let limits = Limits { timeout: own.timeout, bytes_max };
        let (code, body) = match self.peers[place].post(&uri, body, limits).await {
            Ok(answer) => answer,
            Err(error @ (PostError::Unreachable(_) | PostError::NotAllowed)) => {
                return Err(Failure::Nobody(format!("Post \"{url}\": {error}")));
            }
            Err(error) => return Err(Failure::Unclear(format!("Post \"{url}\": {error}"))),
        };
        if code != StatusCode::OK {
            let code = code.as_u16();
            let words = format!("failed {verb} with extender at URL {url}, code {code}");
            return Err(Failure::Answered(words));
        }
        let read = if body.len() <= READ_HERE_MAX {
            wire::read(&body)
        } else {
            // Others have to be served meanwhile.
            let reading = tokio::task::spawn_blocking(move || wire::read(&body)).await;
            reading.map_err(|error| Failure::Answered(format!("extender {url:?}: {error}")))?
        };
        read.map_err(|error| {
            Failure::Answered(format!("extender {url:?} answers what is not understood: {error}"))
        })
    }

    /// Has the extender that binds pods bind one. What it says is believed when the pod shows it; none
    /// where it failed and is not needed.
    pub(crate) async fn bind(&self, order: &BindOrder) -> Option<Event> {
        let place = self.extenders.iter().position(|one| one.bind_verb.is_some())?;
        let own = &self.extenders[place];
        let verb = own.bind_verb.as_deref()?;
        let binding = Binding {
            pod_name: &order.pod.name,
            pod_namespace: &order.pod.namespace,
            pod_uid: &order.pod.uid.0,
            node: &order.node,
        };
        let body = serde_json::to_vec(&binding).unwrap_or_default();
        let event = match self.post::<Bound>(place, verb, body.into(), BOUND_BYTES_MAX).await {
            Ok(Bound { error }) if error.is_empty() => {
                let url = &own.url_prefix;
                let lie = format!("extender {url:?} says that it bound the pod, which has no node");
                return Some(Event::Conflicted(lie.into()));
            }
            Ok(Bound { error }) => Event::Conflicted(error.into()),
            Err(Failure::Answered(words)) => Event::Conflicted(words.into()),
            Err(Failure::Nobody(words)) => Event::Refused(words.into()),
            Err(Failure::Unclear(words)) => {
                // How long it may take, nobody knows.
                let (patience, lands_within) = (None, Duration::MAX);
                Event::Unclear(Unclear { words: words.into(), patience, lands_within })
            }
        };
        if own.ignorable {
            let error = format!("{event:?}");
            tracing::info!(extender = own.url_prefix, error, "an extender failed to bind; we do");
            return None;
        }
        Some(event)
    }
}

#[cfg(test)]
mod tests;
