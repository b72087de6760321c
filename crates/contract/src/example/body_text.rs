//! The bytes of an example in its media type.

use serde_json::Value;

/// Levels of an example that are written as XML.
const XML_DEPTH_MAX: usize = 64;

/// JSON for JSON types, a text as it is for other types, elements for XML, otherwise JSON.
pub(super) fn body_bytes(value: &Value, media_type: &str) -> Vec<u8> {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json = essence.ends_with("/json") || essence.ends_with("+json");
    match value {
        Value::String(text) if !is_json => text.clone().into_bytes(),
        _ if essence.ends_with("/xml") || essence.ends_with("+xml") => {
            let mut text = String::new();
            write_element(&mut text, "xml", value, 0);
            text.into_bytes()
        }
        _ => value.to_string().into_bytes(),
    }
}

/// An element of a value; each item of a list is an element of the same name.
fn write_element(text: &mut String, name: &str, value: &Value, depth: usize) {
    let name: String =
        name.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.')).collect();
    let name = if name.starts_with(|first: char| first.is_alphabetic() || first == '_') {
        name
    } else {
        format!("_{name}")
    };
    if depth > XML_DEPTH_MAX {
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| write_element(text, &name, item, depth + 1)),
        Value::Object(fields) => {
            text.push_str(&format!("<{name}>"));
            fields.iter().for_each(|(field, value)| write_element(text, field, value, depth + 1));
            text.push_str(&format!("</{name}>"));
        }
        Value::String(content) => {
            let content = content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            text.push_str(&format!("<{name}>{content}</{name}>"));
        }
        Value::Null => text.push_str(&format!("<{name}></{name}>")),
        other => text.push_str(&format!("<{name}>{other}</{name}>")),
    }
}
