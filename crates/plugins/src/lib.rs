//! The plugins, one file each. A file holds, in this order: its user documentation, its kind (name, priority,
//! phases), its JSON Schema, its configuration, its compiled form, its behaviour, its tests. `ALL` is the
//! only list of them.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod acl;
mod api_breaker;
mod attach_consumer_label;
#[cfg(feature = "casbin")]
mod authz_casbin;
mod authz_keycloak;
mod basic_auth;
mod batch_requests;
#[cfg(feature = "lua")]
mod body_transformer;
mod brotli;
mod clickhouse_logger;
mod client_control;
mod consumer_restriction;
mod contract;
mod cors;
mod csrf;
mod data_mask;
mod datadog;
mod degraphql;
mod echo;
mod elasticsearch_logger;
mod error_log_logger;
mod error_page;
mod example_plugin;
#[cfg(feature = "lua")]
mod exit_transformer;
mod ext_plugin_post_req;
mod ext_plugin_post_resp;
mod ext_plugin_pre_req;
mod fault_injection;
mod file_logger;
mod forward_auth;
mod google_cloud_logging;
mod graphql_limit_count;
mod graphql_proxy_cache;
mod grpc_transcode;
mod grpc_web;
mod gzip;
mod hmac_auth;
mod http_logger;
mod ip_restriction;
mod jwe_decrypt;
mod jwt_auth;
mod kafka_logger;
mod key_auth;
mod lago;
mod ldap_auth;
mod limit_conn;
mod limit_count;
mod limit_req;
mod log_rotate;
mod loggly;
mod loki_logger;
/// The example of docs/guide/writing-a-plugin.md.
#[cfg(test)]
#[path = "../guide/maintenance.rs"]
mod maintenance;
mod mocking;
mod mqtt_proxy;
mod multi_auth;
mod node_status;
mod oas_validator;
mod ocsp_stapling;
mod opa;
mod openid_connect;
mod opentelemetry;
mod prometheus;
mod protocols;
mod proxy_buffering;
mod proxy_cache;
mod proxy_control;
mod proxy_mirror;
mod proxy_rewrite;
mod public_api;
mod real_ip;
mod redirect;
mod referer_restriction;
mod request_id;
mod request_validation;
mod response_rewrite;
mod server_info;
#[cfg(feature = "lua")]
mod serverless_post_function;
#[cfg(feature = "lua")]
mod serverless_pre_function;
mod shared;
mod skywalking;
mod skywalking_logger;
mod sls_logger;
mod splunk_hec_logging;
mod syslog;
mod tcp_logger;
mod tencent_cloud_cls;
mod traffic_label;
mod traffic_split;
mod ua_restriction;
mod udp_logger;
mod uri_blocker;
mod workflow;
mod zipkin;
mod zstd;

use exchange::plugin::PluginKind;

pub use protocols::ALL as PROTOCOLS;
pub use proxy_cache::{CacheSettings, Zones};
pub use shared::runner::{CONF_EXPIRE_SECONDS, Runner, RunnerState, RunnerStatus};

/// Compiles scripts in objects; none in a build without Lua.
pub fn scripts() -> Option<std::sync::Arc<dyn exchange::plugin::scripts::Scripts>> {
    #[cfg(feature = "lua")]
    return Some(std::sync::Arc::new(lua::Language));
    #[cfg(not(feature = "lua"))]
    None
}

/// The checks of scripts in objects; none in a build without Lua.
pub fn script_checks() -> Option<model::catalog::ScriptChecks> {
    #[cfg(feature = "lua")]
    return Some(lua::SCRIPT_CHECKS);
    #[cfg(not(feature = "lua"))]
    None
}

/// Every plugin of this gateway, by priority.
pub const ALL: &[&PluginKind] = &[
    &real_ip::KIND,
    #[cfg(feature = "lua")]
    &exit_transformer::KIND,
    &client_control::KIND,
    &proxy_buffering::KIND,
    &proxy_control::KIND,
    &request_id::KIND,
    &zipkin::KIND,
    &skywalking::KIND,
    &opentelemetry::KIND,
    &ext_plugin_pre_req::KIND,
    &fault_injection::KIND,
    &mocking::KIND,
    #[cfg(feature = "lua")]
    &serverless_pre_function::KIND,
    &batch_requests::KIND,
    &cors::KIND,
    &ip_restriction::KIND,
    &ua_restriction::KIND,
    &referer_restriction::KIND,
    &csrf::KIND,
    &uri_blocker::KIND,
    &request_validation::KIND,
    &multi_auth::KIND,
    &openid_connect::KIND,
    #[cfg(feature = "casbin")]
    &authz_casbin::KIND,
    &ldap_auth::KIND,
    &hmac_auth::KIND,
    &basic_auth::KIND,
    &jwt_auth::KIND,
    &jwe_decrypt::KIND,
    &key_auth::KIND,
    &acl::KIND,
    &consumer_restriction::KIND,
    &attach_consumer_label::KIND,
    &forward_auth::KIND,
    &opa::KIND,
    &authz_keycloak::KIND,
    &data_mask::KIND,
    &error_log_logger::KIND,
    &proxy_cache::KIND,
    #[cfg(feature = "lua")]
    &body_transformer::KIND,
    &proxy_mirror::KIND,
    &graphql_proxy_cache::KIND,
    &proxy_rewrite::KIND,
    &workflow::KIND,
    &api_breaker::KIND,
    &graphql_limit_count::KIND,
    &limit_conn::KIND,
    &limit_count::KIND,
    &limit_req::KIND,
    &mqtt_proxy::KIND,
    &node_status::KIND,
    &zstd::KIND,
    &brotli::KIND,
    &gzip::KIND,
    &server_info::KIND,
    &traffic_label::KIND,
    &traffic_split::KIND,
    &redirect::KIND,
    &response_rewrite::KIND,
    &oas_validator::KIND,
    &contract::KIND,
    &degraphql::KIND,
    &grpc_transcode::KIND,
    &grpc_web::KIND,
    &public_api::KIND,
    &prometheus::KIND,
    &datadog::KIND,
    &error_page::KIND,
    &lago::KIND,
    &loki_logger::KIND,
    &elasticsearch_logger::KIND,
    &echo::KIND,
    &loggly::KIND,
    &http_logger::KIND,
    &splunk_hec_logging::KIND,
    &skywalking_logger::KIND,
    &google_cloud_logging::KIND,
    &sls_logger::KIND,
    &tcp_logger::KIND,
    &kafka_logger::KIND,
    &syslog::KIND,
    &udp_logger::KIND,
    &file_logger::KIND,
    &clickhouse_logger::KIND,
    &tencent_cloud_cls::KIND,
    &log_rotate::KIND,
    &example_plugin::KIND,
    &ocsp_stapling::KIND,
    #[cfg(feature = "lua")]
    &serverless_post_function::KIND,
    &ext_plugin_post_req::KIND,
    &ext_plugin_post_resp::KIND,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use exchange::testing::{accepts, know};
    use model::catalog::{PluginCatalog, SchemaType};
    use serde_json::Value;

    use super::ALL;

    /// Files that hold no plugin.
    const OTHERS: [&str; 3] = ["lib", "protocols", "shared"];

    #[test]
    fn the_list_and_the_folder_agree() {
        let listed: BTreeSet<String> = ALL.iter().map(|kind| kind.name.replace('-', "_")).collect();
        assert_eq!(listed.len(), ALL.len(), "a plugin is listed twice");
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap();
        let files = folder.filter_map(|entry| {
            let path = entry.unwrap().path();
            let stem = path.file_stem()?.to_str()?.to_owned();
            let is_built = match &*stem {
                "authz_casbin" => cfg!(feature = "casbin"),
                "body_transformer"
                | "exit_transformer"
                | "serverless_post_function"
                | "serverless_pre_function" => cfg!(feature = "lua"),
                _ => true,
            };
            (path.extension()? == "rs" && !OTHERS.contains(&&*stem) && is_built).then_some(stem)
        });
        for file in files {
            assert!(
                listed.contains(&file),
                "crates/plugins/src/{file}.rs is not in the list: add `mod {file};` and, in `ALL` by priority, \
                 `&{file}::KIND,` to crates/plugins/src/lib.rs; a file that is no plugin belongs in `shared`"
            );
        }
    }

    #[test]
    fn a_file_has_the_name_of_its_plugin() {
        for kind in ALL {
            let stem = kind.name.replace('-', "_");
            let path = format!("{}/src/{stem}.rs", env!("CARGO_MANIFEST_DIR"));
            assert!(std::path::Path::new(&path).exists(), "the file of {} has to be {stem}.rs", kind.name);
        }
    }

    #[test]
    fn the_list_is_in_running_order() {
        let order = |kind: &exchange::plugin::PluginKind| (std::cmp::Reverse(kind.priority), kind.name);
        for pair in ALL.windows(2) {
            let (first, second) = (pair[0], pair[1]);
            assert!(
                order(first) <= order(second),
                "in `ALL` of crates/plugins/src/lib.rs, {} (priority {}) has to stand before {} (priority {})",
                second.name,
                second.priority,
                first.name,
                first.priority
            );
        }
    }

    /// Removes one letter of every attribute of every plugin; each is refused, and the message names the
    /// right one.
    #[test]
    fn misspelt_attribute_is_refused_with_nearest() {
        know(ALL);
        for kind in ALL {
            let mut uses = vec![(SchemaType::Plugin, (kind.schema)(), example(kind))];
            if let Some(schema) = kind.consumer_schema {
                uses.push((SchemaType::Consumer, schema(), nth_example(kind, 1)));
            }
            for (schema_type, schema, good) in uses {
                assert_eq!(accepts(kind, schema_type, &good), Ok(()), "{}", kind.name);
                let known = schema["properties"].as_object().unwrap();
                for name in known.keys().filter(|name| name.len() > 3) {
                    let misspelt = &name[..name.len() - 1];
                    if known.contains_key(misspelt) {
                        continue;
                    }
                    let mut config = good.clone();
                    config[misspelt] = Value::Null;
                    let reason = accepts(kind, schema_type, &config).unwrap_err();
                    let hint = format!("did you mean `{name}`?");
                    assert!(reason.contains(misspelt) && reason.contains(&hint), "{}: {reason}", kind.name);
                }
            }
        }
    }

    /// An unknown field in any object of a configuration is refused by the schema, or taken out before the
    /// plugin sees it.
    #[test]
    fn accepted_unknown_fields_reach_no_plugin() {
        know(ALL);
        let catalog = PluginCatalog::new(ALL.iter().map(|kind| kind.info()).collect()).unwrap();
        for kind in ALL {
            let example = example(kind);
            for pointer in objects(&example, "") {
                let mut config = example.clone();
                config.pointer_mut(&pointer).unwrap()["zz_unknown"] = serde_json::json!("x");
                let (object, route) = if kind.serves_http {
                    (
                        model::ObjectKind::Route,
                        serde_json::json!({"uri": "/", "plugins": {kind.name: config}}),
                    )
                } else {
                    (model::ObjectKind::StreamRoute, serde_json::json!({"plugins": {kind.name: config}}))
                };
                let key = model::ObjectKey::new(object, "r").unwrap();
                match model::check::check_object(&catalog, &key, &route) {
                    Ok(checked) => {
                        let known = &checked.resource.plugins().get(kind.name).unwrap().config;
                        assert_eq!(accepts(kind, SchemaType::Plugin, known), Ok(()), "{}", kind.name);
                        // A plugin without fields reads none, so that no name is unknown to it.
                        let has_fields = (kind.schema)()["properties"] != serde_json::json!({});
                        let is_warned = checked.warnings.len() == 1;
                        assert!(pointer != *"" || is_warned || !has_fields, "{}", kind.name);
                    }
                    Err(refusal) => {
                        let reason = refusal.contract_message();
                        assert!(!reason.contains("expected one of"), "{}: {reason}", kind.name);
                        assert!(!pointer.is_empty(), "{}: {reason}", kind.name);
                    }
                }
            }
        }
    }

    /// The pointers of all objects in a value.
    fn objects(value: &Value, pointer: &str) -> Vec<String> {
        let below = |(step, value): (String, &Value)| objects(value, &format!("{pointer}/{step}"));
        match value {
            Value::Object(fields) => {
                let inner =
                    fields.iter().map(|(name, value)| (name.replace('/', "~1"), value)).flat_map(below);
                std::iter::once(pointer.to_owned()).chain(inner).collect()
            }
            Value::Array(items) => items
                .iter()
                .enumerate()
                .map(|(index, value)| (index.to_string(), value))
                .flat_map(below)
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The first example of a plugin's documentation.
    fn example(kind: &exchange::plugin::PluginKind) -> Value {
        nth_example(kind, 0)
    }

    /// An example of a plugin's documentation. The second one of an authentication plugin is for consumers.
    pub(crate) fn nth_example(kind: &exchange::plugin::PluginKind, index: usize) -> Value {
        let documentation = kind.documentation.lines().map_while(|line| line.strip_prefix("//!"));
        let text: String = documentation.map(|line| format!("{}\n", line.trim_start())).collect();
        let example = text.split("```json\n").nth(1 + index).and_then(|rest| rest.split("```").next());
        serde_json::from_str(example.expect(kind.name)).unwrap()
    }

    #[test]
    fn every_schema_is_valid_and_has_descriptions() {
        let catalog = PluginCatalog::new(ALL.iter().map(|kind| kind.info()).collect()).unwrap();
        for plugin in catalog.iter() {
            assert_eq!(plugin.compile(), Ok(()), "{:?}", plugin.info());
        }
        for kind in ALL {
            let schemas = [Some(kind.schema), kind.consumer_schema, kind.metadata_schema];
            for schema in schemas.into_iter().flatten() {
                check_descriptions(kind.name, &schema());
            }
        }
    }

    fn check_descriptions(path: &str, schema: &Value) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            assert!(property["description"].is_string(), "{path} has no description");
            check_descriptions(&path, property);
            check_descriptions(&path, &property["items"]);
        }
    }

    /// Secrets that may be empty: an empty one stands for none, so that nothing is protected by it.
    const EMPTY_MEANS_NONE: [(&str, &str); 6] = [
        // As in APISIX, where the field is empty by default.
        ("http-logger", "auth_header"),
        // ClickHouse's default user has no password.
        ("clickhouse-logger", "password"),
        ("error-log-logger", "clickhouse.password"),
        // A connection to Redis logs in only with a password.
        ("*", "redis_password"),
        ("*", "sentinel_password"),
        ("openid-connect", "session.redis.password"),
    ];

    /// A client that sends nothing must find no consumer, and nothing is signed or encrypted with an empty
    /// text.
    #[test]
    fn no_secret_and_no_key_may_be_empty() {
        let mut checked = 0;
        for kind in ALL {
            let schemas = [Some(kind.schema), kind.consumer_schema, kind.metadata_schema];
            for schema in schemas.into_iter().flatten().map(|schema| schema()) {
                let secrets = schema["encrypt_fields"].as_array().into_iter().flatten();
                let secrets = secrets.map(|field| field.as_str().unwrap());
                let is_of_consumers =
                    schema["properties"].get(kind.consumer_key.first().unwrap_or(&"")).is_some();
                let keys = kind.consumer_key.iter().copied().filter(|_| is_of_consumers);
                for field in secrets.chain(keys) {
                    let is_exception = |(plugin, own): &(&str, &str)| {
                        (*plugin == "*" || *plugin == kind.name) && *own == field
                    };
                    let may_be_empty = EMPTY_MEANS_NONE.iter().any(is_exception);
                    let property = property(&schema, field);
                    assert_eq!(takes_empty(property), may_be_empty, "{} {field}: {property}", kind.name);
                    checked += 1;
                }
            }
        }
        assert!(checked > 30, "{checked}");
    }

    /// The schema of a field, which may be inside objects and lists.
    fn property<'s>(schema: &'s Value, field: &str) -> &'s Value {
        field.split('.').fold(schema, |schema, name| {
            let object = if schema["items"].is_object() { &schema["items"] } else { schema };
            &object["properties"][name]
        })
    }

    /// Whether a text that the schema accepts, or a value in an object, may be empty.
    fn takes_empty(schema: &Value) -> bool {
        match schema["type"].as_str() {
            Some("object") => {
                let patterns = schema["patternProperties"].as_object().expect("named by patterns");
                patterns.values().any(takes_empty)
            }
            _ => schema["minLength"].as_u64().unwrap_or_default() == 0,
        }
    }

    #[test]
    fn auth_plugins_declare_their_consumer_key() {
        for kind in ALL {
            assert_eq!(kind.consumer_schema.is_some(), !kind.consumer_key.is_empty(), "{}", kind.name);
            assert!(kind.auth || kind.consumer_schema.is_none(), "{}", kind.name);
        }
    }

    #[test]
    fn every_plugin_documents_a_valid_example() {
        know(ALL);
        for kind in ALL {
            assert_eq!(kind.documentation.lines().next(), Some(format!("//! # {}", kind.name).as_str()));
            let example = example(kind);
            let accepted = accepts(kind, SchemaType::Plugin, &example);
            assert_eq!(accepted, Ok(()), "{}", kind.name);
        }
    }
}
