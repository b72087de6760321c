//! nginx's units of time and of size. Knows no key.

use super::draft::{Draft, Spot};

/// Writes a time as a setting in milliseconds.
pub(super) fn convert_time(draft: &mut Draft<'_>, spot: &Spot<'_>, setting: &str) {
    if let Some(milliseconds) = milliseconds(draft, spot) {
        draft.set_one(&spot.at(), setting, milliseconds.to_string());
    }
}

/// The milliseconds of a time; a fault if the text is none.
pub(super) fn milliseconds(draft: &mut Draft<'_>, spot: &Spot<'_>) -> Option<u64> {
    let text = draft.text(spot)?;
    let found = parse_time(text);
    if found.is_none() {
        let reason = format!("`{text}` is not a time; write `60s`, `500ms`, `1m`, or seconds without a unit");
        draft.fault(spot.key, spot.node.line, reason);
    }
    found
}

/// The bytes of a size; a fault if the text is none.
pub(super) fn read_size(draft: &mut Draft<'_>, spot: &Spot<'_>) -> Option<u64> {
    let text = draft.text(spot)?;
    let found = parse_size(text);
    if found.is_none() {
        let reason = format!("`{text}` is not a size; write `10m`, `512k`, `1g`, or bytes without a unit");
        draft.fault(spot.key, spot.node.line, reason);
    }
    found
}

/// Milliseconds of `1h 30m`, `500ms` or a plain number of seconds.
fn parse_time(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (_, factor) = TIMES.iter().find(|(unit, _)| *unit == &rest[..letters])?;
        total = total.checked_add(number.checked_mul(*factor)?)?;
        rest = rest[letters..].trim_start();
    }
    Some(total)
}

/// Bytes of `10m` or a plain number.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].to_ascii_lowercase();
    let (_, factor) = SIZES.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

const TIMES: [(&str, u64); 7] = [
    ("ms", 1),
    ("", 1_000),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

const SIZES: [(&str, u64); 4] = [("", 1), ("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(parse_time(text), expected, "{text}");
        check("60s", Some(60_000));
        check("60", Some(60_000));
        check(" 500ms ", Some(500));
        check("1m", Some(60_000));
        check("1h 30m", Some(5_400_000));
        check("1m30s", Some(90_000));
        check("2d", Some(172_800_000));
        check("0", Some(0));
        for text in ["", "s", "1x", "1.5s", "-1s", "1 s", "99999999999999999999", "99999999999999999w"] {
            check(text, None);
        }
    }

    #[test]
    fn sizes() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(parse_size(text), expected, "{text}");
        check("0", Some(0));
        check("1024", Some(1024));
        check("10m", Some(10 << 20));
        check("10M", Some(10 << 20));
        check("512k", Some(512 << 10));
        check("1g", Some(1 << 30));
        for text in ["", "m", "1x", "1.5m", "-1", "99999999999999999g"] {
            check(text, None);
        }
    }
}
