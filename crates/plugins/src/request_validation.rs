//! # request-validation
//!
//! Checks the fields and the body of a request against JSON Schemas, and refuses a request that does not
//! match.
//!
//! ```json
//! {
//!   "header_schema": {
//!     "type": "object",
//!     "required": ["X-Api-Version"],
//!     "properties": { "X-Api-Version": { "type": "string", "enum": ["1", "2"] } }
//!   },
//!   "body_schema": {
//!     "type": "object",
//!     "required": ["name"],
//!     "properties": { "name": { "type": "string", "maxLength": 64 } }
//!   },
//!   "rejected_code": 422
//! }
//! ```
//!
//! **Fields.** `header_schema` checks an object with a property for each field of the request. Values are
//! strings, and an array of strings for a field that is sent more than once. Names in `properties`,
//! `required` and dependencies are compared without regard to case, and `_` counts as `-`. In
//! `patternProperties` names are in lower case.
//!
//! **Body.** `body_schema` checks the decoded body: a form where the `Content-Type` is
//! `application/x-www-form-urlencoded` (values are strings, `true` for a name without a value, an array for a
//! repeated name), JSON otherwise. A body is forwarded as it came. Where an object of it has two members with
//! one name, the last one is checked and the body is written anew without the others, so that the upstream
//! cannot read another value out of it; its numbers keep their digits. Numbers beyond 64 bits are compared
//! with the schema as doubles. A request without a body, with two `Content-Type` fields, with a body that
//! cannot be decoded, of more than 200,000 values or of more than `max_req_body_size` bytes is refused. The
//! body is checked after authentication, so that an unauthenticated client cannot make the gateway hold a
//! body; fields are checked before. A body of more than 64 KiB is checked on a thread beside the workers. It
//! is refused if 1,024 bodies, or bodies of 128 MiB, wait for that thread already.
//!
//! **Refusals** have the status `rejected_code` and the text `rejected_msg`; without `rejected_msg` the text
//! says which rule is broken, for example `property "name" is required`.
//!
//! **Schemas** are of the draft that `$schema` names, from 4 to 2020-12, otherwise of draft 7. `format` is
//! checked. A `$ref` may refer to the same schema only.
//!
//! **Limits of schemas.** A schema is refused when it is written if it has more than 50,000 parts, 10,000
//! references, 100 levels or 2,000 patterns, if one value meets more than 10,000 of its parts once the
//! references are followed, or if a part refers to itself without a step into the value. A pattern has at
//! most 16 KiB and compiles to at most 1 MiB. The checks of one request take at most 2,000,000 steps on a
//! worker, some 20 ms, and ten times as many on the thread beside the workers; a request that needs more is
//! refused. A pattern with look-around or back-references is searched in texts of at most 4 KiB, in names of
//! properties (`patternProperties`) in at most 64 bytes; a request with a longer one is refused.

mod decode;
mod header_schema;

use std::borrow::Cow;
use std::sync::Arc;

use exchange::Exchange;
use exchange::observe::pace::Pace;
use exchange::plugin::{
    BodyNeed, BufferedReply, Build, Explained, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase,
};
use model::validate::{SchemaSteps, UserSchema};
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::side_thread;
use decode::{body_value, field_values, tree_bytes};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "request-validation",
    2800,
    &[PluginPhase::Rewrite, PluginPhase::RequestBody, PluginPhase::Access],
    RequestValidationConfig::schema,
    build,
)
.checked(|config| compile(config).map(drop))
.documented(include_str!("request_validation.rs"));

attributes! {
    struct RequestValidationConfig {
        /// The JSON Schema of the request's fields.
        header_schema: Option<Value>, { "type": "object" };
        /// The JSON Schema of the request's body.
        body_schema: Option<Value>, { "type": "object" };
        /// The longest body, in bytes, that is checked; a longer one is refused.
        max_req_body_size: usize = MAX_BODY_BYTES_DEFAULT, { "minimum": 1 };
        /// The status of a refusal.
        rejected_code: u16 = 400, { "minimum": 200, "maximum": 599 };
        /// The text of a refusal; without it the text names the broken rule.
        rejected_msg: Option<String>, { "minLength": 1, "maxLength": 256 };
    }
    { "anyOf": [{ "required": ["header_schema"] }, { "required": ["body_schema"] }] }
}

/// The compiled plugin.
struct RequestValidation {
    header_schema: Option<UserSchema>,
    body_schema: Option<Arc<UserSchema>>,
    max_body_bytes: usize,
    rejected_code: u16,
    rejected_msg: Option<String>,
    pace: Pace,
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(config)?))
}

fn compile(config: &Value) -> Result<RequestValidation, String> {
    let config: RequestValidationConfig = config::parse_config(config)?;
    let compile = |name: &str, schema: Value| {
        UserSchema::compile(&schema).map_err(|reason| format!("{name}: {reason}"))
    };
    let header_schema = config.header_schema.map(header_schema::with_field_names);
    Ok(RequestValidation {
        header_schema: header_schema.map(|schema| compile("header_schema", schema)).transpose()?,
        body_schema: config
            .body_schema
            .map(|schema| compile("body_schema", schema))
            .transpose()?
            .map(Arc::new),
        max_body_bytes: config.max_req_body_size,
        rejected_code: config.rejected_code,
        rejected_msg: config.rejected_msg,
        pace: Pace::every_ms(LOG_INTERVAL_MS),
    })
}

impl Plugin for RequestValidation {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let Some(schema) = &self.header_schema else { return Flow::Continue };
        match schema.fault(&field_values(&exchange.request.headers), &mut SchemaSteps::on_worker()) {
            None => Flow::Continue,
            Some(fault) => self.refuse(exchange, "fields", &fault),
        }
    }

    fn wants_request_body(&self, _exchange: &Exchange) -> BodyNeed {
        match self.body_schema {
            Some(_) => BodyNeed::Buffer { limit_bytes: self.max_body_bytes },
            None => BodyNeed::None,
        }
    }

    fn refuse_long_body(&self, exchange: &Exchange) -> Option<BufferedReply> {
        self.body_schema.is_some().then(|| self.refusal(exchange, "body", "the body is too long", ""))
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let Some(schema) = &self.body_schema else { return Flow::Continue };
        let body = exchange.request_body().unwrap_or_default();
        if body.is_empty() {
            return Flow::reply(self.refusal(exchange, "body", "the request has no body", ""));
        }
        let headers = &exchange.request.headers;
        if headers.get_all("content-type").nth(1).is_some() {
            return Flow::reply(self.refusal(exchange, "body", "duplicated Content-Type header", ""));
        }
        let content_type = headers.get("content-type");
        if body.len() <= CHECKED_AT_ONCE_BYTES {
            let checked = examine(schema, content_type, body, &mut SchemaSteps::on_worker());
            return self.conclude(exchange, checked).map_or(Flow::Continue, Flow::reply);
        }
        // Before the body is copied, because the thread may be behind with many copies.
        let Some(held) = side_thread::hold_job_bytes(body.len()) else {
            let reason = "the body could not be checked: too many bodies wait for it";
            return self.refuse(exchange, "body", reason);
        };
        if exchange.local().shared.check_room(body.len() + tree_bytes(body.len())).is_err() {
            return self.refuse(exchange, "body", "the body could not be checked: memory is short");
        }
        let (schema, content_type, body) = (schema.clone(), content_type.map(<[u8]>::to_vec), body.to_vec());
        Flow::Wait(Box::pin(async move {
            let check = move || {
                let _held = held;
                examine(&schema, content_type.as_deref(), &body, &mut SchemaSteps::beside_workers())
            };
            let checked = side_thread::run_on_side_thread(check).await;
            let checked =
                checked.unwrap_or_else(|fault| Err(format!("the body could not be checked: {fault}")));
            match self.conclude(exchange, checked) {
                None => PhaseDecision::Continue,
                Some(reply) => PhaseDecision::Reply(Box::new(reply)),
            }
        }))
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        match (phase, &self.header_schema, &self.body_schema) {
            (PluginPhase::Rewrite, Some(schema), _) => {
                let fields = field_values(&exchange.request.headers);
                match schema.fault(&fields, &mut SchemaSteps::on_worker()) {
                    None => Explained::passes(),
                    Some(fault) => Explained::replies(&self.refusal_with(&fault)),
                }
            }
            (PluginPhase::Access, _, Some(_)) => Explained::unknown("it checks the body"),
            _ => Explained::passes(),
        }
    }
}

/// Checks a body. The result is the body to forward in its place, if it is not forwarded as it came.
fn examine(
    schema: &UserSchema,
    content_type: Option<&[u8]>,
    body: &[u8],
    steps: &mut SchemaSteps,
) -> Result<Option<Vec<u8>>, String> {
    let decoded = body_value(content_type, body)?;
    match schema.fault(&decoded.value, steps) {
        Some(fault) => Err(fault),
        None => Ok(decoded.rewritten),
    }
}

impl RequestValidation {
    /// The refusal of a checked body, if it is refused; otherwise the request has a body with the value that
    /// was checked.
    fn conclude(
        &self,
        exchange: &mut Exchange,
        checked: Result<Option<Vec<u8>>, String>,
    ) -> Option<BufferedReply> {
        let reason = match checked {
            Ok(None) => return None,
            Ok(Some(body)) => match exchange.set_request_body(body) {
                Ok(()) => return None,
                Err(_) => "the body was not read whole".to_owned(),
            },
            Err(reason) => reason,
        };
        Some(self.refusal(exchange, "body", &reason, &reason))
    }

    /// Refuses with the configured text, otherwise with `reason`.
    fn refuse(&self, exchange: &Exchange, part: &str, reason: &str) -> Flow<'static> {
        Flow::reply(self.refusal(exchange, part, reason, reason))
    }

    /// A refusal; `text` is its body where no text is configured.
    fn refusal(&self, exchange: &Exchange, part: &str, reason: &str, text: &str) -> BufferedReply {
        if let Some(requests) = self.pace.add(1, exchange.local().now_ms()) {
            tracing::info!(part, reason, requests, "request-validation refused a request");
        }
        self.refusal_with(text)
    }

    fn refusal_with(&self, text: &str) -> BufferedReply {
        let text = self.rejected_msg.as_deref().unwrap_or(text);
        let reply = BufferedReply::status(self.rejected_code);
        match text {
            "" => reply,
            text => reply
                .with_header("Content-Type", "text/plain; charset=utf-8")
                .with_body(Cow::Owned(text.as_bytes().to_vec())),
        }
    }
}

/// As in APISIX. The bodies that a worker holds count against the memory limit of the process.
const MAX_BODY_BYTES_DEFAULT: usize = 64 * 1024 * 1024;
/// Longer bodies are checked on the side thread: at about 100 MB/s this many bytes take less than a
/// millisecond.
const CHECKED_AT_ONCE_BYTES: usize = 64 * 1024;
/// Milliseconds between two lines about refused requests of one instance.
const LOG_INTERVAL_MS: u64 = 1_000;

#[cfg(test)]
mod tests;
