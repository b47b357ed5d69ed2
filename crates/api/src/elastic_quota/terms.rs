//! What labels and annotations say of a quota.

use crate::elastic_quota::{ElasticQuota, ROOT_QUOTA};
use crate::malformed::{ListBounds, Malformed, UnreadList, annotation, flag, names_annotation};
use crate::object_meta::ObjectMeta;
use crate::pod::ResourceList;

/// Label: the quota above.
pub const PARENT_LABEL: &str = "quota.scheduling.koordinator.sh/parent";
/// Label: `true` says that quotas may be below it, and no pods in it.
pub const IS_PARENT_LABEL: &str = "quota.scheduling.koordinator.sh/is-parent";
/// Label: `false` says that what it is guaranteed stays with it, also while nobody uses it.
pub const ALLOW_LENT_LABEL: &str = "quota.scheduling.koordinator.sh/allow-lent-resource";
/// Label: the tree that it is of; empty for the tree of the whole cluster.
pub const TREE_ID_LABEL: &str = "quota.scheduling.koordinator.sh/tree-id";
/// Label: `true` says that it is the root of its tree, and has all that the tree has.
pub const IS_ROOT_LABEL: &str = "quota.scheduling.koordinator.sh/is-root";
/// Label of the root of a tree: `true` says that what the tree has counts in the default tree as well.
pub const IGNORE_DEFAULT_TREE_LABEL: &str = "quota.scheduling.koordinator.sh/ignore-default-tree";
/// Label: the profile that it is made from.
pub const PROFILE_LABEL: &str = "quota.scheduling.koordinator.sh/profile";
/// Label: `true` says that guarantees may add up to more than there is.
pub const ALLOW_FORCE_UPDATE_LABEL: &str = "quota.scheduling.koordinator.sh/allow-force-update";
/// Annotation: its part of what is idle, in proportion to those beside it.
pub const SHARED_WEIGHT: &str = "quota.scheduling.koordinator.sh/shared-weight";
/// Annotation: namespaces whose pods belong to it, unless they name another.
pub const NAMESPACES: &str = "quota.scheduling.koordinator.sh/namespaces";
/// Annotation of the root of a tree: what the tree has.
pub const TOTAL_RESOURCE: &str = "quota.scheduling.koordinator.sh/total-resource";
/// Annotation of the root of a tree: what of it is on nodes that take no pods.
pub const UNSCHEDULABLE_RESOURCE: &str = "quota.scheduling.koordinator.sh/unschedulable-resource";
/// Annotation: up to how much pods may be created, where that is not the ceiling.
pub const ADMISSION: &str = "quota.scheduling.koordinator.sh/admission";
/// Annotation: resources of which the ceiling cannot be put below what is used.
pub const MAX_STRICT_CHECK_RESOURCE_KEYS: &str =
    "quota.scheduling.koordinator.sh/max-strict-check-resource-keys";

/// How many namespaces a quota may list.
pub const NAMESPACES_MAX: usize = 1_000;
/// How many resources a list of them may name.
const KEYS_MAX: usize = 64;

const AMOUNTS_FIX: &str = r#"write JSON such as {"cpu":"4","memory":"8Gi"}"#;
const NAMESPACES_FIX: &str = r#"write JSON such as ["team-a","team-b"]"#;
pub(crate) const KEYS_FIX: &str = r#"write JSON such as ["cpu","memory"]"#;

/// What a list of namespaces may say: names of 63 letters in quotes, and a space between them.
const NAMESPACES_BOUNDS: ListBounds = ListBounds {
    of: "namespaces",
    names: NAMESPACES_MAX,
    entries: NAMESPACES_MAX,
    bytes: 68 * NAMESPACES_MAX,
};
/// What a list of resources may say: no quota counts more than 64.
pub(crate) const KEYS_BOUNDS: ListBounds =
    ListBounds { of: "resources", names: KEYS_MAX, entries: KEYS_MAX, bytes: 32 << 10 };

/// What labels and annotations say of a quota.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaTerms {
    /// The quota above.
    pub parent: Box<str>,
    /// Whether quotas may be below it.
    pub is_parent: bool,
    /// Whether others may use what it is guaranteed while nobody else does.
    pub is_lendable: bool,
    /// Its part of what is idle, in proportion to those beside it; none where that is its ceiling.
    pub shared_weight: Option<ResourceList>,
    /// The tree that it is of; empty for the tree of the whole cluster.
    pub tree_id: Box<str>,
    /// Whether it is the root of its tree.
    pub is_root: bool,
    /// Whether what its tree has counts in the default tree as well.
    pub ignores_default_tree: bool,
    /// The profile that it is made from; empty where it is made from none.
    pub profile: Box<str>,
    /// Whether guarantees may add up to more than there is.
    pub allows_force_update: bool,
    /// Namespaces whose pods belong to it.
    pub namespaces: Vec<Box<str>>,
    /// What its tree has, where it is the root.
    pub total_resource: Option<ResourceList>,
    /// What of it is on nodes that take no pods.
    pub unschedulable_resource: Option<ResourceList>,
    /// Up to how much pods may be created; none where that is its ceiling.
    pub admission: Option<ResourceList>,
    /// Resources of which the ceiling cannot be put below what is used.
    pub max_strict_check_resource_keys: Vec<Box<str>>,
    /// What could not be read, and counts as if it were not there.
    pub malformed: Vec<Malformed>,
}

impl QuotaTerms {
    /// What a quota says. Whatever cannot be read counts as if it were not there, and is told.
    #[must_use]
    pub fn of(quota: &ElasticQuota) -> Self {
        let metadata = &quota.metadata;
        let mut reader = Reader { metadata, malformed: Vec::new() };
        let parent = Some(label(metadata, PARENT_LABEL)).filter(|name| !name.is_empty());
        let mut terms = Self {
            parent: parent.unwrap_or_else(|| ROOT_QUOTA.into()),
            tree_id: label(metadata, TREE_ID_LABEL),
            profile: label(metadata, PROFILE_LABEL),
            is_parent: reader.flag(IS_PARENT_LABEL).unwrap_or(false),
            is_lendable: reader.flag(ALLOW_LENT_LABEL).unwrap_or(true),
            is_root: reader.flag(IS_ROOT_LABEL).unwrap_or(false),
            ignores_default_tree: reader.flag(IGNORE_DEFAULT_TREE_LABEL).unwrap_or(false),
            allows_force_update: reader.flag(ALLOW_FORCE_UPDATE_LABEL).unwrap_or(false),
            shared_weight: reader.amounts(SHARED_WEIGHT),
            total_resource: reader.amounts(TOTAL_RESOURCE),
            unschedulable_resource: reader.amounts(UNSCHEDULABLE_RESOURCE),
            admission: reader.amounts(ADMISSION),
            namespaces: reader.names(NAMESPACES, NAMESPACES_BOUNDS, NAMESPACES_FIX),
            max_strict_check_resource_keys: reader.names(
                MAX_STRICT_CHECK_RESOURCE_KEYS,
                KEYS_BOUNDS,
                KEYS_FIX,
            ),
            malformed: reader.malformed,
        };
        // Where all weights are nothing nobody would get anything, which nobody can mean.
        let says_something = |list: &ResourceList| list.values().any(|own| !own.is_zero());
        terms.shared_weight = terms.shared_weight.filter(says_something);
        terms
    }
}

/// A label that is any text; empty where it is not there.
fn label(metadata: &ObjectMeta, key: &str) -> Box<str> {
    metadata.labels.get(key).map(|text| text.as_str().into()).unwrap_or_default()
}

/// Reads what is there, and remembers what of it cannot be read.
struct Reader<'a> {
    metadata: &'a ObjectMeta,
    malformed: Vec<Malformed>,
}

impl Reader<'_> {
    fn kept<T>(&mut self, read: Result<Option<T>, Malformed>) -> Option<T> {
        read.unwrap_or_else(|error| {
            self.malformed.push(error);
            None
        })
    }

    fn flag(&mut self, key: &'static str) -> Option<bool> {
        let read = flag(&self.metadata.labels, key);
        self.kept(read)
    }

    /// Whether something is written at an annotation.
    fn is_told(&self, key: &str) -> bool {
        self.metadata.annotations.get(key).is_some_and(|text| !text.trim().is_empty())
    }

    fn amounts(&mut self, key: &'static str) -> Option<ResourceList> {
        let read = || annotation(&self.metadata.annotations, key, AMOUNTS_FIX);
        let read = if self.is_told(key) { read() } else { Ok(None) };
        self.kept(read)
    }

    fn names(&mut self, key: &'static str, bounds: ListBounds, fix: &'static str) -> Vec<Box<str>> {
        let read = || names_annotation(&self.metadata.annotations, key, bounds, fix);
        let read = if self.is_told(key) { read() } else { Ok(None) };
        self.kept(read.map_err(UnreadList::malformed)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn terms(labels: Value, annotations: Value) -> QuotaTerms {
        let wire = json!({ "metadata": { "labels": labels, "annotations": annotations } });
        QuotaTerms::of(&serde_json::from_value(wire).unwrap())
    }

    fn amounts(list: Value) -> Option<ResourceList> {
        Some(serde_json::from_value(list).unwrap())
    }

    #[test]
    fn who_says_nothing_is_a_leaf_below_the_root_that_lends() {
        let expected =
            QuotaTerms { parent: ROOT_QUOTA.into(), is_lendable: true, ..QuotaTerms::default() };
        assert_eq!(terms(json!({}), json!({})), expected);
        assert_eq!(terms(json!({ PARENT_LABEL: "", IS_PARENT_LABEL: "" }), json!({})), expected);
    }

    #[test]
    fn everything_that_is_said_is_read() {
        let own = terms(
            json!({ PARENT_LABEL: "org", IS_PARENT_LABEL: "true", ALLOW_LENT_LABEL: "false",
                    TREE_ID_LABEL: "t1", IS_ROOT_LABEL: "true", PROFILE_LABEL: "pool",
                    IGNORE_DEFAULT_TREE_LABEL: "true", ALLOW_FORCE_UPDATE_LABEL: "true" }),
            json!({ SHARED_WEIGHT: r#"{"cpu":"2"}"#, TOTAL_RESOURCE: r#"{"cpu":"96"}"#,
                    UNSCHEDULABLE_RESOURCE: r#"{"cpu":"8"}"#, ADMISSION: r#"{"cpu":"7"}"#,
                    NAMESPACES: r#"["a","b"]"#, MAX_STRICT_CHECK_RESOURCE_KEYS: r#"["memory"]"# }),
        );
        let expected = QuotaTerms {
            parent: "org".into(),
            is_parent: true,
            is_lendable: false,
            shared_weight: amounts(json!({ "cpu": "2" })),
            tree_id: "t1".into(),
            is_root: true,
            ignores_default_tree: true,
            profile: "pool".into(),
            allows_force_update: true,
            namespaces: vec!["a".into(), "b".into()],
            total_resource: amounts(json!({ "cpu": "96" })),
            unschedulable_resource: amounts(json!({ "cpu": "8" })),
            admission: amounts(json!({ "cpu": "7" })),
            max_strict_check_resource_keys: vec!["memory".into()],
            malformed: Vec::new(),
        };
        assert_eq!(own, expected);
    }

    #[test]
    fn what_cannot_be_read_counts_as_if_it_were_not_there_and_is_told() {
        let check = |is_label: bool, key: &'static str, wrong: &[&str]| {
            for text in wrong {
                let told = json!({ key: text });
                let none = json!({});
                let own = if is_label { terms(told, none) } else { terms(none, told) };
                let [error] = &own.malformed[..] else { panic!("{key} {text}: {own:?}") };
                assert_eq!((error.key, error.value()), (key, *text));
                let words = error.to_string();
                assert!(words.starts_with(key) && !words.ends_with(": "), "{words}");
                let rest = QuotaTerms { malformed: Vec::new(), ..own };
                assert_eq!(rest, terms(json!({}), json!({})), "{key} {text}");
            }
        };
        let words = ["True", "yes", "1", " true", "false "];
        for key in [
            IS_PARENT_LABEL,
            ALLOW_LENT_LABEL,
            IS_ROOT_LABEL,
            IGNORE_DEFAULT_TREE_LABEL,
            ALLOW_FORCE_UPDATE_LABEL,
        ] {
            check(true, key, &words);
        }
        let lists = ["{", "[]", "7", "null", "cpu=4", r#"{"cpu":"much"}"#, r#"{"cpu":[1]}"#];
        for key in [SHARED_WEIGHT, TOTAL_RESOURCE, UNSCHEDULABLE_RESOURCE, ADMISSION] {
            check(false, key, &lists);
        }
        let names = ["[", "{}", "a,b", "[1]", r#"[["a"]]"#, "null", r#"{"a":"b"}"#];
        for key in [NAMESPACES, MAX_STRICT_CHECK_RESOURCE_KEYS] {
            check(false, key, &names);
        }
    }

    #[test]
    fn a_list_that_says_more_than_it_may_counts_as_if_it_were_not_there() {
        let check = |key: &'static str, names: &[String], told: Option<&str>| {
            let own = terms(json!({}), json!({ key: json!(names).to_string() }));
            let error = own.malformed.first().map(ToString::to_string);
            assert_eq!(error.as_deref(), told, "{key}");
            let read = own.namespaces.len() + own.max_strict_check_resource_keys.len();
            assert_eq!(read, if told.is_none() { names.len() } else { 0 }, "{key}");
        };
        let names =
            |count: usize| (0..count).map(|own| format!("{own:0>63}")).collect::<Vec<String>>();
        check(NAMESPACES, &names(NAMESPACES_MAX), None);
        let fix = "name at most 1000 namespaces, in at most 68000 bytes of JSON";
        let told = format!("{NAMESPACES} has more than 1000 entries: {fix}");
        check(NAMESPACES, &names(NAMESPACES_MAX + 1), Some(&told));
        let told = format!("{NAMESPACES} has 264001 bytes: {fix}");
        check(NAMESPACES, &names(4_000), Some(&told));
        let key = MAX_STRICT_CHECK_RESOURCE_KEYS;
        check(key, &names(64), None);
        let fix = "name at most 64 resources, in at most 32768 bytes of JSON";
        let told = format!("{key} has more than 64 entries: {fix}");
        check(key, &names(65), Some(&told));
    }

    #[test]
    fn weights_that_are_all_nothing_mean_the_ceiling() {
        let weight = |text: &str| terms(json!({}), json!({ SHARED_WEIGHT: text })).shared_weight;
        assert_eq!(weight(r#"{"cpu":"0","memory":0}"#), None);
        assert_eq!(weight("{}"), None);
        assert_eq!(weight(r#"{"cpu":"0","memory":1}"#), amounts(json!({ "cpu": 0, "memory": 1 })));
        assert!(terms(json!({}), json!({ SHARED_WEIGHT: "{}" })).malformed.is_empty());
    }

    #[test]
    fn an_annotation_that_is_empty_is_not_there() {
        let empty = json!({ SHARED_WEIGHT: "", NAMESPACES: " ", ADMISSION: "" });
        assert_eq!(terms(json!({}), empty), terms(json!({}), json!({})));
    }
}
