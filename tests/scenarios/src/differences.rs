//! The differences from a real kube-apiserver that are meant.
//!
//! Each is shown with both values and explained in `docs/COMPATIBILITY.md`. A scenario in which
//! a listed difference does not show fails, so the list never outlives what it lists.

use serde_json::Value;

use crate::compare::Mismatch;

/// In which scenarios a difference may show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// In this one, where it must show.
    In(&'static str),
    /// In any; in this one it must show.
    Anywhere {
        /// The scenario that proves the difference is still there.
        witness: &'static str,
    },
}

/// One side of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Nothing is there.
    Nothing,
    /// This JSON text is there.
    Json(&'static str),
    /// One of these JSON texts is there.
    OneOf(&'static [&'static str]),
    /// A text that starts so is there; the rest varies.
    Starting(&'static str),
    /// A text is there that is not empty: upstream's prose, which is not copied here either.
    Prose,
    /// A port is there, which varies from run to run.
    Port,
    /// A list is there whose elements vary from scenario to scenario.
    List,
    /// An object is there whose members vary from scenario to scenario.
    Object,
}

impl Side {
    fn admits(self, value: Option<&Value>) -> bool {
        let is = |text: &str, value: &Value| {
            serde_json::from_str::<Value>(text).is_ok_and(|expected| expected == *value)
        };
        match (self, value) {
            (Self::Nothing, None) => true,
            (Self::Json(text), Some(value)) => is(text, value),
            (Self::OneOf(texts), Some(value)) => texts.iter().any(|text| is(text, value)),
            (Self::Starting(start), Some(Value::String(text))) => text.starts_with(start),
            (Self::Prose, Some(Value::String(text))) => !text.is_empty(),
            (Self::Port, Some(Value::Number(number))) => {
                number.as_u64().is_some_and(|port| (1..=65_535).contains(&port))
            }
            (Self::List, Some(Value::Array(_))) | (Self::Object, Some(Value::Object(_))) => true,
            _ => false,
        }
    }
}

/// The difference of scenarios that are played on the truth alone: they ask as somebody who may
/// do nothing, and drydock lets everybody in who has credentials do everything.
pub const AUTHORIZATION: &str = "authorization";

/// Differences that no comparison of answers can show, and for each the tests that fail when it
/// is gone.
pub const TESTED_APART: &[(&str, &[&str])] = &[
    (AUTHORIZATION, &["nobody_is_refused_for_lack_of_rights"]),
    ("bounds", &["of_many_faults_the_first_are_told"]),
    ("conversion-webhooks", &["conversion_by_webhook_is_refused_with_a_message"]),
    ("event-lifetime", &["an_event_goes_an_hour_after_it_was_last_written"]),
    ("explanations", &["the_fields_of_built_in_kinds_have_no_descriptions"]),
    (
        "first-objects",
        &[
            "a_new_server_has_no_roles_and_no_flow_schemas",
            "a_first_object_that_is_deleted_stays_away",
        ],
    ),
    ("health-details", &["health_tells_of_few_parts"]),
    ("impersonation", &["who_wants_to_be_somebody_else_is_refused"]),
    ("json-depth", &["what_is_stored_can_be_read_however_deep_it_nests"]),
    ("object-size", &["an_object_that_grew_too_large_is_refused"]),
    ("openapi-v2", &["the_older_openapi_knows_no_kinds"]),
    ("requests-in-flight", &["room_is_held_by_answers_of_the_same_lane_that_are_on_their_way"]),
    (
        "rule-budget",
        &[
            "every_rule_under_an_object_draws_on_one_budget",
            "a_definition_is_not_refused_for_what_its_rules_may_cost",
        ],
    ),
    (
        "stored-not-obeyed",
        &[
            "a_default_ingress_class_is_stored_and_not_obeyed",
            "a_flow_schema_is_stored_and_not_obeyed",
            "a_pod_security_standard_is_stored_and_not_obeyed",
            "a_quota_is_stored_and_not_obeyed",
            "a_request_for_a_certificate_is_stored_and_not_judged",
            "a_runtime_class_is_stored_and_not_obeyed",
            "addresses_of_services_are_no_objects",
            "an_admission_policy_is_stored_and_not_obeyed",
            "an_api_service_of_another_server_is_stored_and_not_called",
            "nobody_is_refused_for_lack_of_rights",
            "webhooks_are_stored_and_not_called",
        ],
    ),
];

/// A difference that is meant.
#[derive(Debug, Clone, Copy)]
pub struct Difference {
    /// Its name in `docs/COMPATIBILITY.md`.
    pub id: &'static str,
    /// In which scenarios.
    pub scope: Where,
    /// The place in the answers: step, then `code`, `headers` or `body`. `*` stands for any one
    /// part, `a|b` for one of several, a leading `**` for any number of parts.
    pub pointer: &'static str,
    /// What we answer.
    pub ours: Side,
    /// What kube-apiserver answers.
    pub truth: Side,
    /// Why.
    pub reason: &'static str,
}

/// How the refusal of a change to a pod begins, before the diff.
macro_rules! pod_may_not_change {
    () => {
        "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
         `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
         additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be \
         set to 1 if it was previously negative)\n"
    };
}
macro_rules! pod_is_invalid {
    () => {
        "Pod \"a\" is invalid: spec: "
    };
}

/// How the refusal of a change to a job begins, before the template.
macro_rules! job_is_invalid {
    () => {
        "Job.batch \"a\" is invalid: [spec.selector: Required value, \
         spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not \
         match template `labels`, spec.selector: Invalid value: null: field is immutable, \
         spec.template: "
    };
}

/// How a template begins in the API, and in Go.
macro_rules! api_template {
    () => {
        "Invalid value: {\"metadata\":{\"labels\":{\"app\":\"a\"}},\"spec\":"
    };
}
macro_rules! go_template {
    () => {
        "Invalid value: {\"labels\":{\"app\":\"a\"},\"Spec\":"
    };
}

/// All differences that are meant.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        id: "managed-fields",
        scope: Where::Anywhere { witness: "create_as_partial_metadata_namespaced" },
        pointer: "/**/metadata/managedFields",
        ours: Side::Nothing,
        truth: Side::List,
        reason: "field ownership is recorded once server-side apply is served",
    },
    Difference {
        id: "column-descriptions",
        scope: Where::Anywhere { witness: "create_as_a_table_custom" },
        pointer: "/**/columnDefinitions/*/description",
        ours: Side::Json("\"\""),
        truth: Side::Prose,
        reason: "upstream's prose is not copied, and no client shows it",
    },
    Difference {
        id: "built-in-descriptions",
        scope: Where::In("there_is_one_default_priority_class"),
        pointer: "/0/body/items/0/description",
        ours: Side::Json("\"Pods without which the cluster does not work, on whichever node.\""),
        truth: Side::Prose,
        reason: "upstream's prose is not copied",
    },
    Difference {
        id: "built-in-descriptions",
        scope: Where::In("there_is_one_default_priority_class"),
        pointer: "/0/body/items/1/description",
        ours: Side::Json("\"Pods without which their node does not work.\""),
        truth: Side::Prose,
        reason: "upstream's prose is not copied",
    },
    Difference {
        id: "repeated-causes",
        scope: Where::In("some_fields_of_a_pod_may_change"),
        pointer: "/*/body/details/causes/*",
        ours: Side::Nothing,
        truth: Side::Object,
        reason: "upstream checks the metadata of an update several times over",
    },
    Difference {
        id: "pod-diff",
        scope: Where::In("the_rest_of_a_pod_may_not_change"),
        pointer: "/*/body/message",
        ours: Side::Starting(concat!(pod_is_invalid!(), pod_may_not_change!())),
        truth: Side::Starting(concat!(pod_is_invalid!(), pod_may_not_change!(), "@@ -")),
        reason: "upstream shows a diff of Go structs",
    },
    Difference {
        id: "pod-diff",
        scope: Where::In("the_rest_of_a_pod_may_not_change"),
        pointer: "/*/body/details/causes/0/message",
        ours: Side::Starting(pod_may_not_change!()),
        truth: Side::Starting(concat!(pod_may_not_change!(), "@@ -")),
        reason: "upstream shows a diff of Go structs",
    },
    Difference {
        id: "templates-in-errors",
        scope: Where::In("life_batch_v1_namespaces_jobs"),
        pointer: "/*/body/message",
        ours: Side::Starting(concat!(job_is_invalid!(), api_template!())),
        truth: Side::Starting(concat!(job_is_invalid!(), go_template!())),
        reason: "a whole template is shown as the API has it, not as kube-apiserver's structs have it",
    },
    Difference {
        id: "templates-in-errors",
        scope: Where::In("life_batch_v1_namespaces_jobs"),
        pointer: "/*/body/details/causes/5/message",
        ours: Side::Starting(api_template!()),
        truth: Side::Starting(go_template!()),
        reason: "a whole template is shown as the API has it, not as kube-apiserver's structs have it",
    },
    Difference {
        id: "template-generation-in-tables",
        scope: Where::In("table_apps_v1_namespaces_daemonsets"),
        pointer: "/*/body/rows/0/object/metadata/annotations",
        ours: Side::Json(r#"{"deprecated.daemonset.template.generation": "1"}"#),
        truth: Side::Nothing,
        reason: "the annotation is part of the object, however it is shown",
    },
    Difference {
        id: "media-types",
        scope: Where::Anywhere { witness: "patch_of_an_unknown_media_type_custom" },
        pointer: "/*/body/message",
        ours: Side::Starting(UNKNOWN_FORMAT),
        truth: Side::Starting(UNKNOWN_FORMAT),
        reason: "apply patches are not offered yet, so a refusal does not list them",
    },
    Difference {
        id: "media-types",
        scope: Where::Anywhere { witness: "get_in_an_unknown_media_type_custom" },
        pointer: "/*/body/message",
        ours: Side::Starting(ONLY_ACCEPTED),
        truth: Side::Starting(ONLY_ACCEPTED),
        reason: "protobuf is not offered, so a refusal does not list it",
    },
    Difference {
        id: "media-types",
        scope: Where::Anywhere { witness: "get_in_an_unknown_media_type_namespaced" },
        pointer: "/*/body/message",
        ours: Side::Starting(AVAILABLE),
        truth: Side::Starting(AVAILABLE),
        reason: "protobuf is not offered, so a refusal does not list it",
    },
    Difference {
        id: "quoted-patch-results",
        scope: Where::Anywhere { witness: "patch_field_validation_is_strict_namespaced" },
        pointer: "/*/body/message",
        ours: Side::Starting(PATCHED),
        truth: Side::Starting(PATCHED),
        reason: "the object in the message has no managedFields, and its keys are sorted",
    },
    Difference {
        id: "quoted-patch-results",
        scope: Where::Anywhere { witness: "patch_field_validation_is_strict_namespaced" },
        pointer: "/*/body/details/causes/0/message",
        ours: Side::Starting(PATCHED_CAUSE),
        truth: Side::Starting(PATCHED_CAUSE),
        reason: "the object in the message has no managedFields, and its keys are sorted",
    },
    Difference {
        id: "quoted-versions",
        scope: Where::In("a_definition_needs_one_storage_version"),
        pointer: "/*/body/message",
        ours: Side::Starting(VERSIONS),
        truth: Side::Starting(VERSIONS),
        reason: "kube-apiserver shows the versions of a definition as its own Go structs",
    },
    Difference {
        id: "quoted-versions",
        scope: Where::In("a_definition_needs_one_storage_version"),
        pointer: "/*/body/details/causes/0/message",
        ours: Side::Starting("Invalid value: [{"),
        truth: Side::Starting("Invalid value: [{"),
        reason: "kube-apiserver shows the versions of a definition as its own Go structs",
    },
    Difference {
        id: "unserved-subresources",
        scope: Where::Anywhere { witness: "each_native_group_tells_its_versions_and_resources" },
        pointer: "/*/body/resources/nodes~1proxy|pods~1attach|pods~1ephemeralcontainers|pods~1exec|\
                  pods~1log|pods~1portforward|pods~1proxy|serviceaccounts~1token|services~1proxy|\
                  certificatesigningrequests~1approval",
        ours: Side::Nothing,
        truth: Side::Object,
        reason: "what is not served is not listed",
    },
    Difference {
        id: "unserved-subresources",
        scope: Where::Anywhere { witness: "the_groups_are_listed" },
        pointer: "/**/subresources/proxy|attach|ephemeralcontainers|exec|log|portforward|token|\
                  approval",
        ours: Side::Nothing,
        truth: Side::Object,
        reason: "what is not served is not listed",
    },
    Difference {
        id: "unserved-subresources",
        scope: Where::Anywhere { witness: "the_groups_are_listed" },
        pointer: "/**/resources/serviceaccounts/subresources",
        ours: Side::Nothing,
        truth: Side::Object,
        reason: "what is not served is not listed",
    },
    Difference {
        id: "server-addresses",
        scope: Where::In("the_groups_are_listed"),
        pointer: "/0/body/serverAddressByClientCIDRs/0",
        ours: Side::Nothing,
        truth: Side::Object,
        reason: "the server does not know how clients reach it, and they know already",
    },
    Difference {
        id: "self-reviews",
        scope: Where::In("whoever_asks_is_told_who_they_are"),
        pointer: "/0/body/metadata/creationTimestamp",
        ours: Side::Nothing,
        truth: Side::Json("\"{time}\""),
        reason: "nothing is created",
    },
    Difference {
        id: "self-reviews",
        scope: Where::In("whoever_asks_is_told_who_they_are"),
        pointer: "/0/body/status/userInfo/uid",
        ours: Side::Nothing,
        truth: Side::Json("\"admin\""),
        reason: "users have no uid here",
    },
    Difference {
        id: "server-endpoints",
        scope: Where::In("the_server_has_a_service"),
        pointer: "/0/body/spec/ports/0/targetPort",
        ours: Side::Json("443"),
        truth: Side::Port,
        reason: "the server does not know how clients reach it",
    },
    Difference {
        id: "server-endpoints",
        scope: Where::In("the_server_has_a_service"),
        pointer: "/1/body/subsets",
        ours: Side::Nothing,
        truth: Side::List,
        reason: "the server does not know how clients reach it",
    },
    Difference {
        id: "server-endpoints",
        scope: Where::In("the_server_has_a_service"),
        pointer: "/2/body/endpoints",
        ours: Side::Json("null"),
        truth: Side::List,
        reason: "the server does not know how clients reach it",
    },
    Difference {
        id: "server-endpoints",
        scope: Where::In("the_server_has_a_service"),
        pointer: "/2/body/ports/0/port",
        ours: Side::Json("443"),
        truth: Side::Port,
        reason: "the server does not know how clients reach it",
    },
    Difference {
        id: "build",
        scope: Where::In("version_and_health_are_told"),
        pointer: "/0/body/compiler|gitTreeState",
        ours: Side::OneOf(&["\"rustc\"", "\"clean\""]),
        truth: Side::OneOf(&["\"gc\"", "\"\""]),
        reason: "it is another program",
    },
    Difference {
        id: "build",
        scope: Where::In("version_and_health_are_told"),
        pointer: "/0/body/gitCommit|goVersion",
        ours: Side::Json("\"\""),
        truth: Side::Prose,
        reason: "it is another program",
    },
];

const VERSIONS: &str = "CustomResourceDefinition.apiextensions.k8s.io \
    \"things.storage.gantry.test\" is invalid: ";
const UNKNOWN_FORMAT: &str =
    "the body of the request was in an unknown format - accepted media types include: ";
const ONLY_ACCEPTED: &str = "only the following media types are accepted: application/json";
const AVAILABLE: &str =
    "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml";
const PATCHED: &str = " \"\" is invalid: patch: Invalid value: \"{\\\"apiVersion\\\":";
const PATCHED_CAUSE: &str = "Invalid value: \"{\\\"apiVersion\\\":";

/// What is wrong with the mismatches of `scenario`: each one that is not listed, and each
/// listed difference that should have shown and did not.
#[must_use]
pub fn faults(scenario: &str, mismatches: &[Mismatch], listed: &[Difference]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut shown = vec![false; listed.len()];
    for mismatch in mismatches {
        let found = listed.iter().position(|one| covers(one, scenario, mismatch));
        match found {
            Some(index) => shown[index] = true,
            None => faults.push(mismatch.to_string()),
        }
    }
    for (difference, shown) in listed.iter().zip(shown) {
        let must_show = match difference.scope {
            Where::In(name) => name == scenario,
            Where::Anywhere { witness } => witness == scenario,
        };
        if must_show && !shown {
            faults.push(format!(
                "the listed difference {} is gone: take it off the list in differences.rs and \
                 out of docs/COMPATIBILITY.md",
                difference.id
            ));
        }
    }
    faults
}

fn covers(difference: &Difference, scenario: &str, mismatch: &Mismatch) -> bool {
    let here = match difference.scope {
        Where::In(name) => name == scenario,
        Where::Anywhere { .. } => true,
    };
    here && matches(difference.pointer, &mismatch.pointer)
        && difference.ours.admits(mismatch.ours.as_ref())
        && difference.truth.admits(mismatch.truth.as_ref())
}

fn matches(pattern: &str, pointer: &str) -> bool {
    let parts: Vec<&str> = pointer.split('/').skip(1).collect();
    let mut wanted: Vec<&str> = pattern.split('/').skip(1).collect();
    let mut rest = parts.as_slice();
    if wanted.first() == Some(&"**") {
        wanted.remove(0);
        rest = &rest[rest.len().saturating_sub(wanted.len())..];
    }
    let is_one_of = |wanted: &str, part: &str| wanted.split('|').any(|one| one == part);
    wanted.len() == rest.len()
        && wanted.iter().zip(rest).all(|(wanted, part)| *wanted == "*" || is_one_of(wanted, part))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_pattern_matches_places() {
        let check = |pattern: &str, pointer: &str, expected: bool| {
            assert_eq!(matches(pattern, pointer), expected, "{pattern} {pointer}");
        };
        check("/0/body/a", "/0/body/a", true);
        check("/*/body/a", "/7/body/a", true);
        check("/*/body/a", "/7/body/b", false);
        check("/**/metadata/x", "/0/body/metadata/x", true);
        check("/**/metadata/x", "/0/body/items/3/metadata/x", true);
        check("/**/metadata/x", "/x", false);
        check("/0", "/0/1", false);
        check("/**/parts/a|b", "/0/parts/b", true);
        check("/**/parts/a|b", "/0/parts/c", false);
    }

    #[test]
    fn unlisted_mismatches_and_listed_ones_that_are_gone_are_faults() {
        let listed = [
            Difference {
                id: "here",
                scope: Where::In("a"),
                pointer: "/0/code",
                ours: Side::Json("500"),
                truth: Side::Json("200"),
                reason: "",
            },
            Difference {
                id: "everywhere",
                scope: Where::Anywhere { witness: "b" },
                pointer: "/**/fields",
                ours: Side::Nothing,
                truth: Side::List,
                reason: "",
            },
        ];
        let code = |ours: u16| Mismatch {
            pointer: "/0/code".to_owned(),
            ours: Some(json!(ours)),
            truth: Some(json!(200)),
        };
        let fields =
            Mismatch { pointer: "/1/body/fields".to_owned(), ours: None, truth: Some(json!([])) };
        let check = |scenario: &str, found: &[Mismatch], expected: usize| {
            let faults = faults(scenario, found, &listed);
            assert_eq!(faults.len(), expected, "{scenario}: {faults:?}");
        };
        check("a", &[code(500)], 0);
        check("a", &[code(500), fields.clone()], 0);
        check("a", &[], 1);
        check("a", &[code(501)], 2);
        check("b", &[fields], 0);
        check("b", &[], 1);
        check("c", &[], 0);
        check("c", &[code(500)], 1);
    }

    #[test]
    fn a_side_admits_only_what_it_shows() {
        let check = |side: Side, value: Option<Value>, expected: bool| {
            assert_eq!(side.admits(value.as_ref()), expected, "{side:?} {value:?}");
        };
        check(Side::Nothing, None, true);
        check(Side::Nothing, Some(json!(null)), false);
        check(Side::Json("1"), Some(json!(1)), true);
        check(Side::Json("1"), Some(json!(2)), false);
        check(Side::OneOf(&["1", "2"]), Some(json!(2)), true);
        check(Side::OneOf(&["1", "2"]), Some(json!(3)), false);
        check(Side::Starting("a"), Some(json!("ab")), true);
        check(Side::Starting("a"), Some(json!("b")), false);
        check(Side::Prose, Some(json!("x")), true);
        check(Side::Prose, Some(json!("")), false);
        check(Side::List, Some(json!([])), true);
        check(Side::List, Some(json!({})), false);
        check(Side::Object, Some(json!({})), true);
        check(Side::Object, None, false);
    }

    const PAGE: &str = include_str!("../../../docs/COMPATIBILITY.md");
    /// Where the page's section on drydock begins.
    const SECTION: &str = "## Differences of drydock";

    /// The entries of a part of the page, each with its text.
    fn entries_of(part: &'static str) -> Vec<(&'static str, &'static str)> {
        part.split("\n### ").skip(1).map(|entry| entry.split_once('\n').unwrap()).collect()
    }

    /// The entries of the page's section on drydock.
    fn entries() -> Vec<(&'static str, &'static str)> {
        entries_of(PAGE.split_once(SECTION).unwrap().1)
    }

    /// Whether one of these sources has a test of this name.
    fn is_test(name: &str, sources: &[&str]) -> bool {
        sources.iter().any(|source| source.contains(&format!("fn {name}(")))
    }

    #[test]
    fn the_compatibility_page_and_the_list_have_the_same_entries() {
        let explained: BTreeSet<&str> = entries().into_iter().map(|(id, _)| id).collect();
        let apart = TESTED_APART.iter().map(|(id, _)| *id);
        let listed: BTreeSet<&str> =
            DIFFERENCES.iter().map(|difference| difference.id).chain(apart).collect();
        assert_eq!(explained, listed, "left: docs/COMPATIBILITY.md, right: differences.rs");
        for difference in DIFFERENCES {
            assert!(!difference.reason.is_empty(), "{} says no reason", difference.id);
        }
    }

    #[test]
    fn an_entry_that_is_tested_apart_names_its_tests() {
        let sources = [
            include_str!("../tests/server/apart.rs"),
            include_str!("../tests/server/bad_input.rs"),
            include_str!("../tests/server/definitions.rs"),
            include_str!("../tests/server/discovery.rs"),
            include_str!("../tests/server/verbs.rs"),
            include_str!("../../../crates/drydock/src/inflight.rs"),
            include_str!("../../../crates/drydock/src/write/expiry.rs"),
            include_str!("../../../crates/object/src/schema/tests/limits.rs"),
            include_str!("../../../crates/object/src/schema/tests/rules.rs"),
        ];
        for (id, tests) in TESTED_APART {
            let entry = entries().into_iter().find(|(known, _)| known == id);
            let (_, text) = entry.unwrap_or_else(|| panic!("there is no entry {id}"));
            for test in *tests {
                assert!(text.contains(&format!("`{test}`")), "{id} does not name {test}");
                assert!(is_test(test, &sources), "there is no test {test}");
            }
        }
    }

    #[test]
    fn one_release_of_kubernetes_is_meant_everywhere() {
        let module = include_str!("../../kubernetes/go.mod");
        let release = object::KUBERNETES_VERSION;
        assert!(module.contains(&format!("k8s.io/kubernetes {release}\n")), "{module}");
        assert_eq!(truth::KUBERNETES_VERSION, release);
        assert_eq!(hollow::KUBELET_VERSION, release);
    }

    #[test]
    fn every_kind_that_is_not_obeyed_names_a_test_of_its_own() {
        let (_, text) = entries().into_iter().find(|(id, _)| *id == "stored-not-obeyed").unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
        let (_, tests) = TESTED_APART.iter().find(|(id, _)| *id == "stored-not-obeyed").unwrap();
        let named = |row: &&str| tests.iter().any(|test| row.ends_with(&format!("| `{test}` |")));
        assert_eq!(rows.len(), tests.len(), "{rows:?}");
        assert!(rows.iter().all(named), "{rows:?}");
    }

    #[test]
    fn a_difference_of_controllers_names_its_tests_or_says_that_there_is_none() {
        let sources = [
            include_str!("../tests/system/budgets.rs"),
            include_str!("../../../crates/workloads/src/facts/template.rs"),
            include_str!("../../../crates/workloads/src/job/tests.rs"),
            include_str!("../../../crates/workloads/src/job/tests/policies.rs"),
            include_str!("../../../crates/workloads/src/node_lifecycle/eviction.rs"),
            include_str!("../../../crates/workloads/src/node_lifecycle/health.rs"),
            include_str!("../../../crates/workloads/src/node_lifecycle/zones.rs"),
            include_str!("../../../crates/workloads/src/root_ca.rs"),
        ];
        let (kept, _) = PAGE.split_once(SECTION).unwrap();
        let controllers =
            entries_of(kept).into_iter().filter(|(id, _)| id.starts_with("controllers-"));
        for (id, text) in controllers {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let Some((_, named)) = text.split_once("Test: ") else {
                assert!(text.contains("No test watches over this."), "{id} names no test");
                continue;
            };
            let mut tests = named.split('`').skip(1).step_by(2).peekable();
            assert!(tests.peek().is_some(), "{id} names no test");
            for test in tests {
                assert!(is_test(test, &sources), "{id}: there is no test {test}");
            }
        }
    }
}
