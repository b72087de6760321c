//! The value of a variable, and its comparison with a value of a configuration.
//!
//! It knows neither variables nor operators. The rules are Lua's, because expressions were written for Lua: text never
//! equals a number unless the number is on the right side, which then converts the left side.

use std::borrow::Cow;
use std::io::Write;

/// The value of a variable that is set.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// True or false, from a JSON body.
    Boolean(bool),
    /// Text, in the encoding in which it was received.
    Bytes(Cow<'a, [u8]>),
    /// Several values, for `has`.
    List(Vec<Value<'a>>),
    /// A number.
    Number(f64),
}

impl<'a> Value<'a> {
    /// Borrowed text.
    #[must_use]
    pub fn borrowed(bytes: &'a [u8]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }

    /// Owned text.
    #[must_use]
    pub fn owned(bytes: Vec<u8>) -> Self {
        Self::Bytes(Cow::Owned(bytes))
    }

    /// A JSON value; null and objects have none.
    #[must_use]
    pub fn from_json(json: &'a serde_json::Value) -> Option<Self> {
        match json {
            serde_json::Value::Array(items) => {
                Some(Self::List(items.iter().filter_map(Self::from_json).collect()))
            }
            serde_json::Value::Bool(value) => Some(Self::Boolean(*value)),
            serde_json::Value::Number(number) => number.as_f64().map(Self::Number),
            serde_json::Value::String(text) => Some(Self::borrowed(text.as_bytes())),
            serde_json::Value::Null | serde_json::Value::Object(_) => None,
        }
    }

    /// The value as a number, as by Lua's `tonumber`.
    #[must_use]
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Bytes(bytes) => to_number(bytes),
            Self::Number(number) => Some(*number),
            Self::Boolean(_) | Self::List(_) => None,
        }
    }

    /// Whether the value's text is `text`. A number counts as its decimal text, so that a source may return numbers
    /// where nginx has text.
    #[must_use]
    pub fn is_text(&self, text: &[u8]) -> bool {
        match self {
            Self::Bytes(bytes) => **bytes == *text,
            Self::Number(number) => to_number(text) == Some(*number) && self.text() == text,
            Self::Boolean(_) | Self::List(_) => false,
        }
    }

    /// The text for logs and patterns; a list's items are joined by commas.
    #[must_use]
    pub fn text(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Bytes(bytes) => Cow::Borrowed(bytes),
            _ => {
                let mut out = Vec::new();
                self.write_to(&mut out);
                Cow::Owned(out)
            }
        }
    }

    /// Appends the text.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Boolean(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
            Self::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    item.write_to(out);
                }
            }
            // Most numbers are counts, statuses and ports; integers are printed in a tenth of the time of fractions. `f64`
            // prints whole numbers without a fraction as well, and minus zero with its sign.
            Self::Number(number) if is_whole(*number) => {
                write!(out, "{}", *number as i64).expect("a vector takes every write");
            }
            // Writing to a vector cannot fail.
            Self::Number(number) => write!(out, "{number}").expect("a vector takes every write"),
        }
    }
}

/// Whether a number is an integer that a double holds exactly, and not minus zero.
fn is_whole(number: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    number.fract() == 0.0 && number.abs() <= LARGEST && !(number == 0.0 && number.is_sign_negative())
}

/// Parses a number: decimal with fraction and exponent, or `0x` and hexadecimal digits, within white space. Names such
/// as `inf` are not numbers.
#[must_use]
pub fn to_number(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii();
    let unsigned = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    if let Some(digits) = unsigned.strip_prefix(b"0x").or_else(|| unsigned.strip_prefix(b"0X")) {
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let digits = std::str::from_utf8(digits).ok()?;
        // The loss of bits is intended, because Lua's numbers are doubles too.
        let value = u64::from_str_radix(digits, 16).ok()? as f64;
        return Some(if text.starts_with(b"-") { -value } else { value });
    }
    let numeric = |byte: &u8| byte.is_ascii_digit() || b".eE+-".contains(byte);
    if !unsigned.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.')
        || !unsigned.iter().all(numeric)
    {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::borrowed(text.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::borrowed(bytes)
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<u64> for Value<'_> {
    /// Exact up to 2^53, like every number in an expression.
    fn from(number: u64) -> Self {
        Self::Number(number as f64)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Number(f64::from(number))
    }
}

impl From<u16> for Value<'_> {
    fn from(number: u16) -> Self {
        Self::Number(f64::from(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, number: Option<f64>) {
        assert_eq!(to_number(text.as_bytes()), number, "{text:?}");
    }

    #[test]
    fn numbers() {
        check("10", Some(10.0));
        check(" -1.5e2 ", Some(-150.0));
        check("0x1F", Some(31.0));
        check("-0x10", Some(-16.0));
        check(".5", Some(0.5));
        check("5.", Some(5.0));
        for text in ["", " ", "a", "1a", "inf", "nan", "0x", "0xg", "--1", "-", "1 2", "e5", "+-1"] {
            check(text, None);
        }
    }

    #[test]
    fn texts() {
        assert!(Value::Number(80.0).is_text(b"80"));
        assert!(!Value::Number(80.0).is_text(b"80.0"));
        assert!(Value::from("a").is_text(b"a"));
        let list = Value::List(vec![Value::from("a"), Value::from(7u16), Value::Boolean(true)]);
        assert_eq!(&*list.text(), b"a,7,true");
        for number in [0.0, -0.0, 1.0, -7.0, 0.1, 1e15, 1e16, 9e15 + 1.0, -1e300, f64::NAN, f64::INFINITY] {
            assert_eq!(Value::Number(number).text(), number.to_string().into_bytes());
        }
    }
}
