//! The certificate authority of one server, and the secrets it hands out.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
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
        let Certificates { authority, server, server_key } = certificates(names).map_err(failed)?;
        let chain = vec![server.der().clone(), authority.der().clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { certificate_pem: authority.pem(), server: Arc::new(config) })
    }
}

/// The authority's certificate and the one it signed.
struct Certificates {
    authority: Certificate,
    server: Certificate,
    server_key: KeyPair,
}

fn certificates(names: &[String]) -> Result<Certificates, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "drydock-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let authority = params.self_signed(&key)?;
    let issuer = Issuer::new(params, key);
    let mut params = server_params();
    params.subject_alt_names = names.iter().map(|name| subject(name)).collect::<Result<_, _>>()?;
    let server_key = KeyPair::generate()?;
    let server = params.signed_by(&server_key, &issuer)?;
    Ok(Certificates { authority, server, server_key })
}

/// What a server certificate says besides its names: all that a strict client asks for, which
/// includes who signed it.
fn server_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "drydock");
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    params
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
    Ok(random::<32>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A seed that no other run has.
///
/// # Errors
/// When the operating system gives no randomness.
pub fn seed() -> Result<u64, AuthorityError> {
    random().map(u64::from_le_bytes)
}

fn random<const N: usize>() -> Result<[u8; N], AuthorityError> {
    let mut bytes = [0u8; N];
    let provider = rustls::crypto::ring::default_provider();
    provider
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| rustls::Error::General("no randomness to be had".to_owned()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The identifiers of extensions and usages, as they are encoded (RFC 5280, 4.2.1).
    const AUTHORITY_KEY: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x23];
    const SUBJECT_KEY: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x0e];
    const KEY_USAGE: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x0f];
    const BASIC_CONSTRAINTS: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x13];
    const ALTERNATIVE_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x11];
    const SERVER_AUTH: &[u8] = &[0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];

    fn check(certificate: &str, der: &[u8], parts: &[(&str, &[u8])]) {
        for (name, part) in parts {
            let is_there = der.windows(part.len()).any(|window| window == *part);
            assert!(is_there, "the {certificate} certificate has no {name}");
        }
    }

    #[test]
    fn certificates_carry_what_strict_verification_asks_for() {
        let made = certificates(&["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
        let of_server: &[(&str, &[u8])] = &[
            ("authority key identifier", AUTHORITY_KEY),
            ("key usage", KEY_USAGE),
            ("server authentication", SERVER_AUTH),
            ("alternative name", ALTERNATIVE_NAME),
        ];
        check("server", made.server.der(), of_server);
        let of_authority: &[(&str, &[u8])] = &[
            ("subject key identifier", SUBJECT_KEY),
            ("key usage", KEY_USAGE),
            ("basic constraints", BASIC_CONSTRAINTS),
        ];
        check("authority's", made.authority.der(), of_authority);
    }

    #[test]
    fn seeds_and_secrets_differ() {
        assert_ne!(seed().unwrap(), seed().unwrap());
        assert_ne!(secret().unwrap(), secret().unwrap());
        assert_eq!(secret().unwrap().len(), 64);
    }
}
