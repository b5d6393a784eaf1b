//! The table that the demo prints, for a terminal of 80 columns.

use std::io::{self, Write};

/// Columns of text.
const WIDTH: usize = 80;

/// The printer; silent on all ranks but one.
pub(super) struct Table {
    speaks: bool,
    colour: bool,
    pub(super) rows: usize,
    pub(super) wrong: usize,
}

/// What a step has come to, on all ranks together.
pub(super) struct Row<'a> {
    pub(super) operation: &'a str,
    pub(super) what: &'a str,
    pub(super) over: &'a str,
    pub(super) bytes: Option<u64>,
    pub(super) seconds: f64,
    pub(super) right: bool,
}

impl Table {
    pub(super) fn new(speaks: bool, colour: bool) -> Self {
        Table { speaks, colour, rows: 0, wrong: 0 }
    }

    pub(super) fn line(&self, text: &str) -> io::Result<()> {
        if !self.speaks {
            return Ok(());
        }
        match writeln!(io::stdout(), "{text}") {
            // why: whoever reads only the beginning (`| head`) still gets an orderly end.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }

    /// A text that is read before the rest.
    pub(super) fn heading(&self, text: &str) -> io::Result<()> {
        self.line(&self.paint("1", text))
    }

    /// A text that can be passed over.
    pub(super) fn aside(&self, text: &str) -> io::Result<()> {
        self.line(&self.paint("2", text))
    }

    pub(super) fn columns(&self) -> io::Result<()> {
        self.aside(&layout(" ", "operation", "what it does", "over", "data", "time"))
    }

    pub(super) fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        self.rows += 1;
        self.wrong += usize::from(!row.right);
        let bytes = row.bytes.map_or_else(String::new, show_bytes);
        let line =
            layout("?", row.operation, row.what, row.over, &bytes, &show_seconds(row.seconds));
        let mark = if row.right { self.paint("32", "✓") } else { self.paint("1;31", "✗") };
        self.line(&line.replacen('?', &mark, 1))
    }

    /// A text in as many lines as it needs, set in.
    pub(super) fn quote(&self, text: &str) -> io::Result<()> {
        wrap(text, WIDTH - 6).iter().try_for_each(|line| self.line(&format!("      {line}")))
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn layout(mark: &str, operation: &str, what: &str, over: &str, data: &str, time: &str) -> String {
    let line = format!("  {mark} {operation:<16} {what:<34} {over:<7} {data:>7}  {time:>7}");
    line.trim_end().to_owned()
}

fn show_bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

fn show_seconds(seconds: f64) -> String {
    match seconds * 1e6 {
        us if us < 1e3 => format!("{us:.0} µs"),
        us if us < 1e5 => format!("{:.1} ms", us / 1e3),
        us if us < 1e6 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

/// Breaks a text between words.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_into_eighty_columns_and_stand_below_their_headings() {
        let head = layout(" ", "operation", "what it does", "over", "data", "time");
        let what = "x".repeat(34);
        let row = layout("✓", "all_reduce async", &what, "shm+tcp", "512 KiB", "99.9 ms");
        assert_eq!(head.chars().count(), row.chars().count());
        assert!(row.chars().count() <= WIDTH, "{row}");
    }

    #[test]
    fn amounts_are_short() {
        assert_eq!(show_bytes(80), "80 B");
        assert_eq!(show_bytes(2048), "2 KiB");
        assert_eq!(show_bytes(8 << 20), "8 MiB");
        assert_eq!(show_seconds(12e-6), "12 µs");
        assert_eq!(show_seconds(0.0123), "12.3 ms");
        assert_eq!(show_seconds(0.5), "500 ms");
        assert_eq!(show_seconds(2.0), "2.00 s");
    }

    #[test]
    fn texts_are_wrapped_between_words() {
        assert_eq!(wrap("a bb ccc d", 4), ["a bb", "ccc", "d"]);
        assert!(wrap("", 4).is_empty());
    }
}
