//! A field that is `null` reads as one that is absent, as in Go.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Maps, whose values are no fields of ours.
const MAPS: [&str; 16] = [
    "labels",
    "annotations",
    "nodeSelector",
    "requests",
    "limits",
    "overhead",
    "allocatedResources",
    "capacity",
    "allocatable",
    "allocated",
    "disruptedPods",
    "selector",
    "min",
    "max",
    "used",
    "quotaLabels",
];

/// What `object` reads, and templates, which are JSON.
const FOREIGN: [&str; 8] = [
    "conditions",
    "tolerations",
    "taints",
    "labelSelector",
    "namespaceSelector",
    "nodeTopology",
    "template",
    "matchLabels",
];

/// Reads `wire` once for each of its fields, with the field `null` and without it.
pub(super) fn check<T: DeserializeOwned + Debug + PartialEq>(wire: &Value) {
    let mut places = Vec::new();
    collect(wire, "", &mut places);
    assert!(places.len() > 3, "a wire with fields");
    for (object, field) in places {
        let read = |value: Option<Value>| {
            let mut changed = wire.clone();
            let parent = changed.pointer_mut(&object).and_then(Value::as_object_mut);
            let parent = parent.expect("the path of an object");
            parent.remove(&field);
            parent.extend(value.map(|value| (field.clone(), value)));
            let read: Result<T, _> = serde_json::from_value(changed);
            read.unwrap_or_else(|error| panic!("{object}/{field}: {error}"))
        };
        assert_eq!(read(Some(Value::Null)), read(None), "{object}/{field}");
    }
}

fn collect(value: &Value, path: &str, places: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (name, child) in fields {
                places.push((path.to_owned(), name.clone()));
                if !MAPS.contains(&name.as_str()) && !FOREIGN.contains(&name.as_str()) {
                    collect(child, &format!("{path}/{name}"), places);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, &format!("{path}/{index}"), places);
            }
        }
        _ => {}
    }
}
