//! What is written into the status of pods, as strategic merge patches of the subresource
//! `status`. Each names the uid of its pod, and is refused where another has the name by now.

use api::pod::DISRUPTION_TARGET;
use jiff::Timestamp;
use object::time::Time;
use serde_json::{Value, json};

use crate::message::{ConditionOrder, TellOrder};

/// That a pod has no node and why, and on which node room is made for it; none where all of it is
/// written already.
pub(crate) fn unscheduled(order: &TellOrder, now: Timestamp) -> Option<Value> {
    let condition = order.condition.as_ref().map(|own| condition(own, &order.message, now));
    if condition.is_none() && order.nominated.is_none() {
        return None;
    }
    let mut status = json!({});
    if let Some(condition) = condition {
        status["conditions"] = json!([condition]);
    }
    if let Some(node) = &order.nominated {
        status["nominatedNodeName"] = nominated(node);
    }
    Some(patch(&order.pod.uid.0, &status))
}

fn condition(order: &ConditionOrder, message: &str, now: Timestamp) -> Value {
    let mut condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": order.reason,
        "message": message,
        "observedGeneration": order.generation,
    });
    if order.is_transition {
        condition["lastProbeTime"] = Value::Null;
        condition["lastTransitionTime"] = json!(Time::from(now));
    }
    condition
}

fn nominated(node: &str) -> Value {
    if node.is_empty() { Value::Null } else { node.into() }
}

/// That no room is made for a pod any longer.
pub(crate) fn passed_over(uid: &str) -> Value {
    patch(uid, &json!({ "nominatedNodeName": null }))
}

/// That a pod of this generation has to go for one that `scheduler` places.
pub(crate) fn preempted(uid: &str, generation: i64, scheduler: &str, now: Timestamp) -> Value {
    let message = format!("{scheduler}: preempting to accommodate a higher priority pod");
    let condition = json!({
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": message,
        "observedGeneration": generation,
        "lastProbeTime": null,
        "lastTransitionTime": Time::from(now),
    });
    patch(uid, &json!({ "conditions": [condition] }))
}

fn patch(uid: &str, status: &Value) -> Value {
    json!({ "metadata": { "uid": uid }, "status": status })
}

#[cfg(test)]
mod tests {
    use engine::fact::PodRef;
    use engine::fact::Uid;

    use super::*;

    #[test]
    fn only_what_changes_is_written() {
        let check = |is_transition: Option<bool>, node: Option<&str>, expected: Option<Value>| {
            let pod = PodRef {
                uid: Uid::new("u1"),
                namespace: "ns".into(),
                name: "p".into(),
                is_reservation: false,
            };
            let condition = is_transition.map(|is_transition| ConditionOrder {
                reason: "Unschedulable",
                generation: 2,
                is_transition,
            });
            let (nominated, scheduler) = (node.map(Into::into), "s".into());
            let message = "no".into();
            let (version, room) = (Box::default(), None);
            let reservations = None;
            let order = TellOrder {
                pod,
                version,
                scheduler,
                message,
                condition,
                nominated,
                room,
                reservations,
            };
            let expected =
                expected.map(|status| json!({ "metadata": { "uid": "u1" }, "status": status }));
            assert_eq!(unscheduled(&order, Timestamp::UNIX_EPOCH), expected);
        };
        let still = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "no", "observedGeneration": 2 });
        let mut now = still.clone();
        now["lastProbeTime"] = Value::Null;
        now["lastTransitionTime"] = json!("1970-01-01T00:00:00Z");
        check(None, None, None);
        check(Some(false), None, Some(json!({ "conditions": [still] })));
        check(Some(true), None, Some(json!({ "conditions": [now] })));
        check(None, Some("n1"), Some(json!({ "nominatedNodeName": "n1" })));
        check(None, Some(""), Some(json!({ "nominatedNodeName": null })));
        let both = json!({ "conditions": [still], "nominatedNodeName": "n1" });
        check(Some(false), Some("n1"), Some(both));
    }
}
