//! Numbers as APISIX's users write them: seconds that may be fractional, integers that may be written `1.0`.
//! Knows no field.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// The longest duration accepted, in seconds: a year. Longer ones are slips of the pen and would overflow
/// deadlines.
const SECONDS_MAX: f64 = 365.0 * 24.0 * 3600.0;

/// Reads seconds, whole or fractional, from zero to a year.
pub(crate) fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if !(0.0..=SECONDS_MAX).contains(&number) {
        return Err(de::Error::custom(format!("a duration is 0 to {SECONDS_MAX} seconds")));
    }
    Ok(Duration::from_secs_f64(number))
}

/// Reads optional seconds.
pub(crate) fn optional_seconds<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    seconds(deserializer).map(Some)
}

/// Reads an integer that fits `T`; `2.0` is one, as JSON Schema has it.
pub(crate) fn deserialize_integer<'de, D: Deserializer<'de>, T: TryFrom<i64>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let number = deserializer.deserialize_any(IntegerVisitor)?;
    T::try_from(number).map_err(|_| de::Error::custom(format!("{number} is out of range")))
}

/// Reads an optional integer.
pub(crate) fn optional_integer<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    deserialize_integer(deserializer).map(Some)
}

/// The integer that a floating-point number stands for, or none.
pub(crate) fn integer_of(number: f64) -> Option<i64> {
    /// Up to here every integer has a floating-point form of its own (2^53).
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation)]
    let whole = number as i64;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(whole)
}

/// Reads a list of integers.
pub(crate) fn integers<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    struct IntegerItem<T>(T);

    impl<'de, T: TryFrom<i64>> Deserialize<'de> for IntegerItem<T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserialize_integer(deserializer).map(IntegerItem)
        }
    }

    Ok(Vec::<IntegerItem<T>>::deserialize(deserializer)?.into_iter().map(|item| item.0).collect())
}

struct IntegerVisitor;

impl Visitor<'_> for IntegerVisitor {
    type Value = i64;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an integer")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<i64, E> {
        Ok(number)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<i64, E> {
        i64::try_from(number).map_err(|_| E::custom(format!("{number} is out of range")))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<i64, E> {
        integer_of(number).ok_or_else(|| E::custom(format!("{number} is not an integer")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_may_be_written_as_floats() {
        for (number, expected) in
            [(1.0, Some(1)), (-3.0, Some(-3)), (1.5, None), (f64::NAN, None), (1e300, None)]
        {
            assert_eq!(integer_of(number), expected, "{number}");
        }
    }

    #[test]
    fn seconds_may_be_fractional() {
        let read = |json: &str| seconds(&mut serde_json::Deserializer::from_str(json)).ok();
        assert_eq!(read("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(read("6"), Some(Duration::from_secs(6)));
        assert_eq!(read("-1"), None);
        assert_eq!(read("1e12"), None);
    }
}
