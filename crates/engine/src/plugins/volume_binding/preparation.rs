//! Getting the volumes of a pod ready before it is bound.
//!
//! A preparation begins with promises and ends when every claim of the pod is bound. In between,
//! others write what is asked of them, and the facts tell how far it got. It holds no clock: how
//! long it may take is for whoever began it.

use super::super::volume_restrictions::volumes;
use super::VolumeBinding;
use super::plan::{Binding, reaches_volume};
use crate::fact::{ClaimReference, StorageFact, Version};
use crate::ledger::{Ask, Ledger, NodeId, NodeIndex};

/// A write that gets a volume ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// A volume is kept for a claim.
    KeepVolume {
        /// Name of the volume.
        volume: Box<str>,
        /// The claim.
        claim: ClaimReference,
    },
    /// A volume for a claim is to be made for a node.
    SelectNode {
        /// Namespace of the claim.
        namespace: Box<str>,
        /// Name of the claim.
        claim: Box<str>,
        /// Name of the node.
        node: Box<str>,
    },
}

/// Why volumes cannot be got ready. The texts are kube-scheduler's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It took too long.
    #[error("binding volumes: context deadline exceeded")]
    Late,
    /// A claim is gone.
    #[error(
        "binding volumes: failed to check {what}: persistentvolumeclaims \"{namespace}/{claim}\" \
         not found",
        what = if *.is_made { "provisioning pvc" } else { "binding" }
    )]
    ClaimGone {
        /// Its namespace.
        namespace: Box<str>,
        /// The claim.
        claim: Box<str>,
        /// Whether a volume is made for it.
        is_made: bool,
    },
    /// A volume is not kept for the claim any longer.
    #[error("binding volumes: ClaimRef got reset for pv {volume:?}")]
    Unkept {
        /// The volume.
        volume: Box<str>,
    },
    /// Nobody could make a volume, and says so by taking back the choice of the node.
    #[error("binding volumes: provisioning failed for PVC {claim:?}")]
    NotMade {
        /// The claim.
        claim: Box<str>,
    },
    /// A volume was made where the node does not reach it.
    #[error(
        "binding volumes: pv {volume:?} node affinity doesn't match node {node:?}: no matching \
         NodeSelectorTerms"
    )]
    NotReached {
        /// The volume.
        volume: Box<str>,
        /// The node.
        node: Box<str>,
    },
    /// The node is gone.
    #[error("binding volumes: failed to get node {node:?}: node {node:?} not found")]
    NodeGone {
        /// The node.
        node: Box<str>,
    },
}

/// How far a preparation got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Something is still missing.
    Waiting,
    /// The pod can be bound.
    Ready,
    /// It never will be ready this way.
    Failed(Failure),
}

/// One claim that is to be bound.
#[derive(Debug, Clone)]
struct Wanted {
    claim: Box<str>,
    /// The volume that it is to get; none where one is made.
    volume: Option<Box<str>>,
    /// Which of the writes fulfils the promise; none where that was done before.
    write: Option<usize>,
    /// The version that the write made, once that is known.
    written: Option<u64>,
    /// Whether the promise was seen fulfilled: what is gone after that was taken back.
    seen: bool,
    /// The volume that the claim was last seen bound to.
    bound: Option<Box<str>>,
}

/// The volumes of one pod, on their way.
#[derive(Debug, Clone)]
pub struct Preparation {
    namespace: Box<str>,
    node: NodeId,
    node_name: Box<str>,
    wanted: Vec<Wanted>,
}

impl Preparation {
    /// Promises the claims of a pod what they get on a node, and says what has to be written; none
    /// where everything is ready.
    pub fn begin(ledger: &mut Ledger, ask: Ask, node: NodeIndex) -> Option<(Self, Vec<Write>)> {
        let namespace = volumes(ledger, ask)?.namespace.clone();
        let plan = VolumeBinding.plan(ledger, ask, node).filter(|plan| !plan.is_empty())?;
        let node_name: Box<str> = ledger.nodes.name(node).into();
        let (mut writes, mut wanted) = (Vec::new(), Vec::new());
        for binding in plan {
            let key = (namespace.clone(), binding.claim.clone());
            let claim = ledger.storage.claim(&namespace, &binding.claim);
            let uid = claim.map(|claim| claim.uid.clone()).unwrap_or_default();
            let selected = claim.is_some_and(|claim| claim.selected_node.is_some());
            let write = (binding.volume.is_some() || !selected).then_some(writes.len());
            match &binding.volume {
                Some(volume) => {
                    let claim = ClaimReference { namespace: key.0, name: key.1, uid };
                    ledger.storage.promises.promise_volume(volume, claim.clone());
                    writes.push(Write::KeepVolume { volume: volume.clone(), claim });
                }
                None => {
                    ledger.storage.promises.promise_node(key.clone(), &node_name);
                    if !selected {
                        let (namespace, claim) = key;
                        let node = node_name.clone();
                        writes.push(Write::SelectNode { namespace, claim, node });
                    }
                }
            }
            let Binding { claim, volume } = binding;
            wanted.push(Wanted {
                claim,
                volume,
                write,
                written: None,
                seen: selected,
                bound: None,
            });
        }
        let node = ledger.nodes.id(node);
        Some((Self { namespace, node, node_name, wanted }, writes))
    }

    /// Ends the promises: they are kept, or will not be.
    pub fn end(self, ledger: &mut Ledger) {
        let promises = &mut ledger.storage.promises;
        for Wanted { claim, volume, .. } in self.wanted {
            match volume {
                Some(volume) => promises.release_volume(&volume),
                None => promises.release_node(&(self.namespace.clone(), claim)),
            }
        }
    }

    /// The writes are done, and made these versions, in their order; 0 is none that can be told.
    pub fn written(&mut self, versions: &[u64]) {
        for wanted in &mut self.wanted {
            let version = wanted.write.and_then(|write| versions.get(write).copied());
            wanted.written = version.filter(|version| *version > 0);
        }
    }

    /// Whether a fact may bring it further.
    #[must_use]
    pub fn concerns(&self, fact: &StorageFact) -> bool {
        match fact {
            StorageFact::Claim(namespace, name, _) => {
                *namespace == self.namespace && self.wanted.iter().any(|own| own.claim == *name)
            }
            // Which volume was made for a claim, the claim says when it is bound.
            StorageFact::Volume(name, _) => self
                .wanted
                .iter()
                .any(|own| own.volume.as_ref() == Some(name) || own.bound.as_ref() == Some(name)),
            _ => false,
        }
    }

    /// The node.
    #[must_use]
    pub fn node_name(&self) -> &str {
        &self.node_name
    }

    /// How far it got, as the ledger tells now.
    pub fn progress(&mut self, ledger: &Ledger) -> Progress {
        let node = self.node.index;
        if !ledger.nodes.is_there(self.node) || !ledger.nodes.present().contains(node) {
            return Progress::Failed(Failure::NodeGone { node: self.node_name.clone() });
        }
        let mut all = Progress::Ready;
        for wanted in &mut self.wanted {
            match wanted.progress(ledger, &self.namespace, (node, &self.node_name)) {
                Progress::Ready => {}
                Progress::Waiting => all = Progress::Waiting,
                failed @ Progress::Failed(_) => return failed,
            }
        }
        all
    }
}

impl Wanted {
    fn progress(
        &mut self,
        ledger: &Ledger,
        namespace: &str,
        (node, node_name): (NodeIndex, &str),
    ) -> Progress {
        let Some(claim) = ledger.storage.claim(namespace, &self.claim) else {
            return Progress::Failed(Failure::ClaimGone {
                namespace: namespace.into(),
                claim: self.claim.clone(),
                is_made: self.volume.is_none(),
            });
        };
        let (holds, version) = match &self.volume {
            Some(volume) => {
                let volume = ledger.storage.volume(volume);
                let kept = volume.and_then(|volume| volume.claim.as_ref());
                let holds = kept
                    .is_some_and(|kept| *kept.name == *self.claim && *kept.namespace == *namespace);
                (holds, volume.map(|volume| volume.version))
            }
            None => (claim.selected_node.as_deref() == Some(node_name), Some(claim.version)),
        };
        // What happened between two looks is not told: that it was so follows from what is later.
        let is_later = |(written, Version(version))| version >= written;
        self.seen |= holds || self.written.zip(version).is_some_and(is_later);
        if self.seen && !holds {
            return Progress::Failed(match &self.volume {
                Some(volume) => Failure::Unkept { volume: volume.clone() },
                None => Failure::NotMade { claim: self.claim.clone() },
            });
        }
        self.bound = claim.bound().map(Into::into);
        let Some(name) = claim.bound() else { return Progress::Waiting };
        let Some(volume) = ledger.storage.volume(name) else { return Progress::Waiting };
        match reaches_volume(ledger, node, volume) {
            true => Progress::Ready,
            false => Progress::Failed(Failure::NotReached {
                volume: name.into(),
                node: node_name.into(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{Fact, NodeFact};

    #[test]
    fn only_its_own_claims_and_volumes_bring_a_preparation_further() {
        let wanted = |claim: &str, volume: Option<&str>, bound: Option<&str>| Wanted {
            claim: claim.into(),
            volume: volume.map(Into::into),
            write: None,
            written: None,
            seen: false,
            bound: bound.map(Into::into),
        };
        let mut ledger = Ledger::default();
        ledger.apply(Fact::Node(NodeFact { name: "node".into(), ..NodeFact::default() }));
        let preparation = Preparation {
            namespace: "default".into(),
            node: ledger.nodes.id(NodeIndex::at(0)),
            node_name: "node".into(),
            wanted: vec![
                wanted("kept", Some("disk"), None),
                wanted("made", None, None),
                wanted("done", None, Some("new")),
            ],
        };
        let volume = |name: &str| StorageFact::Volume(name.into(), None);
        let claim =
            |namespace: &str, name: &str| StorageFact::Claim(namespace.into(), name.into(), None);
        let check = |fact: StorageFact, expected: bool| {
            assert_eq!(preparation.concerns(&fact), expected, "{fact:?}");
        };
        check(claim("default", "made"), true);
        check(claim("other", "made"), false);
        check(claim("default", "another"), false);
        check(volume("disk"), true);
        check(volume("new"), true);
        check(volume("another"), false);
        check(StorageFact::Class("class".into(), None), false);
    }
}
