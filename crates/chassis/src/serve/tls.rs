//! The certificate that a component shows, and the ones that its clients may show.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, SanType};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {reason}; it must be PEM, and readable by this process", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate for {}: {source}", .names.join(", "))]
    Certificate {
        /// For whom.
        names: Vec<String>,
        /// Why not.
        source: rcgen::Error,
    },
    /// The certificate and the key cannot be used.
    #[error("cannot serve TLS: {0}; certificate and key must belong together")]
    Unusable(#[from] rustls::Error),
}

/// What a server shows its clients.
#[derive(Debug, Clone)]
pub struct Tls(pub(crate) Arc<ServerConfig>);

impl Tls {
    /// A certificate for these host names and addresses that this process makes and signs
    /// itself, and forgets at its end: who connects cannot know whom it talks to.
    ///
    /// # Errors
    /// When a name is not one.
    pub fn self_signed(names: &[String]) -> Result<Self, TlsError> {
        let failed = |source| TlsError::Certificate { names: names.to_vec(), source };
        let (certificate, key) = make(names).map_err(failed)?;
        Self::new(vec![certificate], key)
    }

    /// The certificates and the key in these files, in PEM: the server's own first, then those
    /// that lead to the authority.
    ///
    /// # Errors
    /// When a file cannot be read, or they do not belong together.
    pub fn from_files(certificates: &Path, key: &Path) -> Result<Self, TlsError> {
        let unreadable =
            |file: &Path, reason: String| TlsError::Unreadable { file: file.to_owned(), reason };
        let read =
            |file: &Path| std::fs::read(file).map_err(|error| unreadable(file, error.to_string()));
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(&read(certificates)?).collect();
        let chain = chain.map_err(|error| unreadable(certificates, error.to_string()))?;
        if chain.is_empty() {
            return Err(unreadable(certificates, "there is no certificate in it".to_owned()));
        }
        let secret = PrivateKeyDer::from_pem_slice(&read(key)?)
            .map_err(|error| unreadable(key, error.to_string()))?;
        Self::new(chain, secret)
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(Arc::new(Anybody(provider)))
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

fn make(
    names: &[String],
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "gantry");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    for name in names {
        params.subject_alt_names.push(match name.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(name.as_str().try_into()?),
        });
    }
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok((certificate.der().clone(), key))
}

/// Lets a client show any certificate whose key it has. Whom it names, and whether that is to
/// be believed, is for the guard to say, who knows the authorities of the moment.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ClientCertVerifier for Anybody {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::net::SocketAddr;

    use http::Method;
    use prometheus_client::metrics::counter::Counter;
    use rcgen::{BasicConstraints, IsCa, Issuer};
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::super::{Guard, GuardOptions, Health, Metrics, Server, Site};
    use super::*;
    use crate::client::{Call, Client, Options, Source};
    use crate::fake::{Reply, Script};

    /// A kubeconfig that reaches a server, whatever it shows, with a user of these fields.
    fn kubeconfig(folder: &Path, address: SocketAddr, user: &str) -> Source {
        let text = format!(
            "{{current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], clusters: \
             [{{name: c, cluster: {{server: 'https://{address}', insecure-skip-tls-verify: true}}}}], \
             users: [{{name: u, user: {{{user}}}}}]}}"
        );
        let path = folder.join("kubeconfig");
        std::fs::write(&path, text).unwrap();
        Source::File { path, context: None }
    }

    async fn got(source: &Source, path: &str) -> String {
        let client = Client::connect(source, &Options::new("test")).await.unwrap();
        match client.call_bytes(Call::new(Method::GET, path)).await {
            Ok(body) => String::from_utf8(body.to_vec()).unwrap(),
            Err(error) => error.refusal().map_or(error.to_string(), |refusal| refusal.to_string()),
        }
    }

    /// Whether the connection ends with the answer.
    async fn is_closed(source: &Source, path: &str) -> bool {
        let client = Client::connect(source, &Options::new("test")).await.unwrap();
        let request = http::Request::get(path).body(crate::client::Body::empty()).unwrap();
        let answer = client.send(request).await.unwrap();
        answer.headers().get("connection").is_some_and(|value| value == "close")
    }

    #[tokio::test]
    async fn a_guarded_port_speaks_tls_and_knows_who_shows_a_certificate() {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "jane");
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap().pem();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("crt"), certificate).unwrap();
        std::fs::write(folder.path().join("key"), key.serialize_pem()).unwrap();

        let denied = json!({ "status": { "allowed": false } }).to_string();
        let map = json!({ "data": { "client-ca-file": authority } }).to_string();
        let script = Script::new([Reply::new(201, &denied), Reply::new(200, &map)]);
        let guard = Guard::new(&script.client(&Options::new("test")), GuardOptions::default());
        let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let (address, stop) = (server.address(), CancellationToken::new());
        let metrics = Metrics::new();
        let visits: Counter = Counter::default();
        metrics.register(|registry| registry.register("test_visits", "Visits", visits));
        let site = Site::new(&metrics, &Health::new());
        let tls = Tls::self_signed(&["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let running = tokio::spawn(server.run_guarded(site, tls, guard, stop.clone()));

        let nobody = kubeconfig(folder.path(), address, "");
        assert_eq!(got(&nobody, "/healthz").await, "ok");
        assert!(is_closed(&nobody, "/healthz").await);
        let want = "forbidden: User \"system:anonymous\" cannot get path \"/metrics\" (403)";
        assert_eq!(got(&nobody, "/metrics").await, want);
        let mut user = String::new();
        for (field, file) in [("client-certificate", "crt"), ("client-key", "key")] {
            let _ = write!(user, "{field}: '{}', ", folder.path().join(file).display());
        }
        let jane = kubeconfig(folder.path(), address, &user);
        let shown = got(&jane, "/metrics").await;
        assert!(shown.lines().any(|line| line == "test_visits_total 0"), "{shown}");
        assert!(!is_closed(&jane, "/metrics").await);
        assert!(is_closed(&jane, "/healthz").await, "it was not asked who that is");
        stop.cancel();
        running.await.unwrap();
    }

    #[test]
    fn what_is_wrong_with_a_certificate_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let (_, other) = make(&["a".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::default().self_signed(&key).unwrap().pem();
        std::fs::write(file("crt"), &certificate).unwrap();
        std::fs::write(file("key"), key.serialize_pem()).unwrap();
        std::fs::write(file("der"), other.secret_der()).unwrap();
        std::fs::write(file("empty"), "").unwrap();
        let foreign = KeyPair::generate().unwrap().serialize_pem();
        std::fs::write(file("foreign"), foreign).unwrap();
        let check = |certificate: &str, key: &str, want: &str| {
            let got = Tls::from_files(&file(certificate), &file(key)).map(|_| ());
            let got = got.err().map_or("ok".to_owned(), |error| error.to_string());
            let got = got.replace(&folder.path().display().to_string(), "D");
            assert!(got.starts_with(want), "{certificate} {key}: {got}");
        };
        check("crt", "key", "ok");
        check("crt", "foreign", "cannot serve TLS: ");
        check("crt", "der", "cannot read D/der: ");
        check("crt", "none", "cannot read D/none: No such file");
        check("empty", "key", "cannot read D/empty: there is no certificate in it; it must be PEM");
        let error = Tls::self_signed(&["é".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("cannot make a certificate for é: "), "{error}");
    }
}
