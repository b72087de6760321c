//! A second implementation of expressions, which evaluates the JSON directly. It is for accepted expressions
//! only.

use std::net::IpAddr;

use router::vars::{Pattern, Value, Variable, VariableSource, to_number};
use serde_json::Value as Json;

/// Whether the expression is true.
pub fn holds(json: &Json, source: &impl VariableSource) -> bool {
    let items = json.as_array().expect("an expression is a list");
    let Some(first) = items.first() else { return true };
    let negated = first.as_str().is_some_and(|name| name.starts_with('!'));
    let logic = first.as_str().map(|name| name.strip_prefix('!').unwrap_or(name).to_ascii_uppercase());
    match logic.as_deref() {
        None => items.iter().all(|item| holds(item, source)),
        Some("AND") => items[1..].iter().all(|item| holds(item, source)) != negated,
        Some("OR") => items[1..].iter().any(|item| holds(item, source)) != negated,
        Some(_) => comparison(items, source),
    }
}

fn comparison(items: &[Json], source: &impl VariableSource) -> bool {
    let variable = Variable::parse(items[0].as_str().expect("a name")).expect("a good name");
    let value = source.variable(&variable);
    let (negated, operator, right) = match items {
        // `==` without a value compares with null; a word that is not an operator is itself the value.
        [_, operator] if is_operator(operator) => (false, operator.as_str(), &Json::Null),
        [_, right] => (false, None, right),
        [_, operator, right] => (false, operator.as_str(), right),
        [_, _, operator, right] => (true, operator.as_str(), right),
        _ => panic!("accepted {items:?}"),
    };
    let operator = operator.unwrap_or("==").to_ascii_lowercase();
    compare(&operator, value.as_ref(), right) != negated
}

fn compare(operator: &str, left: Option<&Value<'_>>, right: &Json) -> bool {
    let ordered = |holds: fn(&f64, &f64) -> bool| match (left.and_then(Value::as_number), number(right)) {
        (Some(left), Some(right)) => holds(&left, &right),
        _ => false,
    };
    match operator {
        "==" => equal(left, right),
        "~=" => !equal(left, right),
        ">" => ordered(f64::gt),
        ">=" => ordered(f64::ge),
        "<" => ordered(f64::lt),
        "<=" => ordered(f64::le),
        "~~" | "~*" => left.is_some_and(|left| {
            let source = right.as_str().map_or_else(|| right.to_string(), str::to_owned);
            let pattern = Pattern::compile(&source, operator == "~*").expect("a good pattern");
            pattern.is_match(&left.text()) == Ok(true)
        }),
        "in" => right.as_array().into_iter().flatten().any(|item| is_element(left, item)),
        "has" => match left {
            Some(Value::List(items)) => items.iter().any(|item| is_element(Some(item), right)),
            _ => false,
        },
        "ipmatch" => left.and_then(|left| address(&left.text())).is_some_and(|address| match right {
            Json::Array(networks) => networks.iter().any(|network| is_within(address, network)),
            network => is_within(address, network),
        }),
        other => panic!("accepted the operator {other}"),
    }
}

/// Equality as in `==`: a number on the right converts the left side to a number.
fn equal(left: Option<&Value<'_>>, right: &Json) -> bool {
    match right {
        Json::Number(_) => left.and_then(Value::as_number).is_some_and(|left| Some(left) == number(right)),
        _ => is_element(left, right),
    }
}

/// Equality as in `in` and `has`: text is not converted to a number.
fn is_element(left: Option<&Value<'_>>, right: &Json) -> bool {
    match (left, right) {
        (None, Json::Null) => true,
        (Some(Value::Boolean(left)), Json::Bool(right)) => left == right,
        (Some(Value::Number(left)), Json::Number(_)) => Some(*left) == number(right),
        (Some(left @ (Value::Bytes(_) | Value::Number(_))), Json::String(right)) => {
            *left.text() == *right.as_bytes()
        }
        _ => false,
    }
}

fn number(json: &Json) -> Option<f64> {
    json.as_str().map_or_else(|| json.as_f64(), |text| to_number(text.as_bytes()))
}

fn is_operator(json: &Json) -> bool {
    let operators = ["==", "~=", ">", ">=", "<", "<=", "~~", "~*", "in", "has", "ipmatch"];
    json.as_str().is_some_and(|text| operators.contains(&&*text.to_ascii_lowercase()))
}

fn address(text: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Whether an address is in a network, by comparing bits. An IPv4-mapped IPv6 address counts as IPv4.
fn is_within(address: IpAddr, network: &Json) -> bool {
    let text = network.as_str().expect("a network is text");
    let (base, bits) = text.split_once('/').map_or((text, None), |(base, bits)| (base, Some(bits)));
    let base: IpAddr = base.parse().expect("the base of a network is an address");
    let all = |address: IpAddr| match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) | 0xffff << 32, 96),
        IpAddr::V6(address) => (u128::from(address), 0),
    };
    let ((address, _), (base, skipped)) = (all(address), all(base));
    let bits = bits.map_or(128, |bits| bits.parse::<u32>().expect("a number of bits") + skipped);
    let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
    // An IPv6 network that is wider than ::ffff:0:0/96 contains no IPv4 address.
    let mapped = address >> 32 == 0xffff;
    address & mask == base & mask && (!mapped || bits >= 96)
}
