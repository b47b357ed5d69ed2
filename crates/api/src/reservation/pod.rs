//! What pods say of reservations.

use std::collections::BTreeMap;

use object::taint::Toleration;
use serde::{Deserialize, Serialize};

use crate::malformed::{Malformed, annotation, list_annotation};
use crate::node_selector::{NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm};
use crate::pod::Pod;
use crate::reservation::{ReservationOwner, check_owners};
use crate::wire;

/// Pod annotation: which reservation it must use.
pub const AFFINITY: &str = "scheduling.koordinator.sh/reservation-affinity";
/// Pod annotation: of which resources a reservation must hold exactly what the pod asks for.
pub const EXACT_MATCH: &str = "scheduling.koordinator.sh/exact-match-reservation";
/// Pod annotation: the reservation that it uses.
pub const ALLOCATED: &str = "scheduling.koordinator.sh/reservation-allocated";
/// Pod label: the pod may use what reservations hold, and uses none of them.
pub const IGNORED_LABEL: &str = "scheduling.koordinator.sh/reservation-ignored";

/// Pod label: nobody is to be pushed out for a reservation, or inside one, who says so.
pub const SPARED_LABEL: &str = "scheduling.koordinator.sh/disable-preemptible";

/// Pod label: what a pod is once it runs.
pub const OPERATING_MODE_LABEL: &str = "scheduling.koordinator.sh/operating-mode";
/// Annotation of a pod that is a reservation: who may use it.
pub const OWNERS: &str = "scheduling.koordinator.sh/reservation-owners";
/// Annotation of a pod that is a reservation: who uses it, as somebody outside says.
pub const CURRENT_OWNER: &str = "scheduling.koordinator.sh/reservation-current-owner";
/// Pod label: any reservation may take the pod over that takes over more than its own.
pub const PRE_ALLOCATABLE_LABEL: &str = "pod.koordinator.sh/is-pre-allocatable";
/// Pod annotation: of several pods that may be taken over, the one with the highest number goes first.
pub const PRE_ALLOCATABLE_PRIORITY: &str = "pod.koordinator.sh/pre-allocatable-priority";

/// Which reservation a pod must use: one of those whose owner it is, of which all of this is true.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
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
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
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
        let own: Option<Self> = annotation(annotations, AFFINITY, fix)?;
        let required = own.as_ref().and_then(|own| own.required.as_ref());
        let mut terms = required.iter().flat_map(|own| &own.reservation_selector_terms);
        match terms.find_map(undecidable) {
            Some(odd) => {
                let fix = "write a term as in the node affinity of a pod, such as \
                    {\"key\":\"team\",\"operator\":\"In\",\"values\":[\"a\"]}";
                Err(Malformed::new(AFFINITY, &serde_json::json!(odd).to_string(), fix))
            }
            None => Ok(own),
        }
    }
}

/// What of a term is true of nothing, whatever there is.
fn undecidable(term: &NodeSelectorTerm) -> Option<&NodeSelectorRequirement> {
    let is_number = |text: &str| text.parse::<i64>().is_ok();
    let is_odd = |own: &&NodeSelectorRequirement| match (&own.operator, own.values.as_slice()) {
        _ if own.key.is_empty() => true,
        (NodeSelectorOperator::In | NodeSelectorOperator::NotIn, values) => values.is_empty(),
        (NodeSelectorOperator::Exists | NodeSelectorOperator::DoesNotExist, values) => {
            !values.is_empty()
        }
        (NodeSelectorOperator::Gt | NodeSelectorOperator::Lt, [bound]) => !is_number(bound),
        _ => true,
    };
    let is_odd_field = |own: &&NodeSelectorRequirement| {
        let is_known =
            matches!(own.operator, NodeSelectorOperator::In | NodeSelectorOperator::NotIn);
        !is_known || &*own.key != "metadata.name" || own.values.len() != 1
    };
    let field = || term.match_fields.iter().find(is_odd_field);
    term.match_expressions.iter().find(is_odd).or_else(field)
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

/// Whether a pod is a reservation once it runs.
#[must_use]
pub fn is_operating(pod: &Pod) -> bool {
    pod.metadata.labels.get(OPERATING_MODE_LABEL).is_some_and(|mode| mode == "Reservation")
}

/// Who may use a pod that is a reservation once it runs; nobody where it is none.
///
/// # Errors
/// When that cannot be read, or is not said.
pub fn owners(pod: &Pod) -> Result<Vec<ReservationOwner>, Malformed> {
    if !is_operating(pod) {
        return Ok(Vec::new());
    }
    let fix = r#"write JSON such as [{"labelSelector":{"matchLabels":{"app":"web"}}}]"#;
    let annotations = &pod.metadata.annotations;
    let own: Option<Vec<ReservationOwner>> = list_annotation(annotations, OWNERS, fix)?;
    let own = own.unwrap_or_default();
    if own.is_empty() {
        return Err(Malformed::new(OWNERS, annotations.get(OWNERS).map_or("", |text| text), fix));
    }
    check_owners(OWNERS, &own)?;
    Ok(own)
}

/// Whether a pod that is a reservation is used, as somebody outside says.
#[must_use]
pub fn has_current_owner(pod: &Pod) -> bool {
    let told = pod.metadata.annotations.get(CURRENT_OWNER);
    told.is_some_and(|text| !matches!(text.trim(), "" | "{}" | "null"))
}

/// Of several pods that may be taken over, the one with the highest number goes first. `key` is the
/// annotation by which pods say it.
#[must_use]
pub fn takeover_rank(pod: &Pod, key: &str) -> i64 {
    pod.metadata.annotations.get(key).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Whether a pod is not to be pushed out for a reservation, or inside one.
#[must_use]
pub fn is_spared(pod: &Pod) -> bool {
    pod.metadata.labels.get(SPARED_LABEL).is_some_and(|word| word == "true")
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
        for wrong in ["{", "[]", r#"["r1"]"#, r#"{"nam":"x"}"#] {
            check(Some(wrong), Err(AFFINITY));
        }
    }

    #[test]
    fn a_term_that_is_true_of_nothing_is_refused_by_its_words() {
        let check = |part: &str, own: Value, is_right: bool| {
            let terms = json!({ "reservationSelectorTerms": [{ part: [own] }] });
            let text = json!({ "requiredDuringSchedulingIgnoredDuringExecution": terms });
            let read = ReservationAffinity::of(&pod(json!({ AFFINITY: text.to_string() })));
            let read = read.map(drop).map_err(|error| (error.key, error.value().to_owned()));
            assert_eq!(read, if is_right { Ok(()) } else { Err((AFFINITY, own.to_string())) });
        };
        let of = |operator: &str, values: Value| json!({ "key": "metadata.name", "operator": operator, "values": values });
        let label = "matchExpressions";
        check(label, of("In", json!(["a"])), true);
        check(label, of("Gt", json!(["5"])), true);
        check(label, json!({ "key": "a", "operator": "Exists" }), true);
        check(label, of("Near", json!(["a"])), false);
        check(label, of("Gt", json!(["five"])), false);
        check(label, of("Lt", json!(["1", "2"])), false);
        check(label, json!({ "key": "a", "operator": "In" }), false);
        check("matchFields", of("In", json!(["r"])), true);
        check("matchFields", of("Gt", json!(["5"])), false);
    }

    #[test]
    fn owners_that_mean_nobody_or_all_are_refused_with_what_is_written() {
        let of = |annotations: Value| {
            let mut pod = pod(annotations);
            pod.metadata.labels.insert(OPERATING_MODE_LABEL.to_owned(), "Reservation".to_owned());
            owners(&pod).map(|own| own.len()).map_err(|error| (error.key, error.value().to_owned()))
        };
        for wrong in ["[]", "{}", "?"] {
            assert_eq!(of(json!({ OWNERS: wrong })), Err((OWNERS, wrong.to_owned())));
        }
        for wrong in ["{}", r#"{"object":{}}"#, r#"{"labelSelector":{}}"#] {
            let list = format!("[{wrong}]");
            assert_eq!(of(json!({ OWNERS: list })), Err((OWNERS, wrong.to_owned())));
        }
        let many = vec![json!({ "object": { "name": "p" } }); 257];
        let many = Value::from(many).to_string();
        assert_eq!(of(json!({ OWNERS: many })), Err((OWNERS, "257".to_owned())));
        assert_eq!(of(json!({})), Err((OWNERS, String::new())));
        assert_eq!(of(json!({ OWNERS: r#"[{"object":{"name":"p"}}]"# })), Ok(1));
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
        for wrong in ["[", "[]", r#"[["cpu"]]"#] {
            assert_eq!(of(wrong).unwrap_err().key, EXACT_MATCH);
        }
    }
}
