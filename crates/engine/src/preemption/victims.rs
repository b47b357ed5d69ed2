//! Who has to leave a node so that a pod fits.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::choice::Loss;
use super::{Candidate, Pusher};
use crate::fact::Uid;
use crate::judge::Trial;
use crate::ledger::{Ledger, NodeIndex, Passing, PodRow, Way};
use crate::moment::Moment;
use crate::plugin::Plugin;
use crate::reason::Refusal;

/// A pod that might have to go.
struct Victim {
    uid: Uid,
    priority: i32,
    started: Moment,
    is_spared: bool,
    pod: Passing,
}

/// Who has to leave a node, or who refuses the pod even when all have left; nobody where there are
/// none who could.
pub(super) fn on(
    trial: &mut Trial<'_>,
    node: NodeIndex,
    pusher: &Pusher,
    others: &[Passing],
    now: Moment,
) -> Result<Candidate, Option<(Plugin, Refusal)>> {
    let mut lower = lower(trial.ledger(), node, pusher, now);
    lower.retain(|victim| !(pusher.spares && victim.is_spared));
    if lower.is_empty() {
        return Err(None);
    }
    let mark = trial.mark();
    for victim in &lower {
        trial.shift(victim.pod, node, Way::Out);
    }
    if let Err(refusal) = trial.place_on(others, node) {
        trial.take_back(mark);
        return Err(Some(refusal));
    }
    lower.sort_by_key(importance);
    let (violating, harmless): (Vec<Victim>, Vec<Victim>) = split(trial.ledger(), lower);
    let mut victims = Vec::new();
    let mut violations = 0;
    // Who was refused a moment ago is so again, and so is everybody who is like it.
    let mut refused = None;
    let violates = std::iter::repeat_n(1, violating.len()).chain(std::iter::repeat(0));
    for (victim, violates) in violating.into_iter().chain(harmless).zip(violates) {
        if refused != Some(victim.pod) {
            trial.shift(victim.pod, node, Way::In);
            if trial.still_takes(others, node) {
                refused = None;
                continue;
            }
            trial.shift(victim.pod, node, Way::Out);
            refused = Some(victim.pod);
        }
        victims.push(victim);
        violations += violates;
    }
    for victim in &victims {
        trial.shift(victim.pod, node, Way::In);
    }
    trial.forget(mark);
    if victims.is_empty() {
        return Err(None);
    }
    victims.sort_by_key(importance);
    let loss = Loss::new(violations, victims.iter().map(|one| (one.priority, one.started)));
    let ledger = trial.ledger();
    let row = |uid: &Uid| -> &PodRow { ledger.pod(uid).expect("no pod goes while others think") };
    let victims = victims.iter().map(|one| super::Victim::new(&one.uid, row(&one.uid))).collect();
    Ok(Candidate { node, victims, violations, loss })
}

/// Those of a node whose priority is lower, but for those that somebody who only borrows leaves alone.
fn lower(ledger: &Ledger, node: NodeIndex, pusher: &Pusher, now: Moment) -> Vec<Victim> {
    let lower = ledger.residents.below(node, pusher.priority).iter();
    let is_owed = |row: &&PodRow| pusher.borrower.as_ref().is_some_and(|own| ledger.owes(own, row));
    let victim = |(priority, uid): &(i32, Uid)| {
        // What is held is not for others, and a reservation is no pod that could be deleted.
        let row = ledger.pod(uid).filter(|row| !row.is_reservation() && !is_owed(row))?;
        // One that has not started yet would be the first to go.
        let started = row.started.unwrap_or(now);
        let (uid, priority, is_spared) = (uid.clone(), *priority, row.is_spared);
        Some(Victim { uid, priority, started, is_spared, pod: row.passing() })
    };
    lower.filter_map(victim).collect()
}

/// The more important ones come first: by priority, then by how long they have been running. Of
/// those that are equal in both, the order is that of the ledger.
fn importance(victim: &Victim) -> (Reverse<i32>, Moment) {
    (Reverse(victim.priority), victim.started)
}

/// Those whose going would break a disruption budget if all those before them went as well, and
/// the others.
fn split(ledger: &Ledger, victims: Vec<Victim>) -> (Vec<Victim>, Vec<Victim>) {
    if ledger.budgets.is_empty() {
        return (Vec::new(), victims);
    }
    let mut left = BTreeMap::new();
    victims.into_iter().partition(|victim| breaks_budget(ledger, &victim.uid, &mut left))
}

/// Whether the going of a pod breaks a disruption budget, of which so much is left.
pub(crate) fn breaks_budget(
    ledger: &Ledger,
    uid: &Uid,
    left: &mut BTreeMap<(Box<str>, Box<str>), i32>,
) -> bool {
    if ledger.budgets.is_empty() {
        return false;
    }
    let Some(row) = ledger.pod(uid) else { return false };
    let (crowds, identity) = (&ledger.terms.crowds, row.ask.identity);
    if !crowds.is_labelled(identity) {
        return false;
    }
    let label = |key: &str| crowds.label_of(identity, key, &ledger.symbols);
    let mut breaks = false;
    for (name, budget) in ledger.budgets.within(&row.namespace) {
        let meant = !budget.pods.is_everything() && budget.pods.matches(label);
        if !meant || budget.going.contains(&row.name) {
            continue;
        }
        let left = left.entry((row.namespace.clone(), name.into())).or_insert(budget.allowed);
        *left = left.saturating_sub(1);
        breaks |= *left < 0;
    }
    breaks
}
