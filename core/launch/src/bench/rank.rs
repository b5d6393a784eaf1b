//! The benchmark as one rank carries it out.

use std::fs;

use lycaon::config::ConfigBuilder;
use lycaon::error::LinkKind;
use lycaon::{Group, Op, Operation};

use super::BenchError;
use super::case::{Case, Form};
use super::check::{self, Buffers};
use super::options::BenchOptions;
use super::report::{self, Half, Line, OutOfBounds, Report};
use super::screen::Screen;
use super::sizes::show_size;
use super::timing::{self, Effort};

/// Joins the group and measures; gives the code to exit with.
pub(super) fn run(options: &BenchOptions) -> Result<u8, BenchError> {
    let group = join(options)?;
    options.check_for(group.size())?;
    let hosts = hosts(&group)?;
    if options.pin {
        pin(&hosts, group.rank())?;
    }
    let mut report = Report {
        version: lycaon::VERSION,
        ranks: group.size(),
        hosts,
        links: links(&group)?,
        warmup: options.warmup,
        checked: options.check > 0,
        pinned: options.pin,
        results: Vec::new(),
        out_of_bounds: OutOfBounds { count: 0, okay: true },
        average_bus_bandwidth: 0.0,
    };
    let json_alone = options.json.as_ref().is_some_and(|path| path.as_os_str() == "-");
    let mut bench = Bench {
        options,
        group: &group,
        screen: Screen::of(group.rank(), options.screen)?,
        table: !json_alone,
        seed: 0,
    };
    bench.lines(&report.header())?;
    let tables = bench.tables()?;
    let all: usize = tables.iter().map(|(_, cases)| cases.len()).sum();
    for (operation, cases) in &tables {
        bench.lines(&report::heading(operation.name(), &bench.algorithms(cases)))?;
        for case in cases {
            let what = format!("{operation} {}", show_size(case.bytes()));
            bench.screen.progress(report.results.len(), all, &what);
            let line = bench.line(case)?;
            bench.lines(&[report::row(&line)])?;
            report.results.push(line);
        }
    }
    report.finish();
    bench.lines(&["#".to_owned()])?;
    bench.lines(&report.footer())?;
    if group.rank() == 0 {
        bench.write_json(&report)?;
        // why: one rank tells the launcher; that the others end as well is no failure of theirs.
        return Ok(u8::from(!report.out_of_bounds.okay));
    }
    Ok(0)
}

fn join(options: &BenchOptions) -> Result<Group, BenchError> {
    let mut builder = ConfigBuilder::from_env().map_err(lycaon::Error::from)?;
    if let Some(links) = &options.links {
        let kind = |name| {
            [LinkKind::Shm, LinkKind::Rdma, LinkKind::Tcp].into_iter().find(|k| k.name() == name)
        };
        builder = builder.links(links.split(',').filter_map(kind));
    }
    if let Some(algorithm) = options.algorithm {
        builder = builder.algorithm(None, algorithm);
    }
    Ok(lycaon::init_with(&builder.build().map_err(lycaon::Error::from)?)?)
}

/// The name of each rank's host.
fn hosts(group: &Group) -> Result<Vec<String>, BenchError> {
    const LONGEST: usize = 255;
    let mut own = [0; LONGEST];
    let name = rustix::system::uname();
    let name = name.nodename().to_bytes();
    let length = name.len().min(LONGEST);
    own[..length].copy_from_slice(&name[..length]);
    let mut all = vec![0; LONGEST * group.size()];
    group.all_gather(&own, &mut all)?;
    let text = |name: &[u8]| {
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        String::from_utf8_lossy(&name[..end]).into_owned()
    };
    Ok(all.chunks_exact(LONGEST).map(text).collect())
}

/// How many pairs of ranks are joined by which kind of link.
fn links(group: &Group) -> Result<Vec<(&'static str, u64)>, BenchError> {
    const KINDS: [LinkKind; 4] = [LinkKind::Memory, LinkKind::Shm, LinkKind::Rdma, LinkKind::Tcp];
    let mut ends = KINDS.map(|kind| {
        let own = group.links();
        own.iter().filter(|link| link.kind == kind).count() as u64
    });
    group.all_reduce(&mut ends, Op::Sum)?;
    // Each link has two ends.
    let pairs = KINDS.iter().zip(ends).map(|(kind, ends)| (kind.name(), ends / 2));
    Ok(pairs.filter(|(_, pairs)| *pairs > 0).collect())
}

/// Keeps this thread on one of the cores it may use, a different one for each rank of the host
/// while there are enough.
#[cfg(target_os = "linux")]
fn pin(hosts: &[String], rank: usize) -> Result<(), BenchError> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    let failed = |errno: rustix::io::Errno| BenchError::System {
        what: "keep this rank on one core",
        source: errno.into(),
    };
    let allowed = sched_getaffinity(None).map_err(failed)?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let local = hosts[..rank].iter().filter(|host| **host == hosts[rank]).count();
    let mut own = CpuSet::new();
    own.set(cores[local % cores.len()]);
    sched_setaffinity(None, &own).map_err(failed)
}

#[cfg(not(target_os = "linux"))]
fn pin(_: &[String], _: usize) -> Result<(), BenchError> {
    // The options were checked for it.
    Ok(())
}

struct Bench<'a> {
    options: &'a BenchOptions,
    group: &'a Group,
    screen: Screen,
    table: bool,
    seed: u64,
}

impl Bench<'_> {
    fn lines(&mut self, lines: &[String]) -> Result<(), BenchError> {
        if self.table {
            for line in lines {
                self.screen.line(line)?;
            }
        }
        Ok(())
    }

    /// The cases of each operation. Sizes that come to the same are measured once.
    fn tables(&self) -> Result<Vec<(Operation, Vec<Case>)>, BenchError> {
        let (options, place) = (self.options, (self.group.rank(), self.group.size()));
        let sizes = options.sizes()?;
        let case = |operation, bytes| {
            Case::new(operation, options.dtype, options.op, options.root, bytes, place)
        };
        let mut tables = Vec::new();
        for operation in options.operations() {
            // why: a rank of a group of one has nobody to send to.
            if operation == Operation::SendRecv && self.group.size() == 1 {
                continue;
            }
            let mut cases: Vec<Case> = sizes.iter().map(|size| case(operation, *size)).collect();
            cases.dedup();
            tables.push((operation, cases));
        }
        Ok(tables)
    }

    fn algorithm(&self, case: &Case) -> Option<&'static str> {
        let one = self.group.size() == 1 || case.operation.is_point_to_point();
        (!one).then(|| self.group.algorithm(case.operation, case.own_bytes()).name())
    }

    /// Where the algorithm changes.
    fn algorithms(&self, cases: &[Case]) -> Vec<(String, &'static str)> {
        let mut changes: Vec<(String, &'static str)> = Vec::new();
        for case in cases {
            if let Some(name) = self.algorithm(case)
                && changes.last().is_none_or(|(_, last)| *last != name)
            {
                changes.push((show_size(case.bytes()), name));
            }
        }
        changes
    }

    fn line(&mut self, case: &Case) -> Result<Line, BenchError> {
        Ok(Line {
            operation: case.operation.name(),
            size: case.bytes(),
            count: case.count as u64,
            dtype: case.dtype.name(),
            redop: case.op.map_or("none", Op::name),
            root: case.root.map_or(-1, |root| root as i64),
            algorithm: self.algorithm(case),
            out_of_place: self.half(case, Form::OutOfPlace)?,
            in_place: self.half(case, Form::InPlace)?,
        })
    }

    fn half(&mut self, case: &Case, form: Form) -> Result<Option<Half>, BenchError> {
        if !case.has(form) {
            return Ok(None);
        }
        let (options, group) = (self.options, self.group);
        let mut buffers = Buffers::new(case, form);
        let effort =
            Effort { warmup: options.warmup, iterations: options.iters, time: options.seconds };
        let timing = timing::measure(group, &effort, &mut || buffers.run(case, group))?;
        let mut nwrong = None;
        // A barrier has no data that could be wrong.
        let checks = if case.operation == Operation::Barrier { 0 } else { options.check };
        for _ in 0..checks {
            self.seed += 1;
            let corrupt = options.corrupt == Some(case.rank);
            let wrong = check::check(case, form, self.seed, group, &mut buffers, corrupt)?;
            let mut wrong = [wrong];
            group.all_reduce(&mut wrong, Op::Sum)?;
            nwrong = Some(nwrong.unwrap_or(0) + wrong[0]);
        }
        Ok(Some(Half::new(case, &timing, nwrong)))
    }

    fn write_json(&mut self, report: &Report) -> Result<(), BenchError> {
        let Some(path) = &self.options.json else { return Ok(()) };
        let place = path.display().to_string();
        let text = serde_json::to_string_pretty(report)
            .map_err(|error| BenchError::Output { place: place.clone(), source: error.into() })?;
        if !self.table {
            return self.screen.line(&text);
        }
        fs::write(path, text + "\n").map_err(|source| BenchError::Output { place, source })
    }
}
