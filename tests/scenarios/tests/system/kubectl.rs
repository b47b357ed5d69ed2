//! Real kubectl, the same commands on both servers, with the same results.

use anyhow::ensure;

use crate::manifests::{QUICK, job, web, with_annotations};
use crate::story::{SERVERS, Story};

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_is_applied_rolled_scaled_and_deleted() {
    Story::new("deploy", 2).on(SERVERS).alike(async |kubectl| {
        kubectl.run_with("apply --filename -", &web()).await?;
        kubectl.run("wait deployment/web --for=condition=Available --timeout=30s").await?;
        kubectl.run("rollout status deployment/web --timeout=30s").await?;
        kubectl.run_with("apply --filename -", &web()).await?;
        kubectl.run_with("apply --filename -", &web().replace("web:1", "web:2")).await?;
        // It must come to an end; what it prints on the way depends on timing.
        kubectl.quietly("rollout status deployment/web --timeout=30s").await?;
        kubectl.run("get deployment web --output=jsonpath={.spec.template.spec.containers[0].image}").await?;
        kubectl.run("scale deployment web --replicas=3").await?;
        kubectl.run("wait deployment/web --for=jsonpath={.status.readyReplicas}=3 --timeout=30s").await?;
        kubectl.run("label deployment web tier=front").await?;
        kubectl.run("annotate deployment web note=hello").await?;
        kubectl.run("patch deployment web --patch {\"spec\":{\"paused\":true}}").await?;
        kubectl.run("rollout resume deployment/web").await?;
        kubectl.run("rollout history deployment/web").await?;
        kubectl.run("get deployment web --output=jsonpath={.metadata.labels.tier},{.status.replicas},{.status.readyReplicas}").await?;
        kubectl.run("delete deployment web --wait=true").await?;
        kubectl.quietly("wait pod --selector=app=web --for=delete --timeout=30s").await?;
        kubectl.run("get replicasets,pods --output=name").await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_completes() {
    let job = with_annotations(&job("once", "completions: 3\n  parallelism: 2"), QUICK);
    Story::new("job", 1)
        .on(SERVERS)
        .alike(async |kubectl| {
            kubectl.run_with("create --filename -", &job).await?;
            kubectl.run("wait job/once --for=condition=Complete --timeout=60s").await?;
            kubectl.run("get job once --output=jsonpath={.status.succeeded}").await?;
            kubectl.run("delete job once").await
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_difference_is_shown_before_it_is_applied() {
    let map = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: red}
";
    Story::bare("diff")
        .alike(async |kubectl| {
            kubectl.run_with("apply --filename -", map).await?;
            kubectl.run_with("diff --filename -", map).await?;
            let words = kubectl.words("diff --filename -");
            let output = kubectl.cluster.try_kubectl(&words, &map.replace("red", "blue")).await?;
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            ensure!(output.status.code() == Some(1), "kubectl diff: {printed}");
            let changes = printed
                .lines()
                .filter(|line| line.starts_with("-  color") || line.starts_with("+  color"));
            kubectl.lines.extend(changes.map(str::to_owned));
            kubectl.run_with("apply --filename -", &map.replace("red", "blue")).await?;
            kubectl.run("get configmap settings --output=jsonpath={.data.color}").await
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_drained() {
    Story::new("drain", 2)
        .on(SERVERS)
        .alike(async |kubectl| {
            kubectl.run_with("apply --filename -", &web()).await?;
            kubectl.run("wait deployment/web --for=condition=Available --timeout=30s").await?;
            let node =
                kubectl.quietly("get nodes --output=jsonpath={.items[0].metadata.name}").await?;
            kubectl.run(&format!("cordon {node}")).await?;
            kubectl.quietly(&format!("drain {node} --ignore-daemonsets --timeout=30s")).await?;
            kubectl.run("wait deployment/web --for=condition=Available --timeout=30s").await?;
            kubectl
                .run(&format!("get pods --field-selector=spec.nodeName={node} --output=name"))
                .await?;
            kubectl.run(&format!("uncordon {node}")).await
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_explain_themselves() {
    Story::bare("explain")
        .alike(async |kubectl| {
            for kind in
                ["pods.spec.containers.resources", "deployments.spec.strategy", "configmaps"]
            {
                let words = ["explain", kind];
                let printed = kubectl.cluster.kubectl(&words).await?;
                // Fields and their types; upstream's prose is not ours.
                let fields =
                    printed.lines().filter(|line| line.contains('\t') && line.contains('<'));
                kubectl.lines.extend(fields.map(str::to_owned));
            }
            Ok(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_applied_and_created() {
    let list = |names: [&str; 2]| {
        let item = |name: &str| {
            format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#)
        };
        let items = names.map(item).join(",");
        format!(r#"{{"apiVersion":"v1","kind":"List","items":[{items}]}}"#)
    };
    Story::bare("list")
        .alike(async |kubectl| {
            kubectl.run_with("apply --filename -", &list(["a", "b"])).await?;
            kubectl.run_with("apply --filename -", &list(["a", "b"])).await?;
            kubectl.run_with("create --filename -", &list(["c", "d"])).await?;
            kubectl.run("get configmap a b c d --output=name").await
        })
        .await;
}
