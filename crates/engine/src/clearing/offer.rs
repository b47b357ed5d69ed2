//! What nodes offer: how many members they could take when units go.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _};

use rustc_hash::FxBuildHasher;

use super::plan::place_on;
use super::unit::{Importance, Left, Unit};
use super::{Aim, Deciders, Member};
use crate::ledger::{Ask, Charged, Ledger, NodeIndex};
use crate::search::Work;
use crate::speculate::Speculation;

/// So many more members fit on a node when these are gone as well.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) units: Vec<Unit>,
    pub(super) members: usize,
}

impl Step {
    /// What is lost for each member that gets a place.
    pub(super) fn worth(&self) -> Importance {
        Importance::of(&self.units, self.members)
    }
}

/// What a node offers, the cheapest first.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) node: NodeIndex,
    pub(super) steps: Vec<Step>,
}

/// All that the answer of a node to a member follows from.
type Kind = (Ask, u64, i32, Option<Charged>, usize);

/// Members that are alike, of which a node is asked about one after the other until it takes no more.
pub(super) struct Kinds {
    members: Vec<Vec<usize>>,
    /// How many of each kind have a place.
    placed: Vec<usize>,
}

impl Kinds {
    pub(super) fn of(ledger: &Ledger, members: &[Member]) -> Self {
        let mut kinds: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (number, member) in members.iter().enumerate() {
            if let Some(kind) = kind(ledger, member) {
                kinds.entry(FxBuildHasher.hash_one(kind)).or_default().push(number);
            }
        }
        let mut members: Vec<Vec<usize>> = kinds.into_values().collect();
        // Members come in the order in which they get places.
        members.sort_unstable();
        let placed = vec![0; members.len()];
        Self { members, placed }
    }

    /// Nobody has a place.
    pub(super) fn renew(&mut self) {
        self.placed.fill(0);
    }

    fn is_left(&self) -> bool {
        self.members.iter().zip(&self.placed).any(|(own, placed)| *placed < own.len())
    }
}

fn kind(ledger: &Ledger, (uid, profile): &Member) -> Option<Kind> {
    let row = ledger.pod(uid)?;
    let mut alike = FxBuildHasher.build_hasher();
    ledger.hash_alike(row.ask, &mut alike);
    Some((row.ask.anonymous(), alike.finish(), row.priority, row.charged(), *profile))
}

impl Offer {
    /// How many members a node takes when one of its units after the other goes; none where that is
    /// nobody. Quotas are not asked: room in them is made anywhere.
    pub(super) fn of(
        thought: &mut Speculation<'_>,
        deciders: &Deciders,
        (node, units): (NodeIndex, Vec<Unit>),
        (members, kinds, aim): (&[Member], &mut Kinds, Aim<'_>),
        work: &mut Work,
    ) -> Option<Self> {
        let (mut steps, mut gone) = (Vec::new(), Vec::new());
        for unit in units {
            work.spend(unit.pods.len());
            let Some(unit) = unit_by_now(thought, (unit, node), aim, work) else { continue };
            unit.leave(thought);
            gone.push(unit);
            let mut count = 0;
            for (own, placed) in kinds.members.iter().zip(&mut kinds.placed) {
                while let Some(number) = own.get(*placed) {
                    work.spend(1);
                    if place_on(thought, deciders, &members[*number], node).is_none() {
                        break;
                    }
                    (*placed, count) = (*placed + 1, count + 1);
                }
            }
            if count > 0 {
                steps.push(Step { units: std::mem::take(&mut gone), members: count });
            }
            if !kinds.is_left() {
                break;
            }
        }
        (!steps.is_empty()).then_some(Self { node, steps })
    }

    pub(super) fn members(&self) -> usize {
        self.steps.iter().map(|step| step.members).sum()
    }
}

/// Who goes of a unit of a node, where others went before; none where it stays. What is offered goes when it
/// is its turn, as long as nobody else has gone: a node would be asked for the same without end otherwise.
fn unit_by_now(
    thought: &mut Speculation<'_>,
    (unit, node): (Unit, NodeIndex),
    aim: Aim<'_>,
    work: &mut Work,
) -> Option<Unit> {
    if aim.rule.is_lasting(&unit) {
        return Some(unit);
    }
    let own = unit.by_now(thought.ledger_mut(), node, aim, &mut Left::new(), work).ok()??;
    // Which disruption budgets it breaks was found out beside the others of the node.
    Some(if own.pods == unit.pods { unit } else { own })
}
