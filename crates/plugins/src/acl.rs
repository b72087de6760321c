//! # acl
//!
//! Admits or refuses requests by the labels of their authenticated consumer, or of a user that logged in
//! elsewhere.
//!
//! ```json
//! {
//!     "allow_labels": {"team": ["cloud", "infra"], "org": ["api7"]},
//!     "deny_labels": {"plan": ["expired"]},
//!     "rejected_msg": "your team has no access"
//! }
//! ```
//!
//! A label of the consumer counts as listed if one of its values is in the list of the label's name. A text
//! that begins with `[` is a JSON list of values, a text with commas is a list of values between commas, any
//! other text is one value. A consumer with a label in `deny_labels` is refused. With `allow_labels`, a
//! consumer without a label in it is refused. At least one of the two is given.
//!
//! A refused request is answered with `rejected_code` and `{"message": "…"}`. A request without consumer and
//! without such a user is answered with 401.
//!
//! A plugin may log in a user without a consumer. `external_user_label_field` is a JSON path that leads to
//! the user's labels, such as `groups` or `$.orgs..team`; the name under which they are looked for in the
//! lists is `external_user_label_field_key`, or the path itself. `external_user_label_field_parser` says how
//! each value is read: `segmented_text` splits a text at the regular expression
//! `external_user_label_field_separator` and takes the white space around it away, `json` reads a text as a
//! JSON list, `table` takes a list as it is. A value of another form has no labels. Without a parser a list
//! is taken as it is and a text is read as a consumer's label.

mod labels;

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, Plugin, PluginKind, PluginPhase, explain_by_running,
};
use router::vars::{GaveUp, JsonPath, VariableSource};
use serde_json::{Map, Value, json};

use crate::shared::attributes::{Attribute, attributes, words};
use crate::shared::config;
use labels::{LabelMatcher, Parser};

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("acl", 2410, &[PluginPhase::Access], AclConfig::schema, build)
        .checked(|config| compile(config).map(drop))
        .documented(include_str!("acl.rs"));

attributes! {
    struct AclConfig {
        /// The JSON path of an external user's labels.
        external_user_label_field: String = "groups".into(), {"minLength": 1};
        /// The name of an external user's labels in the lists; the path without it.
        external_user_label_field_key: Option<Box<str>>, {"minLength": 1};
        /// How the labels of an external user are written.
        external_user_label_field_parser: Option<ParserName>;
        /// The regular expression between labels in a segmented text.
        external_user_label_field_separator: Option<String>, {"minLength": 1};
        /// The labels of which one is needed to pass.
        allow_labels: Option<Map<String, Value>>, {"minProperties": 1, "patternProperties": {".*": values()}};
        /// The labels of which one is enough to be refused.
        deny_labels: Option<Map<String, Value>>, {"minProperties": 1, "patternProperties": {".*": values()}};
        /// The status of a refusal.
        rejected_code: u16 = 403, {"minimum": 200, "maximum": 599};
        /// The message of a refusal.
        rejected_msg: Option<String>;
    }
    {
        "title": "Pass or refuse by labels of the consumer",
        "allOf": [{
            "if": {
                "required": ["external_user_label_field_parser"],
                "properties": {"external_user_label_field_parser": {"const": "segmented_text"}},
            },
            "then": {"required": ["external_user_label_field_separator"]},
        }],
        "anyOf": [{"required": ["allow_labels"]}, {"required": ["deny_labels"]}],
    }
}

fn values() -> Value {
    json!({"type": "array", "minItems": 1, "items": {"type": "string"}})
}

words! {
    enum ParserName {
        SegmentedText = "segmented_text",
        Json = "json",
        Table = "table",
    }
}

struct Acl {
    path: JsonPath,
    /// The name of the labels that `path` leads to.
    external_name: Box<str>,
    parser: Option<Parser>,
    allowed: Option<LabelMatcher>,
    denied: Option<LabelMatcher>,
    refusal: BufferedReply,
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(config)?))
}

fn compile(config: &Value) -> Result<Acl, String> {
    let config: AclConfig = config::parse_config(config)?;
    let field = config.external_user_label_field;
    let path = JsonPath::parse_recursive(&field)
        .map_err(|error| format!("invalid external_user_label_field: {error}"))?;
    let separator = config.external_user_label_field_separator;
    let parser = match (config.external_user_label_field_parser, separator) {
        (None, _) => None,
        (Some(ParserName::Json), _) => Some(Parser::Json),
        (Some(ParserName::Table), _) => Some(Parser::Table),
        (Some(ParserName::SegmentedText), Some(separator)) => Some(
            Parser::segmented(&separator)
                .map_err(|reason| format!("external_user_label_field_separator: {reason}"))?,
        ),
        (Some(ParserName::SegmentedText), None) => {
            return Err("segmented_text needs external_user_label_field_separator".to_owned());
        }
    };
    let message = config.rejected_msg.as_deref().unwrap_or("The consumer is forbidden.");
    Ok(Acl {
        path,
        external_name: config.external_user_label_field_key.unwrap_or_else(|| field.into()),
        parser,
        allowed: config.allow_labels.map(LabelMatcher::read).transpose()?,
        denied: config.deny_labels.map(LabelMatcher::read).transpose()?,
        refusal: BufferedReply::message(config.rejected_code, message),
    })
}

impl Acl {
    /// Whether the request passes; none without an authenticated user.
    fn verdict(&self, exchange: &Exchange) -> Result<Option<bool>, GaveUp> {
        let is_listed = |labels: &Option<LabelMatcher>| match (labels, exchange.consumer()) {
            (None, _) => Ok(None),
            (Some(labels), Some(consumer)) => Ok(Some(labels.match_consumer(consumer))),
            (Some(labels), None) => {
                let user = exchange.decision.external_user.as_deref();
                let values = user.map(|user| self.path.select(user)).unwrap_or_default();
                labels.match_values(&self.external_name, &values, self.parser.as_ref()).map(Some)
            }
        };
        if exchange.consumer().is_none() && exchange.decision.external_user.is_none() {
            return Ok(None);
        }
        let denied = is_listed(&self.denied)?.unwrap_or(false);
        Ok(Some(!denied && is_listed(&self.allowed)?.unwrap_or(true)))
    }
}

impl Plugin for Acl {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match self.verdict(exchange) {
            Ok(Some(true)) => Flow::Continue,
            Ok(Some(false)) => Flow::reply(self.refusal.clone()),
            Ok(None) => Flow::reply(BufferedReply::message(401, "Missing authentication.")),
            Err(reason) => {
                // The engine refuses a request for which a rule is undecided.
                exchange.search_gave_up(reason);
                Flow::Continue
            }
        }
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

#[cfg(test)]
mod tests;
