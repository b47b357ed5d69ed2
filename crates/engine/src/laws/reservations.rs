//! Reservations of every kind, pods that are some, and pods that they are for.

use std::sync::Arc;

use api::OwnerReference;
use object::taint::{Effect, Taint, Toleration, TolerationOperator};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::{Step, amounts, clause, labels, pod, term, uid};
use crate::fact::{
    Allotment, ControllerRule, Fact, OwnerRule, PodFact, PodRule, ReservationFact,
    ReservationPolicy, ReservationRules, Size,
};
use crate::needs::{
    Amounts, OwnReservation, ReservationAffinity, ReservationNeeds, TakeOver, Tolerations, Volumes,
};

/// Numbers that are those of reservations and of no pods.
pub(crate) const RESERVATIONS: std::ops::Range<u8> = 20..24;
/// The label of pods that any reservation may take over.
pub(super) const TAKEOVER: &str = "takeover";
/// Who makes pods.
const MAKERS: [&str; 2] = ["web", "db"];
const RESOURCES: [&str; 3] = ["cpu", "memory", "example.com/gpu"];

fn resources() -> impl Strategy<Value = Box<[Box<str>]>> {
    vec(select(RESOURCES.to_vec()).prop_map(Into::into), 0..2).prop_map(Into::into)
}

fn maker(name: &str) -> OwnerReference {
    OwnerReference { name: name.to_owned(), ..OwnerReference::default() }
}

/// The taints of reservations are those of nodes, of which pods put up with some.
fn taint() -> impl Strategy<Value = Taint> {
    let effect = select(vec![Effect::NoSchedule, Effect::PreferNoSchedule]);
    effect.prop_map(|effect| Taint { key: "held".into(), effect: Some(effect), ..Taint::default() })
}

pub(super) fn reservation_needs() -> impl Strategy<Value = Option<ReservationNeeds>> {
    let named = option::weighted(0.3, RESERVATIONS);
    let named = named.prop_map(|number| number.map(|number| (*uid(number).0).into()));
    let wanted = (option::weighted(0.3, vec(term(), 0..2)), labels(), any::<[bool; 2]>());
    let affinity = (named, wanted).prop_map(|(name, (terms, labels, [bears, by_labels]))| {
        let held = Toleration {
            key: "held".into(),
            operator: Some(TolerationOperator::Exists),
            ..Toleration::default()
        };
        let labels = labels.into_iter().filter(|_| by_labels);
        ReservationAffinity {
            name,
            labels: labels.collect(),
            terms: terms.map(Into::into),
            tolerations: Tolerations(if bears { [held].into() } else { Box::default() }),
        }
    });
    let affinity = option::of(affinity);
    let own = (affinity, any::<bool>(), option::weighted(0.2, resources()), 0..3_i64);
    let needs = own.prop_map(|(affinity, is_ignoring, exact, takeover_rank)| ReservationNeeds {
        is_ignoring: is_ignoring && affinity.is_none(),
        affinity,
        exact: exact.unwrap_or_default(),
        takeover_rank,
        ..ReservationNeeds::default()
    });
    option::weighted(0.2, needs)
}

/// Pods that a reservation is for: by labels, by name, or by who made them.
fn owner_rule() -> impl Strategy<Value = OwnerRule> {
    let named = (0..20_u8).prop_map(|number| {
        let name = format!("pod-{number}").into();
        let pod = Some(PodRule { name, ..PodRule::default() });
        OwnerRule { pod, ..OwnerRule::default() }
    });
    let made = select(MAKERS.to_vec()).prop_map(|name| {
        let controller = ControllerRule { reference: maker(name), namespace: "default".into() };
        OwnerRule { controller: Some(controller), ..OwnerRule::default() }
    });
    let labelled =
        clause().prop_map(|own| OwnerRule { labels: Some(own.labels), ..OwnerRule::default() });
    prop_oneof![4 => labelled, 1 => named, 1 => made]
}

/// Who may use something that holds so much, and how.
fn rules() -> impl Strategy<Value = ReservationRules> {
    let policy = prop_oneof![
        1 => Just(ReservationPolicy::Default),
        1 => Just(ReservationPolicy::Aligned),
        2 => Just(ReservationPolicy::Restricted),
    ];
    let kept_back = option::weighted(0.2, amounts(3)).prop_map(Option::unwrap_or_default);
    let taints = option::weighted(0.2, taint());
    let limits = (resources(), kept_back, taints, option::of(0..3_i64), labels());
    let own = (vec(owner_rule(), 1..3), policy, any::<[bool; 2]>(), option::of(0..4_i64), limits);
    own.prop_map(|(owners, policy, [once, closed], pods, limits)| {
        let (restricted, kept_back, taints, order, labels) = limits;
        ReservationRules {
            owners: owners.into(),
            is_for_one_pod: once,
            policy,
            is_closed: closed && once,
            pods,
            restricted,
            kept_back,
            taints: taints.into_iter().collect(),
            order,
            labels,
            ..ReservationRules::default()
        }
    })
}

/// What of a pod concerns reservations besides what it wants of them.
#[derive(Debug, Clone)]
pub(super) struct Own {
    maker: Option<&'static str>,
    may_be_taken_over: bool,
    holds: Option<ReservationRules>,
}

pub(super) fn own() -> impl Strategy<Value = Own> {
    let maker = option::weighted(0.3, select(MAKERS.to_vec()));
    let holds = option::weighted(0.1, rules());
    (maker, any::<bool>(), holds).prop_map(|(maker, may_be_taken_over, holds)| Own {
        maker,
        may_be_taken_over,
        holds,
    })
}

impl Own {
    /// A pod that says this as well. One that is a reservation is one once it has a node.
    pub(super) fn told_by(self, mut pod: PodFact) -> PodFact {
        pod.owners = self.maker.map(maker).into_iter().collect();
        if self.may_be_taken_over {
            pod.labels.insert(TAKEOVER.into(), "true".into());
        }
        if let Some(rules) = self.holds {
            let policy = ReservationPolicy::Aligned;
            let own = Some(OwnReservation { policy, ..OwnReservation::default() });
            pod.needs.reservation = Some(ReservationNeeds { own, ..ReservationNeeds::default() });
            pod.needs.taken = pod.needs.requests.clone();
            let rules = ReservationRules {
                name: pod.name.clone(),
                policy,
                is_for_one_pod: true,
                amounts: pod.needs.taken.charged.clone(),
                pods: None,
                restricted: Box::default(),
                taints: Box::default(),
                order: None,
                labels: pod.labels.clone(),
                ..rules
            };
            pod.holds = pod.node.is_some().then(|| Arc::new(rules));
        }
        pod
    }
}

/// A reservation, with or without a node; some take over pods when they get theirs.
pub(super) fn reservation() -> impl Strategy<Value = Fact> {
    let takes_over = option::weighted(0.4, any::<[bool; 3]>());
    (RESERVATIONS, pod(), rules(), takes_over).prop_map(|(number, mut pod, rules, takes_over)| {
        (pod.uid, pod.name) = (uid(number), format!("pod-{number}").into());
        pod.needs.taken = pod.needs.requests.clone();
        pod.needs.volumes = Volumes::default();
        (pod.nominated, pod.gates, pod.holds) = (None, Box::default(), None);
        pod.owners = Box::default();
        pod.allotment = pod.allotment.map(|own| Allotment { reservation: None, ..own });
        pod.allotment = pod.allotment.filter(|own| !own.is_shared());
        let takes_over = takes_over.filter(|_| pod.node.is_none()).map(|[anyone, many, must]| {
            let uid = pod.uid.clone();
            TakeOver { uid, is_of_anyone: anyone, may_be_many: many, is_required: must }
        });
        let policy = match takes_over {
            Some(_) => ReservationPolicy::Restricted,
            None => rules.policy,
        };
        let own = Some(OwnReservation { policy, takes_over, node: None });
        pod.needs.reservation = Some(ReservationNeeds { own, ..ReservationNeeds::default() });
        let amounts = pod.needs.requests.charged.clone();
        let rules = ReservationRules { name: pod.name.clone(), policy, amounts, ..rules };
        Fact::Reservation(Box::new(ReservationFact { pod, rules: Arc::new(rules) }))
    })
}

/// Something is written of a reservation, or is to be.
pub(super) fn step() -> impl Strategy<Value = Step> {
    let size = (amounts(12), option::of(0..4_i64));
    let size = size.prop_map(|(amounts, pods): (Amounts, _)| Size { amounts, pods });
    prop_oneof![
        RESERVATIONS.prop_map(Step::Written),
        (RESERVATIONS, option::of(size)).prop_map(|(own, size)| Step::Resize(own, size)),
    ]
}
