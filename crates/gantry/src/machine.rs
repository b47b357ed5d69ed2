//! What others call this machine: its name and its addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result};

/// The host name, where it is one that a certificate can carry.
pub(crate) fn host_name() -> Option<String> {
    let system = rustix::system::uname();
    let name = system.nodename().to_str().ok()?.to_owned();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// The addresses of all interfaces. Those that mean something only together with an interface
/// are left out.
///
/// # Errors
/// When the system does not tell.
pub(crate) fn addresses() -> Result<Vec<IpAddr>> {
    let interfaces = if_addrs::get_if_addrs();
    let interfaces = interfaces.context("cannot tell the addresses of this machine")?;
    let all = interfaces.into_iter().map(|interface| interface.ip());
    let is_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    Ok(all.filter(|ip| !is_local(ip)).collect())
}

/// Where to go to reach a server that listens on `listen`: for all interfaces, one of `own` that
/// others can reach too, else the loopback address.
pub(crate) fn reached_at(listen: IpAddr, own: &[IpAddr]) -> IpAddr {
    if !listen.is_unspecified() {
        return listen;
    }
    let mut others = own.iter().filter(|ip| ip.is_ipv4() == listen.is_ipv4() && !ip.is_loopback());
    match (others.next(), listen) {
        (Some(ip), _) => *ip,
        (None, IpAddr::V4(_)) => Ipv4Addr::LOCALHOST.into(),
        (None, IpAddr::V6(_)) => Ipv6Addr::LOCALHOST.into(),
    }
}

/// Every name that a certificate of a server must have that listens on `listen`: the addresses,
/// the name by which that was said, and, where others can get in, that of the machine.
pub(crate) fn names(
    listen: IpAddr,
    own: &[IpAddr],
    [said, host]: [Option<String>; 2],
) -> Vec<String> {
    let mut names = vec!["127.0.0.1".to_owned(), "localhost".to_owned(), "::1".to_owned()];
    let mut add = |name: String| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    if listen.is_unspecified() {
        own.iter().for_each(|ip| add(ip.to_string()));
    } else {
        add(listen.to_string());
    }
    said.into_iter().for_each(&mut add);
    host.into_iter().filter(|_| !listen.is_loopback()).for_each(&mut add);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(listen: &str, own: &[&str], reached: &str, more: &[&str]) {
        let listen: IpAddr = listen.parse().unwrap();
        let own: Vec<IpAddr> = own.iter().map(|ip| ip.parse().unwrap()).collect();
        assert_eq!(reached_at(listen, &own).to_string(), reached, "{listen} {own:?}");
        let host = || Some("box.example".to_owned());
        let plain = names(listen, &own, [None, host()]);
        assert_eq!(plain[..3], ["127.0.0.1", "localhost", "::1"]);
        assert_eq!(plain[3..], *more, "{listen} {own:?}");
        // A name that was said is known, once, whatever the address.
        let said = names(listen, &own, [Some("said.example".to_owned()), host()]);
        assert_eq!(said.iter().filter(|name| *name == "said.example").count(), 1);
        assert_eq!(names(listen, &own, [Some("localhost".to_owned()), host()]), plain);
    }

    #[test]
    fn a_server_is_reached_and_known_by_every_address_it_listens_on() {
        let own = ["127.0.0.1", "::1", "192.0.2.2", "2001:db8::2"];
        check("127.0.0.1", &own, "127.0.0.1", &[]);
        check("::1", &own, "::1", &[]);
        check("192.0.2.2", &own, "192.0.2.2", &["192.0.2.2", "box.example"]);
        let all = ["192.0.2.2", "2001:db8::2", "box.example"];
        check("0.0.0.0", &own, "192.0.2.2", &all);
        check("::", &own, "2001:db8::2", &all);
        check("0.0.0.0", &["127.0.0.1"], "127.0.0.1", &["box.example"]);
        check("::", &["127.0.0.1", "192.0.2.2"], "::1", &["192.0.2.2", "box.example"]);
    }
}
