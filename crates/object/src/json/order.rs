//! An order of values, so that they can be looked up instead of compared one by one.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// A value that can be the key of a sorted map. Two are equal exactly when the values are; which
/// comes first means nothing beyond that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByValue<'v>(pub(crate) &'v Value);

impl Ord for ByValue<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        crate::work::note();
        match (self.0, other.0) {
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (Value::Number(left), Value::Number(right)) => numbers(left, right),
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Array(left), Value::Array(right)) => left
                .len()
                .cmp(&right.len())
                .then_with(|| left.iter().map(ByValue).cmp(right.iter().map(ByValue))),
            (Value::Object(left), Value::Object(right)) => {
                let by_value = |(key, value)| (key, ByValue(value));
                left.len()
                    .cmp(&right.len())
                    .then_with(|| left.iter().map(by_value).cmp(right.iter().map(by_value)))
            }
            (left, right) => rank(left).cmp(&rank(right)),
        }
    }
}

impl PartialOrd for ByValue<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByValue<'_> {}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

/// A float is never equal to an integer, as for the values themselves.
fn numbers(left: &Number, right: &Number) -> Ordering {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => {
            let (left, right) = (left.as_f64(), right.as_f64());
            left.partial_cmp(&right).unwrap_or(Ordering::Equal)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_equal_in_the_order_exactly_when_they_are_equal() {
        let values = [
            json!(null),
            json!(false),
            json!(true),
            json!(0),
            json!(0.0),
            json!(-0.0),
            json!(-1),
            json!(1),
            json!(1.0),
            json!(u64::MAX),
            json!(1e300),
            json!(""),
            json!("a"),
            json!([]),
            json!([1]),
            json!([1, 2]),
            json!([[1], 2]),
            json!({}),
            json!({"a": 1}),
            json!({"a": 2}),
            json!({"b": 1}),
            json!({"a": 1, "b": 1}),
        ];
        for left in &values {
            for right in &values {
                let order = ByValue(left).cmp(&ByValue(right));
                assert_eq!(order.is_eq(), left == right, "{left} {right}");
                assert_eq!(order.reverse(), ByValue(right).cmp(&ByValue(left)), "{left} {right}");
            }
        }
        let mut sorted: Vec<ByValue<'_>> = values.iter().map(ByValue).collect();
        sorted.sort();
        assert!(sorted.is_sorted());
    }
}
