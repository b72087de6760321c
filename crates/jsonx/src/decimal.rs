//! Decimal numbers of any length, compared by their digits.

use std::borrow::Cow;
use std::cmp::Ordering;

/// A decimal number. Two texts of one value, such as `1.50` and `15e-1`, are equal.
#[derive(Clone, Debug)]
pub struct Decimal<'a> {
    is_negative: bool,
    /// From the first digit that is not zero on; may hold one point and end in zeros. Empty for zero.
    digits: Cow<'a, [u8]>,
    /// Places of the point behind the front of `digits`: the value is `0.DIGITS` times ten to this power.
    magnitude: i64,
}

/// Exponents beyond this count as this one: no text is long enough for its digits to make up for it.
const EXPONENT_MAX: i64 = 1 << 60;

impl<'a> Decimal<'a> {
    /// Reads digits with a sign, a point and an exponent, each of which may be missing: `-1.5e3`, `+.5`,
    /// `5.`.
    #[must_use]
    pub fn parse(text: &'a [u8]) -> Option<Decimal<'a>> {
        let (is_negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let end = text.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(text.len());
        let (mantissa, exponent) = text.split_at(end);
        let exponent = match exponent {
            [] => 0,
            [_, exponent @ ..] => read_exponent(exponent)?,
        };
        let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
        let is_digit_or_point = |(at, byte): (usize, &u8)| byte.is_ascii_digit() || at == point;
        if !mantissa.iter().enumerate().all(is_digit_or_point) || !mantissa.iter().any(u8::is_ascii_digit) {
            return None;
        }
        let first = mantissa.iter().position(|byte| matches!(byte, b'1'..=b'9'));
        let Some(first) = first else {
            return Some(Decimal { is_negative, digits: Cow::Borrowed(&[]), magnitude: 0 });
        };
        // Lengths of texts fit, because no allocation is longer than `isize::MAX`.
        let places = if first < point { (point - first) as i64 } else { -((first - point - 1) as i64) };
        Some(Decimal {
            is_negative,
            digits: Cow::Borrowed(&mantissa[first..]),
            magnitude: places.saturating_add(exponent),
        })
    }

    /// The shortest decimal that is read as this double; none for infinity and not-a-number.
    #[must_use]
    pub fn from_f64(number: f64) -> Option<Decimal<'static>> {
        let text = number.is_finite().then(|| format!("{number:e}"))?;
        Decimal::parse(text.as_bytes()).map(Decimal::into_owned)
    }

    /// The decimal of an integer.
    #[must_use]
    pub fn from_integer(number: i128) -> Decimal<'static> {
        let text = number.to_string();
        Decimal::parse(text.as_bytes()).map(Decimal::into_owned).expect("digits are a decimal")
    }

    /// The decimal with its own copy of the digits.
    #[must_use]
    pub fn into_owned(self) -> Decimal<'static> {
        Decimal { digits: Cow::Owned(self.digits.into_owned()), ..self }
    }

    /// The value as an integer; none if it has a fraction, or more than 20 digits in front of the point.
    #[must_use]
    pub fn to_integer(&self) -> Option<i128> {
        if self.is_zero() {
            return Some(0);
        }
        let places = usize::try_from(self.magnitude).ok().filter(|places| *places <= INTEGER_DIGITS_MAX)?;
        let mut digits = self.all_digits();
        let mut number = 0_i128;
        for _ in 0..places {
            number = number * 10 + i128::from(digits.next().unwrap_or(b'0') - b'0');
        }
        if digits.any(|digit| digit != b'0') {
            return None;
        }
        Some(if self.is_negative { -number } else { number })
    }

    /// Whether the value is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// The digits without the point.
    fn all_digits(&self) -> impl Iterator<Item = u8> + '_ {
        self.digits.iter().copied().filter(|byte| *byte != b'.')
    }

    /// -1, 0 or 1.
    fn sign(&self) -> i8 {
        match (self.is_zero(), self.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    /// Compares the digits behind the first place of both.
    fn compare_digits(&self, other: &Decimal<'_>) -> Ordering {
        let (mut left, mut right) = (self.all_digits(), other.all_digits());
        loop {
            match (left.next(), right.next()) {
                (None, None) => return Ordering::Equal,
                (one, another) => match one.unwrap_or(b'0').cmp(&another.unwrap_or(b'0')) {
                    Ordering::Equal => {}
                    order => return order,
                },
            }
        }
    }
}

/// Digits that every 64-bit integer has at most.
const INTEGER_DIGITS_MAX: usize = 20;

/// An exponent with its sign, at most [`EXPONENT_MAX`].
fn read_exponent(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: i64, digit: &u8| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
    let exponent = digits.iter().fold(0, add).min(EXPONENT_MAX);
    Some(if is_negative { -exponent } else { exponent })
}

impl Ord for Decimal<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = self.sign();
        let by_size = || self.magnitude.cmp(&other.magnitude).then_with(|| self.compare_digits(other));
        sign.cmp(&other.sign()).then_with(|| match sign {
            0 => Ordering::Equal,
            1 => by_size(),
            _ => by_size().reverse(),
        })
    }
}

impl PartialOrd for Decimal<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal<'_> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decimal(text: &str) -> Decimal<'_> {
        Decimal::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn decimals_are_ordered_by_value() {
        let ascending = [
            "-1e999999999999999999999",
            "-9007199254740993",
            "-9007199254740992",
            "-1.5",
            "-1e-400",
            "0",
            "1e-99999999999999999999",
            "1e-400",
            "0.1",
            "0.1000000000000000055511151231257827",
            ".5",
            "5",
            "18446744073709551615",
            "18446744073709551616",
            "1e400",
            "1e401",
        ];
        for (left, smaller) in ascending.iter().enumerate() {
            for (right, larger) in ascending.iter().enumerate() {
                assert_eq!(decimal(smaller).cmp(&decimal(larger)), left.cmp(&right), "{smaller} {larger}");
            }
        }
    }

    #[test]
    fn texts_of_one_value_are_equal() {
        let same = [
            &["0", "-0", "0.000", "0e99", "-.0"][..],
            &["100", "1e2", "100.00", "+0100", "10000e-2", ".1e3", "1.00E+2"],
            &["-1.5", "-15e-1", "-001.50"],
            &["0.001", "1e-3", ".1e-2"],
        ];
        for texts in same {
            for text in texts {
                assert_eq!(decimal(text), decimal(texts[0]), "{text}");
            }
        }
        for text in ["", "-", ".", "e5", "1e", "1e+", "1.2.3", "1e5.", "0x1", "1 ", "--1", "inf", "1_0"] {
            assert!(Decimal::parse(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn integers_are_those_without_a_fraction() {
        let check = |text: &str, expected: Option<i128>| {
            assert_eq!(decimal(text).to_integer(), expected, "{text}");
        };
        check("0.0", Some(0));
        check("1e2", Some(100));
        check("12.50", None);
        check("-12.00", Some(-12));
        check("18446744073709551616", Some(1 << 64));
        check("1e400", None);
        check("1e-400", None);
    }

    proptest! {
        #[test]
        fn doubles_keep_their_order(left: f64, right: f64) {
            prop_assume!(left.is_finite() && right.is_finite());
            let (one, another) = (Decimal::from_f64(left).unwrap(), Decimal::from_f64(right).unwrap());
            prop_assert_eq!(Some(one.cmp(&another)), left.partial_cmp(&right));
        }

        #[test]
        fn integers_keep_their_order(left: i64, right: u64) {
            let (one, another) = (Decimal::from_integer(left.into()), Decimal::from_integer(right.into()));
            prop_assert_eq!(one.cmp(&another), i128::from(left).cmp(&i128::from(right)));
            prop_assert_eq!(another.to_integer(), Some(right.into()));
        }
    }
}
