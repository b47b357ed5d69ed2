//! Disruption budgets.

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
