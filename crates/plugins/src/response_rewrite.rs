//! # response-rewrite
//!
//! Changes status, fields and body of responses, of an upstream or local, before they are sent to the client.
//!
//! ```json
//! {
//!   "vars": [["status", "==", 404]],
//!   "status_code": 200,
//!   "headers": { "set": { "X-Node": "$balancer_ip:$balancer_port" }, "remove": ["X-Powered-By"] },
//!   "body": "{\"found\": false}"
//! }
//! ```
//!
//! **When.** `vars` is an expression over variables; without it every response is changed.
//!
//! **Body.** `body` replaces the body (`body_base64`: it is written in Base64). `filters` edit it instead:
//! each has a `regex`, a `replace` template with the groups `$1`, `$2` …, a `scope` (`once` or `global`) and
//! `options` (letters as `ngx.re` has them: `i`, `m`, `s`, `x`; `j` and `o` change nothing), and works on the
//! output of the filter before it. Look-around and back-references are refused here, because their time is
//! not linear in the body. Filters need the whole body in memory: a response fails if its body is longer than
//! `max_resp_body_size` bytes, or if they take longer than half a second. As in PCRE, `$` also stands before
//! a line break that ends the body, unless the option is `m`.
//!
//! A compressed body (`gzip`, `br`, `zstd`, `deflate`) is decompressed for filters, and sent as it is then;
//! `max_resp_body_size` counts for both forms. A body that cannot be decompressed, or becomes 200 times as
//! long, fails the response with 502 and the cause `origin_body_undecodable`; one that is called `deflate`
//! and is not passes unfiltered, as in APISIX. A body with another `Content-Encoding` or with several is not
//! filtered and keeps its fields. An empty body is empty, whatever its fields say.
//!
//! An event stream (`text/event-stream`) is filtered event by event, so that each is sent as soon as it is
//! complete: a match lies within one event, `once` is once for each of them, and an event has at most 1 MiB.
//! A compressed event stream is not filtered. Error responses that the gateway itself makes (`no_upstream`,
//! `connect_failed` and so on) are not filtered either; `body` replaces them. With `body` or `filters`,
//! `Content-Encoding`, `ETag`, `Last-Modified`, digests and the length are removed, because they described
//! the old body.
//!
//! **Fields.** `headers` holds `add` (texts `Name: value`), `set` and `remove`, done in this order; an object
//! of names and values alone means `set`. Values hold variables. An empty value removes the field. A value
//! that is not valid in a field is left out. Fields of the connection and of the body's length cannot be
//! changed.

mod filters;

use std::sync::Arc;

use data_encoding::BASE64_NOPAD;
use exchange::Exchange;
use exchange::plugin::{BodyNeed, Build, Plugin, PluginKind, PluginPhase, Portion, ResponseStep};
use message::FieldId;
use router::vars::Expression;
use serde_json::{Map, Value, json};

use crate::shared::attributes::{Attribute, attributes, words};
use crate::shared::config;
use crate::shared::fields::{self, FieldOperation, FieldOperations, FieldValue};
use filters::{Filtering, Filters, forget_validators};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "response-rewrite",
    899,
    &[PluginPhase::ResponseHead, PluginPhase::ResponseBody],
    ResponseRewriteConfig::schema,
    build,
)
.checked(check)
.documented(include_str!("response_rewrite.rs"));

attributes! {
    struct ResponseRewriteConfig {
        /// The changes to the fields of the response.
        headers: Option<Value>, { "anyOf": [values(), changes()] };
        /// The longest body, in bytes, that filters take; a response with a longer one fails.
        max_resp_body_size: usize = 64 * 1024 * 1024, { "minimum": 1 };
        /// The new body.
        body: Option<String>;
        /// The new body is written in Base64.
        body_base64: bool = false;
        /// The new status.
        status_code: Option<u16>, { "minimum": 200, "maximum": 598 };
        /// Which responses are changed.
        vars: Option<Value>, { "type": "array" };
        /// Substitutions in the body, done in order.
        filters: Option<Vec<WrittenFilter>>, { "minItems": 1 };
    }
    {
        "dependencies": {
            "body": { "not": { "required": ["filters"] } },
            "filters": { "not": { "required": ["body"] } },
        },
    }
}

attributes! {
    struct WrittenFilter {
        /// The pattern.
        regex: String, { "minLength": 1 };
        /// The first match, or all.
        scope: FilterScope = FilterScope::Once;
        /// The text that replaces a match.
        replace: String;
        /// Letters that change how the pattern is read.
        options: String = "jo".into();
    }
    { "description": "A substitution." }
}

words! {
    enum FilterScope {
        Once = "once",
        Global = "global",
    }
}

fn values() -> Value {
    json!({
        "description": "Fields that replace those of the same name.",
        "type": "object",
        "minProperties": 1,
        "patternProperties": { "^[^:]+$": { "oneOf": [{ "type": "string" }, { "type": "number" }] } },
    })
}

fn changes() -> Value {
    json!({
        "properties": {
            "add": {
                "description": "Fields that are appended, each as `Name: value`.",
                "type": "array", "minItems": 1,
                "items": { "type": "string", "pattern": "^[^:]+:[^:]*[^/]$" },
            },
            "set": values(),
            "remove": {
                "description": "Names of fields that are taken away.",
                "type": "array", "minItems": 1,
                "items": { "type": "string", "pattern": "^[^:]+$" },
            },
        },
    })
}

/// The compiled plugin.
struct ResponseRewrite {
    condition: Option<Expression>,
    status: Option<u16>,
    fields: FieldOperations,
    body: BodyRewrite,
}

enum BodyRewrite {
    Kept,
    Replaced(Box<[u8]>),
    Filtered(Filters),
}

/// The decision about a response when its head passed.
#[derive(Default)]
struct RewriteDecision {
    replaces_body: bool,
    filtering: Filtering,
}

fn check(config: &Value) -> Result<(), String> {
    let is_reference = config.get("body").and_then(Value::as_str).is_some_and(config::is_reference);
    if !is_reference {
        return compile(config).map(drop);
    }
    // A reference is no Base64; its value is decoded when the instance is built.
    let mut config = config.clone();
    config["body_base64"] = Value::Bool(false);
    compile(&config).map(drop)
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    compile(config).map(|plugin| Arc::new(plugin) as Arc<dyn Plugin>)
}

fn compile(config: &Value) -> Result<ResponseRewrite, String> {
    let config: ResponseRewriteConfig = config::parse_config(config)?;
    let condition = config.vars.as_ref().map(Expression::compile).transpose();
    Ok(ResponseRewrite {
        condition: condition.map_err(|error| format!("failed to validate the 'vars' expression: {error}"))?,
        status: config.status_code,
        fields: config
            .headers
            .as_ref()
            .and_then(Value::as_object)
            .map(field_operations)
            .transpose()?
            .unwrap_or_default(),
        body: body(&config)?,
    })
}

fn body(config: &ResponseRewriteConfig) -> Result<BodyRewrite, String> {
    if config.body_base64 {
        let text = config.body.as_deref().filter(|body| !body.is_empty()).ok_or("invalid base64 content")?;
        let bytes = BASE64_NOPAD.decode(text.trim_end_matches('=').as_bytes());
        return bytes
            .map(|bytes| BodyRewrite::Replaced(bytes.into()))
            .map_err(|_| "invalid base64 content".to_owned());
    }
    if let Some(body) = &config.body {
        return Ok(BodyRewrite::Replaced(body.as_bytes().into()));
    }
    let Some(filters) = &config.filters else { return Ok(BodyRewrite::Kept) };
    Filters::compile(filters, config.max_resp_body_size).map(BodyRewrite::Filtered)
}

fn field_operations(headers: &Map<String, Value>) -> Result<FieldOperations, String> {
    let add = headers.get("add").and_then(Value::as_array);
    let set = headers.get("set").and_then(Value::as_object);
    let remove = headers.get("remove").and_then(Value::as_array);
    if add.is_none() && set.is_none() && remove.is_none() {
        return Ok(FieldOperations {
            set: fields::compile_field_values(headers)?,
            ..FieldOperations::default()
        });
    }
    let line = |line: &Value| {
        let (name, value) =
            line.as_str().and_then(|line| line.split_once(':')).ok_or("add: a field is `Name: value`")?;
        let value = fields::parse_field_text(&Value::from(value.trim()))?;
        Ok::<_, String>((
            fields::parse_field_name(name.trim())?,
            FieldValue::compile_for(name.trim(), &value)?,
        ))
    };
    let names =
        remove.into_iter().flatten().map(|name| fields::parse_field_name(name.as_str().unwrap_or_default()));
    Ok(FieldOperations {
        add: add.into_iter().flatten().map(line).collect::<Result<_, _>>()?,
        set: set.map(fields::compile_field_values).transpose()?.unwrap_or_default(),
        remove: names.collect::<Result<_, _>>()?,
    })
}

impl ResponseRewrite {
    /// Decides about the body, and removes the fields that will no longer describe it.
    fn decide(&self, exchange: &mut Exchange) -> RewriteDecision {
        let filtering = match &self.body {
            BodyRewrite::Kept => return RewriteDecision::default(),
            BodyRewrite::Replaced(_) => {
                exchange.response.headers.remove_known(FieldId::ContentEncoding);
                forget_validators(&mut exchange.response.headers);
                return RewriteDecision { replaces_body: true, filtering: Filtering::Off };
            }
            BodyRewrite::Filtered(filters) => filters.begin(exchange),
        };
        if !matches!(filtering, Filtering::Off) {
            forget_validators(&mut exchange.response.headers);
        }
        RewriteDecision { replaces_body: false, filtering }
    }

    fn rewrite_fields(&self, exchange: &mut Exchange) {
        let operations = self.fields.render(exchange, None);
        let headers = &mut exchange.response.headers;
        for operation in operations {
            // An invalid value comes from the client through a variable, so the field is left out instead of
            // failing the response.
            match operation {
                FieldOperation::Add(_, value) if value.is_empty() => {}
                FieldOperation::Add(name, value) => drop(headers.append(name, &value)),
                FieldOperation::Set(name, value) if value.is_empty() => drop(headers.remove(name)),
                FieldOperation::Set(name, value) => drop(headers.set(name, &value)),
                // Only `proxy-rewrite` takes lists.
                FieldOperation::SetSeveral(..) => {}
                FieldOperation::Remove(name) => drop(headers.remove(name)),
            }
        }
    }
}

impl Plugin for ResponseRewrite {
    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        if self.condition.as_ref().is_some_and(|condition| !condition.evaluate(exchange)) {
            return ResponseStep::Done;
        }
        if let Some(status) = self.status {
            exchange.response.status = status;
            // The reason phrase of the old status would contradict the new one.
            exchange.response.reason = Default::default();
        }
        *exchange.state::<RewriteDecision>() = self.decide(exchange);
        self.rewrite_fields(exchange);
        ResponseStep::Done
    }

    fn wants_response_body(&self, exchange: &Exchange) -> BodyNeed {
        let decision = exchange.peek_state::<RewriteDecision>();
        match &self.body {
            BodyRewrite::Kept => BodyNeed::None,
            BodyRewrite::Replaced(_) if decision.is_some_and(|decision| decision.replaces_body) => {
                BodyNeed::Stream
            }
            BodyRewrite::Replaced(_) => BodyNeed::None,
            BodyRewrite::Filtered(filters) => filters.need(decision.map(|decision| &decision.filtering)),
        }
    }

    fn response_body<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        portion: Portion,
    ) -> ResponseStep<'a> {
        match &self.body {
            BodyRewrite::Kept => ResponseStep::Done,
            BodyRewrite::Replaced(replacement) => {
                body.clear();
                if portion == Portion::Last {
                    body.extend_from_slice(replacement);
                }
                ResponseStep::Done
            }
            BodyRewrite::Filtered(filters) => {
                let mut filtering = std::mem::take(&mut exchange.state::<RewriteDecision>().filtering);
                let step = filters.apply(exchange, &mut filtering, body, portion);
                exchange.state::<RewriteDecision>().filtering = filtering;
                step
            }
        }
    }
}

#[cfg(test)]
mod tests;
