//! The Python client of Kubernetes, the same script on both servers, with the same outcome.

use crate::story::Story;

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_lists_watches_and_patches() {
    Story::bare("python")
        .alike(async |transcript| {
            let arguments = [transcript.namespace.as_str()];
            let printed = transcript.cluster.python("client.py", &arguments).await?;
            transcript.lines.push(printed);
            Ok(())
        })
        .await;
}
