//! How many replicas are wanted and how many there are, for every kind that has them.

use http::StatusCode;
use object::field::{Error, Path};
use object::selector::label::LabelSelector;
use serde_json::{Map, Value, json};

use crate::answer::failure::GroupResource;
use crate::answer::{Answer, Failure, body};
use crate::kinds::ScalePaths;
use crate::request::{FieldValidation, OptionsKind, WriteOptions};
use crate::verbs::patch::Patch;
use crate::verbs::{self, Ask};
use crate::write::body_type::SCALE;
use crate::write::decode::Decoded;
use crate::write::{self, Attempt, Part, Written, meta_text};

/// Where native kinds keep their numbers.
fn native_paths() -> ScalePaths {
    ScalePaths {
        spec_replicas: ".spec.replicas".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        selector: None,
    }
}

fn paths(ask: &Ask<'_>) -> ScalePaths {
    ask.found.version().scale.clone().unwrap_or_else(native_paths)
}

/// Answers with the scale of an object.
pub(super) fn get(ask: &Ask<'_>) -> Result<Answer, Failure> {
    let kind = &ask.found.kind;
    let stored = kind.table.get(&ask.target.key());
    let stored = stored.ok_or_else(|| Failure::not_found(&kind.resource(), ask.name()))?;
    let object = write::materialize(kind, ask.found.version(), &stored);
    Ok(body::value(StatusCode::OK, &scale_of(&paths(ask), &object)))
}

/// Changes the wanted count to that of a whole Scale.
pub(super) fn update(ask: &Ask<'_>) -> Result<Answer, Failure> {
    let options = WriteOptions::parse(&ask.query, OptionsKind::Update)?;
    let scale = SCALE.decode(&ask.headers, &ask.body, options.field_validation)?;
    change(ask, &options, &Change::Whole(scale))
}

/// Changes the wanted count by a patch to the Scale.
pub(super) fn patch(ask: &Ask<'_>) -> Result<Answer, Failure> {
    let options = WriteOptions::parse(&ask.query, OptionsKind::Patch)?;
    let patch = match Patch::read(ask, &PATCHES)? {
        Patch::Strategic(map) => Patch::Merge(Value::Object(map)),
        patch => patch,
    };
    change(ask, &options, &Change::Patch(patch))
}

fn change(ask: &Ask<'_>, options: &WriteOptions, change: &Change) -> Result<Answer, Failure> {
    let paths = paths(ask);
    let attempt = Attempt {
        found: &ask.found,
        namespace: ask.namespace(),
        name: ask.name(),
        part: Part::Named("scale"),
        writer: ask.writer(options.dry_run),
    };
    let mut warnings = Vec::new();
    let written = ask.update(&attempt, |old| {
        let read = change.apply(ask, scale_of(&paths, old), options.field_validation)?;
        let scale = read.value;
        warnings = read.warnings;
        check(ask, &scale)?;
        let mut object = old.clone();
        set(
            &mut object,
            &paths.spec_replicas,
            scale["spec"]["replicas"].as_i64().unwrap_or(0).into(),
        );
        let wanted = meta_text(&scale, "resourceVersion");
        if !wanted.is_empty() {
            object["metadata"]["resourceVersion"] = wanted.into();
        }
        Ok(object)
    })?;
    let object = match &written {
        Written::Stored(stored) => write::materialize(&ask.found.kind, ask.found.version(), stored),
        Written::Rehearsed(object) | Written::Ended(object) => object.clone(),
    };
    let mut answer = body::value(StatusCode::OK, &scale_of(&paths, &object));
    verbs::warn(&mut answer, &warnings);
    Ok(answer)
}

/// The languages a Scale can be patched in. It has no lists, so the two merges mean the same.
const PATCHES: [&str; 3] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

enum Change {
    Whole(Decoded),
    Patch(Patch),
}

impl Change {
    fn apply(
        &self,
        ask: &Ask<'_>,
        scale: Value,
        validation: FieldValidation,
    ) -> Result<Decoded, Failure> {
        let patch = match self {
            Self::Whole(whole) => return Ok(whole.clone()),
            Self::Patch(patch) => patch,
        };
        let patched = patch.apply(scale, ask.found.version().schema.root())?;
        let shown = patch.shown(&patched);
        let read = SCALE.conform(patched, validation);
        read.map_err(|(_, why)| Failure::unreadable_patch(shown, why))
    }
}

fn check(ask: &Ask<'_>, scale: &Value) -> Result<(), Failure> {
    let given = meta_text(scale, "name");
    if given != ask.name() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            ask.name()
        )));
    }
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    // What a custom object's own check finds is told of the object, not of its scale.
    if replicas >= 0 || ask.found.kind.is_custom() {
        return Ok(());
    }
    let at = Path::new("spec").child("replicas");
    let error = Error::invalid(&at, replicas, "must be greater than or equal to 0");
    let kind = GroupResource { group: "autoscaling", resource: "Scale" };
    Err(Failure::invalid(&kind, ask.name(), &[error]))
}

fn scale_of(paths: &ScalePaths, object: &Value) -> Value {
    let number = |path: &str| value_at(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    if let Some(selector) = selector(paths, object).filter(|text| !text.is_empty()) {
        status["selector"] = selector.into();
    }
    let replicas = number(&paths.spec_replicas);
    let spec = if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) };
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    })
}

fn selector(paths: &ScalePaths, object: &Value) -> Option<String> {
    if let Some(path) = &paths.selector {
        return value_at(object, path)?.as_str().map(str::to_owned);
    }
    let selector = object["spec"].get("selector")?;
    let selector: LabelSelector = serde_json::from_value(selector.clone()).ok()?;
    Some(selector.to_selector().ok()?.to_string())
}

/// What a simple path such as `.spec.replicas` leads to.
fn value_at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').filter(|part| !part.is_empty()).try_fold(object, |value, part| value.get(part))
}

fn set(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[part];
    }
    *place = value;
}
