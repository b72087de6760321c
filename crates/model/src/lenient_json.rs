//! JSON that users write (bodies of the Admin API, values of etcd, JSON inside strings of a configuration),
//! read as leniently as lua-cjson reads it: raw line breaks, tabs and other control characters inside strings
//! are accepted, because users paste .proto files and functions. Every other deviation from JSON is an error.

use std::borrow::Cow;

use jsonx::Bounds;
use serde::de::DeserializeOwned;

/// Reads JSON that a user wrote. The error is serde's text with the line and column in `body`.
///
/// # Errors
/// The fault and its place.
pub fn from_slice<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    jsonx::measure(body, BOUNDS).map_err(|fault| format!("it has {fault}"))?;
    let fault = match serde_json::from_slice(body) {
        Ok(value) => return Ok(value),
        Err(fault) => fault,
    };
    let Cow::Owned(escaped) = escape_controls(body) else { return Err(fault.to_string()) };
    serde_json::from_slice(&escaped).map_err(|fault| {
        let reason = fault.to_string();
        let at = format!(" at line {} column {}", fault.line(), fault.column());
        match reason.strip_suffix(&at) {
            Some(reason) => {
                let (line, column) = place_in(body, offset_of(&escaped, fault.line(), fault.column()));
                format!("{reason} at line {line} column {column}")
            }
            None => reason,
        }
    })
}

/// The body with the control characters inside its strings escaped; borrowed if there are none. NUL is not
/// escaped and so stays an error, as in lua-cjson.
#[must_use]
pub fn escape_controls(body: &[u8]) -> Cow<'_, [u8]> {
    let mut escaped = Vec::new();
    // Start of the part of the body that is not copied yet.
    let mut from = 0;
    for_each_raw_control(body, |at| {
        escaped.extend_from_slice(&body[from..at]);
        escaped.extend_from_slice(format!("\\u{:04x}", body[at]).as_bytes());
        from = at + 1;
    });
    if from == 0 {
        return Cow::Borrowed(body);
    }
    escaped.extend_from_slice(&body[from..]);
    Cow::Owned(escaped)
}

/// Calls `found` with the offset of each control character inside a string.
fn for_each_raw_control(body: &[u8], mut found: impl FnMut(usize)) {
    let (mut in_string, mut is_escaped) = (false, false);
    for (at, byte) in body.iter().copied().enumerate() {
        match byte {
            _ if !in_string => in_string = byte == b'"',
            // An escaped control character is no JSON in either reading.
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => in_string = false,
            0x01..=0x1f => found(at),
            _ => {}
        }
    }
}

/// The offset of a line and column, both counted from 1 as serde does.
fn offset_of(text: &[u8], line: usize, column: usize) -> usize {
    let before: usize =
        text.split_inclusive(|byte| *byte == b'\n').take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    before + column
}

/// The line and column in `body` of the byte that stands at `offset` in the escaped body.
fn place_in(body: &[u8], offset: usize) -> (usize, usize) {
    let mut original = offset;
    let mut escapes = 0;
    for_each_raw_control(body, |at| {
        if at + escapes * ESCAPE_GROWTH < offset {
            escapes += 1;
            original = (offset - (escapes * ESCAPE_GROWTH).min(offset)).max(at + 1);
        }
    });
    let before = &body[..original.min(body.len())];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines = before.iter().filter(|byte| **byte == b'\n').count();
    (lines + 1, before.len() - line_start)
}

/// The bounds of a body: that many values has a whole configuration of 100,000 routes. Its length is bounded
/// where it is read.
const BOUNDS: Bounds = Bounds { bytes_max: usize::MAX, values_max: 5_000_000, depth_max: 127 };
/// Difference in bytes between `\u000a` and the character that it stands for.
const ESCAPE_GROWTH: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn control_characters_in_strings_are_accepted() {
        let check = |body: &str, expected: Result<Value, &str>| {
            assert_eq!(from_slice::<Value>(body.as_bytes()), expected.map_err(str::to_owned), "{body:?}");
        };
        check("{\"a\": 1}", Ok(json!({"a": 1})));
        check("{\"a\":\n\t\"b\nc\td\r\u{1}\"}\n", Ok(json!({"a": "b\nc\td\r\u{1}"})));
        check("{\"a\nb\": \"\\\"\n\\\\\"}", Ok(json!({"a\nb": "\"\n\\"})));
        check(
            "\"a\u{0}\"",
            Err("control character (\\u0000-\\u001F) found while parsing a string at line 1 column 3"),
        );
        check("{\"a\": \"b\\\nc\"}", Err("invalid escape at line 2 column 0"));
        check("{\"ab\": tru}", Err("expected ident at line 1 column 11"));
        check("{\"a\u{1}\": tru}", Err("expected ident at line 1 column 11"));
        check("{\"a\": \"x\ny\nz\", \"b\": tru}", Err("expected ident at line 3 column 13"));
        check("{\n\"a\": \"x\ty\"\n\"b\"}", Err("expected `,` or `}` at line 3 column 1"));
        check("{\"a\": \"b\n", Err("EOF while parsing a string at line 2 column 0"));
    }

    proptest! {
        #[test]
        fn escaping_changes_no_json(value in "[ -~\\n\\t]{0,20}", other in "[ -~]{0,8}") {
            let good = json!({"a": value, "b": [other]}).to_string();
            prop_assert_eq!(escape_controls(good.as_bytes()), good.as_bytes());
            let raw = good.replace("\\n", "\n").replace("\\t", "\t");
            // An escaped backslash before an `n` is no line break.
            if !value.contains('\\') && !other.contains('\\') {
                prop_assert_eq!(from_slice::<Value>(raw.as_bytes()), Ok(json!({"a": value, "b": [other]})));
            }
        }

        #[test]
        fn garbage_never_panics(body in "[\"\\\\{}:, \\n\\u{1}a1]{0,40}") {
            let _ = from_slice::<Value>(body.as_bytes());
        }
    }
}
