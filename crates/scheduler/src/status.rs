//! What is written into the status of a pod that has no node.

use jiff::Timestamp;
use object::time::Time;
use serde_json::{Value, json};

use crate::message::ConditionOrder;

/// The patch (strategic merge, of the subresource `status`) that says why a pod of this uid has no
/// node. It is refused where another pod has the name by now.
pub(crate) fn unscheduled(
    uid: &str,
    order: &ConditionOrder,
    message: &str,
    now: Timestamp,
) -> Value {
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
    json!({ "metadata": { "uid": uid }, "status": { "conditions": [condition] } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_transition_is_written_when_there_is_one() {
        let check = |is_transition, times: Value| {
            let order = ConditionOrder { reason: "Unschedulable", generation: 2, is_transition };
            let patch = unscheduled("u1", &order, "no", Timestamp::UNIX_EPOCH);
            let mut expected = json!({ "type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "no", "observedGeneration": 2 });
            expected.as_object_mut().unwrap().append(&mut times.as_object().unwrap().clone());
            let expected =
                json!({ "metadata": { "uid": "u1" }, "status": { "conditions": [expected] } });
            assert_eq!(patch, expected);
        };
        check(false, json!({}));
        let epoch = "1970-01-01T00:00:00Z";
        check(true, json!({ "lastProbeTime": null, "lastTransitionTime": epoch }));
    }
}
