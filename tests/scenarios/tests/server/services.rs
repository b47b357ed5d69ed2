//! Services: what they are given, and what they may ask for.

use scenarios::Scenario;
use scenarios::request::{PatchType, delete, get, patch, post, put};
use serde_json::json;

use crate::trials::{changes, creations};

const PATH: &str = "/api/v1/namespaces/{ns}/services";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

#[tokio::test]
async fn a_service_is_completed() {
    let bodies = vec![
        json!({"spec": {"ports": [{"port": 80}]}}),
        json!({"spec": {"selector": {"a": "b"}, "ports": [
            {"name": "web", "port": 80, "targetPort": "http"},
            {"name": "dns", "port": 53, "protocol": "UDP", "appProtocol": "a.b/c"}]}}),
        json!({"spec": {"clusterIP": "None"}}),
        json!({"spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]}}),
        json!({"spec": {"clusterIPs": ["None"], "clusterIP": "None", "selector": {"a": "b"}}}),
        json!({"spec": {"type": "NodePort", "ports": [{"port": 80}]}}),
        json!({"spec": {"type": "NodePort", "ports": [
            {"name": "a", "port": 80, "protocol": "TCP"},
            {"name": "b", "port": 80, "protocol": "UDP"}]}}),
        json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}),
        json!({"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local",
            "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}]}}),
        json!({"spec": {"type": "ExternalName", "externalName": "a.example."}}),
        json!({"spec": {"sessionAffinity": "ClientIP", "ports": [{"port": 80}]}}),
        json!({"spec": {"externalIPs": ["192.0.2.1"], "ports": [{"port": 80}]}}),
        json!({"spec": {"ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 80}]}}),
    ];
    creations("a_service_is_completed", PATH, bodies).await;
}

#[tokio::test]
async fn a_service_is_checked() {
    let ports = json!([{"port": 80}]);
    let bodies = vec![
        json!({"spec": {}}),
        json!({}),
        json!({"spec": {"ports": [{"port": 0}, {"name": "A", "port": 70000}]}}),
        json!({"spec": {"ports": [{"name": "a", "port": 80}, {"name": "a", "port": 80}]}}),
        json!({"spec": {"ports": [{"port": 80, "protocol": "ICMP", "targetPort": "too_long_name_"}]}}),
        json!({"spec": {"ports": [{"port": 80, "nodePort": 30000}]}}),
        json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}}),
        json!({"spec": {"type": "NodePort", "clusterIP": "None", "ports": ports}}),
        json!({"spec": {"type": "Odd", "ports": ports}}),
        json!({"spec": {"type": "ExternalName"}}),
        json!({"spec": {"type": "ExternalName", "externalName": "A_b", "clusterIP": "10.96.0.9"}}),
        json!({"spec": {"clusterIP": "10.97.0.1", "ports": ports}}),
        json!({"spec": {"clusterIP": "10.96.0.1", "ports": ports}}),
        json!({"spec": {"clusterIP": "abc", "ports": ports}}),
        json!({"spec": {"clusterIP": "fd00::1", "ports": ports}}),
        json!({"spec": {"clusterIPs": ["10.96.0.9"], "ports": ports}}),
        json!({"spec": {"ipFamilies": ["IPv6"], "ports": ports}}),
        json!({"spec": {"ipFamilyPolicy": "RequireDualStack", "ports": ports}}),
        json!({"spec": {"ipFamilyPolicy": "Odd", "ipFamilies": ["IPv5"], "ports": ports}}),
        json!({"spec": {"sessionAffinity": "Odd", "ports": ports}}),
        json!({"spec": {"sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}, "ports": ports}}),
        json!({"spec": {"externalIPs": ["127.0.0.1", "x"], "ports": ports}}),
        json!({"spec": {"externalTrafficPolicy": "Local", "ports": ports}}),
        json!({"spec": {"internalTrafficPolicy": "Odd", "ports": ports}}),
        json!({"spec": {"loadBalancerClass": "a.b/c", "ports": ports,
            "loadBalancerSourceRanges": ["10.0.0.0/8"], "allocateLoadBalancerNodePorts": true}}),
        json!({"spec": {"healthCheckNodePort": 31000, "ports": ports}}),
        json!({"spec": {"selector": {"a b": "c"}, "ports": ports}}),
        json!({"metadata": {"name": "1a"}, "spec": {"ports": ports}}),
    ];
    creations("a_service_is_checked", PATH, bodies).await;
}

#[tokio::test]
async fn a_service_keeps_what_it_was_given() {
    let patches = vec![
        json!({"spec": {"selector": {"x": "y"}}}),
        json!({"spec": {"clusterIP": "10.96.0.77"}}),
        json!({"spec": {"type": "NodePort"}}),
        json!({"spec": {"ports": [{"port": 81}]}}),
        json!({"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}}),
        json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}}),
        json!({"spec": {"type": "ClusterIP"}}),
        json!({"spec": {"type": "ExternalName", "externalName": "a.b"}}),
        json!({"spec": {"type": "ClusterIP", "externalName": null}}),
    ];
    changes(
        "a_service_keeps_what_it_was_given",
        PATH,
        json!({"spec": {"ports": [{"port": 80}]}}),
        patches,
    )
    .await;
}

#[tokio::test]
async fn a_service_is_replaced_listed_and_deleted() {
    let service = |port: u16| json!({"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": port}]}});
    Scenario::new("a_service_is_replaced_listed_and_deleted")
        .step(post(PATH, service(80)).expect(201))
        .step(put(&format!("{PATH}/a"), service(81)).expect(200))
        .step(patch(
            &format!("{PATH}/a"),
            PatchType::Strategic,
            json!({"spec": {"ports": [{"name": "b", "port": 90}]}}),
        ))
        .step(get(PATH).query("fieldSelector", "spec.type=NodePort").expect(200))
        .step(get(PATH).query("fieldSelector", "spec.clusterIP=None").expect(200))
        .step(get(PATH).query("fieldSelector", "spec.name=a"))
        .step(get(PATH).header("Accept", TABLE).expect(200))
        .step(delete(&format!("{PATH}/a")).expect(200))
        .run()
        .await;
}
