//! What a pod says of its gang.

use api::Pod;
use api::pod_group::{
    BIND_GROUP_ID, BIND_GROUP_ID_BEFORE, BIND_MEMBER_COUNT, BIND_MEMBER_COUNT_BEFORE, GangId,
    GangName, GangTerms,
};

use crate::moment::Moment;

/// What a pod says of its gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The gang.
    pub gang: GangId,
    /// What the pod says of it; none where an object describes it.
    pub terms: Option<Box<GangTerms>>,
    /// When the pod was made: of several that say something, the first counts.
    pub created: Moment,
    /// With whom it started, where it says so.
    pub incarnation: Option<Incarnation>,
}

/// Members that started at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incarnation {
    /// The gangs that they are of.
    pub group: Box<str>,
    /// How many they were.
    pub members: u32,
}

impl Membership {
    /// What a pod says of its gang; none where it is of none.
    #[must_use]
    pub fn of(pod: &Pod) -> Option<Self> {
        let name = GangName::of(pod)?;
        let metadata = &pod.metadata;
        Some(Self {
            gang: GangId::new(&metadata.namespace, name.as_str()),
            terms: match name {
                GangName::Group(_) => None,
                GangName::Pods(_) => Some(Box::new(GangTerms::of_pod(pod))),
            },
            created: metadata.creation_timestamp.map(Moment::from).unwrap_or_default(),
            incarnation: incarnation(pod),
        })
    }
}

fn incarnation(pod: &Pod) -> Option<Incarnation> {
    // What its author says before it has a node is no word of a scheduler.
    if pod.spec.node_name.is_empty() {
        return None;
    }
    let at = |key: &str, before: &str| {
        let annotations = &pod.metadata.annotations;
        annotations.get(key).or_else(|| annotations.get(before)).map(String::as_str)
    };
    let group = at(BIND_GROUP_ID, BIND_GROUP_ID_BEFORE).filter(|group| !group.is_empty())?;
    let members = at(BIND_MEMBER_COUNT, BIND_MEMBER_COUNT_BEFORE)?.parse().ok()?;
    Some(Incarnation { group: group.into(), members })
}
