//! What pods say of reservations.

use std::collections::BTreeMap;

use object::taint::Toleration;
use serde::{Deserialize, Serialize};

use crate::malformed::{Malformed, annotation};
use crate::node_selector::NodeSelectorTerm;
use crate::pod::Pod;
use crate::wire;

/// Pod annotation: which reservation it must use.
pub const AFFINITY: &str = "scheduling.koordinator.sh/reservation-affinity";
/// Pod annotation: of which resources a reservation must hold exactly what the pod asks for.
pub const EXACT_MATCH: &str = "scheduling.koordinator.sh/exact-match-reservation";
/// Pod annotation: the reservation that it uses.
pub const ALLOCATED: &str = "scheduling.koordinator.sh/reservation-allocated";
/// Pod label: the pod may use what reservations hold, and uses none of them.
pub const IGNORED_LABEL: &str = "scheduling.koordinator.sh/reservation-ignored";

/// Which reservation a pod must use: one of those whose owner it is, of which all of this is true.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReservationAffinity {
    /// This one. Nothing else counts then.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// One with these labels.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub reservation_selector: BTreeMap<String, String>,
    /// One of which one of these is true.
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Option::is_none"
    )]
    pub required: Option<ReservationSelector>,
    /// Taints of reservations that it puts up with.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// Reservations of which one of some things is true.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReservationSelector {
    /// One of these.
    #[serde(deserialize_with = "wire::or_default")]
    pub reservation_selector_terms: Vec<NodeSelectorTerm>,
}

impl ReservationAffinity {
    /// What a pod says; none where it need not use a reservation. An empty text means that it must use
    /// one, whichever it is.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(pod: &Pod) -> Result<Option<Self>, Malformed> {
        let annotations = &pod.metadata.annotations;
        if annotations.get(AFFINITY).is_some_and(|text| text.trim().is_empty()) {
            return Ok(Some(Self::default()));
        }
        let fix = r#"write JSON such as {"reservationSelector":{"team":"a"}} or {"name":"r1"}"#;
        annotation(annotations, AFFINITY, fix)
    }
}

/// The reservation that a pod uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(default)]
pub struct Allocated {
    /// Its name.
    pub name: Box<str>,
    /// Its uid.
    pub uid: Box<str>,
}

impl Allocated {
    /// What a pod says; none where it uses none, or nobody can read which.
    #[must_use]
    pub fn of(pod: &Pod) -> Option<Self> {
        let text = pod.metadata.annotations.get(ALLOCATED)?;
        serde_json::from_str(text).ok().filter(|own: &Self| !own.uid.is_empty())
    }

    /// The annotation.
    ///
    /// # Panics
    /// Never: two texts can be written.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("texts are written")
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExactMatch {
    #[serde(deserialize_with = "wire::or_default")]
    resource_names: Vec<Box<str>>,
}

/// Of which resources a reservation must hold exactly what a pod asks for.
///
/// # Errors
/// When it cannot be read.
pub fn exact_match(pod: &Pod) -> Result<Vec<Box<str>>, Malformed> {
    let fix = r#"write JSON such as {"resourceNames":["cpu"]}"#;
    let own: Option<ExactMatch> = annotation(&pod.metadata.annotations, EXACT_MATCH, fix)?;
    Ok(own.unwrap_or_default().resource_names)
}

/// Whether a pod may use what reservations hold without using one.
#[must_use]
pub fn is_ignored(pod: &Pod) -> bool {
    pod.metadata.labels.get(IGNORED_LABEL).is_some_and(|word| word == "true")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(annotations: Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "annotations": annotations } })).unwrap()
    }

    #[test]
    fn an_empty_affinity_means_any_reservation() {
        let check = |text: Option<&str>, expected: Result<Option<&str>, &str>| {
            let annotations = text.map_or(json!({}), |text| json!({ AFFINITY: text }));
            let read = ReservationAffinity::of(&pod(annotations));
            let read = read.map(|own| own.map(|own| own.name)).map_err(|error| error.key);
            assert_eq!(read, expected.map(|name| name.map(str::to_owned)), "{text:?}");
        };
        check(None, Ok(None));
        check(Some(""), Ok(Some("")));
        check(Some("{}"), Ok(Some("")));
        check(Some(r#"{"name":"r1"}"#), Ok(Some("r1")));
        check(Some("{"), Err(AFFINITY));
    }

    #[test]
    fn which_reservation_a_pod_uses_is_read_as_it_is_written() {
        let own = Allocated { name: "r".into(), uid: "u".into() };
        let text = own.to_text();
        assert_eq!(text, r#"{"name":"r","uid":"u"}"#);
        assert_eq!(Allocated::of(&pod(json!({ ALLOCATED: text }))), Some(own));
        for text in ["", "{}", "7", r#"{"name":"r"}"#] {
            assert_eq!(Allocated::of(&pod(json!({ ALLOCATED: text }))), None);
        }
    }

    #[test]
    fn resources_that_must_be_exact_are_named() {
        let of = |text: &str| exact_match(&pod(json!({ EXACT_MATCH: text })));
        assert_eq!(of(r#"{"resourceNames":["cpu"]}"#), Ok(vec!["cpu".into()]));
        assert_eq!(of("{}"), Ok(vec![]));
        assert_eq!(of("[").unwrap_err().key, EXACT_MATCH);
    }
}
