//! Addresses to listen on, as flags.

use std::net::{SocketAddr, ToSocketAddrs};

/// What to write where an address makes no sense.
const FORM: &str = "write an address and a port, such as 127.0.0.1:6443, localhost:6443 or \
                    [::1]:6443";

/// Where to listen, and by which name that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listen {
    /// The address.
    pub(crate) address: SocketAddr,
    /// The name, where it was one: clients that use it must find it in the certificate.
    pub(crate) name: Option<String>,
}

/// Reads an address, or a name that means one, and a port.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, String> {
    parse_named(text).map(|listen| listen.address)
}

/// The same, with the name. Of several addresses an IPv4 one is taken: what leads to it is
/// understood everywhere.
pub(crate) fn parse_named(text: &str) -> Result<Listen, String> {
    if let Ok(address) = text.parse() {
        return Ok(Listen { address, name: None });
    }
    let (name, port) = text.rsplit_once(':').ok_or(FORM)?;
    let port: u16 = port.parse().map_err(|_| FORM)?;
    if name.is_empty() || name.contains(|c: char| !c.is_ascii_alphanumeric() && !"-._".contains(c))
    {
        return Err(FORM.to_owned());
    }
    let found = (name, port).to_socket_addrs();
    let found = found.map_err(|error| format!("{name:?} means no address: {error}; {FORM}"))?;
    let found: Vec<SocketAddr> = found.collect();
    let address = found.iter().find(|address| address.is_ipv4()).or(found.first());
    let address = address.ok_or_else(|| format!("{name:?} means no address; {FORM}"))?;
    Ok(Listen { address: *address, name: Some(name.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: Result<(&str, Option<&str>), &str>) {
        match (parse_named(text), want) {
            (Ok(listen), Ok((address, name))) => {
                assert_eq!(listen.address.to_string(), address, "{text}");
                assert_eq!(listen.name.as_deref(), name, "{text}");
            }
            (Err(told), Err(part)) => {
                assert!(told.contains(part) && told.ends_with(FORM), "{text}: {told}");
            }
            (got, want) => panic!("{text}: {got:?} is not {want:?}"),
        }
    }

    #[test]
    fn an_address_or_a_name_and_a_port_are_read() {
        check("127.0.0.1:6443", Ok(("127.0.0.1:6443", None)));
        check("[::1]:0", Ok(("[::1]:0", None)));
        check("localhost:6443", Ok(("127.0.0.1:6443", Some("localhost"))));
        for text in ["", ":", ":6443", "127.0.0.1", "localhost", "localhost:", "localhost:65536"] {
            check(text, Err(""));
        }
        for text in ["::1:6443", "::1:x", "http://localhost:1", "local host:1"] {
            check(text, Err(""));
        }
        check("a..b:1", Err("\"a..b\" means no address: "));
    }
}
