//! A schema without references and combinations: `$ref` followed, `allOf` merged, a branch of `oneOf` and of
//! `anyOf` taken.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::EXAMPLE_DEPTH_MAX;
use super::generate::{ExampleMaker, ValueNeed};
use super::merge::{examples_into_properties, merge_into, merge_property};

/// The keywords that are taken apart here.
const COMBINATIONS: [&str; 4] = ["$ref", "allOf", "oneOf", "anyOf"];

/// The object behind references, and the objects with references that have further fields.
type ReferencedSchema<'s> = (&'s Map<String, Value>, Vec<&'s Map<String, Value>>);

impl<'d> ExampleMaker<'d> {
    /// The schema as one object; nothing where a reference is open, leads nowhere, or no value is allowed.
    /// References stay open until the caller closes them.
    pub(super) fn flatten<'s>(
        &mut self,
        schema: &'s Value,
        need: ValueNeed,
        depth: usize,
    ) -> Option<Cow<'s, Map<String, Value>>>
    where
        'd: 's,
    {
        if depth > EXAMPLE_DEPTH_MAX {
            return None;
        }
        let first_open = self.open.len();
        let (fields, siblings) = self.follow_references(schema, need)?;
        let is_plain = siblings.is_empty() && !COMBINATIONS.iter().any(|field| fields.contains_key(*field));
        // A plain example decides, so that the parts need not be combined.
        let has_example = !self.is_random() && siblings.is_empty() && fields.contains_key("example");
        let has_bounds = fields.get("exclusiveMinimum").or(fields.get("exclusiveMaximum"));
        if (is_plain && !has_bounds.is_some_and(Value::is_boolean)) || has_example {
            return Some(if depth == 0 {
                self.with_discriminator(fields, first_open)
            } else {
                Cow::Borrowed(fields)
            });
        }
        let mut merged = Map::new();
        for sibling in siblings {
            self.add(&mut merged, sibling)?;
        }
        self.add(&mut merged, fields)?;
        for member in branches(fields, "allOf") {
            let member = self.flatten(member, need, depth + 1)?;
            self.add(&mut merged, &examples_into_properties(&member))?;
        }
        for combination in ["oneOf", "anyOf"] {
            self.add_branch(&mut merged, branches(fields, combination), need, depth)?;
        }
        // Members of `allOf` are flattened with a depth: the name of the whole counts, not that of a member.
        let is_choice = ["oneOf", "anyOf"].iter().any(|field| fields.contains_key(*field));
        if depth > 0 || is_choice {
            return Some(Cow::Owned(merged));
        }
        Some(Cow::Owned(self.with_discriminator(&merged, first_open).into_owned()))
    }

    /// The object behind references. Fields beside a reference count in OpenAPI 3.1 and are ignored in 3.0.
    fn follow_references<'s>(&mut self, schema: &'s Value, need: ValueNeed) -> Option<ReferencedSchema<'s>>
    where
        'd: 's,
    {
        const EVERYTHING: &Value = &Value::Bool(true);
        static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        let mut siblings = Vec::new();
        let mut schema = schema;
        loop {
            let fields = match schema {
                Value::Object(fields) => fields,
                value if value == EVERYTHING => return Some((&EMPTY, siblings)),
                _ => return None,
            };
            let Some(reference) = fields.get("$ref").and_then(Value::as_str) else {
                return Some((fields, siblings));
            };
            if !self.may_open(reference, need) {
                return None;
            }
            self.charge(1)?;
            self.open.push(reference.to_owned());
            if fields.len() > 1 && !self.is_version_30() {
                siblings.push(fields);
            }
            let pointer = percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()?;
            let document: &'d Value = self.document;
            schema = document.pointer(&pointer)?;
        }
    }

    fn is_version_30(&self) -> bool {
        self.document.get("openapi").and_then(Value::as_str).is_some_and(|version| version.starts_with("3.0"))
    }

    /// Merges the fields of a schema, without combinations.
    fn add(&mut self, merged: &mut Map<String, Value>, fields: &Map<String, Value>) -> Option<()> {
        let properties = fields.get("properties").and_then(Value::as_object).map_or(0, Map::len);
        self.charge(1 + properties / 8)?;
        merge_into(merged, fields, &COMBINATIONS);
        Some(())
    }

    /// Merges the first branch that can be flattened.
    fn add_branch(
        &mut self,
        merged: &mut Map<String, Value>,
        branches: &[Value],
        need: ValueNeed,
        depth: usize,
    ) -> Option<()> {
        if branches.is_empty() {
            return Some(());
        }
        for branch in branches {
            let opened = self.open.len();
            if let Some(flat) = self.flatten(branch, need, depth + 1) {
                let discriminator = merged.get("discriminator").or(flat.get("discriminator")).cloned();
                self.add(merged, &flat)?;
                let reference = branch.get("$ref").and_then(Value::as_str);
                if let (Some(discriminator), Some(reference)) = (discriminator, reference) {
                    set_discriminator(merged, &discriminator, reference);
                }
                return Some(());
            }
            self.open.truncate(opened);
        }
        None
    }

    /// The schema, in which the property of a discriminator names the schema of the outermost reference.
    fn with_discriminator<'s>(
        &self,
        fields: &'s Map<String, Value>,
        first_open: usize,
    ) -> Cow<'s, Map<String, Value>> {
        let named = self.open.get(first_open);
        match (fields.get("discriminator"), named) {
            (Some(discriminator), Some(reference)) if !fields.contains_key("example") => {
                let mut fields = fields.clone();
                set_discriminator(&mut fields, discriminator, reference);
                Cow::Owned(fields)
            }
            _ => Cow::Borrowed(fields),
        }
    }
}

fn branches<'s>(fields: &'s Map<String, Value>, combination: &str) -> &'s [Value] {
    fields.get(combination).and_then(Value::as_array).map_or(&[], |branches| branches)
}

/// Sets the property of a discriminator to the name of the schema behind `reference`, unless the property
/// says which values it has.
fn set_discriminator(fields: &mut Map<String, Value>, discriminator: &Value, reference: &str) {
    let Some(property) = discriminator.get("propertyName").and_then(Value::as_str) else { return };
    let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let Some(schema) = properties.get(property) else { return };
    if ["enum", "const", "example"].iter().any(|field| schema.get(field).is_some()) {
        return;
    }
    let name = reference.rsplit('/').next().unwrap_or_default();
    let mapping = discriminator.get("mapping").and_then(Value::as_object);
    let is_target = |target: &Value| target == reference || target == name;
    let mapped = mapping.and_then(|mapping| mapping.iter().find(|(_, target)| is_target(target)));
    let value = mapped.map_or(name, |(value, _)| value);
    merge_property(properties, property, &json!({ "const": value }));
}
