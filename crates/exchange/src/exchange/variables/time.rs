//! Times as logs write them; always UTC, so that logs of several machines can be laid side by side.

use std::fmt::Write;

use stdx::clock::CivilTime;

use crate::exchange::Exchange;

/// Milliseconds as seconds with three decimals.
pub(super) fn seconds(ms: u64) -> Vec<u8> {
    format!("{}.{:03}", ms / 1_000, ms % 1_000).into_bytes()
}

/// When the exchange began, as seconds of the Unix epoch with three decimals.
pub(super) fn unix_seconds(exchange: &Exchange) -> Vec<u8> {
    let (unix, nanoseconds) = began(exchange);
    seconds(unix * 1_000 + u64::from(nanoseconds) / 1_000_000)
}

/// When it began, as `2026-11-21T05:14:00+00:00`.
pub(super) fn iso8601(exchange: &Exchange) -> Vec<u8> {
    let (unix, _) = began(exchange);
    let CivilTime { year, month, day, hour, minute, second } = CivilTime::at(unix);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00").into_bytes()
}

/// When it began, as `21/Nov/2026:05:14:00 +0000`.
pub(super) fn common_log(exchange: &Exchange) -> Vec<u8> {
    let (unix, _) = began(exchange);
    let time = CivilTime::at(unix);
    let CivilTime { year, day, hour, minute, second, .. } = time;
    let mut text = String::with_capacity(26);
    let name = time.month_name();
    let _ = write!(text, "{day:02}/{name}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000");
    text.into_bytes()
}

/// When the exchange began, as seconds and nanoseconds of the Unix epoch.
fn began(exchange: &Exchange) -> (u64, u32) {
    exchange.local().wall_at(exchange.times.started_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_have_three_decimals() {
        assert_eq!(seconds(1_234), b"1.234");
    }
}
