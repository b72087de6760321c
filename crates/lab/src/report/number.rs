//! Numbers as text for people: the same rules in the terminal and on the page. It rounds and computes
//! nothing.

/// A number with three digits, more only before the point; thousands are separated.
pub fn format_number(value: f64) -> String {
    if !value.is_finite() {
        return MISSING.to_owned();
    }
    let decimals = match value.abs() {
        size if size == 0.0 || size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.0995 => 2,
        _ => 3,
    };
    grouped(&format!("{value:.decimals$}"))
}

/// A round number beside an axis, without needless digits.
pub fn axis(value: f64) -> String {
    let text = if value >= 1.0 { format!("{value:.1}") } else { format!("{value:.6}") };
    let short = text.trim_end_matches('0').trim_end_matches('.');
    grouped(short)
}

/// A whole number, thousands separated.
pub fn format_count(value: u64) -> String {
    grouped(&value.to_string())
}

/// As [`format_number`], or [`MISSING`].
pub fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| MISSING.to_owned(), format_number)
}

/// A ratio: two decimals, fewer for large ratios.
pub fn format_ratio(value: f64) -> String {
    match value {
        small if small < 0.095 => format!("{value:.3}"),
        large if large >= 99.5 => grouped(&format!("{value:.0}")),
        large if large >= 9.95 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A percentage with its sign.
pub fn percent(value: f64) -> String {
    if !value.is_finite() {
        return MISSING.to_owned();
    }
    let decimals = usize::from(value.abs() < 99.95);
    let text = format!("{value:.decimals$}");
    if text == "-0.0" { "0.0".to_owned() } else { text }
}

/// As [`percent`], or [`MISSING`].
pub fn optional_percent(value: Option<f64>) -> String {
    value.map_or_else(|| MISSING.to_owned(), percent)
}

/// Bytes in MB (10⁶) without the unit.
pub fn megabytes(bytes: f64) -> String {
    format_number(bytes / 1e6)
}

/// Seconds as a length of time: `48 s`, `3 min 20 s`, `2 h 5 min`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 if whole.is_multiple_of(60) => format!("{} min", whole / 60),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// A time of RFC 3339 in UTC in words: `22 November 2026, 09:07 UTC`. Any other text stays unchanged.
pub fn moment(rfc3339: &str) -> String {
    let written = || {
        let (date, time) = rfc3339.strip_suffix('Z')?.split_once('T')?;
        let mut parts = date.splitn(3, '-');
        let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
        let month = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
        let day: u8 = day.parse().ok()?;
        let mut clock = time.split(':');
        let (hour, minute) = (clock.next()?, clock.next()?);
        Some(format!("{day} {month} {year}, {hour}:{minute} UTC"))
    };
    written().unwrap_or_else(|| rfc3339.to_owned())
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Stands for a missing number.
pub const MISSING: &str = "-";

fn grouped(digits: &str) -> String {
    let (sign, rest) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let (whole, fraction) =
        rest.split_once('.').map_or((rest, ""), |(whole, _)| (whole, &rest[whole.len()..]));
    let mut out = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_words() {
        let rows = [
            ("2026-11-22T09:07:33Z", "22 November 2026, 09:07 UTC"),
            ("2027-01-02T00:00:00Z", "2 January 2027, 00:00 UTC"),
            ("2026-13-22T09:07:33Z", "2026-13-22T09:07:33Z"),
            ("yesterday", "yesterday"),
            ("", ""),
        ];
        for (given, expected) in rows {
            assert_eq!(moment(given), expected, "{given}");
        }
    }

    #[test]
    fn numbers_have_significant_digits() {
        let rows = [
            (0.0, "0"),
            (0.0004, "0.000"),
            (0.0123, "0.012"),
            (0.1234, "0.12"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (99.94, "99.9"),
            (99.96, "100"),
            (1234.5, "1,234"),
            (1_234_567.0, "1,234,567"),
            (-4321.0, "-4,321"),
            (f64::NAN, "-"),
        ];
        for (value, expected) in rows {
            assert_eq!(format_number(value), expected, "{value}");
        }
    }

    #[test]
    fn percentages_ratios_and_times() {
        for (value, expected) in
            [(12.345, "12.3"), (-0.01, "0.0"), (-3.0, "-3.0"), (100.0, "100"), (99.96, "100")]
        {
            assert_eq!(percent(value), expected, "{value}");
        }
        for (value, expected) in [(1.0, "1.00"), (0.0512, "0.051"), (12.34, "12.3"), (1234.0, "1,234")] {
            assert_eq!(format_ratio(value), expected, "{value}");
        }
        for (seconds, expected) in [
            (0.2, "0 s"),
            (59.6, "1 min"),
            (200.0, "3 min 20 s"),
            (3600.0, "1 h 0 min"),
            (7501.0, "2 h 5 min"),
        ] {
            assert_eq!(duration(seconds), expected, "{seconds}");
        }
        for (value, expected) in
            [(0.001, "0.001"), (0.5, "0.5"), (1.0, "1"), (2.5, "2.5"), (20_000.0, "20,000")]
        {
            assert_eq!(axis(value), expected, "{value}");
        }
        assert_eq!(format_count(1000), "1,000");
        assert_eq!(megabytes(1.5e9), "1,500");
    }
}
