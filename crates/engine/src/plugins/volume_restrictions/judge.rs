//! Claims that are for one pod, while pods that use them come and go.

use super::{disk_is_taken, disks, volumes};
use crate::judge::{Judge, Judging};
use crate::ledger::{Ask, Ledger, NodeIndex, Passing, Way};
use crate::needs::{Disk, Volume, Volumes};
use crate::pool::Id;
use crate::reason::{Code, Reason, Refusal, VolumeReason};

struct InUse {
    own: Id<Volumes>,
    /// Claims of the pod that are for one pod, those in use first.
    claims: Vec<Box<str>>,
    /// How many of them are in use. Each counts once at first, and then as often as pods that use
    /// it come and go, as it does upstream.
    uses: i64,
}

/// Names of claims that others may name as well.
fn claims(volumes: &Volumes) -> impl Iterator<Item = &str> {
    volumes.volumes.iter().filter_map(|volume| match volume {
        Volume::Claim(name) => Some(&**name),
        _ => None,
    })
}

/// What is known of a pod's claims and disks.
pub(super) fn judge(ledger: &Ledger, ask: Ask) -> Judging {
    let (Some(own), Some(wanted)) = (ask.volumes, volumes(ledger, ask)) else {
        return Judging::Nothing;
    };
    let namespace = &wanted.namespace;
    let is_for_one = |name: &&str| {
        ledger.storage.claim(namespace, name).is_some_and(|claim| claim.is_for_one_pod())
    };
    let is_used = |name: &str| {
        ledger.storage.users(namespace, name).any(|node| ledger.nodes.present().contains(node))
    };
    let mut names: Vec<&str> = claims(wanted).filter(is_for_one).collect();
    names.sort_unstable();
    names.dedup();
    names.sort_by_key(|name| !is_used(name));
    let uses = names.iter().filter(|name| is_used(name)).count();
    let has_own_disk = disks(wanted).any(|disk| !matches!(disk, Disk::Shared { .. }));
    if uses == 0 && !has_own_disk {
        return Judging::Nothing;
    }
    let claims = names.into_iter().map(Into::into).collect();
    Judging::Whole(Box::new(InUse { own, claims, uses: i64::try_from(uses).unwrap_or(i64::MAX) }))
}

impl Judge for InUse {
    fn follow(&mut self, ledger: &Ledger, pod: Passing, _node: NodeIndex, way: Way) {
        let Some(theirs) = volumes(ledger, pod.ask) else { return };
        if theirs.namespace != ledger.asks.volumes.get(self.own).namespace {
            return;
        }
        let shared = claims(theirs).filter(|name| self.claims.iter().any(|own| **own == **name));
        self.uses += way.sign() * i64::try_from(shared.count()).unwrap_or(i64::MAX);
    }

    fn refusal(&self, ledger: &Ledger, node: NodeIndex) -> Option<Refusal> {
        let own = ledger.asks.volumes.get(self.own);
        let reason = if disk_is_taken(ledger, own, node) {
            VolumeReason::DiskTaken
        } else {
            let claim = self.claims.first().filter(|_| self.uses > 0)?;
            VolumeReason::InUse { claim: claim.clone() }
        };
        Some(Refusal::new(Code::Unschedulable, Reason::Volume(reason)))
    }
}
