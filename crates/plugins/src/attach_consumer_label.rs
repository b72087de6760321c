//! # attach-consumer-label
//!
//! Sends labels of the authenticated consumer to the upstream, in request fields.
//!
//! ```json
//! {
//!     "headers": {
//!         "X-Consumer-Department": "$department",
//!         "X-Consumer-Company": "$company"
//!     }
//! }
//! ```
//!
//! Each entry of `headers` is the name of a field and, behind a dollar sign, the name of a label. The field
//! replaces those of the same name that the client sent. Without a consumer, without the label, or with a
//! value that is not valid in a field, the fields of the client are removed and none is sent, so that the
//! upstream may trust the field.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{Build, Explained, Flow, Plugin, PluginKind, PluginPhase, explain_by_running};
use serde_json::{Map, Value};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::fields;

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "attach-consumer-label",
    2399,
    &[PluginPhase::BeforeProxy],
    AttachConsumerLabelConfig::schema,
    build,
)
.checked(|config| compile(config).map(drop))
.documented(include_str!("attach_consumer_label.rs"));

attributes! {
    struct AttachConsumerLabelConfig {
        /// The label behind a dollar sign for each request field.
        headers: Map<String, Value>, {
            "minProperties": 1,
            "additionalProperties": {"type": "string", "pattern": "^\\$.*"},
        };
    }
    {"title": "Tell the upstream labels of the consumer"}
}

struct AttachConsumerLabel {
    /// Names of fields, each with the name of its label.
    fields: Vec<(Box<str>, Box<str>)>,
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(config)?))
}

fn compile(config: &Value) -> Result<AttachConsumerLabel, String> {
    let config: AttachConsumerLabelConfig = config::parse_config(config)?;
    let read = |(field, label): (&String, &Value)| {
        let field = fields::parse_field_name(field).map_err(|reason| format!("headers: {reason}"))?;
        let label = label.as_str().and_then(|label| label.strip_prefix('$'));
        let label = label.ok_or_else(|| format!("headers: {field}: a label begins with a dollar sign"))?;
        Ok((field, label.into()))
    };
    Ok(AttachConsumerLabel { fields: config.headers.iter().map(read).collect::<Result<_, String>>()? })
}

impl Plugin for AttachConsumerLabel {
    fn before_proxy<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let consumer = exchange.consumer().cloned();
        for (field, label) in &self.fields {
            exchange.remove_request_field(field);
            let labels = consumer.iter().flat_map(|consumer| &consumer.labels);
            if let Some((_, value)) = labels.into_iter().find(|(name, _)| name == label) {
                // A value that cannot stand in a field leaves it out.
                let _ = exchange.request.headers.set(field, value.as_bytes());
            }
        }
        Flow::Continue
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, configuration_check, consumer, decide, lines};
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({"headers": {"X-Department": "$department", "X-Role": "$"}}), None);
        check(json!({}), Some("headers"));
        check(json!({"headers": {}}), Some("headers"));
        check(json!({"headers": {"X-Department": "department"}}), Some("X-Department"));
        check(json!({"headers": {"X Department": "$department"}}), Some("invalid field character"));
    }

    #[test]
    fn only_the_consumers_labels_are_sent() {
        let check = |labels: Option<&[(&str, &str)]>, expected: &[&str]| {
            let mut scene = Scene::new();
            let plugin = scene.build(&KIND, &json!({"headers": {"X-Team": "$team", "X-Role": "$role"}}));
            let head = b"GET / HTTP/1.1\r\nHost: a\r\nX-Role: root\r\nx-team: forged\r\nX-Team: too\r\n\r\n";
            let mut exchange = scene.exchange(head);
            if let Some(labels) = labels {
                let mut jack = consumer("jack");
                jack.labels = labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
                exchange.authenticate(Arc::new(jack));
            }
            assert!(decide(plugin.before_proxy(&mut exchange)).is_none());
            assert_eq!(lines(&exchange.request.headers), expected, "{labels:?}");
        };
        check(Some(&[("team", "infra"), ("org", "x")]), &["Host: a", "X-Team: infra"]);
        check(Some(&[("team", "a\r\nb"), ("role", "user")]), &["Host: a", "X-Role: user"]);
        check(Some(&[]), &["Host: a"]);
        check(None, &["Host: a"]);
    }
}
