//! From a session to a fabric: everyone says what it can do, each pair's link is agreed, the links
//! are made, and everyone says how that went. What fails on one rank is the first cause on all.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bootstrap::interrupt;
use crate::bootstrap::session::Session;
use crate::config::{Config, Interface, QueuePairs};
use crate::error::{LinkKind, Result, StartError};
use crate::sys::host;
use crate::sys::interfaces;
use crate::sys::poller::{Interest, Poller};
use crate::transport::Transport;
use crate::transport::arena::MAX_RANKS;
use crate::transport::message::{Messenger, Settings};
use crate::transport::shm::{self, Offer, Segment, ShmError, ShmHost};
use crate::transport::tcp::{self, Candidate, EstablishError, Listener};
use crate::transport::verbs;
use crate::transport::verbs::api::{Library, QpType, VerbsError};
use crate::transport::verbs::cards::{self, Cards, Wish, cables};

use super::{Arenas, Fabric, Matrix, WaitPolicy};

/// Handing out shared memory takes milliseconds; if it takes longer there is something in the way,
/// and the ranks of the host go over TCP.
const SHM_PATIENCE: Duration = Duration::from_secs(5);

/// What a rank says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Card {
    /// Ranks with the same one can share memory.
    host: String,
    /// Kinds of links it accepts, best first.
    links: Vec<LinkKind>,
    /// Where it listens for data.
    tcp: Vec<Candidate>,
    /// Processor cores it may use.
    cores: usize,
    /// Its RDMA devices.
    rdma: Cards,
    /// Over which addresses it has met rank 0: its own, and that of rank 0.
    met: Option<(IpAddr, IpAddr)>,
}

/// How a step went on a rank: what failed, if something did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Report(Option<String>);

/// Joins all ranks of a session.
pub(crate) fn join(mut session: Session, config: &Config) -> Result<Arc<Fabric>> {
    match make_links(&mut session, config) {
        Ok(Links { names, matrix, arenas, poller, transports, local }) => Ok(Fabric::new(
            config.rank(),
            Arc::new(session.into_control()),
            WaitPolicy::for_ranks(local, config.spin()),
            names,
            poller,
            transports,
            matrix,
            arenas,
        )),
        Err(error) => {
            session.fail(&error);
            // What failed elsewhere first is the better answer.
            Err(session.failure().unwrap_or(error).into())
        }
    }
}

struct Links {
    names: Vec<Option<(LinkKind, String)>>,
    matrix: Matrix,
    arenas: Arenas,
    poller: Arc<Poller>,
    transports: Vec<Box<dyn Transport>>,
    /// Ranks on this host.
    local: usize,
}

fn make_links(session: &mut Session, config: &Config) -> Result<Links, StartError> {
    let rank = config.rank();
    let listener = match config.links().contains(&LinkKind::Tcp) {
        true => Some(listen(config).map_err(system(rank, "listen for data links"))?),
        false => None,
    };
    let library = verbs(config);
    let card = Card {
        host: config.host_id().map_or_else(host::identity, str::to_owned),
        links: config.links().to_vec(),
        tcp: listener.as_ref().map_or_else(Vec::new, |l| l.candidates().to_vec()),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        rdma: match &library {
            Some(Ok(library)) => cards::look_in_time(library, &wish(config)),
            Some(Err(problem)) => Cards::without(&wish(config), &problem.to_string()),
            None => Cards::default(),
        },
        met: session.addresses(),
    };
    let mut cards: Vec<Card> = exchange(session, "capabilities", &card)?;
    for rank in 1..cards.len() {
        if let Some((own, hub)) = cards[rank].met {
            cards[rank].rdma.addresses.push(own);
            cards[0].rdma.addresses.push(hub);
        }
    }
    let hosts = hosts(&cards);
    if let Some((first, second, reason)) = mistake(&cards, &hosts) {
        return Err(StartError::NoLink { first, second, reason });
    }
    let own_host: Vec<usize> = (0..cards.len()).filter(|r| hosts[*r] == hosts[rank]).collect();

    // RDMA and shared memory first: where they cannot be had, the pairs are joined by something
    // else.
    let (mut rdma, failures) = join_by_rdma(session, library, &cards, &hosts)?;
    let agree = |a: usize, b: usize, shm: bool| {
        let rdma = !failures.contains_key(&(a.min(b), a.max(b)));
        agree(&cards, &hosts, a, b, shm, rdma)
    };
    let sharing = |of: usize| -> Vec<usize> {
        let mates = |r: &usize| hosts[*r] == hosts[of];
        let ranks: Vec<usize> = (0..cards.len()).filter(mates).collect();
        let shares = |r: &&usize| {
            ranks.iter().any(|other| other != *r && agree(**r, *other, true) == Some(LinkKind::Shm))
        };
        ranks.iter().filter(shares).copied().collect()
    };
    let own_sharing = sharing(rank);
    let (segment, problems) = share_memory(session, config, &own_sharing)?;
    let shm_works = |of: usize| sharing(of).iter().all(|r| problems[*r].is_none());

    let size = cards.len();
    let mut kinds = vec![LinkKind::Memory; size * size];
    for first in 0..size {
        for second in first + 1..size {
            let kind = agree(first, second, shm_works(first)).ok_or_else(|| {
                let failure = failures.get(&(first, second)).map(String::as_str);
                let reason = why_not(&cards, &hosts, &problems, failure, first, second);
                StartError::NoLink { first, second, reason }
            })?;
            kinds[first * size + second] = kind;
        }
    }
    let cores = cards.iter().map(|card| card.cores).collect();
    let matrix = Matrix::new(hosts.clone(), cores, |low, high| kinds[low * size + high])
        .with_cables(|rank, peer| devices(&cards, rank, peer));

    let poller = Poller::new().map_err(system(rank, "make a poller"))?;
    let mut names: Vec<Option<(LinkKind, String)>> = vec![None; size];
    let mut transports: Vec<Box<dyn Transport>> = Vec::new();
    let mut arenas = Arenas::None;
    if let Some(mut segment) = segment.filter(|_| shm_works(rank)) {
        for peer in
            own_sharing.iter().filter(|peer| matrix.kind_to(rank, **peer) == Some(LinkKind::Shm))
        {
            names[*peer] = Some((LinkKind::Shm, "this host".to_owned()));
        }
        let transport = shm_transport(&mut segment, &poller, size, &own_sharing)
            .map_err(system(rank, "use the shared memory"))?;
        transports.push(Box::new(transport));
        arenas = Arenas::for_host(segment, own_sharing, config.staging());
    }
    for (peer, detail) in rdma.details.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
        names[peer] = Some((LinkKind::Rdma, detail.clone()));
    }
    if rdma.links.iter().any(|links| !links.is_empty()) {
        let links = std::mem::take(&mut rdma.links);
        let transport = verbs::transport(&poller, links, &rdma.ports)
            .map_err(system(rank, "use the RDMA links"))?;
        transports.push(Box::new(transport));
    }
    if let Some(transport) =
        connect(session, config, listener, &cards, &matrix, &poller, &mut names)?
    {
        transports.push(Box::new(transport));
    }
    Ok(Links { names, matrix, arenas, poller, transports, local: own_host.len() })
}

/// Where RDMA devices are to be looked for; `None` if no link may use them.
fn verbs(config: &Config) -> Option<Result<Arc<dyn Library>, VerbsError>> {
    let wanted = config.links().contains(&LinkKind::Rdma);
    wanted.then(|| match &config.rdma().library {
        Some(library) => Ok(Arc::clone(library)),
        None => verbs::ffi::library(),
    })
}

fn wish(config: &Config) -> Wish {
    let rdma = config.rdma();
    let named = rdma.devices.as_ref().map(|table| {
        let row = table[config.rank()].iter().cloned().enumerate();
        row.filter(|(_, names)| !names.is_empty()).collect()
    });
    Wish {
        named,
        kind: rdma.queue_pairs.map(|kind| match kind {
            QueuePairs::Reliable => QpType::Rc,
            QueuePairs::Unreliable => QpType::Uc,
        }),
        gid_index: rdma.gid_index.map(|index| u32::try_from(index).unwrap_or(u32::MAX)),
    }
}

/// Why pairs of ranks, the lower one first, have no RDMA link.
type RdmaFailures = std::collections::BTreeMap<(usize, usize), String>;

/// Makes the RDMA links of this rank. All ranks call it, also those that need none.
fn join_by_rdma(
    session: &mut Session,
    library: Option<Result<Arc<dyn Library>, VerbsError>>,
    cards: &[Card],
    hosts: &[usize],
) -> Result<(verbs::establish::Made, RdmaFailures), StartError> {
    let wanted = |a: usize, b: usize| agree(cards, hosts, a, b, true, true) == Some(LinkKind::Rdma);
    let all: Vec<Cards> = cards.iter().map(|card| card.rdma.clone()).collect();
    let secret = session.token_key().iter().fold(0x9e37_79b9_7f4a_7c15, |secret, byte| {
        (secret ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let (me, deadline) = (session.rank(), session.deadline());
    // Others may have pairs of their own: the exchanges are everybody's.
    let library = library.and_then(Result::ok);
    let request = verbs::establish::Request::new(me, &all, &wanted, library, secret, deadline);
    let made =
        verbs::establish::establish(&request, &mut |what, bytes| session.exchange(what, bytes))?;
    for ((first, second), reason) in &made.failures {
        if request.me == *first || request.me == *second {
            tracing::warn!(first, second, reason, "no RDMA link");
        }
    }
    let failures = made.failures.clone();
    Ok((made, failures))
}

/// A rank's devices that lead to another rank, by their place in its list.
fn devices(cards: &[Card], rank: usize, peer: usize) -> Vec<u32> {
    let own = &cards[rank].rdma;
    let place = |name: &str| own.devices.iter().position(|device| device.name == name);
    let cables = cables((rank, own), (peer, &cards[peer].rdma));
    let places = cables.iter().filter_map(|cable| place(&cable.own.name));
    places.filter_map(|place| u32::try_from(place).ok()).collect()
}

/// What was set by hand for a pair of ranks that RDMA is to join and cannot be: it does not go over
/// something slower in silence.
fn mistake(cards: &[Card], hosts: &[usize]) -> Option<(usize, usize, String)> {
    for second in 0..cards.len() {
        for first in 0..second {
            let mut both =
                cards[first].links.iter().filter(|kind| cards[second].links.contains(kind));
            let before = |kind: &&LinkKind| match kind {
                LinkKind::Shm => hosts[first] == hosts[second],
                kind => **kind != LinkKind::Memory,
            };
            if both.find(before) != Some(&LinkKind::Rdma) {
                continue;
            }
            let pair = ((first, &cards[first].rdma), (second, &cards[second].rdma));
            if let Some(text) = cards::mistake(pair.0, pair.1) {
                let rest = "correct it, or leave rdma out of LYCAON_LINKS to go without";
                return Some((first, second, format!("{text}; {rest}")));
            }
        }
    }
    None
}

/// A number per host, by rank.
fn hosts(cards: &[Card]) -> Vec<usize> {
    let first = |card: &Card| cards.iter().position(|other| other.host == card.host);
    cards.iter().map(|card| first(card).expect("it is in the list itself")).collect()
}

/// The kind of link that two ranks both accept: the first in the lower rank's order.
fn agree(
    cards: &[Card],
    hosts: &[usize],
    first: usize,
    second: usize,
    shm: bool,
    rdma: bool,
) -> Option<LinkKind> {
    let (low, high) = (first.min(second), first.max(second));
    let possible = |kind: &LinkKind| match kind {
        LinkKind::Shm => shm && hosts[low] == hosts[high],
        LinkKind::Rdma => {
            rdma && !cables((low, &cards[low].rdma), (high, &cards[high].rdma)).is_empty()
        }
        LinkKind::Tcp => true,
        LinkKind::Memory => false,
    };
    let both = cards[low].links.iter().filter(|kind| cards[high].links.contains(kind));
    both.copied().find(possible)
}

fn why_not(
    cards: &[Card],
    hosts: &[usize],
    problems: &[Option<String>],
    rdma: Option<&str>,
    first: usize,
    second: usize,
) -> String {
    let list = |rank: usize| {
        let names: Vec<&str> = cards[rank].links.iter().map(|kind| kind.name()).collect();
        names.join(",")
    };
    let mut reason = format!(
        "rank {first} accepts {} and rank {second} accepts {} (LYCAON_LINKS)",
        list(first),
        list(second)
    );
    if hosts[first] != hosts[second] {
        reason += &format!(
            "; they are on different hosts ({} and {})",
            cards[first].host, cards[second].host
        );
    }
    let both = |kind| [first, second].iter().all(|rank| cards[*rank].links.contains(kind));
    if both(&LinkKind::Rdma) {
        match rdma {
            Some(failure) => reason += &format!("; RDMA: {failure}"),
            None => {
                reason +=
                    "; RDMA: no devices of the two are named for each other or share a network";
                for rank in [first, second] {
                    for problem in &cards[rank].rdma.problems {
                        reason += &format!("; rank {rank}: {problem}");
                    }
                    let names: Vec<&str> =
                        cards[rank].rdma.devices.iter().map(|card| card.name.as_str()).collect();
                    if !names.is_empty() {
                        reason += &format!("; rank {rank} has {}", names.join(", "));
                    }
                }
            }
        }
    }
    for (rank, problem) in problems.iter().enumerate() {
        if let Some(problem) = problem {
            reason += &format!("; rank {rank}: {problem}");
        }
    }
    reason
}

/// Makes the segment of this host. The second part says, by rank, where that failed.
fn share_memory(
    session: &mut Session,
    config: &Config,
    sharing: &[usize],
) -> Result<(Option<Segment>, Vec<Option<String>>), StartError> {
    let rank = config.rank();
    let place = sharing.iter().position(|r| *r == rank);
    let fits = sharing.len() <= MAX_RANKS;
    let mut failure = (place.is_some() && !fits).then(|| {
        format!("{} ranks on one host, shared memory joins {MAX_RANKS} at most", sharing.len())
    });
    let mut host = None;
    let mut offer = None;
    if place == Some(0) && failure.is_none() {
        let settings =
            shm::Settings { ranks: sharing.len(), staging: config.staging(), rings: true };
        let made =
            Offer::new().and_then(|offer| Ok((ShmHost::create(&settings, offer.clone())?, offer)));
        match made {
            Ok((made, its)) => {
                host = Some(made);
                offer = Some(its);
            }
            Err(error) => failure = Some(error.to_string()),
        }
    }
    let offers: Vec<Option<Offer>> = exchange(session, "shared memory", &offer)?;
    let deadline = session.deadline().min(Instant::now() + SHM_PATIENCE);
    let mut stop = || interrupt::requested() || session.failure().is_some();
    let segment = match (place, host) {
        (None, _) => None,
        (Some(_), Some(host)) => Some(host.serve(deadline, &mut stop)),
        (Some(place), None) => offers[sharing[0]]
            .as_ref()
            .filter(|_| fits)
            .map(|offer| shm::attach(offer, sharing.len(), place, deadline, &mut stop)),
    };
    let segment = match segment {
        Some(Ok(segment)) => Some(segment),
        Some(Err(ShmError::Stopped)) => {
            return Err(session.failure().unwrap_or(StartError::Interrupted { rank }));
        }
        Some(Err(error)) => {
            failure = Some(error.to_string());
            None
        }
        None => None,
    };
    if let Some(failure) = &failure {
        tracing::warn!(rank, failure, "no shared memory on this host");
    }
    let reports: Vec<Report> = exchange(session, "shared memory is there", &Report(failure))?;
    Ok((segment, reports.into_iter().map(|report| report.0).collect()))
}

fn shm_transport(
    segment: &mut Segment,
    poller: &Arc<Poller>,
    size: usize,
    sharing: &[usize],
) -> io::Result<Messenger<shm::RingStream>> {
    let mut streams: Vec<Vec<shm::RingStream>> = (0..size).map(|_| Vec::new()).collect();
    let rings = segment.take_streams().expect("the segment was made with rings");
    for (stream, rank) in rings.into_iter().zip(sharing) {
        streams[*rank].extend(stream);
    }
    let bell = poller.register(segment.bell(), Interest::READ)?;
    Ok(Messenger::new(Settings::new(LinkKind::Shm), Arc::clone(poller), streams).keeping(bell))
}

/// Makes the TCP links of this rank. All ranks call it, also those that need none.
fn connect(
    session: &mut Session,
    config: &Config,
    listener: Option<Listener>,
    cards: &[Card],
    matrix: &Matrix,
    poller: &Arc<Poller>,
    names: &mut [Option<(LinkKind, String)>],
) -> Result<Option<tcp::TcpTransport>, StartError> {
    let rank = config.rank();
    let peers: Vec<(usize, Vec<Candidate>)> = (0..cards.len())
        .filter(|peer| matrix.kind_to(rank, *peer) == Some(LinkKind::Tcp))
        .map(|peer| (peer, cards[peer].tcp.clone()))
        .collect();
    let made = match &listener {
        Some(listener) if !peers.is_empty() => {
            let request = tcp::Request {
                me: rank,
                peers: &peers,
                key: session.token_key(),
                job: session.job().as_bytes(),
                rails: config.rails(),
                deadline: session.deadline(),
            };
            let mut stop = || interrupt::requested() || session.failure().is_some();
            tcp::establish(listener, &request, &mut stop)
        }
        _ => Ok(Vec::new()),
    };
    let links = made.map_err(|error| {
        let peer = match &error {
            EstablishError::Failed(failures) => failures.first().map(|failure| failure.peer),
            _ => None,
        };
        match (error, peer) {
            (EstablishError::Interrupted, _) => StartError::Interrupted { rank },
            (EstablishError::System { action, source }, _) => system(rank, action)(source),
            (error, peer) => StartError::NoLink {
                first: rank,
                second: peer.unwrap_or(rank),
                reason: error.to_string(),
            },
        }
    })?;
    for link in &links {
        let route = &link.route;
        let interface =
            route.interface.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
        let detail = format!("{}{interface} to {}", route.local, route.remote);
        names[link.peer] = Some((LinkKind::Tcp, detail));
    }
    // Nobody goes on before everybody has its links.
    let _: Vec<Report> = exchange(session, "links are there", &Report::default())?;
    if links.is_empty() {
        return Ok(None);
    }
    tcp::transport(poller, Settings::new(LinkKind::Tcp), cards.len(), links)
        .map(Some)
        .map_err(system(rank, "use the TCP links"))
}

/// Listens where the configuration allows data.
fn listen(config: &Config) -> io::Result<Listener> {
    let port = 0;
    if config.interfaces().is_empty() {
        // Without a secret nobody from elsewhere is let in.
        if !config.has_token() || config.loopback_only() {
            return Listener::bind(&[SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)]).or_else(
                |error| {
                    Listener::bind(&[SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port)])
                        .map_err(|_| error)
                },
            );
        }
        return Listener::bind_all(port);
    }
    let locals = interfaces::local_addresses()?;
    let mut addresses = Vec::new();
    for interface in config.interfaces() {
        let before = addresses.len();
        let matches = |name: &str, ip: IpAddr| match interface {
            Interface::Address(address) => *address == ip,
            Interface::Name(wanted) => wanted == name,
        };
        let found = locals.iter().filter(|local| matches(&local.interface, local.ip));
        addresses.extend(found.map(|local| local.with_port(port)));
        if addresses.len() == before {
            return Err(io::Error::new(
                io::ErrorKind::AddrNotAvailable,
                format!("this host has no interface or address {interface} (LYCAON_INTERFACE)"),
            ));
        }
    }
    Listener::bind(&addresses)
}

/// An all-gather of something that can be written down.
fn exchange<T: Serialize + DeserializeOwned>(
    session: &mut Session,
    what: &str,
    own: &T,
) -> Result<Vec<T>, StartError> {
    let bytes = serde_json::to_vec(own).expect("plain data can be written down");
    let all = session.exchange(what, &bytes)?;
    let rank = session.rank();
    all.iter()
        .enumerate()
        .map(|(from, bytes)| {
            serde_json::from_slice(bytes).map_err(|error| StartError::System {
                rank,
                action: format!("read the {what} of rank {from}"),
                reason: error.to_string(),
            })
        })
        .collect()
}

fn system(rank: usize, action: &str) -> impl FnOnce(io::Error) -> StartError {
    let action = action.to_owned();
    move |error| StartError::System { rank, action, reason: error.to_string() }
}
