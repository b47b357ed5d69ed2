//! Real programs of a cluster on drydock.

use anyhow::ensure;
use scenarios::backend::Backend;
use scenarios::system::Controllers;

use crate::story::{DRYDOCK, Stage, Story};

/// A deployment whose pods get nodes, and whose pods are replaced.
async fn rolls(story: Story) {
    story
        .alike(async |kubectl| {
            kubectl
                .run("create deployment web --image=registry.example/web:1 --replicas=4")
                .await?;
            kubectl.run("wait deployment/web --for=condition=Available --timeout=30s").await?;
            let nodes = kubectl.show("pods", "{.items[*].spec.nodeName}").await?;
            ensure!(nodes.split_whitespace().count() == 4, "every pod has a node: {nodes}");
            kubectl.run("set image deployment/web web=registry.example/web:2").await?;
            kubectl.quietly("rollout status deployment/web --timeout=30s").await.map(drop)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_scheduler_binds_pods_with_our_controllers() {
    rolls(Story::new("bound", 2).on(DRYDOCK)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_controller_manager_rolls_a_deployment() {
    const THEIRS: &[Stage] = &[Stage(Backend::Drydock, Controllers::Theirs)];
    rolls(Story::new("rolled", 2).on(THEIRS)).await;
}
