//! Numbers as the contract reads and writes them: those of Lua, which have 53 bits, and integers as text. It
//! knows no message.

use std::io::Write as _;

/// The form of an integer that 32 bits cannot hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wide {
    /// A number with 14 digits.
    #[default]
    Number,
    /// `"#"` and the decimal digits.
    Text,
    /// `"#0x"` and the hexadecimal digits.
    Hex,
}

/// Appends an integer as JSON.
pub(super) fn write_integer(out: &mut Vec<u8>, number: i128, wide: Wide) {
    let is_narrow = (i128::from(i32::MIN)..=i128::from(u32::MAX)).contains(&number);
    let sign = if number < 0 { "-" } else { "" };
    // Writes to a vector do not fail.
    let _ = match wide {
        _ if is_narrow => write!(out, "{number}"),
        Wide::Number => {
            // The contract converts to a double before it writes.
            let _ = write_float(out, number as f64);
            Ok(())
        }
        Wide::Text => write!(out, "\"#{number}\""),
        Wide::Hex => write!(out, "\"#{sign}0x{:X}\"", number.unsigned_abs()),
    };
}

/// Significant digits of a number, as the contract's JSON encoder has them (`%.14g`).
const DIGITS: i32 = 14;

/// Appends a number with [`DIGITS`] digits. False, and nothing is appended, if JSON has no such number.
#[must_use]
pub(super) fn write_float(out: &mut Vec<u8>, number: f64) -> bool {
    if !number.is_finite() {
        return false;
    }
    let scientific = format!("{number:.*e}", DIGITS as usize - 1);
    let Some((digits, exponent)) = scientific.split_once('e') else { return false };
    let Ok(exponent) = exponent.parse::<i32>() else { return false };
    if (-4..DIGITS).contains(&exponent) {
        let places = usize::try_from(DIGITS - 1 - exponent).unwrap_or_default();
        let text = format!("{number:.places$}");
        out.extend_from_slice(without_zeros(&text).as_bytes());
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{}e{sign}{:02}", without_zeros(digits), exponent.unsigned_abs());
    }
    true
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Reads an integer that is written as text: `12`, `#12`, `0xF`, `#-0xF`, `-#0xF`; also a number without a
/// fraction.
pub(super) fn read_integer(text: &str) -> Option<i128> {
    let (mut rest, mut is_negative, mut is_marked) = (text, false, false);
    loop {
        rest = match rest.as_bytes().first()? {
            b'#' if !is_marked => {
                is_marked = true;
                &rest[1..]
            }
            b'-' if !is_negative => {
                is_negative = true;
                &rest[1..]
            }
            _ => break,
        };
    }
    let digits = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X"));
    // 64 bits have at most 20 digits; longer texts are not read.
    let magnitude = match digits {
        Some(digits) if is_digits(digits, 16) => i128::from(u64::from_str_radix(digits, 16).ok()?),
        Some(_) => return None,
        None if is_digits(rest, 10) => i128::from(rest.parse::<u64>().ok()?),
        None if !is_marked && rest.starts_with(|char: char| char.is_ascii_digit()) => {
            to_exact_integer(rest.parse().ok()?)?
        }
        None => return None,
    };
    Some(if is_negative { -magnitude } else { magnitude })
}

fn is_digits(text: &str, radix: u32) -> bool {
    !text.is_empty() && text.chars().all(|char| char.is_digit(radix))
}

/// The integer that a number is; none if it has a fraction or 64 bits cannot hold it.
pub(super) fn to_exact_integer(number: f64) -> Option<i128> {
    let fits = number.fract() == 0.0 && number.abs() < 18_446_744_073_709_551_616.0;
    // Exact, because it has no fraction and is in range.
    fits.then_some(number as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_integers_have_the_form_that_is_asked_for() {
        let check = |number: i128, expected: [&str; 3]| {
            let written = [Wide::Number, Wide::Text, Wide::Hex].map(|wide| {
                let mut out = Vec::new();
                write_integer(&mut out, number, wide);
                String::from_utf8(out).unwrap()
            });
            assert_eq!(written, expected, "{number}");
        };
        check(3, ["3"; 3]);
        check(-2_147_483_648, ["-2147483648"; 3]);
        check(4_294_967_295, ["4294967295"; 3]);
        check(4_294_967_296, ["4294967296", "\"#4294967296\"", "\"#0x100000000\""]);
        check(-2_147_483_649, ["-2147483649", "\"#-2147483649\"", "\"#-0x80000001\""]);
        let long = ["2.2517998136853e+15", "\"#2251799813685261\"", "\"#0x800000000000D\""];
        check(2_251_799_813_685_261, long);
        check(2_475_056_748_394_982, ["2.475056748395e+15", "\"#2475056748394982\"", "\"#0x8CB0D0E4979E6\""]);
        let most = ["1.844674407371e+19", "\"#18446744073709551615\"", "\"#0xFFFFFFFFFFFFFFFF\""];
        check(i128::from(u64::MAX), most);
    }

    #[test]
    fn floats_have_fourteen_digits() {
        let check = |number: f64, expected: &str| {
            let mut out = Vec::new();
            assert!(write_float(&mut out, number));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
            assert!(serde_json::from_str::<f64>(expected).is_ok());
        };
        check(0.0, "0");
        check(666.0, "666");
        check(-1.5, "-1.5");
        check(0.1, "0.1");
        check(f64::from(3.1_f32), "3.0999999046326");
        check(1e14, "1e+14");
        check(99_999_999_999_999.0, "99999999999999");
        check(0.0001, "0.0001");
        check(0.000_012_5, "1.25e-05");
        check(1.0 / 3.0, "0.33333333333333");
        check(-2.5e-300, "-2.5e-300");
        for none in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(!write_float(&mut Vec::new(), none));
        }
    }

    #[test]
    fn integers_are_read_from_texts() {
        let check = |text: &str, expected: Option<i128>| assert_eq!(read_integer(text), expected, "{text}");
        check("123", Some(123));
        check("-3", Some(-3));
        check("#123", Some(123));
        check("0xabF", Some(0xabf));
        check("#-0x123abcdef", Some(-0x1_23ab_cdef));
        check("-#0x123abcdef", Some(-0x1_23ab_cdef));
        check("#0x123abcdef", Some(0x1_23ab_cdef));
        check("1e3", Some(1_000));
        check("18446744073709551615", Some(i128::from(u64::MAX)));
        for bad in [
            "", "#", "-", "0x", "#a", "+aaa", "#aaaa", "#-aa", "1.5", "--1", "##1", "0x1g", "1e300", "nan",
            "#1.0",
        ] {
            check(bad, None);
        }
    }
}
