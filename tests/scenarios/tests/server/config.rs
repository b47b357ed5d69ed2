//! Config maps, secrets and service accounts.

use serde_json::json;

use crate::trials::{changes, creations};

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";
const SECRETS: &str = "/api/v1/namespaces/{ns}/secrets";

#[tokio::test]
async fn a_config_map_is_checked() {
    let bodies = vec![
        json!({}),
        json!({"data": {"a": "b"}, "binaryData": {"c": "AAEC"}, "immutable": true}),
        // One fault each: the real server tells several of a map in no order.
        json!({"data": {"a/b": "c"}}),
        json!({"data": {"..": "d"}}),
        json!({"data": {"a": "b"}, "binaryData": {"a": "AAEC"}}),
        json!({"data": {"a": "x".repeat(1024 * 1024 + 1)}}),
        json!({"data": {"a": 1}}),
    ];
    creations("a_config_map_is_checked", MAPS, bodies).await;
}

#[tokio::test]
async fn a_frozen_config_map_stays() {
    let patches = vec![
        json!({"data": {"a": "c"}}),
        json!({"immutable": true}),
        json!({"data": {"a": "d"}}),
        json!({"immutable": null}),
        json!({"binaryData": {"z": "AAEC"}, "immutable": false}),
        json!({"metadata": {"labels": {"x": "y"}}}),
    ];
    changes("a_frozen_config_map_stays", MAPS, json!({"data": {"a": "b"}}), patches).await;
}

#[tokio::test]
async fn a_secret_is_completed_and_checked() {
    let bodies = vec![
        json!({}),
        json!({"stringData": {"a": "b"}, "data": {"a": "eA==", "c": "eQ=="}}),
        json!({"type": "my/own"}),
        json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "eA=="}}),
        json!({"type": "kubernetes.io/tls"}),
        json!({"type": "kubernetes.io/basic-auth"}),
        json!({"type": "kubernetes.io/basic-auth", "stringData": {"username": "u"}}),
        json!({"type": "kubernetes.io/ssh-auth"}),
        json!({"type": "kubernetes.io/service-account-token"}),
        json!({"type": "kubernetes.io/dockerconfigjson"}),
        json!({"type": "kubernetes.io/dockerconfigjson",
            "stringData": {".dockerconfigjson": "{}"}}),
        json!({"type": "kubernetes.io/dockerconfigjson",
            "stringData": {".dockerconfigjson": "[]"}}),
        json!({"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "x"}}),
        json!({"data": {"a b": "eA=="}}),
        json!({"data": {"a": "!"}}),
    ];
    creations("a_secret_is_completed_and_checked", SECRETS, bodies).await;
}

#[tokio::test]
async fn a_secret_keeps_its_type() {
    let patches = vec![
        json!({"stringData": {"b": "c"}}),
        json!({"type": "other"}),
        json!({"immutable": true}),
        json!({"stringData": {"b": "d"}}),
    ];
    changes("a_secret_keeps_its_type", SECRETS, json!({"data": {"a": "eA=="}}), patches).await;
}

#[tokio::test]
async fn a_service_account_is_plain() {
    let path = "/api/v1/namespaces/{ns}/serviceaccounts";
    let bodies = vec![
        json!({}),
        json!({"automountServiceAccountToken": false, "secrets": [{"name": "s"}],
            "imagePullSecrets": [{"name": "p"}]}),
    ];
    creations("a_service_account_is_plain", path, bodies).await;
}
