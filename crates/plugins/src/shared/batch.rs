//! The settings of a batch queue, as every logger is configured with them (contract: APISIX's batch
//! processor). It knows no logger.

use exchange::plugin::batch::QueueSettings;
use serde_json::{Value, json};

use super::attributes::attributes;

attributes! {
    /// The settings as they are written, beside those of the logger itself.
    pub(crate) struct BatchFields {
        /// The name of the queue in metrics and messages.
        name: Option<Box<str>>;
        /// A batch is sent as soon as it has so many entries.
        batch_max_size: usize = BATCH_MAX_SIZE, { "minimum": 1 };
        /// A batch is sent when no entry has come for so many seconds.
        inactive_timeout: u64 = 5, { "minimum": 1 };
        /// A batch is sent when its oldest entry is so many seconds old.
        buffer_duration: u64 = 60, { "minimum": 1 };
        /// How often a batch that failed is sent again.
        max_retry_count: u32 = 0, { "minimum": 0 };
        /// Seconds before it is sent again.
        retry_delay: u64 = 1, { "minimum": 0 };
    }
}

/// The property of a logger's metadata that bounds its queues.
pub(crate) fn max_pending_schema() -> Value {
    json!({
        "description": "The most entries each queue holds; what comes beyond is dropped.",
        "type": "integer", "minimum": 1, "default": MAX_PENDING_ENTRIES,
    })
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
            batch_max_entries: self.batch_max_size,
            buffer_duration_ms: ms(self.buffer_duration),
            inactive_timeout_ms: ms(self.inactive_timeout),
            max_retry_count: self.max_retry_count,
            retry_delay_ms: ms(self.retry_delay),
            max_pending_entries: pending
                .map_or(MAX_PENDING_ENTRIES, |entries| usize::try_from(entries).unwrap_or(usize::MAX)),
        }
    }
}

/// The default of `batch_max_size`.
pub(crate) const BATCH_MAX_SIZE: usize = 1_000;
/// The default of APISIX, since it limits its queues.
pub(crate) const MAX_PENDING_ENTRIES: usize = 8_192;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::attributes::{Attribute, AttributeFields};

    #[test]
    fn settings_convert_seconds_and_leave_the_rest() {
        let config = json!({"uri": "u", "batch_max_size": 2, "buffer_duration": 3, "retry_delay": 0});
        let mut config = AttributeFields::of(config).unwrap();
        let settings = BatchFields::take(&mut config).unwrap().settings("x logger", "/routes/1", None);
        assert_eq!(config.finish(&[]), Err("unknown field `uri`".to_owned()));
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
        let metadata = json!({"max_pending_entries": 5});
        let fields = BatchFields::read(json!({"name": "mine"})).unwrap();
        let settings = fields.settings("x logger", "/routes/1", Some(&metadata));
        assert_eq!((&*settings.name, settings.max_pending_entries), ("mine", 5));
    }
}
