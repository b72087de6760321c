//! The responses of a batch, as the client gets them. Sends no request.

use std::borrow::Cow;
use std::io;

use exchange::inner::{InnerOutcome, InnerResponse};
use exchange::plugin::BufferedReply;
use serde_json::{Map, Value, json};

/// The longest list of responses, as it is written: it is held in memory until the last one is there.
pub(super) const RESPONSES_MAX_BYTES: usize = 16 * 1024 * 1024;

/// The list of the responses so far, without its brackets.
#[derive(Default)]
pub(super) struct Responses(Vec<u8>);

impl Responses {
    /// How long the next response may be.
    pub(super) fn left_bytes(&self) -> usize {
        RESPONSES_MAX_BYTES.saturating_sub(self.0.len())
    }

    pub(super) fn add(&mut self, outcome: InnerOutcome) {
        if !self.0.is_empty() {
            self.0.push(b',');
        }
        let (status, reason) = match outcome {
            InnerOutcome::Response(response) => {
                if self.write(&entry(response)) {
                    return;
                }
                // Its fields, or the escapes of its body, take more than the bytes that are left.
                (502, "response too long")
            }
            InnerOutcome::TimedOut => (504, "upstream timeout"),
            InnerOutcome::TooLong => (502, "response too long"),
            InnerOutcome::Cut => (502, "response cut"),
        };
        // It is short, so that it is written even if no byte is left.
        self.0.extend_from_slice(json!({"status": status, "reason": reason}).to_string().as_bytes());
    }

    /// Writes an entry; false if too few bytes are left, and then nothing is written.
    fn write(&mut self, entry: &Value) -> bool {
        let (before, left_bytes) = (self.0.len(), self.left_bytes());
        let written = serde_json::to_writer(Bounded { text: &mut self.0, left_bytes }, entry);
        if written.is_err() {
            self.0.truncate(before);
        }
        written.is_ok()
    }

    pub(super) fn into_reply(self) -> BufferedReply {
        let list = [&b"["[..], &self.0, b"]\n"].concat();
        BufferedReply::status(200).with_header("Content-Type", "application/json").with_body(Cow::Owned(list))
    }
}

/// Takes a text of limited length.
struct Bounded<'a> {
    text: &'a mut Vec<u8>,
    left_bytes: usize,
}

impl io::Write for Bounded<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.left_bytes =
            self.left_bytes.checked_sub(piece.len()).ok_or_else(|| io::Error::other("too long"))?;
        self.text.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn entry(response: InnerResponse) -> Value {
    let mut headers = Map::new();
    for field in response.headers.iter() {
        let name = String::from_utf8_lossy(field.name).into_owned();
        let value = Value::String(String::from_utf8_lossy(field.value).into_owned());
        match headers.get_mut(&name) {
            None => {
                headers.insert(name, value);
            }
            Some(Value::Array(values)) => values.push(value),
            Some(single) => *single = Value::Array(vec![single.take(), value]),
        }
    }
    let reason = message::reason::phrase(response.status);
    let mut entry = json!({"status": response.status, "reason": reason, "headers": headers});
    if let Some(body) = response.body {
        let text = String::from_utf8(body);
        entry["body"] =
            text.unwrap_or_else(|bytes| String::from_utf8_lossy(bytes.as_bytes()).into_owned()).into();
    }
    entry
}

#[cfg(test)]
mod tests {
    use message::Headers;

    use super::*;

    fn response(field: &[u8], body: Vec<u8>) -> InnerOutcome {
        let mut headers = Headers::new();
        headers.append("a", field).unwrap();
        InnerOutcome::Response(InnerResponse { status: 200, headers, body: Some(body) })
    }

    fn statuses(responses: Responses) -> Vec<u64> {
        let list: Value = serde_json::from_slice(&responses.into_reply().body).unwrap();
        list.as_array().unwrap().iter().map(|entry| entry["status"].as_u64().unwrap()).collect()
    }

    #[test]
    fn escapes_and_fields_count_towards_the_limit() {
        let mut responses = Responses::default();
        // Six bytes each in the list, so that these are a fourth of the limit.
        let control = || vec![1; RESPONSES_MAX_BYTES / 24];
        for _ in 0..3 {
            responses.add(response(b"b", control()));
        }
        let left_bytes = responses.left_bytes();
        responses.add(response(b"b", vec![b'c'; left_bytes - 200]));
        responses.add(response(&[b'd'; 200], Vec::new()));
        responses.add(InnerOutcome::Cut);
        responses.add(response(b"b", control()));
        assert_eq!(statuses(responses), [200, 200, 200, 200, 502, 502, 502]);
    }
}
