//! A pod tolerates five minutes of trouble with its node unless it says otherwise.

use serde_json::{Value, json};

use super::Attributes;
use crate::write::Part;

const SECONDS: u32 = 300;
const TROUBLES: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Adds a toleration for each trouble the pod does not mention.
pub(super) fn mutate(attributes: &Attributes<'_>, pod: &mut Value) {
    if attributes.part != Part::Object {
        return;
    }
    let given = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    let mut tolerations = given.clone();
    for trouble in TROUBLES {
        let mentioned = given.iter().any(|toleration| {
            let key = toleration["key"].as_str().unwrap_or_default();
            let effect = toleration["effect"].as_str().unwrap_or_default();
            (key == trouble || key.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !mentioned {
            tolerations.push(json!({
                "key": trouble,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": SECONDS,
            }));
        }
    }
    pod["spec"]["tolerations"] = tolerations.into();
}
