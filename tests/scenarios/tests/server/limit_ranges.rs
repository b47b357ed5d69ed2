//! LimitRanges: what a namespace gives to those who ask for nothing, and what it refuses.
//!
//! kube-apiserver looks at LimitRanges through a watch, which lags, and at the limits of one in
//! no order: each scenario waits until its range is noticed, and breaks one limit at a time.

use scenarios::Scenario;
use scenarios::request::{PatchType, Request, get, patch, post};
use serde_json::{Value, json};

use crate::trials::creations;

const RANGES: &str = "/api/v1/namespaces/{ns}/limitranges";
const PODS: &str = "/api/v1/namespaces/{ns}/pods";
const CLAIMS: &str = "/api/v1/namespaces/{ns}/persistentvolumeclaims";

fn range(limits: Value) -> Request {
    let range = json!({"metadata": {"name": "limits"}, "spec": {"limits": limits}});
    post(RANGES, range).expect(201)
}

fn pod(name: &str, containers: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"automountServiceAccountToken": false,
        "containers": containers}})
}

fn container(name: &str, resources: Value) -> Value {
    json!({"name": name, "image": "a", "resources": resources})
}

fn one(name: &str, resources: Value) -> Request {
    post(PODS, pod(name, json!([container("main", resources)])))
}

#[tokio::test]
async fn a_pod_gets_what_the_namespace_gives() {
    let limits = json!([
        {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"},
            "defaultRequest": {"cpu": "500m", "example.com/gpu": "1"}},
        {"type": "Pod", "max": {"cpu": "16"}},
    ]);
    let gpu = json!({"limits": {"example.com/gpu": "1"}});
    let noticed = one("probe", gpu.clone()).query("dryRun", "All").expect(201);
    let noticed = noticed.with("/spec/containers/0/resources/limits/cpu", "1").awaited();
    let mut many = pod(
        "many",
        json!([
            container("a", json!({"limits": {"cpu": "2"}})),
            container(
                "b",
                json!({"requests": {"memory": "1500Mi", "cpu": "100m"}, "limits": {"memory": "2Gi"}})
            )
        ]),
    );
    many["spec"]["initContainers"] = json!([container("i", json!({}))]);
    many["metadata"]["annotations"] = json!({"kubernetes.io/limit-ranger": "mine", "a": "b"});
    let everything = json!({"requests": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"},
        "limits": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}});
    Scenario::new("a_pod_gets_what_the_namespace_gives")
        .step(one("before", json!({})).expect(201))
        .step(range(limits))
        .step(noticed.preparation())
        .step(one("none", json!({})))
        .step(one("extended", gpu).expect(201))
        .step(post(PODS, many))
        .step(one("everything", everything).expect(201))
        .step(
            patch(
                &format!("{PODS}/before"),
                PatchType::Merge,
                json!({"metadata": {"labels": {"a": "b"}}}),
            )
            .expect(200),
        )
        .step(get(&format!("{PODS}/everything")).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn a_container_stays_within_its_limits() {
    let limits = json!([{"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "2"},
        "maxLimitRequestRatio": {"memory": "2"}, "default": {"memory": "1Gi"}}]);
    let both = |request: &str, limit: &str| json!({"requests": {"cpu": request, "memory": "1Gi"}, "limits": {"cpu": limit, "memory": "1Gi"}});
    let memory = |request: &str, limit: &str| json!({"requests": {"cpu": "1", "memory": request}, "limits": {"cpu": "1", "memory": limit}});
    let noticed = one("probe", both("3", "3")).query("dryRun", "All").expect(403).awaited();
    let mut init = pod("init", json!([container("main", both("1", "1"))]));
    init["spec"]["initContainers"] = json!([container("i", both("1", "2001m"))]);
    Scenario::new("a_container_stays_within_its_limits")
        .step(range(limits))
        .step(noticed)
        .step(one("a", both("99m", "1")).refused(403, "Forbidden"))
        .step(one("a", both("10m", "50m")).refused(403, "Forbidden"))
        .step(one("a", both("1", "2001m")).refused(403, "Forbidden"))
        .step(one("a", both("100m", "2")).expect(201))
        .step(one("b", json!({})).expect(201))
        .step(one("c", memory("1Gi", "2Gi")).expect(201))
        .step(one("d", memory("1Gi", "2049Mi")).refused(403, "Forbidden"))
        .step(one("d", memory("0", "1Gi")).refused(403, "Forbidden"))
        .step(one("d", memory("9223372036854775807", "9223372036854775807")).expect(201))
        .step(post(PODS, init).refused(403, "Forbidden"))
        .run()
        .await;
}

#[tokio::test]
async fn a_pod_stays_within_the_limits_of_pods() {
    let limits = json!([{"type": "Pod", "min": {"cpu": "100m"}, "max": {"memory": "2Gi"},
        "maxLimitRequestRatio": {"cpu": "1500m"}}]);
    let of = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}});
    let noticed = one("probe", of("1", "3Gi")).query("dryRun", "All").expect(403).awaited();
    let two = |name: &str, memory: &str| {
        pod(name, json!([container("a", of("50m", "1Gi")), container("b", of("50m", memory))]))
    };
    let mut sidecar = two("sidecar", "512Mi");
    sidecar["spec"]["initContainers"] = json!([container("s", of("50m", "600Mi"))]);
    sidecar["spec"]["initContainers"][0]["restartPolicy"] = "Always".into();
    let mut init = two("init", "1Gi");
    init["spec"]["initContainers"] = json!([container("s", of("50m", "2049Mi"))]);
    let mut whole = two("whole", "1Gi");
    whole["spec"]["resources"] = of("2", "3Gi");
    let ratio = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1501m", "memory": "1Gi"}});
    let unlimited = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1"}});
    Scenario::new("a_pod_stays_within_the_limits_of_pods")
        .step(range(limits))
        .step(noticed)
        .step(post(PODS, two("sum", "1Gi")).expect(201))
        .step(post(PODS, two("more", "1025Mi")).refused(403, "Forbidden"))
        .step(post(PODS, sidecar).refused(403, "Forbidden"))
        .step(post(PODS, init).refused(403, "Forbidden"))
        .step(post(PODS, whole).refused(403, "Forbidden"))
        .step(one("ratio", ratio).refused(403, "Forbidden"))
        .step(one("unlimited", unlimited).refused(403, "Forbidden"))
        .step(one("less", of("10m", "1Gi")).refused(403, "Forbidden"))
        .step(
            one("none", json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}))
                .refused(403, "Forbidden"),
        )
        .run()
        .await;
}

#[tokio::test]
async fn a_resized_pod_stays_within_its_limits() {
    let limits = json!([{"type": "Container", "max": {"cpu": "2"}}]);
    let of = |cpu: &str| json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    let noticed = one("probe", of("3")).query("dryRun", "All").expect(403).awaited();
    let resized = |cpu: &str| {
        let change = json!({"spec": {"containers": [{"name": "main", "resources": of(cpu)}]}});
        patch(&format!("{PODS}/a/resize"), PatchType::Strategic, change)
    };
    Scenario::new("a_resized_pod_stays_within_its_limits")
        .step(range(limits))
        .step(noticed)
        .step(one("a", of("1")).expect(201))
        .step(resized("2").expect(200))
        .step(resized("3").refused(403, "Forbidden"))
        .run()
        .await;
}

#[tokio::test]
async fn a_claim_stays_within_its_limits() {
    let limits = json!([{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"},
        "max": {"storage": "10Gi"}}]);
    let claim = |name: &str, size: &str| {
        post(
            CLAIMS,
            json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}}}}),
        )
    };
    let noticed = claim("probe", "11Gi").query("dryRun", "All").expect(403).awaited();
    Scenario::new("a_claim_stays_within_its_limits")
        .step(range(limits))
        .step(noticed)
        .step(claim("a", "1Gi").expect(201))
        .step(claim("b", "10Gi").expect(201))
        .step(claim("c", "1023Mi").refused(403, "Forbidden"))
        .step(claim("c", "10241Mi").refused(403, "Forbidden"))
        .run()
        .await;
}

#[tokio::test]
async fn a_limit_range_is_checked() {
    let limit = |kind: &str, fields: Value| {
        let mut limit = fields;
        limit["type"] = kind.into();
        json!([limit])
    };
    let of = |kind: &str, field: &str, amounts: Value| limit(kind, json!({field: amounts}));
    let limits = vec![
        json!([]),
        of("Container", "max", json!({"cpu": "1"})),
        of("Odd", "max", json!({"cpu": "1"})),
        of("", "max", json!({"cpu": "1"})),
        of("example.com/odd", "max", json!({"storage": "1"})),
        json!([{"type": "Pod"}, {"type": "Container"}, {"type": "Pod"}]),
        of("Container", "max", json!({"storage": "1"})),
        of("Container", "max", json!({"example.com/gpu": "1"})),
        // Amounts take the form that Go gives them.
        of("Container", "max", json!({"cpu": "1u", "memory": "1500n"})),
        of("Pod", "min", json!({"cpu": "0.0001", "memory": null})),
        of("Container", "max", json!({"cpu": null})),
        limit("Container", json!({"max": {"cpu": "1"}, "defaultRequest": {"cpu": null}})),
        limit("Container", json!({"min": {"cpu": "1"}, "defaultRequest": {"cpu": null}})),
        limit(
            "Container",
            json!({"max": {"cpu": "2"}, "min": {"cpu": "1"},
            "maxLimitRequestRatio": {"cpu": "1500001u"}}),
        ),
        of("Container", "min", json!({"a b": "1"})),
        of("Pod", "default", json!({"cpu": "1"})),
        of("Pod", "defaultRequest", json!({"cpu": "1"})),
        of("PersistentVolumeClaim", "max", json!({"cpu": "1"})),
        of("PersistentVolumeClaim", "min", json!({"storage": "1Gi"})),
        limit("Pod", json!({"min": {"cpu": "2"}, "max": {"cpu": "1500m"}})),
        limit("Container", json!({"min": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}})),
        limit("Container", json!({"max": {"cpu": "2"}, "defaultRequest": {"cpu": "3"}})),
        limit("Container", json!({"default": {"cpu": "2"}, "defaultRequest": {"cpu": "3"}})),
        limit("Container", json!({"min": {"cpu": "2"}, "default": {"cpu": "1"}})),
        limit("Container", json!({"max": {"cpu": "2"}, "default": {"cpu": "3"}})),
        of("Pod", "maxLimitRequestRatio", json!({"cpu": "900m"})),
        limit(
            "Pod",
            json!({"min": {"cpu": "1"}, "max": {"cpu": "2"},
            "maxLimitRequestRatio": {"cpu": "2500m"}}),
        ),
        limit(
            "Container",
            json!({"default": {"example.com/gpu": "2"},
            "defaultRequest": {"example.com/gpu": "1"}}),
        ),
    ];
    let bodies = limits.into_iter().map(|limits| json!({"spec": {"limits": limits}}));
    creations("a_limit_range_is_checked", RANGES, bodies.collect()).await;
}

#[tokio::test]
async fn a_limit_range_that_says_no_name_gets_one() {
    let nameless = json!({"metadata": {}, "spec": {"limits": [{"type": "Pod"}]}});
    let empty = json!({"metadata": {"name": ""}});
    Scenario::new("a_limit_range_that_says_no_name_gets_one")
        .step(post(RANGES, nameless.clone()).preparation())
        .step(post(RANGES, nameless).preparation())
        .step(post(RANGES, empty).preparation())
        .run()
        .await;
}

#[tokio::test]
async fn a_pod_asks_for_what_its_containers_got() {
    let limits = json!([{"type": "Container", "default": {"cpu": "1", "memory": "1Gi"},
        "defaultRequest": {"cpu": "500m"}}]);
    let noticed = one("probe", json!({})).query("dryRun", "All").expect(201);
    let noticed = noticed.with("/spec/containers/0/resources/limits/cpu", "1").awaited();
    let whole = |name: &str, resources: Value| {
        let mut pod = pod(name, json!([container("main", json!({}))]));
        pod["spec"]["initContainers"] = json!([container("side", json!({}))]);
        pod["spec"]["initContainers"][0]["restartPolicy"] = "Always".into();
        pod["spec"]["resources"] = resources;
        post(PODS, pod)
    };
    Scenario::new("a_pod_asks_for_what_its_containers_got")
        .step(range(limits))
        .step(noticed.preparation())
        .step(whole("a", json!({"requests": {}, "limits": {"cpu": "2"}})).expect(201))
        .step(get(&format!("{PODS}/a")).expect(200))
        .step(whole("b", json!({"limits": {"memory": "4Gi"}})).expect(201))
        .step(whole("c", json!({"requests": {"cpu": "2"}})))
        .step(whole("d", json!({"limits": {"cpu": "1m"}})))
        .run()
        .await;
}

#[tokio::test]
async fn amounts_of_claims_volumes_and_quotas_are_rounded_up() {
    let claim = |amount: Value| {
        json!({"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": amount}}}})
    };
    let quota =
        |name: &str, hard: Value| json!({"metadata": {"name": name}, "spec": {"hard": hard}});
    let quotas = "/api/v1/namespaces/{ns}/resourcequotas";
    let volume = json!({"metadata": {"name": "{ns}.a"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1u"}, "hostPath": {"path": "/a"}}});
    Scenario::new("amounts_of_claims_volumes_and_quotas_are_rounded_up")
        .step(post(CLAIMS, claim(json!("1u"))).expect(201))
        .step(post(CLAIMS, claim(Value::Null)))
        .step(post(quotas, quota("a", json!({"requests.cpu": "100u"}))).expect(201))
        .step(post(quotas, quota("b", json!({"requests.cpu": null}))).expect(201))
        .step(post("/api/v1/persistentvolumes", volume).expect(201))
        .run()
        .await;
}
