//! A drydock behind TLS, for clients that are other programs.
//!
//! This module alone opens sockets, writes a file, and takes secrets from the system's randomness.
#![expect(clippy::disallowed_methods, reason = "clients that are slow are met on the real clock")]

mod authority;
mod kubeconfig;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
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
pub use kubeconfig::{Kubeconfig, KubeconfigError, WrittenKubeconfig};

use crate::Drydock;

/// How many connections are open at once; further ones wait.
const CONNECTIONS_MAX: usize = 4096;
/// How long a client may take to shake hands, to send the head of a request, and to show that it
/// may enter: who cannot must not keep out those who can.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the other end of an HTTP/2 connection is asked whether it is still there.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(30);
/// How long a client may leave what is sent to it unread.
const UNREAD_FOR: Duration = Duration::from_secs(60);
/// How many requests one HTTP/2 connection may have under way.
const STREAMS_PER_CONNECTION_MAX: u32 = 1000;
/// How much a client may send before it must wait, per stream and per connection.
const WINDOW_BYTES: u32 = 1024 * 1024;

/// A listener that could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another program has the port.
    #[error("port {} on {} is in use: stop what listens there, or choose another port", .0.port(), .0.ip())]
    InUse(SocketAddr),
    /// Anything else.
    #[error("cannot listen on {address}")]
    Other {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
}

/// Opens a listener.
///
/// # Errors
/// When the port is taken or the address is not ours.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        std::io::ErrorKind::AddrInUse => ListenError::InUse(address),
        _ => ListenError::Other { address, source },
    })
}

/// Serves until told to stop, then lets requests under way finish within a bound; watches are
/// ended at once.
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
    if tokio::time::timeout(PATIENCE, connections.wait()).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
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
    let stream = match tokio::time::timeout(PATIENCE, acceptor.accept(Box::pin(stream))).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a client could not shake hands"),
        Err(_) => return tracing::debug!("a client took too long to shake hands"),
    };
    let known = CancellationToken::new();
    let service = service_fn(|request| {
        let (drydock, known) = (drydock.clone(), known.clone());
        async move {
            let answer = drydock.answer(request).await;
            if answer.status() != StatusCode::UNAUTHORIZED {
                known.cancel();
            }
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
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
            // A watch would hold the connection until it times out.
            match tokio::time::timeout(Duration::from_secs(1), connection).await {
                Ok(result) => result,
                Err(_) => Ok(()),
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended badly");
    }
}
