//! What a component shows of itself: `/metrics`, `/metrics/slis`, `/healthz`, `/livez`, `/readyz`,
//! and pages of its own; over plain HTTP to whoever can reach it, or over HTTPS to whom a [`Guard`]
//! lets in.
//!
//! Health is a set of named checks. `/livez` (and `/healthz`) says whether the process
//! should go on, `/readyz` whether it does its work; each lists its checks with `?verbose`,
//! or when one fails, and answers for one check under `/readyz/<name>`, as Kubernetes'
//! own programs do.

mod certificate;
mod guard;
mod health;
mod listen;
mod room;
mod site;
mod slis;
mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http::header::{CONNECTION, HeaderValue};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use crate::metrics::Metrics;
use guard::Caller;
pub use guard::{Guard, GuardOptions};
pub use health::Health;
pub use listen::listen;
use room::{Room, Seat};
pub use site::{Answer, Site};
pub use tls::{Tls, TlsError};

/// How many connections are served at once; who comes then takes the place of somebody idle.
const CONNECTIONS_MAX: usize = 256;
/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may leave what is sent to it unread.
const UNREAD_FOR: Duration = Duration::from_secs(30);
/// How long the head of a request may be.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How long a connection on which nothing is under way is kept when the end has come: what was
/// answered is sent within that time, and who has sent half a request is not waited for.
const LINGER: Duration = Duration::from_millis(500);
/// How long to rest when the system has no file descriptor left.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// Why the endpoints cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another process has the port.
    #[error(
        "port {} of {} is in use; choose another port, or end the process that holds it \
         (`ss -ltnp 'sport = :{}'` names it)", .address.port(), .address.ip(), .address.port()
    )]
    InUse {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// The system refuses the address.
    #[error(
        "cannot listen on {address}: {source}; choose an address of this machine and a port \
             above 1023"
    )]
    Refused {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A port that is open, and not served yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Opens the port, as [`listen`] does.
    ///
    /// # Errors
    /// When the port is in use, or the address is not one of this machine.
    pub async fn bind(address: SocketAddr) -> Result<Self, ServeError> {
        let listener = listen(address).await?;
        let local = listener.local_addr();
        let port = local.map_err(|source| ServeError::Refused { address, source })?.port();
        Ok(Self { listener, address: SocketAddr::new(address.ip(), port) })
    }

    /// The address with the port that was opened.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `site` over plain HTTP until `stop` is cancelled, and ends the requests under way.
    pub async fn run(self, site: Site, stop: CancellationToken) {
        self.serve(Door { site, lock: None }, stop).await;
    }

    /// Serves `site` over HTTPS to those whom `guard` lets in, until `stop` is cancelled, and
    /// ends the requests under way.
    pub async fn run_guarded(self, site: Site, tls: Tls, guard: Guard, stop: CancellationToken) {
        let lock = Some((TlsAcceptor::from(tls.0), Arc::new(guard)));
        self.serve(Door { site, lock }, stop).await;
    }

    async fn serve(self, door: Door, stop: CancellationToken) {
        let mut connections = JoinSet::new();
        let room = Room::new(CONNECTIONS_MAX);
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accept(&self.listener, &room) => accepted,
            };
            let Ok((stream, seat)) = accepted else {
                tokio::time::sleep(ACCEPT_REST).await;
                continue;
            };
            connections.spawn(door.clone().open(stream, seat, stop.clone()));
            // Of one that panicked its client has heard already.
            while connections.try_join_next().is_some() {}
        }
        while connections.join_next().await.is_some() {}
    }
}

async fn accept(listener: &TcpListener, room: &Room) -> std::io::Result<(TcpStream, Seat)> {
    // Nobody has to go before somebody has come.
    let (stream, peer) = listener.accept().await?;
    Ok((stream, room.enter(peer.ip().to_canonical()).await))
}

/// What is behind a port, and who keeps it.
#[derive(Clone)]
struct Door {
    site: Site,
    lock: Option<(TlsAcceptor, Arc<Guard>)>,
}

impl Door {
    /// Serves one connection.
    async fn open(self, stream: TcpStream, seat: Seat, stop: CancellationToken) {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(UNREAD_FOR));
        let (stream, seat) = (Box::pin(stream), Arc::new(seat));
        let Some((acceptor, guard)) = self.lock else {
            return converse(self.site, None, stream, &seat, stop).await;
        };
        let shaken = tokio::select! {
            () = stop.cancelled() => return,
            () = seat.lost() => return,
            shaken = tokio::time::timeout(HEAD_TIMEOUT, acceptor.accept(stream)) => shaken,
        };
        let stream = match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "no TLS with a client"),
            Err(_) => return tracing::debug!("a client took too long to begin TLS"),
        };
        let shown: Arc<[_]> = stream.get_ref().1.peer_certificates().unwrap_or_default().into();
        converse(self.site, Some((guard, shown)), stream, &seat, stop).await;
    }
}

/// A guard, and the certificates that a connection has shown.
type Kept = (Arc<Guard>, Arc<[CertificateDer<'static>]>);

const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// The answer to one request, and whether it is known who has asked.
async fn answered(site: Site, kept: Option<Kept>, request: Request<Incoming>) -> (Answer, Caller) {
    let (parts, body) = request.into_parts();
    let Some((guard, shown)) = kept else {
        return (site.respond(parts, body).await, Caller::Stranger);
    };
    let (mut answer, caller) = match guard.admit(&parts, &shown).await {
        Ok(caller) => (site.respond(parts, body).await, caller),
        Err(denial) => (site::denied(&denial), Caller::Stranger),
    };
    if caller == Caller::Stranger {
        // Probes come over a connection of their own each time.
        answer.headers_mut().insert(CONNECTION, CLOSE);
    }
    (answer, caller)
}

async fn converse(
    site: Site,
    kept: Option<Kept>,
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    seat: &Arc<Seat>,
    stop: CancellationToken,
) {
    let own = seat.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (site, kept, seat) = (site.clone(), kept.clone(), own.clone());
        let work = seat.work();
        async move {
            let (answer, caller) = answered(site, kept, request).await;
            if caller == Caller::Known {
                seat.know();
            }
            drop(work);
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = seat.lost() => return tracing::debug!("an idle client had to go for another one"),
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            loop {
                match tokio::time::timeout(LINGER, connection.as_mut()).await {
                    Ok(ended) => break ended,
                    Err(_) if !seat.is_busy() => return,
                    Err(_) => {}
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use http_body_util::BodyExt as _;
    use prometheus_client::metrics::counter::Counter;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn got(health: &Health, metrics: &Metrics, path: &str) -> (u16, String) {
        let (parts, ()) = Request::get(path).body(()).unwrap().into_parts();
        let response = Site::new(metrics, health).answer(parts).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn each_endpoint_answers_for_its_checks() {
        let (health, metrics) = (Health::new(), Metrics::new());
        let synced = Arc::new(AtomicBool::new(false));
        health.add_live("engine", || Ok(()));
        health.add_ready("reflectors", {
            let synced = synced.clone();
            move || if synced.load(Ordering::Relaxed) { Ok(()) } else { Err("pods".into()) }
        });
        let check = async |path: &str, status: u16, body: &str| {
            assert_eq!(got(&health, &metrics, path).await, (status, body.to_owned()), "{path}");
        };
        check("/livez", 200, "ok").await;
        let failed = "[+]ping ok\n[+]engine ok\n[-]reflectors failed: pods\nreadyz check failed\n";
        check("/readyz", 500, failed).await;
        check("/readyz/engine", 200, "ok").await;
        check("/readyz/nothing", 404, "readyz has no check of that name\n").await;
        assert_eq!(health.check("engine"), Ok(()));
        assert_eq!(health.check("reflectors"), Err("pods".to_owned()));
        assert_eq!(health.check("nothing"), Err("not started".to_owned()));
        synced.store(true, Ordering::Relaxed);
        check("/readyz", 200, "ok").await;
        let all = "[+]ping ok\n[+]engine ok\nhealthz check passed\n";
        check("/healthz?verbose", 200, all).await;
        let paths = "/ is not served; /metrics, /metrics/slis, /healthz, /livez, /readyz are\n";
        check("/", 404, paths).await;
    }

    #[tokio::test]
    async fn metrics_are_text_that_every_scraper_reads() {
        let metrics = Metrics::new();
        let binds = metrics.register(|registry| {
            let counter: Counter = Counter::default();
            registry.register("gantry_binds", "Pods bound", counter.clone());
            counter
        });
        binds.inc();
        let (_, text) = got(&Health::new(), &metrics, "/metrics").await;
        assert_eq!(
            text,
            "# HELP gantry_binds_total Pods bound.\n# TYPE gantry_binds_total counter\n\
             gantry_binds_total 1\n"
        );
    }

    #[tokio::test]
    async fn a_port_in_use_is_named_and_a_free_one_serves() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(any).await.unwrap();
        let address = server.address();
        let error = Server::bind(address).await.unwrap_err().to_string();
        let port = address.port();
        assert!(error.starts_with(&format!("port {port} of 127.0.0.1 is in use; ")), "{error}");

        let stop = CancellationToken::new();
        let running =
            tokio::spawn(server.run(Site::new(&Metrics::new(), &Health::new()), stop.clone()));
        let answer = tokio::task::spawn_blocking(move || {
            use std::io::{Read as _, Write as _};
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream
                .write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        let answer = answer.await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok"), "{answer}");
        stop.cancel();
        running.await.unwrap();
    }

    #[tokio::test]
    async fn the_end_waits_for_what_is_under_way_and_not_for_half_a_request() {
        let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let (address, stop) = (server.address(), CancellationToken::new());
        let heard = std::sync::Arc::new(tokio::sync::Notify::new());
        let hears = heard.clone();
        let slow = move |_: http::request::Parts| {
            let hears = hears.clone();
            async move {
                hears.notify_one();
                tokio::time::sleep(2 * LINGER).await;
                Answer::new(http_body_util::Full::new("late".into()))
            }
        };
        let site = Site::new(&Metrics::new(), &Health::new()).page("/slow", slow);
        let running = tokio::spawn(server.run(site, stop.clone()));
        let connect = async |head: &[u8]| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(head).await.unwrap();
            stream
        };
        let mut half = connect(b"GET /livez HTTP/1.1\r\nHo").await;
        let mut idle = connect(b"").await;
        let mut asked = connect(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await;
        // Connections are taken up in the order in which they come: so are those before it.
        heard.notified().await;
        let begun = Instant::now();
        stop.cancel();
        running.await.unwrap();
        assert!(begun.elapsed() < HEAD_TIMEOUT / 2, "{:?}", begun.elapsed());
        let mut answer = String::new();
        asked.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("late"), "{answer}");
        for cut in [&mut half, &mut idle] {
            let mut nothing = String::new();
            assert_eq!(cut.read_to_string(&mut nothing).await.unwrap_or_default(), 0);
        }
    }

    /// A server of `site` on a port of its own.
    async fn running(site: Site) -> (SocketAddr, CancellationToken) {
        let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let (address, stop) = (server.address(), CancellationToken::new());
        tokio::spawn(server.run(site, stop.clone()));
        (address, stop)
    }

    async fn asked(address: SocketAddr, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
            .await
            .unwrap();
        stream
    }

    #[tokio::test]
    async fn those_who_only_stay_do_not_keep_out_who_comes() {
        let (address, stop) = running(Site::new(&Metrics::new(), &Health::new())).await;
        let mut head = [0; 12];
        let mut stay = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            let mut stream = asked(address, "/healthz").await;
            stream.read_exact(&mut head).await.unwrap();
            stay.push(stream);
        }
        let mut comes = asked(address, "/livez").await;
        let answer = tokio::time::timeout(HEAD_TIMEOUT / 2, comes.read_exact(&mut head));
        answer.await.expect("nobody has to wait").unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(HEAD_TIMEOUT / 2, stay[0].read_to_end(&mut rest));
        ended.await.expect("the first one had to go").unwrap_or_default();
        stop.cancel();
    }

    #[tokio::test]
    async fn who_does_not_read_the_answer_cannot_stay() {
        const LONG: usize = 64 << 20;
        let page = async |_| Answer::new(http_body_util::Full::new(vec![b'x'; LONG].into()));
        let site = Site::new(&Metrics::new(), &Health::new()).page("/long", page);
        let (address, stop) = running(site).await;
        let mut stream = asked(address, "/long").await;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        // The clock jumps ahead while nothing goes on.
        tokio::time::pause();
        tokio::time::sleep(2 * UNREAD_FOR).await;
        tokio::time::resume();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert!(rest.len() < LONG, "{}", rest.len());
        stop.cancel();
    }
}
