use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::connection::{Identity, Pem, Trust};

const LIMITS: Limits = Limits { timeout: Duration::from_secs(5), bytes_max: 1000 };

fn open() -> Security {
    Security { trust: Trust::System, server_name: None, identity: None }
}

fn pem(text: &str) -> Pem {
    Pem::Inline(text.into())
}

/// Takes one request and says this.
async fn say(mut stream: impl AsyncRead + AsyncWrite + Unpin, words: &str) {
    let mut request = [0; 4096];
    if stream.read(&mut request).await.unwrap_or(0) > 0 {
        let _ = stream.write_all(words.as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}

fn answer(code: &str, body: &str) -> String {
    format!("HTTP/1.1 {code}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// What comes of asking one who says this.
async fn asked(words: String, limits: Limits) -> Result<(u16, String), PostError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        if words.is_empty() {
            std::future::pending::<()>().await;
        }
        say(stream, &words).await;
    });
    let uri: Uri = format!("http://{address}/f").parse().unwrap();
    let peer = Peer::new(&uri, &open(), LIMITS.timeout, &Clock::system()).unwrap();
    let answer = peer.post(&uri, Bytes::from_static(b"{}"), limits).await;
    server.abort();
    answer.map(|(code, body)| (code.as_u16(), String::from_utf8_lossy(&body).into_owned()))
}

#[tokio::test]
async fn an_answer_comes_whole_and_in_time_or_not_at_all() {
    let good = asked(answer("200 OK", "{}"), LIMITS).await;
    assert_eq!(good, Ok((200, "{}".to_owned())));
    let bad = asked(answer("500 Oh", "no"), LIMITS).await;
    assert_eq!(bad, Ok((500, "no".to_owned())));
    let long = asked(answer("200 OK", &"x".repeat(1001)), LIMITS).await;
    assert_eq!(long, Err(PostError::TooLong(1000)));
    let broken = asked("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".to_owned(), LIMITS).await;
    assert!(matches!(broken, Err(PostError::Broken(_))), "{broken:?}");
    let short = Limits { timeout: Duration::from_millis(50), ..LIMITS };
    assert_eq!(asked(String::new(), short).await, Err(PostError::TimedOut));
    // Bound, so that nobody else gets the port, and not listened at.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let nobody = socket.local_addr().unwrap();
    let uri: Uri = format!("http://{nobody}/f").parse().unwrap();
    let peer = Peer::new(&uri, &open(), LIMITS.timeout, &Clock::system()).unwrap();
    let refused = peer.post(&uri, Bytes::new(), LIMITS).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("dial tcp {nobody}: connect: connection refused"));
}

#[tokio::test]
async fn a_post_asks_when_its_connection_is_there_whether_it_may_be_sent() {
    let check = async |answers: &'static [bool], want: Result<u16, PostError>| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri: Uri = format!("http://{}/f", listener.local_addr().unwrap()).parse().unwrap();
        let is_connected = answers.len() > 1;
        let answers = Mutex::new(answers.iter());
        let may = move || *answers.lock().unwrap().next().expect("it is asked twice at most");
        let peer = Peer::new(&uri, &open(), LIMITS.timeout, &Clock::system()).unwrap().guarded(may);
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut heard = [0; 4096];
            let count = stream.read(&mut heard).await.unwrap_or(0);
            if count > 0 {
                stream.write_all(answer("200 OK", "{}").as_bytes()).await.unwrap();
            }
            count
        });
        let got = peer.post(&uri, Bytes::from_static(b"{}"), LIMITS).await;
        let got = got.map(|(code, _)| code.as_u16());
        assert_eq!(got, want);
        if is_connected {
            assert_eq!(server.await.unwrap() > 0, want.is_ok());
        } else {
            server.abort();
        }
    };
    check(&[true, true], Ok(200)).await;
    check(&[true, false], Err(PostError::NotAllowed)).await;
    check(&[false], Err(PostError::NotAllowed)).await;
}

/// A certificate for this name that signed itself, and its key, in PEM.
fn made(name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
    (own.pem(), key.serialize_pem())
}

/// What comes of asking a server named `extender.example` that knows one client.
async fn secured(security: impl Fn(&str, (String, String)) -> Security) -> Result<u16, PostError> {
    let (server, client) = (made("extender.example"), made("client"));
    let mut roots = rustls::RootCertStore::empty();
    for der in CertificateDer::pem_slice_iter(client.0.as_bytes()) {
        roots.add(der.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let chain = CertificateDer::pem_slice_iter(server.0.as_bytes()).map(Result::unwrap).collect();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(chain, PrivateKeyDer::from_pem_slice(server.1.as_bytes()).unwrap())
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri: Uri = format!("https://{}/f", listener.local_addr().unwrap()).parse().unwrap();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        if let Ok(stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await {
            say(stream, &answer("200 OK", "{}")).await;
        }
    });
    let peer =
        Peer::new(&uri, &security(&server.0, client), LIMITS.timeout, &Clock::system()).unwrap();
    let answer = peer.post(&uri, Bytes::from_static(b"{}"), LIMITS).await;
    serving.abort();
    answer.map(|(code, _)| code.as_u16())
}

#[tokio::test]
async fn a_connection_is_secured_as_it_was_asked_for() {
    let of = |(certificate, key): (String, String)| {
        Some(Identity { certificate: pem(&certificate), key: pem(&key) })
    };
    let name = || Some("extender.example".to_owned());
    let authorities = |of: &str| Trust::Authorities(pem(of));
    let good = secured(|server, client| Security {
        trust: authorities(server),
        server_name: name(),
        identity: of(client),
    });
    assert_eq!(good.await, Ok(200));
    let anyone =
        |_: &str, client| Security { trust: Trust::Anyone, identity: of(client), ..open() };
    assert_eq!(secured(anyone).await, Ok(200));
    let unnamed = |server: &str, client| Security {
        trust: authorities(server),
        identity: of(client),
        ..open()
    };
    let error = secured(unnamed).await.unwrap_err();
    assert!(matches!(error, PostError::Unreachable(_)), "{error:?}");
    let strange = |_: &str, client| Security {
        trust: authorities(&made("other").0),
        server_name: name(),
        identity: of(client),
    };
    let error = secured(strange).await.unwrap_err();
    assert!(matches!(error, PostError::Unreachable(_)), "{error:?}");
    let nobody = |server: &str, _| Security {
        trust: authorities(server),
        server_name: name(),
        identity: None,
    };
    assert!(secured(nobody).await.is_err(), "it wants to know who asks");
}

#[test]
fn what_cannot_be_used_is_said_at_once() {
    let uri = Uri::from_static("https://h");
    let check = |security: Security, part: &str| {
        let error =
            Peer::new(&uri, &security, LIMITS.timeout, &Clock::system()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    check(Security { trust: Trust::Authorities(pem("no")), ..open() }, "no certificate");
    let identity = Some(Identity { certificate: pem("no"), key: pem("no") });
    check(Security { trust: Trust::Anyone, identity, ..open() }, "private key");
}
