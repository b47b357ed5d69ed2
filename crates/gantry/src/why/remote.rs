//! A scheduler that runs elsewhere, asked over HTTP.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use http::{StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use scheduler::debug::Refusal;
use scheduler::why::Answer;

/// How long a scheduler may take to answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Has the scheduler at `url` say why a pod has no node.
pub(super) async fn ask(url: &str, namespace: &str, pod: &str) -> Result<Answer> {
    let uri = page(url, namespace, pod)?;
    let client = legacy::Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let exchange = async {
        let response = client.get(uri).await?;
        let code = response.status();
        anyhow::Ok((code, response.into_body().collect().await?.to_bytes()))
    };
    let unreachable = || {
        format!(
            "cannot ask the scheduler at {url}; is it there that it serves its metrics? Without \
             --scheduler the answer is worked out from the objects of the cluster"
        )
    };
    let answered = tokio::time::timeout(TIMEOUT, exchange).await;
    let answered = answered.map_err(|_| anyhow!("no answer within {} s", TIMEOUT.as_secs()));
    let (code, body) = answered.and_then(|own| own).with_context(unreachable)?;
    if code == StatusCode::OK {
        let unreadable = || format!("what is at {url} does not answer as a scheduler does");
        return serde_json::from_slice(&body).with_context(unreadable);
    }
    match serde_json::from_slice::<Refusal>(&body) {
        Ok(refusal) => bail!("{}", refusal.message),
        Err(_) => {
            let text = String::from_utf8_lossy(&body);
            bail!("the scheduler at {url} answers {code}: {}", text.trim())
        }
    }
}

/// The page of a pod.
fn page(url: &str, namespace: &str, pod: &str) -> Result<Uri> {
    let own: Uri = url.parse().with_context(|| format!("--scheduler {url} is not a URL"))?;
    match own.scheme_str() {
        Some("http") if own.authority().is_some() => {}
        Some("https") => bail!(
            "--scheduler {url}: only http is spoken here; the scheduler serves it on a loopback \
             address with --metrics"
        ),
        _ => bail!("--scheduler {url} is not a URL such as http://127.0.0.1:10251"),
    }
    let base = url.trim_end_matches('/').trim_end_matches("/metrics");
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("namespace", namespace)
        .append_pair("pod", pod)
        .finish();
    let page = format!("{base}/debug/why?{query}");
    page.parse().with_context(|| format!("--scheduler {url} is not a URL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_a_pod_is_beside_the_metrics() {
        let check =
            |url: &str, expected: Result<&str, &str>| match (page(url, "a b", "p"), expected) {
                (Ok(page), Ok(expected)) => assert_eq!(page.to_string(), expected),
                (Err(error), Err(expected)) => {
                    let error = error.to_string();
                    assert!(error.starts_with(expected), "{error}");
                }
                (got, expected) => panic!("{url}: {got:?}, not {expected:?}"),
            };
        let page = "http://127.0.0.1:1/debug/why?namespace=a+b&pod=p";
        check("http://127.0.0.1:1", Ok(page));
        check("http://127.0.0.1:1/", Ok(page));
        check("http://127.0.0.1:1/metrics", Ok(page));
        check("https://127.0.0.1:1", Err("--scheduler https://127.0.0.1:1: only http is spoken"));
        check("127.0.0.1:1", Err("--scheduler 127.0.0.1:1 is not a URL"));
        check("nonsense", Err("--scheduler nonsense is not a URL such as"));
    }
}
