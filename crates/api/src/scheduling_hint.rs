//! What a pod says of the nodes that somebody has already chosen for it.

use serde::Deserialize;
use serde_json::Value;

use crate::malformed::{Malformed, annotation, known_keys};
use crate::pod::Pod;

/// Pod annotation: which nodes it may get, and which are tried first.
pub const SCHEDULING_HINT: &str = "internal.scheduling.koordinator.sh/scheduling-hint";
/// The older name of it, which counts where the other is not there.
pub const SCHEDULING_HINT_OLD: &str = "scheduling.koordinator.sh/scheduling-hint";

/// Which nodes a pod may get, and which are tried first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SchedulingHint {
    /// The only ones that it may get; all where none are named.
    pub node_names: Vec<Box<str>>,
    /// Those that are tried first, in this order.
    pub preferred_node_names: Vec<Box<str>>,
}

impl SchedulingHint {
    /// What a pod says; none where it says nothing.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(pod: &Pod) -> Result<Option<Self>, Malformed> {
        let fix = r#"write JSON such as {"preferredNodeNames":["node-1"]}; the keys are nodeNames, preferredNodeNames and extensions, which nobody reads"#;
        let annotations = &pod.metadata.annotations;
        let is_told = annotations.get(SCHEDULING_HINT).is_some_and(|text| !text.is_empty());
        let key = if is_told { SCHEDULING_HINT } else { SCHEDULING_HINT_OLD };
        let wrong = || Malformed::new(key, annotations.get(key).map_or("", |text| text), fix);
        let Some(all) = annotation(annotations, key, fix)? else { return Ok(None) };
        let known = ["nodeNames", "preferredNodeNames", "extensions"];
        let (all, has_others) = known_keys(all, &known);
        if has_others {
            return Err(wrong());
        }
        let hint = Self::deserialize(Value::Object(all)).map_err(|_| wrong())?;
        Ok(Some(hint).filter(|hint| *hint != Self::default()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newer_name_goes_first() {
        let check = |annotations: Value, expected: Result<Option<&str>, &str>| {
            let pod = json!({ "metadata": { "annotations": annotations } });
            let read = SchedulingHint::of(&serde_json::from_value(pod).unwrap());
            let read = read.map(|hint| hint.map(|hint| hint.node_names[0].to_string()));
            let read = read.map_err(|error| error.key);
            assert_eq!(read.as_ref().map(Option::as_deref).map_err(|key| *key), expected);
        };
        let names = |name: &str| json!({ "nodeNames": [name] }).to_string();
        check(
            json!({ SCHEDULING_HINT: names("a"), SCHEDULING_HINT_OLD: names("b") }),
            Ok(Some("a")),
        );
        check(json!({ SCHEDULING_HINT: "", SCHEDULING_HINT_OLD: names("b") }), Ok(Some("b")));
        check(json!({ SCHEDULING_HINT: r#"{"extensions":{"X":1}}"# }), Ok(None));
        check(json!({}), Ok(None));
        check(json!({ SCHEDULING_HINT: "{" }), Err(SCHEDULING_HINT));
        check(json!({ SCHEDULING_HINT: r#"{"nodeName":["a"]}"# }), Err(SCHEDULING_HINT));
        check(json!({ SCHEDULING_HINT: r#"{"nodenames":["a"]}"# }), Ok(Some("a")));
    }
}
