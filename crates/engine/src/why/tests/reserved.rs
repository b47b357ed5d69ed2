//! Reservations that are for a pod, and reservations that have no node.

use api::Reservation;
use api::reservation::{
    AFFINITY, ALLOCATED, EXACT_MATCH, IGNORED_LABEL, PRE_ALLOCATION_REQUIRED_LABEL,
};

use super::*;
use crate::fact::{ReservationFact, Uid};
use crate::plugins::reservation::Reservation as Plugin;

fn merged(object: Value, more: Value) -> Value {
    object::patch::merge::apply(object, more).unwrap()
}

struct World {
    ledger: Ledger,
    decider: Decider,
}

impl World {
    /// Two nodes of 8 CPUs, of which others have 6 each.
    fn new() -> Self {
        let mut ledger = Ledger::default();
        let profile = Profile::kubernetes().filter(Plugin::default());
        let decider = Decider::new(profile, &mut ledger, 0);
        for name in ["n1", "n2"] {
            ledger.apply(node(name, &json!({}), &json!({}), "8"));
        }
        Self { ledger, decider }
    }

    fn runs(mut self, name: &str, node: &str, cpu: &str, more: Value) -> Self {
        let pod = json!({
            "metadata": { "name": name, "namespace": "default", "uid": name },
            "spec": asking(cpu, &json!({ "nodeName": node })),
        });
        let pod: Pod = serde_json::from_value(merged(pod, more)).unwrap();
        self.ledger.apply(Fact::from(&pod));
        self
    }

    fn reservation(name: &str, cpu: &str, more: Value) -> Reservation {
        let own = json!({
            "metadata": { "name": name, "uid": name },
            "spec": { "allocateOnce": false, "allocatePolicy": "Restricted",
                      "owners": [{ "labelSelector": { "matchLabels": { "app": "web" } } }],
                      "template": { "spec": asking(cpu, &json!({})) } },
        });
        serde_json::from_value(merged(own, more)).unwrap()
    }

    fn reserve(&mut self, own: &Reservation) -> PodFact {
        let fact = ReservationFact::of(own).unwrap().unwrap();
        let pod = fact.pod.clone();
        self.ledger.apply(Fact::Reservation(Box::new(fact)));
        pod
    }

    /// A reservation for pods of the app, on a node.
    fn holds(mut self, name: &str, node: &str, cpu: &str, more: Value) -> Self {
        let held = json!({ "status": { "phase": "Available", "nodeName": node,
                                       "allocatable": { "cpu": cpu } } });
        self.reserve(&Self::reservation(name, cpu, merged(held, more)));
        self
    }

    fn told(&mut self, fact: &PodFact) -> String {
        let asked = self.ledger.asks.requests.len();
        let text = told_of(&mut self.ledger, &mut self.decider, fact);
        assert_eq!(self.ledger.asks.requests.len(), asked, "nothing is left of the question");
        text
    }

    /// What is told of a new pod of the app, which is what is decided, too.
    fn asks(&mut self, cpu: &str, more: Value) -> String {
        let pod = json!({
            "metadata": { "name": "new", "namespace": "default", "uid": "new",
                          "labels": { "app": "web" } },
            "spec": asking(cpu, &json!({})),
        });
        let pod: Pod = serde_json::from_value(merged(pod, more)).unwrap();
        let fact = PodFact::from(&pod);
        let text = self.told(&fact);
        self.ledger.apply(Fact::Pod(Box::new(fact)));
        let place = self.decider.choose(&mut self.ledger, &Uid::new("new"), 7).unwrap();
        assert_eq!(place.is_some(), !text.starts_with("0 of "), "{text}");
        text
    }

    /// What is told of a reservation that has no node.
    fn wants(&mut self, cpu: &str, more: Value) -> String {
        let fact = self.reserve(&Self::reservation("new", cpu, more));
        let text = self.told(&fact);
        let place = self.decider.choose(&mut self.ledger, &Uid::new("new"), 7).unwrap();
        assert_eq!(place.is_some(), !text.starts_with("0 of "), "{text}");
        text
    }
}

/// A pod that must use a reservation.
fn must_use(affinity: &Value) -> Value {
    json!({ "metadata": { "annotations": { AFFINITY: affinity.to_string() } } })
}

/// Two nodes of 8 CPUs: of one 2 are used, of the other 7.
fn busy() -> World {
    World::new().runs("a", "n1", "2", json!({})).runs("b", "n2", "7", json!({}))
}

#[test]
fn a_pod_fits_where_it_can_use_a_reservation() {
    let check = |more: Value, expected: &str| {
        let mut world = busy().holds("six", "n1", "6", json!({}));
        assert_eq!(world.asks("4", more), expected);
    };
    check(
        must_use(&json!({})),
        "1 of 2 fit\n\
         n2 has no reservation that is for the pod, which must use one\n\
         reservation six on n1 \n\
         cure: drop the reservation affinity (1)\n\
         cure: name reservation six in the reservation affinity (1)\n",
    );
    check(
        json!({}),
        "1 of 2 fit\n\
         n2 is short of cpu by 3: 4 asked, 1 of 8 free\n\
         reservation six on n1 \n\
         cure: request 1 of cpu, not 4 (2)\n",
    );
    // It uses none, and all that they hold is free for it.
    check(
        json!({ "metadata": { "labels": { IGNORED_LABEL: "true" } } }),
        "1 of 2 fit\n\
         n2 is short of cpu by 3: 4 asked, 1 of 8 free\n\
         cure: request 1 of cpu, not 4 (2)\n",
    );
}

/// What reservations say of a pod, and what would help it. What nodes say is left out.
fn check_inside(holds: Value, cpu: &str, more: Value, expected: &str) {
    let mut world = busy().holds("six", "n1", "6", holds);
    let text = world.asks(cpu, more);
    let lines = text.lines().filter(|line| !line.starts_with('n'));
    assert_eq!(lines.fold(String::new(), |all, line| all + line + "\n"), expected);
}

#[test]
fn each_reservation_that_is_for_a_pod_says_why_it_cannot_use_it() {
    let taints = json!({ "spec": { "taints": [{ "key": "gpu", "effect": "NoSchedule" }] } });
    check_inside(
        json!({}),
        "7",
        must_use(&json!({})),
        "0 of 2 fit\n\
         reservation six on n1 is short of cpu by 1: 7 asked, 6 of 6 left\n\
         cure: request 6 of cpu, not 7 (1)\n",
    );
    check_inside(
        taints.clone(),
        "4",
        must_use(&json!({})),
        "0 of 2 fit\n\
         reservation six on n1 has taint gpu:NoSchedule, which the pod's reservation affinity does not \
         tolerate\n\
         cure: tolerate taint gpu:NoSchedule in the reservation affinity (1)\n\
         cure: name reservation six in the reservation affinity (1)\n",
    );
    check_inside(
        taints,
        "4",
        json!({}),
        "0 of 2 fit\n\
         reservation six on n1 has taint gpu:NoSchedule, which the pod's reservation affinity does not \
         tolerate\n\
         cure: request 1 of cpu, not 4 (1)\n\
         cure: tolerate taint gpu:NoSchedule in the reservation affinity (1)\n",
    );
    check_inside(
        json!({ "spec": { "unschedulable": true } }),
        "4",
        must_use(&json!({})),
        "0 of 2 fit\n\
         reservation six on n1 takes no more pods: it is unschedulable\n\
         cure: tolerate taint node.kubernetes.io/unschedulable:NoSchedule in the reservation \
         affinity (1)\n\
         cure: name reservation six in the reservation affinity (1)\n",
    );
}

#[test]
fn a_reservation_that_is_not_the_one_that_a_pod_means_says_so() {
    check_inside(
        json!({}),
        "4",
        must_use(&json!({ "name": "seven" })),
        "0 of 2 fit\n\
         reservation seven on nowhere is not there, or has ended: `kubectl get reservations` lists all there are\n\
         reservation six on n1 is not the one that the pod names\n\
         cure: drop the reservation affinity (1)\n\
         cure: take names and selectors out of the reservation affinity (1)\n\
         cure: name reservation six in the reservation affinity (1)\n",
    );
    check_inside(
        json!({}),
        "4",
        must_use(&json!({ "reservationSelector": { "zone": "a" } })),
        "0 of 2 fit\n\
         reservation six on n1 is not one that the pod's reservation affinity selects\n\
         cure: drop the reservation affinity (1)\n\
         cure: take names and selectors out of the reservation affinity (1)\n\
         cure: name reservation six in the reservation affinity (1)\n",
    );
    let exact = r#"{"resourceNames":["cpu"]}"#;
    let exact = json!({ "metadata": { "annotations": { EXACT_MATCH: exact } } });
    check_inside(
        json!({}),
        "4",
        merged(must_use(&json!({})), exact),
        "0 of 2 fit\n\
         reservation six on n1 does not hold exactly what the pod asks for\n\
         cure: do without an exact match of reservations (1)\n",
    );
    let strangers = json!({ "spec": { "owners": [{ "object": { "name": "other" } }] } });
    check_inside(
        strangers.clone(),
        "4",
        must_use(&json!({ "name": "six" })),
        "0 of 2 fit\n\
         everywhere: has no reservation that is for the pod, which must use one\n\
         reservation six on n1 is for other pods: none of its spec.owners means this one\n",
    );
    check_inside(
        strangers.clone(),
        "1",
        must_use(&json!({})),
        "0 of 2 fit\n\
         everywhere: has no reservation that is for the pod, which must use one\n\
         cure: drop the reservation affinity (1)\n",
    );
    check_inside(
        json!({ "status": { "phase": "Pending", "nodeName": "" } }),
        "4",
        must_use(&json!({})),
        "0 of 2 fit\n\
         everywhere: has no reservation that is for the pod, which must use one\n\
         reservation six on nowhere has no node yet\n\
         cure: drop the reservation affinity (1)\n",
    );
}

#[test]
fn what_pods_use_of_a_reservation_is_in_the_way() {
    let uses = |name: &str| {
        let text = json!({ "name": name, "uid": name }).to_string();
        json!({ "metadata": { "annotations": { ALLOCATED: text } } })
    };
    let check = |holds: Value, cpu: &str, more: Value, expected: &str| {
        let mut world = busy().holds("six", "n1", "6", holds).runs("in", "n1", "4", uses("six"));
        assert_eq!(world.asks(cpu, more), expected);
    };
    check(
        json!({}),
        "4",
        must_use(&json!({})),
        "0 of 2 fit\n\
         n1 has a reservation that is short of cpu by 2: 4 asked, 2 of 6 left\n\
         n2 has no reservation that is for the pod, which must use one\n\
         reservation six on n1 is short of cpu by 2: 4 asked, 2 of 6 left\n\
         cure: request 2 of cpu, not 4 (1)\n",
    );
    check(
        json!({ "spec": { "allocateOnce": true } }),
        "1",
        must_use(&json!({})),
        "0 of 2 fit\n\
         n1 has reservations for the pod, and none that it can use\n\
         n2 has no reservation that is for the pod, which must use one\n\
         reservation six on n1 is for one pod, and another has it\n\
         cure: drop the reservation affinity (1)\n",
    );
    check(
        json!({ "spec": { "allocatePolicy": "Aligned" } }),
        "4",
        must_use(&json!({})),
        "0 of 2 fit\n\
         n1 has too little cpu, even with the room that would be made for it\n\
         n2 has no reservation that is for the pod, which must use one\n\
         reservation six on n1 its node is short of cpu by 2: 4 asked, 2 of 8 free\n\
         cure: request 2 of cpu, not 4 (1)\n",
    );
    // One that need not use it is told of what is free, and of the reservation besides.
    check(
        json!({}),
        "4",
        json!({}),
        "0 of 2 fit\n\
         n2 is short of cpu by 3: 4 asked, 1 of 8 free\n\
         n1 is short of cpu by 4: 4 asked, 0 of 8 free\n\
         reservation six on n1 is short of cpu by 2: 4 asked, 2 of 6 left\n\
         cure: request 2 of cpu, not 4 (1)\n",
    );
}

#[test]
fn a_reservation_without_a_node_is_asked_about_like_a_pod() {
    let check = |cpu: &str, more: Value, expected: &str| {
        assert_eq!(busy().wants(cpu, more), expected);
    };
    check(
        "7",
        json!({}),
        "0 of 2 fit\n\
         n1 is short of cpu by 1: 7 asked, 6 of 8 free\n\
         n2 is short of cpu by 6: 7 asked, 1 of 8 free\n\
         cure: request 6 of cpu, not 7 (1)\n",
    );
    check(
        "4",
        json!({ "spec": { "template": { "spec": { "nodeName": "n2" } } } }),
        "0 of 2 fit\n\
         n2 is short of cpu by 3: 4 asked, 1 of 8 free\n\
         n1 is not the node that the reservation names\n\
         cure: request 1 of cpu, not 4 (1)\n\
         cure: take nodeName out of the template (1)\n",
    );
    let mut world = busy().holds("six", "n1", "1", json!({})).holds("two", "n2", "1", json!({}));
    assert_eq!(
        world.wants("2", json!({ "spec": { "allocatePolicy": "" } })),
        "0 of 2 fit\n\
         n1 has reservations of another allocatePolicy\n\
         n2 is short of cpu by 2: 2 asked, 0 of 8 free; has reservations of another allocatePolicy\n\
         cure: set allocatePolicy: Aligned (1)\n"
    );
}

#[test]
fn a_reservation_that_takes_over_says_what_is_in_the_way_of_each_pod() {
    let check = |cpu: &str, more: Value, expected: &str| {
        let web = json!({ "metadata": { "labels": { "app": "web" } } });
        let mut world = busy().runs("small", "n1", "1", web.clone()).runs("odd", "n2", "500m", web);
        let takes = json!({ "spec": { "preAllocation": true } });
        assert_eq!(world.wants(cpu, merged(takes, more)), expected);
    };
    check(
        "8",
        json!({}),
        "0 of 2 fit\n\
         n1 is short of cpu by 2: 8 asked, 6 of 8 free\n\
         n2 is short of cpu by 7: 8 asked, 1 of 8 free\n\
         takeover default/small on n1 its node is short of cpu by 2: 8 asked, 6 of 8 free\n\
         takeover default/odd on n2 its node is short of cpu by 7: 8 asked, 1 of 8 free\n\
         cure: request 6 of cpu, not 8 (1)\n",
    );
    let required = json!({ "metadata": { "labels": { PRE_ALLOCATION_REQUIRED_LABEL: "true" } } });
    check(
        "7",
        required.clone(),
        "0 of 2 fit\n\
         n1 has pods that the reservation could take over, and with none of them it fits\n\
         n2 has pods that the reservation could take over, and with none of them it fits\n\
         takeover default/small on n1 its node is short of cpu by 1: 7 asked, 6 of 8 free\n\
         takeover default/odd on n2 its node is short of cpu by 6: 7 asked, 1 of 8 free\n\
         cure: request 6 of cpu, not 7 (1)\n",
    );
    check(
        "800m",
        required.clone(),
        "1 of 2 fit\n\
         n1 has pods that the reservation could take over, and with none of them it fits\n\
         takeover default/small on n1 the reservation is short of cpu by 200m: 1 asked, 800m of \
         800m left\n\
         cure: take label scheduling.koordinator.sh/pre-allocation-required off (2)\n\
         cure: do without preAllocation (1)\n",
    );
    let others = json!({ "matchLabels": { "app": "other" } });
    let others = json!({ "spec": { "owners": [{ "labelSelector": others }] } });
    check(
        "4",
        merged(required, others),
        "0 of 2 fit\n\
         n1 has no pod that the reservation could take over\n\
         n2 has no pod that the reservation could take over\n\
         cure: take label scheduling.koordinator.sh/pre-allocation-required off (1)\n\
         cure: do without preAllocation (1)\n",
    );
    check(
        "4",
        json!({ "spec": { "allocatePolicy": "Aligned" } }),
        "0 of 2 fit\n\
         everywhere: a reservation with preAllocation needs allocatePolicy: Restricted\n\
         cure: set allocatePolicy: Restricted (1)\n\
         cure: do without preAllocation (1)\n",
    );
}
