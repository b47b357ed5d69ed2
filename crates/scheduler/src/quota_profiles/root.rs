//! The root quota that a profile makes of its nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use api::elastic_quota::{
    ElasticQuotaSpec, IS_ROOT_LABEL, PROFILE_LABEL, TOTAL_RESOURCE, TREE_ID_LABEL,
    UNSCHEDULABLE_RESOURCE,
};
use api::pod::ResourceList;
use api::{ElasticQuota, ElasticQuotaProfile, ObjectMeta};
use object::quantity::{Format, Quantity};
use object::selector::label::Selector;
use serde_json::{Map, Value, json};

use super::pool::PoolNode;

/// The ceiling of each resource of a root: as much as nobody has, also in thousandths.
const UNLIMITED: i64 = i64::MAX / 2000;
/// What a ratio is counted in.
const RATIO_ONE: i64 = 1_000_000_000;

/// What a profile says that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Complaint {
    /// The part of its nodes that the tree gets.
    Ratio(String),
    /// The resources that the quota counts.
    Keys(String),
    /// Which nodes are its own.
    Nodes(String),
    /// It names no quota.
    Nameless,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ratio(told) => write!(
                f,
                "spec.resourceRatio has the value {told:?}, which counts as 1.0: write a number \
                 above 0 and up to 1, such as 0.9"
            ),
            Self::Keys(told) => write!(f, "{told}; cpu and memory are counted instead"),
            Self::Nodes(told) => {
                write!(f, "spec.nodeSelector cannot be read, and the quota stays as it is: {told}")
            }
            Self::Nameless => f.write_str("spec.quotaName is empty: name the quota to be made"),
        }
    }
}

/// The root quota that is to be there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Root {
    pub(super) quota: ElasticQuota,
    /// The tree, which the profile names as well.
    pub(super) tree_id: String,
    /// What of the profile counts otherwise than it is written.
    pub(super) complaints: Vec<Complaint>,
}

/// The root quota of a profile, of all nodes that there are; why there can be none otherwise.
pub(super) fn of<'a>(
    profile: &ElasticQuotaProfile,
    nodes: impl Iterator<Item = &'a PoolNode>,
) -> Result<Root, Complaint> {
    let (meta, spec) = (&profile.metadata, &profile.spec);
    if spec.quota_name.is_empty() {
        return Err(Complaint::Nameless);
    }
    let selector = spec.node_selector.as_ref().map_or(Ok(Selector::nothing()), |own| {
        own.to_selector().map_err(|error| Complaint::Nodes(error.to_string()))
    })?;
    let mut complaints = Vec::new();
    let ratio = ratio(&spec.resource_ratio).unwrap_or_else(|complaint| {
        complaints.push(complaint);
        RATIO_ONE
    });
    let keys = profile.resource_keys().unwrap_or_else(|malformed| {
        complaints.push(Complaint::Keys(malformed.to_string()));
        ["cpu", "memory"].map(Box::from).to_vec()
    });
    let (total, unschedulable) = sums(&selector, nodes);
    let (total, unschedulable) = (part_of(&total, ratio), part_of(&unschedulable, ratio));
    let zero = Quantity::from_units(0, Format::DecimalSi);
    let unlimited = Quantity::from_units(UNLIMITED, Format::DecimalSi);
    let min = |key: &str| total.get(key).cloned().unwrap_or_else(|| zero.clone());
    let own_spec = ElasticQuotaSpec {
        min: keys.iter().map(|key| (key.to_string(), min(key))).collect(),
        max: keys.iter().map(|key| (key.to_string(), unlimited.clone())).collect(),
    };
    let tree_id = profile.tree_id().map_or_else(|| tree_of(meta), ToOwned::to_owned);
    let mut labels = BTreeMap::from([(PROFILE_LABEL.to_owned(), meta.name.clone())]);
    labels.extend(spec.quota_labels.clone());
    labels.insert(TREE_ID_LABEL.to_owned(), tree_id.clone());
    labels.insert(IS_ROOT_LABEL.to_owned(), "true".to_owned());
    let annotations = [(TOTAL_RESOURCE, &total), (UNSCHEDULABLE_RESOURCE, &unschedulable)]
        .map(|(key, amounts)| (key.to_owned(), json!(amounts).to_string()));
    let metadata = ObjectMeta {
        name: spec.quota_name.clone(),
        namespace: meta.namespace.clone(),
        labels,
        annotations: annotations.into(),
        ..ObjectMeta::default()
    };
    let quota = ElasticQuota { metadata, spec: own_spec, ..ElasticQuota::default() };
    Ok(Root { quota, tree_id, complaints })
}

/// The tree of a profile that names none: FNV-1a of its name, in 64 bits.
fn tree_of(meta: &ObjectMeta) -> String {
    let text = format!("{}/{}", meta.namespace, meta.name);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.to_string()
}

/// The part that a tree gets, in billionths.
#[allow(clippy::cast_possible_truncation, reason = "it is between 0 and a billion")]
fn ratio(text: &str) -> Result<i64, Complaint> {
    if text.is_empty() {
        return Ok(RATIO_ONE);
    }
    let number: Option<f64> = text.parse().ok();
    let number = number.filter(|number| *number > 0.0 && *number <= 1.0);
    let number = number.ok_or_else(|| Complaint::Ratio(text.to_owned()))?;
    Ok((number * RATIO_ONE as f64).round() as i64)
}

/// What nodes have that a selector means, and what of it is on those that take no pods.
fn sums<'a>(
    selector: &Selector,
    nodes: impl Iterator<Item = &'a PoolNode>,
) -> (ResourceList, ResourceList) {
    let (mut total, mut unschedulable) = (ResourceList::new(), ResourceList::new());
    let is_own = |node: &&PoolNode| {
        selector.matches(|key| node.metadata.labels.get(key).map(String::as_str))
    };
    for node in nodes.filter(is_own) {
        add(&mut total, node.allocatable());
        if !node.takes_pods() {
            add(&mut unschedulable, node.allocatable());
        }
    }
    (total, unschedulable)
}

fn add(sum: &mut ResourceList, amounts: &ResourceList) {
    for (resource, amount) in amounts {
        let own = sum.entry(resource.clone()).or_insert(Quantity::ZERO);
        // Only amounts with thousands of digits cannot be added.
        if let Some(more) = own.checked_add(amount) {
            *own = more;
        }
    }
}

/// So many billionths of amounts, rounded down: CPU in thousandths, all else in whole units.
fn part_of(amounts: &ResourceList, ratio: i64) -> ResourceList {
    if ratio == RATIO_ONE {
        return amounts.clone();
    }
    let part = |(resource, amount): (&String, &Quantity)| {
        let scale = if resource == "cpu" { -3 } else { 0 };
        let value = amount.checked_scaled_value(scale).unwrap_or(i64::MAX);
        let value = i128::from(value) * i128::from(ratio) / i128::from(RATIO_ONE);
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        (resource.clone(), Quantity::from_scaled(value, scale, amount.format()))
    };
    amounts.iter().map(part).collect()
}

/// What is to be written on a profile that does not name its tree.
pub(super) fn naming(profile: &ElasticQuotaProfile, root: &Root) -> Option<Value> {
    let labels = json!({ TREE_ID_LABEL: root.tree_id });
    let patch = json!({ "metadata": { "uid": profile.metadata.uid, "labels": labels } });
    profile.tree_id().is_none().then_some(patch)
}

/// What is to be done so that a profile has its quota.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// It is as it is to be, or it is going.
    Nothing,
    /// It is to be made.
    Create,
    /// It is to be changed.
    Patch(Value),
    /// It is this profile's, which still names it.
    Taken(String),
}

/// What is to be done where this quota is found under the name of the profile's. Other profiles of its
/// namespace are found by name.
pub(super) fn step<P: Deref<Target = ElasticQuotaProfile>>(
    profile: &ElasticQuotaProfile,
    root: &Root,
    found: Option<&ElasticQuota>,
    other: impl FnOnce(&str) -> Option<P>,
) -> Step {
    let Some(found) = found else { return Step::Create };
    let owner = found.metadata.labels.get(PROFILE_LABEL);
    let owner = owner.filter(|owner| **owner != profile.metadata.name);
    let still_names = |own: P| own.spec.quota_name == found.metadata.name;
    if let Some(owner) = owner
        && other(owner).is_some_and(still_names)
    {
        return Step::Taken(owner.clone());
    }
    let patch = patch(found, &root.quota).filter(|_| !found.metadata.is_going());
    patch.map_or(Step::Nothing, Step::Patch)
}

/// What is to be written so that a quota is as it is to be; none where it is.
pub(super) fn patch(found: &ElasticQuota, wanted: &ElasticQuota) -> Option<Value> {
    let (mut metadata, mut spec) = (Map::new(), Map::new());
    let (own, other) = (&wanted.metadata, &found.metadata);
    let labels = own.labels.iter().filter(|(key, value)| other.labels.get(*key) != Some(*value));
    let labels: Map<String, Value> =
        labels.map(|(key, value)| (key.clone(), json!(value))).collect();
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), labels.into());
    }
    let amounts = |text: &String| serde_json::from_str::<ResourceList>(text).ok();
    let differs = |(key, text): &(&String, &String)| {
        other.annotations.get(*key).and_then(amounts) != amounts(text)
    };
    let annotations = own.annotations.iter().filter(differs);
    let annotations: Map<String, Value> =
        annotations.map(|(key, text)| (key.clone(), json!(text))).collect();
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
    let both =
        [("min", &found.spec.min, &wanted.spec.min), ("max", &found.spec.max, &wanted.spec.max)];
    for (field, found, wanted) in both.into_iter().filter(|(_, found, wanted)| found != wanted) {
        let gone = found.keys().filter(|key| !wanted.contains_key(*key));
        let mut amounts: Map<String, Value> = gone.map(|key| (key.clone(), Value::Null)).collect();
        amounts.extend(wanted.iter().map(|(key, amount)| (key.clone(), json!(amount))));
        spec.insert(field.to_owned(), amounts.into());
    }
    if metadata.is_empty() && spec.is_empty() {
        return None;
    }
    metadata.insert("uid".to_owned(), json!(other.uid));
    let mut patch = json!({ "metadata": metadata });
    if !spec.is_empty() {
        patch["spec"] = spec.into();
    }
    Some(patch)
}
