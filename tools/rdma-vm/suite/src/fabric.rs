//! The devices of this machine, and how a row of the table uses them.
//!
//! A cable joins two network interfaces, `c0a` and `c0b` for the first one, and each of them
//! carries a device, `rxe_c0a` and `rxe_c0b`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Which pairs of ranks have cables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    /// Every pair.
    Mesh,
    /// Neighbours, the last and the first among them.
    Ring,
    /// Neighbours; the last and the first are none.
    Line,
}

impl Topology {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Topology::Mesh => "mesh",
            Topology::Ring => "ring",
            Topology::Line => "line",
        }
    }

    /// The pairs with cables, the smaller rank first.
    fn pairs(self, ranks: usize) -> Vec<(usize, usize)> {
        let all = (0..ranks).flat_map(|i| (i + 1..ranks).map(move |j| (i, j)));
        all.filter(|(i, j)| match self {
            Topology::Mesh => true,
            Topology::Ring => j - i == 1 || (*i == 0 && *j == ranks - 1),
            Topology::Line => j - i == 1,
        })
        .collect()
    }
}

/// What joins the ranks of a row.
#[derive(Clone, Debug)]
pub(crate) struct Wiring {
    pub(crate) topology: Topology,
    pub(crate) ranks: usize,
    pub(crate) rails: usize,
    first: usize,
    crossed: bool,
}

/// One end of a cable, as a rank sees it.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) peer: usize,
    pub(crate) own: String,
    pub(crate) other: String,
}

impl Wiring {
    pub(crate) fn new(topology: Topology, ranks: usize) -> Self {
        Wiring { topology, ranks, rails: 1, first: 0, crossed: false }
    }

    pub(crate) fn rails(mut self, rails: usize) -> Self {
        self.rails = rails;
        self
    }

    /// Takes its cables from this one on.
    pub(crate) fn starting_at(mut self, first: usize) -> Self {
        self.first = first;
        self
    }

    /// The higher rank of each pair names its devices in the opposite order.
    pub(crate) fn crossed(mut self) -> Self {
        self.crossed = true;
        self
    }

    pub(crate) fn cables(&self) -> usize {
        self.topology.pairs(self.ranks).len() * self.rails
    }

    /// The numbers of its cables.
    pub(crate) fn numbers(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.cables()
    }

    /// The ends of the cables that a rank has.
    pub(crate) fn ends(&self, rank: usize) -> Vec<End> {
        let pairs = self.topology.pairs(self.ranks);
        let joined = pairs.iter().flat_map(|pair| std::iter::repeat_n(*pair, self.rails));
        let mut ends = Vec::new();
        for (cable, (i, j)) in self.numbers().zip(joined) {
            let (a, b) = (device(cable, 'a'), device(cable, 'b'));
            if rank == i {
                ends.push(End { peer: j, own: a, other: b });
            } else if rank == j {
                ends.push(End { peer: i, own: b, other: a });
            }
        }
        ends
    }

    /// For each rank and peer the devices of the rank that lead to the peer.
    fn cells(&self) -> Vec<Vec<Vec<String>>> {
        let mut cells = vec![vec![Vec::new(); self.ranks]; self.ranks];
        for (rank, row) in cells.iter_mut().enumerate() {
            for end in self.ends(rank) {
                row[end.peer].push(end.own);
            }
            if self.crossed {
                row[..rank].iter_mut().for_each(|devices| devices.reverse());
            }
        }
        cells
    }

    /// The device matrix in the form that `MLX_IBV_DEVICES` names: null, a name, or a list.
    pub(crate) fn matrix(&self) -> Value {
        let cell = |names: &Vec<String>| match names.as_slice() {
            [] => Value::Null,
            [name] => json!(name),
            names => json!(names),
        };
        self.cells().iter().map(|row| row.iter().map(cell).collect::<Vec<_>>()).collect()
    }

    pub(crate) fn devices(&self) -> Vec<String> {
        self.numbers().flat_map(|cable| [device(cable, 'a'), device(cable, 'b')]).collect()
    }

    /// For the table.
    pub(crate) fn device_column(&self) -> String {
        match self.cables() {
            1 => "rxe_c0a–b".to_owned(),
            cables => format!("rxe_c0a–c{}b", cables - 1),
        }
    }

    pub(crate) fn topology_column(&self) -> String {
        match (self.rails, self.crossed) {
            (1, _) => self.topology.name().to_owned(),
            (rails, false) => format!("{}, {rails} rails", self.topology.name()),
            (rails, true) => format!("{}, {rails} crossed", self.topology.name()),
        }
    }
}

pub(crate) fn device(cable: usize, end: char) -> String {
    format!("rxe_{}", interface(cable, end))
}

pub(crate) fn interface(cable: usize, end: char) -> String {
    format!("c{cable}{end}")
}

/// The address of one end of a cable. Each cable is a network of its own.
fn address(cable: usize, end: char) -> String {
    format!("10.0.{cable}.{}", if end == 'a' { 1 } else { 2 })
}

/// IPv4 addresses on cables, for as long as this lives.
///
/// Both ends of a cable are on this machine, which would not send to an address of its own through
/// a cable: a rule for each direction says that it shall.
pub(crate) struct Addresses {
    cables: std::ops::Range<usize>,
}

impl Addresses {
    pub(crate) fn on(cables: std::ops::Range<usize>) -> Result<Addresses, String> {
        let addresses = Addresses { cables };
        for cable in addresses.cables.clone() {
            for command in commands(cable, "add") {
                tool("/bin/ip", &words(&command))?;
            }
        }
        for cable in addresses.cables.clone() {
            for (end, host) in [('a', "01"), ('b', "02")] {
                await_gid(&device(cable, end), &format!(":ffff:0a00:{cable:02x}{host}"))?;
            }
        }
        Ok(addresses)
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        for command in self.cables.clone().flat_map(|cable| commands(cable, "del")) {
            // After a failure not all of them are there.
            let _ = tool("/bin/ip", &words(&command));
        }
    }
}

/// What is told to `ip` of the addresses of a cable.
fn commands(cable: usize, action: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for (end, far) in [('a', 'b'), ('b', 'a')] {
        let (interface, own, peer) =
            (interface(cable, end), address(cable, end), address(cable, far));
        let table = 100 + 2 * cable + usize::from(end == 'b');
        commands.extend([
            format!("address {action} {own}/24 dev {interface}"),
            format!("rule {action} pref 10 iif lo from {own} to {peer} lookup {table}"),
            format!("route {action} {peer} dev {interface} table {table}"),
        ]);
    }
    if action == "del" {
        commands.reverse();
    }
    commands
}

fn words(command: &str) -> Vec<&str> {
    command.split(' ').collect()
}

/// Waits until a device has an identifier.
fn await_gid(device: &str, ending: &str) -> Result<(), String> {
    let folder = format!("/sys/class/infiniband/{device}/ports/1/gids");
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let gids: Vec<String> = (0..8)
            .filter_map(|index| std::fs::read_to_string(format!("{folder}/{index}")).ok())
            .map(|gid| gid.trim().to_owned())
            .collect();
        if gids.iter().any(|gid| gid.ends_with(ending)) {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("{device} does not get a GID that ends with {ending}: {gids:?}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Makes a folder that has some devices of `/dev/infiniband` and no others, as a container would.
pub(crate) fn only_these(devices: &[String], folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let class = "/sys/class/infiniband_verbs";
    let listed = std::fs::read_dir(class).map_err(|error| format!("{class}: {error}"))?;
    for entry in listed.flatten() {
        let read =
            |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        if devices.iter().any(|device| device == read("ibdev").trim()) {
            let node = folder.join(entry.file_name());
            let numbers = read("dev").trim().replace(':', " ");
            let command = format!("mknod -m 666 {} c {numbers}", node.display());
            tool("sh", &["-c", &command])?;
        }
    }
    Ok(())
}

/// Runs a tool and returns what it printed.
pub(crate) fn tool(program: &str, arguments: &[&str]) -> Result<String, String> {
    let done = Command::new(program).args(arguments).output();
    let done = done.map_err(|error| format!("cannot run {program}: {error}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(format!("{program} {} failed: {}", arguments.join(" "), said.trim()));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Packets that a device has sent since it was made, as its driver counts them.
pub(crate) fn packets_sent(device: &str) -> Result<u64, String> {
    let path = format!("/sys/class/infiniband/{device}/ports/1/hw_counters/sent_pkts");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    text.trim().parse().map_err(|_| format!("{path} is not a number: {text}"))
}

/// What the kernel holds for the users of the devices: the sum over all devices of queue pairs,
/// completion queues, memory regions, protection domains and contexts.
pub(crate) fn resources() -> Result<BTreeMap<String, u64>, String> {
    let shown = tool("rdma", &["resource", "show"])?;
    let mut sum = BTreeMap::new();
    for line in shown.lines() {
        // 0: rxe_c0a: pd 0 cq 0 qp 1 cm_id 0 mr 0 ctx 0 srq 0
        let words: Vec<&str> = line.split_whitespace().skip(2).collect();
        for pair in words.chunks_exact(2) {
            let count: u64 = pair[1].parse().map_err(|_| format!("cannot read: {line}"))?;
            *sum.entry(pair[0].to_owned()).or_insert(0) += count;
        }
    }
    if sum.is_empty() {
        Err(format!("`rdma resource show` says nothing: {shown}"))
    } else {
        Ok(sum)
    }
}
