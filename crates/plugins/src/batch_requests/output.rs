//! The responses of a batch, as the client gets them. Sends no request.

use exchange::inner::{InnerOutcome, InnerResponse};
use exchange::plugin::Reply;
use serde_json::{Map, Value, json};

/// The longest bodies of all responses of a batch together: they are held in memory until the last one is there.
pub(super) const RESPONSES_MAX_BYTES: usize = 16 * 1024 * 1024;

/// The responses so far.
#[derive(Default)]
pub(super) struct Responses {
    list: Vec<Value>,
    held_bytes: usize,
}

impl Responses {
    /// How long the body of the next response may be.
    pub(super) fn left_bytes(&self) -> usize {
        RESPONSES_MAX_BYTES - self.held_bytes
    }

    pub(super) fn add(&mut self, outcome: InnerOutcome) {
        let entry = match outcome {
            InnerOutcome::Response(response) => {
                self.held_bytes += response.body.as_ref().map_or(0, Vec::len).min(self.left_bytes());
                entry(response)
            }
            InnerOutcome::TimedOut => json!({"status": 504, "reason": "upstream timeout"}),
            InnerOutcome::TooLong => json!({"status": 502, "reason": "response too long"}),
            InnerOutcome::Cut => json!({"status": 502, "reason": "response cut"}),
        };
        self.list.push(entry);
    }

    pub(super) fn into_reply(self) -> Reply {
        Reply::json(200, &Value::Array(self.list))
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
        entry["body"] = String::from_utf8_lossy(&body).into_owned().into();
    }
    entry
}
