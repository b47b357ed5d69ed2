//! Deployments, replica sets, jobs and disruption budgets.

use super::{Play, STAGES, played, same_end};

/// A pod on the first hollow node, which no scheduler has to find.
const ON_A_NODE: &str = "nodeName: node-0000, terminationGracePeriodSeconds: 0,
      containers: [{name: main, image: registry.example/web:1}]";

fn workload(kind: &str, name: &str, replicas: u32) -> String {
    format!(
        "
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{{ON_A_NODE}}}
"
    )
}

fn pod(name: &str, labels: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{{labels}}}}}
spec: {{{ON_A_NODE}}}
"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_rolls_over_and_back_on_every_server() {
    same_end("roll", 1, async |play: &Play<'_>| {
        let first = workload("Deployment", "web", 2);
        play.apply(&first).await?;
        play.kubectl("rollout status deployment/web --timeout=30s").await?;
        play.apply(&first.replace("web:1", "web:2")).await?;
        play.kubectl("rollout status deployment/web --timeout=30s").await?;
        play.kubectl("rollout undo deployment/web").await?;
        play.kubectl("rollout status deployment/web --timeout=30s").await?;
        play.until("pods", "{range .items[*]}{.status.phase} {end}", "Running Running").await?;
        // The last report of the old set may come a moment after that of the deployment.
        let revision = r"{.metadata.annotations.deployment\.kubernetes\.io/revision}";
        let sizes = format!(
            "{{range .items[*]}}{revision}:{{.spec.template.spec.containers[0].image}}:\
             {{.spec.replicas}}/{{.status.replicas}}/{{.status.readyReplicas}} {{end}}"
        );
        let wanted = "3:registry.example/web:1:2/2/2 2:registry.example/web:2:0/0/";
        play.until("replicasets", &sizes, wanted).await?;
        let status = "{.status.observedGeneration} {.status.replicas} {.status.readyReplicas} \
                      {.status.updatedReplicas} {.status.availableReplicas} \
                      {range .status.conditions[*]}{.type}={.status}={.reason} {end}";
        play.show("deployment web", status).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_set_adopts_releases_and_replaces_on_every_server() {
    same_end("set", 1, async |play: &Play<'_>| {
        let ready = "{.status.replicas} {.status.readyReplicas} {.status.availableReplicas}";
        play.apply(&pod("early", "app: web")).await?;
        play.apply(&workload("ReplicaSet", "web", 3)).await?;
        play.until("replicaset web", ready, "3 3 3").await?;
        let owners = "{range .items[*]}{.metadata.ownerReferences[*].kind} {end}";
        play.until("pods", owners, "ReplicaSet ReplicaSet ReplicaSet").await?;
        // One that no longer matches is let go and replaced.
        play.kubectl("label pod early app=other --overwrite").await?;
        play.until("pods --selector=app=web", owners, "ReplicaSet ReplicaSet ReplicaSet").await?;
        play.until("pod early", "{.metadata.ownerReferences[*].kind}", "").await?;
        play.kubectl("scale replicaset web --replicas=1").await?;
        play.until("replicaset web", ready, "1 1 1").await?;
        play.until("pods --selector=app=web", owners, "ReplicaSet").await?;
        play.kubectl("delete replicaset web --cascade=orphan").await?;
        play.until("pods --selector=app=web", "{.items[*].metadata.ownerReferences}", "").await?;
        play.show("pods", "{range .items[*]}{.metadata.labels.app} {.status.phase} {end}").await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_complete_and_fail_on_every_server() {
    let job = |name: &str, spec: &str, exit_code: u32| {
        format!(
            "
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  {spec}
  template:
    metadata:
      annotations:
        hollow.gantry.dev/run-seconds: '1'
        hollow.gantry.dev/exit-code: '{exit_code}'
    spec:
      restartPolicy: Never
      nodeName: node-0000
      containers: [{{name: main, image: registry.example/job:1}}]
"
        )
    };
    same_end("jobs", 1, async |play: &Play<'_>| {
        let indexed = "completions: 3\n  parallelism: 2\n  completionMode: Indexed";
        play.apply(&job("well", indexed, 0)).await?;
        play.apply(&job("badly", "backoffLimit: 0", 3)).await?;
        play.kubectl("wait job/well --for=condition=Complete --timeout=30s").await?;
        play.kubectl("wait job/badly --for=condition=Failed --timeout=30s").await?;
        let finalizers = "{.items[*].metadata.finalizers}";
        play.until("pods", finalizers, "").await?;
        let status = "{.status.succeeded}/{.status.failed}/{.status.active} \
                      {.status.completedIndexes} {.status.uncountedTerminatedPods} \
                      {range .status.conditions[*]}{.type}={.status}={.reason} {end}";
        let (well, badly) =
            (play.show("job well", status).await?, play.show("job badly", status).await?);
        Ok(format!("{well}\n{badly}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_is_counted_on_every_server() {
    same_end("budget", 1, async |play: &Play<'_>| {
        // One budget for each pod: where there are several, kube-controller-manager looks at one.
        let mut manifests = String::new();
        for (name, amount) in [
            ("count", "minAvailable: 2"),
            ("share", "minAvailable: 50%"),
            ("missing", "maxUnavailable: 1"),
        ] {
            manifests += &format!(
                "{}---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: {name}}}
spec: {{selector: {{matchLabels: {{app: {name}}}}}, {amount}}}
---",
                workload("Deployment", name, 3)
            );
        }
        play.apply(&manifests).await?;
        let status = "{range .items[*]}{.metadata.name}:{.status.expectedPods}/\
                      {.status.currentHealthy}/{.status.desiredHealthy}/\
                      {.status.disruptionsAllowed}:{.status.conditions[*].reason} {end}";
        let wanted = "count:3/3/2/1:SufficientPods share:3/3/2/1:SufficientPods \
                      missing:3/3/2/1:SufficientPods";
        play.until("poddisruptionbudgets", status, wanted).await?;
        play.kubectl("scale deployment count share missing --replicas=2").await?;
        let wanted = "count:2/2/2/0:InsufficientPods share:2/2/1/1:SufficientPods \
                      missing:2/2/1/1:SufficientPods";
        play.until("poddisruptionbudgets", status, wanted).await?;
        play.show("poddisruptionbudgets", "{.items[*].status.observedGeneration}").await
    })
    .await;
}

/// kube-controller-manager looks for new kinds every 30 s only, so it has no part in this.
#[tokio::test(flavor = "multi_thread")]
async fn a_budget_counts_pods_of_a_kind_that_is_new() {
    let definition = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: herds.young.example}
spec:
  group: young.example
  scope: Namespaced
  names: {plural: herds, singular: herd, kind: Herd, listKind: HerdList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
";
    for stage in STAGES.into_iter().skip(1) {
        let story = async |play: &Play<'_>| {
            play.apply(&pod("first", "app: web")).await?;
            play.apply(
                "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {selector: {matchLabels: {app: web}}, maxUnavailable: 1}
",
            )
            .await?;
            let allowed = "{.status.expectedPods}/{.status.disruptionsAllowed}";
            play.until("poddisruptionbudget web", allowed, "0/0").await?;
            play.apply(definition).await?;
            play.kubectl("wait crd/herds.young.example --for=condition=Established --timeout=30s")
                .await?;
            play.apply(
                "
apiVersion: young.example/v1
kind: Herd
metadata: {name: herd}
spec: {replicas: 4}
",
            )
            .await?;
            let uid = play.show("herd herd", "{.metadata.uid}").await?;
            let owner = format!(
                r#"{{"metadata":{{"ownerReferences":[{{"apiVersion":"young.example/v1","kind":"Herd","name":"herd","uid":"{uid}","controller":true}}]}}}}"#
            );
            play.kubectl(&format!("patch pod first --patch {owner}")).await?;
            play.until("poddisruptionbudget web", allowed, "4/0").await?;
            play.kubectl("delete crd herds.young.example --wait=false").await
        };
        let ended = played("young", stage, 1, &story).await;
        ended.unwrap_or_else(|error| panic!("young, {}: {error:#}", stage.2));
    }
}
