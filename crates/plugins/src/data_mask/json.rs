//! Masks values in a JSON document by JSONPath.

use serde_json::Value;
use serde_json_path::JsonPath;

use super::{MaskAction, Masked};

/// A rule for the values at a path.
pub(super) struct JsonRule {
    path: JsonPath,
    action: MaskAction,
}

impl JsonRule {
    /// Compiles a path; one that does not begin at the root `$` is meant from there.
    ///
    /// # Errors
    /// The fault in the path, as a sentence.
    pub(super) fn compile(path: &str, action: MaskAction) -> Result<JsonRule, String> {
        let rooted = match path.as_bytes() {
            [b'$', ..] => path.to_owned(),
            [b'.' | b'[', ..] => format!("${path}"),
            _ => format!("$.{path}"),
        };
        check_size(&rooted).map_err(|reason| format!("name: {reason}"))?;
        let path = JsonPath::parse(&rooted).map_err(|error| format!("name: no JSONPath: {error}"))?;
        Ok(JsonRule { path, action })
    }
}

/// The longest path, in bytes.
const PATH_BYTES_MAX: usize = 1024;
/// Brackets inside each other: the parser recurses, and a stack that overflows ends the process.
const NESTED_BRACKETS_MAX: usize = 8;
/// Filters: one inside of another is read anew for each form that an expression may have.
const FILTERS_MAX: usize = 4;
/// Descents (`..`) and commas: each multiplies the places that the path finds.
const DESCENTS_MAX: usize = 2;
/// See [`DESCENTS_MAX`].
const COMMAS_MAX: usize = 16;

/// Checks the size of a path before the parser sees it. Texts in quotes count like all else.
fn check_size(path: &str) -> Result<(), String> {
    if path.len() > PATH_BYTES_MAX {
        return Err(format!("it has more than {PATH_BYTES_MAX} bytes"));
    }
    let mut open = 0_usize;
    for character in path.chars() {
        match character {
            '[' | '(' => open += 1,
            ']' | ')' => open = open.saturating_sub(1),
            _ => {}
        }
        if open > NESTED_BRACKETS_MAX {
            return Err(format!("it has more than {NESTED_BRACKETS_MAX} brackets inside each other"));
        }
    }
    if path.matches('?').count() > FILTERS_MAX {
        return Err(format!("it has more than {FILTERS_MAX} filters"));
    }
    for (part, most) in [("..", DESCENTS_MAX), (",", COMMAS_MAX)] {
        if path.matches(part).count() > most {
            return Err(format!("it has `{part}` more than {most} times"));
        }
    }
    Ok(())
}

/// Masks `document`; whether anything has changed.
pub(super) fn mask_json(rules: &[JsonRule], document: &mut Value) -> bool {
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

fn apply(action: &MaskAction, document: &mut Value, place: &str) -> bool {
    let Some(value) = document.pointer_mut(place) else { return false };
    let masked = match (action, &*value) {
        (MaskAction::Substitute(_), Value::String(text)) => action.apply(text.as_bytes()),
        (MaskAction::Substitute(_), _) => Masked::Kept,
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
