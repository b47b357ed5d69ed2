//! Pods that have to go for their quota.

use api::Pod;
use chassis::client::{Access, DeleteOptions, Error, Eviction};

use super::{Hands, Place};
use crate::message::Message;
use crate::quotas::RevokeOrder;

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
    /// Asks for a pod to go, whose quota uses more than it may. Where a disruption budget refuses that, it is
    /// asked for again when the quota has used too much for as long once more.
    pub(super) async fn revoke(&self, order: RevokeOrder, place: &mut Place) -> Message {
        let RevokeOrder { pod, quota, .. } = &order;
        let pods: Access<Pod> = self.client.within(&pod.namespace);
        let eviction = &Eviction { pod: &pod.name, options: DeleteOptions::of(&pod.uid.0) };
        let evict = async || match pods.evict(eviction).await {
            Err(error) if is_budget(&error) => Ok(Some(error)),
            answer => answer.map(|()| None),
        };
        match self.again(&pod.namespace, place, evict).await {
            Ok(None) => self.notes.revoked(&order),
            Ok(Some(refusal)) => {
                let pod = format_args!("{}/{}", pod.namespace, pod.name);
                let quota = quota.0.as_str();
                tracing::warn!(%pod, quota, %refusal, "a pod does not go for its quota yet");
            }
            // It is gone, or another one has its name.
            Err(error) if error.is_conflict() => {}
            Err(error) => self.warn(pod, &error, "cannot evict a pod for its quota"),
        }
        Message::Revoked(order.pod.uid)
    }
}
