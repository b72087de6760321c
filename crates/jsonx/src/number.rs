//! A number of JSON by its text.

use std::fmt;

use crate::Decimal;

/// A number as it was sent. Its text is a number by the grammar of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number(Box<str>);

impl Number {
    /// Takes the text of a number that was checked by the caller.
    pub(crate) fn from_checked(text: &str) -> Number {
        Number(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The exact value.
    #[must_use]
    pub fn decimal(&self) -> Decimal<'_> {
        Decimal::parse(self.0.as_bytes()).expect("a number of JSON is a decimal")
    }

    /// The nearest double. A number beyond all doubles is the largest one, and a number that is not zero but
    /// smaller than all of them is the smallest one, so that rules about ranges and signs hold.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        let nearest: f64 = self.0.parse().unwrap_or_default();
        if nearest.is_infinite() {
            return f64::MAX.copysign(nearest);
        }
        if nearest == 0.0 && !self.decimal().is_zero() {
            return f64::from_bits(1).copysign(nearest);
        }
        nearest
    }

    /// The value as a number of `serde_json`: an integer of 64 bits exactly, otherwise [`Number::to_f64`].
    #[must_use]
    pub fn to_serde(&self) -> serde_json::Number {
        if let Ok(number) = self.0.parse::<u64>() {
            return number.into();
        }
        // The text `-0` is a double, because integers have no such zero.
        match self.0.parse::<i64>() {
            Ok(number) if number != 0 => number.into(),
            _ => serde_json::Number::from_f64(self.to_f64()).expect("the double is finite"),
        }
    }
}

impl From<&serde_json::Number> for Number {
    fn from(number: &serde_json::Number) -> Number {
        Number(number.to_string().into())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
