//! Sizes as people write them, and ranges of them.

/// Reads `8`, `64K`, `1M`, `1.5G`, also with a `B` or `iB` behind; K is 1024.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let advice = || format!("'{text}' is no size; expected bytes, such as 8, 64K, 1M or 1G");
    let upper = text.trim().to_ascii_uppercase();
    let number = upper.strip_suffix('B').unwrap_or(&upper);
    let number = number.strip_suffix('I').unwrap_or(number);
    let (number, unit) = match number.char_indices().last() {
        Some((at, 'K')) => (&number[..at], 1u64 << 10),
        Some((at, 'M')) => (&number[..at], 1 << 20),
        Some((at, 'G')) => (&number[..at], 1 << 30),
        _ => (number, 1),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit).filter(|bytes| *bytes <= LARGEST).ok_or_else(advice);
    }
    let plain = number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let value = number.parse::<f64>().ok().filter(|_| plain).ok_or_else(advice)? * unit as f64;
    if value.fract() == 0.0 && value <= LARGEST as f64 { Ok(value as u64) } else { Err(advice()) }
}

/// More is taken for a slip of the finger.
const LARGEST: u64 = 1 << 46;

/// More sizes than this in one run are taken for a slip as well.
const MOST: usize = 10_000;

/// `8` as `8`, `65536` as `64K`.
pub(super) fn show_size(bytes: u64) -> String {
    for (shift, unit) in [(30, "G"), (20, "M"), (10, "K")] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// How to come from one size to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// By a factor.
    Factor(f64),
    /// By a number of bytes.
    Bytes(u64),
}

/// The sizes from `first` to `last`.
pub(super) fn range(first: u64, last: u64, step: Step) -> Result<Vec<u64>, String> {
    if first > last {
        return Err(format!(
            "the sizes begin at {} and end at {}: nothing is between",
            show_size(first),
            show_size(last)
        ));
    }
    let mut sizes = vec![first];
    let mut exact = first as f64;
    loop {
        let size = sizes[sizes.len() - 1];
        let next = match step {
            Step::Bytes(bytes) => size.saturating_add(bytes),
            Step::Factor(factor) => {
                exact = (exact * factor).max(size as f64 + 1.0);
                exact as u64
            }
        };
        if next > last {
            return Ok(sizes);
        }
        if sizes.len() == MOST {
            return Err(format!("more than {MOST} sizes; take a larger step"));
        }
        sizes.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        for (text, bytes) in [
            ("8", 8),
            ("0", 0),
            ("64K", 65_536),
            ("64k", 65_536),
            ("64KiB", 65_536),
            ("1MB", 1 << 20),
            ("1.5M", 3 << 19),
            ("2G", 2 << 30),
            ("12B", 12),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "-1", "1T", "1.0001", "1e3", "inf", "M1", "99999999999G", "1 2"] {
            let message = parse_size(text).expect_err(text);
            assert!(message.contains("64K"), "{text}: {message}");
        }
    }

    #[test]
    fn shown_sizes_can_be_read_again() {
        for bytes in [0, 1, 8, 1000, 1024, 65_536, 1 << 20, 3 << 19, 1 << 30, (1 << 30) + 1] {
            assert_eq!(parse_size(&show_size(bytes)), Ok(bytes));
        }
    }

    #[test]
    fn ranges_grow_by_factor_or_by_bytes() {
        assert_eq!(range(8, 1000, Step::Factor(4.0)).unwrap(), [8, 32, 128, 512]);
        assert_eq!(range(8, 8, Step::Factor(2.0)).unwrap(), [8]);
        assert_eq!(range(0, 2, Step::Factor(2.0)).unwrap(), [0, 1, 2]);
        assert_eq!(range(2, 6, Step::Factor(1.5)).unwrap(), [2, 3, 4, 6]);
        assert_eq!(range(100, 130, Step::Bytes(10)).unwrap(), [100, 110, 120, 130]);
        assert!(range(9, 8, Step::Factor(2.0)).unwrap_err().contains("nothing"));
        assert!(range(0, 1 << 40, Step::Bytes(1)).unwrap_err().contains("larger step"));
    }
}
