//! Network interfaces and socket settings.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};

use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// What kind of medium an interface is, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Medium {
    /// Does not leave the machine.
    Loopback,
    /// A cable, or nothing that is known to be worse.
    Wired,
    /// Radio.
    Wireless,
    /// A tunnel or the bridge of a container engine.
    Virtual,
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Medium::Loopback => "loopback",
            Medium::Wired => "wired",
            Medium::Wireless => "wireless",
            Medium::Virtual => "virtual",
        })
    }
}

/// One address of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalAddress {
    /// Name of its interface.
    pub interface: String,
    /// The address.
    pub ip: IpAddr,
    /// Which interface a link-local IPv6 address belongs to; else 0.
    pub scope: u32,
    /// Whether the interface is up.
    pub up: bool,
    /// What kind of interface it is.
    pub medium: Medium,
    /// Nominal speed in Mbit/s, where the system tells.
    pub speed: Option<u32>,
}

impl LocalAddress {
    /// Together with a port.
    pub(crate) fn with_port(&self, port: u16) -> SocketAddr {
        match self.ip {
            IpAddr::V6(ip) if self.scope != 0 => SocketAddrV6::new(ip, port, 0, self.scope).into(),
            ip => SocketAddr::new(ip, port),
        }
    }
}

/// All addresses of this machine, best medium first.
pub(crate) fn local_addresses() -> io::Result<Vec<LocalAddress>> {
    let mut addresses: Vec<LocalAddress> = if_addrs::get_if_addrs()?
        .into_iter()
        .map(|interface| {
            let ip = interface.ip();
            let link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
            LocalAddress {
                ip,
                scope: if link_local { interface.index.unwrap_or(0) } else { 0 },
                up: interface.is_oper_up() || interface.is_loopback(),
                medium: medium(&interface.name, interface.is_loopback(), interface.is_p2p()),
                speed: speed(&interface.name),
                interface: interface.name,
            }
        })
        .collect();
    addresses.sort_by_key(|address| (address.medium, std::cmp::Reverse(address.speed), address.ip));
    Ok(addresses)
}

fn medium(name: &str, loopback: bool, point_to_point: bool) -> Medium {
    const VIRTUAL: [&str; 11] =
        ["docker", "br-", "virbr", "utun", "tun", "tap", "wg", "tailscale", "zt", "cni", "awdl"];
    if loopback {
        Medium::Loopback
    } else if point_to_point || VIRTUAL.iter().any(|prefix| name.starts_with(prefix)) {
        Medium::Virtual
    } else if is_wireless(name) {
        Medium::Wireless
    } else {
        Medium::Wired
    }
}

#[cfg(target_os = "linux")]
fn is_wireless(name: &str) -> bool {
    let class = std::path::Path::new("/sys/class/net").join(name);
    class.join("wireless").exists() || class.join("phy80211").exists()
}

#[cfg(not(target_os = "linux"))]
fn is_wireless(name: &str) -> bool {
    // why: without a framework call macOS does not tell; between equals the round trip decides.
    name.starts_with("wl")
}

#[cfg(target_os = "linux")]
fn speed(name: &str) -> Option<u32> {
    let path = std::path::Path::new("/sys/class/net").join(name).join("speed");
    let speed: i64 = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
    u32::try_from(speed).ok().filter(|speed| *speed > 0)
}

#[cfg(not(target_os = "linux"))]
fn speed(_name: &str) -> Option<u32> {
    None
}

/// The address the system would use to reach `remote`, or why it cannot.
pub(crate) fn source_address(remote: SocketAddr) -> io::Result<IpAddr> {
    let any: SocketAddr =
        if remote.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    // why: connecting a datagram socket sends nothing, it only asks for a route.
    socket.connect(remote)?;
    Ok(socket.local_addr()?.ip())
}

/// A non-blocking TCP socket on its way to `remote`, closed on exec.
pub(crate) fn start_connect(remote: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(remote), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&remote.into()) {
        Ok(()) => Ok(socket),
        Err(error) if in_progress(&error) => Ok(socket),
        Err(error) => Err(error),
    }
}

fn in_progress(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
        || error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error())
}

/// A listening, non-blocking TCP socket, closed on exec. An IPv6 socket takes IPv6 only.
pub(crate) fn listen(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    Ok(socket)
}

/// Makes a connected socket fit for data: no waiting for more to send, no signal when the peer is
/// gone. Buffer sizes stay with the system, which adapts them to the path as long as nobody sets
/// them; keep-alive stays off, the control connection does that.
pub(crate) fn prepare_data_socket(socket: &Socket) -> io::Result<()> {
    let socket = SockRef::from(socket);
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    #[cfg(target_vendor = "apple")]
    socket.set_nosigpipe(true)?;
    Ok(())
}

/// Sends without a signal when the peer is gone.
pub(crate) fn send(socket: &Socket, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
    use rustix::net::{SendFlags, sendmsg};
    #[cfg(not(target_vendor = "apple"))]
    let flags = SendFlags::NOSIGNAL;
    #[cfg(target_vendor = "apple")]
    let flags = SendFlags::empty();
    Ok(sendmsg(socket, parts, &mut Default::default(), flags)?)
}

/// Receives into several buffers.
pub(crate) fn receive(socket: &Socket, parts: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
    match parts {
        [part] => {
            let part: &mut [u8] = part;
            Ok(rustix::net::recv(socket, part, rustix::net::RecvFlags::empty())?.1)
        }
        parts => Ok(rustix::io::readv(socket, parts)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_known_as_what_it_is() {
        let addresses = local_addresses().unwrap();
        let loopback = addresses.iter().find(|address| address.ip.is_loopback()).unwrap();
        assert_eq!(loopback.medium, Medium::Loopback);
        assert!(loopback.up && !loopback.interface.is_empty(), "{loopback:?}");
        assert_eq!(addresses[0].medium, Medium::Loopback, "best first");
    }

    #[test]
    fn media_are_told_from_names() {
        assert_eq!(medium("eth0", false, false), Medium::Wired);
        assert_eq!(medium("docker0", false, false), Medium::Virtual);
        assert_eq!(medium("utun3", false, true), Medium::Virtual);
        assert_eq!(medium("lo", true, false), Medium::Loopback);
    }

    #[test]
    fn the_route_tells_the_source() {
        let remote = ([127, 0, 0, 1], 9).into();
        assert!(source_address(remote).unwrap().is_loopback());
    }
}
