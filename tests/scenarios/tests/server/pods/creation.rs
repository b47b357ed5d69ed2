//! What the server completes in a new pod.

use scenarios::Scenario;
use scenarios::request::{get, post};
use serde_json::{Value, json};

use super::{PODS, merge, pod, pod_of};

fn created(name: &str, pods: impl IntoIterator<Item = Value>) -> Scenario {
    let mut scenario = Scenario::new(name);
    for (index, mut pod) in pods.into_iter().enumerate() {
        pod["metadata"]["name"] = format!("p{index}").into();
        scenario = scenario.step(post(PODS, pod).expect(201));
    }
    scenario
}

#[tokio::test]
async fn a_minimal_pod_is_completed() {
    Scenario::new("a_minimal_pod_is_completed")
        .step(post(PODS, pod("a", json!({}))).expect(201))
        .step(get(&format!("{PODS}/a")).expect(200))
        .step(post(PODS, pod("b", json!({}))).query("dryRun", "All").expect(201))
        .step(get(&format!("{PODS}/b")).refused(404, "NotFound"))
        .step(post(PODS, pod("a", json!({}))).refused(409, "AlreadyExists"))
        .run()
        .await;
}

#[tokio::test]
async fn the_pull_policy_follows_from_the_tag() {
    let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let images = [
        "nginx".to_owned(),
        "nginx:latest".to_owned(),
        "nginx:1".to_owned(),
        "localhost:5000/nginx".to_owned(),
        format!("nginx@{digest}"),
        format!("nginx:latest@{digest}"),
        "Nginx".to_owned(),
        "a//b".to_owned(),
        "registry.example/A".to_owned(),
        "REGISTRY.example/a".to_owned(),
        "a".repeat(64),
    ];
    let pods = images.map(|image| pod_of(json!({"image": image})));
    created("the_pull_policy_follows_from_the_tag", pods).run().await;
}

#[tokio::test]
async fn containers_are_completed() {
    let probe = |action: Value| {
        let mut probe = json!({"initialDelaySeconds": 1});
        merge(&mut probe, action);
        probe
    };
    let containers = [
        json!({"ports": [{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP", "name": "x"}]}),
        json!({"env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}),
        json!({"resources": {"limits": {"cpu": "1.5", "memory": "1024Mi"}, "requests": {"cpu": "0.5"}}}),
        json!({"resources": {"limits": {"example.com/gpu": 2, "cpu": "0.0001"}}}),
        json!({"livenessProbe": probe(json!({"httpGet": {"port": 80}})),
            "readinessProbe": probe(json!({"tcpSocket": {"port": "x"}})),
            "startupProbe": probe(json!({"grpc": {"port": 80}}))}),
        json!({"livenessProbe": {"exec": {"command": ["a"]}, "timeoutSeconds": 3, "periodSeconds": 7, "failureThreshold": 9}}),
        json!({"lifecycle": {"preStop": {"httpGet": {"port": 80}}, "postStart": {"sleep": {"seconds": 1}}}}),
        json!({"lifecycle": {"stopSignal": "SIGTERM"}}),
        json!({"securityContext": {}, "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}),
        json!({"imagePullPolicy": "Never", "terminationMessagePath": "/x", "terminationMessagePolicy": "FallbackToLogsOnError"}),
    ];
    created("containers_are_completed", containers.map(pod_of)).run().await;
}

#[tokio::test]
async fn volumes_are_completed() {
    let sources = [
        json!({}),
        json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1024Mi"}}),
        json!({"configMap": {"name": "a", "items": [{"key": "k", "path": "p"}]}}),
        json!({"secret": {"secretName": "a"}}),
        json!({"hostPath": {"path": "/a"}}),
        json!({"hostPath": {"path": "/a", "type": "Directory"}}),
        json!({"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.labels"}}]}}),
        json!({"projected": {"sources": [
            {"serviceAccountToken": {"path": "token"}},
            {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"configMap": {"name": "a"}}]}}),
        json!({"persistentVolumeClaim": {"claimName": "a"}}),
        json!({"iscsi": {"targetPortal": "a", "iqn": "iqn.2001-04.com.example:a", "lun": 0}}),
        json!({"rbd": {"monitors": ["a"], "image": "a"}}),
        json!({"azureDisk": {"diskName": "a", "diskURI": "https://a.blob.core.windows.net/a"}}),
        json!({"nfs": {"server": "a", "path": "/"}}),
        json!({"csi": {"driver": "a.example"}}),
        json!({"image": {"reference": "a"}}),
        json!({"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}}}),
    ];
    let pods = sources.map(|source| {
        let mut volume = json!({"name": "v"});
        merge(&mut volume, source);
        pod("a", json!({"volumes": [volume]}))
    });
    created("volumes_are_completed", pods).run().await;
}

#[tokio::test]
async fn the_rest_of_a_spec_is_completed() {
    let selector = json!({"matchLabels": {"a": "b"}});
    let specs = [
        json!({"hostNetwork": true, "containers": [{"name": "a", "image": "a", "ports": [{"containerPort": 80}]}]}),
        json!({"serviceAccount": "default"}),
        json!({"tolerations": [{"operator": "Exists"}]}),
        json!({"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]}),
        json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector, "matchLabelKeys": ["app"]}]}),
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": selector, "matchLabelKeys": ["app"], "mismatchLabelKeys": ["x"]}]}}}),
        json!({"initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always",
            "resources": {"limits": {"cpu": 1}}}]}),
        json!({"schedulingGates": [{"name": "example.com/gate"}]}),
        json!({"resources": {"limits": {"cpu": 2, "memory": "1Gi"}},
            "containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "500m"}}}]}),
        json!({"resources": {"limits": {"cpu": 2, "memory": "1Gi"}}}),
        json!({"enableServiceLinks": false, "shareProcessNamespace": true, "hostUsers": false, "os": {"name": "linux"},
            "hostname": "a", "subdomain": "b", "setHostnameAsFQDN": true, "nodeName": "n", "priority": 0,
            "activeDeadlineSeconds": 5, "terminationGracePeriodSeconds": 0, "dnsPolicy": "Default",
            "restartPolicy": "Never", "schedulerName": "x", "readinessGates": [{"conditionType": "a"}],
            "nodeSelector": {"a": "b"}, "imagePullSecrets": [{"name": "a"}],
            "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a"]}],
            "dnsConfig": {"nameservers": ["1.2.3.4"], "searches": ["a_b."], "options": [{"name": "a"}]},
            "securityContext": {"runAsUser": 1, "fsGroup": 2, "sysctls": [{"name": "kernel.x", "value": "1"}]}}),
    ];
    let pods = specs.map(|spec| {
        let mut pod = pod("a", spec);
        pod["metadata"]["labels"] = json!({"app": "web", "x": "y"});
        pod
    });
    created("the_rest_of_a_spec_is_completed", pods).run().await;
}

#[tokio::test]
async fn the_quality_of_service_follows_from_the_resources() {
    let both = json!({"cpu": "1", "memory": "1Gi"});
    let pods = [
        json!({}),
        json!({"resources": {"limits": both}}),
        json!({"resources": {"limits": both, "requests": {"cpu": "500m"}}}),
        json!({"resources": {"requests": {"cpu": "0"}}}),
        json!({"resources": {"limits": {"cpu": 1}}}),
    ];
    created("the_quality_of_service_follows_from_the_resources", pods.map(pod_of)).run().await;
}

#[tokio::test]
async fn odd_pods_are_created_with_warnings() {
    let specs = [
        json!({"containers": [{"name": "a", "image": "a", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}]}),
        json!({"containers": [{"name": "a", "image": "a", "ports": [{"containerPort": 80}, {"containerPort": 80}]}]}),
        json!({"containers": [{"name": "a", "image": "a", "ports": [{"containerPort": 80, "name": "x"}]},
            {"name": "b", "image": "b", "ports": [{"containerPort": 81, "name": "x"}]}]}),
        json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}),
        json!({"containers": [{"name": "a", "image": "a", "resources": {"limits": {"memory": "1500m"}}}]}),
        json!({"terminationGracePeriodSeconds": -1}),
        json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}),
        json!({"imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}]}),
    ];
    let pods = specs.map(|spec| pod("a", spec));
    created("odd_pods_are_created_with_warnings", pods)
        .step(post(PODS, pod("a.b", json!({}))).expect(201))
        .run()
        .await;
}
