//! The size of a schema of a user with its references followed: how many subschemas one value meets before
//! the check steps into the value. The library follows each reference anew, so that two references at each of
//! 40 places are 2^40 visits. Counted when the schema is compiled, each subschema once. Knows no value.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

/// Objects of a schema, those that are no schemas included: the library compiles about a million a second.
const OBJECTS_MAX: usize = 50_000;
/// References of a schema.
const REFERENCES_MAX: usize = 10_000;
/// Levels of a schema as it is written.
const LEVELS_MAX: usize = 100;
/// Subschemas that one value meets: the check of one takes up to 50 ns, and each value inside of the checked
/// one meets as many.
const STEPS_MAX: u64 = 10_000;
/// Subschemas inside each other that one value meets: each takes stack, without a step into the value.
const DEPTH_MAX: u64 = 200;
/// Schemas of their own (`$id`) inside of one: the library compiles a part anew for each way through them.
const RESOURCES_MAX: usize = 4;

/// Keywords with schemas that check the same value: one schema, a list of them, and some by name.
const SAME_VALUE: [&str; 4] = ["not", "if", "then", "else"];
const SAME_VALUE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const SAME_VALUE_NAMED: [&str; 2] = ["dependencies", "dependentSchemas"];
/// Keywords for which the library looks at all subschemas of the same value once more.
const REVISITING: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// Refuses a schema that is too large once its references are followed.
///
/// # Errors
/// The limit that it exceeds, in words.
pub(super) fn check_expansion(schema: &Value) -> Result<(), String> {
    let mut graph = Graph {
        root: schema,
        objects: Vec::new(),
        anchors: HashMap::new(),
        resources: Vec::new(),
        references: 0,
    };
    graph.collect(schema, 0)?;
    if graph.references > REFERENCES_MAX {
        return Err(format!("it has more than {REFERENCES_MAX} references"));
    }
    if graph.resources.len() > RESOURCES_MAX {
        return Err(format!("it has more than {RESOURCES_MAX} schemas with an `$id` of their own"));
    }
    let mut sizes = Sizes { graph: &graph, known: HashMap::new(), open: HashSet::new() };
    for object in &graph.objects {
        sizes.of(object, 0)?;
    }
    Ok(())
}

/// The objects of a schema, and where references may lead.
struct Graph<'s> {
    root: &'s Value,
    objects: Vec<&'s Value>,
    anchors: HashMap<&'s str, Vec<&'s Value>>,
    /// Schemas with an identifier, the root left out.
    resources: Vec<(&'s str, &'s Value)>,
    references: usize,
}

impl<'s> Graph<'s> {
    fn collect(&mut self, value: &'s Value, level: usize) -> Result<(), String> {
        if level > LEVELS_MAX {
            return Err(format!("it has more than {LEVELS_MAX} levels"));
        }
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.collect(item, level + 1)),
            Value::Object(fields) => {
                self.objects.push(value);
                if self.objects.len() > OBJECTS_MAX {
                    return Err(format!("it has more than {OBJECTS_MAX} parts"));
                }
                self.note(value, fields, level);
                // Values count as well, because a reference may take any of them for a schema.
                fields.values().try_for_each(|value| self.collect(value, level + 1))
            }
            _ => Ok(()),
        }
    }

    fn note(&mut self, value: &'s Value, fields: &'s Map<String, Value>, level: usize) {
        for (name, value_of) in fields {
            let Some(text) = value_of.as_str() else { continue };
            match name.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" => self.references += 1,
                "$anchor" | "$dynamicAnchor" => self.anchors.entry(text).or_default().push(value),
                "$id" | "id" => match text.strip_prefix('#') {
                    Some(anchor) => self.anchors.entry(anchor).or_default().push(value),
                    None if level > 0 && name == "$id" => self.resources.push((text, value)),
                    None => {}
                },
                _ => {}
            }
        }
    }

    /// The schemas that a reference may lead to; none where it leads out of the schema.
    fn targets(&self, reference: &str) -> Vec<&'s Value> {
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let name = document.rsplit('/').next().unwrap_or_default();
        // Which schema a relative name means depends on the names around it, so that each with its end
        // counts.
        let of_name = self.resources.iter().filter(|(id, _)| !name.is_empty() && id.contains(name));
        let mut documents: Vec<&'s Value> = of_name.map(|(_, value)| *value).collect();
        if document.is_empty() {
            documents.extend(self.resources.iter().map(|(_, value)| *value));
        }
        let root_id = ["$id", "id"].iter().find_map(|key| self.root.get(*key)?.as_str());
        if document.is_empty() || root_id.is_some_and(|id| !name.is_empty() && id.contains(name)) {
            documents.push(self.root);
        }
        let fragment = percent_decoded(fragment);
        if fragment.is_empty() || fragment.starts_with('/') {
            return documents.iter().filter_map(|document| document.pointer(&fragment)).collect();
        }
        self.anchors.get(&*fragment).cloned().unwrap_or_default()
    }
}

/// The size of one subschema.
#[derive(Clone, Copy)]
struct Size {
    steps: u64,
    depth: u64,
}

struct Sizes<'g, 's> {
    graph: &'g Graph<'s>,
    known: HashMap<*const Value, Size>,
    /// The subschemas that are looked into.
    open: HashSet<*const Value>,
}

impl<'s> Sizes<'_, 's> {
    fn of(&mut self, schema: &'s Value, depth: u64) -> Result<Size, String> {
        let place: *const Value = schema;
        if let Some(known) = self.known.get(&place) {
            return Ok(*known);
        }
        let Some(fields) = schema.as_object() else { return Ok(Size { steps: 1, depth: 1 }) };
        let too_deep = || format!("more than {DEPTH_MAX} subschemas inside each other check one value");
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        if !self.open.insert(place) {
            return Err(
                "a subschema refers to itself for the same value, so that its check has no end".to_owned()
            );
        }
        let mut size = Size { steps: 1, depth: 1 };
        for inner in self.of_same_value(fields) {
            let inner = self.of(inner, depth + 1)?;
            size.steps = size.steps.saturating_add(inner.steps);
            size.depth = size.depth.max(inner.depth + 1);
        }
        if REVISITING.iter().any(|name| fields.contains_key(*name)) {
            size.steps = size.steps.saturating_mul(2);
        }
        if size.steps > STEPS_MAX {
            return Err(format!(
                "one value meets more than {STEPS_MAX} subschemas once all references are followed"
            ));
        }
        if size.depth > DEPTH_MAX {
            return Err(too_deep());
        }
        self.open.remove(&place);
        self.known.insert(place, size);
        Ok(size)
    }

    /// The subschemas that check the same value as the schema with these keywords.
    fn of_same_value(&self, fields: &'s Map<String, Value>) -> Vec<&'s Value> {
        let mut inner = Vec::new();
        inner.extend(SAME_VALUE.iter().filter_map(|name| fields.get(*name)));
        let lists = SAME_VALUE_LISTS.iter().filter_map(|name| fields.get(*name)?.as_array());
        inner.extend(lists.flatten());
        let named = SAME_VALUE_NAMED.iter().filter_map(|name| fields.get(*name)?.as_object());
        inner.extend(named.flat_map(Map::values));
        inner.retain(|value| value.is_object());
        for name in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(reference) = fields.get(name).and_then(Value::as_str) {
                inner.extend(self.graph.targets(reference).into_iter().filter(|value| value.is_object()));
            }
        }
        inner
    }
}

/// A fragment with its percent-encoding undone.
fn percent_decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).filter(|_| *first == b'%').and_then(|digits| str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: &Value, expected: Option<&str>) {
        let fault = check_expansion(schema).err();
        let is_expected = match (&fault, expected) {
            (None, None) => true,
            (Some(fault), Some(part)) => fault.contains(part),
            _ => false,
        };
        let text = schema.to_string();
        assert!(is_expected, "{:.300}: {fault:?}, expected {expected:?}", text);
    }

    /// Definitions `d0` to `d{count}`, each made from the names of itself and the next one.
    fn chain(count: usize, link: impl Fn(String) -> Value) -> Value {
        let part = |index: usize| (format!("d{index}"), link(format!("#/definitions/d{}", index + 1)));
        let mut definitions: Map<String, Value> = (0..count).map(part).collect();
        definitions.insert(format!("d{count}"), json!({}));
        json!({"$ref": "#/definitions/d0", "definitions": definitions})
    }

    #[test]
    fn expansion_has_a_limit_in_every_form() {
        let doubled: [fn(String) -> Value; 8] = [
            |next| json!({"allOf": [{"$ref": next}, {"$ref": next}]}),
            |next| json!({"anyOf": [{"$ref": next}, {"$ref": next}]}),
            |next| json!({"oneOf": [{"$ref": next}, {"$ref": next}]}),
            |next| json!({"not": {"allOf": [{"$ref": next}, {"$ref": next}]}}),
            |next| json!({"if": {"$ref": next}, "then": {"$ref": next}}),
            |next| json!({"if": {"$ref": next}, "else": {"$ref": next}}),
            |next| json!({"dependencies": {"a": {"$ref": next}, "b": {"$ref": next}}}),
            |next| json!({"allOf": [{"$ref": next}], "unevaluatedProperties": false}),
        ];
        for link in doubled {
            check(&chain(40, link), Some("more than 10000 subschemas"));
            check(&chain(8, link), None);
        }
        // Steps into the value are bounded by the value.
        check(&chain(40, |next| json!({"properties": {"a": {"$ref": next}, "b": {"$ref": next}}})), None);
        check(&chain(40, |next| json!({"items": [{"$ref": next}, {"$ref": next}]})), None);
    }

    #[test]
    fn schema_that_never_steps_into_the_value_is_refused() {
        let endless = Some("refers to itself");
        check(&json!({"$ref": "#"}), endless);
        check(&json!({"allOf": [{"$ref": "#"}]}), endless);
        check(
            &json!({"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/b"},
            "b": {"anyOf": [{"type": "string"}, {"$ref": "#/definitions/%61"}]}}}),
            endless,
        );
        check(&json!({"$id": "http://a/b", "$ref": "http://a/b"}), endless);
        check(&json!({"$defs": {"a": {"$anchor": "x", "not": {"$ref": "#x"}}}, "$ref": "#x"}), endless);
        check(
            &json!({"$ref": "n", "$defs": {"a": {"$id": "http://a/n", "allOf": [{"$ref": "#"}]}}}),
            endless,
        );
        // A tree refers to itself for its branches.
        check(&json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}), None);
        check(&json!({"items": {"$ref": "#"}, "additionalProperties": {"$ref": "#"}}), None);
        // A property is named like a keyword, and values are no schemas.
        check(&json!({"properties": {"$ref": {"type": "string"}, "not": {"enum": [{"$ref": "#"}]}}}), None);
    }

    #[test]
    fn size_of_a_schema_has_limits() {
        let many = |count: usize, part: Value| {
            json!({"properties": (0..count).map(|index|
            (format!("p{index}"), part.clone())).collect::<Map<String, Value>>()})
        };
        check(&many(9_000, json!({"$ref": "#/definitions/a"})), None);
        check(&many(10_001, json!({"$ref": "#/definitions/a"})), Some("10000 references"));
        check(&many(50_000, json!({})), Some("50000 parts"));
        check(&chain(90, |next| json!({"$ref": next})), None);
        check(&chain(20_000, |next| json!({"$ref": next})), Some("10000 references"));
        check(&chain(9_000, |next| json!({"$ref": next})), Some("inside each other"));
        let deep = (0..101).fold(json!({}), |inner, _| json!({"not": inner}));
        check(&deep, Some("100 levels"));
        let resources = (0..5).map(|index| (format!("r{index}"), json!({"$id": format!("r{index}")})));
        check(&json!({"$defs": resources.collect::<Map<String, Value>>()}), Some("`$id`"));
    }
}
