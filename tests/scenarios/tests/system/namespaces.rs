//! Namespaces: what every one has, and how one goes.

use anyhow::ensure;

use crate::story::Story;

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_furnished_and_goes_when_it_is_empty() {
    Story::new("furnished", 1).alike(async |kubectl| {
        kubectl.quietly("wait --for=create configmap/kube-root-ca.crt --timeout=30s").await?;
        kubectl.run("get configmap kube-root-ca.crt --output=jsonpath={.data}").await?;
        let certificate = kubectl.lines.pop().unwrap_or_default();
        ensure!(certificate.contains("BEGIN CERTIFICATE"), "{certificate}");
        // What is taken away or changed is put back.
        kubectl.run("delete serviceaccount default").await?;
        kubectl.quietly("wait --for=create serviceaccount/default --timeout=30s").await?;
        kubectl.run("patch configmap kube-root-ca.crt --patch {\"data\":{\"ca.crt\":\"x\"}}").await?;
        let mut is_mended = |shown: &str| match shown.contains("BEGIN CERTIFICATE") {
            true => Ok(()),
            false => Err(format!("{shown} is no certificate")),
        };
        kubectl.until_shown("configmap kube-root-ca.crt", "{.data}", &mut is_mended).await?;
        // A finalizer holds one object and with it the namespace.
        kubectl.run("create configmap held").await?;
        kubectl.run("patch configmap held --patch {\"metadata\":{\"finalizers\":[\"gantry.test/hold\"]}}").await?;
        let namespace = kubectl.namespace.clone();
        kubectl.run(&format!("delete namespace {namespace} --wait=false")).await?;
        let held = format!("wait namespace {namespace} --for=condition=NamespaceFinalizersRemaining --timeout=30s");
        kubectl.run(&held).await?;
        kubectl.run(&format!("get namespace {namespace} --output=jsonpath={{.status.phase}},{{.status.conditions[?(@.status==\"True\")].type}}")).await?;
        kubectl.run("get configmaps --output=name").await?;
        kubectl.run("patch configmap held --patch {\"metadata\":{\"finalizers\":null}}").await?;
        kubectl.quietly(&format!("wait namespace {namespace} --for=delete --timeout=60s")).await.map(drop)
    })
    .await;
}
