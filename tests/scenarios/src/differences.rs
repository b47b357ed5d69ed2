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
    /// Something is there that varies from scenario to scenario.
    Something,
}

impl Side {
    fn admits(self, value: Option<&Value>) -> bool {
        match (self, value) {
            (Self::Nothing, None) | (Self::Something, Some(_)) => true,
            (Self::Json(text), Some(value)) => {
                serde_json::from_str::<Value>(text).is_ok_and(|expected| expected == *value)
            }
            _ => false,
        }
    }
}

/// A difference that is meant.
#[derive(Debug, Clone, Copy)]
pub struct Difference {
    /// Its name in `docs/COMPATIBILITY.md`.
    pub id: &'static str,
    /// In which scenarios.
    pub scope: Where,
    /// The place in the answers: step, then `code`, `headers` or `body`. `*` stands for any one
    /// part, a leading `**` for any number of parts.
    pub pointer: &'static str,
    /// What we answer.
    pub ours: Side,
    /// What kube-apiserver answers.
    pub truth: Side,
    /// Why.
    pub reason: &'static str,
}

/// All differences that are meant.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        id: "managed-fields",
        scope: Where::Anywhere { witness: "create_as_partial_metadata_namespaced" },
        pointer: "/**/metadata/managedFields",
        ours: Side::Nothing,
        truth: Side::Something,
        reason: "field ownership is recorded once server-side apply is served",
    },
    Difference {
        id: "column-descriptions",
        scope: Where::Anywhere { witness: "create_as_a_table_custom" },
        pointer: "/**/columnDefinitions/*/description",
        ours: Side::Something,
        truth: Side::Something,
        reason: "upstream's prose is not copied, and no client shows it",
    },
    Difference {
        id: "repeated-causes",
        scope: Where::In("some_fields_of_a_pod_may_change"),
        pointer: "/*/body/details/causes/*",
        ours: Side::Nothing,
        truth: Side::Something,
        reason: "upstream checks the metadata of an update several times over",
    },
    Difference {
        id: "pod-diff",
        scope: Where::In("the_rest_of_a_pod_may_not_change"),
        pointer: "/*/body/message",
        ours: Side::Something,
        truth: Side::Something,
        reason: "upstream shows a diff of Go structs",
    },
    Difference {
        id: "pod-diff",
        scope: Where::In("the_rest_of_a_pod_may_not_change"),
        pointer: "/*/body/details/causes/0/message",
        ours: Side::Something,
        truth: Side::Something,
        reason: "upstream shows a diff of Go structs",
    },
    Difference {
        id: "templates-in-errors",
        scope: Where::In("life_batch_v1_namespaces_jobs"),
        pointer: "/*/body/message",
        ours: Side::Something,
        truth: Side::Something,
        reason: "a whole template is shown as the API has it, not as kube-apiserver's structs have it",
    },
    Difference {
        id: "templates-in-errors",
        scope: Where::In("life_batch_v1_namespaces_jobs"),
        pointer: "/*/body/details/causes/5/message",
        ours: Side::Something,
        truth: Side::Something,
        reason: "a whole template is shown as the API has it, not as kube-apiserver's structs have it",
    },
    Difference {
        id: "template-generation-in-tables",
        scope: Where::In("table_apps_v1_namespaces_daemonsets"),
        pointer: "/*/body/rows/0/object/metadata/annotations",
        ours: Side::Something,
        truth: Side::Nothing,
        reason: "the annotation is part of the object, however it is shown",
    },
];

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
    wanted.len() == rest.len() && wanted.iter().zip(rest).all(|(a, b)| *a == "*" || a == b)
}

#[cfg(test)]
mod tests {
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
                truth: Side::Something,
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
    fn each_difference_is_explained_in_the_compatibility_page() {
        let page = include_str!("../../../docs/COMPATIBILITY.md");
        for difference in DIFFERENCES {
            let entry = format!("### {}\n", difference.id);
            assert!(page.contains(&entry), "docs/COMPATIBILITY.md has no entry {entry:?}");
            assert!(!difference.reason.is_empty(), "{} says no reason", difference.id);
        }
    }
}
