//! Times as logs write them; always UTC, so that logs of several machines can be laid side by side.

use std::fmt::Write;

use stdx::clock::CivilTime;

use crate::exchange::Exchange;

/// Milliseconds as seconds with three decimals.
pub(super) fn format_seconds(ms: u64) -> Vec<u8> {
    // Digits by hand, here and below: the formatter of the standard library takes several times as long, for
    // a field that most log formats have.
    let mut text = Vec::with_capacity(USUAL_BYTES);
    push(&mut text, ms / 1_000, 1);
    text.push(b'.');
    push(&mut text, ms % 1_000, 3);
    text
}

/// A time as seconds of the Unix epoch with three decimals.
pub(crate) fn unix_seconds((unix, nanoseconds): (u64, u32)) -> Vec<u8> {
    format_seconds(unix * 1_000 + u64::from(nanoseconds) / 1_000_000)
}

/// A time in seconds of the Unix epoch as `2026-11-21T05:14:00+00:00`.
pub(crate) fn iso8601(unix: u64) -> Vec<u8> {
    let CivilTime { year, month, day, hour, minute, second } = CivilTime::at(unix);
    let mut text = Vec::with_capacity(USUAL_BYTES);
    push(&mut text, year, 4);
    for (separator, number) in [(b'-', month), (b'-', day), (b'T', hour), (b':', minute), (b':', second)] {
        text.push(separator);
        push(&mut text, number, 2);
    }
    text.extend_from_slice(b"+00:00");
    text
}

/// A time in seconds of the Unix epoch as `21/Nov/2026:05:14:00 +0000`.
pub(crate) fn common_log(unix: u64) -> Vec<u8> {
    let time = CivilTime::at(unix);
    let CivilTime { year, day, hour, minute, second, .. } = time;
    let mut text = String::with_capacity(26);
    let name = time.month_name();
    let _ = write!(text, "{day:02}/{name}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000");
    text.into_bytes()
}

/// Room for a time as text, in bytes.
const USUAL_BYTES: usize = 32;

/// Appends a number with at least so many digits, at most 20.
fn push(text: &mut Vec<u8>, mut number: u64, digits_min: usize) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    while number > 0 {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    text.extend_from_slice(&digits[first.min(digits.len() - digits_min)..]);
}

/// When the exchange began, as seconds and nanoseconds of the Unix epoch.
pub(super) fn began(exchange: &Exchange) -> (u64, u32) {
    exchange.local().wall_at(exchange.times.started_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_have_three_decimals() {
        for (ms, expected) in [
            (1_234, "1.234"),
            (0, "0.000"),
            (5, "0.005"),
            (60_070, "60.070"),
            (u64::MAX, "18446744073709551.615"),
        ] {
            assert_eq!(format_seconds(ms), expected.as_bytes());
        }
    }

    #[test]
    fn number_has_its_digits_and_zeros_before() {
        for (number, digits_min) in [(0, 1), (0, 4), (7, 2), (12, 2), (2_026, 4), (12_345, 4), (u64::MAX, 20)]
        {
            let mut text = Vec::new();
            push(&mut text, number, digits_min);
            assert_eq!(String::from_utf8(text).unwrap(), format!("{number:0digits_min$}"));
        }
    }
}
