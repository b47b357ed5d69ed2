//! Events, which two API groups show in two forms of the same objects.
//!
//! They are stored as `v1` has them. The strict rules of `events.k8s.io/v1` apply
//! only to what is written through it.

use jiff::{SignedDuration, Timestamp};
use object::field::{Error, Errors, Path};
use object::names;
use serde_json::Value;

use super::Conversion;
use super::cells::{Cell, cell, name, naming, since, text_or, wide};
use super::fields::{number, present, text};
use super::rules::said;
use super::strategy::{Selectable, Strategy};

/// How long an event is kept, as kube-apiserver keeps it unless told otherwise.
const KEPT: SignedDuration = SignedDuration::from_hours(1);

const INSTANCE_BYTES_MAX: usize = 128;
const ACTION_BYTES_MAX: usize = 128;
const REASON_BYTES_MAX: usize = 128;
const NOTE_BYTES_MAX: usize = 1024;

/// Fields and what `events.k8s.io/v1` calls them.
const RENAMED: [(&str, &str); 7] = [
    ("message", "note"),
    ("involvedObject", "regarding"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Fields that `v1` always shows, and as what when they are empty.
const ALWAYS_SHOWN: [(&str, Empty); 7] = [
    ("involvedObject", Empty::Object),
    ("source", Empty::Object),
    ("firstTimestamp", Empty::Null),
    ("lastTimestamp", Empty::Null),
    ("eventTime", Empty::Null),
    ("reportingComponent", Empty::Text),
    ("reportingInstance", Empty::Text),
];

#[derive(Clone, Copy)]
enum Empty {
    Null,
    Text,
    Object,
}

/// How `events.k8s.io/v1` shows an event.
pub(super) const CONVERSION: Conversion = Conversion { to_stored, from_stored };

fn to_stored(event: &mut Value) {
    rename(event, |(stored, shown)| (shown, stored));
    let Some(event) = event.as_object_mut() else { return };
    for (field, empty) in ALWAYS_SHOWN {
        event.entry(field).or_insert_with(|| match empty {
            Empty::Null => Value::Null,
            Empty::Text => "".into(),
            Empty::Object => Value::Object(serde_json::Map::new()),
        });
    }
}

fn from_stored(event: &mut Value) {
    rename(event, |renamed| renamed);
    let Some(event) = event.as_object_mut() else { return };
    if event.get("reportingInstance").is_some_and(|instance| instance == "") {
        event.remove("reportingInstance");
    }
    if event.get("reportingController").is_some_and(|controller| controller == "") {
        event.remove("reportingController");
    }
}

fn rename(
    event: &mut Value,
    names: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Some(event) = event.as_object_mut() else { return };
    for pair in RENAMED {
        let (from, to) = names(pair);
        if let Some(value) = event.remove(from) {
            event.insert(to.to_owned(), value);
        }
    }
}

/// An event as `v1` shows it.
pub(super) struct Event;

/// An event as `events.k8s.io/v1` shows it.
pub(super) struct NewEvent;

const TABLE: &[Cell] = &[
    cell("Last Seen", "string", |event, now| last_seen(event, now).into()),
    cell("Type", "string", |event, _| text_or(&event["type"], "")),
    cell("Reason", "string", |event, _| text_or(&event["reason"], "")),
    cell("Object", "string", |event, _| target(&event["involvedObject"]).into()),
    wide("Subobject", "string", |event, _| text_or(&event["involvedObject"]["fieldPath"], "")),
    wide("Source", "string", |event, _| source(event).into()),
    cell("Message", "string", |event, _| text(event, "message").trim().into()),
    wide("First Seen", "string", |event, now| first_seen(event, now).into()),
    wide("Count", "string", |event, _| count(event).into()),
    naming("Name", 1, |event, _| name(event)),
];

fn first_seen(event: &Value, now: Timestamp) -> String {
    let first = present(event, "firstTimestamp").or_else(|| present(event, "eventTime"));
    since(first.unwrap_or(&Value::Null), now)
}

fn last_seen(event: &Value, now: Timestamp) -> String {
    if let Some(series) = present(event, "series") {
        return since(&series["lastObservedTime"], now);
    }
    match present(event, "lastTimestamp") {
        Some(last) => since(last, now),
        None => first_seen(event, now),
    }
}

fn count(event: &Value) -> i64 {
    let count = match present(event, "series") {
        Some(series) => return number(series, "count").unwrap_or(0),
        None => number(event, "count").unwrap_or(0),
    };
    if count == 0 { 1 } else { count }
}

fn target(involved: &Value) -> String {
    let kind = text(involved, "kind").to_lowercase();
    match text(involved, "name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Value) -> String {
    let first = |a: &str, b: &str| if a.is_empty() { b.to_owned() } else { a.to_owned() };
    let component = first(text(&event["source"], "component"), text(event, "reportingComponent"));
    let instance = first(text(&event["source"], "host"), text(event, "reportingInstance"));
    if instance.is_empty() { component } else { format!("{component}, {instance}") }
}

/// What a field that selectors can name holds.
type ValueOf = fn(&Value) -> String;

/// The fields that selectors can name, under their names in the older and in the newer form. Both
/// forms share one table, and with it the places of these values.
const FIELDS: [(&str, &str, ValueOf); 11] = [
    ("involvedObject.kind", "regarding.kind", |event| involved(event, "kind")),
    ("involvedObject.namespace", "regarding.namespace", |event| involved(event, "namespace")),
    ("involvedObject.name", "regarding.name", |event| involved(event, "name")),
    ("involvedObject.uid", "regarding.uid", |event| involved(event, "uid")),
    ("involvedObject.apiVersion", "regarding.apiVersion", |event| involved(event, "apiVersion")),
    ("involvedObject.resourceVersion", "regarding.resourceVersion", |event| {
        involved(event, "resourceVersion")
    }),
    ("involvedObject.fieldPath", "regarding.fieldPath", |event| involved(event, "fieldPath")),
    ("reason", "reason", |event| text(event, "reason").to_owned()),
    ("reportingComponent", "reportingController", |event| {
        text(event, "reportingComponent").to_owned()
    }),
    ("type", "type", |event| text(event, "type").to_owned()),
    // The newer form cannot be selected by its source, but the value has its place.
    ("source", "", selectable_source),
];

static SELECTABLE: [Selectable; FIELDS.len()] = selectable().0;
static SELECTABLE_NEW: [Selectable; FIELDS.len()] = selectable().1;

/// The fields under their older names, and under their newer ones.
const fn selectable() -> ([Selectable; FIELDS.len()], [Selectable; FIELDS.len()]) {
    let none = Selectable { name: "", value: selectable_source };
    let (mut old, mut new) = ([none; FIELDS.len()], [none; FIELDS.len()]);
    let mut index = 0;
    while index < FIELDS.len() {
        let (old_name, new_name, value) = FIELDS[index];
        old[index] = Selectable { name: old_name, value };
        new[index] = Selectable { name: new_name, value };
        index += 1;
    }
    (old, new)
}

fn involved(event: &Value, key: &str) -> String {
    text(&event["involvedObject"], key).to_owned()
}

fn selectable_source(event: &Value) -> String {
    let component = text(&event["source"], "component");
    if component.is_empty() { text(event, "reportingComponent") } else { component }.to_owned()
}

impl Strategy for Event {
    fn lifetime(&self) -> Option<SignedDuration> {
        Some(KEPT)
    }

    fn validate(&self, object: &Value) -> Errors {
        lenient(object, "reportingComponent")
    }

    fn selectable(&self) -> &'static [Selectable] {
        &SELECTABLE
    }

    fn cells(&self) -> &'static [Cell] {
        TABLE
    }
}

impl Strategy for NewEvent {
    fn lifetime(&self) -> Option<SignedDuration> {
        Some(KEPT)
    }

    fn validate(&self, object: &Value) -> Errors {
        let mut event = object.clone();
        to_stored(&mut event);
        let mut errors = lenient(&event, "reportingController");
        errors.extend(series(&event));
        if present(&event, "eventTime").is_none() {
            errors.push(Error::required(&Path::new("eventTime"), ""));
        }
        let kind = text(&event, "type");
        if kind != "Normal" && kind != "Warning" {
            let why = format!("has invalid value: {kind}");
            errors.push(Error::invalid(&Path::new("type"), "", why));
        }
        let source = &event["source"];
        let given = [
            ("firstTimestamp", present(&event, "firstTimestamp").is_some()),
            ("lastTimestamp", present(&event, "lastTimestamp").is_some()),
            ("count", number(&event, "count").unwrap_or(0) != 0),
            ("source", !text(source, "component").is_empty() || !text(source, "host").is_empty()),
        ];
        for (field, is_given) in given {
            if is_given {
                errors.push(Error::invalid(&Path::new(field), "", "needs to be unset"));
            }
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let (mut event, mut old) = (object.clone(), old.clone());
        to_stored(&mut event);
        to_stored(&mut old);
        let mut errors = lenient(&event, "reportingController");
        if event.get("series") != old.get("series") {
            errors.extend(series(&event));
        }
        let fixed = [
            ("involvedObject", "involvedObject"),
            ("reason", "reason"),
            ("message", "message"),
            ("source", "source"),
            ("firstTimestamp", "firstTimestamp"),
            ("lastTimestamp", "lastTimestamp"),
            ("count", "count"),
            ("reason", "reason"),
            ("type", "type"),
            ("eventTime", "eventTime"),
            ("action", "action"),
            ("related", "related"),
            ("reportingComponent", "reportingController"),
            ("reportingInstance", "reportingInstance"),
        ];
        for (field, shown) in fixed {
            if present(&event, field) != present(&old, field) {
                let value = event.get(field).cloned().unwrap_or_default();
                errors.push(Error::invalid(&Path::new(shown), value, "field is immutable"));
            }
        }
        errors
    }

    fn selectable(&self) -> &'static [Selectable] {
        &SELECTABLE_NEW
    }

    fn cells(&self) -> &'static [Cell] {
        TABLE
    }
}

fn series(event: &Value) -> Errors {
    let mut errors = Errors::new();
    let Some(series) = present(event, "series") else { return errors };
    if number(series, "count").unwrap_or(0) < 2 {
        errors.push(Error::invalid(&Path::new("series.count"), "", "should be at least 2"));
    }
    if present(series, "lastObservedTime").is_none() {
        errors.push(Error::required(&Path::new("series.lastObservedTime"), ""));
    }
    errors
}

/// What every event must be; `controller` is what the form calls the reporting component.
fn lenient(event: &Value, controller: &str) -> Errors {
    let mut errors = Errors::new();
    let namespace = text(&event["metadata"], "namespace");
    let involved = text(&event["involvedObject"], "namespace");
    let elsewhere = || {
        let at = Path::new("involvedObject").child("namespace");
        Error::invalid(&at, involved, "does not match event.namespace")
    };
    if present(event, "eventTime").is_none() {
        let matches = match involved {
            "" => namespace.is_empty() || namespace == "default",
            involved => involved == namespace,
        };
        if !matches {
            errors.push(elsewhere());
        }
    } else {
        if involved.is_empty() && namespace != "default" && namespace != "kube-system" {
            errors.push(elsewhere());
        }
        errors.extend(reported(event, controller));
    }
    errors.extend(said(names::dns1123_subdomain(namespace), namespace, &Path::new("namespace")));
    errors
}

/// What an event that says its exact time must say besides.
fn reported(event: &Value, controller: &str) -> Errors {
    let mut errors = Errors::new();
    let at = Path::new(controller);
    let component = text(event, "reportingComponent");
    if component.is_empty() {
        errors.push(Error::required(&at, ""));
    }
    errors.extend(said(names::qualified_name(component), component, &at));
    let bounded = [
        ("reportingInstance", INSTANCE_BYTES_MAX, true),
        ("action", ACTION_BYTES_MAX, true),
        ("reason", REASON_BYTES_MAX, true),
        ("message", NOTE_BYTES_MAX, false),
    ];
    for (field, bytes_max, is_required) in bounded {
        let value = text(event, field);
        if is_required && value.is_empty() {
            errors.push(Error::required(&Path::new(field), ""));
        }
        if value.len() > bytes_max {
            let why = format!("can have at most {bytes_max} characters");
            errors.push(Error::invalid(&Path::new(field), "", why));
        }
    }
    errors
}
