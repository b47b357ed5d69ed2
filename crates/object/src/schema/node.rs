//! The graph of schemas: an arena of nodes that refer to each other by index, so
//! that a schema is one shared allocation, recursion is a cycle, and a clone is a
//! reference count.

use std::fmt;
use std::sync::Arc;

use regex::Regex;
use serde_json::Value;

use super::format::TextFormat;
use super::pattern::Patterns;
use super::rules::Rule;

pub(super) type Id = u32;

/// All nodes of a CRD version, or of all native definitions.
#[derive(Debug, Default)]
pub(super) struct Arena {
    nodes: Vec<Data>,
    /// The patterns met while nodes are read.
    pub(super) patterns: Patterns,
}

impl Arena {
    pub(super) fn push(&mut self, data: Data) -> Id {
        let id = Id::try_from(self.nodes.len()).expect("a schema has fewer than 2^32 nodes");
        self.nodes.push(data);
        id
    }

    pub(super) fn at(&self, id: Id) -> &Data {
        &self.nodes[id as usize]
    }

    pub(super) fn at_mut(&mut self, id: Id) -> &mut Data {
        &mut self.nodes[id as usize]
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = Id> + use<> {
        0..Id::try_from(self.nodes.len()).expect("a schema has fewer than 2^32 nodes")
    }

    /// Works out, for each node, what can be found at or below it, so that a walk
    /// skips what cannot matter. Cycles are why this is a fixed point.
    pub(super) fn summarise(&mut self) {
        loop {
            let mut changed = false;
            for id in self.ids() {
                let data = self.at(id);
                let mut below = data.own();
                for child in data.children() {
                    below.add(self.at(child).below);
                }
                if below != data.below {
                    self.at_mut(id).below = below;
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }
}

/// What can be found at or below a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Below {
    pub(super) rules: bool,
    /// Rules that need a stack of their own.
    pub(super) deep_rules: bool,
    pub(super) keyed_lists: bool,
    pub(super) embedded: bool,
}

impl Below {
    fn add(&mut self, other: Self) {
        self.rules |= other.rules;
        self.deep_rules |= other.deep_rules;
        self.keyed_lists |= other.keyed_lists;
        self.embedded |= other.embedded;
    }
}

/// What kind of value a node describes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// No type is stated.
    #[default]
    Any,
    /// An object: declared fields, or a map where [`Node::values`] is set.
    Object,
    /// A list.
    Array,
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A whole number or a text.
    IntOrString,
    /// An amount such as `100m`: a number or a text.
    Quantity,
    /// A time with seconds.
    Time,
    /// A time with microseconds.
    MicroTime,
    /// An object of another kind, kept as it is.
    RawExtension,
    /// The set of fields that a manager owns, kept as it is.
    FieldsV1,
    /// Any JSON, kept as it is.
    Json,
}

/// How a list is merged, and what must be unique in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value.
    Atomic,
    /// Elements are unique.
    Set,
    /// Elements are objects, unique by [`Node::list_map_keys`].
    Map,
}

/// How an object is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapType {
    /// Each field on its own.
    Granular,
    /// The object is one value.
    Atomic,
}

/// What a definition is the schema of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// What an object may hold beside its declared fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Values {
    /// Nothing is said: unknown fields are pruned, not refused.
    #[default]
    Unstated,
    /// `additionalProperties: true`.
    Anything,
    /// `additionalProperties: false`.
    Nothing,
    /// Values of this schema.
    Of(Id),
}

#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pub(super) source: Box<str>,
    pub(super) regex: Regex,
}

/// The limits a value must keep.
#[derive(Debug, Clone, Default)]
pub(super) struct Checks {
    pub(super) required: Box<[Box<str>]>,
    pub(super) choices: Box<[Value]>,
    pub(super) minimum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_maximum: bool,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<i64>,
    pub(super) max_length: Option<i64>,
    pub(super) pattern: Option<Pattern>,
    pub(super) min_items: Option<i64>,
    pub(super) max_items: Option<i64>,
    pub(super) unique_items: bool,
    pub(super) min_properties: Option<i64>,
    pub(super) max_properties: Option<i64>,
    pub(super) all_of: Box<[Id]>,
    pub(super) any_of: Box<[Id]>,
    pub(super) one_of: Box<[Id]>,
    pub(super) not: Option<Id>,
}

impl Checks {
    pub(super) fn has_junctors(&self) -> bool {
        !self.all_of.is_empty()
            || !self.any_of.is_empty()
            || !self.one_of.is_empty()
            || self.not.is_some()
    }
}

pub(super) type Fields = Arc<[(Box<str>, Id)]>;

/// One node of the graph.
#[derive(Debug, Clone, Default)]
pub(super) struct Data {
    pub(super) kind: Kind,
    /// The name of the definition, for native types.
    pub(super) name: Option<Arc<str>>,
    pub(super) format: Option<Box<str>>,
    /// The format, where values are checked against it.
    pub(super) text_format: Option<TextFormat>,
    pub(super) nullable: bool,
    pub(super) preserve: bool,
    pub(super) embedded: bool,
    /// Sorted by name.
    pub(super) fields: Fields,
    pub(super) values: Values,
    pub(super) items: Option<Id>,
    pub(super) default: Option<Value>,
    pub(super) list_type: Option<ListType>,
    pub(super) list_map_keys: Box<[Box<str>]>,
    pub(super) map_type: Option<MapType>,
    pub(super) merge_key: Option<Box<str>>,
    pub(super) patch_strategies: Box<[Box<str>]>,
    pub(super) kinds: Box<[GroupVersionKind]>,
    pub(super) checks: Option<Box<Checks>>,
    pub(super) rules: Arc<[Rule]>,
    pub(super) below: Below,
}

impl Data {
    pub(super) fn field(&self, name: &str) -> Option<Id> {
        let at = self.fields.binary_search_by(|(field, _)| field.as_ref().cmp(name)).ok()?;
        Some(self.fields[at].1)
    }

    /// The schema of a key that is no declared field.
    pub(super) fn value_id(&self) -> Option<Id> {
        match self.values {
            Values::Of(id) => Some(id),
            Values::Unstated | Values::Anything | Values::Nothing => None,
        }
    }

    /// The schema of key `name`, declared or not.
    pub(super) fn child(&self, name: &str) -> Option<Id> {
        self.field(name).or_else(|| self.value_id())
    }

    /// The structural children: what junctors refer to is not among them.
    fn children(&self) -> impl Iterator<Item = Id> {
        self.fields.iter().map(|(_, id)| *id).chain(self.items).chain(self.value_id())
    }

    fn own(&self) -> Below {
        Below {
            rules: !self.rules.is_empty(),
            deep_rules: self.rules.iter().any(Rule::is_deep),
            keyed_lists: matches!(self.list_type, Some(ListType::Set | ListType::Map)),
            embedded: self.embedded,
        }
    }
}

/// A schema: cheap to clone, safe to share.
#[derive(Clone)]
pub struct Schema {
    pub(super) arena: Arc<Arena>,
    pub(super) root: Id,
}

impl Schema {
    /// A cursor at the root.
    #[must_use]
    pub fn root(&self) -> Node<'_> {
        Node { arena: &self.arena, id: self.root }
    }

    /// The schema of a field of the object this describes, as a schema of its own.
    #[must_use]
    pub fn part(&self, field: &str) -> Option<Self> {
        let root = self.root().field(field)?.id;
        Some(Self { arena: Arc::clone(&self.arena), root })
    }

    /// Whether values are held against rules, which take longer than all other checks.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.data().below.rules
    }

    pub(super) fn data(&self) -> &Data {
        self.arena.at(self.root)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = self.root();
        f.debug_struct("Schema").field("name", &root.name()).field("kind", &root.kind()).finish()
    }
}

/// A cursor: one node of a schema.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    arena: &'a Arena,
    id: Id,
}

impl<'a> Node<'a> {
    fn data(self) -> &'a Data {
        self.arena.at(self.id)
    }

    fn to(self, id: Option<Id>) -> Option<Self> {
        id.map(|id| Self { arena: self.arena, id })
    }

    /// What kind of value this describes.
    #[must_use]
    pub fn kind(self) -> Kind {
        self.data().kind
    }

    /// The name of the native definition, such as `io.k8s.api.core.v1.Pod`.
    #[must_use]
    pub fn name(self) -> Option<&'a str> {
        self.data().name.as_deref()
    }

    /// The format, such as `int64` or `date-time`.
    #[must_use]
    pub fn format(self) -> Option<&'a str> {
        self.data().format.as_deref()
    }

    /// The schema of field `name`: a declared field, or a key of a map.
    #[must_use]
    pub fn field(self, name: &str) -> Option<Self> {
        self.to(self.data().child(name))
    }

    /// The declared fields, sorted by name.
    pub fn fields(self) -> impl Iterator<Item = (&'a str, Self)> {
        let arena = self.arena;
        self.data().fields.iter().map(move |(name, id)| (name.as_ref(), Self { arena, id: *id }))
    }

    /// The schema of the elements of a list.
    #[must_use]
    pub fn items(self) -> Option<Self> {
        self.to(self.data().items)
    }

    /// The schema of the values of a map.
    #[must_use]
    pub fn values(self) -> Option<Self> {
        self.to(self.data().value_id())
    }

    /// The names of the fields that must be present.
    pub fn required(self) -> impl Iterator<Item = &'a str> {
        self.data().checks.iter().flat_map(|checks| checks.required.iter().map(AsRef::as_ref))
    }

    /// The value that stands for a missing one.
    #[must_use]
    pub fn default_value(self) -> Option<&'a Value> {
        self.data().default.as_ref()
    }

    /// Whether null is a value here.
    #[must_use]
    pub fn nullable(self) -> bool {
        self.data().nullable
    }

    /// Whether unknown fields are kept.
    #[must_use]
    pub fn preserves_unknown_fields(self) -> bool {
        self.data().preserve
    }

    /// Whether the value is a whole object of some kind, with its own metadata.
    #[must_use]
    pub fn embeds_resource(self) -> bool {
        self.data().embedded
    }

    /// How a list is merged; none stated means atomic.
    #[must_use]
    pub fn list_type(self) -> Option<ListType> {
        self.data().list_type
    }

    /// The fields that identify an element of a list of type map.
    pub fn list_map_keys(self) -> impl ExactSizeIterator<Item = &'a str> {
        self.data().list_map_keys.iter().map(AsRef::as_ref)
    }

    /// How an object is merged; none stated means granular.
    #[must_use]
    pub fn map_type(self) -> Option<MapType> {
        self.data().map_type
    }

    /// The field by which a strategic merge patch matches elements of a list.
    #[must_use]
    pub fn merge_key(self) -> Option<&'a str> {
        self.data().merge_key.as_deref()
    }

    /// What a strategic merge patch does here: `merge`, `replace`, `retainKeys`.
    pub fn patch_strategies(self) -> impl ExactSizeIterator<Item = &'a str> {
        self.data().patch_strategies.iter().map(AsRef::as_ref)
    }

    /// The kinds that this definition is the schema of.
    #[must_use]
    pub fn group_version_kinds(self) -> &'a [GroupVersionKind] {
        &self.data().kinds
    }
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("name", &self.name()).field("kind", &self.kind()).finish()
    }
}
