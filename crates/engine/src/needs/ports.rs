//! Ports of the node that a pod takes.

/// A port of the node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// The address; none means every address of the node.
    pub address: Option<Box<str>>,
    /// TCP, UDP or SCTP.
    pub protocol: Box<str>,
    /// The port.
    pub port: i32,
}

impl HostPort {
    /// A port as a container names it: no address, and the address that stands for all, are the
    /// same; no protocol is TCP.
    #[must_use]
    pub fn new(address: &str, protocol: &str, port: i32) -> Self {
        let all = address.is_empty() || address == "0.0.0.0";
        let protocol = if protocol.is_empty() { "TCP" } else { protocol };
        Self { address: (!all).then(|| address.into()), protocol: protocol.into(), port }
    }

    /// Whether both cannot be had on one node.
    #[must_use]
    pub fn collides_with(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address.is_none() || other.address.is_none() || self.address == other.address)
    }
}

/// Ports of the node that a pod takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ports(pub Box<[HostPort]>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_collide_by_protocol_number_and_address() {
        let check = |a: (&str, &str, i32), b: (&str, &str, i32), collide: bool| {
            let [a, b] =
                [a, b].map(|(address, protocol, port)| HostPort::new(address, protocol, port));
            assert_eq!(a.collides_with(&b), collide, "{a:?} {b:?}");
            assert_eq!(b.collides_with(&a), collide, "{b:?} {a:?}");
        };
        check(("", "TCP", 80), ("", "TCP", 80), true);
        check(("", "", 80), ("0.0.0.0", "TCP", 80), true);
        check(("", "TCP", 80), ("10.0.0.1", "TCP", 80), true);
        check(("10.0.0.2", "TCP", 80), ("10.0.0.1", "TCP", 80), false);
        check(("", "UDP", 80), ("", "TCP", 80), false);
        check(("", "TCP", 81), ("", "TCP", 80), false);
    }
}
