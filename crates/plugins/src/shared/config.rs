//! Reading a plugin's configuration into its Rust type. It knows no plugin; schemas have had their say before.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The configuration as `T`, without what every plugin may have (`_meta`).
///
/// # Errors
/// What does not fit, as a sentence.
pub(crate) fn parse<T: DeserializeOwned>(config: &Value) -> Result<T, String> {
    let mut config = config.clone();
    if let Value::Object(fields) = &mut config {
        fields.shift_remove("_meta");
    }
    serde_json::from_value(config).map_err(|error| error.to_string())
}
