//! Why a gang has not started: how its group stands, and what comes of planning it in thought.
//!
//! The plan is the one that the engine would make: the same members in the same order, each asked about by
//! the same rule. It is taken back at the end. Whoever wants to know more of a member that got no node asks
//! again, with the others on the nodes that they had.

use std::collections::{BTreeMap, BTreeSet};

use api::pod_group::{GangId, MatchPolicy};

use super::{Explanation, QuotaExplanation, explain, explain_quota, quota::explain_charged};
use crate::decide::Decider;
use crate::fact::{Allotment, PodFact, Uid};
use crate::gangs::{Course, Group, Next, Readiness, Refused, Seatless, least_of, seat};
use crate::ledger::{Charged, Ledger, NodeIndex, PodRow};
use crate::moment::Moment;
use crate::needs::Requests;
use crate::speculate::Speculation;
use crate::turn::Waiting;

/// How a gang stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangStand {
    /// Which.
    pub gang: GangId,
    /// Whether an object describes it.
    pub is_object: bool,
    /// How many members there must be, where that is said.
    pub min: Option<u32>,
    /// Which of them count.
    pub policy: MatchPolicy,
    /// How many there are.
    pub members: usize,
    /// How many of them have a node.
    pub placed: usize,
    /// How many wait for one and may be tried.
    pub waiting: usize,
    /// How many wait for gates.
    pub gated: usize,
    /// How many wait for another scheduler.
    pub others: usize,
    /// How many have to get a node at once, where all of the group that is needed is there.
    pub needed: Option<usize>,
}

/// How the gangs stand that start at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStand {
    /// The gangs, and those that have to start first.
    pub group: Group,
    /// How each of them stands.
    pub gangs: Vec<GangStand>,
    /// Those that have to start first of which nothing is known.
    pub unknown: BTreeSet<GangId>,
    /// Whether they can start.
    pub readiness: Readiness,
}

impl GroupStand {
    /// How the group of a gang stands, where somebody outside is asked about these members; none where nothing
    /// is known of the gang.
    #[must_use]
    pub fn of(ledger: &Ledger, gang: &GangId, is_consulted: impl Fn(&Uid) -> bool) -> Option<Self> {
        let is_known = |gang: &GangId| {
            ledger.gangs.terms(gang).is_some() || ledger.gangs.members(gang).len() > 0
        };
        if !is_known(gang) {
            return None;
        }
        let group = ledger.group_of(gang);
        let readiness = ledger.readiness_beside(&group, is_consulted);
        let needed = |gang: &GangId| match &readiness {
            Readiness::Ready(needs) => {
                needs.iter().find(|need| need.gang == *gang).map(|need| need.needed)
            }
            _ => None,
        };
        let gangs = group.gangs.iter().map(|gang| GangStand::of(ledger, gang, needed(gang)));
        let unknown = group.first.iter().filter(|gang| !is_known(gang)).cloned();
        Some(Self { gangs: gangs.collect(), unknown: unknown.collect(), readiness, group })
    }
}

impl GangStand {
    fn of(ledger: &Ledger, gang: &GangId, needed: Option<usize>) -> Self {
        let terms = ledger.gangs.terms(gang);
        let rows = || ledger.gangs.members(gang).filter_map(|uid| ledger.pod(uid));
        let count = |holds: fn(&PodRow) -> bool| rows().filter(|row| holds(row)).count();
        let own = [gang.clone()];
        Self {
            gang: gang.clone(),
            is_object: ledger.gangs.is_object(gang),
            min: terms.and_then(|terms| terms.min_available),
            policy: terms.map_or(ledger.gangs.settings().policy, |own| ledger.gangs.policy(own)),
            members: ledger.gangs.members(gang).len(),
            placed: count(PodRow::is_placed),
            waiting: ledger.gang_waiting(&own).count(),
            gated: count(|row| !row.is_placed() && !row.is_deleting() && row.gated),
            others: count(|row| !row.is_placed() && !row.is_deleting() && row.is_anothers),
            needed,
        }
    }
}

/// A member that has a node in thought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// The member.
    pub member: Uid,
    node: NodeIndex,
    allotment: Option<Allotment>,
}

/// What comes of planning a group in thought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlan {
    /// How many members have to get a node.
    pub needed: usize,
    /// Those that get one: all that are needed, where none is refused.
    pub seats: Vec<Seat>,
    /// Why the group has no nodes, where it has none.
    pub refused: Option<GroupRefused>,
}

/// Why a group has no nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRefused {
    /// The first member that gets none.
    pub member: Uid,
    /// The same as its members are told it.
    pub waiting: Waiting,
    /// Which quota has no room, where that is it: for all members that are needed where it has none for
    /// these, or else for this one beside the others.
    pub quota: Option<QuotaExplanation>,
    /// Whether that is about all of them.
    pub is_whole: bool,
}

/// Those who decide for members: by the number that each member has, which is not tried where it has none.
pub struct Deciders<'a> {
    /// One for each profile.
    pub all: &'a mut [Decider],
    /// Which is whose.
    pub of: &'a BTreeMap<Uid, usize>,
}

/// Plans a group in thought, and goes on where a member gets no node, to see how many fit. The ledger is as
/// it was afterwards.
pub fn plan_group(
    ledger: &mut Ledger,
    stand: &GroupStand,
    deciders: &mut Deciders<'_>,
) -> GroupPlan {
    let Readiness::Ready(needs) = &stand.readiness else {
        return GroupPlan { needed: 0, seats: Vec::new(), refused: None };
    };
    let group = &stand.group;
    let least = least_of(needs.clone());
    let members = ledger.gang_by_size(group, |uid| deciders.of.contains_key(uid));
    // What its quota keeps for it does not count, as it does not where it is planned.
    let entry = group.entry();
    let pledge = ledger.quotas.take_pledge(&entry);
    let course = Course::begin(least.clone(), members.clone());
    let mut thought =
        Thought { group, members: &members, course, seats: Vec::new(), refused: None };
    ledger.speculate(|own| thought.think(own, deciders));
    let Thought { seats, refused, .. } = thought;
    let refused = refused.map(|refused| {
        let lot =
            refused.quota.as_ref().and_then(|_| whole(ledger, &refused.member, &members, &least));
        match lot {
            Some(quota) => GroupRefused { quota: Some(quota), is_whole: true, ..refused },
            None => refused,
        }
    });
    pledge.into_iter().for_each(|own| ledger.quotas.put_pledge(&entry, own));
    GroupPlan { needed: least.values().sum(), seats, refused }
}

/// Why a quota has no room for all members that are needed of those that are charged like one; none where it
/// has.
fn whole(
    ledger: &mut Ledger,
    member: &Uid,
    members: &[(GangId, Uid)],
    least: &BTreeMap<GangId, usize>,
) -> Option<QuotaExplanation> {
    let own = ledger.pod(member).and_then(PodRow::charged)?;
    let charged = ledger.gang_floor(members.iter().map(|(gang, uid)| (gang, uid)), least, own);
    let sum = Requests { charged, ..Requests::default() };
    let amounts = ledger.asks.requests.hold(sum).0;
    let told = explain_charged(ledger, Charged { amounts, ..own }, None);
    ledger.asks.requests.release(amounts);
    told
}

/// A plan that is made in thought.
struct Thought<'a> {
    group: &'a Group,
    members: &'a [(GangId, Uid)],
    course: Course,
    seats: Vec<Seat>,
    refused: Option<GroupRefused>,
}

impl Thought<'_> {
    fn think(&mut self, own: &mut Speculation<'_>, deciders: &mut Deciders<'_>) {
        let mark = own.mark();
        loop {
            let is_short = match self.course.next() {
                Next::Needed(gang, uid) => {
                    let Some(decider) =
                        deciders.of.get(&uid).and_then(|own| deciders.all.get_mut(*own))
                    else {
                        continue;
                    };
                    self.try_member(own, decider, (&gang, uid));
                    self.course.falls_short(&gang)
                }
                Next::Short => true,
                Next::Extra(_) | Next::Nobody => return,
            };
            if is_short && self.has_another_order(own.ledger()) {
                own.take_back(mark);
                self.seats.clear();
                self.course.begin_anew(own.ledger(), self.members.to_vec());
            } else if is_short {
                self.refuse(own.ledger_mut(), deciders);
            }
        }
    }

    fn try_member(
        &mut self,
        own: &mut Speculation<'_>,
        decider: &mut Decider,
        (gang, uid): (&GangId, Uid),
    ) {
        match seat(own.ledger_mut(), decider, &uid) {
            Ok((place, allotment)) => {
                if own.place(&uid, place.node, allotment.as_ref()).is_ok() {
                    self.seats.push(Seat { member: uid, node: place.node, allotment });
                    self.course.seated(gang);
                }
            }
            Err(why) => {
                let refused = Refused { member: uid.clone(), why, seated: self.seats.len() };
                self.course.left_out(own.ledger(), (gang.clone(), uid), Some(refused));
            }
        }
    }

    /// Whether another order may come further. Where it is known why the group has no nodes, it is only looked how
    /// many more of it fit.
    fn has_another_order(&mut self, ledger: &Ledger) -> bool {
        let seated = self.seats.iter().map(|seat| &seat.member);
        self.refused.is_none() && self.course.has_another_order(ledger, seated)
    }

    /// One that is needed gets no node.
    fn refuse(&mut self, ledger: &mut Ledger, deciders: &Deciders<'_>) {
        let Some(first) = self.course.take_refused() else { return };
        let own = deciders.of.get(&first.member).and_then(|own| deciders.all.get(*own));
        let Some(decider) = own.filter(|_| self.refused.is_none()) else { return };
        let member = first.member.clone();
        let quota = match &first.why {
            Seatless::Quota(_) => explain_quota(ledger, &member),
            Seatless::Nodes => None,
        };
        let waiting = first.waiting(ledger, decider, self.group);
        self.refused =
            waiting.map(|waiting| GroupRefused { member, waiting, quota, is_whole: false });
    }
}

/// Explains why a member has no node while others of its group have theirs in thought. The ledger is as it
/// was afterwards.
pub fn explain_beside(
    ledger: &mut Ledger,
    decider: &mut Decider,
    seats: &[Seat],
    pod: &PodFact,
    now: Moment,
) -> Explanation {
    ledger.speculate(|thought| {
        for Seat { member, node, allotment } in seats {
            // Who is gone takes nothing.
            let _ = thought.place(member, *node, allotment.as_ref());
        }
        explain(thought.ledger_mut(), decider, pod, now)
    })
}
