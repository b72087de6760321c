//! An empty list where an object belongs, and the reverse. Clients in Lua and PHP write both alike, because
//! their empty table is both, and APISIX takes both; so one stands for the other wherever only that makes an
//! object acceptable.

use serde_json::{Map, Value};

use crate::ObjectRefusal;

/// Runs a check on a value and, where it is refused, on the value with the empty lists and objects at its
/// faults exchanged. The refusal of the value as it was written is given where that does not help.
///
/// # Errors
/// Those of the check.
pub(super) fn checked<T>(
    value: &Value,
    check: impl Fn(&Value) -> Result<T, ObjectRefusal>,
) -> Result<T, ObjectRefusal> {
    let refusal = match check(value) {
        Ok(checked) => return Ok(checked),
        Err(refusal) => refusal,
    };
    let mut exchanged = value.clone();
    let mut pointers = pointers(&refusal);
    for _ in 0..ROUNDS {
        let changes = pointers.iter().filter(|pointer| exchange(&mut exchanged, pointer)).count();
        if changes == 0 {
            break;
        }
        match check(&exchanged) {
            Ok(checked) => return Ok(checked),
            Err(next) => pointers = self::pointers(&next),
        }
    }
    Err(refusal)
}

fn pointers(refusal: &ObjectRefusal) -> Vec<String> {
    let mut pointers: Vec<String> =
        refusal.faults().iter().map(|fault| fault.pointer.clone()).filter(|at| !at.is_empty()).collect();
    pointers.sort_unstable();
    pointers.dedup();
    pointers
}

/// Whether an empty list or object at the pointer was exchanged.
fn exchange(value: &mut Value, pointer: &str) -> bool {
    match value.pointer_mut(pointer) {
        Some(place @ Value::Array(_)) if place.as_array().is_some_and(Vec::is_empty) => {
            *place = Value::Object(Map::new());
            true
        }
        Some(place @ Value::Object(_)) if place.as_object().is_some_and(Map::is_empty) => {
            *place = Value::Array(Vec::new());
            true
        }
        _ => false,
    }
}

/// Checks at most, because a fault inside an object is found once the object itself has the right form.
const ROUNDS: usize = 3;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check::tests::catalog;
    use crate::{ObjectKey, ObjectKind, check};

    /// Each row: an object, and whether it is accepted.
    #[test]
    fn empty_list_and_object_are_alike() {
        let upstream = json!({"nodes": {"a.example:80": 1}});
        let rows = [
            (ObjectKind::Route, json!({"uri": "/", "upstream": upstream, "plugins": []}), true),
            (ObjectKind::Route, json!({"uri": "/", "upstream": upstream, "vars": {}}), true),
            (ObjectKind::Route, json!({"uri": "/", "upstream": upstream, "labels": []}), true),
            (
                ObjectKind::Route,
                json!({"uri": "/", "upstream": {"nodes": {"a.example:80": 1}, "labels": []}}),
                true,
            ),
            (ObjectKind::Consumer, json!({"username": "a", "plugins": []}), true),
            (ObjectKind::GlobalRule, json!({"id": "1", "plugins": []}), true),
            // One that holds anything is no other form, and other types stay faults.
            (ObjectKind::Route, json!({"uri": "/", "upstream": upstream, "plugins": [1]}), false),
            (ObjectKind::Route, json!({"uri": "/", "upstream": upstream, "vars": {"a": 1}}), false),
            (ObjectKind::Route, json!({"uri": [], "upstream": upstream}), false),
            (ObjectKind::Route, json!({"uri": "/", "upstream": upstream, "timeout": []}), false),
            (ObjectKind::Route, json!([]), false),
        ];
        for (kind, value, accepted) in rows {
            let id = if kind == ObjectKind::Consumer { "a" } else { "1" };
            let key = ObjectKey::new(kind, id).unwrap();
            assert_eq!(check::check_object(&catalog(), &key, &value).is_ok(), accepted, "{value}");
        }
    }

    #[test]
    fn refusal_names_what_was_written() {
        let key = ObjectKey::new(ObjectKind::Route, "1").unwrap();
        let value = json!({"uri": "/", "plugins": [], "hosts": 1});
        let faults = check::check_object(&catalog(), &key, &value).unwrap_err();
        assert!(faults.faults().iter().any(|fault| fault.pointer == "/plugins"));
    }
}
