//! # data-mask
//!
//! Masks parts of requests before loggers, tracers and the access log see them. Upstreams get the request as
//! it is.
//!
//! ```json
//! {
//!   "request": [
//!     { "type": "query", "name": "password", "action": "remove" },
//!     { "type": "header", "name": "X-API-Key", "action": "replace", "value": "*****" },
//!     { "type": "query", "name": "card", "action": "regex",
//!       "regex": "(\\d+)-\\d+-\\d+-(\\d+)", "value": "$1-****-****-$2" },
//!     { "type": "body", "body_format": "json", "name": "$.users[*].token", "action": "replace", "value": "*****" },
//!     { "type": "body", "body_format": "urlencoded", "name": "password", "action": "remove" }
//!   ]
//! }
//! ```
//!
//! **Rules** run in order. `type` is `query`, `header` or `body`. `name` is the argument or the field; of a
//! body with `body_format` `json` it is a JSONPath (RFC 9535; the `$` in front may be left out; at most 1
//! KiB, 8 brackets inside each other, 4 filters, 2 `..` and 16 commas), and of one with `urlencoded` the name
//! in the form. `action` is `remove`, `replace` by `value`, or `regex`: the first match of `regex` is
//! replaced by `value`, with groups as `$1`. An argument or field that occurs several times is masked in all
//! places; `replace` leaves one. In JSON, `regex` leaves values that are no text as they are: use `replace`
//! for numbers.
//!
//! **Masked parts.** The query in every variable that shows it (`$request_uri`, `$request`, `$args`,
//! `$arg_…`, `$upstream_uri`), the fields of the request (`$http_…`, `$cookie_…`), and the request body that
//! loggers ask for. Responses are not masked.
//!
//! **Bodies.** The first `max_body_size` bytes are kept for the mask where a rule is for bodies. A form has
//! at most `max_req_post_args` arguments (0: any number); further ones are left out of the log. A body that
//! the rules cannot read is not logged at all: one that is longer than `max_body_size`, was cut or
//! compressed, is no JSON while all rules for bodies are for JSON, or is no form while all of them are for
//! forms. A body is a form if its `Content-Type` is `application/x-www-form-urlencoded`; where there are
//! rules for JSON too, it is read as JSON first.
//!
//! **Faults.** A pattern that gives up and a value that cannot stand in a field remove what they should have
//! masked.

mod form;
mod json;

use std::sync::Arc;

use exchange::Exchange;
use exchange::observe::pace::Pace;
use exchange::plugin::{BodyNeed, Build, Plugin, PluginKind, PluginPhase};
use jsonx::Bounds;
use serde_json::{Value, json};

use self::form::FormRule;
use self::json::JsonRule;
use crate::shared::attributes::{Attribute, attributes, words};
use crate::shared::config;
use crate::shared::encoding::decode::codings;
use crate::shared::substitution::{PatternOptions, Substitution};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "data-mask",
    1500,
    &[PluginPhase::RequestBody, PluginPhase::BeforeLog],
    DataMaskConfig::schema,
    build,
)
.checked(|config| compile(config).map(drop))
.documented(include_str!("data_mask.rs"));

attributes! {
    struct DataMaskConfig {
        /// The rules for the request, done in order.
        request: Option<Vec<DataMaskRuleConfig>>;
        /// The longest request body that is masked, in bytes; a longer one is not logged.
        max_body_size: usize = 1024 * 1024, { "exclusiveMinimum": 0 };
        /// The most arguments of a form that are read; 0 is without a limit.
        max_req_post_args: usize = 100, { "minimum": 0 };
    }
}

attributes! {
    struct DataMaskRuleConfig {
        /// The part of the request.
        r#type: MaskTarget;
        /// The format of the body, for `body`.
        body_format: Option<BodyFormat>;
        /// The argument, the field, or the JSONPath.
        name: String;
        /// The action.
        action: ActionName;
        /// The pattern, for `regex`.
        regex: Option<String>;
        /// The new text, for `replace` and `regex`.
        value: Option<String>;
    }
    {
        "description": "A rule.",
        "allOf": [
            requires("type", "body", &["body_format"]),
            requires("action", "regex", &["regex", "value"]),
            requires("action", "replace", &["value"]),
        ],
    }
}

words! {
    enum MaskTarget {
        Query = "query",
        Header = "header",
        Body = "body",
    }
}

words! {
    enum BodyFormat {
        Json = "json",
        Urlencoded = "urlencoded",
    }
}

words! {
    enum ActionName {
        Regex = "regex",
        Replace = "replace",
        Remove = "remove",
    }
}

/// Fields that a rule needs where `field` is `word`.
fn requires(field: &str, word: &str, needed: &[&str]) -> Value {
    json!({ "if": { "properties": { field: { "const": word } } }, "then": { "required": needed } })
}

/// An action on a value.
enum MaskAction {
    Remove,
    Replace(Box<str>),
    Substitute(Box<Substitution>),
}

/// The result of an action on one value.
#[derive(Debug, PartialEq, Eq)]
enum Masked {
    Kept,
    Removed,
    Replaced(Vec<u8>),
}

impl MaskAction {
    fn compile(rule: &DataMaskRuleConfig) -> Result<MaskAction, String> {
        let value = rule.value.as_deref().unwrap_or_default();
        Ok(match rule.action {
            ActionName::Remove => MaskAction::Remove,
            ActionName::Replace => MaskAction::Replace(value.into()),
            ActionName::Regex => {
                let pattern = rule.regex.as_deref().unwrap_or_default();
                let substitution = match config::checkable_pair(pattern, value) {
                    Some((pattern, value)) => {
                        Substitution::compile(pattern, value, PatternOptions::default())
                    }
                    None => Substitution::compile("", "", PatternOptions::default()),
                };
                let refused = |reason: String| format!("regex \"{pattern}\": {reason}");
                MaskAction::Substitute(Box::new(substitution.map_err(refused)?))
            }
        })
    }

    fn apply(&self, value: &[u8]) -> Masked {
        match self {
            MaskAction::Remove => Masked::Removed,
            MaskAction::Replace(text) => Masked::Replaced(text.as_bytes().to_vec()),
            MaskAction::Substitute(substitution) => match substitution.once(value) {
                Ok(Some((text, _))) => Masked::Replaced(text),
                Ok(None) => Masked::Kept,
                // The value may be what the pattern should have hidden.
                Err(_) => Masked::Removed,
            },
        }
    }
}

/// A rule for the fields of the request.
struct FieldRule {
    name: Box<str>,
    action: MaskAction,
}

/// The compiled plugin.
#[derive(Default)]
struct DataMask {
    query: Vec<FormRule>,
    fields: Vec<FieldRule>,
    forms: Vec<FormRule>,
    json: Vec<JsonRule>,
    max_body_bytes: usize,
    max_arguments: usize,
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    compile(config).map(|plugin| Arc::new(plugin) as Arc<dyn Plugin>)
}

fn compile(config: &Value) -> Result<DataMask, String> {
    let config: DataMaskConfig = config::parse_config(config)?;
    let max_arguments = match config.max_req_post_args {
        0 => usize::MAX,
        most => most,
    };
    let mut plugin = DataMask { max_body_bytes: config.max_body_size, max_arguments, ..DataMask::default() };
    for (index, rule) in config.request.iter().flatten().enumerate() {
        plugin.add(rule).map_err(|reason| format!("request[{index}]: {reason}"))?;
    }
    Ok(plugin)
}

/// Bodies that were not logged because they cannot be masked. Clients may cause them, so there is one line in
/// ten seconds at most.
static WITHHELD: Pace = Pace::every_ms(10_000);

impl DataMask {
    fn add(&mut self, rule: &DataMaskRuleConfig) -> Result<(), String> {
        let (name, action) = (&*rule.name, MaskAction::compile(rule)?);
        match (rule.r#type, rule.body_format) {
            (MaskTarget::Query, _) => self.query.push(FormRule::new(name, action)),
            (MaskTarget::Header, _) => self.fields.push(FieldRule { name: name.into(), action }),
            (MaskTarget::Body, Some(BodyFormat::Json)) => self.json.push(JsonRule::compile(name, action)?),
            (MaskTarget::Body, _) => self.forms.push(FormRule::new(name, action)),
        }
        Ok(())
    }

    fn concerns_bodies(&self) -> bool {
        !(self.forms.is_empty() && self.json.is_empty())
    }

    fn mask_query(&self, exchange: &mut Exchange) {
        let mask = |query: &[u8]| form::mask_form(&self.query, query, usize::MAX);
        if let Some(masked) = exchange.request.query().and_then(mask) {
            exchange.request.set_query(Some(&*masked).filter(|query| !query.is_empty()));
        }
        // The query that another plugin has made for the upstream; an empty one means none.
        if let Some(masked) = exchange.target.forward_query.as_deref().and_then(mask) {
            exchange.target.forward_query = Some(masked);
        }
    }

    fn mask_fields(&self, exchange: &mut Exchange) {
        let headers = &mut exchange.request.headers;
        for FieldRule { name, action } in &self.fields {
            let before: Vec<Vec<u8>> = headers.get_all(name).map(<[u8]>::to_vec).collect();
            let masked: Vec<Masked> = before.iter().map(|value| action.apply(value)).collect();
            if masked.iter().all(|value| *value == Masked::Kept) {
                continue;
            }
            headers.remove(name);
            let once = if matches!(action, MaskAction::Replace(_)) { 1 } else { usize::MAX };
            for (before, masked) in before.into_iter().zip(masked).take(once) {
                // A value that cannot stand in a field is left out.
                let _ = match masked {
                    Masked::Removed => continue,
                    Masked::Kept => headers.append(name, &before),
                    Masked::Replaced(value) => headers.append(name, &value),
                };
            }
        }
    }

    fn mask_body(&self, exchange: &mut Exchange) {
        if exchange.read_request_body(<[u8]>::is_empty).unwrap_or(true) {
            return;
        }
        let masked = exchange.read_whole_request_body(|body| self.masked_body(body, is_form(exchange)));
        match masked.unwrap_or(Err("it is longer than `max_body_size`, or was cut")) {
            Ok(None) => return,
            Ok(Some(body)) => exchange.body.keep_whole(body, None),
            Err(reason) => {
                if let Some(count) = WITHHELD.add(1, exchange.local().now_ms()) {
                    tracing::warn!(reason, count, "data-mask keeps a request body out of the logs");
                }
                exchange.body.reset();
            }
        }
        exchange.copies.request = None;
    }

    /// The body for the logs; none if it stays as it is.
    fn masked_body(&self, body: &[u8], is_form: bool) -> Result<Option<Vec<u8>>, &'static str> {
        if body.len() > self.max_body_bytes {
            return Err("it is longer than `max_body_size`");
        }
        if !self.json.is_empty() {
            match jsonx::parse(body, Bounds::BODY) {
                Ok(parsed) if is_tree(&parsed.value) || self.forms.is_empty() => {
                    let mut value = parsed.value.to_serde();
                    let is_masked = json::mask_json(&self.json, &mut value);
                    // The log would hold the member that the value does not have.
                    let is_rewritten = is_masked || parsed.repeats_names;
                    return Ok(is_rewritten.then(|| parsed.value.with_changes(&value).to_json()));
                }
                Err(error) if error.is_excess() => return Err("it has too many values"),
                Err(_) if self.forms.is_empty() => return Err("it is no JSON"),
                _ => {}
            }
        }
        // Rules for forms find nothing in other bodies, such as JSON that is malformed or
        // `multipart/form-data`.
        if !is_form {
            return Err("its `Content-Type` is not that of a form, or it is compressed");
        }
        Ok(form::mask_form(&self.forms, body, self.max_arguments))
    }
}

/// Whether a value is an object or a list, which no form is.
fn is_tree(value: &jsonx::Value) -> bool {
    matches!(value, jsonx::Value::Object(_) | jsonx::Value::List(_))
}

/// Whether the request says that its body is a form, which is not compressed.
fn is_form(exchange: &Exchange) -> bool {
    let headers = &exchange.request.headers;
    let media_type = headers.get("content-type").and_then(|value| value.split(|byte| *byte == b';').next());
    media_type.is_some_and(|value| value.trim_ascii().eq_ignore_ascii_case(FORM))
        && codings(headers).is_empty()
}

const FORM: &[u8] = b"application/x-www-form-urlencoded";

impl Plugin for DataMask {
    fn wants_request_body(&self, _exchange: &Exchange) -> BodyNeed {
        if self.concerns_bodies() {
            BodyNeed::Copy { limit_bytes: self.max_body_bytes }
        } else {
            BodyNeed::None
        }
    }

    fn before_log(&self, exchange: &mut Exchange) {
        // First, because a rule may mask the fields that describe the body.
        if self.concerns_bodies() {
            self.mask_body(exchange);
        }
        self.mask_query(exchange);
        self.mask_fields(exchange);
    }
}

#[cfg(test)]
mod tests;
