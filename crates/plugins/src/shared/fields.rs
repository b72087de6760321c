//! Operations on the fields of a message, as `proxy-rewrite` and `response-rewrite` are configured with them:
//! values are added, set and removed, in this order, and may hold variables and the groups of a match. It
//! does not know which message it is.

use exchange::Exchange;
use router::vars::Template;
use serde_json::{Map, Value};

use super::substitution::Groups;
use super::uri_template::{UriTemplate, UriUse};

/// Room for the usual value, in bytes, so that it grows in one step.
const USUAL_VALUE_BYTES: usize = 48;

/// A field's value with variables, and groups of a match (`$1`) if there was one.
pub(crate) struct FieldValue {
    pieces: Vec<FieldValuePiece>,
}

enum FieldValuePiece {
    Template(Template),
    Group(usize),
    /// The whole value of a field that holds a URI.
    Uri(UriTemplate),
}

/// The field with a URI reference that clients follow.
const LOCATION: &str = "Location";

/// The operations on a message's fields.
#[derive(Default)]
pub(crate) struct FieldOperations {
    /// Values appended after fields of the same name.
    pub(crate) add: Vec<(Box<str>, FieldValue)>,
    /// Values that replace fields of the same name.
    pub(crate) set: Vec<(Box<str>, FieldValues)>,
    /// Fields that are removed.
    pub(crate) remove: Vec<Box<str>>,
}

/// The value that a field is set to.
pub(crate) enum FieldValues {
    /// One field.
    One(FieldValue),
    /// As many fields of the name as there are values.
    Several(Vec<FieldValue>),
}

/// One operation with its rendered value. Setting an empty value removes the field, as in nginx.
pub(crate) enum FieldOperation<'a> {
    /// Append.
    Add(&'a str, Vec<u8>),
    /// Replace or append.
    Set(&'a str, Vec<u8>),
    /// Replace by several fields; empty values are left out already.
    SetSeveral(&'a str, Vec<Vec<u8>>),
    /// Remove.
    Remove(&'a str),
}

/// Whether a text is a field's name (RFC 9110 section 5.1).
pub(crate) fn is_token(text: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(token)
}

/// The names and values of an object of fields to set.
///
/// # Errors
/// The fault of one of them.
pub(crate) fn compile_field_values(
    fields: &Map<String, Value>,
) -> Result<Vec<(Box<str>, FieldValues)>, String> {
    fields.iter().map(|(field, value)| Ok((parse_field_name(field)?, one_of(field, value)?))).collect()
}

/// The names and values of an object of fields to set, where a value may be a list.
///
/// # Errors
/// The fault of one of them.
pub(crate) fn values_or_lists(fields: &Map<String, Value>) -> Result<Vec<(Box<str>, FieldValues)>, String> {
    let values = |field: &str, value: &Value| match value {
        Value::Array(values) => compile_all(values).map(FieldValues::Several),
        value => one_of(field, value),
    };
    fields.iter().map(|(field, value)| Ok((parse_field_name(field)?, values(field, value)?))).collect()
}

fn one_of(field: &str, value: &Value) -> Result<FieldValues, String> {
    FieldValue::compile_for(field, &parse_field_text(value)?).map(FieldValues::One)
}

/// The names and values of an object of fields to append; a list is one field for each of its values.
///
/// # Errors
/// The fault of one of them.
pub(crate) fn additions(fields: &Map<String, Value>) -> Result<Vec<(Box<str>, FieldValue)>, String> {
    let mut all = Vec::new();
    for (field, value) in fields {
        let name = parse_field_name(field)?;
        let values = match value {
            Value::Array(values) => compile_all(values)?,
            value => vec![FieldValue::compile_for(field, &parse_field_text(value)?)?],
        };
        all.extend(values.into_iter().map(|value| (name.clone(), value)));
    }
    Ok(all)
}

fn compile_all(values: &[Value]) -> Result<Vec<FieldValue>, String> {
    values.iter().map(|value| FieldValue::compile(&parse_field_text(value)?)).collect()
}

/// A field's name.
///
/// # Errors
/// The text is no field name.
pub(crate) fn parse_field_name(field: &str) -> Result<Box<str>, String> {
    match is_token(field) {
        true => Ok(field.into()),
        false if field.is_empty() => Err("invalid field length in header".to_owned()),
        false => Err(format!("invalid field character in header: {field}")),
    }
}

/// A field's value as text: a text or a number.
///
/// # Errors
/// It is neither, or holds a control character.
pub(crate) fn parse_field_text(value: &Value) -> Result<String, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err("invalid type as header value".to_owned()),
    };
    if text.bytes().any(|byte| (byte < b' ' && byte != b'\t') || byte == 0x7f) {
        return Err("invalid value character in header".to_owned());
    }
    Ok(text)
}

impl FieldValue {
    /// Compiles the value of the field `name`: in `Location`, text of clients stays inside its place in the
    /// URI.
    ///
    /// # Errors
    /// As [`FieldValue::compile`].
    pub(crate) fn compile_for(name: &str, text: &str) -> Result<FieldValue, String> {
        let value = FieldValue::compile(text)?;
        let has_groups = value.pieces.iter().any(|piece| matches!(piece, FieldValuePiece::Group(_)));
        if has_groups || !name.eq_ignore_ascii_case(LOCATION) {
            return Ok(value);
        }
        let uri = UriTemplate::compile(text, UriUse::Reference { encodes_path: false })
            .map_err(|error| format!("header value `{text}`: {error}"))?;
        Ok(FieldValue { pieces: vec![FieldValuePiece::Uri(uri)] })
    }

    /// Compiles a value.
    ///
    /// # Errors
    /// The template is malformed.
    pub(crate) fn compile(text: &str) -> Result<FieldValue, String> {
        let mut pieces = Vec::new();
        let (mut start, mut at) = (0, 0);
        let template = |plain: &str| {
            Template::compile(plain)
                .map(FieldValuePiece::Template)
                .map_err(|error| format!("header value `{text}`: {error}"))
        };
        while let Some(dollar) = text[at..].find('$').map(|offset| at + offset) {
            at = dollar + 1;
            let escaped = text[..dollar].ends_with('\\');
            if let Some((group, length)) = group_at(&text[at..]).filter(|_| !escaped) {
                pieces.push(template(&text[start..dollar])?);
                pieces.push(FieldValuePiece::Group(group));
                at += length;
                start = at;
            }
        }
        pieces.push(template(&text[start..])?);
        Ok(FieldValue { pieces })
    }

    /// The rendered value; `matched` is a match and the text it was found in.
    pub(crate) fn render(&self, exchange: &Exchange, matched: Option<(&Groups, &[u8])>) -> Vec<u8> {
        let mut out = Vec::with_capacity(USUAL_VALUE_BYTES);
        for piece in &self.pieces {
            match (piece, matched) {
                (FieldValuePiece::Template(template), _) => {
                    template.render(exchange, &mut out);
                }
                (FieldValuePiece::Group(index), Some((groups, text))) => {
                    out.extend_from_slice(groups.text(*index, text))
                }
                (FieldValuePiece::Group(_), None) => {}
                (FieldValuePiece::Uri(uri), _) => uri.render(exchange, &mut out),
            }
        }
        out
    }
}

/// The number of a group at the start of `rest`, plain or in braces, and how many bytes it takes.
fn group_at(rest: &str) -> Option<(usize, usize)> {
    let (inside, braces) = match rest.strip_prefix('{') {
        Some(inside) => (inside, 2),
        None => (rest, 0),
    };
    let digits = inside.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || (braces > 0 && inside.as_bytes().get(digits) != Some(&b'}')) {
        return None;
    }
    Some((inside[..digits].parse().ok()?, digits + braces))
}

impl FieldOperations {
    /// The operations with their rendered values, in the order of execution.
    pub(crate) fn render<'a>(
        &'a self,
        exchange: &Exchange,
        matched: Option<(&Groups, &[u8])>,
    ) -> Vec<FieldOperation<'a>> {
        let mut operations = Vec::with_capacity(self.add.len() + self.set.len() + self.remove.len());
        for (name, value) in &self.add {
            operations.push(FieldOperation::Add(name, value.render(exchange, matched)));
        }
        for (name, values) in &self.set {
            operations.push(match values {
                FieldValues::One(value) => FieldOperation::Set(name, value.render(exchange, matched)),
                FieldValues::Several(values) => {
                    let values = values.iter().map(|value| value.render(exchange, matched));
                    FieldOperation::SetSeveral(name, values.filter(|value| !value.is_empty()).collect())
                }
            });
        }
        operations.extend(self.remove.iter().map(|name| FieldOperation::Remove(name)));
        operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::substitution::{Matcher, PatternOptions};
    use exchange::testing::Scene;

    #[test]
    fn values_hold_variables_and_groups() {
        let mut scene = Scene::new();
        let exchange = scene.exchange(b"GET /a?x=1&y=$1 HTTP/1.1\r\nHost: h\r\n\r\n");
        let matcher = Matcher::compile("(b)(c)", PatternOptions::default()).unwrap();
        let groups = matcher.find(b"abc", 0).unwrap().unwrap();
        let check = |text: &str, with: &str, without: &str| {
            let value = FieldValue::compile(text).unwrap();
            let rendered = |matched| String::from_utf8(value.render(&exchange, matched)).unwrap();
            assert_eq!(rendered(Some((&groups, b"abc"))), with, "{text}");
            assert_eq!(rendered(None), without, "{text}");
        };
        check("plain", "plain", "plain");
        check("$1-${2}$host", "b-ch", "-h");
        check("$10", "", "");
        check("${arg_x}$arg_y", "1$1", "1$1");
        check("a$arg_none!", "a!", "a!");
        check("", "", "");
    }

    #[test]
    fn names_and_values() {
        assert!(parse_field_name("X-A_b.1").is_ok());
        for bad in ["", "a b", "a:", "a\n", "ä"] {
            assert!(parse_field_name(bad).is_err(), "{bad:?}");
        }
        assert_eq!(parse_field_text(&Value::from(1.5)).unwrap(), "1.5");
        for bad in [Value::Null, Value::from("a\r\nb"), Value::Bool(true)] {
            assert!(parse_field_text(&bad).is_err(), "{bad}");
        }
        assert!(FieldValue::compile("${").is_err());
    }
}
