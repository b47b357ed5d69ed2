//! What every namespace has, and how one ends.

use anyhow::ensure;

use super::{Play, same_end};

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_has_its_account_and_certificate_on_every_server() {
    same_end("accounts", 0, async |play: &Play<'_>| {
        let names = "{.items[*].metadata.name}";
        play.until("serviceaccounts", names, "default").await?;
        play.until("configmaps", names, "kube-root-ca.crt").await?;
        play.kubectl("delete serviceaccount default").await?;
        play.kubectl("delete configmap kube-root-ca.crt").await?;
        play.until("serviceaccounts", names, "default").await?;
        play.until("configmaps", names, "kube-root-ca.crt").await?;
        // What somebody changes is set right.
        let patch =
            r#"patch configmap kube-root-ca.crt --patch {"data":{"ca.crt":"none","more":"x"}}"#;
        play.kubectl(patch).await?;
        let certificate = r"{.data.ca\.crt}{.data.more}";
        let published = play
            .cluster
            .kubectl(&[
                "config",
                "view",
                "--raw",
                "--output",
                "jsonpath={.clusters[0].cluster.certificate-authority-data}",
            ])
            .await?;
        ensure!(!published.is_empty(), "the kubeconfig has no certificate");
        let pem = "-----BEGIN CERTIFICATE-----";
        for _ in 0..100 {
            let shown = play.show("configmap kube-root-ca.crt", certificate).await?;
            if shown.starts_with(pem) && !shown.ends_with('x') {
                return play.show("configmap kube-root-ca.crt", "{.immutable}").await;
            }
            tokio::time::sleep(super::ASK_AGAIN).await;
        }
        anyhow::bail!("the certificate is not set right")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_goes_tells_what_holds_it_on_every_server() {
    same_end("ending", 0, async |play: &Play<'_>| {
        let space = format!("{}-b", play.namespace);
        play.kubectl(&format!("create namespace {space}")).await?;
        let held = "
apiVersion: v1
kind: ConfigMap
metadata: {name: held, finalizers: [example.com/hold]}
";
        let inner = Play { cluster: play.cluster, namespace: space.clone() };
        inner.apply(held).await?;
        inner.apply("\napiVersion: v1\nkind: Secret\nmetadata: {name: free}\n").await?;
        play.kubectl(&format!("delete namespace {space} --wait=false")).await?;
        let status = format!("namespace {space}");
        let reasons =
            "{.status.phase} {range .status.conditions[*]}{.type}={.status}={.reason} {end}";
        let wanted = "Terminating \
            NamespaceDeletionDiscoveryFailure=False=ResourcesDiscovered \
            NamespaceDeletionGroupVersionParsingFailure=False=ParsedGroupVersions \
            NamespaceDeletionContentFailure=False=ContentDeleted \
            NamespaceContentRemaining=True=SomeResourcesRemain \
            NamespaceFinalizersRemaining=True=SomeFinalizersRemain";
        play.until(&status, reasons, wanted).await?;
        let messages = "{range .status.conditions[*]}{.message}|{end}";
        let told = play.show(&status, messages).await?;
        ensure!(
            inner.show("secrets", "{.items[*].metadata.name}").await?.is_empty(),
            "a secret is left"
        );
        inner
            .kubectl(
                r#"patch configmap held --type=merge --patch {"metadata":{"finalizers":null}}"#,
            )
            .await?;
        play.kubectl(&format!("wait namespace/{space} --for=delete --timeout=30s")).await?;
        Ok(told.replace(&space, "{space}"))
    })
    .await;
}
