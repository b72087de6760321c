//! Monotonic time as a plain number, and the calendar: the UTC date of a given wall-clock second, also as
//! HTTP writes it. It does not know the time zone. [`unix_time`] is the one reader of the wall clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The wall clock: the time since the Unix epoch. A clock that is set before 1970, as that of a board without
/// a battery may be, counts as 1970, so that no caller has a time that it cannot write down.
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Nanoseconds of the machine's monotonic clock, the same for all threads and processes; read several times
/// for every request, and hence without the arithmetic of `Instant`.
#[inline]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec` where it is told to, and keeps no pointer.
    #[allow(unsafe_code)]
    let status = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    debug_assert_eq!(status, 0, "every kernel that this runs on has the clock");
    // Never negative, and 2^64 nanoseconds are 584 years.
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// Nanoseconds of processor time that the calling thread has used. Costs a system call.
pub fn thread_cpu_ns() -> u64 {
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec` where it is told to, and keeps no pointer.
    #[allow(unsafe_code)]
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut used) };
    debug_assert_eq!(status, 0, "every kernel that this runs on has the clock");
    (used.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(used.tv_nsec as u64)
}

/// The text of a Date field (RFC 9110 section 5.6.7, IMF-fixdate), made anew only when the second changes.
#[derive(Debug, Clone)]
pub struct HttpDate {
    unix_seconds: u64,
    text: [u8; HTTP_DATE_BYTES],
}

impl HttpDate {
    /// A cache that holds the epoch's date.
    pub fn new() -> Self {
        Self { unix_seconds: 0, text: format_http_date(0) }
    }

    /// The date `unix_seconds` after the epoch, as in `Sun, 06 Nov 1994 08:49:37 GMT`.
    pub fn at(&mut self, unix_seconds: u64) -> &[u8; HTTP_DATE_BYTES] {
        if unix_seconds != self.unix_seconds {
            self.unix_seconds = unix_seconds;
            self.text = format_http_date(unix_seconds);
        }
        &self.text
    }
}

impl Default for HttpDate {
    fn default() -> Self {
        Self::new()
    }
}

/// Length of an IMF-fixdate.
pub const HTTP_DATE_BYTES: usize = 29;

/// Years beyond 9999 are written as the last second of 9999: the format has four digits.
fn format_http_date(unix_seconds: u64) -> [u8; HTTP_DATE_BYTES] {
    let seconds = unix_seconds.min(LAST_SECOND_OF_9999);
    let time = CivilTime::at(seconds);
    let mut text = *b"ddd, DD mmm YYYY HH:MM:SS GMT";
    // The epoch was a Thursday.
    text[0..3].copy_from_slice(DAY_NAMES[(seconds / DAY_SECONDS + 4) as usize % 7]);
    two_digits(&mut text[5..7], time.day);
    text[8..11].copy_from_slice(time.month_name().as_bytes());
    two_digits(&mut text[12..14], time.year / 100);
    two_digits(&mut text[14..16], time.year % 100);
    two_digits(&mut text[17..19], time.hour);
    two_digits(&mut text[20..22], time.minute);
    two_digits(&mut text[23..25], time.second);
    text
}

/// A date and a time of day in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CivilTime {
    /// The year; 1970 or later.
    pub year: u64,
    /// The month, from 1.
    pub month: u64,
    /// The day of the month, from 1.
    pub day: u64,
    /// The hour, 0 to 23.
    pub hour: u64,
    /// The minute, 0 to 59.
    pub minute: u64,
    /// The second, 0 to 59: Unix time has no leap seconds.
    pub second: u64,
}

impl CivilTime {
    /// The time `unix_seconds` after the epoch.
    pub fn at(unix_seconds: u64) -> CivilTime {
        let (days, second_of_day) = (unix_seconds / DAY_SECONDS, unix_seconds % DAY_SECONDS);
        let (year, month, day) = civil_date(days);
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        CivilTime { year, month, day, hour, minute, second }
    }

    /// The English name of the month, as in HTTP dates and the common log format.
    pub fn month_name(&self) -> &'static str {
        MONTH_NAMES[self.month as usize - 1]
    }
}

/// Year, month (1..=12) and day (1..=31) of a day counted from 1970-01-01, by years that begin in March, so
/// that the leap day is the last day of its year.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let shifted = days + DAYS_FROM_0000_03_01;
    let (era, day_of_era) = (shifted / ERA_DAYS, shifted % ERA_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

fn two_digits(out: &mut [u8], value: u64) {
    out[0] = b'0' + (value / 10) as u8;
    out[1] = b'0' + (value % 10) as u8;
}

const DAY_SECONDS: u64 = 86_400;
const LAST_SECOND_OF_9999: u64 = 253_402_300_799;
/// Days of 400 Gregorian years.
const ERA_DAYS: u64 = 146_097;
const DAYS_FROM_0000_03_01: u64 = 719_468;
const DAY_NAMES: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const MONTH_NAMES: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let mut date = HttpDate::new();
        let table = [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_799, "Tue, 29 Feb 2000 23:59:59 GMT"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (LAST_SECOND_OF_9999, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ];
        for (unix_seconds, expected) in table {
            assert_eq!(std::str::from_utf8(date.at(unix_seconds)).unwrap(), expected);
        }
    }

    #[test]
    fn civil_times() {
        let check = |unix_seconds, date: (u64, u64, u64), time: (u64, u64, u64)| {
            let got = CivilTime::at(unix_seconds);
            assert_eq!((got.year, got.month, got.day), date);
            assert_eq!((got.hour, got.minute, got.second), time);
        };
        check(0, (1970, 1, 1), (0, 0, 0));
        check(951_827_696, (2000, 2, 29), (12, 34, 56));
        check(4_107_542_399, (2100, 2, 28), (23, 59, 59));
        assert_eq!(CivilTime::at(951_827_696).month_name(), "Feb");
    }

    #[test]
    fn days_follow_each_other() {
        let mut last = civil_date(0);
        for day in 1..200_000 {
            let next = civil_date(day);
            let same_month = next == (last.0, last.1, last.2 + 1);
            let new_month = next == (last.0, last.1 + 1, 1) && last.2 >= 28;
            let new_year = next == (last.0 + 1, 1, 1) && last.1 == 12 && last.2 == 31;
            assert!(same_month || new_month || new_year, "{last:?} {next:?}");
            last = next;
        }
    }

    #[test]
    fn the_clock_does_not_go_back() {
        let first = monotonic_ns();
        assert!(monotonic_ns() >= first);
    }
}
