//! The access log: a format compiled once, and lines that each worker collects. `log_writer` writes them.

use std::sync::Arc;

use router::vars::{Template, Variable, VariableSource};

use super::log_writer::LogWriter;

/// Lines are collected up to this size before they go to the writer; each turn of the slow loop sends a
/// smaller batch.
const BATCH_BYTES: usize = 32 * 1024;
/// Bytes of lines that may wait for the writer: about a minute of a disk that stalls at 1,000 requests a
/// second.
pub const QUEUE_BYTES: usize = 8 * 1024 * 1024;
/// How a line is made.
pub enum Format {
    /// A text with variables.
    Text(Template),
    /// A JSON object.
    Json(Vec<JsonField>),
}

/// One member of a JSON object.
pub struct JsonField {
    name: String,
    value: Template,
    /// Whether the value is one variable that stands for a number.
    is_number: bool,
}

/// The format, shared by the workers.
#[derive(Clone)]
pub struct AccessLog {
    format: Arc<Format>,
}

/// A worker's end of the log.
pub struct LineWriter {
    batch: Vec<u8>,
    value: Vec<u8>,
    writer: LogWriter,
}

impl AccessLog {
    /// A log with this format.
    pub fn new(format: Format) -> AccessLog {
        AccessLog { format: Arc::new(format) }
    }

    /// Formats the line of an ended exchange, or of an ended session.
    pub(crate) fn write(&self, source: &impl VariableSource, writer: &mut LineWriter) {
        let LineWriter { batch, value, .. } = writer;
        match &*self.format {
            Format::Text(template) => {
                template.render_with(source, batch, b"-", |value, out| escape_text(&value.text(), out));
            }
            Format::Json(fields) => {
                batch.push(b'{');
                for (index, field) in fields.iter().enumerate() {
                    if index > 0 {
                        batch.push(b',');
                    }
                    escape_json(field.name.as_bytes(), batch);
                    batch.push(b':');
                    value.clear();
                    field.value.render(source, value);
                    if field.is_number { write_numbers(value, batch) } else { escape_json(value, batch) }
                }
                batch.push(b'}');
            }
        }
        batch.push(b'\n');
        if batch.len() >= BATCH_BYTES {
            writer.flush();
        }
    }
}

impl JsonField {
    /// The member `name` with the value `value`. A value that is one numeric variable becomes a JSON number.
    pub fn new(name: String, value: Template) -> JsonField {
        let is_number =
            matches!(value.as_variable(), Some(Variable::Builtin(builtin)) if builtin.is_numeric());
        JsonField { name, value, is_number }
    }
}

impl LineWriter {
    /// A worker's end of the log that `writer` writes.
    pub fn new(writer: LogWriter) -> LineWriter {
        LineWriter { batch: Vec::new(), value: Vec::new(), writer }
    }

    /// Hands the collected lines to the writer thread.
    pub(crate) fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        // A small batch is copied, so that the queue holds hardly more memory than lines.
        if self.batch.len() < BATCH_BYTES / 2 {
            self.writer.send(self.batch.as_slice().into());
            return self.batch.clear();
        }
        self.writer.send(std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_BYTES)));
    }
}

/// Control characters, quotes and backslashes as `\xHH`, so that no request can forge a line or a field.
fn escape_text(value: &[u8], out: &mut Vec<u8>) {
    for byte in value {
        match byte {
            0..0x20 | b'"' | b'\\' | 0x7f..=0xff => {
                out.extend_from_slice(b"\\x");
                out.extend_from_slice(&hex(*byte));
            }
            _ => out.push(*byte),
        }
    }
}

/// A number, as JSON: `null` for an unset variable, a list where a retry left one number for each attempt. A
/// text that is no number, such as a malformed `Content-Length`, stays a text.
fn write_numbers(text: &[u8], out: &mut Vec<u8>) {
    let numbers = || text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    if numbers().any(|number| !is_unset(number) && !is_json_number(number)) {
        return escape_json(text, out);
    }
    let write = |number: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(if is_unset(number) { b"null" } else { number });
    };
    if !text.contains(&b',') {
        return write(text.trim_ascii(), out);
    }
    out.push(b'[');
    for (index, number) in numbers().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(number, out);
    }
    out.push(b']');
}

/// `-` is nginx's mark of an attempt that has no value.
fn is_unset(number: &[u8]) -> bool {
    matches!(number, b"" | b"-")
}

/// RFC 8259 section 6, without signs and exponents, which no variable has.
fn is_json_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let whole = parts.next().unwrap_or_default();
    let has_leading_zero = whole.len() > 1 && whole[0] == b'0';
    digits(whole) && !has_leading_zero && parts.next().is_none_or(digits)
}

/// A JSON string; bytes that are no UTF-8 become the replacement character.
fn escape_json(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in value.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                0..0x20 | 0x7f => {
                    out.extend_from_slice(b"\\u00");
                    out.extend_from_slice(&hex(byte));
                }
                _ => out.push(byte),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

fn hex(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_bytes_cannot_forge_a_log_line() {
        let check = |value: &[u8], text: &str, json: &str| {
            let (mut as_text, mut as_json) = (Vec::new(), Vec::new());
            escape_text(value, &mut as_text);
            escape_json(value, &mut as_json);
            assert_eq!(
                (String::from_utf8(as_text).unwrap(), String::from_utf8(as_json).unwrap()),
                (text.into(), json.into())
            );
        };
        check(b"plain /path", "plain /path", "\"plain /path\"");
        check(b"a\nb\"c", "a\\x0Ab\\x22c", "\"a\\u000Ab\\\"c\"");
        check(b"\xff", "\\xFF", "\"\u{fffd}\"");
        check("ü".as_bytes(), "\\xC3\\xBC", "\"ü\"");
    }

    #[test]
    fn numbers_are_json_numbers() {
        let check = |text: &str, json: &str| {
            let mut out = Vec::new();
            write_numbers(text.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), json, "{text}");
        };
        check("200", "200");
        check("0", "0");
        check("0.004", "0.004");
        check("1764000000.123", "1764000000.123");
        check("18446744073709551615", "18446744073709551615");
        check("", "null");
        check("-", "null");
        check("502, 200", "[502,200]");
        check("0.001, -, 0.002", "[0.001,null,0.002]");
        for text in ["007", "+1", "1e5", ".5", "5.", "0x1", "many", "5, many"] {
            check(text, &format!("\"{text}\""));
        }
    }

    #[test]
    fn one_numeric_variable_alone_is_a_number() {
        let check = |value: &str, is_number: bool| {
            let field = JsonField::new("a".to_owned(), Template::compile(value).unwrap());
            assert_eq!(field.is_number, is_number, "{value}");
        };
        check("$status", true);
        check("${request_time}", true);
        check("$upstream_response_time", true);
        check("$status ", false);
        check("$status$status", false);
        check("$host", false);
        check("$http_content_length", false);
        check("200", false);
    }
}
