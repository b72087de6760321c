//! The fields that log plugins share: what an entry holds, and which bodies. They are read here and compiled
//! in `contents`.

use serde_json::{Map, Value, json};

use crate::shared::attributes::attributes;

/// The default of `max_req_body_bytes` and `max_resp_body_bytes`.
pub(crate) const BODY_MAX_BYTES: usize = 512 * 1024;

attributes! {
    /// The fields of an entry.
    #[derive(Default)]
    pub(crate) struct FormatFields {
        /// The fields of an entry, in place of all parts.
        log_format: Option<Map<String, Value>>;
        /// Further fields of an entry that holds all parts.
        log_format_extra: Option<Map<String, Value>>;
    }
}

attributes! {
    /// The bodies in an entry that holds all parts.
    pub(crate) struct BodyFields {
        /// Adds the request body.
        include_req_body: bool = false;
        /// Adds the request body only where this holds.
        include_req_body_expr: Option<Value>, { "type": "array", "minItems": 1, "items": { "type": "array" } };
        /// Adds the response body.
        include_resp_body: bool = false;
        /// Adds the response body only where this holds.
        include_resp_body_expr: Option<Value>, { "type": "array", "minItems": 1, "items": { "type": "array" } };
        /// The most bytes of the request body that are added.
        max_req_body_bytes: usize = BODY_MAX_BYTES, { "minimum": 1 };
        /// The most bytes of the response body that are added.
        max_resp_body_bytes: usize = BODY_MAX_BYTES, { "minimum": 1 };
    }
}

impl FormatFields {
    /// The schema of the same fields in the metadata.
    pub(crate) fn metadata_schema() -> Value {
        json!({
            "properties": {
                "log_format": {
                    "description": "The fields of an entry, for instances without a format of their own.",
                    "type": "object",
                },
                "log_format_extra": {
                    "description": "Further fields of an entry, for instances without such of their own.",
                    "type": "object",
                },
            },
        })
    }
}

impl Default for BodyFields {
    fn default() -> BodyFields {
        BodyFields {
            include_req_body: false,
            include_req_body_expr: None,
            include_resp_body: false,
            include_resp_body_expr: None,
            max_req_body_bytes: BODY_MAX_BYTES,
            max_resp_body_bytes: BODY_MAX_BYTES,
        }
    }
}
