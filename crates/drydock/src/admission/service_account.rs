//! A pod runs as a service account and gets the token to use it.

use serde_json::{Value, json};

use super::{Attributes, Operation};
use crate::answer::Failure;
use crate::kinds::pod::MIRROR;
use crate::write::Part;

const DEFAULT: &str = "default";
const TOKEN_VOLUME: &str = "kube-api-access-";
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_SECONDS: u32 = 3607;

/// Names the service account, and mounts its token and pull secrets.
pub(super) fn mutate(attributes: &Attributes<'_>, pod: &mut Value) -> Result<(), Failure> {
    if attributes.part != Part::Object || attributes.operation != Operation::Create {
        return Ok(());
    }
    if !pod["metadata"]["annotations"][MIRROR].is_null() {
        return check_mirror(attributes, pod);
    }
    let given = pod["spec"]["serviceAccountName"].as_str().filter(|name| !name.is_empty());
    let name = given.unwrap_or(DEFAULT).to_owned();
    pod["spec"]["serviceAccountName"] = name.clone().into();
    pod["spec"]["serviceAccount"] = name.clone().into();
    let namespace = attributes.namespace.unwrap_or_default();
    let account = attributes.lookup("", "serviceaccounts", &format!("{namespace}/{name}"));
    let account = account.ok_or_else(|| {
        let failure = attributes.forbid(format!(
            "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
        ));
        if name == DEFAULT { failure.awaiting("serviceaccounts") } else { failure }
    })?;
    let automount = [&pod["spec"], &account]
        .into_iter()
        .find_map(|place| place["automountServiceAccountToken"].as_bool());
    if automount.unwrap_or(true) {
        mount_token(attributes, pod);
    }
    let given = pod["spec"]["imagePullSecrets"].as_array().is_some_and(|list| !list.is_empty());
    if !given && let Some(secrets) = account["imagePullSecrets"].as_array() {
        pod["spec"]["imagePullSecrets"] = secrets.clone().into();
    }
    Ok(())
}

fn check_mirror(attributes: &Attributes<'_>, pod: &Value) -> Result<(), Failure> {
    match pod["spec"]["serviceAccountName"].as_str() {
        None | Some("") => Ok(()),
        Some(_) => Err(attributes.forbid("a mirror pod may not reference service accounts")),
    }
}

fn mount_token(attributes: &Attributes<'_>, pod: &mut Value) {
    let mut volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let given = volumes
        .iter()
        .filter_map(|volume| volume["name"].as_str())
        .find(|name| name.starts_with(TOKEN_VOLUME))
        .map(str::to_owned);
    let has_volume = given.is_some();
    let name =
        given.unwrap_or_else(|| format!("{TOKEN_VOLUME}{}", attributes.server.env().suffix()));
    let mut needed = false;
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let mut mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
            if mounts.iter().any(|mount| mount["mountPath"] == TOKEN_PATH) {
                continue;
            }
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}));
            container["volumeMounts"] = mounts.into();
            needed = true;
        }
    }
    if needed && !has_volume {
        volumes.push(json!({"name": name, "projected": token_source()}));
        pod["spec"]["volumes"] = volumes.into();
    }
}

fn token_source() -> Value {
    json!({
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {
                "name": "kube-root-ca.crt",
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }},
            {"downwardAPI": {"items": [{
                "path": "namespace",
                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
            }]}},
        ],
    })
}
