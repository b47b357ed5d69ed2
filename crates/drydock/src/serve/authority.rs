//! The certificate authority of one server, and the secrets it hands out.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// What went wrong while certificates were made.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A certificate could not be made.
    #[error("cannot make a certificate for {names:?}")]
    Certificate {
        /// For whom.
        names: Vec<String>,
        /// Why not.
        source: rcgen::Error,
    },
    /// The TLS library does not take the certificate.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

/// An authority with one server certificate.
pub struct Authority {
    /// The authority's own certificate, which clients must trust, as PEM.
    pub certificate_pem: String,
    /// What the server presents.
    pub server: Arc<rustls::ServerConfig>,
}

impl Authority {
    /// Makes an authority, and a certificate for these host names and addresses.
    ///
    /// # Errors
    /// When a name is not one.
    pub fn new(names: &[String]) -> Result<Self, AuthorityError> {
        let failed = |source| AuthorityError::Certificate { names: names.to_vec(), source };
        let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, "drydock-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.self_signed(&key).map_err(failed)?;
        let issuer = Issuer::new(params, key);
        let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, "drydock");
        for name in names {
            params.subject_alt_names.push(subject(name).map_err(failed)?);
        }
        let server_key = KeyPair::generate().map_err(failed)?;
        let server = params.signed_by(&server_key, &issuer).map_err(failed)?;
        let chain = vec![server.der().clone(), certificate.der().clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { certificate_pem: certificate.pem(), server: Arc::new(config) })
    }
}

fn subject(name: &str) -> Result<SanType, rcgen::Error> {
    match name.parse::<IpAddr>() {
        Ok(address) => Ok(SanType::IpAddress(address)),
        Err(_) => Ok(SanType::DnsName(name.try_into()?)),
    }
}

/// A token that cannot be guessed.
///
/// # Errors
/// When the operating system gives no randomness.
pub fn secret() -> Result<String, AuthorityError> {
    let mut bytes = [0u8; 32];
    let provider = rustls::crypto::ring::default_provider();
    provider
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| rustls::Error::General("no randomness to be had".to_owned()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
