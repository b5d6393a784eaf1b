//! The network interfaces of this host, and which of them leads where.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};

use serde::{Deserialize, Serialize};

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
    /// Bits of the address that all addresses of its network share.
    pub prefix: u8,
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
                prefix: match &interface.addr {
                    if_addrs::IfAddr::V4(address) => address.prefixlen,
                    if_addrs::IfAddr::V6(address) => address.prefixlen,
                },
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

/// `192.168.1.2 (en0)`: an address with the interface that has it.
pub(crate) fn describe(address: IpAddr) -> String {
    let address = address.to_canonical();
    let locals = local_addresses().unwrap_or_else(|error| {
        tracing::warn!(%error, "the network interfaces cannot be listed");
        Vec::new()
    });
    match locals.into_iter().find(|local| local.ip == address) {
        Some(local) => format!("{address} ({})", local.interface),
        None => address.to_string(),
    }
}

/// The name of this host.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
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

    #[test]
    fn an_address_is_described_with_its_interface() {
        let text = describe([127, 0, 0, 1].into());
        assert!(text.starts_with("127.0.0.1 (lo"), "{text}");
        assert_eq!(describe([192, 0, 2, 7].into()), "192.0.2.7", "not one of this host's");
        assert!(!host_name().is_empty());
    }
}
