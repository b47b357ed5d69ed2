//! Where two answers differ.

use std::fmt;

use serde_json::Value;

/// A place where two JSON values differ; a side that has nothing there is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// The place, as a JSON pointer.
    pub pointer: String,
    /// What the server under test says.
    pub ours: Option<Value>,
    /// What the real server says.
    pub truth: Option<Value>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| match value {
            Some(value) => value.to_string(),
            None => "(nothing)".to_owned(),
        };
        let (ours, truth) = (shown(&self.ours), shown(&self.truth));
        write!(f, "{}\n    ours:  {ours}\n    truth: {truth}", self.pointer)
    }
}

/// All places where `ours` differs from `truth`, in order.
#[must_use]
pub fn mismatches(ours: &Value, truth: &Value) -> Vec<Mismatch> {
    let mut found = Vec::new();
    compare(&mut found, String::new(), Some(ours), Some(truth));
    found
}

fn compare(
    found: &mut Vec<Mismatch>,
    pointer: String,
    ours: Option<&Value>,
    truth: Option<&Value>,
) {
    match (ours, truth) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let escaped = key.replace('~', "~0").replace('/', "~1");
                compare(found, format!("{pointer}/{escaped}"), a.get(key), b.get(key));
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                compare(found, format!("{pointer}/{index}"), a.get(index), b.get(index));
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(Mismatch { pointer, ours: a.cloned(), truth: b.cloned() }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_difference_is_found_where_it_is() {
        let check = |ours: Value, truth: Value, expected: &[&str]| {
            let found = mismatches(&ours, &truth);
            let pointers: Vec<&str> = found.iter().map(|one| one.pointer.as_str()).collect();
            assert_eq!(pointers, expected, "{ours} {truth}");
        };
        check(json!({"a": 1}), json!({"a": 1}), &[]);
        check(json!({"a": 1, "b": 2}), json!({"a": 2, "c": 2}), &["/a", "/b", "/c"]);
        check(json!([1, {"x": 1}]), json!([1, {"x": 2}, 3]), &["/1/x", "/2"]);
        check(json!({"a/b": null}), json!({}), &["/a~1b"]);
        check(json!([]), json!({}), &[""]);
        check(json!(1), json!(1.0), &[""]);
    }
}
