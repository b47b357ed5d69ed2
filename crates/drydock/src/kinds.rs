//! What a resource is: names, versions, schema, columns, and the strategy that
//! knows what is special about it.
//!
//! A native kind and a kind from a CustomResourceDefinition are the same value.
//! **Invariant:** what verbs, writes and answers do with an object depends on what its [`Kind`]
//! says, never on its name. Names are matched in this folder, and elsewhere only by what is about
//! one kind in the first place: admission plugins that look another object up, the first objects of
//! a server, bindings and evictions, and paths, in which a namespace is a place as well as an object.

pub(crate) mod api_service;
mod apps;
mod autoscaler;
mod batch;
pub(crate) mod cells;
mod config;
pub mod crd;
mod events;
pub(crate) mod fields;
mod limit_range;
mod namespace;
pub mod native;
mod node;
pub(crate) mod pod;
pub(crate) mod pod_spec;
mod pod_template;
mod policy;
pub mod registry;
pub mod reviews;
pub(crate) mod rules;
pub(crate) mod service;
mod storage;
pub mod strategies;
pub mod strategy;
mod tables;

use std::sync::Arc;

use bytes::Bytes;
use object::jsonpath::{JsonPath, Missing, text_of};
use object::schema::Schema;
use object::table::Column;
use serde_json::Value;

pub use registry::{Found, Registry};
pub use strategy::{Plain, Strategy};

use crate::answer::failure::GroupResource;
use crate::store::{Revision, Table};

/// One resource in all its versions.
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: String,
    /// Its names.
    pub names: Names,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Its versions, in the order discovery lists them.
    pub versions: Vec<Version>,
    /// Where its objects are.
    pub table: Arc<Table>,
    /// What is special about it.
    pub strategy: Arc<dyn Strategy>,
    /// How writes treat it.
    pub habits: Habits,
    /// The fields that selectors can name, besides name and namespace.
    pub fields: Vec<SelectableField>,
    /// The group and version that kube-apiserver stores its objects in, as in `apps/v1` or `/v1`,
    /// where it stores them.
    pub storage_version: Option<String>,
    /// Whether it is built in or comes from a CustomResourceDefinition.
    pub origin: Origin,
}

/// A field that selectors can name.
pub struct SelectableField {
    /// As in `spec.nodeName`.
    pub name: String,
    /// Where its value comes from.
    pub source: FieldSource,
}

/// Where the value of a selectable field comes from.
pub enum FieldSource {
    /// A function of the object.
    Native(fn(&Value) -> String),
    /// A path into the object.
    Path(JsonPath),
}

/// Where a kind comes from.
pub enum Origin {
    /// Built in.
    Native,
    /// From a CustomResourceDefinition.
    Custom {
        /// The definition as it was when the kind was made from it.
        definition: Edition,
        /// What became of its schemas.
        lineage: crd::Lineage,
    },
}

/// One state of the spec of a definition: what has the same edition says the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edition {
    /// The uid of the definition.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
}

/// The names of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// As in `pods`.
    pub plural: String,
    /// As in `pod`.
    pub singular: String,
    /// As in `Pod`.
    pub kind: String,
    /// As in `PodList`.
    pub list_kind: String,
    /// As in `po`.
    pub short: Vec<String>,
    /// As in `all`.
    pub categories: Vec<String>,
}

/// One version of a resource.
pub struct Version {
    /// As in `v1`.
    pub name: String,
    /// The schema of its objects.
    pub schema: Schema,
    /// `{"apiVersion":"…","kind":"…",`, which every object in this version begins with.
    pub opening: Bytes,
    /// The verbs it offers.
    pub verbs: Vec<String>,
    /// Its subresources, as discovery lists them.
    pub subresources: Vec<Subresource>,
    /// Names of subresources that kube-apiserver has and this server does not.
    pub unserved: Vec<String>,
    /// The columns of its table where they are data; a strategy may bring its own.
    pub columns: Vec<Column>,
    /// Where the scale subresource finds its numbers.
    pub scale: Option<ScalePaths>,
    /// What a client that uses this version is warned of.
    pub deprecation: Option<String>,
    /// How its objects differ from the stored form, where they do.
    pub conversion: Option<Conversion>,
    /// The schema of a custom kind as it was written, for OpenAPI. It is kept as text, a tenth of
    /// what the parsed document takes: it is seldom asked for.
    pub openapi: Option<Bytes>,
}

/// A part of an object with a path of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    /// As in `status`.
    pub name: String,
    /// The group of what it takes and gives; empty for the core group.
    pub group: String,
    /// The version of what it takes and gives.
    pub version: String,
    /// The kind of what it takes and gives.
    pub kind: String,
    /// The verbs it offers.
    pub verbs: Vec<String>,
}

/// Paths of the scale subresource, such as `.spec.replicas`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    /// The wanted count.
    pub spec_replicas: String,
    /// The observed count.
    pub status_replicas: String,
    /// The selector as text or as a label selector.
    pub selector: Option<String>,
}

/// Turns objects of a version into the stored form and back.
#[derive(Clone, Copy)]
pub struct Conversion {
    /// From this version to the stored form.
    pub to_stored: fn(&mut Value),
    /// From the stored form to this version.
    pub from_stored: fn(&mut Value),
}

/// What a deletion does to dependents when the client does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependents {
    /// They go too.
    Deleted,
    /// They stay.
    Orphaned,
    /// Nothing: the kind has none, and the garbage collector never looks at it.
    Ignored,
}

/// How writes treat a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Habits {
    /// Counts changes of the spec in `metadata.generation`.
    pub generation: bool,
    /// An update without a resource version overwrites whatever is there.
    pub unconditional_update: bool,
    /// An update of an object that is not there creates it.
    pub create_on_update: bool,
    /// A deletion answers with the object rather than with a `Status`.
    pub returns_deleted: bool,
    /// What a deletion does to dependents.
    pub dependents: Dependents,
    /// What its names must look like.
    pub name_rule: NameRule,
    /// Its own check of a change looks at the metadata once more as if the object were new.
    pub metadata_checked_anew: bool,
    /// A finalizer without a domain must be one of Kubernetes' own.
    pub known_finalizers: bool,
}

/// What names of a kind must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// Lower case letters, digits, `-` and `.`.
    Subdomain,
    /// Lower case letters, digits and `-`.
    Label,
    /// A label that starts with a letter.
    Label1035,
    /// Anything that fits into a path.
    PathSegment,
}

impl Kind {
    /// The group and resource, as errors name them.
    #[must_use]
    pub fn resource(&self) -> GroupResource<'_> {
        GroupResource { group: &self.group, resource: &self.names.plural }
    }

    /// The group and kind, as errors about fields name them.
    #[must_use]
    pub fn group_kind(&self) -> GroupResource<'_> {
        // Both forms of an event are one kind to kube-apiserver.
        let group = if self.group == "events.k8s.io" { "" } else { &self.group };
        GroupResource { group, resource: &self.names.kind }
    }

    /// `pods` or `deployments.apps`.
    #[must_use]
    pub fn qualified_name(&self) -> String {
        self.resource().to_string()
    }

    /// Where kube-apiserver keeps the objects of this kind, as its messages show it.
    #[must_use]
    pub fn store_folder(&self) -> String {
        let plural = self.names.plural.as_str();
        if self.is_custom() {
            return format!("/registry/{}/{plural}", self.group);
        }
        let folder = match (self.group.as_str(), plural) {
            ("", "replicationcontrollers") => "controllers",
            ("", "endpoints") => "services/endpoints",
            ("", "nodes") => "minions",
            ("", "services") => "services/specs",
            ("networking.k8s.io", "ingresses") => "ingress",
            ("apiextensions.k8s.io" | "apiregistration.k8s.io", plural) => {
                return format!("/registry/{}/{plural}", self.group);
            }
            (_, plural) => plural,
        };
        format!("/registry/{folder}")
    }

    /// The values of the selectable fields of an object, in order.
    #[must_use]
    pub fn field_values(&self, object: &Value) -> Box<[Box<str>]> {
        let value = |field: &SelectableField| match &field.source {
            FieldSource::Native(value) => value(object),
            FieldSource::Path(path) => {
                let found = path.find(object, Missing::Skip).unwrap_or_default();
                found.first().map(|value| text_of(value)).unwrap_or_default()
            }
        };
        self.fields.iter().map(|field| value(field).into_boxed_str()).collect()
    }

    /// Whether the stored bytes of an object of that revision are what `version` shows of it.
    #[must_use]
    pub fn shows_as_stored(&self, version: &Version, revision: Revision) -> bool {
        version.conversion.is_none()
            && self.lineage().is_none_or(|lineage| lineage.is_exact(revision))
    }

    /// Whether objects of this kind obey a structural schema, defaults included.
    #[must_use]
    pub fn is_custom(&self) -> bool {
        matches!(self.origin, Origin::Custom { .. })
    }

    /// What a custom kind was made from.
    #[must_use]
    pub fn edition(&self) -> Option<&Edition> {
        match &self.origin {
            Origin::Native => None,
            Origin::Custom { definition, .. } => Some(definition),
        }
    }

    /// What became of the schemas of a custom kind.
    #[must_use]
    pub fn lineage(&self) -> Option<&crd::Lineage> {
        match &self.origin {
            Origin::Native => None,
            Origin::Custom { lineage, .. } => Some(lineage),
        }
    }
}

impl Version {
    /// The subresource of this name.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Whether the status has a path of its own, so that ordinary writes leave it alone.
    #[must_use]
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// `v1` or `apps/v1`.
    #[must_use]
    pub fn api_version(&self, kind: &Kind) -> String {
        group_version(&kind.group, &self.name)
    }
}

/// `v1` or `apps/v1`.
#[must_use]
pub fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// What every object of a version begins with.
#[must_use]
pub fn opening(group: &str, version: &str, kind: &str) -> Bytes {
    let api_version = group_version(group, version);
    format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\",").into()
}
