//! A drydock behind TLS, for clients that are other programs.
//!
//! This module alone talks over sockets, which others open; it alone writes a file, and takes secrets
//! from the system's randomness.
#![expect(clippy::disallowed_methods, reason = "clients that are slow are met on the real clock")]

mod authority;
mod kubeconfig;

use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use authority::{Authority, AuthorityError, secret, seed};
pub use kubeconfig::{Entry, Kubeconfig, KubeconfigError, WrittenKubeconfig};

use crate::Drydock;
use crate::router::Admitted;

/// How many connections are open at once; further ones wait.
const CONNECTIONS_MAX: usize = 4096;
/// How long a client may take to shake hands and to show that it may enter: who cannot must not
/// keep out those who can.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the head of the next request may take to come over an HTTP/1 connection, as long as
/// kube-apiserver keeps one that is idle.
const IDLE_FOR: Duration = Duration::from_secs(90);
/// How often the other end of an HTTP/2 connection is asked whether it is still there.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(30);
/// How long a client may leave what is sent to it unread.
const UNREAD_FOR: Duration = Duration::from_secs(60);
/// How long a connection may go on at the end: a watch would hold it until it times out.
const END_WITHIN: Duration = Duration::from_secs(1);
/// How many requests one HTTP/2 connection may have under way.
const STREAMS_PER_CONNECTION_MAX: u32 = 1000;
/// How much a client may send before it must wait, per stream and per connection.
const WINDOW_BYTES: u32 = 1024 * 1024;

/// Serves until told to stop, then lets requests under way finish within a bound, after which
/// every connection is ended.
pub async fn serve(
    drydock: Drydock,
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    stop: CancellationToken,
) {
    let acceptor = TlsAcceptor::from(tls);
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: what is open must be able to go on.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { break };
        let (drydock, acceptor, stop) = (drydock.clone(), acceptor.clone(), stop.clone());
        connections.spawn(async move {
            converse(drydock, acceptor, stream, stop).await;
            drop(permit);
        });
    }
    connections.close();
    connections.wait().await;
}

async fn converse(
    drydock: Drydock,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    stop: CancellationToken,
) {
    // Small answers must not wait for more to come; failing to say so costs time only.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(UNREAD_FOR));
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(PATIENCE, acceptor.accept(Box::pin(stream))) => shaken,
        () = stop.cancelled() => return,
    };
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a client could not shake hands"),
        Err(_) => return tracing::debug!("a client took too long to shake hands"),
    };
    let known = CancellationToken::new();
    let service = service_fn(|mut request| {
        request.extensions_mut().insert(Admitted(known.clone()));
        let drydock = drydock.clone();
        async move { Ok::<_, std::convert::Infallible>(drydock.answer(request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE_FOR);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE_EVERY)
        .keep_alive_timeout(PATIENCE)
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let unknown_for_long = async {
        if tokio::time::timeout(PATIENCE, known.cancelled()).await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = unknown_for_long => {
            return tracing::debug!("a client did not say in time who it is");
        }
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(END_WITHIN, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended badly");
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::SocketAddr;

    use bytes::Bytes;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;

    use super::*;
    use crate::Config;
    use crate::env::ManualEnv;
    use crate::request::Identity;
    use crate::request::authenticate::Credential;

    /// A server that runs.
    struct Running {
        address: SocketAddr,
        token: String,
        certificate_pem: String,
        stop: CancellationToken,
        task: tokio::task::JoinHandle<()>,
    }

    impl Running {
        async fn start() -> Self {
            let Authority { server, certificate_pem } =
                Authority::new(&["127.0.0.1".to_owned()]).unwrap();
            let token = secret().unwrap();
            let identity = Identity { user: "admin".to_owned(), groups: Vec::new() };
            let credentials = vec![Credential { token: token.clone(), identity }];
            let config = Config { credentials, ..Config::default() };
            let drydock = Drydock::new(config, ManualEnv::new(jiff::Timestamp::UNIX_EPOCH, 1));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let stop = CancellationToken::new();
            let task = tokio::spawn(serve(drydock, listener, server, stop.clone()));
            Self { address, token, certificate_pem, stop, task }
        }

        /// A connection whose handshake is over.
        async fn connect(&self) -> TlsStream<TcpStream> {
            let mut roots = rustls::RootCertStore::empty();
            let certificate = CertificateDer::from_pem_slice(self.certificate_pem.as_bytes());
            roots.add(certificate.unwrap()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let client = rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
            let connector = TlsConnector::from(Arc::new(client));
            let name = ServerName::try_from("127.0.0.1").unwrap();
            let stream = TcpStream::connect(self.address).await.unwrap();
            connector.connect(name, stream).await.unwrap()
        }
    }

    /// A connection whose handshake is over, and the server's token.
    async fn connected() -> (TlsStream<TcpStream>, String) {
        let server = Running::start().await;
        (server.connect().await, server.token)
    }

    async fn ask(stream: &mut TlsStream<TcpStream>, token: &str) -> String {
        let head =
            format!("GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = vec![0; 4096];
        let length = stream.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    }

    /// Whether the server ends the connection within `patience` of a clock that jumps ahead.
    async fn is_ended(stream: &mut TlsStream<TcpStream>, patience: Duration) -> bool {
        let mut rest = [0; 1];
        let ended = within(patience, stream.read(&mut rest)).await;
        ended.is_some_and(|read| read.map_or(true, |length| length == 0))
    }

    /// What comes within `patience` of a clock that jumps ahead.
    async fn within<F: Future>(patience: Duration, coming: F) -> Option<F::Output> {
        tokio::time::pause();
        #[expect(clippy::disallowed_methods, reason = "a test waits for what it tests")]
        let came = tokio::time::timeout(patience, coming).await;
        tokio::time::resume();
        came.ok()
    }

    #[tokio::test]
    async fn who_does_not_say_who_it_is_cannot_stay() {
        let (mut silent, _) = connected().await;
        assert!(is_ended(&mut silent, PATIENCE * 2).await);
        let (mut stranger, _) = connected().await;
        assert!(ask(&mut stranger, "guess").await.starts_with("HTTP/1.1 401 "));
        assert!(is_ended(&mut stranger, PATIENCE * 2).await);
    }

    #[tokio::test]
    async fn nobody_holds_up_the_end() {
        let server = Running::start().await;
        let _silent = TcpStream::connect(server.address).await.unwrap();
        // Connections are taken up in order: by now the server has the first one, too.
        let mut watching = server.connect().await;
        let head = format!(
            "GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
            server.token
        );
        watching.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 13];
        watching.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 ");
        server.stop.cancel();
        assert!(within(END_WITHIN * 2, server.task).await.is_some_and(|ended| ended.is_ok()));
    }

    #[tokio::test]
    async fn who_may_enter_may_stay_and_take_its_time() {
        let (mut known, token) = connected().await;
        assert!(ask(&mut known, &token).await.starts_with("HTTP/1.1 200 "));
        assert!(!is_ended(&mut known, PATIENCE * 2).await);
        assert!(ask(&mut known, &token).await.starts_with("HTTP/1.1 200 "));
        assert!(is_ended(&mut known, IDLE_FOR * 2).await, "but not for ever");
    }

    #[tokio::test]
    async fn a_first_request_may_take_longer_than_it_may_take_to_enter() {
        let (mut known, token) = connected().await;
        let head = format!(
            "GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: 2\r\n\r\n{{"
        );
        known.write_all(head.as_bytes()).await.unwrap();
        assert!(!is_ended(&mut known, PATIENCE * 2).await);
        known.write_all(b"}").await.unwrap();
        let mut answer = [0; 13];
        known.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 ");
    }

    #[tokio::test]
    async fn so_it_may_over_http_2() {
        let (known, token) = connected().await;
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(known))
                .await
                .unwrap();
        tokio::spawn(connection);
        let (body, pieces) = futures::channel::mpsc::unbounded::<Result<_, Infallible>>();
        let request = http::Request::get("https://x/healthz")
            .header(http::header::AUTHORIZATION, format!("Bearer {token}"))
            .body(StreamBody::new(pieces));
        let mut answer = std::pin::pin!(sender.send_request(request.unwrap()));
        body.unbounded_send(Ok(Frame::data(Bytes::from_static(b"{")))).unwrap();
        assert!(within(PATIENCE * 2, &mut answer).await.is_none(), "it is not over");
        body.unbounded_send(Ok(Frame::data(Bytes::from_static(b"}")))).unwrap();
        drop(body);
        assert_eq!(answer.await.unwrap().status(), 200);
    }
}
