//! What is wrong with a CustomResourceDefinition, in the words and the order of kube-apiserver.
//!
//! kube-apiserver checks a form in which what all versions share stands once, above them, so its
//! messages name `spec.validation` where the user wrote `spec.versions[0].schema`.

use object::field::{Error, Errors, Path};
use object::names;
use object::schema::{Schema, status_root_errors};
use serde_json::{Value, json};

/// The annotation by which a definition in a group of Kubernetes itself is approved.
const APPROVED: &str = "api-approved.kubernetes.io";

/// The types a column can have.
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
/// The formats a column can have.
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// What is wrong with a new definition.
pub(super) fn errors(object: &Value) -> Errors {
    let mut errors = name_errors(object);
    errors.extend(common_errors(object, Schemas::New));
    errors.extend(approval_errors(object, None));
    errors.extend(preserve_errors(object, None));
    with_path_errors(object, errors)
}

/// What is wrong with a changed definition.
pub(super) fn change_errors(object: &Value, old: &Value) -> Errors {
    let is_same = object["spec"]["versions"] == old["spec"]["versions"];
    let schemas = if is_same { Schemas::Known } else { Schemas::New };
    let mut errors = common_errors(object, schemas);
    errors.extend(immutable_errors(object, old));
    errors.extend(approval_errors(object, Some(old)));
    errors.extend(preserve_errors(object, Some(old)));
    with_path_errors(object, errors)
}

/// Adds what else stands against serving the definition, where nothing else does.
fn with_path_errors(object: &Value, errors: Errors) -> Errors {
    if errors.is_empty() { super::build::path_errors(&object["spec"]) } else { errors }
}

/// Whether the schemas of a definition were found to be good before. Reading one means compiling
/// each of its rules and patterns, so it is not done for a change that leaves them alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Schemas {
    New,
    Known,
}

fn common_errors(object: &Value, schemas: Schemas) -> Errors {
    let spec = &object["spec"];
    let at = Path::new("spec");
    let mut errors = group_and_scope_errors(spec, &at);
    errors.extend(version_errors(spec, &at, schemas));
    errors.extend(names_errors(&spec["names"], &at.child("names")));
    let shared = |field: &str| shared(spec, field).filter(|value| !value.is_null());
    if let (Schemas::New, Some(schema)) = (schemas, shared("schema")) {
        errors.extend(schema_errors(spec, schema, &at.child("validation")));
    }
    if let Some(parts) = shared("subresources") {
        errors.extend(subresource_errors(parts, &at.child("subresources")));
    }
    if let Some(columns) = shared("additionalPrinterColumns") {
        errors.extend(column_errors(columns, &at.child("additionalPrinterColumns")));
    }
    errors.extend(conversion_errors(spec, &at.child("conversion")));
    errors.extend(stored_version_errors(object));
    errors
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn versions(spec: &Value) -> &[Value] {
    spec["versions"].as_array().map_or(&[], Vec::as_slice)
}

/// What all versions have as `field`, where they all have the same.
fn shared<'a>(spec: &'a Value, field: &str) -> Option<&'a Value> {
    let versions = versions(spec);
    let first = &versions.first()?[field];
    versions.iter().all(|version| version[field] == *first).then_some(first)
}

fn name_errors(object: &Value) -> Errors {
    let (spec, name) = (&object["spec"], text(&object["metadata"]["name"]));
    let required = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
    if name == required {
        return Errors::new();
    }
    let at = Path::new("metadata").child("name");
    vec![Error::invalid(&at, name, "must be spec.names.plural+\".\"+spec.group")]
}

fn group_and_scope_errors(spec: &Value, at: &Path) -> Errors {
    let mut errors = Errors::new();
    let (group, group_at) = (text(&spec["group"]), at.child("group"));
    let faults = names::dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(Error::required(&group_at, ""));
    } else if !faults.is_empty() {
        errors.push(Error::invalid(&group_at, group, faults.join(",")));
    } else if !group.contains('.') {
        errors.push(Error::invalid(&group_at, group, "should be a domain with at least one dot"));
    }
    match text(&spec["scope"]) {
        "Cluster" | "Namespaced" => {}
        "" => errors.push(Error::required(&at.child("scope"), "")),
        other => {
            let supported = ["Cluster", "Namespaced"];
            errors.push(Error::not_supported(&at.child("scope"), other, &supported));
        }
    }
    let list = at.child("versions");
    for (index, version) in versions(spec).iter().enumerate() {
        if !version["schema"]["openAPIV3Schema"].is_object() {
            let at = list.index(index).child("schema").child("openAPIV3Schema");
            errors.push(Error::required(&at, ""));
        }
    }
    errors
}

fn version_errors(spec: &Value, at: &Path, schemas: Schemas) -> Errors {
    let mut errors = Errors::new();
    let (list, at_list) = (versions(spec), at.child("versions"));
    let is_own = |field: &str| shared(spec, field).is_none();
    for (index, version) in list.iter().enumerate() {
        let at = at_list.index(index);
        errors.extend(label_errors(&version["name"], &at.child("name")));
        if schemas == Schemas::New && is_own("schema") {
            errors.extend(schema_errors(version, &version["schema"], &at.child("schema")));
        }
        if is_own("subresources") {
            errors.extend(subresource_errors(&version["subresources"], &at.child("subresources")));
        }
        if is_own("additionalPrinterColumns") {
            let columns = &version["additionalPrinterColumns"];
            errors.extend(column_errors(columns, &at.child("additionalPrinterColumns")));
        }
    }
    let mut names: Vec<&str> = list.iter().map(|version| text(&version["name"])).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        let why = "must contain unique version names";
        errors.push(Error::invalid(&at_list, shown(spec), why));
    }
    if list.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(Error::invalid(&at_list, shown(spec), why));
    }
    if let Some(first) = list.first() {
        errors.extend(label_errors(&first["name"], &at.child("version")));
    }
    errors
}

/// The versions as kube-apiserver shows them: its own form, here without what a version has apart
/// from the others.
fn shown(spec: &Value) -> Value {
    let version = |version: &Value| {
        json!({
            "Name": version["name"],
            "Served": version["served"] == true,
            "Storage": version["storage"] == true,
            "Deprecated": version["deprecated"] == true,
            "DeprecationWarning": version["deprecationWarning"],
            "Schema": null,
            "Subresources": null,
            "AdditionalPrinterColumns": null,
            "SelectableFields": null,
        })
    };
    versions(spec).iter().map(version).collect()
}

fn label_errors(value: &Value, at: &Path) -> Errors {
    let faults = names::dns1035_label(text(value));
    if faults.is_empty() {
        return Errors::new();
    }
    vec![Error::invalid(at, text(value), faults.join(","))]
}

fn names_errors(names: &Value, at: &Path) -> Errors {
    let mut errors = Errors::new();
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(&names[field]).is_empty() {
            errors.push(Error::required(&at.child(field), ""));
        }
    }
    let given = |field: &str| Some(&names[field]).filter(|value| !text(value).is_empty());
    for field in ["plural", "singular"] {
        errors
            .extend(given(field).into_iter().flat_map(|name| label_errors(name, &at.child(field))));
    }
    for field in ["kind", "listKind"] {
        let Some(name) = given(field).map(text) else { continue };
        let faults = names::dns1035_label(&name.to_lowercase());
        if !faults.is_empty() {
            let why = "may have mixed case, but should otherwise match: ";
            errors.push(Error::invalid(
                &at.child(field),
                name,
                format!("{why}{}", faults.join(",")),
            ));
        }
    }
    let listed = |field: &str| {
        let names = names[field].as_array().map_or(&[][..], Vec::as_slice);
        let at = at.child(field);
        let check = |(index, name)| label_errors(name, &at.index(index));
        names.iter().enumerate().flat_map(check).collect::<Errors>()
    };
    errors.extend(listed("shortNames"));
    if let Some(kind) = given("kind").filter(|kind| **kind == names["listKind"]) {
        let why = "kind and listKind may not be the same";
        errors.push(Error::invalid(&at.child("listKind"), text(kind), why));
    }
    errors.extend(listed("categories"));
    errors
}

/// `holder` says whether the status is a part of its own.
fn schema_errors(holder: &Value, schema: &Value, at: &Path) -> Errors {
    let (schema, at) = (&schema["openAPIV3Schema"], at.child("openAPIV3Schema"));
    if !schema.is_object() {
        return Errors::new();
    }
    let has_status = |version: &Value| version["subresources"]["status"].is_object();
    let mut errors = Errors::new();
    if has_status(holder) || versions(holder).iter().any(has_status) {
        errors.extend(status_root_errors(schema, &at));
    }
    errors.extend(Schema::from_crd(schema, &at).err().unwrap_or_default());
    errors
}

fn subresource_errors(parts: &Value, at: &Path) -> Errors {
    let mut errors = Errors::new();
    let Some(scale) = parts["scale"].as_object() else { return errors };
    let rules = [
        ("specReplicasPath", &[".spec."][..], "should be a json path under .spec"),
        ("statusReplicasPath", &[".status."], "should be a json path under .status"),
        (
            "labelSelectorPath",
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
        ),
    ];
    for (field, starts, why) in rules {
        let at = at.child("scale").child(field);
        let path = scale.get(field).map(text).unwrap_or_default();
        if path.is_empty() {
            if field != "labelSelectorPath" {
                errors.push(Error::required(&at, ""));
            }
        } else if let Some(error) = path_error(path, &at) {
            errors.push(error);
        } else if !starts.iter().any(|start| path.starts_with(start)) {
            errors.push(Error::invalid(&at, path, why));
        }
    }
    errors
}

fn path_error(path: &str, at: &Path) -> Option<Error> {
    let why = "must be a simple json path starting with .";
    (!path.starts_with('.')).then(|| Error::invalid(at, path, why))
}

fn column_errors(columns: &Value, at: &Path) -> Errors {
    let mut errors = Errors::new();
    for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
        let at = at.index(index);
        let one_of = |words: &[&str]| format!("must be one of {}", words.join(","));
        if text(&column["name"]).is_empty() {
            errors.push(Error::required(&at.child("name"), ""));
        }
        match text(&column["type"]) {
            "" => errors.push(Error::required(&at.child("type"), one_of(&COLUMN_TYPES))),
            known if COLUMN_TYPES.contains(&known) => {}
            other => {
                errors.push(Error::invalid(&at.child("type"), other, one_of(&COLUMN_TYPES)));
            }
        }
        let format = text(&column["format"]);
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            errors.push(Error::invalid(&at.child("format"), format, one_of(&COLUMN_FORMATS)));
        }
        match text(&column["jsonPath"]) {
            "" => errors.push(Error::required(&at.child("JSONPath"), "")),
            path => errors.extend(path_error(path, &at.child("JSONPath"))),
        }
    }
    errors
}

fn conversion_errors(spec: &Value, at: &Path) -> Errors {
    let at = at.child("strategy");
    match text(&spec["conversion"]["strategy"]) {
        "None" => Errors::new(),
        "Webhook" => vec![Error::invalid(
            &at,
            "Webhook",
            "conversion by webhook is not served here: use None, or a kube-apiserver",
        )],
        "" => vec![Error::required(&at, "")],
        other => vec![Error::not_supported(&at, other, &["None", "Webhook"])],
    }
}

fn stored_version_errors(object: &Value) -> Errors {
    let at = Path::new("status").child("storedVersions");
    let stored = object["status"]["storedVersions"].as_array().map_or(&[][..], Vec::as_slice);
    if stored.is_empty() {
        return vec![Error::invalid(&at, Value::Null, "must have at least one stored version")];
    }
    let mut errors = Errors::new();
    let list = versions(&object["spec"]);
    for version in list.iter().filter(|version| version["storage"] == true) {
        if !stored.contains(&version["name"]) {
            let why = format!("must have the storage version {}", text(&version["name"]));
            errors.push(Error::invalid(&at, stored.to_vec(), why));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        if list.iter().any(|version| version["name"] == *name) {
            continue;
        }
        let name = text(name);
        let why = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        errors.push(Error::invalid(&at.index(index), name, why));
    }
    errors
}

fn immutable_errors(object: &Value, old: &Value) -> Errors {
    let established = old["status"]["conditions"].as_array().is_some_and(|conditions| {
        conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
    });
    let at = Path::new("spec");
    let (kind, group) = (["names", "kind"], ["group"]);
    let (scope, plural) = (["scope"], ["names", "plural"]);
    let of_established: [&[&str]; 2] = [&scope, &kind];
    let of_all: [&[&str]; 2] = [&group, &plural];
    let first = of_established.into_iter().filter(|_| established);
    let paths = first.chain(of_all);
    let changed = paths.filter_map(|path| {
        let value =
            |object: &Value| path.iter().fold(object["spec"].clone(), |at, part| at[*part].clone());
        let (now, before) = (value(object), value(old));
        let at = path.iter().fold(at.clone(), |at, part| at.child(part));
        (now != before).then(|| Error::invalid(&at, now, "field is immutable"))
    });
    changed.collect()
}

/// Whether a definition in a group of Kubernetes itself was approved, and how that is told.
#[derive(PartialEq, Eq)]
pub(super) enum Approval {
    /// It names where.
    Approved(String),
    /// It says that it was not.
    Bypassed(String),
    /// It says nothing.
    Missing(String),
    /// It says something else.
    Malformed(String),
}

/// The approval of a definition whose group needs one.
pub(super) fn approval(object: &Value) -> Option<Approval> {
    let group = text(&object["spec"]["group"]);
    let protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    if !protected {
        return None;
    }
    let page = "see https://github.com/kubernetes/enhancements/pull/1111";
    let required = format!("protected groups must have approval annotation {APPROVED:?}");
    let given = text(&object["metadata"]["annotations"][APPROVED]);
    let is_address = given.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/')
    });
    Some(match given {
        "" => Approval::Missing(format!("{required}, {page}")),
        _ if given.starts_with("unapproved") => {
            Approval::Bypassed(format!("not approved: {given:?}"))
        }
        _ if is_address => Approval::Approved(format!("approved in {given}")),
        _ => Approval::Malformed(format!(
            "{required} with either a URL or a reason starting with \"unapproved\", {page}"
        )),
    })
}

fn approval_errors(object: &Value, old: Option<&Value>) -> Errors {
    let at = Path::new("metadata").child("annotations").key(APPROVED);
    let new = approval(object);
    let is_same = |old: &Value| match (&new, approval(old)) {
        (Some(new), Some(old)) => std::mem::discriminant(new) == std::mem::discriminant(&old),
        _ => false,
    };
    if old.is_some_and(is_same) {
        return Errors::new();
    }
    match new {
        Some(Approval::Missing(why)) => vec![Error::required(&at, why)],
        Some(Approval::Malformed(why)) => {
            let given = text(&object["metadata"]["annotations"][APPROVED]);
            vec![Error::invalid(&at, given, why)]
        }
        Some(Approval::Approved(_) | Approval::Bypassed(_)) | None => Errors::new(),
    }
}

fn preserve_errors(object: &Value, old: Option<&Value>) -> Errors {
    let preserves = |object: &Value| object["spec"]["preserveUnknownFields"] == true;
    if !preserves(object) || old.is_some_and(preserves) {
        return Errors::new();
    }
    let at = Path::new("spec").child("preserveUnknownFields");
    let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    vec![Error::invalid(&at, true, why)]
}
