//! Bounds on a text of JSON, checked by one pass over its bytes that allocates nothing.
//!
//! A value of `serde_json` takes about a hundred bytes of memory and may be two bytes of the text, so the
//! length of a text bounds its memory badly.

use std::fmt;

use serde::Deserialize;

/// The most that a text of JSON may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of the text.
    pub bytes_max: usize,
    /// Values in it, those inside lists and objects included.
    pub values_max: usize,
    /// Lists and objects inside each other.
    pub depth_max: usize,
}

impl Bounds {
    /// The bounds of most readers: 64 MiB, 200,000 values (about 20 MB of memory), 127 levels as in
    /// `serde_json`.
    pub const DEFAULT: Bounds = Bounds { bytes_max: 64 << 20, values_max: 200_000, depth_max: 127 };
    /// The same without a bound on bytes, for bodies that were read under a limit of their own.
    pub const BODY: Bounds = Bounds { bytes_max: usize::MAX, ..Bounds::DEFAULT };
    /// The bounds of small answers, headers of tokens and messages: 1 MiB, 20,000 values (about 2 MB), 64
    /// levels.
    pub const SMALL: Bounds = Bounds { bytes_max: 1 << 20, values_max: 20_000, depth_max: 64 };

    /// These bounds with another number of values.
    #[must_use]
    pub const fn with_values(self, values_max: usize) -> Bounds {
        Bounds { values_max, ..self }
    }

    /// These bounds with another number of bytes.
    #[must_use]
    pub const fn with_bytes(self, bytes_max: usize) -> Bounds {
        Bounds { bytes_max, ..self }
    }

    /// These bounds with another number of levels.
    #[must_use]
    pub const fn with_depth(self, depth_max: usize) -> Bounds {
        Bounds { depth_max, ..self }
    }
}

/// The reason why a text was not read. The texts complete "the body has …" only for bounds; a malformed text
/// says itself what was expected.
#[derive(Debug)]
pub enum ReadError {
    /// More bytes than [`Bounds::bytes_max`].
    TooLong(usize),
    /// More values than [`Bounds::values_max`].
    TooManyValues(usize),
    /// More levels than [`Bounds::depth_max`].
    TooDeep(usize),
    /// The text is no JSON, or not of the type that was asked for.
    Json(serde_json::Error),
    /// The text is no JSON.
    Malformed {
        /// The part that is missing or wrong.
        expected: &'static str,
        /// Its offset in bytes.
        offset: usize,
    },
}

impl ReadError {
    /// Whether the text is beyond a bound; it may be JSON nevertheless.
    #[must_use]
    pub fn is_excess(&self) -> bool {
        matches!(self, ReadError::TooLong(_) | ReadError::TooManyValues(_) | ReadError::TooDeep(_))
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::TooLong(most) => write!(out, "more than {most} bytes"),
            ReadError::TooManyValues(most) => write!(out, "more than {most} values"),
            ReadError::TooDeep(most) => write!(out, "more than {most} lists and objects inside each other"),
            ReadError::Json(error) => error.fmt(out),
            ReadError::Malformed { expected, offset } => write!(out, "expected {expected} at byte {offset}"),
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads a text within bounds as any type. Members that the type does not name cost no memory.
///
/// # Errors
/// The text is beyond a bound, is no JSON, or is not of the type.
pub fn read<'de, T: Deserialize<'de>>(text: &'de [u8], bounds: Bounds) -> Result<T, ReadError> {
    measure(text, bounds)?;
    serde_json::from_slice(text).map_err(ReadError::Json)
}

/// The number of values in a text; of a malformed text at least the number in front of its fault.
///
/// # Errors
/// The text is beyond a bound.
pub fn measure(text: &[u8], bounds: Bounds) -> Result<usize, ReadError> {
    if text.len() > bounds.bytes_max {
        return Err(ReadError::TooLong(bounds.bytes_max));
    }
    let (mut values, mut depth, mut at) = (1_usize, 0_usize, 0);
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => at = behind_text(text, at),
            // A value follows a comma, and the bracket of a list or an object that is not empty.
            b',' => values += 1,
            b'[' | b'{' => {
                depth += 1;
                if depth > bounds.depth_max {
                    return Err(ReadError::TooDeep(bounds.depth_max));
                }
                let next = text[at..].iter().find(|byte| !byte.is_ascii_whitespace());
                values += usize::from(!matches!(next, Some(b']' | b'}')));
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if values > bounds.values_max {
            return Err(ReadError::TooManyValues(bounds.values_max));
        }
    }
    Ok(values)
}

/// The offset behind a text that begins at `at`, behind its quotation mark.
fn behind_text(text: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = text.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The number of values of a tree.
    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(fields) => fields.values().map(count).sum(),
            _ => 0,
        }
    }

    #[test]
    fn values_are_counted_at_all_levels() {
        let texts = [
            "1",
            r#""a,[{\"b\\""#,
            "[]",
            "{ \n}",
            "[[],[ ],{},[[0]]]",
            r#"{"a":[1,-2,2.5e1,"x\n,",null,true],"b":{"c":{}},"d":[0]}"#,
            r#"{"\\":"\\","[":"]"}"#,
        ];
        for text in texts {
            let values = count(&serde_json::from_str(text).unwrap());
            assert_eq!(measure(text.as_bytes(), Bounds::DEFAULT).unwrap(), values, "{text}");
            assert!(read::<Value>(text.as_bytes(), Bounds::DEFAULT.with_values(values)).is_ok(), "{text}");
            let error = measure(text.as_bytes(), Bounds::DEFAULT.with_values(values - 1)).unwrap_err();
            assert_eq!(error.to_string(), format!("more than {} values", values - 1), "{text}");
        }
    }

    #[test]
    fn texts_beyond_a_bound_are_excess() {
        let bounds = Bounds { bytes_max: 40, values_max: 5, depth_max: 3 };
        let check = |text: &str, is_excess: bool| {
            let error = read::<Value>(text.as_bytes(), bounds).unwrap_err();
            assert_eq!(error.is_excess(), is_excess, "{text}: {error}");
        };
        check(&" ".repeat(41), true);
        check("[[[[", true);
        check("[[[[]]]]", true);
        check("[0,0,0,0,0]", true);
        for malformed in ["", "{", "[1,]", "1 2", "{\"a\"}", "\"", "\"\\", "[\"a]"] {
            check(malformed, false);
        }
        assert!(read::<Value>(b"[[[]],0,0]", bounds).is_ok());
    }

    #[test]
    fn hostile_answer_is_refused_unread() {
        let text = format!("[{}0]", "[0],".repeat(7_500_000));
        let error = read::<Vec<Value>>(text.as_bytes(), Bounds::DEFAULT).unwrap_err();
        assert!(matches!(error, ReadError::TooManyValues(200_000)), "{error}");
    }
}
