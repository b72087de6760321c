//! # proxy-buffering
//!
//! Is accepted so that configurations of APISIX keep working; it changes nothing, because Weir never buffers
//! a response.
//!
//! ```json
//! { "disable_proxy_buffering": true }
//! ```
//!
//! In APISIX `disable_proxy_buffering` sends each part of a response as soon as it arrives, and without it
//! nginx may collect the response in memory and in files. Weir sends each part as soon as it arrives in any
//! case: if the client does not read, the gateway does not read from the upstream either. Plugins that need a
//! whole response, such as `response-rewrite` with a `filters` list, wait for it with both values, as in
//! APISIX.

use std::sync::Arc;

use exchange::plugin::{Build, Plugin, PluginKind};
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("proxy-buffering", 21991, &[], ProxyBufferingConfig::schema, build)
        .documented(include_str!("proxy_buffering.rs"));

attributes! {
    struct ProxyBufferingConfig {
        /// Whether the response is sent as it arrives; Weir always does that.
        disable_proxy_buffering: bool = false;
    }
}

/// The compiled plugin: it takes part in no phase.
struct ProxyBuffering;

impl Plugin for ProxyBuffering {}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let ProxyBufferingConfig { disable_proxy_buffering: _ } = config::parse_config(config)?;
    Ok(Arc::new(ProxyBuffering))
}

#[cfg(test)]
mod tests {
    use exchange::testing::configuration_check;
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({}), None);
        check(json!({ "disable_proxy_buffering": true }), None);
        check(json!({ "disable_proxy_buffering": "on" }), Some("wrong type: expected boolean, got string"));
    }
}
