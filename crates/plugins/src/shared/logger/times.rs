//! Times in log entries: RFC 3339, seconds of the Unix epoch, and formats of `strftime`; all in UTC.

use std::fmt::Write as _;

use exchange::Exchange;
use net::env;
use stdx::clock::CivilTime;

/// A time as seconds of the Unix epoch and nanoseconds.
pub(crate) type Unix = (u64, u32);

/// When the request began.
pub(crate) fn started(exchange: &Exchange) -> Unix {
    exchange.local().wall_at(exchange.times.started_ns)
}

/// The time now.
pub(crate) fn now(exchange: &Exchange) -> Unix {
    exchange.local().wall_at(env::monotonic_ns())
}

/// Milliseconds since the Unix epoch.
pub(crate) fn unix_ms((seconds, nanoseconds): Unix) -> u64 {
    seconds * 1_000 + u64::from(nanoseconds) / 1_000_000
}

/// Seconds since the Unix epoch, with milliseconds.
pub(crate) fn unix_seconds(time: Unix) -> f64 {
    unix_ms(time) as f64 / 1_000.0
}

/// The time in RFC 3339 with milliseconds: `2026-11-25T20:30:00.123Z`.
pub(crate) fn rfc3339(time: Unix) -> String {
    let CivilTime { year, month, day, hour, minute, second } = CivilTime::at(time.0);
    let ms = time.1 / 1_000_000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// A format of `strftime`, in the C locale.
#[derive(Clone, Debug)]
pub(crate) struct TimeFormat(Box<str>);

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
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

impl TimeFormat {
    /// A format as Lua's `os.date` reads it: a leading `!` (UTC) changes nothing here. `*t` is a table there
    /// and no text, so that it gives no text here.
    pub(crate) fn new(written: &str) -> TimeFormat {
        let written = written.strip_prefix('!').unwrap_or(written);
        TimeFormat(if written.starts_with("*t") { "".into() } else { written.into() })
    }

    /// Appends the time; a conversion that is unknown is written as it stands.
    pub(crate) fn render(&self, unix_seconds: u64, text: &mut String) {
        write(&self.0, &Calendar::at(unix_seconds), text);
    }
}

/// A time with the numbers that some conversions need besides.
struct Calendar {
    unix_seconds: u64,
    civil: CivilTime,
    /// 0 is Sunday.
    week_day: u64,
    /// From 1.
    year_day: u64,
}

impl Calendar {
    fn at(unix_seconds: u64) -> Calendar {
        let civil = CivilTime::at(unix_seconds);
        // The epoch was a Thursday.
        let week_day = (unix_seconds / DAY_SECONDS + 4) % 7;
        let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][civil.month as usize - 1];
        let leap_day = u64::from(civil.month > 2 && is_leap(civil.year));
        Calendar { unix_seconds, civil, week_day, year_day: before + leap_day + civil.day }
    }

    /// Year and week of ISO 8601: the week of a day is that of its Thursday.
    fn iso_week(&self) -> (u64, u64) {
        let monday_based = (self.week_day + 6) % 7;
        let thursday = Calendar::at((self.unix_seconds + 3 * DAY_SECONDS) - monday_based * DAY_SECONDS);
        (thursday.civil.year, (thursday.year_day - 1) / 7 + 1)
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn write(format: &str, time: &Calendar, text: &mut String) {
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        match (character, if character == '%' { characters.next() } else { None }) {
            ('%', Some(conversion)) => convert(conversion, time, text),
            (character, _) => text.push(character),
        }
    }
}

fn convert(conversion: char, time: &Calendar, text: &mut String) {
    let CivilTime { year, month, day, hour, minute, second } = time.civil;
    let (day_name, month_name) = (DAYS[time.week_day as usize], MONTHS[month as usize - 1]);
    let hour12 = (hour + 11) % 12 + 1;
    let half = if hour < 12 { "AM" } else { "PM" };
    let (iso_year, iso_week) = time.iso_week();
    // Writing to a String cannot fail.
    let _ = match conversion {
        'Y' => write!(text, "{year:04}"),
        'y' => write!(text, "{:02}", year % 100),
        'C' => write!(text, "{:02}", year / 100),
        'm' => write!(text, "{month:02}"),
        'd' => write!(text, "{day:02}"),
        'e' => write!(text, "{day:2}"),
        'j' => write!(text, "{:03}", time.year_day),
        'H' => write!(text, "{hour:02}"),
        'I' => write!(text, "{hour12:02}"),
        'M' => write!(text, "{minute:02}"),
        'S' => write!(text, "{second:02}"),
        'p' => write!(text, "{half}"),
        'a' => write!(text, "{}", &day_name[..3]),
        'A' => write!(text, "{day_name}"),
        'b' | 'h' => write!(text, "{}", &month_name[..3]),
        'B' => write!(text, "{month_name}"),
        'w' => write!(text, "{}", time.week_day),
        'u' => write!(text, "{}", (time.week_day + 6) % 7 + 1),
        'V' => write!(text, "{iso_week:02}"),
        'G' => write!(text, "{iso_year:04}"),
        'g' => write!(text, "{:02}", iso_year % 100),
        'U' => write!(text, "{:02}", (time.year_day + 6 - time.week_day) / 7),
        'W' => write!(text, "{:02}", (time.year_day + 6 - (time.week_day + 6) % 7) / 7),
        's' => write!(text, "{}", time.unix_seconds),
        'z' => write!(text, "+0000"),
        'Z' => write!(text, "UTC"),
        'n' => text.write_char('\n'),
        't' => text.write_char('\t'),
        '%' => text.write_char('%'),
        _ => return convert_whole(conversion, time, text),
    };
}

/// The conversions that stand for a format of others.
fn convert_whole(conversion: char, time: &Calendar, text: &mut String) {
    let format = match conversion {
        'F' => "%Y-%m-%d",
        'T' | 'X' => "%H:%M:%S",
        'R' => "%H:%M",
        'D' | 'x' => "%m/%d/%y",
        'r' => "%I:%M:%S %p",
        'c' => "%a %b %e %H:%M:%S %Y",
        other => {
            text.push('%');
            text.push(other);
            return;
        }
    };
    write(format, time, text);
}

const DAY_SECONDS: u64 = 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected texts are those of `date -u -d @SECONDS +FORMAT` (GNU coreutils 9.1, LC_ALL=C).
    #[test]
    fn formats_are_those_of_strftime() {
        let check = |unix_seconds: u64, format: &str, expected: &str| {
            let mut text = String::new();
            TimeFormat::new(format).render(unix_seconds, &mut text);
            assert_eq!(text, expected, "{format}");
        };
        // Wednesday, 25 November 2026, 20:05:09.
        let now = 1_795_637_109;
        check(now, "%Y.%m.%d", "2026.11.25");
        check(now, "!%y-%j %H%M%S", "26-329 200509");
        check(now, "%a %A %b %B %h %p %I %e", "Wed Wednesday Nov November Nov PM 08 25");
        check(now, "%F %T %R %D %C", "2026-11-25 20:05:09 20:05 11/25/26 20");
        check(now, "%G-W%V %g %U %W %u %w", "2026-W48 26 47 47 3 3");
        check(now, "%s%%%z %Z %n%t", "1795637109%+0000 UTC \n\t");
        check(now, "%c|%r|%x|%X", "Wed Nov 25 20:05:09 2026|08:05:09 PM|11/25/26|20:05:09");
        check(now, "a%", "a%");
        check(now, "%Q", "%Q");
        check(now, "*t", "");
        check(now, "!*t", "");
        // Friday, 1 January 2027 belongs to the last week of 2026.
        check(1_798_761_600, "%G-W%V %U %W %j %u", "2026-W53 00 00 001 5");
        check(1_709_164_800, "%j %m-%d", "060 02-29");
        check(1_735_603_200, "%j %G %V %I %p", "366 2025 01 12 AM");
        assert_eq!(rfc3339((now, 7_900_000)), "2026-11-25T20:05:09.007Z");
        assert_eq!((unix_ms((1, 2_000_000)), unix_seconds((1, 2_000_000))), (1_002, 1.002));
    }
}
