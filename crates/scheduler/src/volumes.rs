//! What is written to volumes and claims before a pod is bound, as merge patches.
//!
//! Each builds upon the object as it was read and names its version, so that of two who want the
//! same volume one is refused.

use api::{PersistentVolume, PersistentVolumeClaim};
use engine::fact::ClaimReference;
use serde_json::{Value, json};

const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// What is to be done about a volume or a claim.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// It is as it should be.
    Nothing,
    /// It is to be patched like this.
    Patch(Value),
    /// It cannot be as it should, for this reason.
    Never(String),
}

/// Whether a claim is there for which a volume is to be kept.
///
/// # Errors
/// In words, where it is gone, goes, or is another one of the same name.
pub(crate) fn is_wanted(
    own: Option<&PersistentVolumeClaim>,
    claim: &ClaimReference,
) -> Result<(), String> {
    let is_it = |own: &PersistentVolumeClaim| {
        own.metadata.uid == *claim.uid && own.metadata.deletion_timestamp.is_none()
    };
    if own.is_some_and(is_it) {
        return Ok(());
    }
    let ClaimReference { namespace, name, .. } = claim;
    Err(format!("binding volumes: claim {:?} is gone", format!("{namespace}/{name}")))
}

/// Keeps a volume for a claim.
pub(crate) fn keep(volume: &PersistentVolume, claim: &ClaimReference) -> Step {
    let ClaimReference { namespace, name, uid } = claim;
    let own = volume.spec.claim_ref.as_ref();
    let is_meant = |own: &api::ObjectReference| {
        *own.namespace == **namespace
            && *own.name == **name
            && (own.uid.is_empty() || *own.uid == **uid)
    };
    let is_kept = own.is_some_and(is_meant);
    if let Some(own) = own.filter(|_| !is_kept) {
        let holder = format!("{}/{}", own.namespace, own.name);
        return Step::Never(format!(
            "binding volumes: volume {:?} is kept for claim {holder:?}",
            volume.metadata.name
        ));
    }
    if own.is_some_and(|own| *own.uid == **uid) {
        return Step::Nothing;
    }
    let mut metadata = json!({ "resourceVersion": volume.metadata.resource_version });
    if !is_kept {
        metadata["annotations"] = json!({ BOUND_BY_CONTROLLER: "yes" });
    }
    let reference = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": namespace, "name": name, "uid": uid });
    Step::Patch(json!({ "metadata": metadata, "spec": { "claimRef": reference } }))
}

/// Has a volume made for a claim where a node reaches it.
pub(crate) fn select(claim: &PersistentVolumeClaim, node: &str) -> Step {
    let metadata = &claim.metadata;
    match metadata.annotations.get(SELECTED_NODE) {
        _ if !claim.spec.volume_name.is_empty() => Step::Nothing,
        Some(own) if own == node => Step::Nothing,
        Some(own) if !own.is_empty() => Step::Never(format!(
            "binding volumes: a volume for claim {:?} is being made for node {own:?}",
            metadata.name
        )),
        _ => Step::Patch(json!({ "metadata": {
            "resourceVersion": metadata.resource_version,
            "annotations": { SELECTED_NODE: node },
        } })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never(text: &str) -> Step {
        Step::Never(format!("binding volumes: {text}"))
    }

    #[test]
    fn a_volume_is_kept_for_one_claim() {
        let check = |spec: Value, expected: Step| {
            let metadata = json!({ "name": "v", "resourceVersion": "7" });
            let volume = json!({ "metadata": metadata, "spec": spec });
            let volume = serde_json::from_value(volume).unwrap();
            let claim =
                ClaimReference { namespace: "ns".into(), name: "c".into(), uid: "u".into() };
            assert_eq!(keep(&volume, &claim), expected, "{spec}");
        };
        let reference = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": "ns", "name": "c", "uid": "u" });
        let patched = |metadata: Value| {
            Step::Patch(json!({ "metadata": metadata, "spec": { "claimRef": reference } }))
        };
        let bound = json!({ BOUND_BY_CONTROLLER: "yes" });
        check(json!({}), patched(json!({ "resourceVersion": "7", "annotations": bound })));
        let meant = json!({ "claimRef": { "namespace": "ns", "name": "c" } });
        check(meant, patched(json!({ "resourceVersion": "7" })));
        let kept = json!({ "claimRef": { "namespace": "ns", "name": "c", "uid": "u" } });
        check(kept, Step::Nothing);
        let former = json!({ "claimRef": { "namespace": "ns", "name": "c", "uid": "x" } });
        check(former, never("volume \"v\" is kept for claim \"ns/c\""));
        let other = json!({ "claimRef": { "namespace": "ns", "name": "d" } });
        check(other, never("volume \"v\" is kept for claim \"ns/d\""));
    }

    #[test]
    fn a_volume_is_kept_for_no_claim_that_is_gone() {
        let check = |metadata: Option<Value>, is_there: bool| {
            let own = metadata.map(|metadata| json!({ "metadata": metadata }));
            let own = own.map(|own| serde_json::from_value(own).unwrap());
            let claim =
                ClaimReference { namespace: "ns".into(), name: "c".into(), uid: "u".into() };
            let gone = "binding volumes: claim \"ns/c\" is gone".to_owned();
            let expected = if is_there { Ok(()) } else { Err(gone) };
            assert_eq!(is_wanted(own.as_ref(), &claim), expected);
        };
        check(None, false);
        check(Some(json!({ "uid": "u" })), true);
        check(Some(json!({ "uid": "x" })), false);
        let going = json!({ "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z" });
        check(Some(going), false);
    }

    #[test]
    fn a_volume_is_made_for_one_node() {
        let check = |annotations: Value, volume: &str, expected: Step| {
            let metadata =
                json!({ "name": "c", "resourceVersion": "7", "annotations": annotations });
            let claim = json!({ "metadata": metadata, "spec": { "volumeName": volume } });
            let claim = serde_json::from_value(claim).unwrap();
            assert_eq!(select(&claim, "n1"), expected);
        };
        let patch = json!({ "metadata": { "resourceVersion": "7",
            "annotations": { SELECTED_NODE: "n1" } } });
        check(json!({}), "", Step::Patch(patch.clone()));
        check(json!({ SELECTED_NODE: "" }), "", Step::Patch(patch));
        check(json!({ SELECTED_NODE: "n1" }), "", Step::Nothing);
        let taken = never("a volume for claim \"c\" is being made for node \"n2\"");
        check(json!({ SELECTED_NODE: "n2" }), "", taken);
        check(json!({ SELECTED_NODE: "n2" }), "v", Step::Nothing);
    }
}
