//! What became of pods lately: the last decisions, and the last moves through the queue with what
//! brought them. Of both only the last are kept, whatever there was.

use engine::fact::Uid;
use engine::queue::Move;
use serde::{Deserialize, Serialize};

use super::Query;
use super::views::{Decided, DecisionView, ROWS_MAX, Whose, time};
use crate::core::Core;

/// What became of pods lately.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditView {
    /// Decisions, the newest last.
    pub decisions: Vec<DecisionView>,
    /// Moves through the queue, the newest last.
    pub moves: Vec<MoveView>,
}

/// A move of a pod through the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MoveView {
    /// When it was.
    pub time: String,
    /// `Reservation` where it was one, and no pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The pod's namespace; nothing where it is gone by now, or a Reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The pod's name; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The pod's uid.
    pub uid: String,
    /// Where to: `active`, `backoff` or `unschedulable`.
    pub to: String,
    /// What brought it, as `scheduler_queue_incoming_pods_total` names it.
    pub cause: String,
}

/// Which pods are asked about.
pub(super) struct About {
    namespace: Option<String>,
    pod: Option<String>,
}

impl About {
    /// A pod, those of a namespace, or all.
    pub(super) fn of(query: &Query) -> Self {
        let given = |name: &str| query.get(name).filter(|own| !own.is_empty()).cloned();
        let (namespace, pod) = (given("namespace"), given("pod"));
        let namespace = namespace.or_else(|| pod.is_some().then(|| "default".to_owned()));
        Self { namespace, pod }
    }

    fn has(&self, whose: &Whose) -> bool {
        self.namespace.as_deref().is_none_or(|own| whose.is_within(own))
            && self.pod.as_deref().is_none_or(|own| own == whose.name)
    }

    fn is_all(&self) -> bool {
        self.namespace.is_none() && self.pod.is_none()
    }
}

/// What is copied, before it is put into words.
pub(super) struct AuditCopy {
    decisions: Vec<Decided>,
    /// With whose move it was, where the pod is still there.
    moves: Vec<(Move, Option<Whose>)>,
}

impl AuditCopy {
    /// The last of what became of these pods.
    pub(super) fn of(core: &Core, asked: &About) -> Self {
        let own = |decided: &&Decided| asked.is_all() || asked.has(&decided.whose());
        let mut decisions: Vec<Decided> =
            core.decided().rev().filter(own).take(ROWS_MAX).cloned().collect();
        decisions.reverse();
        let ledger = core.engine().ledger();
        let whose = |uid: &Uid| ledger.pod(uid).map(Whose::of);
        let moves = core.engine().queue().moves().iter().rev().filter_map(|own| {
            let whose = whose(&own.uid);
            let is_asked = match &whose {
                Some(whose) => asked.has(whose),
                None => asked.is_all(),
            };
            is_asked.then(|| (own.clone(), whose))
        });
        let mut moves: Vec<(Move, Option<Whose>)> = moves.take(ROWS_MAX).collect();
        moves.reverse();
        Self { decisions, moves }
    }

    /// The same for people.
    pub(super) fn into_view(self) -> AuditView {
        let moved = |(own, whose): (Move, Option<Whose>)| {
            let Move { uid, at, to, cause } = own;
            let (namespace, pod) = whose.clone().map(|own| (own.namespace, own.name)).unzip();
            MoveView {
                time: time(at),
                kind: whose.and_then(|own| own.kind),
                namespace: namespace.filter(|own| !own.is_empty()),
                pod,
                uid: uid.0.to_string(),
                to: to.name().to_owned(),
                cause: cause.to_owned(),
            }
        };
        AuditView {
            decisions: self.decisions.iter().map(Into::into).collect(),
            moves: self.moves.into_iter().map(moved).collect(),
        }
    }
}
