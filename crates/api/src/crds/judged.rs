//! The samples, judged by our own reading of the CRDs. The same files are played
//! against both servers elsewhere; here a mistake shows without either.

use std::collections::BTreeMap;

use object::field::{Errors, Path};
use object::schema::{self, Schema};
use serde_json::Value;

use super::CRDS;
use super::facts::{of_crd, parse, samples};

/// The schema of one version of a CRD.
pub(crate) fn schema_of(crd: &Value, version: &str) -> Schema {
    let versions = crd["spec"]["versions"].as_array().expect("versions");
    let found = versions.iter().find(|candidate| candidate["name"] == version);
    let schema = &found.expect("a version of the CRD")["schema"]["openAPIV3Schema"];
    Schema::from_crd(schema, &Path::new("schema")).expect("a structural schema")
}

/// Defaults and validates `object` as a server does; says which fields it would drop.
pub(crate) fn judge(schema: &Schema, object: &Value, old: Option<&Value>) -> (Vec<String>, Errors) {
    let mut object = object.clone();
    let dropped = schema::prune(schema, &mut object);
    schema::default(schema, &mut object).expect("defaults of a bounded size");
    let old = old.map(|old| {
        let mut old = old.clone();
        schema::default(schema, &mut old).expect("defaults of a bounded size");
        old
    });
    let errors = schema::validate(schema, &object, old.as_ref());
    (dropped, errors)
}

#[test]
fn good_samples_pass_and_wrong_ones_are_refused() {
    for crd in CRDS {
        let crd = parse(crd);
        let facts = of_crd(&crd);
        let schemas: BTreeMap<String, Schema> = facts
            .versions
            .iter()
            .map(|v| (format!("{}/{}", facts.group, v.name), schema_of(&crd, &v.name)))
            .collect();
        let samples = samples(&facts.plural);
        let minimal = samples.iter().find(|(name, ..)| name == "minimal.yaml");
        let (_, _, minimal) = minimal.expect("a minimal sample");
        for (name, _, sample) in &samples {
            let version = sample["apiVersion"].as_str().expect("a version");
            let label = format!("{} {name}", facts.plural);
            let old = name.starts_with("wrong-update-").then_some(minimal);
            let (dropped, errors) = judge(&schemas[version], sample, old);
            assert_eq!(dropped, Vec::<String>::new(), "{label}");
            assert_eq!(errors.is_empty(), !name.starts_with("wrong-"), "{label}: {errors:?}");
            let has_status = facts.versions.iter().any(|v| v.subresources.contains_key("status"));
            assert!(has_status || !name.starts_with("wrong-status-"), "{label}");
            // On creation the status of such a kind is dropped before anybody looks at it.
            if has_status && name.starts_with("wrong-") && !name.starts_with("wrong-status-") {
                assert!(sample["status"].is_null(), "{label}");
            }
        }
    }
}
