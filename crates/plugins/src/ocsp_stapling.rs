//! # ocsp-stapling
//!
//! Has no effect of its own: OCSP responses are stapled by the field `ocsp_stapling` of an `ssl` object,
//! whether or not this plugin is in use. Its name is accepted so that a configuration of APISIX can be kept
//! as it is.
//!
//! ```json
//! {}
//! ```
//!
//! See [OCSP stapling](../../guide/tls.md#ocsp-stapling) for the field; its names and defaults are those of
//! APISIX. Two things differ. A response is fetched in the background before clients ask for it, for every
//! certificate of the object; APISIX fetches it during the first handshake, for the last certificate alone.
//! And a response that is out of date is not shown, with `skip_verify` neither.

use std::sync::Arc;

use exchange::plugin::{Build, Plugin, PluginKind};
use serde_json::{Value, json};

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("ocsp-stapling", -44, &[], schema, build).documented(include_str!("ocsp_stapling.rs"));

fn schema() -> Value {
    json!({ "type": "object", "title": "Accept the name of the plugin", "properties": {} })
}

/// The compiled plugin.
struct OcspStapling;

fn build(_build: &Build<'_>, _config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(OcspStapling))
}

impl Plugin for OcspStapling {}

#[cfg(test)]
mod tests {
    use exchange::testing::check_configuration;
    use model::catalog::SchemaType;

    use super::*;

    #[test]
    fn configurations() {
        check_configuration(&KIND, SchemaType::Plugin, &json!({}), None);
        check_configuration(&KIND, SchemaType::Plugin, &json!({"_meta": {"disable": true}}), None);
        check_configuration(&KIND, SchemaType::Plugin, &json!("a"), Some("object"));
    }
}
