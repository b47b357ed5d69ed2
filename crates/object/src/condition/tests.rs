use proptest::prelude::*;
use serde_json::json;

use super::*;

fn time(seconds: i64) -> Time {
    jiff::Timestamp::from_second(seconds).unwrap().into()
}

fn ready(status: &str, reason: &str) -> Condition {
    Condition {
        r#type: "Ready".into(),
        status: status.into(),
        reason: reason.into(),
        ..Condition::default()
    }
}

#[test]
fn the_transition_time_moves_with_the_status_alone() {
    let mut conditions = Vec::new();
    let mut check = |new: Condition, now: i64, changed: bool, transition: i64| {
        assert_eq!(set(&mut conditions, new, time(now)), changed);
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].last_transition_time, Some(time(transition)));
    };
    check(ready("False", "Starting"), 10, true, 10);
    check(ready("False", "Starting"), 20, false, 10);
    check(ready("False", "Slow"), 30, true, 10);
    check(ready("True", "Up"), 40, true, 40);
    check(Condition { observed_generation: Some(2), ..ready("True", "Up") }, 50, true, 40);
    let own_time = Condition { last_transition_time: Some(time(55)), ..ready("False", "Down") };
    check(own_time, 60, true, 55);
    let late = Condition { last_transition_time: Some(time(99)), ..ready("False", "Down") };
    check(late, 60, false, 55);
}

#[test]
fn a_condition_of_the_same_status_and_reason_may_be_left_as_it_is() {
    let other = Condition { r#type: "Other".into(), ..Condition::default() };
    let mut conditions = vec![ready("False", "Starting"), other];
    conditions[0].last_transition_time = Some(time(1));
    let mut check = |status: &str, reason: &str, changed: bool, transition: i64, place: usize| {
        let new = Condition { message: "new".into(), ..ready(status, reason) };
        assert_eq!(set_unless_same_reason(&mut conditions, new, time(9)), changed);
        let own = &conditions[place];
        assert_eq!((own.r#type.as_str(), own.reason.as_str()), ("Ready", reason));
        assert_eq!(own.message.is_empty(), !changed);
        assert_eq!(own.last_transition_time, Some(time(transition)));
        assert_eq!(conditions.len(), 2);
    };
    check("False", "Starting", false, 1, 0);
    check("False", "Slow", true, 1, 1);
    check("True", "Slow", true, 9, 1);
    let mut empty = Vec::new();
    assert!(set_unless_same_reason(&mut empty, ready("True", "Up"), time(3)));
    assert_eq!(empty[0].last_transition_time, Some(time(3)));
}

#[test]
fn conditions_are_found_and_removed_by_type() {
    let mut conditions = Vec::new();
    set(&mut conditions, ready("True", "Up"), time(1));
    assert!(find(&conditions, "Ready").is_some_and(Condition::is_true));
    assert_eq!(find(&conditions, "Synced"), None);
    assert_eq!(find(&conditions, "Ready").map(|found| found.reason.as_str()), Some("Up"));
    assert!(remove(&mut conditions, "Ready") && !remove(&mut conditions, "Ready"));
}

#[test]
fn a_condition_is_json_as_kubernetes_writes_it() {
    let json = json!({
        "type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:01Z",
        "reason": "Up",
    });
    let condition = Condition { last_transition_time: Some(time(1)), ..ready("True", "Up") };
    assert_eq!(serde_json::to_value(&condition).unwrap(), json);
    assert_eq!(serde_json::from_value::<Condition>(json).unwrap(), condition);
}

#[test]
fn json_conditions_keep_the_fields_they_have() {
    let mut conditions = json!(null);
    let mut check = |new: Value, now: i64, changed: bool, expected: Value| {
        let new = new.as_object().unwrap().clone();
        assert_eq!(set_json(&mut conditions, &new, time(now)), Ok(changed));
        assert_eq!(conditions, expected);
    };
    let at = |seconds: i64| time(seconds).to_string();
    check(
        json!({"type": "Ready", "status": "False", "lastHeartbeatTime": "x"}),
        1,
        true,
        json!([{"type": "Ready", "status": "False", "lastHeartbeatTime": "x", "lastTransitionTime": at(1)}]),
    );
    check(
        json!({"type": "Ready", "status": "False", "reason": "Slow"}),
        2,
        true,
        json!([{"type": "Ready", "status": "False", "reason": "Slow", "lastHeartbeatTime": "x", "lastTransitionTime": at(1)}]),
    );
    check(
        json!({"type": "Ready", "status": "True"}),
        3,
        true,
        json!([{"type": "Ready", "status": "True", "reason": "Slow", "lastHeartbeatTime": "x", "lastTransitionTime": at(3)}]),
    );
    check(
        json!({"type": "Ready", "status": "True", "lastTransitionTime": at(9)}),
        4,
        false,
        json!([{"type": "Ready", "status": "True", "reason": "Slow", "lastHeartbeatTime": "x", "lastTransitionTime": at(3)}]),
    );
}

#[test]
fn what_holds_no_conditions_is_refused() {
    let new = json!({"type": "Ready", "status": "True"});
    let new = new.as_object().unwrap();
    let check = |mut conditions: Value, text: &str| {
        let error = set_json(&mut conditions, new, time(1)).unwrap_err();
        assert_eq!(error.to_string(), text);
    };
    check(json!({}), "conditions must be a list, not an object");
    check(json!("x"), "conditions must be a list, not a string");
    let error = set_json(&mut json!([]), &Map::new(), time(1)).unwrap_err();
    assert_eq!(error, ConditionError::NoType);
}

proptest! {
    #[test]
    fn both_forms_agree(steps in prop::collection::vec((0..3_u8, 0..2_u8), 0..12)) {
        let (mut typed, mut json) = (Vec::new(), json!([]));
        for (now, (status, reason)) in steps.into_iter().enumerate() {
            let status = ["True", "False", "Unknown"][usize::from(status)];
            let new = ready(status, ["A", "B"][usize::from(reason)]);
            let now = time(i64::try_from(now).unwrap());
            let wire = serde_json::to_value(&new).unwrap();
            let changed = set_json(&mut json, wire.as_object().unwrap(), now).unwrap();
            prop_assert_eq!(set(&mut typed, new, now), changed);
            prop_assert_eq!(serde_json::to_value(&typed).unwrap(), json.clone());
        }
    }
}
