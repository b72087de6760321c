//! The value of a variable, and its comparison with a value of a configuration.
//!
//! It knows neither variables nor operators. The rules are Lua's, because expressions were written for Lua:
//! text never equals a number unless the number is on the right side, which then converts the left side.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::io::Write;

use jsonx::Decimal;

/// The value of a variable that is set.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// True or false, from a JSON body.
    Boolean(bool),
    /// Text, in the encoding in which it was received.
    Bytes(Cow<'a, [u8]>),
    /// A number of JSON with its digits, where no exact double stands for it.
    Digits(Cow<'a, str>),
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
    pub fn from_json(json: &'a jsonx::Value) -> Option<Self> {
        match json {
            jsonx::Value::List(items) => Some(Self::List(items.iter().filter_map(Self::from_json).collect())),
            jsonx::Value::Boolean(value) => Some(Self::Boolean(*value)),
            jsonx::Value::Number(number) => Some(Self::from_json_number(number)),
            jsonx::Value::Text(text) => Some(Self::borrowed(text.as_bytes())),
            jsonx::Value::Null | jsonx::Value::Object(_) => None,
        }
    }

    /// An integer of 64 bits has one text, however it is written: `5`, `5.0` and `5e0` are one key of a
    /// limit. All other numbers keep the text that was sent.
    fn from_json_number(number: &'a jsonx::Number) -> Self {
        let text = number.as_str();
        let is_of_64_bits = |whole: &i128| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(whole);
        // The text `-0` has a sign, which no integer has.
        let whole = number.decimal().to_integer().filter(is_of_64_bits);
        match whole.filter(|whole| *whole != 0 || !text.starts_with('-')) {
            Some(whole) if whole.unsigned_abs() <= EXACT_MAX as u128 => Self::Number(whole as f64),
            Some(whole) => Self::Digits(Cow::Owned(whole.to_string())),
            None => Self::Digits(Cow::Borrowed(text)),
        }
    }

    /// The value as a number, as by Lua's `tonumber`, which rounds to doubles.
    #[must_use]
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Bytes(bytes) => to_number(bytes),
            Self::Digits(digits) => to_number(digits.as_bytes()),
            Self::Number(number) => Some(*number),
            Self::Boolean(_) | Self::List(_) => None,
        }
    }

    /// The exact value as a number; none of a text that is no number.
    pub(super) fn decimal(&self) -> Option<Decimal<'_>> {
        match self {
            Self::Bytes(bytes) => to_decimal(bytes),
            Self::Digits(digits) => Decimal::parse(digits.as_bytes()),
            Self::Number(number) => Decimal::from_f64(*number),
            Self::Boolean(_) | Self::List(_) => None,
        }
    }

    /// Whether the value's text is `text`. A number counts as its decimal text, so that a source may return
    /// numbers where nginx has text, and a client cannot write a number so that a rule about its text misses
    /// it.
    #[must_use]
    pub fn is_text(&self, text: &[u8]) -> bool {
        match self {
            Self::Bytes(bytes) => **bytes == *text,
            Self::Digits(digits) => {
                digits.as_bytes() == text || (is_plain_decimal(text) && self.decimal() == to_decimal(text))
            }
            Self::Number(number) => to_number(text) == Some(*number) && self.text() == text,
            Self::Boolean(_) | Self::List(_) => false,
        }
    }

    /// The text for logs and patterns; a list's items are joined by commas.
    #[must_use]
    pub fn text(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Bytes(bytes) => Cow::Borrowed(bytes),
            Self::Digits(digits) => Cow::Borrowed(digits.as_bytes()),
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
            Self::Digits(digits) => out.extend_from_slice(digits.as_bytes()),
            Self::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    item.write_to(out);
                }
            }
            // Most numbers are counts, statuses and ports; integers are printed in a tenth of the time of
            // fractions. `f64` prints whole numbers without a fraction as well, and minus zero with its sign.
            Self::Number(number) if is_whole(*number) => {
                write!(out, "{}", *number as i64).expect("a vector takes every write");
            }
            // Writing to a vector cannot fail.
            Self::Number(number) => write!(out, "{number}").expect("a vector takes every write"),
        }
    }
}

/// The largest integer up to which doubles hold all integers.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Whether a number is an integer that a double holds exactly, and not minus zero.
fn is_whole(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() <= EXACT_MAX && !(number == 0.0 && number.is_sign_negative())
}

/// Whether a text writes a decimal in the one way that has no exponent and no digit too many.
fn is_plain_decimal(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let point = digits.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = digits.split_at(point.unwrap_or(digits.len()));
    let is_short = whole == b"0" || whole.first().is_some_and(|digit| *digit != b'0');
    let ends_well = point.is_none() || !matches!(fraction.last(), Some(b'0' | b'.'));
    is_short && ends_well && digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// A number to compare values with, which were written by the configuration.
#[derive(Clone, Debug)]
pub(super) struct ComparedNumber {
    decimal: Decimal<'static>,
    /// The nearest double, and whether its shortest text is the decimal.
    double: f64,
    is_exact: bool,
}

impl ComparedNumber {
    /// The number in a text, as [`to_number`] reads it.
    pub(super) fn of_text(text: &[u8]) -> Option<Self> {
        let decimal = to_decimal(text)?.into_owned();
        let double = to_number(text)?;
        let is_exact = Decimal::from_f64(double).as_ref() == Some(&decimal);
        Some(Self { decimal, double, is_exact })
    }

    /// The order of a value and this number; none of a value that is no number.
    pub(super) fn compare(&self, value: &Value<'_>) -> Option<Ordering> {
        match value {
            // Numbers of the gateway, such as statuses and times, need no decimal.
            Value::Number(left) if self.is_exact => left.partial_cmp(&self.double),
            _ => Some(value.decimal()?.cmp(&self.decimal)),
        }
    }
}

/// The exact number in a text that [`to_number`] reads.
fn to_decimal(text: &[u8]) -> Option<Decimal<'_>> {
    let text = text.trim_ascii();
    match hexadecimal(text) {
        Some(number) => number.map(Decimal::from_integer),
        None => Decimal::parse(text),
    }
}

/// The number behind `0x`, with its sign; none inside if there are no such digits, or more than a 64-bit
/// integer has.
fn hexadecimal(text: &[u8]) -> Option<Option<i128>> {
    let unsigned = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    let digits = unsigned.strip_prefix(b"0x").or_else(|| unsigned.strip_prefix(b"0X"))?;
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Some(None);
    }
    let number = std::str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let sign = if text.starts_with(b"-") { -1 } else { 1 };
    Some(number.map(|number| i128::from(number) * sign))
}

/// Parses a number: decimal with fraction and exponent, or `0x` and hexadecimal digits, within white space.
/// Names such as `inf` are not numbers.
#[must_use]
pub fn to_number(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii();
    if let Some(number) = hexadecimal(text) {
        // The loss of bits is intended, because Lua's numbers are doubles too.
        return number.map(|number| number as f64);
    }
    // The grammar is that of decimals: the parser of doubles takes names such as `inf` as well.
    Decimal::parse(text)?;
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
    fn from(number: u64) -> Self {
        match number as f64 {
            exact if exact <= EXACT_MAX => Self::Number(exact),
            _ => Self::Digits(Cow::Owned(number.to_string())),
        }
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
