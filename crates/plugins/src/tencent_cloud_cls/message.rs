//! The messages of Tencent Cloud Log Service, in Protocol Buffers:
//! <https://www.tencentcloud.com/document/product/614/42787>.

use prost::Message;
use serde_json::{Map, Value};

/// The longest value of one field, in bytes; the service takes no longer one.
const VALUE_MAX_BYTES: usize = 1024 * 1024;

#[derive(Message)]
pub(super) struct ClsLog {
    /// Milliseconds since the Unix epoch.
    #[prost(int64, required, tag = "1")]
    pub(super) time: i64,
    #[prost(message, repeated, tag = "2")]
    pub(super) contents: Vec<Content>,
}

#[derive(Message)]
pub(super) struct Content {
    #[prost(string, required, tag = "1")]
    pub(super) key: String,
    #[prost(string, required, tag = "2")]
    pub(super) value: String,
}

/// A group of logs that are encoded already: an embedded message is written like bytes.
#[derive(Message)]
pub(super) struct LogGroup {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) logs: Vec<Vec<u8>>,
    /// The address of the machine.
    #[prost(string, optional, tag = "4")]
    pub(super) source: Option<String>,
}

#[derive(Message)]
pub(super) struct LogGroupList {
    #[prost(message, repeated, tag = "1")]
    pub(super) groups: Vec<LogGroup>,
}

/// A log of these fields, encoded.
pub(super) fn log(fields: &Map<String, Value>, time_ms: u64) -> Vec<u8> {
    let content = |(key, value): (&String, &Value)| Content { key: key.clone(), value: text(value) };
    ClsLog { time: time_ms as i64, contents: fields.iter().map(content).collect() }.encode_to_vec()
}

/// A value as a text, at most so long as the service takes it.
fn text(value: &Value) -> String {
    let mut text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.len() > VALUE_MAX_BYTES {
        text.truncate(text.floor_char_boundary(VALUE_MAX_BYTES));
    }
    text
}

/// The request body for logs that are encoded already.
pub(super) fn encode_log_group_list(logs: Vec<Vec<u8>>, source: &str) -> Vec<u8> {
    LogGroupList { groups: vec![LogGroup { logs, source: Some(source.to_owned()) }] }.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_texts_of_bounded_length() {
        let check = |value: Value, expected: &str| assert_eq!(text(&value), expected);
        check(json!("a"), "a");
        check(json!(1.5), "1.5");
        check(json!({"a": [1]}), r#"{"a":[1]}"#);
        check(json!(null), "null");
        let long = "é".repeat(VALUE_MAX_BYTES);
        assert_eq!(text(&json!(format!("x{long}"))).len(), VALUE_MAX_BYTES - 1, "no character is cut");
    }

    /// The bytes follow from the wire format: a tag and a type, then a varint, or a length and bytes.
    #[test]
    fn encoding_is_that_of_the_published_definition() {
        let fields = json!({"k": "v"});
        let log = log(fields.as_object().unwrap(), 300);
        // 1: varint 300; 2: bytes of Content { 1: "k", 2: "v" }.
        let encoded = [0x08, 0xac, 0x02, 0x12, 0x06, 0x0a, 0x01, b'k', 0x12, 0x01, b'v'];
        assert_eq!(log, encoded);
        let list = encode_log_group_list(vec![log], "10.0.0.1");
        let mut expected = vec![0x0a, 23, 0x0a, 11];
        expected.extend(encoded);
        expected.extend([0x22, 8]);
        expected.extend(b"10.0.0.1");
        assert_eq!(list, expected);
    }
}
