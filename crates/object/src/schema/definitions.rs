//! The schemas of native kinds, read from the OpenAPI v3 documents of a real API
//! server: definitions that refer to each other by name, in cycles too.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::crd;
use super::format::TextFormat;
use super::node::{Arena, Checks, Data, GroupVersionKind, Id, Kind, Schema, Values};
use super::structural::Raw;

const REFERENCE: &str = "#/components/schemas/";

/// Why a definition cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableDefinition {
    /// A reference leads nowhere.
    #[error("definition {from} refers to {to}, which no document defines")]
    Missing {
        /// The definition that refers.
        from: String,
        /// What it refers to.
        to: String,
    },
    /// A definition is another one, which is the first one.
    #[error("definition {name} is defined by itself alone")]
    Circular {
        /// The definition.
        name: String,
    },
    /// A definition nests beyond the bound.
    #[error("definition {name} nests deeper than {max} levels", max = super::DEPTH_MAX)]
    TooDeep {
        /// The definition.
        name: String,
    },
}

/// All definitions of a set of OpenAPI documents.
#[derive(Clone, Debug)]
pub struct Definitions {
    arena: Arc<Arena>,
    names: Arc<BTreeMap<Box<str>, Id>>,
}

impl Definitions {
    /// Reads `components.schemas` of each document; the same definition may stand in
    /// several.
    ///
    /// # Errors
    ///
    /// A reference that leads nowhere or to itself, or a definition that nests beyond
    /// [`DEPTH_MAX`](super::DEPTH_MAX).
    pub fn from_openapi<'a>(
        documents: impl IntoIterator<Item = &'a Value>,
    ) -> Result<Self, UnreadableDefinition> {
        let mut sources: BTreeMap<&str, &Value> = BTreeMap::new();
        for document in documents {
            let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
            for (name, schema) in schemas.into_iter().flatten() {
                sources.entry(name).or_insert(schema);
            }
        }
        let mut reader = Reader::default();
        for name in sources.keys() {
            let id = reader.arena.push(Data::default());
            reader.names.insert(Box::from(*name), id);
        }
        for (name, schema) in &sources {
            reader.define(name, schema)?;
        }
        reader.resolve()?;
        reader.arena.summarise();
        Ok(Self { arena: Arc::new(reader.arena), names: Arc::new(reader.names) })
    }

    /// The schema of the definition called `name`.
    #[must_use]
    pub fn schema(&self, name: &str) -> Option<Schema> {
        let root = *self.names.get(name)?;
        Some(Schema { arena: Arc::clone(&self.arena), root })
    }

    /// The names of all definitions, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(AsRef::as_ref)
    }

    /// The schema of a kind, found by the `x-kubernetes-group-version-kind` of its
    /// definition.
    #[must_use]
    pub fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<Schema> {
        let mut ids = self.names.values().copied();
        let root = ids.find(|id| {
            // Options such as DeleteOptions list every group; a kind lists itself alone.
            match &*self.arena.at(*id).kinds {
                [one] => one.group == group && one.version == version && one.kind == kind,
                _ => false,
            }
        })?;
        Some(Schema { arena: Arc::clone(&self.arena), root })
    }
}

#[derive(Default)]
struct Reader {
    arena: Arena,
    names: BTreeMap<Box<str>, Id>,
    /// Nodes that are another definition with something of their own on top.
    links: BTreeMap<Id, Id>,
    /// The definition at hand.
    current: String,
}

impl Reader {
    fn define(&mut self, name: &str, schema: &Value) -> Result<(), UnreadableDefinition> {
        self.current = name.to_owned();
        let id = self.names[name];
        let Some(raw) = Raw::of(schema) else { return Ok(()) };
        let mut data = if let Some(target) = self.target(raw)? {
            self.links.insert(id, target);
            Data::default()
        } else {
            self.data(raw, 0)?
        };
        data.name = Some(Arc::from(name));
        if let Some(kind) = special(name) {
            data.kind = kind;
            data.fields = Vec::new().into();
            data.values = Values::Unstated;
        }
        // A type that says nothing, such as a union written by hand, is kept whole.
        let opaque =
            matches!(data.kind, Kind::Any | Kind::RawExtension | Kind::FieldsV1 | Kind::Json);
        data.preserve |= opaque && !self.links.contains_key(&id);
        *self.arena.at_mut(id) = data;
        Ok(())
    }

    /// What a schema refers to: a plain reference, or one wrapped in `allOf`.
    fn target(&self, raw: Raw<'_>) -> Result<Option<Id>, UnreadableDefinition> {
        let wrapped = match raw.list("allOf") {
            [one] => Raw::of(one).map(|inner| inner.text("$ref")),
            _ => None,
        };
        let reference = match raw.text("$ref") {
            "" => wrapped.unwrap_or_default(),
            plain => plain,
        };
        if reference.is_empty() {
            return Ok(None);
        }
        let name = reference.strip_prefix(REFERENCE).unwrap_or(reference);
        match self.names.get(name) {
            Some(id) => Ok(Some(*id)),
            None => Err(UnreadableDefinition::Missing {
                from: self.current.clone(),
                to: name.to_owned(),
            }),
        }
    }

    fn read(&mut self, raw: Raw<'_>, depth: usize) -> Result<Id, UnreadableDefinition> {
        let Some(target) = self.target(raw)? else {
            let data = self.data(raw, depth)?;
            return Ok(self.arena.push(data));
        };
        let own = own(raw);
        if own.default.is_none() && !own.nullable && own.patch_strategies.is_empty() {
            return Ok(target);
        }
        let id = self.arena.push(own);
        self.links.insert(id, target);
        Ok(id)
    }

    fn data(&mut self, raw: Raw<'_>, depth: usize) -> Result<Data, UnreadableDefinition> {
        if depth > super::DEPTH_MAX / 4 {
            return Err(UnreadableDefinition::TooDeep { name: self.current.clone() });
        }
        let mut fields: Vec<(Box<str>, Id)> = Vec::new();
        for (name, property) in raw.properties() {
            fields.push((Box::from(name), self.read(property, depth + 1)?));
        }
        let values = match raw.stated("additionalProperties") {
            Some(Value::Bool(true)) => Values::Anything,
            Some(Value::Object(inner)) => Values::Of(self.read(Raw(inner), depth + 1)?),
            _ => Values::Unstated,
        };
        let items = match raw.child("items") {
            Some(items) => Some(self.read(items, depth + 1)?),
            None => None,
        };
        let format = Some(raw.text("format")).filter(|format| !format.is_empty());
        let kind = match (raw.kind(), format) {
            _ if raw.int_or_string() => Kind::IntOrString,
            (_, Some("int-or-string")) => Kind::IntOrString,
            (_, Some("quantity")) => Kind::Quantity,
            ("", _) if values != Values::Unstated || !fields.is_empty() => Kind::Object,
            (kind, _) => crd::kind(kind),
        };
        Ok(Data {
            kind,
            format: format.map(Box::from),
            text_format: format.and_then(TextFormat::named),
            fields: fields.into(),
            values,
            items,
            list_type: crd::list_type(raw.text("x-kubernetes-list-type")),
            list_map_keys: raw.texts("x-kubernetes-list-map-keys").map(Box::from).collect(),
            map_type: crd::map_type(raw.text("x-kubernetes-map-type")),
            merge_key: Some(raw.text("x-kubernetes-patch-merge-key"))
                .filter(|key| !key.is_empty())
                .map(Box::from),
            kinds: kinds(raw),
            checks: limits(raw),
            embedded: raw.embeds(),
            preserve: raw.preserves() || raw.0.is_empty(),
            ..own(raw)
        })
    }

    /// Gives each link the shape of what it refers to.
    fn resolve(&mut self) -> Result<(), UnreadableDefinition> {
        let links = std::mem::take(&mut self.links);
        for (id, first) in &links {
            let mut target = *first;
            let mut hops = 0;
            while let Some(next) = links.get(&target) {
                target = *next;
                hops += 1;
                if hops > links.len() {
                    let name = self.arena.at(*id).name.as_deref().unwrap_or("unnamed").to_owned();
                    return Err(UnreadableDefinition::Circular { name });
                }
            }
            let shape = self.arena.at(target).clone();
            let own = std::mem::take(self.arena.at_mut(*id));
            *self.arena.at_mut(*id) = Data {
                default: own.default.or(shape.default),
                nullable: own.nullable || shape.nullable,
                patch_strategies: if own.patch_strategies.is_empty() {
                    shape.patch_strategies
                } else {
                    own.patch_strategies
                },
                name: shape.name.or(own.name),
                ..shape
            };
        }
        Ok(())
    }
}

/// What a schema states beside the shape of its value.
fn own(raw: Raw<'_>) -> Data {
    let strategies = raw.text("x-kubernetes-patch-strategy");
    Data {
        nullable: raw.flag("nullable"),
        default: raw.stated("default").cloned(),
        patch_strategies: strategies
            .split(',')
            .filter(|strategy| !strategy.is_empty())
            .map(Box::from)
            .collect(),
        ..Data::default()
    }
}

/// The limits that documents of native kinds state: they name no alternatives.
fn limits(raw: Raw<'_>) -> Option<Box<Checks>> {
    if raw.list("required").is_empty() && raw.list("enum").is_empty() {
        return None;
    }
    Some(Box::new(Checks {
        required: raw.texts("required").map(Box::from).collect(),
        choices: raw.list("enum").into(),
        ..Checks::default()
    }))
}

fn kinds(raw: Raw<'_>) -> Box<[GroupVersionKind]> {
    let text = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    raw.list("x-kubernetes-group-version-kind")
        .iter()
        .map(|value| GroupVersionKind {
            group: text(value, "group"),
            version: text(value, "version"),
            kind: text(value, "kind"),
        })
        .collect()
}

/// The types that write and read themselves, whatever their definition says.
fn special(name: &str) -> Option<Kind> {
    Some(match name.strip_prefix("io.k8s.").unwrap_or(name) {
        "apimachinery.pkg.api.resource.Quantity" => Kind::Quantity,
        "apimachinery.pkg.util.intstr.IntOrString" => Kind::IntOrString,
        "apimachinery.pkg.apis.meta.v1.Time" => Kind::Time,
        "apimachinery.pkg.apis.meta.v1.MicroTime" => Kind::MicroTime,
        "apimachinery.pkg.runtime.RawExtension" => Kind::RawExtension,
        "apimachinery.pkg.apis.meta.v1.FieldsV1" => Kind::FieldsV1,
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON" => Kind::Json,
        _ => return None,
    })
}
