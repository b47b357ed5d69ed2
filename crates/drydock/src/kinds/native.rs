//! The kinds that are built in: read from the tables that `cargo xtask generate
//! kinds` takes from a real kube-apiserver, and joined with their strategies.

mod go_form;
mod habits;
pub mod protobuf;

use std::sync::{Arc, LazyLock};

use object::schema::{Definitions, Schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub use go_form::as_written;

use super::{
    FieldSource, Kind, Names, Origin, Registry, SelectableField, Subresource, Version, opening,
};
use crate::store::Store;
use crate::subresources::SERVED;

const DISCOVERY: &str = include_str!("generated/discovery.json");
const DEFINITIONS: &str = include_str!("generated/definitions.json");
const FIELDS: &str = include_str!("generated/fields.txt");

/// The generated tables, read once: they are constants of the program.
static TABLES: LazyLock<Tables> = LazyLock::new(Tables::read);

struct Tables {
    discovery: Discovery,
    definitions: Definitions,
    object_meta: Schema,
    delete_options: Schema,
}

#[derive(Deserialize)]
struct Discovery {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    resource: String,
    response_kind: ResponseKind,
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    verbs: Vec<String>,
    #[serde(default)]
    subresources: Vec<DiscoveredSubresource>,
}

#[derive(Deserialize)]
struct ResponseKind {
    group: String,
    version: String,
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoveredSubresource {
    subresource: String,
    response_kind: ResponseKind,
    verbs: Vec<String>,
}

const WELL_FORMED: &str = "the generated tables are well formed, as the tests check";

impl Tables {
    fn read() -> Self {
        let document = json!({"components": {"schemas": openapi_definitions()}});
        let definitions = Definitions::from_openapi([&document]).expect(WELL_FORMED);
        let object_meta = definitions
            .schema("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
            .expect(WELL_FORMED);
        let delete_options = definitions
            .schema("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
            .expect(WELL_FORMED);
        Self {
            discovery: serde_json::from_str(DISCOVERY).expect(WELL_FORMED),
            definitions,
            object_meta,
            delete_options,
        }
    }
}

/// The schema of every object's metadata.
#[must_use]
pub fn object_meta() -> &'static Schema {
    &TABLES.object_meta
}

/// The schema of the options of a deletion.
#[must_use]
pub fn delete_options() -> &'static Schema {
    &TABLES.delete_options
}

/// The OpenAPI definitions of the native kinds by name, read anew: they take megabytes, and are
/// wanted at start and when a client asks how kinds are made.
#[must_use]
pub fn openapi_definitions() -> Map<String, Value> {
    serde_json::from_str(DEFINITIONS).expect(WELL_FORMED)
}

/// The schema of a native type that is a body of its own.
///
/// # Panics
/// When there is no such type: the names are ours.
#[must_use]
pub fn of_kind(group: &str, version: &str, kind: &str) -> Schema {
    TABLES.definitions.of_kind(group, version, kind).expect(WELL_FORMED)
}

/// A registry of the native kinds, their objects kept in `store`.
#[must_use]
pub fn registry(store: &Store) -> Registry {
    let tables = &*TABLES;
    let groups = tables.discovery.groups.iter().map(|group| {
        let versions = group.versions.iter().map(|version| version.version.clone()).collect();
        (group.name.clone(), versions)
    });
    let mut registry = Registry::new(groups.collect());
    let kinds = tables.discovery.groups.iter().flat_map(|group| kinds(tables, group, store));
    registry.extend(kinds.map(Arc::new));
    registry
}

/// The kinds of a group, each with all its versions.
fn kinds(tables: &Tables, group: &Group, store: &Store) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    for offered in &group.versions {
        for resource in &offered.resources {
            let version = version(tables, &group.name, offered, resource);
            match kinds.iter_mut().find(|kind| kind.names.plural == resource.resource) {
                Some(kind) => kind.versions.push(version),
                None => kinds.push(kind(&group.name, resource, version, store)),
            }
        }
    }
    kinds
}

fn kind(group: &str, resource: &Resource, version: Version, store: &Store) -> Kind {
    let strategy = super::strategies::of(group, &resource.resource);
    let fields = strategy.selectable().iter().map(|field| SelectableField {
        name: field.name.to_owned(),
        source: FieldSource::Native(field.value),
    });
    Kind {
        group: group.to_owned(),
        names: Names {
            plural: resource.resource.clone(),
            singular: resource.singular_resource.clone(),
            kind: resource.response_kind.kind.clone(),
            list_kind: format!("{}List", resource.response_kind.kind),
            short: resource.short_names.clone(),
            categories: resource.categories.clone(),
        },
        namespaced: resource.scope == "Namespaced",
        storage_version: storage_version(group, resource, &version.name),
        versions: vec![version],
        table: store.table(&super::strategies::table_of(group, &resource.resource)),
        fields: fields.collect(),
        habits: habits::of(group, &resource.resource),
        strategy,
        origin: Origin::Native,
    }
}

/// Where kube-apiserver stores the objects of a kind; a few are stored elsewhere than in the first
/// version that is served.
fn storage_version(group: &str, resource: &Resource, first: &str) -> Option<String> {
    // What cannot be written is computed.
    if !resource.verbs.iter().any(|verb| verb == "update") {
        return None;
    }
    Some(match (group, resource.resource.as_str()) {
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            "apiextensions.k8s.io/v1beta1".to_owned()
        }
        ("events.k8s.io", "events") => "/v1".to_owned(),
        ("storage.k8s.io", "volumeattributesclasses") => "storage.k8s.io/v1beta1".to_owned(),
        _ => format!("{group}/{first}"),
    })
}

fn version(tables: &Tables, group: &str, offered: &GroupVersion, resource: &Resource) -> Version {
    let kind = &resource.response_kind.kind;
    let schema = tables.definitions.of_kind(group, &offered.version, kind);
    Version {
        name: offered.version.clone(),
        schema: schema.unwrap_or_else(|| tables.object_meta.clone()),
        opening: opening(group, &offered.version, kind),
        verbs: resource.verbs.clone(),
        subresources: resource
            .subresources
            .iter()
            .filter(|part| SERVED.contains(&part.subresource.as_str()))
            .map(|part| subresource(part, group, offered))
            .collect(),
        unserved: resource
            .subresources
            .iter()
            .map(|part| part.subresource.clone())
            .filter(|part| !SERVED.contains(&part.as_str()))
            .collect(),
        columns: Vec::new(),
        scale: None,
        deprecation: super::strategies::deprecation_of(group, &offered.version, &resource.resource),
        conversion: super::strategies::conversion_of(group, &offered.version, &resource.resource),
        openapi: None,
    }
}

/// Discovery leaves group and version empty where they are those of the resource.
fn subresource(
    discovered: &DiscoveredSubresource,
    group: &str,
    offered: &GroupVersion,
) -> Subresource {
    let ResponseKind { group: own_group, version: own_version, kind } = &discovered.response_kind;
    let own = !own_version.is_empty();
    Subresource {
        name: discovered.subresource.clone(),
        group: if own { own_group.clone() } else { group.to_owned() },
        version: if own { own_version.clone() } else { offered.version.clone() },
        kind: kind.clone(),
        verbs: discovered.verbs.clone(),
    }
}
