//! Times as logs write them. Calendar arithmetic after Hinnant's "days from civil" algorithm; always UTC, so that logs of
//! several machines can be laid side by side.

use std::fmt::Write;

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
    let (year, month, day, hour, minute, second) = civil(unix);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00").into_bytes()
}

/// When it began, as `21/Nov/2026:05:14:00 +0000`.
pub(super) fn common_log(exchange: &Exchange) -> Vec<u8> {
    let (unix, _) = began(exchange);
    let (year, month, day, hour, minute, second) = civil(unix);
    let mut text = String::with_capacity(26);
    let name = MONTHS[(month - 1) as usize];
    let _ = write!(text, "{day:02}/{name}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000");
    text.into_bytes()
}

/// When the exchange began, as seconds and nanoseconds of the Unix epoch.
fn began(exchange: &Exchange) -> (u64, u32) {
    exchange.local().wall_at(exchange.times.started_ns)
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Year, month, day, hour, minute and second of a Unix time.
fn civil(unix: u64) -> (u64, u64, u64, u64, u64, u64) {
    let (days, second_of_day) = (unix / 86_400, unix % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day, second_of_day / 3_600, second_of_day / 60 % 60, second_of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(civil(0), (1970, 1, 1, 0, 0, 0));
        assert_eq!(civil(951_827_696), (2000, 2, 29, 12, 34, 56));
        assert_eq!(civil(4_107_542_399), (2100, 2, 28, 23, 59, 59));
        assert_eq!(seconds(1_234), b"1.234");
    }
}
