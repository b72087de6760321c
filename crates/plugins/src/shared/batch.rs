//! The settings of a batch queue, as every logger is configured with them (contract: APISIX's batch processor). It knows
//! no logger.

use exchange::plugin::batch::QueueSettings;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The settings as they are written, beside those of the logger itself.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchFields {
    pub(crate) name: Option<Box<str>>,
    batch_max_size: Option<usize>,
    inactive_timeout: Option<u64>,
    buffer_duration: Option<u64>,
    max_retry_count: Option<u32>,
    retry_delay: Option<u64>,
}

/// The names of the settings.
pub(crate) const NAMES: [&str; 6] =
    ["name", "batch_max_size", "inactive_timeout", "buffer_duration", "max_retry_count", "retry_delay"];

/// Adds the properties to a logger's schema.
pub(crate) fn add_to_schema(schema: &mut Value, default_name: &str) {
    let number = |description: &str, minimum: u64, default: u64| json!({ "description": description, "type": "integer", "minimum": minimum, "default": default });
    let properties = json!({
        "name": {
            "description": "What metrics and messages call the queue.",
            "type": "string", "default": default_name,
        },
        "batch_max_size": number("A batch is sent as soon as it has so many entries.", 1, BATCH_MAX_SIZE as u64),
        "inactive_timeout":
            number("A batch is sent when no entry has come for so many seconds.", 1, INACTIVE_TIMEOUT_S),
        "buffer_duration":
            number("A batch is sent when its oldest entry is so many seconds old.", 1, BUFFER_DURATION_S),
        "max_retry_count": number("How often a batch that failed is sent again.", 0, 0),
        "retry_delay": number("Seconds before it is sent again.", 0, RETRY_DELAY_S),
    });
    if let (Some(schema), Value::Object(properties)) = (schema["properties"].as_object_mut(), properties) {
        schema.extend(properties);
    }
}

/// The property of a logger's metadata that bounds its queues.
pub(crate) fn max_pending_schema() -> Value {
    json!({
        "description": "The most entries each queue holds; what comes beyond is dropped.",
        "type": "integer", "minimum": 1, "default": MAX_PENDING_ENTRIES,
    })
}

/// Removes the settings from a logger's configuration and returns them.
///
/// # Errors
/// The fault, as a sentence.
pub(crate) fn take(config: &mut Map<String, Value>) -> Result<BatchFields, String> {
    let fields: Map<String, Value> =
        NAMES.iter().filter_map(|name| config.shift_remove_entry(*name)).collect();
    serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())
}

impl BatchFields {
    /// The settings of the queue that belongs to `owner`.
    pub(crate) fn settings(self, default_name: &str, owner: &str, metadata: Option<&Value>) -> QueueSettings {
        let pending =
            metadata.and_then(|metadata| metadata.get("max_pending_entries")).and_then(Value::as_u64);
        let ms = |seconds: u64| seconds.saturating_mul(1_000);
        QueueSettings {
            name: self.name.unwrap_or_else(|| default_name.into()),
            owner: owner.into(),
            batch_max_entries: self.batch_max_size.unwrap_or(BATCH_MAX_SIZE),
            buffer_duration_ms: ms(self.buffer_duration.unwrap_or(BUFFER_DURATION_S)),
            inactive_timeout_ms: ms(self.inactive_timeout.unwrap_or(INACTIVE_TIMEOUT_S)),
            max_retry_count: self.max_retry_count.unwrap_or(0),
            retry_delay_ms: ms(self.retry_delay.unwrap_or(RETRY_DELAY_S)),
            max_pending_entries: pending
                .map_or(MAX_PENDING_ENTRIES, |entries| usize::try_from(entries).unwrap_or(usize::MAX)),
        }
    }
}

const BATCH_MAX_SIZE: usize = 1_000;
const INACTIVE_TIMEOUT_S: u64 = 5;
const BUFFER_DURATION_S: u64 = 60;
const RETRY_DELAY_S: u64 = 1;
/// The default of APISIX, since it limits its queues.
const MAX_PENDING_ENTRIES: usize = 8_192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_convert_seconds_and_leave_the_rest() {
        let mut config = json!({"uri": "u", "batch_max_size": 2, "buffer_duration": 3, "retry_delay": 0});
        let config = config.as_object_mut().unwrap();
        let settings = take(config).unwrap().settings("x logger", "/routes/1", None);
        assert_eq!(config.keys().collect::<Vec<_>>(), ["uri"]);
        let expected = QueueSettings {
            name: "x logger".into(),
            owner: "/routes/1".into(),
            batch_max_entries: 2,
            buffer_duration_ms: 3_000,
            inactive_timeout_ms: 5_000,
            max_retry_count: 0,
            retry_delay_ms: 0,
            max_pending_entries: 8_192,
        };
        assert_eq!(settings, expected);
        let mut named = json!({"name": "mine"});
        let metadata = json!({"max_pending_entries": 5});
        let fields = take(named.as_object_mut().unwrap()).unwrap();
        let settings = fields.settings("x logger", "/routes/1", Some(&metadata));
        assert_eq!((&*settings.name, settings.max_pending_entries), ("mine", 5));
    }
}
