//! The results as text and as JSON.

use serde::Serialize;

use super::case::Case;
use super::timing::Timing;

/// One half of a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Half {
    /// Microseconds: the median of the batches.
    pub(super) time: f64,
    /// GB/s.
    pub(super) alg_bw: f64,
    /// GB/s.
    pub(super) bus_bw: f64,
    /// Wrong elements on all ranks; absent if nothing was checked.
    pub(super) nwrong: Option<u64>,
    /// Microseconds: the fastest batch.
    pub(super) time_min: f64,
    /// Microseconds: the slowest batch.
    pub(super) time_max: f64,
    pub(super) iterations: u64,
}

impl Half {
    pub(super) fn new(case: &Case, timing: &Timing, nwrong: Option<u64>) -> Self {
        // A billionth of a second is below what any clock here tells.
        let alg_bw = case.bytes() as f64 / timing.median.max(1e-9) / 1e9;
        Half {
            time: timing.median * 1e6,
            alg_bw,
            bus_bw: alg_bw * case.bus_factor(),
            nwrong,
            time_min: timing.fastest * 1e6,
            time_max: timing.slowest * 1e6,
            iterations: timing.iterations,
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Line {
    pub(super) operation: &'static str,
    pub(super) size: u64,
    pub(super) count: u64,
    #[serde(rename = "type")]
    pub(super) dtype: &'static str,
    /// `none` where nothing is reduced.
    pub(super) redop: &'static str,
    /// -1 where there is no root.
    pub(super) root: i64,
    pub(super) algorithm: Option<&'static str>,
    pub(super) out_of_place: Option<Half>,
    pub(super) in_place: Option<Half>,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) version: &'static str,
    pub(super) ranks: usize,
    /// By rank.
    pub(super) hosts: Vec<String>,
    /// Kinds of link and how many pairs have them.
    pub(super) links: Vec<(&'static str, u64)>,
    pub(super) warmup: u32,
    pub(super) checked: bool,
    pub(super) pinned: bool,
    pub(super) results: Vec<Line>,
    pub(super) out_of_bounds: OutOfBounds,
    pub(super) average_bus_bandwidth: f64,
}

/// Wrong elements of all lines.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct OutOfBounds {
    pub(super) count: u64,
    pub(super) okay: bool,
}

impl Report {
    /// Adds up the lines.
    pub(super) fn finish(&mut self) {
        let halves = || self.results.iter().flat_map(|l| [&l.out_of_place, &l.in_place]).flatten();
        let count = halves().filter_map(|half| half.nwrong).sum();
        // Lines without data have no bandwidth that could be averaged.
        let with_data = self.results.iter().filter(|line| line.size > 0);
        let bandwidths: Vec<f64> = with_data
            .flat_map(|line| [&line.out_of_place, &line.in_place])
            .flatten()
            .map(|half| half.bus_bw)
            .collect();
        let average = bandwidths.iter().sum::<f64>() / bandwidths.len().max(1) as f64;
        self.out_of_bounds = OutOfBounds { count, okay: count == 0 };
        self.average_bus_bandwidth = average;
    }

    /// What stands above the first table.
    pub(super) fn header(&self) -> Vec<String> {
        let mut hosts: Vec<&str> = self.hosts.iter().map(String::as_str).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let links: Vec<_> =
            self.links.iter().map(|(kind, pairs)| format!("{kind} x {pairs}")).collect();
        let links = if links.is_empty() { "none".to_owned() } else { links.join(", ") };
        let count = |count: usize, what: &str| {
            format!("{count} {what}{}", if count == 1 { "" } else { "s" })
        };
        vec![
            format!(
                "# lycaon {}: {} on {} ({}); links: {links}{}",
                self.version,
                count(self.ranks, "rank"),
                count(hosts.len(), "host"),
                hosts.join(", "),
                if self.pinned { "; one core for each rank" } else { "" },
            ),
            format!(
                "# time: median of up to 5 batches after {} warm-up calls, slowest rank; data {}",
                self.warmup,
                if self.checked { "checked" } else { "not checked" },
            ),
        ]
    }

    /// What stands below the last table.
    pub(super) fn footer(&self) -> [String; 2] {
        let OutOfBounds { count, okay } = self.out_of_bounds;
        let verdict = match (self.checked, okay) {
            (false, _) => "NOT CHECKED",
            (true, true) => "OK",
            (true, false) => "FAILED",
        };
        [
            format!("# Out of bounds values : {count} {verdict}"),
            format!("# Avg bus bandwidth    : {:.5}", self.average_bus_bandwidth),
        ]
    }
}

/// The heading of a table. `algorithms` are those of its sizes, in order.
pub(super) fn heading(operation: &str, algorithms: &[(String, &'static str)]) -> Vec<String> {
    let mut lines = vec!["#".to_owned(), format!("# {operation}")];
    if !algorithms.is_empty() {
        let parts: Vec<_> =
            algorithms.iter().map(|(size, name)| format!("{name} from {size}")).collect();
        lines.push(format!("# algorithm: {}", parts.join(", ")));
    }
    lines
        .push(format!("#{:>54}{:^34}{:^34}", "", "out-of-place", "in-place").trim_end().to_owned());
    let half = format!("{:>10}{:>8}{:>8}{:>8}", "time", "algbw", "busbw", "#wrong");
    lines.push(format!(
        "#{:>12}{:>14}{:>11}{:>8}{:>8} {half}{half}",
        "size", "count", "type", "redop", "root"
    ));
    let half = format!("{:>10}{:>8}{:>8}{:>8}", "(us)", "(GB/s)", "(GB/s)", "");
    let units =
        format!("#{:>12}{:>14}{:>11}{:>8}{:>8} {half}{half}", "(B)", "(elements)", "", "", "");
    lines.push(units.trim_end().to_owned());
    lines
}

/// One line of a table.
pub(super) fn row(line: &Line) -> String {
    let half = |half: &Option<Half>| match half {
        None => format!("{:>10}{:>8}{:>8}{:>8}", "N/A", "N/A", "N/A", "N/A"),
        Some(half) => {
            let wrong = half.nwrong.map_or_else(|| "N/A".to_owned(), |wrong| wrong.to_string());
            format!(
                "{:>10}{:>8}{:>8} {wrong:>7}",
                short(half.time),
                short(half.alg_bw),
                short(half.bus_bw)
            )
        }
    };
    format!(
        " {:>12}{:>14}{:>11}{:>8}{:>8} {}{}",
        line.size,
        line.count,
        line.dtype,
        line.redop,
        line.root,
        half(&line.out_of_place),
        half(&line.in_place)
    )
}

/// A number in few characters, with two digits behind the point while there is room.
fn short(value: f64) -> String {
    match value {
        value if value < 1_000.0 => format!("{value:.2}"),
        value if value < 10_000.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lycaon::{DType, Op, Operation};

    fn timing(seconds: f64) -> Timing {
        Timing { median: seconds, fastest: seconds / 2.0, slowest: seconds * 2.0, iterations: 10 }
    }

    fn line(nwrong: Option<u64>) -> Line {
        let case = Case::new(Operation::AllReduce, DType::F32, Op::Sum, 0, 1 << 20, (0, 4));
        Line {
            operation: "all_reduce",
            size: case.bytes(),
            count: case.count as u64,
            dtype: "f32",
            redop: "sum",
            root: -1,
            algorithm: Some("arena"),
            out_of_place: Some(Half::new(&case, &timing(1e-3), nwrong)),
            in_place: None,
        }
    }

    fn report(results: Vec<Line>) -> Report {
        let mut report = Report {
            version: "1",
            ranks: 4,
            hosts: vec!["a".into(), "b".into(), "a".into(), "b".into()],
            links: vec![("shm", 2), ("tcp", 4)],
            warmup: 5,
            checked: true,
            pinned: false,
            results,
            out_of_bounds: OutOfBounds { count: 0, okay: true },
            average_bus_bandwidth: 0.0,
        };
        report.finish();
        report
    }

    #[test]
    fn bandwidths_are_those_of_nccl_tests() {
        let line = line(Some(0));
        let half = line.out_of_place.unwrap();
        assert!((half.alg_bw - 1.048_576).abs() < 1e-9, "GB is 10^9 bytes");
        assert!((half.bus_bw - 1.048_576 * 1.5).abs() < 1e-9);
        assert!((half.time - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn lines_have_thirteen_columns_below_their_headings() {
        let row = row(&line(Some(7)));
        let columns: Vec<_> = row.split_whitespace().collect();
        assert_eq!(columns.len(), 13, "{row}");
        assert_eq!(columns[..5], ["1048576", "262144", "f32", "sum", "-1"]);
        assert_eq!(columns[5..9], ["1000.0", "1.05", "1.57", "7"]);
        assert_eq!(columns[9..], ["N/A"; 4]);
        let heading = heading("all_reduce", &[("8".into(), "arena")]);
        assert!(heading.iter().all(|line| line.starts_with('#') && line.len() <= row.len()));
        let names = heading.iter().find(|line| line.contains("redop")).unwrap();
        let end = |line: &str, word: &str| line.find(word).unwrap() + word.len();
        assert_eq!(end(names, "root"), end(&row, "-1"), "{names}\n{row}");
        assert_eq!(end(names, "busbw"), end(&row, "1.57"), "{names}\n{row}");
    }

    #[test]
    fn wrong_values_are_added_up() {
        assert_eq!(report(vec![line(Some(0))]).footer()[0], "# Out of bounds values : 0 OK");
        let report = report(vec![line(Some(2)), line(Some(5))]);
        assert_eq!(report.footer()[0], "# Out of bounds values : 7 FAILED");
        assert!(report.footer()[1].starts_with("# Avg bus bandwidth    : 1.57286"));
        assert!(report.header()[0].contains("4 ranks on 2 hosts (a, b); links: shm x 2, tcp x 4"));
    }

    #[test]
    fn json_has_the_keys_that_scripts_look_for() {
        let value = serde_json::to_value(report(vec![line(Some(0))])).unwrap();
        let line = &value["results"][0];
        for key in ["size", "count", "type", "redop", "root", "out_of_place", "in_place"] {
            assert!(line.get(key).is_some(), "{key}");
        }
        for key in ["time", "alg_bw", "bus_bw", "nwrong"] {
            assert!(line["out_of_place"][key].is_number(), "{key}");
        }
        assert_eq!(value["out_of_bounds"]["okay"], true);
    }
}
