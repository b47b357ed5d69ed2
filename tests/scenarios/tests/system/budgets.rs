//! Disruption budgets.

use crate::manifests::{budget, deployment, pod, with_pod};
use crate::story::{OUR_CONTROLLERS, Story};

/// A pod on the first hollow node, which no scheduler has to find.
const ON_A_NODE: &str = "nodeName: node-0000";

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_is_counted() {
    Story::new("budget", 1)
        .unscheduled()
        .alike(async |kubectl| {
            // One budget for each pod: where there are several, kube-controller-manager looks at one.
            let budgets = [
                ("count", "minAvailable: 2"),
                ("share", "minAvailable: 50%"),
                ("missing", "maxUnavailable: 1"),
            ];
            for (name, amount) in budgets {
                let pods = with_pod(&deployment(name, "replicas: 3"), ON_A_NODE);
                kubectl.apply(&format!("{pods}---{}", budget(name, amount))).await?;
            }
            let status = "{.status.expectedPods}/{.status.currentHealthy}/{.status.desiredHealthy}/\
                      {.status.disruptionsAllowed}:{.status.conditions[*].reason}";
            let until = async |name: &str, wanted: &str| {
                kubectl.until(&format!("poddisruptionbudget {name}"), status, wanted).await
            };
            for (name, _) in budgets {
                until(name, "3/3/2/1:SufficientPods").await?;
            }
            kubectl.quietly("scale deployment count share missing --replicas=2").await?;
            until("count", "2/2/2/0:InsufficientPods").await?;
            until("share", "2/2/1/1:SufficientPods").await?;
            until("missing", "2/2/1/1:SufficientPods").await?;
            let generations = "{.items[*].metadata.name} {.items[*].status.observedGeneration}";
            let generations = kubectl.show("poddisruptionbudgets", generations).await?;
            kubectl.keep("get poddisruptionbudgets", &generations);
            Ok(())
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
    let herd = "
apiVersion: young.example/v1
kind: Herd
metadata: {name: herd}
spec: {replicas: 4}
";
    Story::new("young", 1).on(OUR_CONTROLLERS).unscheduled().alike(async |kubectl| {
        kubectl.apply(&pod("web", ON_A_NODE)).await?;
        kubectl.apply(&budget("web", "maxUnavailable: 1")).await?;
        let allowed = "{.status.expectedPods}/{.status.disruptionsAllowed}";
        kubectl.until("poddisruptionbudget web", allowed, "0/0").await?;
        kubectl.apply(definition).await?;
        kubectl
            .quietly("wait crd/herds.young.example --for=condition=Established --timeout=30s")
            .await?;
        kubectl.apply(herd).await?;
        let uid = kubectl.show("herd herd", "{.metadata.uid}").await?;
        let owner = format!(
            r#"{{"metadata":{{"ownerReferences":[{{"apiVersion":"young.example/v1","kind":"Herd","name":"herd","uid":"{uid}","controller":true}}]}}}}"#
        );
        kubectl.quietly(&format!("patch pod web --patch {owner}")).await?;
        kubectl.until("poddisruptionbudget web", allowed, "4/0").await?;
        kubectl.run("delete crd herds.young.example --wait=false").await
    })
    .await;
}
