//! Unknown fields where APISIX accepts them: in the configuration and metadata of plugins and in secrets.
//! Names no plugin.
//!
//! A field is unknown where the schema of its object names fields, does not name this one and does not forbid
//! others. A typing error is refused, because a limit that is not read is worse than a refused write; any
//! other unknown field is accepted with a warning, taken out of what is checked and built, and kept in the
//! stored text.

use std::borrow::Cow;

use serde_json::{Map, Value};
use stdx::nearest::misspelt;

use super::UnknownFields;
use crate::fault::extend_pointer;
use crate::validate::{Corrected, SchemaFault};

/// A field that the schema does not name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// The JSON pointer to it.
    pub pointer: String,
    /// Its name.
    pub name: String,
    /// The known field of which it is a typing error.
    pub meant: Option<String>,
    /// The path of the field that has its effect, if the schema names one under [`MOVED_FIELDS`].
    pub moved_to: Option<String>,
}

/// The keyword of a schema under which names that are not allowed stand with the path of the field that has
/// their effect. They are refused whatever the policy, because they may hold secrets that no encryption of
/// stored fields knows.
pub const MOVED_FIELDS: &str = "moved_fields";

impl UnknownField {
    /// Whether it is refused.
    #[must_use]
    pub fn is_refused(&self, policy: UnknownFields) -> bool {
        match policy {
            UnknownFields::Refuse => true,
            UnknownFields::Warn => self.meant.is_some() || self.moved_to.is_some(),
            UnknownFields::Accept => self.moved_to.is_some(),
        }
    }

    /// Why it is refused.
    #[must_use]
    pub fn refusal(&self) -> String {
        let name = shown(&self.name);
        if let Some(path) = &self.moved_to {
            return format!("property \"{name}\" is not allowed, use \"{path}\" instead");
        }
        match &self.meant {
            Some(meant) => format!("unknown field `{name}`; did you mean `{meant}`?"),
            None => format!("unknown field `{name}`"),
        }
    }

    /// The warning about it.
    #[must_use]
    pub fn warning(&self) -> String {
        format!("unknown field `{}` is not read and has no effect", shown(&self.name))
    }
}

/// The unknown fields of a value, in the order written.
#[must_use]
pub fn find_unknown_fields(schema: &Value, value: &Value) -> Vec<UnknownField> {
    let mut found = Vec::new();
    walk(&[schema], value, "", &mut found);
    found
}

/// Checks a value without its unknown fields by `check`: refused typing errors come first and stand under the
/// name that was meant, so that they cause no second fault.
pub(crate) fn check_without_unknown(
    value: &Value,
    unknown: &[UnknownField],
    policy: UnknownFields,
    check: impl FnOnce(&Value) -> Vec<SchemaFault>,
) -> Vec<SchemaFault> {
    let mut known = Cow::Borrowed(value);
    let (misspelt, others): (Vec<_>, Vec<_>) =
        unknown.iter().partition(|field| field.meant.is_some() && field.is_refused(policy));
    for field in others {
        remove(known.to_mut(), &field.pointer);
    }
    let refused = unknown.iter().filter(|field| field.is_refused(policy));
    let mut faults: Vec<SchemaFault> = refused
        .map(|field| match &field.moved_to {
            // APISIX's words name the field themselves.
            Some(_) => SchemaFault::at_root(field.refusal()),
            None => SchemaFault::at(field.pointer.clone(), field.refusal()),
        })
        .collect();
    let names = misspelt.iter().filter_map(|field| Some((&*field.pointer, field.meant.as_deref()?)));
    match Corrected::of(&known, names) {
        Some(corrected) => {
            let found = check(&corrected.value).into_iter();
            faults.extend(found.map(|fault| corrected.as_written(fault)));
        }
        None => faults.extend(check(&known)),
    }
    faults
}

/// Takes the field at `pointer` out.
pub(crate) fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, step)) = pointer.rsplit_once('/') else { return };
    if let Some(fields) = value.pointer_mut(parent).and_then(Value::as_object_mut) {
        fields.shift_remove(&step.replace("~1", "/").replace("~0", "~"));
    }
}

/// Looks into a value to which all of `schemas` apply.
fn walk<'s>(schemas: &[&'s Value], value: &Value, pointer: &str, found: &mut Vec<UnknownField>) {
    match value {
        Value::Object(fields) => object(&applying(schemas), fields, pointer, found),
        Value::Array(items) => {
            let applying = applying(schemas);
            for (index, item) in items.iter().enumerate() {
                let of_item = |schema: &&'s Map<String, Value>| match schema.get("items")? {
                    Value::Array(list) => list.get(index),
                    all => Some(all),
                };
                let schemas: Vec<&Value> = applying.iter().filter_map(of_item).collect();
                walk(&schemas, item, &format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
}

fn object(
    schemas: &[&Map<String, Value>],
    fields: &Map<String, Value>,
    pointer: &str,
    found: &mut Vec<UnknownField>,
) {
    let named = || schemas.iter().filter_map(|schema| schema.get("properties")?.as_object());
    let patterns = || schemas.iter().filter_map(|schema| schema.get("patternProperties")?.as_object());
    let additional = || schemas.iter().filter_map(|schema| schema.get("additionalProperties"));
    // An object of which the schema names no field is free; `_meta` is in the schema of every plugin. One
    // with patterns or a schema for other fields has no unknown ones, and where others are forbidden the
    // schema itself refuses them.
    let names_fields = named().flat_map(|properties| properties.keys()).any(|name| name != "_meta");
    let is_free = !names_fields || patterns().next().is_some() || additional().next().is_some();
    for (name, value) in fields {
        let mut of_field: Vec<&Value> = named().filter_map(|properties| properties.get(name)).collect();
        let is_named = !of_field.is_empty();
        if !is_named && !is_free {
            let known = named().flat_map(|properties| properties.keys()).map(String::as_str);
            let moved = schemas.iter().find_map(|schema| schema.get(MOVED_FIELDS)?.get(name)?.as_str());
            let meant = if moved.is_none() { misspelt(name, known).map(str::to_owned) } else { None };
            let moved_to = moved.map(str::to_owned);
            found.push(UnknownField {
                pointer: extend_pointer(pointer, name),
                name: name.clone(),
                meant,
                moved_to,
            });
            continue;
        }
        of_field.extend(patterns().flat_map(|patterns| patterns.values()));
        if !is_named {
            of_field.extend(additional().filter(|schema| schema.is_object()));
        }
        if !of_field.is_empty() && (value.is_object() || value.is_array()) {
            walk(&of_field, value, &extend_pointer(pointer, name), found);
        }
    }
}

/// The schemas with all alternatives and conditional parts: a field that one of them names is known.
fn applying<'s>(schemas: &[&'s Value]) -> Vec<&'s Map<String, Value>> {
    let mut all: Vec<&Map<String, Value>> = schemas.iter().filter_map(|schema| schema.as_object()).collect();
    let mut at = 0;
    while let Some(schema) = all.get(at).copied() {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let parts = schema.get(keyword).and_then(Value::as_array).into_iter().flatten();
            all.extend(parts.filter_map(Value::as_object));
        }
        let parts = ["if", "then", "else"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_object());
        all.extend(parts);
        let dependent = schema.get("dependencies").and_then(Value::as_object).into_iter().flatten();
        all.extend(dependent.filter_map(|(_, part)| part.as_object()));
        at += 1;
    }
    all
}

/// A name as it is put into a sentence.
fn shown(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(NAME_CHARACTERS_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &name[..end])),
        None => Cow::Borrowed(name),
    }
}

/// Characters of a name that are shown; names come from users and may be as long as a request body.
const NAME_CHARACTERS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(schema: Value, value: Value, expected: &[(&str, Option<&str>)]) {
        let found = find_unknown_fields(&schema, &value);
        let found: Vec<_> = found.iter().map(|field| (&*field.pointer, field.meant.as_deref())).collect();
        assert_eq!(found, expected, "{value}");
    }

    #[test]
    fn unknown_fields_are_found_at_every_depth() {
        let count = || json!({"properties": {"count": {}, "key": {}}});
        check(count(), json!({"count": 1}), &[]);
        check(
            count(),
            json!({"cuont": 1, "$comment": "c"}),
            &[("/cuont", Some("count")), ("/$comment", None)],
        );
        check(count(), json!([{"x": 1}]), &[]);
        check(count(), json!({"count": {"anything": 1}}), &[]);
        check(
            json!({"properties": {"rules": {"items": count()}}}),
            json!({"rules": [{"count": 1}, {"a/b": 1}, 3]}),
            &[("/rules/1/a~1b", None)],
        );
        check(json!({"items": [count(), {}]}), json!([{"x": 1}, {"x": 1}, {"x": 1}]), &[("/0/x", None)]);
    }

    #[test]
    fn every_alternative_names_known_fields() {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let schema = json!({"properties": {"a": {}}, keyword: [{"properties": {"inner": {}}}]});
            check(schema, json!({"inner": 1, "x": 1}), &[("/x", None)]);
        }
        let schema = json!({
            "properties": {"a": {}}, "if": {}, "then": {"properties": {"b": {}}}, "else": {"properties": {"c": {}}},
            "dependencies": {"a": {"properties": {"d": {}}}, "b": ["a"]},
        });
        check(schema, json!({"a": 1, "b": 1, "c": 1, "d": 1, "x": 1}), &[("/x", None)]);
    }

    #[test]
    fn free_and_closed_objects_have_no_unknown_fields() {
        check(json!({"type": "object"}), json!({"x": 1}), &[]);
        check(json!({"properties": {"a": {}}, "additionalProperties": false}), json!({"x": 1}), &[]);
        check(json!({"properties": {"a": {}}, "additionalProperties": true}), json!({"x": 1}), &[]);
        let typed = json!({"additionalProperties": {"properties": {"a": {}}}});
        check(typed, json!({"x": {"a": 1, "b": 1}}), &[("/x/b", None)]);
        check(json!({"properties": {"a": {}}, "patternProperties": {"^x": {}}}), json!({"y": 1}), &[]);
    }

    #[test]
    fn unknown_fields_are_renamed_or_taken_out() {
        let value = json!({"cuont": {"a": 1}, "x": {"y": 1}, "keep": 1});
        let field = |pointer: &str, meant: Option<&str>| UnknownField {
            pointer: pointer.to_owned(),
            name: pointer[1..].to_owned(),
            meant: meant.map(str::to_owned),
            moved_to: None,
        };
        let unknown = [field("/cuont", Some("count")), field("/x", None)];
        let verify = |policy, expected: Value, places: &[&str]| {
            let faults = super::check_without_unknown(&value, &unknown, policy, |found| {
                assert_eq!(*found, expected);
                vec![SchemaFault::at("/count/a".to_owned(), "faulty")]
            });
            let found: Vec<&str> = faults.iter().map(|fault| &*fault.pointer).collect();
            assert_eq!(found, places);
        };
        verify(UnknownFields::Warn, json!({"count": {"a": 1}, "keep": 1}), &["/cuont", "/cuont/a"]);
        verify(UnknownFields::Accept, json!({"keep": 1}), &["/count/a"]);
        verify(UnknownFields::Refuse, json!({"count": {"a": 1}, "keep": 1}), &["/cuont", "/x", "/cuont/a"]);
    }

    #[test]
    fn moved_fields_are_refused_under_every_policy() {
        let schema = json!({"properties": {"a": {}}, "moved_fields": {"flat_a": "a.inner", "b": "a.b"}});
        let value = json!({"flat_a": "secret", "x": 1});
        let unknown = find_unknown_fields(&schema, &value);
        for policy in [UnknownFields::Refuse, UnknownFields::Warn, UnknownFields::Accept] {
            let faults = super::check_without_unknown(&value, &unknown, policy, |_| Vec::new());
            let first = "property \"flat_a\" is not allowed, use \"a.inner\" instead";
            assert_eq!(faults[0].plugin_message(), first, "{policy:?}");
        }
    }
}
