//! Real programs of a cluster on drydock.

use scenarios::backend::Backend;
use scenarios::system::{Cluster, Controllers, Scheduler};

const DEPLOYMENT: [&str; 6] = [
    "create",
    "deployment",
    "web",
    "--image=registry.example/web:1",
    "--replicas=4",
    "--namespace=default",
];

async fn rolls(name: &str, controllers: Controllers) {
    let cluster =
        Cluster::start(name, Backend::Drydock, controllers, Scheduler::Theirs, 2).await.unwrap();
    if controllers == Controllers::Theirs {
        // The first service account is theirs to make; a pod waits for it.
        let wait = [
            "wait",
            "--for=create",
            "serviceaccount/default",
            "--timeout=30s",
            "--namespace=default",
        ];
        cluster.kubectl(&wait).await.unwrap();
    }
    cluster.kubectl(&DEPLOYMENT).await.unwrap();
    let wait = ["wait", "deployment/web", "--for=condition=Available", "--timeout=30s"];
    cluster.kubectl(&wait).await.unwrap();
    let nodes = cluster
        .kubectl(&["get", "pods", "--output=jsonpath={.items[*].spec.nodeName}"])
        .await
        .unwrap();
    assert_eq!(nodes.split_whitespace().count(), 4, "every pod has a node: {nodes}");
    let image = ["set", "image", "deployment/web", "web=registry.example/web:2"];
    cluster.kubectl(&image).await.unwrap();
    cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=30s"]).await.unwrap();
    cluster.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_scheduler_binds_pods_with_our_controllers() {
    rolls("ours", Controllers::Ours).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_controller_manager_rolls_a_deployment() {
    rolls("theirs", Controllers::Theirs).await;
}
