//! Positions in a document: a value with its JSON pointer, local references resolved, and the view of a
//! schema in which keywords beside a `$ref` count in OpenAPI 3.1 and are ignored in 3.0.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// Longest chain of references that point at references. A longer chain counts as an absent value.
const MAX_REFERENCE_CHAIN: usize = 32;

/// Longest pointer that is kept for the list of changes. Cyclic documents make none longer than their depth
/// allows, but keys can have any length.
const MAX_POINTER_BYTES: usize = 4096;

static ABSENT: Value = Value::Null;

/// One of the two documents.
#[derive(Clone, Copy)]
pub(super) struct DiffDocument<'a> {
    pub(super) root: &'a Value,
    /// Whether the document follows OpenAPI 3.1 or later, where schemas are JSON Schema 2020-12.
    pub(super) is_31: bool,
}

/// A value of a document after its references were followed, with its place.
#[derive(Clone)]
pub(super) struct DiffNode<'a> {
    pub(super) value: &'a Value,
    pub(super) pointer: String,
}

/// A schema of a document with the reference it came from.
#[derive(Clone)]
pub(super) struct SchemaView<'a> {
    pub(super) value: &'a Value,
    /// Keywords beside the `$ref`, which add to the target and replace keywords of the same name.
    overlay: Option<&'a Map<String, Value>>,
    pub(super) pointer: String,
    /// The text of the first `$ref`, which names a branch of `oneOf`, `anyOf` and `allOf`.
    pub(super) reference: Option<&'a str>,
}

/// Appends a key to a JSON pointer, escaped as RFC 6901 asks.
pub(super) fn extend_pointer(pointer: &str, key: &str) -> String {
    if pointer.len() + key.len() > MAX_POINTER_BYTES {
        return pointer.to_owned();
    }
    let mut extended = String::with_capacity(pointer.len() + key.len() + 1);
    extended.push_str(pointer);
    extended.push('/');
    for character in key.chars() {
        match character {
            '~' => extended.push_str("~0"),
            '/' => extended.push_str("~1"),
            _ => extended.push(character),
        }
    }
    extended
}

impl<'a> DiffDocument<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        let version = root.get("openapi").and_then(Value::as_str).unwrap_or("3.0");
        Self { root, is_31: !version.starts_with("3.0") && !version.starts_with('2') }
    }

    pub(super) fn root_node(self) -> DiffNode<'a> {
        DiffNode { value: self.root, pointer: String::new() }
    }

    /// Follows `$ref` from `value`; the pointer is then that of the target. Absent and foreign targets are
    /// null.
    pub(super) fn resolve(self, value: &'a Value, pointer: String) -> DiffNode<'a> {
        let mut node = DiffNode { value, pointer };
        for _ in 0..MAX_REFERENCE_CHAIN {
            let Some(reference) = node.value.get("$ref").and_then(Value::as_str) else {
                return node;
            };
            match self.find_target(reference) {
                Some(target) => node = target,
                None => break,
            }
        }
        DiffNode { value: &ABSENT, pointer: node.pointer }
    }

    fn find_target(self, reference: &str) -> Option<DiffNode<'a>> {
        let fragment = reference.strip_prefix('#')?;
        let decoded: Cow<'_, str> = percent_decode_str(fragment).decode_utf8().ok()?;
        let value = self.root.pointer(&decoded)?;
        Some(DiffNode { value, pointer: decoded.into_owned() })
    }

    /// The view of a schema at `pointer`.
    pub(super) fn schema(self, value: &'a Value, pointer: String) -> SchemaView<'a> {
        let reference = value.get("$ref").and_then(Value::as_str);
        let overlay =
            value.as_object().filter(|object| self.is_31 && reference.is_some() && object.len() > 1);
        let target = self.resolve(value, pointer);
        SchemaView { value: target.value, overlay, pointer: target.pointer, reference }
    }

    /// The resolved child of a node, or `None` if the key is absent or its reference leads nowhere.
    pub(super) fn child(self, node: &DiffNode<'a>, key: &str) -> Option<DiffNode<'a>> {
        let value = node.value.get(key)?;
        let child = self.resolve(value, extend_pointer(&node.pointer, key));
        (!child.value.is_null()).then_some(child)
    }

    /// The resolved members of an object, in document order. Anything else has no members.
    pub(super) fn members(self, node: &DiffNode<'a>) -> Vec<(&'a str, DiffNode<'a>)> {
        let Some(object) = node.value.as_object() else {
            return Vec::new();
        };
        let resolve = |(key, value)| {
            let key: &'a String = key;
            let child = self.resolve(value, extend_pointer(&node.pointer, key));
            (!child.value.is_null()).then_some((key.as_str(), child))
        };
        object.iter().filter_map(resolve).collect()
    }

    /// The schema under a keyword of another schema.
    pub(super) fn sub_schema(self, parent: &SchemaView<'a>, keyword: &str) -> Option<SchemaView<'a>> {
        let value = parent.get(keyword)?;
        is_schema(value).then(|| self.schema(value, extend_pointer(&parent.pointer, keyword)))
    }

    /// The schemas of a list keyword such as `oneOf`.
    pub(super) fn schema_list(self, parent: &SchemaView<'a>, keyword: &str) -> Vec<SchemaView<'a>> {
        let Some(Value::Array(values)) = parent.get(keyword) else {
            return Vec::new();
        };
        let pointer = extend_pointer(&parent.pointer, keyword);
        let view = |(index, value)| self.schema(value, extend_pointer(&pointer, &usize::to_string(&index)));
        values.iter().enumerate().map(view).collect()
    }

    /// The schemas of a map keyword such as `properties`, in document order.
    pub(super) fn schema_map(self, parent: &SchemaView<'a>, keyword: &str) -> Vec<(&'a str, SchemaView<'a>)> {
        let Some(Value::Object(values)) = parent.get(keyword) else {
            return Vec::new();
        };
        let pointer = extend_pointer(&parent.pointer, keyword);
        let view = |(name, value)| {
            let name: &'a String = name;
            (name.as_str(), self.schema(value, extend_pointer(&pointer, name)))
        };
        values.iter().map(view).collect()
    }
}

/// Objects and booleans are schemas; other values are treated as absent.
fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

/// The place of a member in the new document, in the old one if it was removed, or of the new object.
pub(super) fn member_place(old: &DiffNode<'_>, new: &DiffNode<'_>, key: &str) -> String {
    match (new.has(key), old.has(key)) {
        (true, _) => extend_pointer(&new.pointer, key),
        (false, true) => extend_pointer(&old.pointer, key),
        (false, false) => new.pointer.clone(),
    }
}

impl<'a> DiffNode<'a> {
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.value.get(key).and_then(Value::as_str)
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        self.value.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.value.get(key).is_some()
    }
}

impl<'a> SchemaView<'a> {
    /// The value of a keyword; null counts as absent, except for keywords where [`Self::raw`] is asked.
    pub(super) fn get(&self, keyword: &str) -> Option<&'a Value> {
        self.raw(keyword).filter(|value| !value.is_null())
    }

    pub(super) fn raw(&self, keyword: &str) -> Option<&'a Value> {
        let beside = self.overlay.and_then(|overlay| overlay.get(keyword));
        beside.or_else(|| self.value.get(keyword))
    }

    pub(super) fn text(&self, keyword: &str) -> Option<&'a str> {
        self.get(keyword).and_then(Value::as_str)
    }

    pub(super) fn is_true(&self, keyword: &str) -> bool {
        self.get(keyword).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Whether the schema is the boolean `false`, which accepts no value.
    pub(super) fn is_false(&self) -> bool {
        self.value == &Value::Bool(false)
    }

    /// All keywords that the schema has; one beside a reference may appear twice.
    pub(super) fn keywords(&self) -> impl Iterator<Item = &'a str> {
        let beside = self.overlay.into_iter().flat_map(|overlay| overlay.keys());
        let own = self.value.as_object().into_iter().flat_map(|object| object.keys());
        beside.filter(|key| *key != "$ref").chain(own).map(String::as_str)
    }

    /// Whether both schemas are the same text, apart from the targets of references inside.
    pub(super) fn has_same_text(&self, other: &Self) -> bool {
        self.value == other.value && self.overlay == other.overlay
    }

    /// Address of the schema's text, equal for all references to it.
    pub(super) fn identity(&self) -> usize {
        match self.overlay {
            Some(overlay) => std::ptr::from_ref(overlay).addr(),
            None => std::ptr::from_ref(self.value).addr(),
        }
    }
}
