//! Pods that are refused, and what the client is told.

use scenarios::Scenario;
use scenarios::request::post;
use serde_json::{Value, json};

use super::{PODS, merge, pod, pod_of};

async fn refused(name: &str, pods: impl IntoIterator<Item = Value>) {
    let mut scenario = Scenario::new(name);
    for pod in pods {
        scenario = scenario.step(post(PODS, pod).refused(422, "Invalid"));
    }
    scenario.run().await;
}

fn spec(spec: Value) -> Value {
    pod("a", spec)
}

#[tokio::test]
async fn wrong_containers_are_refused() {
    let pods = [
        spec(json!({"containers": []})),
        spec(json!({"containers": null})),
        json!({"metadata": {"name": "a"}}),
        json!({"metadata": {"name": "A_"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}),
        json!({"metadata": {}, "spec": {"containers": [{"name": "a", "image": "a"}]}}),
        spec(json!({"containers": [{"name": "a", "image": "a"}, {"name": "a", "image": "b"}]})),
        spec(json!({"initContainers": [{"name": "main", "image": "a"}]})),
        spec(json!({"ephemeralContainers": [{"name": "e", "image": "a"}]})),
        pod_of(json!({"name": ""})),
        pod_of(json!({"name": "A"})),
        pod_of(json!({"image": ""})),
        pod_of(json!({"image": " a"})),
        pod_of(json!({"imagePullPolicy": "x"})),
        pod_of(json!({"terminationMessagePolicy": "x"})),
        pod_of(json!({"restartPolicy": "x"})),
        pod_of(
            json!({"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]}),
        ),
        pod_of(json!({"resizePolicy": [{"resourceName": "x", "restartPolicy": "y"}]})),
        spec(
            json!({"initContainers": [{"name": "i", "image": "i", "readinessProbe": {"exec": {"command": ["a"]}}}]}),
        ),
        spec(json!({"initContainers": [{"name": "i", "image": "i", "restartPolicy": "x"}]})),
    ];
    refused("wrong_containers_are_refused", pods).await;
}

#[tokio::test]
async fn wrong_ports_and_variables_are_refused() {
    let containers = [
        json!({"ports": [{"containerPort": 0}]}),
        json!({"ports": [{"containerPort": 65536, "hostPort": -1}]}),
        json!({"ports": [{"containerPort": 80, "protocol": "x"}]}),
        json!({"ports": [{"containerPort": 80, "name": "A-"}]}),
        json!({"ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]}),
        json!({"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]}),
        json!({"env": [{"name": ""}]}),
        json!({"env": [{"name": "a=b"}]}),
        json!({"env": [{"name": "A", "valueFrom": {}}]}),
        json!({"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
        json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]}),
        json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}]}),
        json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a b']"}}}]}),
        json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name['a']"}}}]}),
        json!({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "x"}}}]}),
        json!({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}}]}),
        json!({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "2"}}}]}),
        json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "", "key": ""}}}]}),
        json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "a b"}, "secretKeyRef": {"name": "a", "key": "b"}}}]}),
        json!({"envFrom": [{}]}),
        json!({"envFrom": [{"configMapRef": {"name": ""}, "secretRef": {"name": "A"}}]}),
    ];
    refused("wrong_ports_and_variables_are_refused", containers.map(pod_of)).await;
}

#[tokio::test]
async fn wrong_volumes_and_mounts_are_refused() {
    let volume = |source: Value| {
        let mut volume = json!({"name": "v"});
        merge(&mut volume, source);
        spec(json!({"volumes": [volume]}))
    };
    let mounted = |mount: Value| {
        let mut pod = pod_of(json!({"volumeMounts": [mount]}));
        pod["spec"]["volumes"] = json!([{"name": "v"}]);
        pod
    };
    let pods = [
        spec(json!({"volumes": [{"name": ""}]})),
        spec(json!({"volumes": [{"name": "A"}]})),
        spec(json!({"volumes": [{"name": "v"}, {"name": "v"}]})),
        volume(json!({"emptyDir": {}, "hostPath": {"path": "/a"}})),
        volume(json!({"emptyDir": {"sizeLimit": "-1"}})),
        volume(json!({"hostPath": {"path": ""}})),
        volume(json!({"hostPath": {"path": "/a/../b", "type": "x"}})),
        volume(json!({"configMap": {"name": "", "defaultMode": 1000}})),
        volume(
            json!({"secret": {"secretName": "a", "items": [{"key": "", "path": "/a"}, {"key": "a", "path": "..b", "mode": 999}]}}),
        ),
        volume(json!({"persistentVolumeClaim": {"claimName": ""}})),
        volume(json!({"nfs": {"server": "", "path": "a"}})),
        volume(json!({"downwardAPI": {"items": [{"path": "a"}]}})),
        volume(
            json!({"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "spec.nodeName"}}]}}),
        ),
        volume(
            json!({"downwardAPI": {"items": [{"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}}]}}),
        ),
        volume(
            json!({"projected": {"sources": [{"serviceAccountToken": {"path": "", "expirationSeconds": 1}}]}}),
        ),
        volume(
            json!({"projected": {"sources": [{"configMap": {"name": "a", "items": [{"key": "k", "path": "p"}]}},
            {"secret": {"name": "b", "items": [{"key": "k", "path": "p"}]}}]}}),
        ),
        volume(json!({"csi": {"driver": ""}})),
        volume(json!({"image": {"reference": ""}})),
        volume(json!({"ephemeral": {}})),
        pod_of(json!({"volumeMounts": [{"name": "x", "mountPath": "/a"}]})),
        mounted(json!({"name": "v", "mountPath": ""})),
        mounted(json!({"name": "v", "mountPath": "/a", "subPath": "../b"})),
        mounted(json!({"name": "v", "mountPath": "/a", "subPath": "b", "subPathExpr": "c"})),
        mounted(json!({"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"})),
        mounted(json!({"name": "v", "mountPath": "/a", "recursiveReadOnly": "Enabled"})),
        mounted(json!({"name": "v", "mountPath": "/a", "recursiveReadOnly": "x"})),
        spec(json!({"volumes": [{"name": "v"}], "containers": [{"name": "a", "image": "a",
            "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}],
            "volumeDevices": [{"name": "v", "devicePath": "/a"}]}]})),
    ];
    refused("wrong_volumes_and_mounts_are_refused", pods).await;
}

#[tokio::test]
async fn wrong_resources_are_refused() {
    let containers = [
        json!({"limits": {"cpu": "-1"}}),
        json!({"limits": {"x": "1"}}),
        json!({"limits": {"pods": "1"}}),
        json!({"limits": {"example.com/gpu": "1500m"}}),
        json!({"requests": {"example.com/gpu": "1"}}),
        json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "2"}}),
        json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        json!({"requests": {"requests.example.com/gpu": "2"}}),
        json!({"limits": {"hugepages-2Mi": "2Mi"}}),
        json!({"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}}),
        json!({"limits": {"a b": "1"}}),
        json!({"claims": [{"name": "x"}]}),
        json!({"limits": {"kubernetes.io/x": "1"}, "requests": {"kubernetes.io/x": "2"}}),
    ];
    let mut pods: Vec<Value> =
        containers.map(|resources| pod_of(json!({"resources": resources}))).into();
    pods.extend([
        spec(json!({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}})),
        spec(json!({"resources": {"limits": {"ephemeral-storage": "1"}}})),
        spec(json!({"resources": {"limits": {"cpu": "1"}}, "containers": [{"name": "a", "image": "a",
            "resources": {"limits": {"cpu": "2"}}}]})),
        spec(json!({"resourceClaims": [{"name": "a"}]})),
        spec(json!({"resourceClaims": [{"name": "a", "resourceClaimName": "b", "resourceClaimTemplateName": "c"}]})),
    ]);
    refused("wrong_resources_are_refused", pods).await;
}

#[tokio::test]
async fn wrong_probes_are_refused() {
    let mut pods: Vec<Value> = [
        json!({}),
        json!({"exec": {"command": []}}),
        json!({"httpGet": {"port": 0}}),
        json!({"httpGet": {"port": "Ä", "scheme": "x", "httpHeaders": [{"name": "a b", "value": ""}]}}),
        json!({"tcpSocket": {"port": 70000}, "exec": {"command": ["a"]}}),
        json!({"grpc": {"port": 0}}),
        json!({"exec": {"command": ["a"]}, "successThreshold": 2, "periodSeconds": -1, "terminationGracePeriodSeconds": 0}),
    ]
    .map(|probe| pod_of(json!({"livenessProbe": probe})))
    .into();
    pods.extend([
        pod_of(json!({"readinessProbe": {"exec": {"command": ["a"]}, "terminationGracePeriodSeconds": 5}})),
        pod_of(json!({"lifecycle": {"preStop": {}}})),
        pod_of(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}})),
    ]);
    refused("wrong_probes_are_refused", pods).await;
}

#[tokio::test]
async fn wrong_wishes_for_nodes_are_refused() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let nodes = |expression: Value| json!({"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}});
    let affinities = [
        json!({"nodeAffinity": {required: {"nodeSelectorTerms": []}}}),
        nodes(json!({"key": "a", "operator": "In"})),
        nodes(json!({"key": "a", "operator": "Exists", "values": ["b"]})),
        nodes(json!({"key": "a", "operator": "Gt", "values": ["1", "2"]})),
        nodes(json!({"key": "a b", "operator": "x"})),
        nodes(json!({"key": "a", "operator": "In", "values": ["a b"]})),
        json!({"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchFields": [{"key": "a", "operator": "Exists"}]}]}}}),
        json!({"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["A", "b"]}]}]}}}),
        json!({"nodeAffinity": {preferred: [{"weight": 0, "preference": {}}]}}),
        json!({"podAffinity": {required: [{"topologyKey": ""}]}}),
        json!({"podAffinity": {required: [{"topologyKey": "a", "namespaces": ["A"], "labelSelector": {"matchExpressions": [{"key": "a", "operator": "x"}]}}]}}),
        json!({"podAntiAffinity": {preferred: [{"weight": 101, "podAffinityTerm": {"topologyKey": "a b", "matchLabelKeys": ["a"]}}]}}),
        json!({"podAntiAffinity": {required: [{"topologyKey": "a", "labelSelector": {"matchLabels": {"app": "b"}}, "matchLabelKeys": ["app"], "mismatchLabelKeys": ["app"]}]}}),
    ];
    let mut pods: Vec<Value> = affinities
        .map(|affinity| {
            let mut pod = spec(json!({"affinity": affinity}));
            pod["metadata"]["labels"] = json!({"app": "web"});
            pod
        })
        .into();
    pods.extend([
        spec(json!({"nodeSelector": {"a b": "c d"}})),
        spec(json!({"tolerations": [{"key": "a", "operator": "x"}]})),
        spec(json!({"tolerations": [{"operator": "Equal"}]})),
        spec(json!({"tolerations": [{"key": "a", "operator": "Exists", "value": "b", "effect": "x"}]})),
        spec(json!({"tolerations": [{"key": "a", "tolerationSeconds": 1, "effect": "NoSchedule"}]})),
        spec(json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "x", "minDomains": 0}]})),
        spec(json!({"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule", "nodeAffinityPolicy": "x"},
            {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["b"]}]})),
        spec(json!({"nodeName": "A"})),
        spec(json!({"nodeName": "a", "schedulingGates": [{"name": "a"}]})),
        spec(json!({"schedulingGates": [{"name": "a"}, {"name": "a"}, {"name": "a b"}]})),
    ]);
    refused("wrong_wishes_for_nodes_are_refused", pods).await;
}

#[tokio::test]
async fn the_rest_of_a_wrong_spec_is_refused() {
    let specs = [
        json!({"restartPolicy": "x"}),
        json!({"dnsPolicy": "x"}),
        json!({"dnsPolicy": "None"}),
        json!({"dnsPolicy": "None", "dnsConfig": {}}),
        json!({"dnsConfig": {"nameservers": ["x", "1.2.3.4", "1.2.3.4", "1.2.3.4"], "searches": ["A b"], "options": [{}]}}),
        json!({"hostname": "A", "subdomain": "b.c"}),
        json!({"activeDeadlineSeconds": 0}),
        json!({"readinessGates": [{"conditionType": "a b"}]}),
        json!({"hostAliases": [{"ip": "x", "hostnames": ["A"]}]}),
        json!({"os": {"name": ""}}),
        json!({"os": {"name": "x"}}),
        json!({"os": {"name": "linux"}, "securityContext": {"windowsOptions": {}}}),
        json!({"hostNetwork": true, "containers": [{"name": "a", "image": "a", "ports": [{"containerPort": 80, "hostPort": 81}]}]}),
        json!({"hostUsers": false, "hostPID": true, "hostIPC": true}),
        json!({"shareProcessNamespace": true, "hostPID": true}),
        json!({"hostnameOverride": "A", "hostNetwork": true}),
        json!({"securityContext": {"runAsUser": -1, "fsGroup": -1, "supplementalGroups": [-1], "fsGroupChangePolicy": "x",
            "supplementalGroupsPolicy": "x", "seccompProfile": {"type": "Localhost"}, "appArmorProfile": {"type": ""}}}),
        json!({"securityContext": {"sysctls": [{"name": "", "value": ""}, {"name": "A", "value": ""}, {"name": "net.x", "value": ""}]}, "hostNetwork": true}),
    ];
    let mut pods: Vec<Value> = specs.map(spec).into();
    pods.extend([
        pod_of(json!({"securityContext": {"runAsUser": -1, "procMount": "Unmasked"}})),
        pod_of(json!({"securityContext": {"privileged": true, "allowPrivilegeEscalation": false}})),
        pod_of(json!({"securityContext": {"seccompProfile": {"type": "x", "localhostProfile": "y"}, "appArmorProfile": {"type": "Localhost"}}})),
    ]);
    let mut annotated = spec(json!({}));
    annotated["metadata"]["annotations"] =
        json!({"controller.kubernetes.io/pod-deletion-cost": "+1", "a b": "c"});
    pods.push(annotated);
    refused("the_rest_of_a_wrong_spec_is_refused", pods).await;
}
