//! Who uses a quota, and of how much.

use std::cmp::Reverse;

use api::elastic_quota::ROOT_QUOTA;

use crate::fact::{PodRef, Uid};
use crate::ledger::{Ledger, PodRow};
use crate::needs::Amounts;
use crate::quota::{ByResource, Register};

/// Parts of a whole in which shares are compared.
const PARTS: i128 = 1_000_000;

/// A pod that uses a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaHolder {
    /// Which.
    pub pod: PodRef,
    /// The quota that it is charged to itself.
    pub quota: Box<str>,
    /// Its node; none where that is not there.
    pub node: Option<Box<str>>,
    /// Higher goes first.
    pub priority: i32,
    /// What it is charged for.
    pub amounts: Amounts,
}

/// Pods that use a quota or one below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaHolders {
    /// The largest of them, the largest first.
    pub first: Vec<QuotaHolder>,
    /// How many there are.
    pub all: usize,
}

/// The quotas from one upwards to the last one that is there, below the root.
fn chain<'a>(register: &'a Register, quota: &'a str) -> impl Iterator<Item = &'a str> {
    let up = |name: &&'a str| register.get(name).map(|fact| &*fact.parent);
    // Where they lead in a circle, each is met once.
    let bound = register.iter().count() + 1;
    std::iter::successors(Some(quota), up).take_while(|name| *name != ROOT_QUOTA).take(bound)
}

/// The largest part of a whole that amounts are.
fn share(amounts: &Amounts, whole: &ByResource) -> i128 {
    let parts = whole
        .iter()
        .map(|(name, most)| i128::from(amounts.of(name)) * PARTS / i128::from(*most).max(1));
    parts.max().unwrap_or(0)
}

impl Ledger {
    /// The quotas that a pod is held against: its own, and those above it.
    #[must_use]
    pub fn quotas_of(&self, uid: &Uid) -> Vec<Box<str>> {
        let charged = self.pod(uid).and_then(PodRow::charged);
        let own = charged.and_then(|charged| self.quotas.quota(charged.belonging));
        let register = self.quotas.forest().register();
        own.map(|own| chain(register, &own.name).map(Into::into).collect()).unwrap_or_default()
    }

    /// The largest pods that use a quota or one below it, so many of them, by the share that each has of
    /// what the quota could use at most.
    #[must_use]
    pub fn quota_holders(&self, quota: &str, most: usize) -> QuotaHolders {
        let register = self.quotas.forest().register();
        let whole = register.get(quota).map(|fact| fact.max.clone()).unwrap_or_default();
        let mut all: Vec<(Reverse<i128>, &Uid, &PodRow, &str)> = Vec::new();
        for name in self.quotas.charged() {
            if quota != ROOT_QUOTA && !chain(register, name).any(|above| above == quota) {
                continue;
            }
            let users = self.quota_users(name).into_iter();
            all.extend(users.map(|(uid, row, own)| (Reverse(share(own, &whole)), uid, row, name)));
        }
        all.sort_by_key(|(share, _, row, _)| (*share, &row.namespace, &row.name));
        let holder = |(_, uid, row, name): &(Reverse<i128>, &Uid, &PodRow, &str)| QuotaHolder {
            pod: PodRef {
                uid: (*uid).clone(),
                namespace: row.namespace.clone(),
                name: row.name.clone(),
                is_reservation: row.is_reservation(),
            },
            quota: (*name).into(),
            node: row.node().map(|node| self.nodes.name(node).into()),
            priority: row.priority,
            amounts: self.charged_for(row).cloned().unwrap_or_default(),
        };
        let first = all.iter().take(most).map(holder).collect();
        QuotaHolders { first, all: all.len() }
    }
}
