//! What is thought of: who has gone, and who has which place.

use super::unit::{Extent, Unit};
use super::{Deciders, Member, Party};
use crate::fact::Allotment;
use crate::gangs::again_max;
use crate::judge::Trial;
use crate::ledger::NodeIndex;
use crate::reservations::Place;
use crate::speculate::Speculation;

/// How many pods that move in thought cost as much as one that is looked at.
const MOVES_PER_LOOK: usize = 8;
/// How much of that counts, so that every slice comes further.
const WEIGHT_MAX: usize = 128;

/// A place that a member had before.
#[derive(Debug, Clone)]
pub(crate) struct Seed {
    /// Which of the members.
    pub(crate) member: usize,
    /// Where.
    pub(crate) node: NodeIndex,
    /// What it has there besides amounts.
    pub(crate) own: Option<Allotment>,
}

/// Who has gone in thought, and who has which place.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    pub(super) gone: Vec<Unit>,
    pub(super) placed: Vec<Seed>,
}

impl Plan {
    /// Nobody has gone, and those have places that had them.
    pub(super) fn seeded(party: &Party) -> Self {
        Self { gone: Vec::new(), placed: party.seeds.clone() }
    }

    /// Members give up places that are others' by now. Whoever follows others has his place when they have theirs.
    pub(super) fn keep_good_places(
        &mut self,
        thought: &mut Speculation<'_>,
        deciders: &Deciders,
        members: &[Member],
    ) {
        let mut again = again_max(self.placed.len());
        let mut left = std::mem::take(&mut self.placed);
        loop {
            let before = left.len();
            for mut seed in std::mem::take(&mut left) {
                match place_again(thought, deciders, members, &seed) {
                    Some(own) => {
                        seed.own = own;
                        self.placed.push(seed);
                    }
                    None if thought.ledger().follows_others(&members[seed.member].0) => {
                        left.push(seed);
                    }
                    None => {}
                }
            }
            if left.is_empty() || left.len() == before || again < left.len() {
                return;
            }
            again -= left.len();
        }
    }

    /// What it costs to think of all of it again.
    pub(super) fn weight(&self) -> usize {
        let gone: usize = self.gone.iter().map(|unit| unit.pods.len()).sum();
        (1 + (gone + self.placed.len()) / MOVES_PER_LOOK).min(WEIGHT_MAX)
    }

    /// Thinks of all of it; whether that can still be thought.
    pub(super) fn think(&self, thought: &mut Speculation<'_>, members: &[Member]) -> bool {
        self.gone.iter().for_each(|unit| unit.leave(thought));
        self.placed.iter().all(|Seed { member, node, own }| {
            thought.place(&members[*member].0, *node, own.as_ref()).is_ok()
        })
    }

    /// A unit goes. Of a gang that goes whole, those that went before go with it.
    pub(super) fn send(&mut self, mut unit: Unit) {
        if let Extent::Gang(gang) = &unit.extent {
            for own in self.gone.extract_if(.., |own| own.is_of(gang)) {
                unit.pods.extend(own.pods);
                unit.importance.merge(&own.importance);
            }
        }
        self.gone.push(unit);
    }
}

/// What a member has where it had a place, where it may have that again.
fn place_again(
    thought: &mut Speculation<'_>,
    deciders: &Deciders,
    members: &[Member],
    seed: &Seed,
) -> Option<Option<Allotment>> {
    let member = &members[seed.member];
    is_admitted(thought, deciders, member).ok()?;
    place_on(thought, deciders, member, seed.node)
}

/// Whether the quotas of a member have room for it.
pub(super) fn is_admitted(
    thought: &mut Speculation<'_>,
    deciders: &Deciders,
    (uid, profile): &Member,
) -> Result<(), Box<str>> {
    match deciders[*profile].1.profile().quota {
        Some(_) => thought.ledger_mut().admit(uid).map_err(|refusal| refusal.quota),
        None => Ok(()),
    }
}

/// Places a member on a node, where all filters take it; what it has there besides amounts.
pub(super) fn place_on(
    thought: &mut Speculation<'_>,
    deciders: &Deciders,
    (uid, profile): &Member,
    node: NodeIndex,
) -> Option<Option<Allotment>> {
    let ledger = thought.ledger_mut();
    let decider = &deciders[*profile].1;
    let row = ledger.pod(uid).filter(|row| !row.is_placed())?;
    let (ask, priority) = (row.ask, row.priority);
    if decider.refused_everywhere(ledger, ask).is_some() {
        return None;
    }
    let others = ledger.awaited_before(ledger.nodes.name(node), uid, priority);
    let within =
        Trial::new(ledger, &decider.profile().filters, ask).place_on(&others, node).ok()?;
    let own = decider.allot(ledger, ask, &Place { node, within }).ok()?;
    thought.place(uid, node, own.as_ref()).ok()?;
    Some(own)
}

/// Places a member where it is best; where, and what it has there besides amounts.
pub(super) fn place_anywhere(
    thought: &mut Speculation<'_>,
    deciders: &mut Deciders,
    (uid, profile): &Member,
) -> Option<(NodeIndex, Option<Allotment>)> {
    let decider = &mut deciders[*profile].1;
    let ledger = thought.ledger_mut();
    let ask = ledger.pod(uid).filter(|row| !row.is_placed())?.ask;
    let place = decider.choose(ledger, uid, crate::turn::tie_of(uid)).ok()??;
    let own = decider.allot(ledger, ask, &place).ok()?;
    thought.place(uid, place.node, own.as_ref()).ok()?;
    Some((place.node, own))
}
