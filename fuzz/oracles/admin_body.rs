//! Oracle of the checks of one object: its schema and its Rust type accept the same values (as far as a
//! schema can express the rules), every refusal has a reason and a place, and an admitted object comes into
//! force.

use std::sync::Arc;

use model::resource::Resource;
use model::{
    FaultPolicy, ObjectKey, ObjectKind, ObjectRefusal, Snapshot, SnapshotChange, WrittenObject,
    check as checks, schema,
};
use serde_json::Value;

use super::catalog::CATALOG;

/// The input is the name of a kind on a line of its own, then JSON.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if text.len() > TEXT_BYTES_MAX {
        return;
    }
    let (kind, text) = text.split_once('\n').unwrap_or(("route", text));
    let (Some(kind), Ok(value)) = (ObjectKind::from_singular(kind), serde_json::from_str::<Value>(text))
    else {
        return;
    };
    let by_schema = accepted_by_schema(kind, &value);
    let by_type = Resource::read(kind, &value);
    match &by_type {
        Ok(_) if by_schema => unknown_fields(kind, &value),
        // An error that begins with a quoted text is about an address, network or authority. The pattern in
        // the schema is wider than those formats, so only the type refuses such a text.
        Err(error) if by_schema && !error.to_string().starts_with('"') => {
            panic!("{kind}: only the schema accepts {value}: {error}")
        }
        _ => {}
    }
    match checks::value(&CATALOG, kind, &value) {
        Ok(()) => assert!(by_schema && by_type.is_ok(), "{kind}: accepted {value}"),
        Err(refusal) => assert_reasons(&refusal, &value),
    }
    in_force(kind, &value);
}

/// Whether the schema accepts the value. Asserts that it accepts exactly the values without a fault.
fn accepted_by_schema(kind: ObjectKind, value: &Value) -> bool {
    let accepted = schema::validator(kind).accepts(value);
    let faults = schema::validator(kind).faults(value);
    assert_eq!(accepted, faults.is_empty(), "{kind}: {value} {faults:?}");
    for fault in faults {
        assert!(!fault.reason.is_empty() && !fault.contract_message().is_empty());
        assert!(exists(&fault.pointer, value), "{}: {} in {value}", fault.pointer, fault.reason);
    }
    accepted
}

/// Asserts that schema and type agree on an unknown field in each object within the value.
fn unknown_fields(kind: ObjectKind, value: &Value) {
    let mut pointers = Vec::new();
    objects(value, String::new(), &mut pointers);
    // The schema of a credential allows one plugin, so a second one is refused for the number and not for the
    // name.
    pointers.retain(|pointer| kind != ObjectKind::Credential || pointer != "/plugins");
    for pointer in pointers.into_iter().take(OBJECTS_MAX) {
        let mut changed = value.clone();
        let object =
            changed.pointer_mut(&pointer).and_then(Value::as_object_mut).expect("an object is there");
        object.insert("unknown".to_owned(), Value::from("value"));
        let (by_schema, by_type) =
            (schema::validator(kind).accepts(&changed), Resource::read(kind, &changed));
        assert_eq!(by_schema, by_type.is_ok(), "{kind} at {pointer:?}: {changed}");
    }
}

/// The pointers of all objects in a value.
fn objects(value: &Value, pointer: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                objects(field, format!("{pointer}/{name}"), found);
            }
            found.push(pointer);
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                objects(item, format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// Asserts that an admitted object is in force after it was stored, and that a refused one is not.
fn in_force(kind: ObjectKind, value: &Value) {
    let id = match (kind, value.get("id"), value.get("username")) {
        (ObjectKind::Consumer, _, Some(Value::String(name))) | (_, Some(Value::String(name)), _) => {
            name.clone()
        }
        (ObjectKind::PluginMetadata, ..) => "count".to_owned(),
        _ => "1".to_owned(),
    };
    let id = match kind {
        ObjectKind::Credential => format!("jack/credentials/{id}"),
        ObjectKind::Secret => format!("vault/{id}"),
        _ => id,
    };
    let Ok(key) = ObjectKey::new(kind, &id) else { return };
    let admitted = Snapshot::empty().admit(&CATALOG, &key, value);
    let text: Arc<str> = value.to_string().into();
    let written = WrittenObject { key: key.clone(), text, created_index: 1, modified_index: 1 };
    let change = SnapshotChange { key: key.clone(), written: Some(written) };
    let applied = Snapshot::empty().apply(&CATALOG, &[change], 1, FaultPolicy::Lenient);
    let in_force = applied.snapshot.contains(&key);
    assert_eq!(in_force, applied.faults.is_empty(), "{key}: {:?}", applied.faults);
    match admitted {
        // A credential is not in force without its consumer.
        Ok(_) => {
            assert!(in_force || kind == ObjectKind::Credential, "{key}: admitted, then {:?}", applied.faults)
        }
        Err(refusal) => {
            assert_reasons(&refusal, value);
            assert!(!in_force, "{key}: refused, yet in force: {value}");
        }
    }
}

/// Asserts that every fault of a refusal has a reason and an existing place.
fn assert_reasons(refusal: &ObjectRefusal, value: &Value) {
    assert!(!refusal.contract_message().is_empty() && !refusal.faults().is_empty());
    for fault in refusal.faults() {
        assert!(!fault.reason.is_empty());
        assert!(exists(&fault.pointer, value), "{}: {} in {value}", fault.pointer, fault.reason);
    }
}

/// Whether a pointer leads to a part of the value, or to a missing field of one of its objects.
fn exists(pointer: &str, value: &Value) -> bool {
    let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
    value.pointer(pointer).is_some() || value.pointer(parent).is_some_and(Value::is_object)
}

/// Limit of the input. It is longer than an object with every field; `uniqueItems` costs the square of a
/// list's length.
const TEXT_BYTES_MAX: usize = 4096;
/// Limit of objects that get an unknown field, because each costs another validation.
const OBJECTS_MAX: usize = 8;
