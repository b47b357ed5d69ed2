//! What goes with its owner, what keeps it, and what is left.

use anyhow::Result;

use super::{Play, same_end};

/// An owner and two dependents, one of which holds up a deletion in the foreground.
async fn family(play: &Play<'_>, name: &str) -> Result<()> {
    let map = |name: &str, rest: &str| {
        format!("\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}{rest}}}\n---")
    };
    play.apply(&map(name, "")).await?;
    let uid = play.show(&format!("configmap {name}"), "{.metadata.uid}").await?;
    let owned = |more: &str| {
        format!(
            ", {more} ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: {name}, \
             uid: {uid}, blockOwnerDeletion: true}}]"
        )
    };
    let held = owned("finalizers: [example.com/hold],");
    let children = map(&format!("{name}-free"), &owned("")) + &map(&format!("{name}-held"), &held);
    play.apply(&children).await
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_go_with_their_owner_on_every_server() {
    same_end("garbage", 0, async |play: &Play<'_>| {
        let names = "{range .items[*]}{.metadata.name}:{.metadata.ownerReferences[*].name} {end}";
        let going = "{.metadata.finalizers}:{.metadata.deletionGracePeriodSeconds}";
        let let_go = r#"--type=merge --patch {"metadata":{"finalizers":null}}"#;
        let mut told = Vec::new();

        family(play, "back").await?;
        play.kubectl("delete configmap back --cascade=background").await?;
        play.until("configmap back-held", going, r#"["example.com/hold"]:0"#).await?;
        let left = "kube-root-ca.crt: back-held:back";
        play.until("configmaps", names, left).await?;
        play.kubectl(&format!("patch configmap back-held {let_go}")).await?;
        play.until("configmaps", names, "kube-root-ca.crt:").await?;

        family(play, "fore").await?;
        play.kubectl("delete configmap fore --cascade=foreground --wait=false").await?;
        let left = "kube-root-ca.crt: fore: fore-held:fore";
        play.until("configmaps", names, left).await?;
        told.push(play.show("configmap fore", going).await?);
        told.push(play.show("configmap fore-held", going).await?);
        play.kubectl(&format!("patch configmap fore-held {let_go}")).await?;
        play.until("configmaps", names, "kube-root-ca.crt:").await?;

        family(play, "orphan").await?;
        play.kubectl("delete configmap orphan --cascade=orphan").await?;
        play.until("configmaps", names, "kube-root-ca.crt: orphan-free: orphan-held:").await?;

        // A dependent whose owner never was goes as well.
        let lost = "\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: lost\n  ownerReferences: \
                    [{apiVersion: v1, kind: ConfigMap, name: nobody, uid: no-such-uid}]\n";
        play.feed("create --filename -", lost).await?;
        play.until("configmaps", names, "kube-root-ca.crt: orphan-free: orphan-held:").await?;
        Ok(told.join("\n"))
    })
    .await;
}
