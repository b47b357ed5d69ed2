//! Addresses to listen on, as flags.

use std::net::SocketAddr;

/// Reads an address and a port. Names are refused: they may mean several addresses.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "write an address and a port, such as 127.0.0.1:6443 or [::1]:6443")
}
