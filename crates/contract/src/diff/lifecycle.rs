//! Deprecation of elements with dates of `x-sunset` (days since 1970-01-01), and levels of stability.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

const SECONDS_PER_DAY: u64 = 86_400;

/// Values of `x-stability-level`, from the lowest promise to the highest. Absent means the highest.
pub(super) const STABILITY_LEVELS: [&str; 4] = ["draft", "alpha", "beta", "stable"];

/// The index of a stability level, or the text that is none.
pub(super) fn stability_rank(level: Option<&Value>) -> Result<usize, &str> {
    let Some(level) = level else {
        return Ok(STABILITY_LEVELS.len() - 1);
    };
    let text = level.as_str().unwrap_or("");
    STABILITY_LEVELS.iter().position(|level| *level == text).ok_or(text)
}

/// The current date by the system clock, in days since 1970-01-01. A clock before 1970 counts as 1970.
pub(super) fn current_day() -> i64 {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    i64::try_from(seconds / SECONDS_PER_DAY).unwrap_or(i64::MAX)
}

/// Reads `2026-12-31` or a date and time of RFC 3339 that begins so. `None` for anything else.
pub(super) fn parse_day(value: &Value) -> Option<i64> {
    let text = value.as_str()?;
    let date = match text.get(..10)? {
        date if text.len() == 10 || is_time_suffix(&text[10..]) => date,
        _ => return None,
    };
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || year.len() != 4 || month.len() != 2 || day.len() != 2 {
        return None;
    }
    let (year, month, day) = (parse_digits(year)?, parse_digits(month)?, parse_digits(day)?);
    let is_valid = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    is_valid.then(|| days_from_civil(year, month, day))
}

fn is_time_suffix(text: &str) -> bool {
    (text.starts_with('T') || text.starts_with('t')) && text.len() >= 9
}

fn parse_digits(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a Gregorian date. Years are counted from March, so that the leap day is the last
/// one.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Stage of the deprecation process in which an element was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemovalStage {
    NotDeprecated,
    /// Deprecated without a sunset date.
    Deprecated,
    BeforeSunset,
    InvalidSunset,
    /// The announced date has passed: the removal was agreed on.
    AfterSunset,
}

/// Finds the stage from the removed element's `deprecated` and `x-sunset`.
pub(super) fn removal_stage(is_deprecated: bool, sunset: Option<&Value>, today: i64) -> RemovalStage {
    match (is_deprecated, sunset) {
        (false, _) => RemovalStage::NotDeprecated,
        (true, None) => RemovalStage::Deprecated,
        (true, Some(date)) => match parse_day(date) {
            None => RemovalStage::InvalidSunset,
            Some(day) if today < day => RemovalStage::BeforeSunset,
            Some(_) => RemovalStage::AfterSunset,
        },
    }
}

/// A step of an element through deprecation, found by comparing `deprecated` and `x-sunset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LifecycleEvent {
    Reactivated,
    Deprecated,
    DeprecatedWithSunset,
    DeprecatedWithInvalidSunset,
    DeprecatedWithPastSunset,
    SunsetDeleted,
    SunsetBecameInvalid,
    /// The date moved to an earlier day that is still to come.
    SunsetEarlier,
    /// The date moved to an earlier day that has passed.
    SunsetEarlierThanToday,
}

/// `deprecated` and `x-sunset` of one element in one document.
#[derive(Clone, Copy)]
pub(super) struct LifecycleState<'a> {
    pub(super) is_deprecated: bool,
    pub(super) sunset: Option<&'a Value>,
}

/// Lists the steps between two states, at most one of the flag and one of the date.
pub(super) fn lifecycle_events(old: LifecycleState, new: LifecycleState, today: i64) -> Vec<LifecycleEvent> {
    let mut events = Vec::new();
    match (old.is_deprecated, new.is_deprecated) {
        (true, false) => events.push(LifecycleEvent::Reactivated),
        (false, true) => events.push(deprecation_event(new.sunset, today)),
        _ => {}
    }
    if new.is_deprecated {
        events.extend(sunset_event(old.sunset, new.sunset, today));
    }
    events
}

fn deprecation_event(sunset: Option<&Value>, today: i64) -> LifecycleEvent {
    match sunset.map(parse_day) {
        None => LifecycleEvent::Deprecated,
        Some(None) => LifecycleEvent::DeprecatedWithInvalidSunset,
        Some(Some(day)) if day < today => LifecycleEvent::DeprecatedWithPastSunset,
        Some(Some(_)) => LifecycleEvent::DeprecatedWithSunset,
    }
}

fn sunset_event(old: Option<&Value>, new: Option<&Value>, today: i64) -> Option<LifecycleEvent> {
    let old = old?;
    let Some(new) = new else {
        return Some(LifecycleEvent::SunsetDeleted);
    };
    if old == new {
        return None;
    }
    match (parse_day(old), parse_day(new)) {
        (_, None) => Some(LifecycleEvent::SunsetBecameInvalid),
        (Some(old), Some(new)) if new < old && new < today => Some(LifecycleEvent::SunsetEarlierThanToday),
        (Some(old), Some(new)) if new < old => Some(LifecycleEvent::SunsetEarlier),
        _ => None,
    }
}

impl LifecycleEvent {
    /// The predicate of the sentence.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Reactivated => "is no longer deprecated",
            Self::Deprecated => "became deprecated",
            Self::DeprecatedWithSunset => "became deprecated with a sunset date",
            Self::DeprecatedWithInvalidSunset => "became deprecated with an `x-sunset` that is no date",
            Self::DeprecatedWithPastSunset => "became deprecated with a sunset date in the past",
            Self::SunsetDeleted => "is deprecated and lost its sunset date",
            Self::SunsetBecameInvalid => "has an `x-sunset` that is no date",
            Self::SunsetEarlier => "has an earlier sunset date",
            Self::SunsetEarlierThanToday => "has an earlier sunset date, which is in the past",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parse_day;

    #[test]
    fn dates_count_days_since_1970() {
        let cases = [
            ("1970-01-01", Some(0)),
            ("1969-12-31", Some(-1)),
            ("2000-02-29", Some(11_016)),
            ("2026-11-30T10:00:00Z", Some(20_787)),
            ("2025-02-29", None),
            ("2025-13-01", None),
            ("2025-1-01", None),
            ("next year", None),
            ("äöüäöüäöü", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_day(&json!(text)), expected, "{text}");
        }
    }
}
