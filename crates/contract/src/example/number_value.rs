//! Numbers within bounds, as whole multiples of a step. Decimals are compared as integers of one scale,
//! because 0.1 and its multiples are not exact in binary.

use serde_json::{Map, Number, Value, json};

/// Digits behind the point.
const SCALE: u32 = 12;
/// One, in the scale.
const ONE: i128 = 10_i128.pow(SCALE);
/// The largest digit of the steps that are tried between two bounds: millionths.
const FINE_STEPS: u32 = 6;
/// Values among which a schema without bounds varies.
const FREE_VALUES: u64 = 1000;

/// A number that the schema accepts; `pick` selects among them. Nothing where there is none.
pub(super) fn make_number(flat: &Map<String, Value>, is_integer: bool, pick: u64) -> Option<Value> {
    let bounds = NumberBounds::of(flat);
    let multiple = flat.get("multipleOf").and_then(scaled).filter(|step| *step > 0);
    let step = match (multiple, is_integer) {
        (Some(step), true) => Some(least_common_multiple(step, ONE)?),
        (Some(step), false) => Some(step),
        (None, true) => Some(ONE),
        (None, false) => None,
    };
    match step {
        Some(step) => bounds.multiple(step, pick),
        None => bounds.any(pick),
    }
    .and_then(unscaled)
}

/// The least common multiple of two values of `multipleOf`.
pub(super) fn common_multiple(first: &Value, second: &Value) -> Option<Value> {
    unscaled(least_common_multiple(scaled(first)?, scaled(second)?)?)
}

/// Bounds in the scale, and whether they are excluded.
struct NumberBounds {
    low: Option<(i128, bool)>,
    high: Option<(i128, bool)>,
}

impl NumberBounds {
    fn of(flat: &Map<String, Value>) -> NumberBounds {
        let bound = |plain: &str, exclusive: &str, is_tighter: fn(i128, i128) -> bool| {
            let plain = flat.get(plain).and_then(scaled);
            match (plain, flat.get(exclusive)) {
                (Some(plain), Some(Value::Bool(is_exclusive))) => Some((plain, *is_exclusive)),
                (plain, exclusive) => match (plain, exclusive.and_then(scaled)) {
                    (Some(plain), Some(excluded)) if is_tighter(plain, excluded) => Some((plain, false)),
                    (_, Some(excluded)) => Some((excluded, true)),
                    (plain, None) => plain.map(|plain| (plain, false)),
                },
            }
        };
        NumberBounds {
            low: bound("minimum", "exclusiveMinimum", |plain, excluded| plain > excluded),
            high: bound("maximum", "exclusiveMaximum", |plain, excluded| plain < excluded),
        }
    }

    /// A multiple of the step. Without a lower bound it is the greatest one, without any bound zero.
    fn multiple(&self, step: i128, pick: u64) -> Option<i128> {
        let first = self.low.map(|(low, is_excluded)| {
            let first = low.div_euclid(step) * step;
            if first < low || (is_excluded && first == low) { first + step } else { first }
        });
        let last = self.high.map(|(high, is_excluded)| {
            let last = high.div_euclid(step) * step;
            if is_excluded && last == high { last - step } else { last }
        });
        match (first, last) {
            (Some(first), Some(last)) if first > last => None,
            (Some(first), Some(last)) => {
                let count = (last - first) / step + 1;
                Some(first + i128::from(pick).rem_euclid(count) * step)
            }
            (first, None) => first.unwrap_or(0).checked_add(i128::from(pick % FREE_VALUES) * step),
            (None, Some(last)) => last.checked_sub(i128::from(pick % FREE_VALUES) * step),
        }
    }

    /// Any number within the bounds, with as few digits as possible.
    fn any(&self, pick: u64) -> Option<i128> {
        let start = match (self.low, self.high) {
            (Some((low, false)), Some((high, false))) if low == high => return Some(low),
            (Some((low, _)), _) => low,
            (None, Some((high, _))) => high,
            (None, None) => 0,
        };
        // Bounds that are shifted by the start have multiples of the step right at it.
        let shift =
            |bound: Option<(i128, bool)>| bound.map(|(bound, is_excluded)| (bound - start, is_excluded));
        let shifted = NumberBounds { low: shift(self.low), high: shift(self.high) };
        let steps = (0..=FINE_STEPS).map(|digits| 10_i128.pow(SCALE - digits));
        let found = steps.into_iter().find_map(|step| shifted.multiple(step, pick))?;
        found.checked_add(start)
    }
}

/// A number in the scale; nothing for other values, and where digits would be lost.
fn scaled(value: &Value) -> Option<i128> {
    let Value::Number(number) = value else { return None };
    let text = number.to_string();
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent = exponent.parse::<i32>().ok()? - i32::try_from(fraction.len()).ok()?;
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let shift = exponent + i32::try_from(SCALE).ok()?;
    let factor = 10_i128.checked_pow(shift.unsigned_abs())?;
    // Sums of two such numbers and a step stay within the type.
    let within = |number: &i128| number.unsigned_abs() < i128::MAX.unsigned_abs() / 4;
    match shift {
        0.. => digits.checked_mul(factor).filter(within),
        _ if digits % factor == 0 => Some(digits / factor),
        _ => None,
    }
}

/// The number as JSON, without a fraction where it has none.
fn unscaled(number: i128) -> Option<Value> {
    let (whole, fraction) = (number / ONE, (number % ONE).unsigned_abs());
    if fraction == 0 {
        let small =
            i64::try_from(whole).map(Number::from).or_else(|_| u64::try_from(whole).map(Number::from));
        return small.map(Value::Number).ok().or_else(|| Some(json!(whole as f64)));
    }
    let sign = if number < 0 { "-" } else { "" };
    let text = format!("{sign}{}.{fraction:012}", whole.unsigned_abs());
    Number::from_f64(text.parse().ok()?).map(Value::Number)
}

fn least_common_multiple(first: i128, second: i128) -> Option<i128> {
    let (mut divisor, mut rest) = (first, second);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (first.checked_div(divisor)?).checked_mul(second)
}
