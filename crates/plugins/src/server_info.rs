//! # server-info
//!
//! Shows the identity of this instance: at `GET /v1/server_info` of the [control
//! API](../../guide/observability.md#control-api), and if a setting says so in etcd, for dashboards that list
//! the instances. APISIX calls this plugin deprecated; `GET /apisix/admin/weir/status` shows more.
//!
//! ```json
//! {}
//! ```
//!
//! The plugin need not be in any object. The endpoint answers
//!
//! ```json
//! {"boot_time":1764100000,"etcd_version":"3.5.0","hostname":"gateway-1","id":"0f8fad5b-d9cb-469f-a165-70867728950e","version":"0.2.0"}
//! ```
//!
//! | field | is |
//! |---|---|
//! | `boot_time` | when the process started, in seconds since the Unix epoch; a binary upgrade starts a new one, a reload does not |
//! | `etcd_version` | the version of the etcd cluster, once an instance that reports has asked for it; otherwise `unknown` |
//! | `hostname` | the name of the machine |
//! | `id` | the setting `instance_id`, or a random one that is kept in the data folder |
//! | `version` | the version of Weir |
//!
//! With etcd as the source of the configuration, the setting `server_info_report_seconds` writes the same
//! object to the key `data_plane/server_info/ID` below the prefix, with a lease of that many seconds
//! (APISIX's `report_ttl`), and renews the lease after half of it. It is off by default, also where the
//! plugin may be used; a `config.yaml` of APISIX that lists `server-info` switches it on. An instance without
//! an Admin API, such as a `data_plane`, does not report.

use std::sync::Arc;

use exchange::plugin::{Build, Plugin, PluginKind};
use model::control_endpoint::{ControlAnswer, ControlEndpoint};
use serde_json::{Value, json};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new("server-info", 990, &[], schema, build)
    .global()
    .with_control_endpoints(&[ControlEndpoint {
        path: "/v1/server_info",
        answer: |question| ControlAnswer::Json(question.instance.shown()),
    }])
    .documented(include_str!("server_info.rs"));

fn schema() -> Value {
    json!({ "type": "object", "title": "Show the instance", "properties": {} })
}

/// The compiled plugin.
struct ServerInfo;

fn build(_build: &Build<'_>, _config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(ServerInfo))
}

impl Plugin for ServerInfo {}

#[cfg(test)]
mod tests {
    use exchange::testing::check_configuration;
    use model::catalog::SchemaType;
    use model::control_endpoint::ControlQuestion;
    use model::instance::InstanceInfo;

    use super::*;

    #[test]
    fn configurations() {
        check_configuration(&KIND, SchemaType::Plugin, &json!({}), None);
        check_configuration(&KIND, SchemaType::Plugin, &json!("a"), Some("object"));
    }

    #[test]
    fn endpoint_shows_the_instance() {
        let instance = InstanceInfo {
            id: "one".to_owned(),
            hostname: "gateway-1".to_owned(),
            version: "0.1.0",
            boot_time_s: 7,
            ..InstanceInfo::default()
        };
        let answer =
            || (KIND.control_endpoints[0].answer)(&ControlQuestion { query: "", instance: &instance });
        let shown = |etcd: &str| json!({"boot_time": 7, "etcd_version": etcd, "hostname": "gateway-1", "id": "one", "version": "0.1.0"});
        assert_eq!(answer(), ControlAnswer::Json(shown("unknown")));
        instance.etcd_version.set("3.5.0".to_owned()).unwrap();
        assert_eq!(answer(), ControlAnswer::Json(shown("3.5.0")));
    }
}
