//! Pods that have to go for their quota or their gang.

use api::Pod;
use chassis::client::{Access, DeleteOptions, Error, Eviction};

use super::{Hands, Place};
use crate::dismissals::{DismissOrder, Dismissal};
use crate::message::Message;

/// The cause of a refusal where a disruption budget does not let a pod go.
const BUDGET: &str = "DisruptionBudget";

/// Whether a disruption budget does not let a pod go for now.
fn is_budget(error: &Error) -> bool {
    let is_cause = |refusal: &chassis::client::Refusal| {
        refusal.code == 429 && refusal.causes.iter().any(|cause| cause.reason == BUDGET)
    };
    error.refusal().is_some_and(is_cause)
}

impl Hands {
    /// Asks for a pod to go. Where a disruption budget refuses that, it is not asked for again at once.
    pub(super) async fn dismiss(&self, order: DismissOrder, place: &mut Place) -> Message {
        let DismissOrder { pod, cause, object, .. } = &order;
        let pods: Access<Pod> = self.client.within(&pod.namespace);
        let eviction = &Eviction { pod: &pod.name, options: DeleteOptions::of(&pod.uid.0) };
        let evict = async || match pods.evict(eviction).await {
            Err(error) if is_budget(&error) => Ok(Some(error)),
            answer => answer.map(|()| None),
        };
        let answer = match self.again(&pod.namespace, place, evict).await {
            Ok(None) => {
                self.notes.dismissed(&order);
                Dismissal::Goes
            }
            Ok(Some(refusal)) => {
                let pod = format_args!("{}/{}", pod.namespace, pod.name);
                let (cause, object) = (cause.word(), object.0.as_str());
                tracing::warn!(%pod, cause, object, %refusal, "a pod that has to go does not go yet");
                Dismissal::Stays
            }
            // It is gone, or another one has its name.
            Err(error) if error.is_conflict() || error.is_not_found() => Dismissal::Goes,
            Err(error) => {
                self.warn(pod, &error, "cannot evict a pod that has to go");
                Dismissal::Stays
            }
        };
        Message::Dismissed(order.pod.uid, answer)
    }
}
