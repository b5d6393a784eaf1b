//! Which devices a rank has, and which of them join a pair of ranks: functions of what both sides
//! have published, so that both come to the same answer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::api::{
    Device, Gid, Library, Mtu, PortState, QpType, Quirks, Reason, System, VerbsError,
};
use super::guard::timed;
use crate::sys::interfaces;

/// More identifiers than this are not looked at.
const MOST_GIDS: u32 = 32;

/// What a rank says of one of its devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeviceCard {
    pub name: String,
    pub port: u8,
    pub state: PortState,
    pub mtu: Mtu,
    pub lid: u16,
    pub gids: Vec<GidCard>,
    pub quirks: Quirks,
}

/// One of a port's identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GidCard {
    /// Its place in the port's table.
    pub index: u32,
    pub gid: Gid,
    /// Bits of its network, if it is the address of an interface.
    pub prefix: Option<u8>,
}

/// What a rank says of its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cards {
    /// The devices that can be used.
    pub devices: Vec<DeviceCard>,
    /// Why there are no others.
    pub problems: Vec<String>,
    /// What was set by hand and cannot be, by the device it is about: one that is named and does
    /// not exist, or that has no identifier where one was asked for.
    pub mistakes: BTreeMap<String, String>,
    /// The rank's addresses towards the ranks it has met already.
    pub addresses: Vec<IpAddr>,
    /// By peer, the devices that were named for it; `None` if none were named for anybody.
    pub named: Option<BTreeMap<usize, Vec<String>>>,
    /// The type of queue pair asked for by hand.
    pub kind: Option<QpType>,
}

/// What to look for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    /// By peer, the devices named for it.
    pub named: Option<BTreeMap<usize, Vec<String>>>,
    /// The type of queue pair.
    pub kind: Option<QpType>,
    /// Which of its identifiers a device uses.
    pub gid_index: Option<u32>,
}

/// How long looking may take: drivers can hang.
const LOOK: Duration = Duration::from_secs(8);
/// How long to wait for the address of an interface that has just come up.
const SETTLE: Duration = Duration::from_secs(3);

impl Cards {
    /// Of a rank that has no verbs at all.
    pub(crate) fn without(wish: &Wish, problem: &str) -> Self {
        let names = wish.named.iter().flat_map(BTreeMap::values).flatten();
        let mistakes = names.map(|name| (name.clone(), format!("no device {name}: {problem}")));
        Cards {
            problems: vec![problem.to_owned()],
            mistakes: mistakes.collect(),
            named: wish.named.clone(),
            kind: wish.kind,
            ..Cards::default()
        }
    }
}

/// [`look`] on a thread, given up after a while.
pub(crate) fn look_in_time(library: &Arc<dyn Library>, wish: &Wish) -> Cards {
    let (its, wish_of) = (Arc::clone(library), wish.clone());
    let found = timed("looking at RDMA devices", LOOK, move || Ok(look(&its, &wish_of)));
    found.unwrap_or_else(|error| {
        let problems = vec![error.to_string()];
        Cards { problems, named: wish.named.clone(), kind: wish.kind, ..Cards::default() }
    })
}

/// Looks at the devices of this host: those that are named, or all.
pub(crate) fn look(library: &Arc<dyn Library>, wish: &Wish) -> Cards {
    let found = match library.devices() {
        Ok(found) => found,
        Err(error) => {
            let hint = match System::HERE {
                // It is what the library answers where the kernel has no RDMA at all.
                System::Linux if error.reason() == Some(Reason::Unsupported) => {
                    "; this kernel has no RDMA (nothing in /sys/class/infiniband; modprobe ib_uverbs)"
                }
                _ => "",
            };
            let problem =
                format!("{} is there but cannot list devices: {error}{hint}", library.name());
            return Cards::without(wish, &problem);
        }
    };
    let mut cards = Cards { named: wish.named.clone(), kind: wish.kind, ..Cards::default() };
    if found.is_empty() {
        cards.problems.push(format!(
            "{} is there but knows no device (RDMA is switched off, or there is no hardware)",
            library.name()
        ));
    }
    let names: Vec<String> = match &wish.named {
        Some(named) => {
            let mut names: Vec<String> = named.values().flatten().cloned().collect();
            names.sort();
            names.dedup();
            names
        }
        None => found.into_iter().map(|device| device.name).collect(),
    };
    let until = Instant::now() + SETTLE;
    for name in names {
        match look_at(library, &name, wish, until) {
            Ok(card) => cards.devices.push(card),
            Err(problem) => {
                let text = problem.to_string();
                if problem.is_mistake() {
                    cards.mistakes.insert(name, text.clone());
                }
                cards.problems.push(text);
            }
        }
    }
    cards
}

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    #[error("{name} has no GID at index {index} (LYCAON_RDMA_GID_INDEX); it has {}", .has.join(", "))]
    NoSuchGid { name: String, index: u32, has: Vec<String> },
    #[error("{name} has no GID: its interface has no address")]
    NoGid { name: String },
    #[error("{name} cannot be used: {states}")]
    Down { name: String, states: String },
}

impl Unusable {
    /// Whether it is what somebody has set that is wrong.
    fn is_mistake(&self) -> bool {
        matches!(self, Unusable::Verbs(VerbsError::NoDevice { .. }) | Unusable::NoSuchGid { .. })
    }
}

fn look_at(
    library: &Arc<dyn Library>,
    name: &str,
    wish: &Wish,
    until: Instant,
) -> Result<DeviceCard, Unusable> {
    // why: the port is read before anything is made on the device. A device whose port is down
    // opens, and refuses what comes afterwards.
    let device = library.open(name)?;
    let quirks = device.quirks();
    let ports = device.attributes()?.ports.max(1);
    let mut states = Vec::new();
    for port in 1..=ports {
        let attributes = device.port(port)?;
        if attributes.state != PortState::ACTIVE {
            states.push(format!("port {port} is {}", attributes.state));
            continue;
        }
        let slots = attributes.gid_table_len.min(MOST_GIDS);
        let mut all = gids(&*device, port, slots)?;
        // why: the address of an interface that has just come up may be a while in coming, and the
        // identifier with it.
        while quirks.late_addresses
            && !all.iter().any(|card| card.gid.ipv4().is_some())
            && Instant::now() < until
        {
            std::thread::sleep(Duration::from_millis(50));
            all = gids(&*device, port, slots)?;
        }
        let gids = match wish.gid_index {
            None => all,
            Some(index) => {
                let has = all.iter().map(|card| format!("{} ({})", card.index, card.gid)).collect();
                all.retain(|card| card.index == index);
                if all.is_empty() {
                    return Err(Unusable::NoSuchGid { name: name.to_owned(), index, has });
                }
                all
            }
        };
        if gids.is_empty() {
            return Err(Unusable::NoGid { name: name.to_owned() });
        }
        return Ok(DeviceCard {
            name: name.to_owned(),
            port,
            state: attributes.state,
            mtu: attributes.active_mtu,
            lid: attributes.lid,
            gids,
            quirks,
        });
    }
    Err(Unusable::Down { name: name.to_owned(), states: states.join(", ") })
}

/// The identifiers of a port, each once, at the first of its places.
fn gids(device: &dyn Device, port: u8, slots: u32) -> Result<Vec<GidCard>, VerbsError> {
    let mut found: Vec<GidCard> = Vec::new();
    for index in 0..slots {
        if let Some(gid) = device.gid(port, index)?
            && !found.iter().any(|known| known.gid == gid)
        {
            found.push(GidCard { index, gid, prefix: prefix(gid) });
        }
    }
    Ok(found)
}

/// How long the network part of an identifier is, which the interface with that address knows.
fn prefix(gid: Gid) -> Option<u8> {
    let address = gid.address().to_canonical();
    let locals = interfaces::local_addresses().ok()?;
    locals.iter().find(|local| local.ip == address).map(|local| local.prefix)
}

/// One cable of a pair, as one side sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cable<'a> {
    pub own: &'a DeviceCard,
    pub other: &'a DeviceCard,
}

/// The cables that join `own`'s rank with `other`'s, the same in number and order from both sides:
/// of the devices named for each other, or else of all, those that share a network, paired by it,
/// if both ends can speak alike.
pub(crate) fn cables<'a>(
    (own_rank, own): (usize, &'a Cards),
    (other_rank, other): (usize, &'a Cards),
) -> Vec<Cable<'a>> {
    let mut found = wires((own_rank, own), (other_rank, other));
    found.retain(|cable| agreed(cable.own, cable.other, own, other).is_some());
    found
}

/// What was set by hand for a pair of ranks and cannot be, in the words of the rank it is about;
/// the same from both sides.
pub(crate) fn mistake(first: (usize, &Cards), second: (usize, &Cards)) -> Option<String> {
    for ((rank, cards), (peer, _)) in [(first, second), (second, first)] {
        let found = match &cards.named {
            Some(named) => {
                named.get(&peer).into_iter().flatten().find_map(|name| cards.mistakes.get(name))
            }
            None if cards.devices.is_empty() => cards.mistakes.values().next(),
            None => None,
        };
        if let Some(text) = found {
            return Some(format!("rank {rank}: {text}"));
        }
    }
    let ((first_rank, own), (second_rank, other)) = (first, second);
    let by_hand = own.kind.or(other.kind)?;
    let refused = wires(first, second)
        .into_iter()
        .find(|cable| agreed(cable.own, cable.other, own, other).is_none())?;
    let has = |card: &DeviceCard| match (card.quirks.rc, card.quirks.uc) {
        (true, true) => "RC and UC",
        (true, false) => "RC only",
        (false, true) => "UC only",
        (false, false) => "neither RC nor UC",
    };
    Some(format!(
        "{by_hand} queue pairs are asked for (LYCAON_RDMA_QP), but {} of rank {first_rank} has {} \
         and {} of rank {second_rank} has {}, or the two ranks ask for different ones",
        refused.own.name,
        has(refused.own),
        refused.other.name,
        has(refused.other)
    ))
}

/// As [`cables`], whatever they can speak.
fn wires<'a>(
    (own_rank, own): (usize, &'a Cards),
    (other_rank, other): (usize, &'a Cards),
) -> Vec<Cable<'a>> {
    if own_rank > other_rank {
        return wires((other_rank, other), (own_rank, own))
            .into_iter()
            .map(|cable| Cable { own: cable.other, other: cable.own })
            .collect();
    }
    let candidates = |cards: &'a Cards, peer: usize| -> Vec<&'a DeviceCard> {
        match &cards.named {
            Some(named) => {
                let names = named.get(&peer).map_or(&[][..], Vec::as_slice);
                let find = |name: &String| cards.devices.iter().find(|card| card.name == *name);
                names.iter().filter_map(find).collect()
            }
            None => cards.devices.iter().collect(),
        }
    };
    let mut mine = candidates(own, other_rank);
    let mut theirs = candidates(other, own_rank);
    let mut found = Vec::new();
    // First what is known to belong together, the closest first; then, of named devices, by their
    // order.
    let mut close: Vec<(u32, &DeviceCard, &DeviceCard)> = Vec::new();
    for device in &mine {
        let near =
            theirs.iter().filter_map(|their| Some((network(device, their)?, *device, *their)));
        close.extend(near);
    }
    close.sort_by_key(|(common, _, _)| std::cmp::Reverse(*common));
    for (_, device, their) in close {
        let at =
            |list: &[&DeviceCard], of: &DeviceCard| list.iter().position(|d| d.name == of.name);
        if let (Some(here), Some(there)) = (at(&mine, device), at(&theirs, their)) {
            mine.remove(here);
            theirs.remove(there);
            found.push(Cable { own: device, other: their });
        }
    }
    if own.named.is_none() && other.named.is_none() {
        // why: devices with addresses that fit nothing here lead elsewhere. Those without any may
        // lead anywhere: they are tried only if there is nothing else.
        let local = |card: &DeviceCard| card.gids.iter().all(|card| card.gid.is_link_local());
        if !found.is_empty() {
            return found;
        }
        mine.retain(|card| local(card));
        theirs.retain(|card| local(card));
    }
    let rest = mine.into_iter().zip(theirs);
    found.extend(rest.map(|(device, their)| Cable { own: device, other: their }));
    found
}

/// The type of queue pair for a cable; `None` if there is none that both have.
pub(crate) fn agreed(
    first: &DeviceCard,
    second: &DeviceCard,
    own: &Cards,
    other: &Cards,
) -> Option<QpType> {
    let both = |get: fn(&Quirks) -> bool| get(&first.quirks) && get(&second.quirks);
    let (rc, uc) = (both(|quirks| quirks.rc), both(|quirks| quirks.uc));
    match (own.kind, other.kind) {
        (Some(a), Some(b)) if a != b => None,
        (Some(kind), _) | (None, Some(kind)) => match kind {
            QpType::Rc => rc.then_some(kind),
            QpType::Uc => uc.then_some(kind),
        },
        (None, None) if rc => Some(QpType::Rc),
        (None, None) => uc.then_some(QpType::Uc),
    }
}

/// How many bits the addresses of two ports have in common, if they are of one network.
fn network(first: &DeviceCard, second: &DeviceCard) -> Option<u32> {
    let pairs = first.gids.iter().flat_map(|a| second.gids.iter().map(move |b| (a, b)));
    pairs.filter_map(|(a, b)| shared(a, b)).max()
}

/// How many bits two identifiers have in common, if they are addresses of one network.
fn shared(a: &GidCard, b: &GidCard) -> Option<u32> {
    if a.gid.is_link_local() {
        return None;
    }
    let common = closeness(a.gid, b.gid)?;
    let usual = if a.gid.ipv4().is_some() { 24 } else { 64 };
    let prefix = |card: &GidCard| card.prefix.map_or(usual, u32::from);
    (common >= prefix(a).max(prefix(b))).then_some(common)
}

/// The pairs of identifiers over which a cable may be reached, best first: IPv4 addresses, then
/// other routable ones, then those of the link. Among them go first those of one network, then
/// those by which the ranks have met over TCP, then those that have most in common.
pub(crate) fn ways<'a>(
    (own, at): (&'a DeviceCard, &[IpAddr]),
    (other, there): (&'a DeviceCard, &[IpAddr]),
) -> Vec<(&'a GidCard, &'a GidCard)> {
    let met = |card: &GidCard, at: &[IpAddr]| at.contains(&card.gid.address().to_canonical());
    type Rank = (u8, bool, bool, u32);
    let mut ways: Vec<(Rank, &GidCard, &GidCard)> = Vec::new();
    for mine in &own.gids {
        for theirs in &other.gids {
            let class = match mine.gid {
                gid if gid.ipv4().is_some() => 2,
                gid if gid.is_link_local() => 0,
                _ => 1,
            };
            if let Some(common) = closeness(mine.gid, theirs.gid) {
                let met = met(mine, at) && met(theirs, there);
                let rank = (class, shared(mine, theirs).is_some(), met, common);
                ways.push((rank, mine, theirs));
            }
        }
    }
    // Ties are broken alike on both sides: in an order that knows no side.
    let tie = |a: &GidCard, b: &GidCard| (a.index + b.index, a.gid.min(b.gid));
    ways.sort_by_key(|(rank, a, b)| (std::cmp::Reverse(*rank), tie(a, b)));
    ways.into_iter().map(|(_, mine, theirs)| (mine, theirs)).collect()
}

/// How many bits two identifiers have in common; `None` if they are of different kinds. Those of
/// the link are all alike.
fn closeness(first: Gid, second: Gid) -> Option<u32> {
    match (first.ipv4(), second.ipv4()) {
        (Some(a), Some(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        (None, None) if first.is_link_local() && second.is_link_local() => Some(0),
        (None, None) if !first.is_link_local() && !second.is_link_local() => {
            Some((first.address().to_bits() ^ second.address().to_bits()).leading_zeros())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(name: &str, gids: &[&str]) -> DeviceCard {
        let gid = |text: &&str| Gid(text.parse::<std::net::Ipv6Addr>().unwrap().octets());
        DeviceCard {
            name: name.to_owned(),
            port: 1,
            state: PortState::ACTIVE,
            mtu: Mtu(5),
            lid: 0,
            gids: gids
                .iter()
                .enumerate()
                .map(|(at, text)| GidCard { index: at as u32, gid: gid(text), prefix: None })
                .collect(),
            quirks: Quirks::STANDARD,
        }
    }

    fn cards(devices: Vec<DeviceCard>, named: Option<(usize, &[&str])>) -> Cards {
        let named = named.map(|(peer, names)| {
            BTreeMap::from([(peer, names.iter().map(|name| (*name).to_owned()).collect())])
        });
        Cards { devices, named, ..Cards::default() }
    }

    fn names(cables: &[Cable<'_>]) -> Vec<(String, String)> {
        cables.iter().map(|c| (c.own.name.clone(), c.other.name.clone())).collect()
    }

    fn both_ways(a: &Cards, b: &Cards) -> Vec<(String, String)> {
        let here = names(&cables((0, a), (1, b)));
        let there = names(&cables((1, b), (0, a)));
        let turned: Vec<_> = there.into_iter().map(|(own, other)| (other, own)).collect();
        assert_eq!(here, turned, "both sides come to the same answer");
        here
    }

    #[test]
    fn crossed_cables_are_paired_by_their_networks_and_not_by_the_order_of_names() {
        let a = vec![card("x1", &["::ffff:10.0.1.1"]), card("x2", &["::ffff:10.0.2.1"])];
        let b = vec![card("y1", &["::ffff:10.0.2.2"]), card("y2", &["::ffff:10.0.1.2"])];
        let expected = [("x1".to_owned(), "y2".to_owned()), ("x2".to_owned(), "y1".to_owned())];
        assert_eq!(both_ways(&cards(a.clone(), None), &cards(b.clone(), None)), expected);
        let named = (cards(a, Some((1, &["x1", "x2"]))), cards(b, Some((0, &["y1", "y2"]))));
        assert_eq!(both_ways(&named.0, &named.1), expected);
    }

    #[test]
    fn small_networks_beside_each_other_are_told_apart_by_their_length() {
        let small = |name: &str, address: &str| {
            let mut card = card(name, &[address]);
            card.gids[0].prefix = Some(30);
            card
        };
        let a = vec![small("x1", "::ffff:10.0.0.1"), small("x2", "::ffff:10.0.0.5")];
        let b = vec![small("y1", "::ffff:10.0.0.6"), small("y2", "::ffff:10.0.0.2")];
        let expected = [("x1".to_owned(), "y2".to_owned()), ("x2".to_owned(), "y1".to_owned())];
        assert_eq!(both_ways(&cards(a.clone(), None), &cards(b.clone(), None)), expected);
        let only = cards(vec![b[0].clone()], None);
        assert_eq!(both_ways(&cards(vec![a[0].clone()], None), &only), []);
    }

    #[test]
    fn without_networks_named_devices_go_by_their_order() {
        let a = vec![card("x1", &["fe80::1"]), card("x2", &["fe80::2"])];
        let b = vec![card("y1", &["fe80::3"]), card("y2", &["fe80::4"])];
        let a = cards(a, Some((1, &["x2", "x1"])));
        let b = cards(b, Some((0, &["y1"])));
        assert_eq!(both_ways(&a, &b), [("x2".to_owned(), "y1".to_owned())]);
    }

    #[test]
    fn devices_of_different_networks_are_not_joined_unless_named() {
        let a = cards(vec![card("x", &["::ffff:10.0.1.1"])], None);
        let b = cards(vec![card("y", &["::ffff:10.9.2.2"])], None);
        assert!(both_ways(&a, &b).is_empty());
        // Devices that have addresses of the link besides lead elsewhere, too.
        let a = cards(vec![card("x", &["fe80::1", "::ffff:10.0.1.1"])], None);
        let b = cards(vec![card("y", &["fe80::2", "::ffff:10.9.2.2"])], None);
        assert!(both_ways(&a, &b).is_empty());
        let none = cards(vec![card("x", &["fe80::1"])], Some((7, &["x"])));
        assert!(both_ways(&none, &cards(vec![card("y", &["fe80::2"])], None)).is_empty());
    }

    #[test]
    fn a_type_that_one_side_lacks_is_not_taken() {
        let mut apple = card("rdma_en2", &["fe80::1"]);
        apple.quirks = Quirks::APPLE;
        let linux = card("usb4_rdma0", &["fe80::2"]);
        let plain = Cards::default();
        assert_eq!(agreed(&apple, &linux, &plain, &plain), Some(QpType::Uc));
        assert_eq!(agreed(&linux, &linux, &plain, &plain), Some(QpType::Rc));
        let rc = Cards { kind: Some(QpType::Rc), ..Cards::default() };
        assert_eq!(agreed(&apple, &linux, &rc, &plain), None);
        let uc = Cards { kind: Some(QpType::Uc), ..Cards::default() };
        assert_eq!(agreed(&linux, &linux, &uc, &plain), Some(QpType::Uc));
        assert_eq!(agreed(&linux, &linux, &uc, &rc), None);
    }

    #[test]
    fn ways_prefer_ipv4_and_end_with_the_link() {
        let a = card("x", &["fe80::1", "::ffff:10.0.1.1", "2001:db8::1"]);
        let b = card("y", &["fe80::2", "::ffff:10.0.1.2"]);
        let places = |at: &[&str], there: &[&str]| -> Vec<(u32, u32)> {
            let parse = |list: &[&str]| -> Vec<IpAddr> {
                list.iter().map(|text| text.parse().unwrap()).collect()
            };
            let found = ways((&a, &parse(at)), (&b, &parse(there)));
            found.into_iter().map(|(own, other)| (own.index, other.index)).collect()
        };
        assert_eq!(places(&[], &[]), [(1, 1), (0, 0)]);
    }

    #[test]
    fn among_several_addresses_the_network_decides_and_then_the_tcp_connection() {
        let a = card("x", &["::ffff:10.0.1.1", "::ffff:169.254.7.1", "::ffff:10.0.2.1"]);
        let b = card("y", &["::ffff:169.254.7.9", "::ffff:10.0.2.2", "::ffff:10.0.1.2"]);
        let first = |at: &str, there: &str| {
            let (at, there) = ([at.parse().unwrap()], [there.parse().unwrap()]);
            let best = ways((&a, &at), (&b, &there))[0];
            let turned = ways((&b, &there), (&a, &at))[0];
            assert_eq!((best.0.index, best.1.index), (turned.1.index, turned.0.index));
            (best.0.index, best.1.index)
        };
        assert_eq!(first("10.0.1.1", "10.0.1.2"), (0, 2));
        assert_eq!(first("169.254.7.1", "169.254.7.9"), (1, 0));
        assert_eq!(first("10.0.2.1", "10.0.2.2"), (2, 1));
        // Not met over any of them: the closest.
        assert_eq!(first("192.0.2.1", "192.0.2.2"), (0, 2));
    }

    #[test]
    fn what_was_set_by_hand_and_cannot_be_is_told_by_pair() {
        let mut a = cards(vec![card("x", &["::ffff:10.0.1.1"])], Some((1, &["x", "gone"])));
        a.mistakes.insert("gone".to_owned(), "lib knows no device gone; it has x".to_owned());
        let b = cards(vec![card("y", &["::ffff:10.0.1.2"])], None);
        let text = mistake((0, &a), (1, &b)).unwrap();
        assert_eq!(text, "rank 0: lib knows no device gone; it has x");
        assert_eq!(mistake((1, &b), (0, &a)).unwrap(), text);
        assert_eq!(mistake((0, &a), (2, &b)), None, "it is not named for that rank");
        let mut apple = card("y", &["::ffff:10.0.1.2"]);
        apple.quirks = Quirks::APPLE;
        a = cards(vec![card("x", &["::ffff:10.0.1.1"])], None);
        a.kind = Some(QpType::Rc);
        let text = mistake((0, &a), (1, &cards(vec![apple], None))).unwrap();
        assert!(text.contains("LYCAON_RDMA_QP") && text.contains("y of rank 1 has UC only"));
        assert_eq!(mistake((0, &a), (1, &b)), None);
    }
}
