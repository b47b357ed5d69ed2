//! From a CustomResourceDefinition to a kind.

use std::sync::Arc;

use object::field::{Error, Errors, Path};
use object::jsonpath::JsonPath;
use object::schema::Schema;
use object::table::Column;
use serde_json::Value;

use super::super::{
    Dependents, Edition, FieldSource, Habits, Kind, NameRule, Names, Origin, ScalePaths,
    SelectableField, Subresource, Version, opening,
};
use super::Lineage;
use crate::kinds::Plain;
use crate::kinds::cells::{AGE, NAME};
use crate::kinds::registry::version_order;
use crate::store::Store;

/// The verbs of every custom resource.
const VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// The verbs of a part of one.
const PART_VERBS: [&str; 3] = ["get", "patch", "update"];

/// The kind that `definition` defines, under the names it was given.
///
/// # Errors
/// When a schema is not structural or a path is malformed.
pub(super) fn kind(definition: &Value, store: &Store) -> Result<Kind, Errors> {
    let spec = &definition["spec"];
    let names = names(definition);
    let group = text(&spec["group"]);
    let mut versions = Vec::new();
    let mut fields = Vec::new();
    for (index, version) in spec["versions"].as_array().into_iter().flatten().enumerate() {
        let at = Path::new("spec").child("versions").index(index);
        if version["served"] == true {
            let mut served = self::version(&group, &names, version, &at)?;
            served.deprecation = deprecation(spec, version);
            versions.push(served);
        }
        selectable(version, &at, &mut fields)?;
    }
    Ok(Kind {
        table: store.table(&format!("{}.{group}", names.plural)),
        namespaced: spec["scope"] == "Namespaced",
        storage_version: spec["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|version| version["storage"] == true)
            .map(|version| format!("{group}/{}", text(&version["name"]))),
        group,
        names,
        versions,
        strategy: Arc::new(Plain),
        habits: Habits {
            generation: true,
            unconditional_update: false,
            create_on_update: false,
            returns_deleted: false,
            dependents: Dependents::Deleted,
            name_rule: NameRule::Subdomain,
            metadata_checked_anew: false,
            known_finalizers: false,
        },
        fields,
        origin: Origin::Custom { definition: edition(definition), lineage: Lineage::new(spec)? },
    })
}

/// What `definition` says now, by name.
pub(super) fn edition(definition: &Value) -> Edition {
    let metadata = &definition["metadata"];
    Edition {
        uid: text(&metadata["uid"]),
        generation: metadata["generation"].as_i64().unwrap_or_default(),
    }
}

/// What is wrong with the paths of a definition's columns and selectable fields.
pub(super) fn path_errors(spec: &Value) -> Errors {
    let mut fields = Vec::new();
    let versions = spec["versions"].as_array().into_iter().flatten().enumerate();
    let mut paths = versions.map(|(index, version)| {
        let at = Path::new("spec").child("versions").index(index);
        columns(version, &at)?;
        selectable(version, &at, &mut fields)
    });
    paths.find_map(Result::err).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

/// The names a definition was given, which may be others than it asks for.
pub(super) fn names(definition: &Value) -> Names {
    let names = &definition["status"]["acceptedNames"];
    Names {
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        kind: text(&names["kind"]),
        list_kind: text(&names["listKind"]),
        short: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
    }
}

fn version(group: &str, names: &Names, version: &Value, at: &Path) -> Result<Version, Errors> {
    let name = text(&version["name"]);
    let raw = &version["schema"]["openAPIV3Schema"];
    let schema = Schema::from_crd(raw, &at.child("schema").child("openAPIV3Schema"))?;
    let strings = |list: &[&str]| list.iter().map(|verb| (*verb).to_owned()).collect::<Vec<_>>();
    let mut subresources = Vec::new();
    if version["subresources"]["status"].is_object() {
        subresources.push(Subresource {
            name: "status".to_owned(),
            group: group.to_owned(),
            version: name.clone(),
            kind: names.kind.clone(),
            verbs: strings(&PART_VERBS),
        });
    }
    let scale = version["subresources"]["scale"].as_object().map(|scale| ScalePaths {
        spec_replicas: scale.get("specReplicasPath").map(text).unwrap_or_default(),
        status_replicas: scale.get("statusReplicasPath").map(text).unwrap_or_default(),
        selector: scale.get("labelSelectorPath").and_then(Value::as_str).map(str::to_owned),
    });
    if scale.is_some() {
        subresources.push(Subresource {
            name: "scale".to_owned(),
            group: "autoscaling".to_owned(),
            version: "v1".to_owned(),
            kind: "Scale".to_owned(),
            verbs: strings(&PART_VERBS),
        });
    }
    Ok(Version {
        opening: opening(group, &name, &names.kind),
        deprecation: None,
        name,
        schema,
        verbs: strings(&VERBS),
        subresources,
        unserved: Vec::new(),
        columns: columns(version, at)?,
        scale,
        conversion: None,
        openapi: Some(object::json::encode(raw).into()),
    })
}

/// What a client that uses a deprecated version is told: the words of the definition, or which
/// newer version to use.
fn deprecation(spec: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(given) = version["deprecationWarning"].as_str() {
        return Some(given.to_owned());
    }
    let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
    let name = text(&version["name"]);
    let offered = spec["versions"].as_array().into_iter().flatten();
    let newer = offered
        .filter(|other| other["served"] == true && other["deprecated"] != true)
        .map(|other| text(&other["name"]))
        .filter(|other| version_order(other) > version_order(&name))
        .max_by_key(|other| version_order(other));
    let hint = newer.map(|newer| format!("; use {group}/{newer} {kind}")).unwrap_or_default();
    Some(format!("{group}/{name} {kind} is deprecated{hint}"))
}

fn columns(version: &Value, at: &Path) -> Result<Vec<Column>, Errors> {
    let given = version["additionalPrinterColumns"].as_array().map_or(&[][..], Vec::as_slice);
    let mut columns =
        vec![Column { json_path: Some(path(".metadata.name", at)?), ..NAME.column() }];
    for (index, column) in given.iter().enumerate() {
        let at = at.child("additionalPrinterColumns").index(index).child("jsonPath");
        columns.push(self::column(column, &at)?);
    }
    if given.is_empty() {
        columns.push(Column {
            column_type: "date".to_owned(),
            json_path: Some(path(".metadata.creationTimestamp", at)?),
            ..AGE.column()
        });
    }
    Ok(columns)
}

fn column(given: &Value, at: &Path) -> Result<Column, Errors> {
    let source = text(&given["jsonPath"]);
    let mut column = Column::new(&text(&given["name"]), &text(&given["type"]), &source)
        .map_err(|error| vec![Error::invalid(at, source, error.source.to_string())])?;
    column.format = text(&given["format"]);
    column.priority = given["priority"].as_i64().and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
    if let Some(description) = given["description"].as_str().filter(|given| !given.is_empty()) {
        description.clone_into(&mut column.description);
    }
    Ok(column)
}

fn path(source: &str, at: &Path) -> Result<JsonPath, Errors> {
    JsonPath::column(source).map_err(|error| vec![Error::invalid(at, source, error.to_string())])
}

fn selectable(version: &Value, at: &Path, fields: &mut Vec<SelectableField>) -> Result<(), Errors> {
    for (index, field) in version["selectableFields"].as_array().into_iter().flatten().enumerate() {
        let source = text(&field["jsonPath"]);
        let at = at.child("selectableFields").index(index).child("jsonPath");
        let name = source.trim_start_matches('.').to_owned();
        if !fields.iter().any(|known| known.name == name) {
            fields.push(SelectableField { source: FieldSource::Path(path(&source, &at)?), name });
        }
    }
    Ok(())
}
