//! Clearing: which pods have to go so that several others get nodes at once.
//!
//! Pods go in *units*: one pod, or a whole gang where it would drop below what it needs. First each node is
//! asked how many of the members it could take when one unit after the other left it, the least important
//! first. Then members get places in thought, one after the other, by all filters and quotas; whenever one
//! gets none, the unit goes that costs least of those that nodes offer, or of those that use the quota which
//! has no room. What was said of a unit is found out anew before it goes: others have gone meanwhile, of its
//! gang, of its quota, of its disruption budget. Then units come back, the most important first, for as
//! long as the members still fit: in the end none can be put back.
//!
//! Everything is done a slice at a time. What was thought of in one slice is thought of again in the next,
//! and all of it is held against the ledger as it is at the end.

mod fruitless;
mod gather;
mod offer;
mod plan;
mod reduce;
mod rule;
mod unit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use fruitless::Fruitless;
pub(crate) use plan::Seed;
pub(crate) use rule::Rule;

use gather::{Gathered, Gathering};
use offer::{Kinds, Offer};
use plan::Plan;
use reduce::Reducing;
use unit::Unit;

use crate::decide::Decider;
use crate::fact::{PodRef, Uid};
use crate::ledger::{Ledger, NodeIndex};
use crate::moment::Moment;
use crate::preemption::Victim;
use crate::search::Work;

/// On how many nodes is looked for victims at least, where there are as many.
const OFFERS_MIN: usize = 100;

/// Profiles by their number, as pods name them.
pub(crate) type Deciders = [(Arc<str>, Decider)];

/// A pod that is to get a node, and the profile that gives it one.
pub(crate) type Member = (Uid, usize);

/// Room for several pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cleared {
    /// Where each is to go.
    pub(crate) plan: Vec<(Uid, NodeIndex)>,
    /// Who has to go, and from where.
    pub(crate) victims: Vec<(NodeIndex, Victim)>,
}

/// Why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uncleared {
    /// Nobody could go.
    NoVictims,
    /// It would not help.
    NotHelpful,
    /// It would have helped, and does not as everything is in the end.
    Overtaken,
    /// Things were otherwise again and again before it was found out.
    Unsettled,
}

impl Uncleared {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NoVictims => "no potential victims",
            Self::NotHelpful | Self::Overtaken => "preemption not helpful",
            Self::Unsettled => {
                "preemption not helpful: nodes came and went while it was looked for victims"
            }
        }
    }
}

/// For whom room is made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Party {
    /// Who gets a node, in the order in which they do.
    pub(crate) members: Vec<Member>,
    /// Those of them that had a place before room was made for the others, who may have taken it since.
    pub(crate) seeds: Vec<Seed>,
    /// Who belongs to them, and does not go for them.
    pub(crate) kin: BTreeSet<Uid>,
}

impl Party {
    /// One pod.
    pub(crate) fn one(uid: &Uid, profile: usize) -> Self {
        let kin = [uid.clone()].into();
        Self { members: vec![(uid.clone(), profile)], seeds: Vec::new(), kin }
    }
}

/// What a clearing is for.
#[derive(Clone, Copy)]
struct Aim<'a> {
    /// For whom room is made.
    party: &'a Party,
    /// Who may have to go.
    rule: &'a Rule,
    now: Moment,
}

enum Stage {
    /// Nodes are asked.
    Asking,
    /// Members get places.
    Gathering(Gathering),
    /// All have one, and units come back.
    Reducing(Reducing),
}

/// A clearing under way.
pub(crate) struct Clearing {
    party: Arc<Party>,
    rule: Rule,
    now: Moment,
    /// Which nodes there were when it began: what is thought of names them by their places.
    comings: u64,
    /// Nodes that are still to be asked, the next one last.
    nodes: Vec<NodeIndex>,
    enough: usize,
    offers: Vec<Offer>,
    plan: Plan,
    stage: Stage,
}

impl Clearing {
    /// Begins to make room, by whoever may have to go.
    pub(crate) fn begin(ledger: &Ledger, party: Arc<Party>, rule: Rule, now: Moment) -> Self {
        let mut nodes: Vec<NodeIndex> = ledger.nodes.present().iter().collect();
        nodes.reverse();
        let enough = (nodes.len() / 10).max(OFFERS_MIN);
        let (comings, plan) = (ledger.nodes.comings(), Plan::seeded(&party));
        let (offers, stage) = (Vec::new(), Stage::Asking);
        Self { party, rule, now, comings, nodes, enough, offers, plan, stage }
    }

    /// Who may have to go.
    pub(crate) fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Whether it means nothing any longer: there are other nodes than when it began.
    pub(crate) fn is_moot(&self, ledger: &Ledger) -> bool {
        self.comings != ledger.nodes.comings()
    }

    /// Does more of it; none where it is not over.
    pub(crate) fn advance(
        &mut self,
        ledger: &mut Ledger,
        deciders: &mut Deciders,
        work: &mut Work,
    ) -> Option<Result<Cleared, Uncleared>> {
        while work.is_left() {
            match &self.stage {
                Stage::Asking => self.ask(ledger, deciders, work),
                Stage::Gathering(_) => {
                    if let Err(why) = self.gather(ledger, deciders, work) {
                        return Some(Err(why));
                    }
                }
                Stage::Reducing(_) => {
                    if let Some(over) = self.reduce(ledger, deciders, work) {
                        return Some(over);
                    }
                }
            }
        }
        None
    }

    fn has_enough(&self) -> bool {
        let members: usize = self.offers.iter().map(Offer::members).sum();
        self.offers.len() >= self.enough && members >= self.party.members.len()
    }

    /// Asks nodes how many members they could take.
    fn ask(&mut self, ledger: &mut Ledger, deciders: &mut Deciders, work: &mut Work) {
        let mut kinds = Kinds::of(ledger, &self.party.members);
        while work.is_left() {
            work.spend(1);
            let is_enough = self.has_enough();
            let Some(node) = self.nodes.pop_if(|_| !is_enough) else {
                work.spend(self.plan.placed.len());
                ledger.speculate(|thought| {
                    self.plan.keep_good_places(thought, deciders, &self.party.members);
                });
                self.stage =
                    Stage::Gathering(Gathering::begin(&self.party, &self.plan, &self.offers));
                return;
            };
            let aim = Aim { party: &self.party, rule: &self.rule, now: self.now };
            let units = Unit::on(ledger, node, aim, work);
            if units.is_empty() {
                continue;
            }
            let offer = ledger.speculate(|thought| {
                kinds.renew();
                Offer::of(
                    thought,
                    deciders,
                    (node, units),
                    (&aim.party.members, &mut kinds, aim),
                    work,
                )
            });
            self.offers.extend(offer);
        }
    }

    /// Gives members places; who gets none has others go.
    ///
    /// # Errors
    /// Why that does not help.
    fn gather(
        &mut self,
        ledger: &mut Ledger,
        deciders: &mut Deciders,
        work: &mut Work,
    ) -> Result<(), Uncleared> {
        let Self { party, rule, now, offers, plan, stage, .. } = self;
        let Stage::Gathering(gathering) = stage else { return Ok(()) };
        work.spend(plan.weight());
        let gathered = ledger.speculate(|thought| {
            if !plan.think(thought, &party.members) {
                return Gathered::Stuck;
            }
            let aim = Aim { party, rule, now: *now };
            gathering.go_on(thought, deciders, aim, (offers, plan), work)
        });
        match gathered {
            Gathered::Unfinished => {}
            Gathered::All => self.stage = Stage::Reducing(Reducing::begin(&mut self.plan)),
            Gathered::Stuck if !self.nodes.is_empty() => {
                // There may be others on the nodes that were not asked.
                (self.enough, self.stage) = (usize::MAX, Stage::Asking);
                self.plan = Plan::seeded(&self.party);
            }
            Gathered::Stuck if self.offers.is_empty() && self.plan.gone.is_empty() => {
                return Err(Uncleared::NoVictims);
            }
            Gathered::Stuck => return Err(Uncleared::NotHelpful),
        }
        Ok(())
    }

    /// Puts back units that need not go; what is left of them where that is over.
    fn reduce(
        &mut self,
        ledger: &mut Ledger,
        deciders: &mut Deciders,
        work: &mut Work,
    ) -> Option<Result<Cleared, Uncleared>> {
        let Self { party, rule, plan, stage, .. } = self;
        let Stage::Reducing(reducing) = stage else { return None };
        work.spend(plan.weight());
        if !reducing.go_on(ledger, deciders, (party, rule, plan), work) {
            return None;
        }
        let places = reducing.proven(ledger, deciders, (party, rule, plan));
        Some(places.ok_or(Uncleared::Overtaken).map(|places| self.cleared(ledger, &places)))
    }

    /// Where members go, and who leaves for them.
    fn cleared(&self, ledger: &Ledger, places: &[NodeIndex]) -> Cleared {
        let members = self.party.members.iter().map(|(uid, _)| uid.clone());
        let victims = self.plan.gone.iter().flat_map(|unit| &unit.pods).filter_map(|uid| {
            let row = ledger.pod(uid)?;
            Some((row.node()?, Victim { pod: PodRef::of(uid, row), deleting: row.is_deleting() }))
        });
        Cleared { plan: members.zip(places.iter().copied()).collect(), victims: victims.collect() }
    }
}

/// Victims by node.
pub(crate) fn by_node(victims: Vec<(NodeIndex, Victim)>) -> BTreeMap<NodeIndex, Vec<Victim>> {
    let mut all: BTreeMap<NodeIndex, Vec<Victim>> = BTreeMap::new();
    for (node, victim) in victims {
        all.entry(node).or_default().push(victim);
    }
    all
}
