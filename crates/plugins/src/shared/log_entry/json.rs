//! Chosen fields written as JSON at once: a tree of values in between would cost more than all other work of
//! a logger. It knows no logger and sends nothing.

use exchange::Exchange;
use router::vars::{Value as VariableValue, Variable, VariableSource};

use super::{Builtin, LogField, LogFormat, NUMBERS};

mod full;

pub(crate) use full::render_full_entry;

/// The fields that are those of the route, whatever the format says.
const ROUTE_FIELDS: [&str; 2] = ["service_id", "route_id"];

/// The fields of `format`, the ids of the route and of its service if there are any, and of a request without
/// a route `no-matched`, as a JSON object.
pub(crate) fn render_chosen_entry(format: &LogFormat, exchange: &Exchange) -> Vec<u8> {
    in_scratch(exchange, |out| write_chosen(out, format, exchange))
}

/// The bytes that `write` appends, in memory of their length: an entry may wait long for its batch.
fn in_scratch(exchange: &Exchange, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut scratch = exchange.local().take_bytes();
    write(&mut scratch);
    let entry = scratch.to_vec();
    exchange.local().give_bytes(scratch);
    entry
}

fn write_chosen(out: &mut Vec<u8>, format: &LogFormat, exchange: &Exchange) {
    let mut object = JsonObjectWriter::inside(out);
    let route = exchange.route();
    let service = route.and_then(|route| route.service.as_ref()).map(|service| &*service.id);
    let mut names_route = route.is_some();
    for (name, field) in &format.fields {
        let [is_service, is_route] = ROUTE_FIELDS.map(|own| own == name);
        if (is_service && service.is_some()) || (is_route && route.is_some()) {
            continue;
        }
        names_route |= object.add(name, field, exchange) && is_route;
    }
    if let Some(id) = service {
        object.add_text("service_id", id);
    }
    if let Some(route) = route {
        object.add_text("route_id", &route.id);
    }
    if !names_route {
        object.add_text("route_id", "no-matched");
    }
    object.end();
}

/// An object while its members are written.
struct JsonObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> JsonObjectWriter<'o> {
    /// Begins an object at the end of `out`.
    fn inside(out: &'o mut Vec<u8>) -> JsonObjectWriter<'o> {
        out.push(b'{');
        JsonObjectWriter { out, is_empty: true }
    }

    fn end(self) {
        self.out.push(b'}');
    }

    fn name(&mut self, name: &str) {
        self.name_of_bytes(name.as_bytes());
    }

    fn name_of_bytes(&mut self, name: &[u8]) {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(b',');
        }
        write_text(name, self.out);
        self.out.push(b':');
    }

    fn add_text(&mut self, name: &str, text: &str) {
        self.name(name);
        write_text(text.as_bytes(), self.out);
    }

    fn add_number(&mut self, name: &str, number: u64) {
        self.name(name);
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// A time in milliseconds.
    fn add_ms(&mut self, name: &str, ns: u64) {
        self.name(name);
        // Writing a number to a vector cannot fail.
        let _ = serde_json::to_writer(&mut *self.out, &(ns as f64 / 1e6));
    }

    /// The text of a variable, or null.
    fn add_builtin(&mut self, name: &str, builtin: Builtin, exchange: &Exchange) {
        self.name(name);
        match exchange.variable(&Variable::Builtin(builtin)) {
            Some(value) => write_text(&value.text(), self.out),
            None => self.out.extend_from_slice(b"null"),
        }
    }

    /// Writes a member; false if its variable is not set.
    fn add(&mut self, name: &str, field: &LogField, exchange: &Exchange) -> bool {
        match field {
            LogField::Variable(variable) => {
                let Some(value) = exchange.variable(variable) else { return false };
                self.name(name);
                write_variable(variable, &value, self.out);
            }
            LogField::Object(inside) => {
                self.name(name);
                let mut object = JsonObjectWriter::inside(self.out);
                for (name, field) in &inside.fields {
                    object.add(name, field, exchange);
                }
                object.end();
            }
            other => {
                let Some(value) = other.value(exchange) else { return false };
                self.name(name);
                // Writing a value to a vector cannot fail.
                let _ = serde_json::to_writer(&mut *self.out, &value);
            }
        }
        true
    }
}

fn write_variable(variable: &Variable, value: &VariableValue<'_>, out: &mut Vec<u8>) {
    match (variable, value) {
        (Variable::Builtin(builtin), VariableValue::Number(number)) if NUMBERS.contains(builtin) => {
            // Counts of bytes and statuses are whole and far below where a double loses digits.
            out.extend_from_slice(itoa::Buffer::new().format(*number as u64).as_bytes());
        }
        (_, VariableValue::Bytes(text)) => write_text(text, out),
        // Digits, `true`, `false`, or a list.
        (_, other) => write_text(&other.text(), out),
    }
}

/// A JSON string; bytes that are no UTF-8 become the replacement character.
fn write_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    match str::from_utf8(text) {
        Ok(text) => write_escaped(text.as_bytes(), out),
        Err(_) => write_escaped(String::from_utf8_lossy(text).as_bytes(), out),
    }
    out.push(b'"');
}

/// Text with escapes where JSON demands them (RFC 8259 section 7); runs without are copied as they are.
fn write_escaped(mut text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let must_be_escaped = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
    while let Some(at) = text.iter().position(must_be_escaped) {
        out.extend_from_slice(&text[..at]);
        let byte = text[at];
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
            }
        }
        text = &text[at + 1..];
    }
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, respond, route};
    use serde_json::{Value, json};

    use super::*;
    use crate::shared::log_entry::{BodyLimits, add_route_ids};

    const LIMITS: BodyLimits = BodyLimits { request_bytes: 100, response_bytes: 100 };

    #[test]
    fn text_is_what_a_json_reader_gets_back() {
        for text in
            ["", "plain /a?b=c", "a\"b\\c", "\n\r\t\u{8}\u{c}\0\u{1f}\u{7f}", "ä€😀", "\u{2028}</script>"]
        {
            let mut out = Vec::new();
            write_text(text.as_bytes(), &mut out);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
        let mut out = Vec::new();
        write_text(b"a\xffb\xc3", &mut out);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), "a\u{fffd}b\u{fffd}");
    }

    /// The entry is the object that the rendered fields make, with the ids of the route.
    #[test]
    fn written_entry_equals_rendered_fields() {
        let formats = [
            json!({}),
            json!({"host": "$host", "status": "$status", "constant": [1, {"a": null}], "none": "$arg_none"}),
            json!({"seconds": "$request_time", "text": "$remote_addr-$server_port", "port": "$server_port"}),
            json!({"in": {"deeper": {"uri": "$uri", "none": "$arg_none"}, "empty": {}}, "a\"b": "$http_x_odd"}),
            json!({"route_id": "$uri", "service_id": "mine", "last": 1}),
            json!({"route_id": "$arg_none"}),
        ];
        for has_route in [true, false] {
            for format in &formats {
                let mut scene = if has_route { Scene::new().with_route(route("r")) } else { Scene::new() };
                let mut exchange = scene.exchange(b"GET /a%22b HTTP/1.1\r\nHost: h\r\nX-Odd: a\"\\\r\n\r\n");
                exchange.times.ended_ns = exchange.times.started_ns + 5_000_000;
                respond(&mut exchange, 404, &[]);
                let compiled = LogFormat::compile("log_format", format.as_object().unwrap(), LIMITS).unwrap();
                let mut fields = compiled.render(&exchange);
                add_route_ids(&mut fields, &exchange, false);
                fields.entry("route_id").or_insert_with(|| "no-matched".into());
                let written: Value =
                    serde_json::from_slice(&render_chosen_entry(&compiled, &exchange)).unwrap();
                assert_eq!(written, Value::Object(fields), "{format} {has_route}");
            }
        }
    }
}
