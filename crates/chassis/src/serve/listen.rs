//! Opening a port so that everybody who should reach it does.
//!
//! Whoever says `0.0.0.0` means all addresses of the machine, and those of IPv6 are among them: one
//! socket takes both, as programs in Go have it.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

use super::ServeError;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1024;

/// Opens a port; port 0 lets the system choose. An address that stands for all of a machine stands
/// for those of IPv4 and of IPv6, or of IPv4 alone where the machine has no other.
///
/// It waits for nothing, and is async since a port belongs to the runtime in which it is opened.
///
/// # Errors
/// When the port is in use, or the address is not one of this machine.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    open_by(address, listening).map_err(|source| match source.kind() {
        ErrorKind::AddrInUse => ServeError::InUse { address },
        _ => ServeError::Refused { address, source },
    })
}

fn open_by(
    address: SocketAddr,
    listening: impl Fn(SocketAddr) -> io::Result<TcpListener>,
) -> io::Result<TcpListener> {
    if !address.ip().is_unspecified() {
        return listening(address);
    }
    match listening((Ipv6Addr::UNSPECIFIED, address.port()).into()) {
        Err(error)
            if !matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied) =>
        {
            tracing::debug!(%error, "no IPv6: listening on addresses of IPv4");
            listening((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        opened => opened,
    }
}

fn listening(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        socket.set_only_v6(false)?;
    }
    // Connections that have ended do not keep the port.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::net::TcpStream;

    use super::*;

    async fn reaches(listener: &TcpListener, ip: IpAddr) -> bool {
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((ip, port)).await.is_ok()
    }

    const FOUR: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const SIX: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    #[tokio::test]
    async fn who_listens_on_all_addresses_is_reached_on_those_of_both_sorts() {
        let has_six = listening((SIX, 0).into()).is_ok();
        let check = async |address: &str, four: bool, six: bool| {
            let listener = listen(format!("{address}:0").parse().unwrap()).await.unwrap();
            let reached = (reaches(&listener, FOUR).await, reaches(&listener, SIX).await);
            assert_eq!(reached, (four, six), "{address}");
        };
        check("0.0.0.0", true, has_six).await;
        check("[::]", true, has_six).await;
        check("127.0.0.1", true, false).await;
        if has_six {
            check("[::1]", false, true).await;
        }
    }

    #[tokio::test]
    async fn a_machine_without_ipv6_is_reached_by_ipv4_and_a_taken_port_is_taken() {
        let but_six = |kind: ErrorKind| {
            move |address: SocketAddr| match address {
                SocketAddr::V6(_) => Err(kind.into()),
                SocketAddr::V4(_) => listening(address),
            }
        };
        let any = (Ipv4Addr::UNSPECIFIED, 0).into();
        for kind in [ErrorKind::Unsupported, ErrorKind::AddrNotAvailable] {
            let listener = open_by(any, but_six(kind)).unwrap();
            assert!(reaches(&listener, FOUR).await, "{kind}");
        }
        for kind in [ErrorKind::AddrInUse, ErrorKind::PermissionDenied] {
            assert_eq!(open_by(any, but_six(kind)).unwrap_err().kind(), kind);
        }
    }
}
