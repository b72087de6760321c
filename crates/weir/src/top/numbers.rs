//! Numbers as tables of commands show them: few digits, the same unit in a column, a dash for what is not
//! known.

use stdx::clock::CivilTime;

/// A rate: `4,210`, `64.8`, `0.40`, `0`.
pub(crate) fn rate(value: f64) -> String {
    match value {
        _ if value <= 0.0 => "0".to_owned(),
        _ if value >= 99.95 => grouped(value.round() as u64),
        _ if value >= 9.995 => format!("{value:.1}"),
        _ if value >= 0.005 => format!("{value:.2}"),
        _ => "<0.01".to_owned(),
    }
}

/// A whole number in groups of three digits.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share in percent, without the sign: `0.02`, `12.5`, `100`, `0`.
pub(crate) fn format_percent(value: f64) -> String {
    match value {
        _ if value <= 0.0 => "0".to_owned(),
        _ if value >= 99.95 => format!("{value:.0}"),
        _ if value >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Microseconds as milliseconds, without the unit; `-` if unknown.
pub(crate) fn millis(us: Option<u64>) -> String {
    let Some(us) = us else { return UNKNOWN.to_owned() };
    let ms = us as f64 / 1_000.0;
    match us {
        0..10_000 => format!("{ms:.2}"),
        10_000..100_000 => format!("{ms:.1}"),
        _ => grouped(ms.round() as u64),
    }
}

/// Bytes of traffic, in thousands: `830 B`, `1.2 kB`, `64.8 MB`.
pub(crate) fn format_bytes(value: f64) -> String {
    let (mut value, mut unit) = (value.max(0.0), 0);
    while value >= 999.5 && unit + 1 < BYTE_UNITS.len() {
        value /= 1_000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value:.0} {}", BYTE_UNITS[unit]),
        _ => format!("{value:.1} {}", BYTE_UNITS[unit]),
    }
}

/// Bytes of memory: `86 MiB`.
pub(crate) fn mebibytes(value: u64) -> String {
    format!("{} MiB", grouped((value as f64 / f64::from(1 << 20)).round() as u64))
}

/// A time of the day in UTC: `14:02:11`.
pub(crate) fn time_of_day(unix_ms: u64) -> String {
    let CivilTime { hour, minute, second, .. } = CivilTime::at(unix_ms / 1_000);
    format!("{hour:02}:{minute:02}:{second:02}")
}

/// A text of the instance without characters that a terminal would obey.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() || is_invisible(letter) { '?' } else { letter })
        .collect()
}

/// Marks that change the direction or the place of what follows.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Stands for a value that is not known.
pub(crate) const UNKNOWN: &str = "-";

const BYTE_UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_few_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.001, "<0.01"),
            (0.4, "0.40"),
            (3.12, "3.12"),
            (64.84, "64.8"),
            (99.96, "100"),
            (4_210.4, "4,210"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(rate(value), text);
        }
        for (value, text) in [(0.0, "0"), (0.024, "0.02"), (12.54, "12.5"), (100.0, "100")] {
            assert_eq!(format_percent(value), text);
        }
        for (us, text) in
            [(None, "-"), (Some(420), "0.42"), (Some(11_840), "11.8"), (Some(1_240_000), "1,240")]
        {
            assert_eq!(millis(us), text);
        }
        for (value, text) in [(0.0, "0 B"), (830.0, "830 B"), (1_240.0, "1.2 kB"), (64.8e6, "64.8 MB")] {
            assert_eq!(format_bytes(value), text);
        }
        assert_eq!(mebibytes(86 << 20), "86 MiB");
        assert_eq!(time_of_day(1_767_225_731_000), "00:02:11");
    }

    #[test]
    fn texts_cannot_steer_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\u{202e}c\nd"), "a?[2Jb?c?d");
    }
}
