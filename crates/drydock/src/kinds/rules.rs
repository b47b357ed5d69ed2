//! Rules that several kinds share, with the words kube-apiserver uses for them.
//!
//! Each takes a value whose type the schema has checked and says what is wrong with
//! it; a value that is not there breaks no rule here.

use object::field::{Error, Errors, Fault, Path};
use object::names;
use object::quantity::Quantity;
use object::selector::label::{LabelSelector, Selector};
use serde_json::Value;

use super::fields::{map, number, present, text};

/// The number under `key` must not be negative.
pub(crate) fn nonnegative(object: &Value, key: &str, at: &Path) -> Errors {
    match number(object, key) {
        Some(value) if value < 0 => {
            vec![Error::invalid(&at.child(key), value, "must be greater than or equal to 0")]
        }
        _ => Errors::new(),
    }
}

/// Several numbers must not be negative.
pub(crate) fn all_nonnegative(object: &Value, keys: &[&str], at: &Path) -> Errors {
    keys.iter().flat_map(|key| nonnegative(object, key, at)).collect()
}

/// What is under `key` must stay as it was.
pub(crate) fn immutable(object: &Value, old: &Value, key: &str, at: &Path) -> Errors {
    let (new, was) = (present(object, key), present(old, key));
    if new == was {
        return Errors::new();
    }
    let shown = new.cloned().unwrap_or_default();
    vec![Error::invalid(&at.child(key), shown, "field is immutable")]
}

/// The text under `key`, where there is one, must be of a closed set.
pub(crate) fn one_of(object: &Value, key: &str, supported: &[&str], at: &Path) -> Errors {
    match present(object, key).and_then(Value::as_str) {
        Some(value) if !supported.contains(&value) => {
            vec![Error::not_supported(&at.child(key), value, supported)]
        }
        _ => Errors::new(),
    }
}

/// A text must be there and be of a closed set, which is listed in the order given.
pub(crate) fn required_one_of(value: &str, supported: &[&str], at: &Path) -> Errors {
    match value {
        "" => vec![Error::required(at, "")],
        value if supported.contains(&value) => Errors::new(),
        value => vec![Error::not_supported(at, value, supported)],
    }
}

/// The texts of `messages` about a value, as errors.
pub(crate) fn said(messages: Vec<String>, value: &str, at: &Path) -> Errors {
    messages.into_iter().map(|message| Error::invalid(at, value, message)).collect()
}

/// A number or a percentage; neither may be negative.
pub(crate) fn int_or_percent(value: &Value, at: &Path) -> Errors {
    match value {
        Value::String(text) => said(names::percent(text), text, at),
        value if value.as_i64().unwrap_or(0) < 0 => {
            vec![Error::invalid(at, value.clone(), "must be greater than or equal to 0")]
        }
        _ => Errors::new(),
    }
}

/// A percentage of at most a hundred, or a number.
pub(crate) fn at_most_100_percent(value: &Value, at: &Path) -> Errors {
    match percent(value) {
        Some(share) if share > 100 => {
            vec![Error::invalid(at, value.clone(), "must not be greater than 100%")]
        }
        _ => Errors::new(),
    }
}

fn percent(value: &Value) -> Option<i64> {
    let text = value.as_str()?;
    if !names::percent(text).is_empty() {
        return None;
    }
    text.trim_end_matches('%').parse().ok()
}

/// The number in a number or percentage; a text that is neither counts as nothing.
pub(crate) fn amount(value: &Value) -> i64 {
    percent(value)
        .or_else(|| value.as_i64())
        .unwrap_or_else(|| value.as_str().and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// The label selector under `key`, where there is one that can be read.
pub(crate) fn selector(object: &Value, key: &str) -> Option<LabelSelector> {
    serde_json::from_value(present(object, key)?.clone()).ok()
}

/// What is wrong with the label selector under `key`.
pub(crate) fn selector_errors(object: &Value, key: &str, at: &Path) -> Errors {
    selector(object, key).map(|selector| selector.validate(&at.child(key))).unwrap_or_default()
}

/// Whether the selector under `key` selects nothing in particular.
pub(crate) fn is_empty_selector(object: &Value, key: &str) -> bool {
    selector(object, key).is_some_and(|selector| {
        selector.to_selector().is_ok_and(|selector| selector.is_everything())
    })
}

/// A selector must select the labels of the template beside it.
pub(crate) fn selects_template(spec: &Value, at: &Path) -> Errors {
    let selector = match present(spec, "selector") {
        // A selector that is not there selects nothing.
        None => Some(Selector::nothing()),
        Some(_) => selector(spec, "selector").and_then(|all| all.to_selector().ok()),
    };
    let Some(selector) = selector else { return Errors::new() };
    let labels = spec.get("template").and_then(|template| template.get("metadata"));
    let labels = labels.and_then(|metadata| map(metadata, "labels"));
    if selector.matches_labels(labels) {
        return Errors::new();
    }
    let shown = labels.map(|labels| Value::Object(labels.clone())).unwrap_or_default();
    let at = at.child("template").child("metadata").child("labels");
    vec![Error::invalid(&at, shown, "`selector` does not match template `labels`")]
}

/// A fault whose value is shown as `form`, the way kube-apiserver's own structs are: in their order
/// and with their names.
pub(crate) fn fault_of_form(at: &Path, fault: Fault, form: &str, why: &str) -> Error {
    let detail = if why.is_empty() { form.to_owned() } else { format!("{form}: {why}") };
    Error { path: at.clone(), fault, value: None, detail }
}

/// An amount above zero.
pub(crate) fn positive_quantity(value: &Value, at: &Path) -> Errors {
    match value.as_str().and_then(|text| text.parse::<Quantity>().ok()) {
        Some(quantity) if quantity.sign() <= 0 => {
            vec![Error::invalid(at, value.clone(), "must be greater than zero")]
        }
        _ => Errors::new(),
    }
}

/// An amount of zero or more.
pub(crate) fn nonnegative_quantity(value: &Value, at: &Path) -> Errors {
    match value.as_str().and_then(|text| text.parse::<Quantity>().ok()) {
        Some(quantity) if quantity.sign() < 0 => {
            vec![Error::invalid(at, value.clone(), "must be greater than or equal to 0")]
        }
        _ => Errors::new(),
    }
}

/// The count of the status must not go down.
pub(crate) fn not_decremented(object: &Value, old: &Value, key: &str) -> Errors {
    let (new, was) = (number(&object["status"], key), number(&old["status"], key));
    if was.is_none_or(|was| new.is_some_and(|new| new >= was)) {
        return Errors::new();
    }
    let at = Path::new("status").child(key);
    vec![Error::invalid(&at, new.unwrap_or(0), "cannot be decremented")]
}

/// Whether the status has a condition of this type that is true.
pub(crate) fn is_condition_true(object: &Value, name: &str) -> bool {
    has_condition(object, name, "True")
}

/// Whether the status has a condition of this type and status.
pub(crate) fn has_condition(object: &Value, name: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| text(condition, "type") == name && text(condition, "status") == status)
}

/// Names that end up in names of pods should be labels; a new object with any other earns a
/// warning.
pub(crate) fn label_recommended(object: &Value, old: Option<&Value>) -> Vec<String> {
    let messages = names::dns1123_label(text(&object["metadata"], "name"));
    if messages.is_empty() || old.is_some() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
        messages.join(" ")
    )]
}
