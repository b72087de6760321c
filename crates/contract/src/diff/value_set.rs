//! Differences of lists of JSON values that are read as sets: `enum` and `required`.

use std::collections::HashSet;

use serde_json::Value;

/// Form in which equal values are equal texts: numbers by value, so that `1` and `1.0` are the same.
fn canonical_text(value: &Value) -> String {
    match value {
        Value::Number(number) => {
            number.as_f64().map_or_else(|| number.to_string(), |number| format!("{number:?}"))
        }
        other => other.to_string(),
    }
}

/// The values of `list` that `other` does not have, in order and without repetitions.
pub(super) fn missing_values<'a>(list: &'a [Value], other: &[Value]) -> Vec<&'a Value> {
    let mut known: HashSet<String> = other.iter().map(canonical_text).collect();
    list.iter().filter(|value| known.insert(canonical_text(value))).collect()
}

/// The strings of a list keyword; other values are ignored.
pub(super) fn string_items(value: Option<&Value>) -> Vec<&str> {
    let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).collect()
}

/// Whether a list that was extended keeps the positions of its old members.
pub(super) fn keeps_positions<T: PartialEq>(old: &[T], new: &[T]) -> bool {
    new.len() >= old.len() && old.iter().zip(new).all(|(old, new)| old == new)
}
