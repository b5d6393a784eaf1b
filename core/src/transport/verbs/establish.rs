//! From cards to links, in steps that all ranks take together: queue pairs are made, everybody
//! learns of them, they are connected and receives are posted, everybody learns that, and a full
//! message of each kind goes both ways. A pair for which that fails is tried once more with new
//! queue pairs; then it is left to other kinds of link.
//!
//! Verbs that may block in the kernel run on a thread of their own with a deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::RdmaError;
use super::api::{Library, QpType};
use super::cards::{Cable, Cards, agreed, cables, ways};
use super::guard::{VERBS, timed};
use super::link::{COMPLETIONS, Link, Offer, QUEUE_PAIRS, SHARE, Terms};
use super::port::{OpenDevice, Port, Share};

/// How often a pair is tried.
const ATTEMPTS: usize = 2;
/// How long the first messages may take.
const PROOF: Duration = Duration::from_secs(5);

/// What to establish.
pub(crate) struct Request<'a> {
    /// This rank.
    pub me: usize,
    /// What all ranks have published.
    pub cards: &'a [Cards],
    /// Which pairs of ranks are to be joined: symmetric, and the same on all ranks.
    pub wanted: &'a dyn Fn(usize, usize) -> bool,
    /// Where the devices are.
    pub library: Option<Arc<dyn Library>>,
    /// Something that only the ranks of this job know.
    pub secret: u64,
    /// When to give up.
    pub deadline: Instant,
    /// How long verbs may take that make or connect something.
    pub patience: Duration,
}

impl<'a> Request<'a> {
    /// With the usual patience.
    pub(crate) fn new(
        me: usize,
        cards: &'a [Cards],
        wanted: &'a dyn Fn(usize, usize) -> bool,
        library: Option<Arc<dyn Library>>,
        secret: u64,
        deadline: Instant,
    ) -> Self {
        Request { me, cards, wanted, library, secret, deadline, patience: VERBS }
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// The cables to every rank.
    pub links: Vec<Vec<Link>>,
    /// The devices they use.
    pub ports: Vec<Arc<Port>>,
    /// Where the links lead, for people.
    pub details: Vec<String>,
    /// By pair, lower rank first: why it has no RDMA link although one was wanted. The same on all
    /// ranks.
    pub failures: BTreeMap<(usize, usize), String>,
}

/// An all-gather between the ranks.
pub(crate) type Exchange<'a, E> = dyn FnMut(&str, &[u8]) -> Result<Vec<Vec<u8>>, E> + 'a;

/// What a rank says of its ends towards its peers.
#[derive(Default, Serialize, Deserialize)]
struct Ends(BTreeMap<usize, Result<Vec<Offer>, String>>);

/// What went wrong towards peers.
#[derive(Default, Serialize, Deserialize)]
struct Problems(BTreeMap<usize, Problem>);

/// What went wrong towards a peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Problem {
    text: String,
    /// It was the way to the peer that was refused: another one may do.
    way: bool,
}

impl From<&RdmaError> for Problem {
    fn from(error: &RdmaError) -> Self {
        Problem { text: error.to_string(), way: matches!(error, RdmaError::Path { .. }) }
    }
}

/// One cable that is being connected.
struct Draft {
    peer: usize,
    cable: usize,
    name: String,
    terms: Terms,
    detail: String,
    port: Arc<Port>,
    memory: Option<(Arc<Share>, u32)>,
    link: Option<Link>,
}

/// Joins this rank with its peers. All ranks call it, also those that want nothing.
pub(crate) fn establish<E>(
    request: &Request<'_>,
    exchange: &mut Exchange<'_, E>,
) -> Result<Made, E> {
    let size = request.cards.len();
    let (low, high) = (|a: usize, b: usize| a.min(b), |a: usize, b: usize| a.max(b));
    let mut open: Vec<(usize, usize)> = (0..size)
        .flat_map(|b| (0..b).map(move |a| (a, b)))
        .filter(|(a, b)| (request.wanted)(*a, *b))
        .collect();
    let mut made = Made {
        links: (0..size).map(|_| Vec::new()).collect(),
        details: vec![String::new(); size],
        ..Made::default()
    };
    let mut drafts: Vec<Draft> = Vec::new();
    let mut given_up: Vec<(usize, usize, (Arc<Share>, u32))> = Vec::new();
    // Pairs whose best way was refused.
    let mut refused: BTreeSet<(usize, usize)> = BTreeSet::new();
    for attempt in 0..ATTEMPTS {
        if open.is_empty() {
            break;
        }
        let peers: Vec<usize> = open
            .iter()
            .filter(|(a, b)| *a == request.me || *b == request.me)
            .map(|(a, b)| if *a == request.me { *b } else { *a })
            .collect();
        // Queue pairs.
        let way = |peer: usize| {
            usize::from(refused.contains(&(low(peer, request.me), high(peer, request.me))))
        };
        let planned = plan(request, &peers, (attempt, &way), &mut made.ports);
        let mut ends = Ends::default();
        match planned {
            Ok(mut planned) => {
                for draft in &mut planned {
                    let same = |(peer, cable, _): &(usize, usize, _)| {
                        (*peer, *cable) == (draft.peer, draft.cable)
                    };
                    let at = given_up.iter().position(same);
                    draft.memory = at.map(|at| given_up.swap_remove(at).2);
                }
                let (back, problems) =
                    bounded(planned, "making queue pairs", request.patience, create);
                drafts = back;
                for peer in &peers {
                    let of = drafts.iter().filter(|draft| draft.peer == *peer);
                    let offers = of.filter_map(|d| d.link.as_ref()).map(Link::offer).collect();
                    let end = problems.get(peer).map_or(Ok(offers), |p| Err(p.text.clone()));
                    ends.0.insert(*peer, end);
                }
            }
            Err(error) => {
                for peer in &peers {
                    ends.0.insert(*peer, Err(error.to_string()));
                }
            }
        }
        let all: Vec<Ends> = gather(exchange, "RDMA queue pairs", &ends)?;
        // Connections.
        let mut offers = BTreeMap::new();
        let mut problems = Problems::default();
        for peer in &peers {
            match all[*peer].0.get(&request.me) {
                Some(Ok(theirs)) if ends.0.get(peer).is_some_and(Result::is_ok) => {
                    offers.insert(*peer, theirs.clone());
                }
                Some(Err(reason)) => {
                    let error = RdmaError::Peer { peer: *peer, reason: reason.clone() };
                    problems.0.insert(*peer, Problem::from(&error));
                }
                _ => {}
            }
            if let Some(Err(own)) = ends.0.get(peer) {
                problems.0.insert(*peer, Problem { text: own.clone(), way: false });
            }
        }
        let connect = move |draft: &mut Draft| {
            let theirs = offers.get(&draft.peer).and_then(|theirs| theirs.get(draft.cable));
            match (theirs, &mut draft.link) {
                (Some(theirs), Some(link)) => link.connect(theirs),
                _ => Ok(()),
            }
        };
        let (back, failed) = bounded(drafts, "connecting queue pairs", request.patience, connect);
        drafts = back;
        problems.0.extend(failed);
        let all: Vec<Problems> = gather(exchange, "RDMA connections", &problems)?;
        // First messages.
        let bad = |a: usize, b: usize| all[a].0.contains_key(&b) || all[b].0.contains_key(&a);
        let proofs = prove(request, &mut drafts, &|peer| !bad(request.me, peer));
        problems.0.extend(proofs);
        let all: Vec<Problems> = gather(exchange, "RDMA first messages", &problems)?;
        // What is there stays; the rest is tried again.
        let before = std::mem::take(&mut made.failures);
        open.retain(|(a, b)| {
            let of = |rank: usize, peer: usize| Some((rank, all[rank].0.get(&peer)?));
            let found: Vec<(usize, &Problem)> =
                [of(*a, *b), of(*b, *a)].into_iter().flatten().collect();
            if found.is_empty() {
                return false;
            }
            let pair = (low(*a, *b), high(*a, *b));
            if found.iter().any(|(_, problem)| problem.way) {
                refused.insert(pair);
            }
            let say =
                |(rank, problem): &(usize, &Problem)| format!("rank {rank}: {}", problem.text);
            let mut text = found.iter().map(say).collect::<Vec<String>>().join("; ");
            if let Some(first) = before.get(&pair).filter(|first| **first != text) {
                text = format!("{first}; at the second try: {text}");
            }
            made.failures.insert(pair, text);
            true
        });
        for draft in std::mem::take(&mut drafts) {
            let Some(link) = draft.link else { continue };
            let pair = (low(draft.peer, request.me), high(draft.peer, request.me));
            if made.failures.contains_key(&pair) {
                tracing::debug!(peer = draft.peer, device = draft.name, "an RDMA link failed");
                given_up.push((draft.peer, draft.cable, link.give_up()));
                continue;
            }
            let detail = &mut made.details[draft.peer];
            if !detail.is_empty() {
                detail.push_str(", ");
            }
            detail.push_str(&draft.detail);
            made.links[draft.peer].push(link);
        }
    }
    made.ports.retain(|port| Arc::strong_count(port) > 1);
    Ok(made)
}

/// What is to be made, with the devices opened and everything counted before.
fn plan(
    request: &Request<'_>,
    peers: &[usize],
    (attempt, way): (usize, &dyn Fn(usize) -> usize),
    ports: &mut Vec<Arc<Port>>,
) -> Result<Vec<Draft>, RdmaError> {
    let me = request.me;
    let mine = &request.cards[me];
    let mut wanted: Vec<(usize, usize, Cable<'_>)> = Vec::new();
    for peer in peers {
        let found = cables((me, mine), (*peer, &request.cards[*peer]));
        wanted.extend(found.into_iter().enumerate().map(|(at, cable)| (*peer, at, cable)));
    }
    let mut per_device: BTreeMap<String, u32> = BTreeMap::new();
    for (_, _, cable) in &wanted {
        *per_device.entry(cable.own.name.clone()).or_default() += 1;
    }
    let Some(library) = request.library.clone() else {
        return Ok(Vec::new());
    };
    let known = ports.clone();
    let opened = timed("opening devices", request.patience, move || {
        let mut opened = Vec::new();
        for (name, links) in per_device {
            let old = known.iter().find(|port| port.device.name() == name);
            if let Some(port) = old {
                port.device.check_budget(links * QUEUE_PAIRS)?;
                continue;
            }
            let device = OpenDevice::get(&library, &name)?;
            device.check_budget(links * QUEUE_PAIRS)?;
            // One region for all of them.
            drop(device.take(links as usize * SHARE)?);
            opened.push(Port::new(device, links * COMPLETIONS)?);
        }
        Ok(opened)
    })?;
    ports.extend(opened);
    let mut drafts = Vec::new();
    for (peer, cable, Cable { own, other }) in wanted {
        let (here, there) = (&mine.addresses, &request.cards[peer].addresses);
        let ways = ways((own, here), (other, there));
        let Some((way, _)) = ways.get(way(peer).min(ways.len().saturating_sub(1))) else {
            continue;
        };
        let kind = agreed(own, other, mine, &request.cards[peer]).unwrap_or(QpType::Uc);
        let frame = own.quirks.frame.or(other.quirks.frame);
        let terms = Terms {
            kind,
            frame,
            // why: it is not certain that a send may leave its last frame unfilled. If it did not
            // work, it is done without.
            pad: frame.is_some() && attempt > 0,
            mtu: own.mtu.min(other.mtu),
            port: own.port,
            lid: own.lid,
            gid: way.gid,
            gid_index: way.index,
        };
        let detail = format!(
            "{} to {} ({kind}, MTU {}, GID {})",
            own.name,
            other.name,
            terms.mtu.bytes(),
            way.gid
        );
        let port = ports.iter().find(|port| port.device.name() == own.name);
        let port = Arc::clone(port.expect("opened above"));
        let name = own.name.clone();
        drafts.push(Draft { peer, cable, name, terms, detail, port, memory: None, link: None });
    }
    Ok(drafts)
}

fn create(draft: &mut Draft) -> Result<(), RdmaError> {
    let (share, inbox) = match draft.memory.take() {
        Some(memory) => memory,
        None => (Arc::new(draft.port.device.take(SHARE)?), draft.port.open_inbox(draft.terms.port)),
    };
    draft.link = Some(Link::create(&draft.port, share, inbox, draft.terms)?);
    Ok(())
}

/// Sends the first messages and waits for those of the peers. Returns what went wrong.
fn prove(
    request: &Request<'_>,
    drafts: &mut [Draft],
    good: &dyn Fn(usize) -> bool,
) -> BTreeMap<usize, Problem> {
    let unproven = |text: String| Problem { text, way: false };
    let mut problems = BTreeMap::new();
    let mut waiting: Vec<&mut Draft> =
        drafts.iter_mut().filter(|draft| good(draft.peer) && draft.link.is_some()).collect();
    let secret = |from: usize, to: usize, cable: usize| {
        let text = format!("{:016x} {from} {to} {cable}", request.secret);
        u64::from(crate::call::fnv1a(text.as_bytes())) << 20 ^ request.secret
    };
    for draft in &mut waiting {
        let link = draft.link.as_mut().expect("filtered above");
        if let Err(error) = link.send_proof(secret(request.me, draft.peer, draft.cable)) {
            problems.insert(draft.peer, unproven(error.to_string()));
        }
    }
    let until = request.deadline.min(Instant::now() + PROOF);
    let mut turns = 0_u32;
    loop {
        waiting.retain_mut(|draft| {
            let link = draft.link.as_mut().expect("filtered above");
            match link.check_proof(secret(draft.peer, request.me, draft.cable)) {
                Ok(proven) => !proven,
                Err(error) => {
                    problems.insert(draft.peer, unproven(error.to_string()));
                    false
                }
            }
        });
        if waiting.is_empty() {
            return problems;
        }
        if Instant::now() >= until {
            for draft in waiting {
                let (device, seconds) = (draft.name.clone(), PROOF.as_secs());
                let error = RdmaError::Silent { device, seconds };
                problems.entry(draft.peer).or_insert_with(|| Problem::from(&error));
            }
            return problems;
        }
        turns += 1;
        if turns < 1000 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Does something with each draft on a thread with a deadline. Returns the drafts, and what went
/// wrong by peer. If the deadline passes, the drafts stay with the thread.
fn bounded(
    mut drafts: Vec<Draft>,
    what: &'static str,
    patience: Duration,
    each: impl Fn(&mut Draft) -> Result<(), RdmaError> + Send + 'static,
) -> (Vec<Draft>, BTreeMap<usize, Problem>) {
    let peers: Vec<usize> = drafts.iter().map(|draft| draft.peer).collect();
    let done = timed(what, patience, move || {
        let mut problems = BTreeMap::new();
        for draft in &mut drafts {
            if let Err(error) = each(draft) {
                problems.entry(draft.peer).or_insert_with(|| Problem::from(&error));
            }
        }
        Ok((drafts, problems))
    });
    done.unwrap_or_else(|error| {
        let problems = peers.into_iter().map(|peer| (peer, Problem::from(&error))).collect();
        (Vec::new(), problems)
    })
}

fn gather<T: Serialize + DeserializeOwned + Default, E>(
    exchange: &mut Exchange<'_, E>,
    what: &str,
    own: &T,
) -> Result<Vec<T>, E> {
    let bytes = serde_json::to_vec(own).expect("plain data can be written down");
    let all = exchange(what, &bytes)?;
    // A rank that says what cannot be read has said nothing; its pairs fail.
    Ok(all.iter().map(|bytes| serde_json::from_slice(bytes).unwrap_or_default()).collect())
}
