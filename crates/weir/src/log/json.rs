//! Messages as JSON: one object per line with `time`, `level`, `target`, `message` and, if there are any,
//! `fields`.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Formats each event as a JSON object.
pub(super) struct JsonEvents;

impl<S, N> FormatEvent<S, N> for JsonEvents
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut values = EventFields::default();
        event.record(&mut values);
        let metadata = event.metadata();
        let mut object = Map::new();
        object.insert("time".to_owned(), time.into());
        object.insert("level".to_owned(), metadata.level().as_str().to_ascii_lowercase().into());
        object.insert("target".to_owned(), metadata.target().into());
        object.insert("message".to_owned(), values.message.into());
        if !values.fields.is_empty() {
            object.insert("fields".to_owned(), Value::Object(values.fields));
        }
        writeln!(writer, "{}", Value::Object(object))
    }
}

/// The message and the other fields of an event.
#[derive(Default)]
struct EventFields {
    message: String,
    fields: Map<String, Value>,
}

impl EventFields {
    fn insert(&mut self, field: &Field, value: impl Into<Value>) {
        self.fields.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.insert(field, text);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.insert(field, value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has neither infinity nor not-a-number.
        self.insert(field, serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use serde_json::json;
    use tracing_subscriber::fmt;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_event_is_one_object_with_typed_fields() {
        let written = Written::default();
        let sink = written.clone();
        let layer = fmt::layer().with_writer(move || sink.clone()).event_format(JsonEvents);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let text = "a \"b\"\nc";
            tracing::warn!(target: "part", count = 3_u64, below = -1_i64, ready = true, share = 0.5, text, shown = %"x", debugged = ?Some(1), "went {}", "wrong");
            tracing::info!(target: "part", "plain");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let expected = [
            json!({"level": "warn", "target": "part", "message": "went wrong", "fields": {
                "count": 3, "below": -1, "ready": true, "share": 0.5, "text": "a \"b\"\nc", "shown": "x", "debugged": "Some(1)",
            }}),
            json!({"level": "info", "target": "part", "message": "plain"}),
        ];
        for (line, expected) in lines.iter().zip(expected) {
            let mut line = line.clone();
            let time = line.as_object_mut().unwrap().remove("time").unwrap();
            assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
            assert_eq!(line, expected);
        }
        assert_eq!(lines.len(), 2);
    }
}
