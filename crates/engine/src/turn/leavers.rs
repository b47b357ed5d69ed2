//! Pods that have to go for others, from when that is decided: they are asked one after the other, and are seen to go
//! later still. Meanwhile nobody else is asked for the same room. And a controller may have made new members of a gang
//! before the last is asked: a gang that goes whole starts whole again, so that those who come wait for each other.

use std::collections::BTreeSet;

use api::pod_group::GangId;

use super::Engine;
use super::going_for::GoingFor;
use crate::fact::Uid;
use crate::ledger::Leaves;
use crate::moment::Moment;
use crate::preemption::Victim;

/// Who is being asked to go.
#[derive(Debug, Default)]
pub(super) struct Leavers(GoingFor);

impl Leavers {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Engine {
    /// These have to go for a pod.
    pub(super) fn see_off(&mut self, uid: &Uid, victims: &[Victim], now: Moment) {
        // Nobody may have been asked of those who had to go for it before.
        self.keep_leavers(uid, now);
        let victims: BTreeSet<Uid> = victims.iter().map(|own| own.pod.uid.clone()).collect();
        self.tell_leavers(&victims, Leaves::Soon, now);
        self.leavers.0.put(uid, victims);
    }

    /// Those who have to go for a pod were asked to. Where it waits no longer nobody knows whether they were.
    pub(super) fn leavers_are_asked(&mut self, uid: &Uid, now: Moment) {
        let waits = self.unbound.get(uid).is_some()
            && self.ledger.pod(uid).is_some_and(|row| row.node().is_none());
        match waits {
            true => drop(self.leavers.0.remove(uid)),
            false => self.keep_leavers(uid, now),
        }
    }

    /// Nobody has to go for a pod any longer: who was not asked yet stays, unless he has to go for another.
    pub(super) fn keep_leavers(&mut self, uid: &Uid, now: Moment) {
        let Some(mut own) = self.leavers.0.remove(uid) else { return };
        own.retain(|uid| self.leavers.0.askers(uid).next().is_none());
        self.tell_leavers(&own, Leaves::Not, now);
    }

    fn tell_leavers(&mut self, pods: &BTreeSet<Uid>, leaves: Leaves, now: Moment) {
        let gangs = pods.iter().filter_map(|uid| self.ledger.see_off(uid, leaves));
        let gangs: BTreeSet<GangId> = gangs.collect();
        if !gangs.is_empty() {
            self.settle_gangs(&gangs.into_iter().collect::<Vec<_>>(), now);
        }
    }
}
