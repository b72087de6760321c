//! Masks values in a JSON document by JSONPath.

use serde_json::Value;
use serde_json_path::JsonPath;

use super::{Action, Masked};

/// A rule for the values at a path.
pub(super) struct JsonRule {
    path: JsonPath,
    action: Action,
}

impl JsonRule {
    /// Compiles a path; one that does not begin at the root `$` is meant from there.
    ///
    /// # Errors
    /// The fault in the path, as a sentence.
    pub(super) fn compile(path: &str, action: Action) -> Result<JsonRule, String> {
        let rooted = match path.as_bytes() {
            [b'$', ..] => path.to_owned(),
            [b'.' | b'[', ..] => format!("${path}"),
            _ => format!("$.{path}"),
        };
        let path = JsonPath::parse(&rooted).map_err(|error| format!("name: no JSONPath: {error}"))?;
        Ok(JsonRule { path, action })
    }
}

/// Masks `document`; whether anything has changed.
pub(super) fn mask(rules: &[JsonRule], document: &mut Value) -> bool {
    let mut is_changed = false;
    for JsonRule { path, action } in rules {
        let mut places: Vec<String> =
            path.query_located(document).locations().map(|place| place.to_json_pointer()).collect();
        places.sort_by(|a, b| steps(a).cmp(steps(b)));
        places.dedup();
        // From the last one, so that a value that is removed from a list does not move those that follow.
        for place in places.iter().rev() {
            is_changed |= apply(action, document, place);
        }
    }
    is_changed
}

/// The steps of a JSON Pointer as they are ordered in a document: indices of a list are numbers.
fn steps(place: &str) -> impl Iterator<Item = (Option<usize>, &str)> {
    place.split('/').map(|step| (step.parse().ok(), step))
}

fn apply(action: &Action, document: &mut Value, place: &str) -> bool {
    let Some(value) = document.pointer_mut(place) else { return false };
    let masked = match (action, &*value) {
        (Action::Substitute(_), Value::String(text)) => action.apply(text.as_bytes()),
        (Action::Substitute(_), _) => Masked::Kept,
        _ => action.apply(b""),
    };
    match masked {
        Masked::Kept => false,
        Masked::Replaced(text) => {
            *value = Value::String(String::from_utf8_lossy(&text).into_owned());
            true
        }
        Masked::Removed => {
            remove(document, place);
            true
        }
    }
}

/// Removes the value at a JSON Pointer (RFC 6901); the root becomes null.
fn remove(document: &mut Value, place: &str) {
    let Some((parent, last)) = place.rsplit_once('/') else {
        *document = Value::Null;
        return;
    };
    match document.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.shift_remove(&last.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(items)) => {
            if let Some(index) = last.parse().ok().filter(|index: &usize| *index < items.len()) {
                items.remove(index);
            }
        }
        _ => {}
    }
}
