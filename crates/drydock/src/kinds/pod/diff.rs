//! Where two JSON values differ, in lines a person can read.

use serde_json::Value;

/// How many differences are shown before the rest is only counted.
const LINES_MAX: usize = 20;

/// One line per difference: what goes with `-`, what comes with `+`.
pub(super) fn lines(old: &Value, new: &Value) -> String {
    let mut lines = Vec::new();
    compare(&mut lines, "", Some(old), Some(new));
    let more = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    if more > 0 {
        lines.push(format!("  and {more} more"));
    }
    lines.join("\n")
}

fn compare(lines: &mut Vec<String>, path: &str, old: Option<&Value>, new: Option<&Value>) {
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                compare(lines, &format!("{path}.{key}"), old.get(key), new.get(key));
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for index in 0..old.len().max(new.len()) {
                compare(lines, &format!("{path}[{index}]"), old.get(index), new.get(index));
            }
        }
        (old, new) if old == new => {}
        (old, new) => {
            let mut line = |sign: char, value: Option<&Value>| {
                if let Some(value) = value {
                    lines.push(format!("{sign} {}: {value}", path.trim_start_matches('.')));
                }
            };
            line('-', old);
            line('+', new);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs_is_shown() {
        let check =
            |old: Value, new: Value, expected: &str| assert_eq!(lines(&old, &new), expected);
        check(json!({"a": 1}), json!({"a": 1}), "");
        check(
            json!({"a": 1, "b": [1]}),
            json!({"b": [2, 3]}),
            "- a: 1\n- b[0]: 1\n+ b[0]: 2\n+ b[1]: 3",
        );
        let many: Vec<usize> = (0..30).collect();
        assert!(lines(&json!([]), &json!(many)).ends_with("  and 10 more"));
    }
}
