//! The rows of the table: what is run on which devices.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::fabric::{
    Addresses, Topology, Wiring, device, interface, packets_sent, resources, tool,
};
use crate::job::{Devices, Job, Launch};

/// The variable that chooses the type of the queue pairs.
pub(crate) const QP_TYPE: &str = "LYCAON_RDMA_QP";
/// The variable that overrides the index of the GID.
const GID_INDEX: &str = "LYCAON_RDMA_GID_INDEX";

const MATRIX_DEADLINE: Duration = Duration::from_secs(280);
/// For a tenth of them.
const CYCLES_DEADLINE: Duration = Duration::from_secs(120);
const START: Duration = Duration::from_secs(40);
/// No progress for this long is a failure in the rows that break something.
const SHORT_TIMEOUT: &str = "5";
/// The longest that survivors may take to notice, with some leave for an emulated processor.
const NOTICE: Duration = Duration::from_secs(20);
const CYCLES: usize = 1000;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Qp {
    Rc,
    Uc,
}

impl Qp {
    pub(crate) const BOTH: [Qp; 2] = [Qp::Rc, Qp::Uc];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Qp::Rc => "RC",
            Qp::Uc => "UC",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Qp::Rc => "rc",
            Qp::Uc => "uc",
        }
    }
}

/// What is broken on purpose, to see that the table would show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// A rank uses an entry of its device's GID table that is empty.
    Gid,
    /// The cable goes down under an operation that is expected to succeed, so that its work
    /// requests complete with errors and are flushed.
    Flush,
}

type Outcome = Result<String, String>;
type Action = Box<dyn Fn() -> Outcome>;

pub(crate) struct Row {
    pub(crate) devices: String,
    pub(crate) qp: &'static str,
    pub(crate) topology: String,
    pub(crate) ranks: usize,
    pub(crate) what: &'static str,
    pub(crate) run: Action,
}

fn row(
    wiring: &Wiring,
    qp: Qp,
    what: &'static str,
    run: impl Fn(&Wiring, Qp) -> Outcome + 'static,
) -> Row {
    let wired = wiring.clone();
    Row {
        devices: wiring.device_column(),
        qp: qp.name(),
        topology: wiring.topology_column(),
        ranks: wiring.ranks,
        what,
        run: Box::new(move || run(&wired, qp)),
    }
}

/// All rows, in the order in which they run.
pub(crate) fn all(broken: Option<Break>) -> Vec<Row> {
    let mesh = |ranks| Wiring::new(Topology::Mesh, ranks);
    let mut rows = Vec::new();
    for qp in Qp::BOTH {
        rows.push(row(&mesh(2), qp, "the devices themselves: pingpong", |_, qp| pingpong(qp)));
    }
    let ring = |ranks| Wiring::new(Topology::Ring, ranks);
    let line = |ranks| Wiring::new(Topology::Line, ranks);
    let wirings = [
        mesh(2),
        mesh(3),
        mesh(4),
        ring(2),
        ring(3),
        ring(4),
        line(3),
        line(4),
        mesh(2).rails(2),
        mesh(3).rails(2),
        ring(4).rails(2),
    ];
    for wiring in &wirings {
        for qp in Qp::BOTH {
            rows.push(row(wiring, qp, "every operation, every size", move |wiring, qp| {
                every_operation(wiring, qp, broken)
            }));
        }
    }
    let two = mesh(2).rails(2);
    for qp in Qp::BOTH {
        rows.push(row(&mesh(2), qp, "packets of 1,024 bytes (MTU 1500)", small_mtu));
        rows.push(row(&mesh(2), qp, "IPv4 addresses: their GIDs", ipv4_gids));
        rows.push(row(&mesh(2), qp, "IPv4 addresses: GID 0 by hand", gid_by_hand));
        rows.push(row(&two.clone().crossed(), qp, "paired by network, not by order", crossed));
        rows.push(row(&mesh(3), qp, "no table: devices are found", found));
        rows.push(row(&two, qp, "no table: both rails are found", found));
        rows.push(row(&ring(4), qp, "no table: devices are found", found));
        rows.push(row(&mesh(3), qp, "lycaon launch, MLX_IBV_DEVICES", |wiring, qp| {
            launcher(wiring, qp, "MLX_IBV_DEVICES")
        }));
        rows.push(row(&line(3), qp, "lycaon launch, JACCL_IBV_DEVICES", |wiring, qp| {
            launcher(wiring, qp, "JACCL_IBV_DEVICES")
        }));
        rows.push(row(&ring(3), qp, "JACCL's variables alone, with a ring", |wiring, qp| {
            jaccl(wiring, qp)
        }));
    }
    for qp in Qp::BOTH {
        rows.push(row(&mesh(3), qp, "rank 1 is killed: survivors name it", killed));
        rows.push(row(&mesh(2), qp, "rank 1 is paused: goes on", paused));
        rows.push(row(&mesh(2), qp, "cable goes down: both ranks say so", unplugged));
        rows.push(row(&mesh(2), qp, "cable is back: a few operations", |wiring, qp| {
            some(wiring, qp, |launch| launch)
        }));
        rows.push(row(&mesh(2), qp, "no such GID: error at the start", no_such_gid));
    }
    rows.push(row(&mesh(2), Qp::Rc, "memlock 64 KiB: error says so", little_memory));
    rows.push(row(&mesh(2), Qp::Rc, "no such device: error names it", no_such_device));
    rows.push(row(&two, Qp::Rc, "one rail is missing: error names it", missing_rail));
    rows.push(row(&mesh(2), Qp::Rc, "cable is down: error says so", port_down));
    let mut thousand = row(&mesh(2), Qp::Rc, "1,000 groups: nothing is left over", cycles);
    thousand.qp = "RC+UC";
    rows.push(thousand);
    rows
}

/// Adds what the ranks said to the reason of a failure.
fn with_tails<T>(job: &mut Job, outcome: Result<T, String>) -> Result<T, String> {
    outcome.map_err(|reason| format!("{reason}\n{}", job.tails()))
}

fn launch(wiring: &Wiring, qp: Qp, task: &[&str]) -> Launch {
    // What has no cable goes by TCP; shared memory would hide the devices.
    Launch::new(wiring, task)
        .set("LYCAON_LINKS", "rdma,tcp")
        .set(QP_TYPE, qp.word())
        .described_by(&format!("({}, ", qp.name()))
}

/// The tools of the library's own distribution, so that a machine that does not work is told from
/// a transport that does not.
fn pingpong(qp: Qp) -> Outcome {
    let program = format!("ibv_{}_pingpong", qp.word());
    let (first, second) = (device(0, 'a'), device(0, 'b'));
    let common = ["-g", "0", "-m", "4096", "-n", "100"];
    let mut server = std::process::Command::new(&program)
        .args(["-d", &first])
        .args(common)
        .stdout(std::process::Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    let end = Instant::now() + Duration::from_secs(15);
    let outcome = loop {
        let arguments = [&["-d", &second], &common[..], &["127.0.0.1"]].concat();
        match tool(&program, &arguments) {
            Ok(_) => break Ok("100 round trips".to_owned()),
            // The server needs a moment until it listens.
            Err(reason) if Instant::now() > end => break Err(reason),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    };
    // It has ended unless something is wrong.
    if outcome.is_err() {
        let _ = server.kill();
    }
    let status = server.wait().map_err(|error| error.to_string())?;
    if outcome.is_ok() && !status.success() {
        return Err(format!("the server of {program} ended with {status}"));
    }
    outcome
}

/// The matrix of operations, and proof that the devices carried it.
fn every_operation(wiring: &Wiring, qp: Qp, broken: Option<Break>) -> Outcome {
    let sent = |devices: &[String]| -> Result<Vec<u64>, String> {
        devices.iter().map(|device| packets_sent(device)).collect()
    };
    let devices = wiring.devices();
    let before = sent(&devices)?;
    let mut launch = launch(wiring, qp, &["matrix"]);
    if wiring.topology == Topology::Ring {
        launch = launch.set("MLX_JACCL_RING", "1");
    }
    if broken == Some(Break::Gid) {
        launch = launch.set_on(1, GID_INDEX, "7");
    }
    if broken == Some(Break::Flush) {
        launch = launch.set("LYCAON_TIMEOUT", SHORT_TIMEOUT);
    }
    let mut job = launch.start()?;
    let outcome = (|| {
        job.expect_all("running", START)?;
        if broken == Some(Break::Flush) {
            std::thread::sleep(Duration::from_millis(200));
            tool("/bin/ip", &["link", "set", &interface(0, 'a'), "down"])?;
        }
        let done = job.expect_all("done", MATRIX_DEADLINE)?;
        job.end_all(START)?;
        Ok(done[0].clone())
    })();
    if broken == Some(Break::Flush) {
        cable(0, true)?;
    }
    let checks = with_tails(&mut job, outcome)?;
    let after = sent(&devices)?;
    let used: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    let (least, most) = (used.iter().min().unwrap_or(&0), used.iter().max().unwrap_or(&0));
    // Megabytes have gone over every link, in packets of 4 KiB at most. Pairs have different
    // shares of the work, and so have rails, but none is left out.
    if *most < 1000 || least * 10 < *most {
        return Err(format!("packets sent by {devices:?}: {used:?}"));
    }
    Ok(format!("{checks} results, {least} to {most} packets from each device"))
}

/// A few operations by ranks that were started in another way, which `change` says.
fn some(wiring: &Wiring, qp: Qp, change: impl FnOnce(Launch) -> Launch) -> Outcome {
    let mut job = change(launch(wiring, qp, &["some"])).start()?;
    let outcome = (|| {
        let done = job.expect_all("done", MATRIX_DEADLINE)?;
        job.end_all(START)?;
        Ok(format!("{} results", done[0]))
    })();
    with_tails(&mut job, outcome)
}

/// Frames of 4,096 bytes over cables that carry 1,500.
fn small_mtu(wiring: &Wiring, qp: Qp) -> Outcome {
    let set = |mtu: &str| -> Result<(), String> {
        for end in ['a', 'b'] {
            tool("/bin/ip", &["link", "set", &interface(0, end), "mtu", mtu])?;
        }
        Ok(())
    };
    set("1500")?;
    let outcome = some(wiring, qp, |launch| launch.described_by("MTU 1024,"));
    set("4200")?;
    outcome
}

fn ipv4_gids(wiring: &Wiring, qp: Qp) -> Outcome {
    let _addresses = Addresses::on(wiring.numbers())?;
    some(wiring, qp, |launch| launch.described_by("GID ::ffff:10.0."))
}

fn gid_by_hand(wiring: &Wiring, qp: Qp) -> Outcome {
    let _addresses = Addresses::on(wiring.numbers())?;
    some(wiring, qp, |launch| launch.set(GID_INDEX, "0").described_by("GID fe80:"))
}

/// The ranks name their devices in opposite orders: only the addresses say what belongs together.
fn crossed(wiring: &Wiring, qp: Qp) -> Outcome {
    let _addresses = Addresses::on(wiring.numbers())?;
    some(wiring, qp, |launch| launch.described_by("GID ::ffff:10.0."))
}

/// Nothing is said of links either: ranks that seem to be on different hosts prefer RDMA.
fn found(wiring: &Wiring, qp: Qp) -> Outcome {
    let _addresses = Addresses::on(wiring.numbers())?;
    some(wiring, qp, |launch| launch.devices(Devices::Found).set("LYCAON_LINKS", "shm,rdma,tcp"))
}

/// As a user starts ranks.
fn launcher(wiring: &Wiring, qp: Qp, variable: &'static str) -> Outcome {
    let launch = launch(wiring, qp, &["some"]).devices(Devices::Named(variable));
    let mut job = launch.start_launcher()?;
    let outcome = (|| {
        let mut done = String::new();
        for _ in 0..wiring.ranks {
            done = job.expect(0, "done", MATRIX_DEADLINE)?;
        }
        job.end_all(START)?;
        Ok(format!("{done} results"))
    })();
    with_tails(&mut job, outcome)
}

/// As JACCL's own programs are started: no variable of ours says who is who.
fn jaccl(wiring: &Wiring, qp: Qp) -> Outcome {
    some(wiring, qp, |launch| {
        launch.devices(Devices::Named("JACCL_IBV_DEVICES")).jaccl().set("JACCL_RING", "1")
    })
}

/// The kind and the text of the error that a rank met.
fn failure(job: &Job, rank: usize, within: Duration) -> Result<(String, String), String> {
    let said = job.expect(rank, "failed", within)?;
    match said.split_once(": ") {
        Some((kind, text)) => Ok((kind.to_owned(), text.to_owned())),
        None => Err(format!("rank {rank} failed with \"{said}\"")),
    }
}

fn contains(rank: usize, text: &str, parts: &[&str]) -> Result<(), String> {
    match parts.iter().find(|part| !text.contains(**part)) {
        None => Ok(()),
        Some(part) => Err(format!("the error of rank {rank} does not say \"{part}\": {text}")),
    }
}

fn killed(wiring: &Wiring, qp: Qp) -> Outcome {
    let unused = resources()?;
    let mut job = launch(wiring, qp, &["repeat", "1000000"]).start()?;
    let outcome = (|| {
        job.expect_all("running", START)?;
        job.signal(1, Signal::KILL)?;
        let died = Instant::now();
        let mut longest = Duration::ZERO;
        for rank in (0..job.size()).filter(|rank| *rank != 1) {
            let (kind, text) = failure(&job, rank, NOTICE)?;
            longest = longest.max(died.elapsed());
            if kind != "rank_died" {
                return Err(format!("rank {rank} met {kind}: {text}"));
            }
            contains(rank, &text, &["rank 1 died", "all_reduce"])?;
            job.end(rank, NOTICE)?;
        }
        Ok(format!("after {:.1} s", longest.as_secs_f32()))
    })();
    let noticed = with_tails(&mut job, outcome)?;
    drop(job);
    let left = resources()?;
    if left == unused {
        Ok(noticed)
    } else {
        Err(format!("left behind: {left:?}, before {unused:?}"))
    }
}

fn paused(wiring: &Wiring, qp: Qp) -> Outcome {
    let mut job = launch(wiring, qp, &["repeat", "400"]).start()?;
    let outcome = (|| {
        job.expect_all("running", START)?;
        job.signal(1, Signal::STOP)?;
        std::thread::sleep(Duration::from_millis(1500));
        job.signal(1, Signal::CONT)?;
        job.expect_all("done", MATRIX_DEADLINE)?;
        job.end_all(START)?;
        Ok("400 results".to_owned())
    })();
    with_tails(&mut job, outcome)
}

fn unplugged(wiring: &Wiring, qp: Qp) -> Outcome {
    let launch = launch(wiring, qp, &["repeat", "1000000"]);
    let mut job = launch.set("LYCAON_TIMEOUT", SHORT_TIMEOUT).start()?;
    let outcome = (|| {
        job.expect_all("running", START)?;
        cable(0, false)?;
        let down = Instant::now();
        let mut kinds = Vec::new();
        for rank in 0..job.size() {
            let (kind, text) = failure(&job, rank, NOTICE)?;
            if kind != "link_lost" && kind != "deadline" {
                return Err(format!("rank {rank} met {kind}: {text}"));
            }
            contains(rank, &text, &["all_reduce", "rdma", &format!("rank {}", 1 - rank)])?;
            kinds.push(kind);
            job.end(rank, NOTICE)?;
        }
        Ok(format!("{} after {:.1} s", kinds[0], down.elapsed().as_secs_f32()))
    })();
    cable(0, true)?;
    with_tails(&mut job, outcome)
}

/// Plugs a cable in or out, and waits until its devices have noticed.
fn cable(number: usize, up: bool) -> Result<(), String> {
    let (word, state) = if up { ("up", "ACTIVE") } else { ("down", "DOWN") };
    let end = Instant::now() + Duration::from_secs(10);
    tool("/bin/ip", &["link", "set", &interface(number, 'a'), word])?;
    loop {
        let shown = tool("rdma", &["link", "show", &format!("{}/1", device(number, 'a'))])?;
        if shown.contains(&format!("state {state}")) {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("the device does not become {state}: {shown}"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Starts a group that cannot come about, and checks what every rank says of it.
fn refused(launch: Launch, parts: &[&str]) -> Outcome {
    let mut job = launch.start()?;
    let outcome = (|| {
        for rank in 0..job.size() {
            let said = job.expect(rank, "failed", START)?;
            contains(rank, &said, parts)?;
            job.end(rank, START)?;
        }
        Ok(String::new())
    })();
    with_tails(&mut job, outcome)
}

fn no_such_gid(wiring: &Wiring, qp: Qp) -> Outcome {
    let launch = launch(wiring, qp, &["start"]).set("LYCAON_LINKS", "rdma");
    refused(launch.set_on(1, GID_INDEX, "7"), &["GID", "7", &device(0, 'b')])
}

fn little_memory(wiring: &Wiring, qp: Qp) -> Outcome {
    let launch = launch(wiring, qp, &["start"]).set("LYCAON_LINKS", "rdma");
    refused(launch.locked_memory(64), &["ulimit -l", &device(0, 'a')])
}

fn no_such_device(_: &Wiring, qp: Qp) -> Outcome {
    let missing = Wiring::new(Topology::Mesh, 2).starting_at(99);
    let launch = launch(&missing, qp, &["start"]).set("LYCAON_LINKS", "rdma");
    refused(launch, &[&device(99, 'a')])
}

/// Of two named devices one is not there: to go on with the other one would be half the speed,
/// and nobody would know why.
fn missing_rail(wiring: &Wiring, qp: Qp) -> Outcome {
    let name = device(1, 'b');
    tool("rdma", &["link", "delete", &name])?;
    let launch = launch(wiring, qp, &["start"]).set("LYCAON_LINKS", "rdma");
    let outcome = refused(launch, &[&name]);
    tool("rdma", &["link", "add", &name, "type", "rxe", "netdev", &interface(1, 'b')])?;
    outcome
}

fn port_down(wiring: &Wiring, qp: Qp) -> Outcome {
    cable(0, false)?;
    let launch = launch(wiring, qp, &["start"]).set("LYCAON_LINKS", "rdma");
    let outcome = refused(launch, &[&device(0, 'a'), "port 1 is down"]);
    cable(0, true)?;
    outcome
}

/// What is in use while a group is up: in the kernel, and by rank the files, threads and pages.
type InUse = (BTreeMap<String, u64>, Vec<Vec<u64>>);

fn in_use(job: &Job) -> Result<InUse, String> {
    let words = job.expect_all("in-use", START)?;
    let numbers =
        |word: &String| word.split(' ').map(|number| number.parse().unwrap_or(0)).collect();
    Ok((resources()?, words.iter().map(numbers).collect()))
}

/// The type of the queue pairs changes with every group.
fn cycles(wiring: &Wiring, _: Qp) -> Outcome {
    let unused = resources()?;
    let launch = Launch::new(wiring, &["cycles", &CYCLES.to_string()]).set("LYCAON_LINKS", "rdma");
    let mut job = launch.start()?;
    let outcome = (|| {
        job.expect_all("tenth", CYCLES_DEADLINE)?;
        let (kernel, ranks) = in_use(&job)?;
        job.say_all("go")?;
        for _ in 1..10 {
            job.expect_all("tenth", CYCLES_DEADLINE)?;
        }
        let (kernel_after, ranks_after) = in_use(&job)?;
        job.say_all("go")?;
        job.expect_all("done", START)?;
        job.end_all(START)?;
        if kernel.get("qp") == unused.get("qp") {
            return Err(format!("a group that is up holds no queue pair: {kernel:?}"));
        }
        if kernel_after != kernel {
            return Err(format!("one group holds {kernel:?}, the last one {kernel_after:?}"));
        }
        for (rank, (before, after)) in ranks.iter().zip(&ranks_after).enumerate() {
            // Pages are allowed a MiB for what allocators keep.
            if after[0] > before[0] || after[1] > before[1] || after[2] > before[2] + 256 {
                return Err(format!(
                    "rank {rank} grew from {before:?} to {after:?} (files, threads, pages)"
                ));
            }
        }
        Ok(kernel
            .iter()
            .map(|(what, count)| format!("{what} {count}"))
            .collect::<Vec<_>>()
            .join(" "))
    })();
    let held = with_tails(&mut job, outcome)?;
    drop(job);
    let left = resources()?;
    if left != unused {
        return Err(format!("left behind: {left:?}, before {unused:?}"));
    }
    Ok(held)
}
