//! VolumeBinding: a node reaches the volumes that claims are bound to, and there are volumes for
//! those that wait for a node, or some can be made.

mod claims;
mod plan;
mod preparation;

pub use plan::Binding;
pub use preparation::{Failure, Preparation, Progress, Write};

use super::volume_restrictions::{key, volumes};
use crate::fact::Claim;
use crate::judge::Judging;
use crate::ledger::{Ask, Ledger, NodeIndex};
use crate::needs::{Volume, Volumes};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Plugin, Reads};
use crate::reason::{Code, Reason, Refusal, VolumeReason};
use claims::Claims;

/// Refuses nodes that do not reach the volumes of a pod, or for which there are none.
#[derive(Debug, Clone, Copy)]
pub struct VolumeBinding;

impl VolumeBinding {
    /// What each claim of a pod that waits for a node would get on one; none where the node cannot
    /// take the pod.
    #[must_use]
    pub fn plan(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Vec<Binding>> {
        match volumes(ledger, ask) {
            Some(volumes) => Claims::new(ledger, volumes).plan(ledger, node).ok(),
            None => Some(Vec::new()),
        }
    }
}

/// What is wrong with a claim, whatever the node is.
fn wrong(volumes: &Volumes, volume: &Volume, claim: Option<&Claim>) -> Option<VolumeReason> {
    let name: Box<str> = volume.claim()?.into();
    let Some(claim) = claim else {
        return Some(match volume {
            Volume::Ephemeral { .. } => VolumeReason::NoEphemeralClaim { claim: name },
            _ => VolumeReason::NoClaim { claim: name },
        });
    };
    if claim.is_lost {
        let volume = claim.volume.clone().unwrap_or_default();
        return Some(VolumeReason::Lost { claim: name, volume });
    }
    if claim.is_going {
        return Some(VolumeReason::Deleting { claim: name });
    }
    match volume {
        Volume::Ephemeral { pod, uid, .. } if claim.controller.as_ref() != Some(uid) => {
            let (namespace, pod) = (volumes.namespace.clone(), pod.clone());
            Some(VolumeReason::NotOwned { namespace, claim: name, pod })
        }
        _ => None,
    }
}

impl Filter for VolumeBinding {
    fn plugin(&self) -> Plugin {
        Plugin::VolumeBinding
    }

    fn reads(&self) -> Reads {
        Reads::Cluster
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        key(ledger, ask)
    }

    fn admit(&self, ledger: &Ledger, ask: Ask) -> Result<(), Refusal> {
        let Some(volumes) = volumes(ledger, ask) else { return Ok(()) };
        let mut wrong = volumes.volumes.iter().filter_map(|volume| {
            let claim = ledger.storage.claim(&volumes.namespace, volume.claim()?);
            wrong(volumes, volume, claim)
        });
        let unbound = || {
            let claim = claims::immediate(ledger, volumes).next()?.into();
            Some(VolumeReason::Unbound { claim })
        };
        match wrong.next().or_else(unbound) {
            Some(reason) => Err(Refusal::new(Code::Unresolvable, Reason::Volume(reason))),
            None => Ok(()),
        }
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        let Some(volumes) = volumes(ledger, ask) else { return };
        let claims = Claims::new(ledger, volumes);
        if !claims.is_empty() {
            nodes.keep_where(|node| claims.plan(ledger, node).is_ok());
        }
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        let claims = Claims::new(ledger, volumes(ledger, ask)?);
        let reasons = claims.plan(ledger, node).err()?;
        let reasons = reasons.into_iter().map(Reason::Volume).collect();
        Some(Refusal { code: Code::Unresolvable, reasons })
    }

    /// Volumes are reached or not, whoever is on the node.
    fn judge(&self, _ledger: &Ledger, _ask: Ask) -> Judging {
        Judging::Fixed
    }
}
