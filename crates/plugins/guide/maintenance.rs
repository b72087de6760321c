//! # maintenance
//!
//! Answers 503 while a service is under maintenance, except to requests that know the pass.
//!
//! ```json
//! {
//!   "message": "back at noon",
//!   "retry_after": 600,
//!   "pass": "let-me-in"
//! }
//! ```
//!
//! A request with the pass in the field `X-Maintenance-Pass` reaches the upstream, without that field.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{BufferedReply, Build, Flow, Plugin, PluginKind, PluginPhase};
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;

/// The declaration: name, priority, phases, schema, and the function that builds an instance.
pub(crate) const KIND: PluginKind =
    PluginKind::new("maintenance", 2950, &[PluginPhase::Rewrite], MaintenanceConfig::schema, build)
        .documented(include_str!("maintenance.rs"));

attributes! {
    struct MaintenanceConfig {
        /// The text that clients get.
        message: String = "under maintenance".into(), { "minLength": 1 };
        /// The seconds after which clients may try again.
        retry_after: u32 = 60;
        /// The value of X-Maintenance-Pass that lets a request pass.
        pass: Option<String>, { "minLength": 8 };
    }
    { "encrypt_fields": ["pass"] }
}

/// The compiled form: everything that does not depend on the request is made when the configuration changes.
struct Maintenance {
    reply: BufferedReply,
    pass: Option<String>,
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: MaintenanceConfig = config::parse_config(config)?;
    let reply = BufferedReply::message(503, &config.message)
        .with_header("Retry-After", config.retry_after.to_string());
    Ok(Arc::new(Maintenance { reply, pass: config.pass }))
}

impl Plugin for Maintenance {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let given = exchange.request.headers.get("x-maintenance-pass");
        match &self.pass {
            Some(pass) if given == Some(pass.as_bytes()) => {
                exchange.request.headers.remove("x-maintenance-pass");
                Flow::Continue
            }
            _ => Flow::reply(self.reply.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, check_configuration, decide};
    use model::catalog::SchemaType;
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        check_configuration(&KIND, SchemaType::Plugin, &json!({}), None);
        check_configuration(&KIND, SchemaType::Plugin, &json!({"pass": "short"}), Some("pass"));
    }

    #[test]
    fn request_without_pass_is_refused() {
        let mut scene = Scene::new();
        let plugin = scene.build(&KIND, &json!({"pass": "let-me-in", "message": "soon"}));
        for (field, expected) in [("", Some(503)), ("X-Maintenance-Pass: let-me-in\r\n", None)] {
            let mut exchange = scene.exchange(format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n").as_bytes());
            let reply = decide(plugin.rewrite(&mut exchange));
            assert_eq!(reply.map(|reply| reply.status), expected, "{field}");
            assert!(expected.is_some() || !exchange.request.headers.contains("x-maintenance-pass"));
        }
    }
}
