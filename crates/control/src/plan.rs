//! The difference between two texts of an object, place by place, and the plan that all differences of a set
//! make up. It does no I/O, and does not know the source of the texts or the use of the differences.

use std::borrow::Cow;

use model::{ObjectKey, ObjectKind, PluginCatalog};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::hidden::places::{HIDDEN, secret_places};
use crate::stored_key;

/// The changes from one set of objects to another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigPlan {
    /// The revision that the plan starts from.
    pub revision: u64,
    /// Count of new objects.
    pub create: usize,
    /// Count of objects that differ.
    pub change: usize,
    /// Count of objects that are removed.
    pub delete: usize,
    /// The change of each object, ordered by key.
    pub objects: Vec<ObjectChange>,
}

/// The change of one object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObjectChange {
    /// The object: `routes/1`.
    pub key: String,
    /// The action on it.
    pub action: PlanAction,
    /// The places that differ; for a new or a removed object, each of its top fields.
    pub fields: Vec<FieldChange>,
}

/// The action on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlanAction {
    /// It did not exist.
    Create,
    /// It differs.
    Change,
    /// It is removed.
    Delete,
}

/// One place of an object. A secret is replaced by `HIDDEN`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    /// The place, as a JSON pointer (RFC 6901).
    pub pointer: String,
    /// The value before; none: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub before: Option<Value>,
    /// The value after; none: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub after: Option<Value>,
}

impl ConfigPlan {
    /// The plan of these changes.
    pub fn new(revision: u64, mut objects: Vec<ObjectChange>) -> ConfigPlan {
        objects.sort_by(|left, right| left.key.cmp(&right.key));
        let count = |action| objects.iter().filter(|object| object.action == action).count();
        let (create, change, delete) =
            (count(PlanAction::Create), count(PlanAction::Change), count(PlanAction::Delete));
        ConfigPlan { revision, create, change, delete, objects }
    }

    /// Whether the plan has no change.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

/// The difference of an object; none when there is none. Secrets are compared, and are hidden in the result.
pub fn between(
    catalog: &PluginCatalog,
    key: &ObjectKey,
    before: Option<&str>,
    after: Option<&str>,
) -> Option<ObjectChange> {
    let [old, new] = [before, after].map(|text| text.map(|text| meant(key.kind, text)));
    let mut fields = Vec::new();
    let action = match (&old, &new) {
        (None, None) => return None,
        (None, Some(new)) => {
            each_field(new, |pointer, value| FieldChange { pointer, before: None, after: Some(value) })
                .for_each(|field| fields.push(field));
            PlanAction::Create
        }
        (Some(old), None) => {
            each_field(old, |pointer, value| FieldChange { pointer, before: Some(value), after: None })
                .for_each(|field| fields.push(field));
            PlanAction::Delete
        }
        (Some(old), Some(new)) => {
            compare("", old, new, &mut fields);
            if fields.is_empty() {
                return None;
            }
            PlanAction::Change
        }
    };
    for (whole, side) in [(old, PlanSide::Before), (new, PlanSide::After)] {
        let Some(whole) = whole else { continue };
        let secrets = secret_places(catalog, key, &whole);
        for field in &mut fields {
            field.hide(side, &secrets);
        }
    }
    Some(ObjectChange { key: stored_key::format_stored_key(key), action, fields })
}

/// Whether two texts mean the same object.
pub fn same(kind: ObjectKind, left: &str, right: &str) -> bool {
    left == right || meant(kind, left) == meant(kind, right)
}

/// The content of a text besides the fields that the gateway keeps in it itself: its id, which is in the key,
/// and its times.
fn meant(kind: ObjectKind, text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(Value::Object(mut object)) => {
            // All fields of metadata belong to the plugin.
            if kind != ObjectKind::PluginMetadata {
                OWN_FIELDS.iter().for_each(|name| drop(object.shift_remove(*name)));
            }
            Value::Object(object)
        }
        Ok(value) => value,
        // Only a damaged store holds such a text; it differs from every text but itself.
        Err(_) => Value::String(text.to_owned()),
    }
}

fn each_field(
    whole: &Value,
    change: impl Fn(String, Value) -> FieldChange,
) -> impl Iterator<Item = FieldChange> {
    let fields: Vec<(String, Value)> = match whole {
        Value::Object(object) => {
            object.iter().map(|(name, value)| (below("", name), value.clone())).collect()
        }
        other => vec![(String::new(), other.clone())],
    };
    fields.into_iter().map(move |(pointer, value)| change(pointer, value))
}

/// Adds every place where the two differ. A list of unchanged length is compared item by item. Any other list
/// is one place, because a moved item cannot be told from a changed one.
fn compare(pointer: &str, before: &Value, after: &Value, fields: &mut Vec<FieldChange>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => compare_objects(pointer, old, new, fields),
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&format!("{pointer}/{index}"), old, new, fields);
            }
        }
        (old, new) if old == new => {}
        (old, new) => fields.push(FieldChange {
            pointer: pointer.to_owned(),
            before: Some(old.clone()),
            after: Some(new.clone()),
        }),
    }
}

fn compare_objects(
    pointer: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    fields: &mut Vec<FieldChange>,
) {
    for (name, value) in old {
        let pointer = below(pointer, name);
        match new.get(name) {
            Some(now) => compare(&pointer, value, now, fields),
            None => fields.push(FieldChange { pointer, before: Some(value.clone()), after: None }),
        }
    }
    for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
        let pointer = below(pointer, name);
        fields.push(FieldChange { pointer, before: None, after: Some(value.clone()) });
    }
}

/// One of the two texts.
#[derive(Clone, Copy)]
enum PlanSide {
    Before,
    After,
}

impl FieldChange {
    /// Hides the secrets of one side; `secrets` are their places in the whole object.
    fn hide(&mut self, side: PlanSide, secrets: &[String]) {
        let value = match side {
            PlanSide::Before => &mut self.before,
            PlanSide::After => &mut self.after,
        };
        let Some(value) = value else { return };
        for secret in secrets {
            let Some(rest) = secret.strip_prefix(&self.pointer) else { continue };
            // `/key` is not above `/keys`.
            if !rest.is_empty() && !rest.starts_with('/') {
                continue;
            }
            if let Some(secret) = value.pointer_mut(rest) {
                *secret = HIDDEN.into();
            }
        }
    }
}

/// A JSON pointer with one more step.
fn below(pointer: &str, step: &str) -> String {
    let step: Cow<'_, str> = if step.contains(['~', '/']) {
        step.replace('~', "~0").replace('/', "~1").into()
    } else {
        step.into()
    };
    format!("{pointer}/{step}")
}

/// Reads a field that is present as `Some`, also when it is null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The fields that the gateway keeps in an object itself.
const OWN_FIELDS: [&str; 3] = ["id", "create_time", "update_time"];

#[cfg(test)]
mod tests;
