//! Composes objects into a document like a resource file: the collections at the top, ids where a file has
//! them; as a value or as YAML. It does not choose the objects.

use model::{ObjectKey, ObjectKind};
use serde_json::{Map, Value};

/// The document of these objects: one list per collection, collections in resolving order, items in the given
/// order.
pub fn compose_document<'a>(
    objects: impl IntoIterator<Item = (&'a ObjectKey, &'a str)>,
) -> Map<String, Value> {
    let mut lists: [Vec<Value>; ObjectKind::ALL.len()] = Default::default();
    for (key, text) in objects {
        lists[collection_of(key.kind) as usize].push(item(key, text));
    }
    let named = ObjectKind::ALL.into_iter().zip(lists);
    named
        .filter(|(_, items)| !items.is_empty())
        .map(|(kind, items)| (kind.collection().to_owned(), Value::Array(items)))
        .collect()
}

/// The kind of the list that an object is in: credentials are among the consumers.
pub(crate) fn collection_of(kind: ObjectKind) -> ObjectKind {
    if kind == ObjectKind::Credential { ObjectKind::Consumer } else { kind }
}

/// An object in the form of a file's item.
fn item(key: &ObjectKey, text: &str) -> Value {
    let Ok(Value::Object(mut object)) = serde_json::from_str(text) else {
        // Only a damaged store holds such a text; the document shows it as a string.
        return Value::String(text.to_owned());
    };
    if matches!(key.kind, ObjectKind::PluginMetadata | ObjectKind::Credential | ObjectKind::Secret) {
        object.shift_insert(0, "id".to_owned(), Value::from(&*key.id));
    }
    Value::Object(object)
}

/// The value as YAML in block style, with a line end. Texts that YAML could read as another type are quoted
/// as in JSON, which YAML reads the same.
pub(crate) fn yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(object) if !object.is_empty() => mapping(object, 0, &mut text),
        Value::Array(items) if !items.is_empty() => sequence(items, 0, &mut text),
        flat => {
            text.push_str(&scalar(flat));
            text.push('\n');
        }
    }
    text
}

fn mapping(object: &Map<String, Value>, indent: usize, text: &mut String) {
    for (index, (name, value)) in object.iter().enumerate() {
        // The first line of an item is on the line of its dash.
        if index > 0 || text.is_empty() || text.ends_with('\n') {
            text.extend(std::iter::repeat_n(' ', indent));
        }
        text.push_str(&word(name));
        text.push(':');
        match value {
            Value::Object(below) if !below.is_empty() => {
                text.push('\n');
                mapping(below, indent + INDENT, text);
            }
            Value::Array(items) if !items.is_empty() => {
                text.push('\n');
                sequence(items, indent, text);
            }
            flat => {
                text.push(' ');
                text.push_str(&scalar(flat));
                text.push('\n');
            }
        }
    }
}

fn sequence(items: &[Value], indent: usize, text: &mut String) {
    for value in items {
        text.extend(std::iter::repeat_n(' ', indent));
        match value {
            Value::Object(below) if !below.is_empty() => {
                text.push_str("- ");
                mapping(below, indent + INDENT, text);
            }
            Value::Array(below) if !below.is_empty() => {
                text.push_str("-\n");
                sequence(below, indent + INDENT, text);
            }
            flat => {
                text.push_str("- ");
                text.push_str(&scalar(flat));
                text.push('\n');
            }
        }
    }
}

/// A value of one line.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => word(text),
        other => other.to_string(),
    }
}

/// A text, unquoted where no YAML reader could take it for another type.
fn word(text: &str) -> String {
    let mut bytes = text.bytes();
    let begins = bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'/');
    let goes_on = bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/'));
    let reserved = RESERVED.iter().any(|word| text.eq_ignore_ascii_case(word));
    if begins && goes_on && !reserved { text.to_owned() } else { Value::from(text).to_string() }
}

/// Spaces per level.
const INDENT: usize = 2;
/// Words that some YAML readers do not take for a text.
const RESERVED: [&str; 8] = ["true", "false", "null", "yes", "no", "on", "off", "y"];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::source::file::{ConfigDocument, parse_value};

    #[test]
    fn composed_document_is_readable_yaml() {
        let value = json!({
            "routes": [{"id": "r1", "uri": "/a/*", "methods": ["GET"], "plugins": {"cors": {}}, "n": 1.5}, {}],
            "empty": [],
            "words": ["yes", "1", "", "a: b", "ä", "x\n", "-", "[", [1, ["n"]]],
        });
        let expected = "routes:\n- id: r1\n  uri: \"/a/*\"\n  methods:\n  - GET\n  plugins:\n    cors: {}\n  n: 1.5\n\
            - {}\nempty: []\nwords:\n- \"yes\"\n- \"1\"\n- \"\"\n- \"a: b\"\n- \"ä\"\n- \"x\\n\"\n- \"-\"\n- \"[\"\n\
            -\n  - 1\n  -\n    - \"n\"\n";
        let expected = expected.replace("\"n\"", "n");
        assert_eq!(yaml(&value), expected);
        assert_eq!(parse_value(&expected).unwrap(), value);
        assert_eq!(yaml(&json!({})), "{}\n");
    }

    #[test]
    fn composed_document_has_all_of_its_objects() {
        let key = |kind, id: &str| ObjectKey::new(kind, id).unwrap();
        let objects = [
            (key(ObjectKind::Upstream, "u"), r#"{"nodes":{"h:1":1},"id":"u"}"#),
            (key(ObjectKind::Route, "1"), r#"{"id":1,"uri":"/"}"#),
            (key(ObjectKind::Consumer, "jack"), r#"{"username":"jack"}"#),
            (key(ObjectKind::Credential, "jack/credentials/c"), r#"{"id":"c","plugins":{}}"#),
            (key(ObjectKind::PluginMetadata, "a-log"), r#"{"x":1}"#),
            (key(ObjectKind::Secret, "vault/1"), r#"{"id":"1","uri":"u"}"#),
        ];
        let set = compose_document(objects.iter().map(|(key, text)| (key, *text)));
        for text in [Value::Object(set.clone()).to_string(), yaml(&Value::Object(set))] {
            let document = ConfigDocument::parse(Path::new("x"), &text, &|_| None).unwrap();
            assert!(document.faults.is_empty(), "{:?}", document.faults);
            let mut found: Vec<(ObjectKey, String)> =
                document.objects.iter().map(|object| (object.key.clone(), object.text.to_string())).collect();
            let mut expected: Vec<(ObjectKey, String)> =
                objects.iter().map(|(key, text)| (key.clone(), (*text).to_owned())).collect();
            found.sort();
            expected.sort();
            assert_eq!(found, expected);
        }
    }

    /// Any JSON of limited depth.
    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
            "[yYnNoOfF0-9:#~ -]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(".{0,4}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn yaml_is_read_as_what_it_was_made_of(value in json_value()) {
            prop_assert_eq!(parse_value(&yaml(&value)).unwrap(), value);
        }
    }
}
