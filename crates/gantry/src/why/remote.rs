//! A scheduler that runs elsewhere, asked over HTTP, or over HTTPS with credentials.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use chassis::client::{AnswerBody, Client, Credentials, Options};
use chassis::connection::Trust;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use scheduler::debug::Refusal;
use scheduler::why::Answer;

/// How long a scheduler may take to answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How a scheduler is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Way {
    /// As anybody can.
    Plain,
    /// On its secure port.
    Secure(Credentials, Trust),
}

/// Where a scheduler is, and how it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scheduler {
    /// Without a path.
    base: String,
    way: Way,
}

impl Scheduler {
    /// The scheduler at a URL. Over plain HTTP nobody is asked for credentials, and it is a mistake
    /// to give some (`plain` is false then).
    pub(super) fn at(
        url: &str,
        credentials: Credentials,
        trust: Trust,
        plain: bool,
    ) -> Result<Self> {
        let base = url.trim_end_matches('/').trim_end_matches("/metrics").to_owned();
        let own: http::Uri =
            base.parse().with_context(|| format!("--scheduler {url} is not a URL"))?;
        let way = match own.scheme_str().filter(|_| own.authority().is_some()) {
            Some("https") => Way::Secure(credentials, trust),
            Some("http") if plain => Way::Plain,
            Some("http") => bail!(
                "--scheduler {url}: tokens and authorities are for https; the secure port is 10259"
            ),
            _ => bail!(
                "--scheduler {url} is not a URL such as http://127.0.0.1:10251 or \
                 https://127.0.0.1:10259"
            ),
        };
        Ok(Self { base, way })
    }

    /// Has the scheduler say on one of its pages why something has no node.
    pub(super) async fn ask(&self, page: &str) -> Result<Answer> {
        let url = &self.base;
        let answered = tokio::time::timeout(TIMEOUT, self.get(page)).await;
        let answered = answered.map_err(|_| anyhow!("no answer within {} s", TIMEOUT.as_secs()));
        let (code, body) = answered.and_then(|own| own).map_err(|error| self.unreachable(error))?;
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

    async fn get(&self, page: &str) -> Result<(StatusCode, Bytes)> {
        match &self.way {
            Way::Plain => {
                let builder = legacy::Client::builder(TokioExecutor::new());
                let client = builder.build_http::<Full<Bytes>>();
                let response = client.get(format!("{}{page}", self.base).parse()?).await?;
                let code = response.status();
                Ok((code, response.into_body().collect().await?.to_bytes()))
            }
            Way::Secure(credentials, trust) => {
                let options = Options::new("why");
                let client = Client::connect_to(&self.base, credentials, trust, &options).await?;
                let request = Request::get(page).body(chassis::client::Body::empty())?;
                let response: Response<AnswerBody> =
                    client.send(request).await.map_err(|error| anyhow!(error))?;
                let code = response.status();
                let body = response.into_body().collect().await.map_err(|error| anyhow!(error))?;
                Ok((code, body.to_bytes()))
            }
        }
    }

    fn unreachable(&self, error: anyhow::Error) -> anyhow::Error {
        let url = &self.base;
        let unchecked = error.chain().any(|cause| cause.to_string().contains("certificate"));
        let told = match (&self.way, unchecked) {
            (Way::Secure(_, trust), true) if *trust != Trust::Anyone => format!(
                "cannot ask the scheduler at {url}, whose certificate nobody here vouches for; name \
                 its authority with --certificate-authority, or have it go unchecked with \
                 --insecure-skip-tls-verify"
            ),
            _ => format!(
                "cannot ask the scheduler at {url}; is it there that it serves its metrics? Without \
                 --scheduler the answer is worked out from the objects of the cluster"
            ),
        };
        error.context(told)
    }
}

/// The page of a pod.
pub(super) fn page_of_pod(namespace: &str, pod: &str) -> String {
    page(&[("namespace", namespace), ("pod", pod)])
}

/// The page of a Reservation.
pub(super) fn page_of_reservation(name: &str) -> String {
    page(&[("reservation", name)])
}

/// The page of a gang.
pub(super) fn page_of_gang(namespace: &str, gang: &str) -> String {
    page(&[("namespace", namespace), ("gang", gang)])
}

fn page(query: &[(&str, &str)]) -> String {
    let mut written = form_urlencoded::Serializer::new(String::new());
    format!("/debug/why?{}", written.extend_pairs(query).finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_is_asked_beside_its_metrics_and_credentials_are_kept_from_plain_http() {
        assert_eq!(page_of_pod("a b", "p"), "/debug/why?namespace=a+b&pod=p");
        assert_eq!(page_of_reservation("a b"), "/debug/why?reservation=a+b");
        assert_eq!(page_of_gang("a b", "g"), "/debug/why?namespace=a+b&gang=g");
        let token = || Credentials::Token("t".to_owned());
        let check = |url: &str, plain: bool, expected: Result<&str, &str>| {
            let secure = Way::Secure(token(), Trust::System);
            match (Scheduler::at(url, token(), Trust::System, plain), expected) {
                (Ok(own), Ok(base)) => {
                    assert_eq!(own.base, base);
                    let is_plain = base.starts_with("http:");
                    assert_eq!(own.way, if is_plain { Way::Plain } else { secure });
                }
                (Err(error), Err(expected)) => {
                    let error = error.to_string();
                    assert!(error.starts_with(expected), "{error}");
                }
                (got, expected) => panic!("{url}: {got:?}, not {expected:?}"),
            }
        };
        for end in ["", "/", "/metrics"] {
            check(&format!("http://127.0.0.1:1{end}"), true, Ok("http://127.0.0.1:1"));
            check(&format!("https://127.0.0.1:1{end}"), false, Ok("https://127.0.0.1:1"));
        }
        let secret = "--scheduler http://127.0.0.1:1: tokens and authorities are for https";
        check("http://127.0.0.1:1", false, Err(secret));
        check("127.0.0.1:1", true, Err("--scheduler 127.0.0.1:1 is not a URL"));
        check("nonsense", true, Err("--scheduler nonsense is not a URL such as"));
    }
}
