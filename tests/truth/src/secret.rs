//! Random tokens and signing keys, made without a cryptographic library.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A bearer token nobody can guess.
pub(crate) fn token() -> Result<String> {
    Ok(random()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A private key on the curve P-256, as PEM, to sign service account tokens with.
///
/// Any number below the order of the curve is a private key, and a reader works out the public
/// half itself, so the encoding (SEC 1, RFC 5915) is the number between constant bytes.
pub(crate) fn signing_key() -> Result<String> {
    let mut number = random()?;
    // The order starts with the byte 0xff: half of that is below it.
    number[0] &= 0x7f;
    let mut der = vec![0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20];
    der.extend_from_slice(&number);
    der.extend_from_slice(&[0xa0, 0x0a, 0x06, 0x08]);
    der.extend_from_slice(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]);
    let text = STANDARD.encode(der);
    let (first, second) = text.split_at(64);
    Ok(format!("-----BEGIN EC PRIVATE KEY-----\n{first}\n{second}\n-----END EC PRIVATE KEY-----\n"))
}

fn random() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    let mut source = File::open("/dev/urandom").context("cannot open /dev/urandom")?;
    source.read_exact(&mut bytes).context("cannot read /dev/urandom")?;
    Ok(bytes)
}
