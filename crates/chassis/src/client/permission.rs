//! Whether this process may write, asked at the last moment.
//!
//! A request waits before it is sent: for its turn among others, for a credential, for a
//! connection to open. Whoever may write only for a time, as a leader does, must not be held to
//! what was true before all that. So a write carries its permission with it, and is asked for it
//! when its connection takes its body: nothing of it has gone over the wire then.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request};
use http_body::{Frame, SizeHint};
use kube::client::Body;
use tower::BoxError;

use super::innermost_cause;

/// Says whether a write may be sent now; it is cheap, and asked for each.
#[derive(Clone)]
pub(super) struct Permission(Arc<dyn Fn() -> bool + Send + Sync>);

impl Permission {
    pub(super) fn new(ask: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// Has a request ask, where it is a write.
    pub(super) fn attach(&self, request: &mut Request<Body>) {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            request.extensions_mut().insert(self.clone());
        }
    }

    /// What a request carries with it.
    pub(super) fn of(request: &Request<Body>) -> Option<Self> {
        request.extensions().get().cloned()
    }

    pub(super) fn ask(&self) -> Result<(), Withheld> {
        if (self.0)() { Ok(()) } else { Err(Withheld) }
    }
}

/// A write was not sent, since it may not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Withheld;

impl Withheld {
    /// Whether that is why something failed.
    pub(super) fn is_cause(error: &BoxError) -> bool {
        innermost_cause(error.as_ref()).is::<Self>()
    }
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this process may not write now")
    }
}

impl std::error::Error for Withheld {}

/// A body that asks before it is given to a connection.
pub(super) struct Outgoing {
    body: Body,
    permission: Option<Permission>,
}

/// The request with the body that asks for what the request carried.
pub(super) fn outgoing(mut request: Request<Body>) -> Request<Outgoing> {
    let permission = request.extensions_mut().remove::<Permission>();
    request.map(|body| Outgoing { body, permission })
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(permission) = self.permission.take()
            && let Err(withheld) = permission.ask()
        {
            return Poll::Ready(Some(Err(withheld.into())));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use jiff::Timestamp;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::super::{Access, Client, Error, Options, Rate, ResourceType, Source};
    use super::*;
    use crate::clock::Clock;
    use crate::fake::{Reply, Script};
    use crate::serve::Tls;

    fn pods(client: &Client) -> Access<Value> {
        client.access(ResourceType::namespaced("", "v1", "pods"), "shop")
    }

    /// A client that may write while the flag is up.
    fn guarded(client: &Client) -> (Client, Arc<AtomicBool>) {
        let may = Arc::new(AtomicBool::new(true));
        let own = may.clone();
        (client.guarded(move || own.load(Ordering::Relaxed)), may)
    }

    #[tokio::test]
    async fn only_writes_ask_and_what_is_refused_is_not_sent() {
        let script = Script::new(vec![Reply::new(200, "{}"); 4]);
        let free = script.client(&Options::new("test"));
        let (client, may) = guarded(&free);
        pods(&client).create(&json!({})).await.unwrap();
        may.store(false, Ordering::Relaxed);
        let error = pods(&client).create(&json!({})).await.unwrap_err();
        assert!(matches!(error, Error::NotAllowed { .. }) && error.is_unsent(), "{error}");
        let want =
            "POST /api/v1/namespaces/shop/pods: not sent, since this process may not write now";
        assert_eq!(error.to_string(), want);
        let error = pods(&client.apart(1, None)).create(&json!({})).await.unwrap_err();
        assert!(error.is_unsent(), "{error}");
        pods(&client).get("a").await.unwrap();
        pods(&free).create(&json!({})).await.unwrap();
        let verbs: Vec<String> = script.lines().iter().map(|line| line[..4].to_owned()).collect();
        assert_eq!(verbs, ["POST", "GET ", "POST"]);
    }

    #[tokio::test]
    async fn a_write_that_waited_for_its_turn_asks_afterwards() {
        let (clock, hand) = Clock::manual(Timestamp::UNIX_EPOCH);
        let script = Script::new(vec![Reply::new(200, "{}"); 2]);
        let rate = Some(Rate { qps: 1.0, burst: 1 });
        let (client, may) =
            guarded(&script.client(&Options { clock, rate, ..Options::new("test") }));
        pods(&client).create(&json!({})).await.unwrap();
        let waits = tokio::spawn({
            let pods = pods(&client);
            async move { pods.create(&json!({})).await }
        });
        while hand.next_due() != Some(Duration::from_secs(1)) {
            tokio::task::yield_now().await;
        }
        may.store(false, Ordering::Relaxed);
        hand.advance(Duration::from_secs(1));
        let error = waits.await.unwrap().unwrap_err();
        assert!(error.is_unsent(), "{error}");
        assert_eq!(script.lines().len(), 1);
    }

    /// A client of a server on a port of this machine, and the port.
    async fn across_a_port() -> (Client, TcpListener) {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let address = listener.local_addr().unwrap();
        let text = format!(
            "{{current-context: c, contexts: [{{name: c, context: {{cluster: c}}}}], clusters: \
             [{{name: c, cluster: {{server: 'https://{address}', insecure-skip-tls-verify: true}}}}]}}"
        );
        std::fs::write(&path, text).unwrap();
        let source = Source::File { path, context: None };
        (Client::connect(&source, &Options::new("test")).await.unwrap(), listener)
    }

    #[tokio::test]
    async fn a_write_that_waited_for_its_connection_asks_afterwards() {
        let check = async |may_still: bool| {
            let (client, listener) = across_a_port().await;
            let (client, may) = guarded(&client);
            let write = tokio::spawn({
                let pods = pods(&client);
                async move { pods.create(&json!({})).await }
            });
            let (stream, _) = listener.accept().await.unwrap();
            may.store(may_still, Ordering::Relaxed);
            let tls = Tls::self_signed(&["127.0.0.1".to_owned()]).unwrap();
            let mut stream = TlsAcceptor::from(tls.0).accept(stream).await.unwrap();
            let mut heard = vec![0; 4096];
            // A connection that is torn down is as good as one at its end.
            let count = stream.read(&mut heard).await.unwrap_or(0);
            if may_still {
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            let unsent = write.await.unwrap().map_err(|error| error.is_unsent());
            let heard = String::from_utf8_lossy(&heard[..count]).into_owned();
            (heard.split_once(' ').map(|(verb, _)| verb.to_owned()), unsent)
        };
        assert_eq!(check(true).await, (Some("POST".to_owned()), Ok(json!({}))));
        assert_eq!(check(false).await, (None, Err(true)));
    }
}
