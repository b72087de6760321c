//! # oas-validator
//!
//! Checks requests against an OpenAPI document: the path and the method, parameters in path, query, fields
//! and cookies, and the body. A request that does not fit is refused before it reaches the upstream.
//!
//! ```json
//! {
//!   "spec":
//! "{\"openapi\":\"3.0.2\",\"info\":{\"title\":\"Pets\",\"version\":\"1\"},\"paths\":{\"/pets/{id}\":{\"put\":{\"parameters\":[{\"name\":\"id\",\"in\":\"path\",\"required\":true,\"schema\":{\"type\":\"integer\"}}],\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":{\"type\":\"object\",\"required\":[\"name\"],\"properties\":{\"name\":{\"type\":\"string\"}}}}}},\"responses\":{\"200\":{\"description\":\"saved\"}}}}}}",
//!   "verbose_errors": true
//! }
//! ```
//!
//! **Document.** `spec` is an OpenAPI 3.0 or 3.1 document in JSON. It is checked when the configuration is
//! written, and a fault is told with its place in the document. `spec_url` names the document instead: it is
//! fetched when a request needs it, with `spec_url_request_headers`, within `timeout` milliseconds, and again
//! after the seconds of `spec_url_ttl` in the plugin's metadata. Requests are checked by the older document
//! until a new one is there, and after a failure the next try is made after 10 seconds; without any document
//! requests are answered 500. The error log says why a document is missing. References have to lead into the
//! same document, in circles too. A document has at most 16 MiB, 10,000 paths and schemas of 100 levels.
//!
//! **Path.** The path of a request is looked for with and without the paths in the URLs of `servers`. Texts
//! are preferred to parameters. A path or a method that the document does not have is refused.
//!
//! **Parameters** are read by their `style`: `simple`, `form`, `spaceDelimited`, `pipeDelimited` or
//! `deepObject`; `matrix` and `label` are refused when the configuration is written. A text becomes a number
//! or a boolean where the schema has these types. Parameters that the document does not have are allowed. A
//! parameter that is no list and comes twice is refused, and so is such a property of an object. An exploded
//! object of which the schema names no properties has all arguments that are no other parameter.
//!
//! **Body.** The schema is that of the media type in `Content-Type`, of `application/json` without one;
//! another media type is refused. JSON, forms and texts are checked, other bodies pass. In a body of JSON no
//! object may have two members with one name. A body of more than `max_req_body_size` bytes is answered 500.
//! One of more than 64 KiB is checked on a thread beside the workers, and answered 503 if too many wait for
//! it. One with more than 1,000,000 values is refused. Schemas, patterns and checks have the limits that
//! `request-validation` has for schemas. `format` is checked, `discriminator` is not, and properties with
//! `readOnly` are not required.
//!
//! **Refusals** have the status `rejection_status_code` and the message `failed to validate request. `, with
//! `verbose_errors` the reason behind it. With `reject_if_not_match: false` such a request passes, and the
//! error log has the reason, at most once a second. `skip_request_body_validation`,
//! `skip_request_header_validation` (cookies are fields too), `skip_query_param_validation` and
//! `skip_path_params_validation` leave out a part.

mod document;
mod paths;
mod source;

use std::cell::RefCell;
use std::sync::Arc;

use exchange::Exchange;
use exchange::observe::pace::Pace;
use exchange::plugin::{
    BodyNeed, BufferedReply, Build, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase,
};
use model::validate::SchemaSteps;
use serde_json::{Map, Value};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::openapi::operation::OasOperation;
use crate::shared::openapi::parameters::{ParameterLocation, ParameterSources, decoded_arguments};
use crate::shared::outages::Outages;
use crate::shared::side_thread;
use document::OasDocument;
use source::RemoteDocument;

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "oas-validator",
    512,
    &[PluginPhase::RequestBody, PluginPhase::Access],
    OasValidatorConfig::schema,
    build,
)
.checked(check)
.with_metadata(OasValidatorMetadata::schema)
.documented(include_str!("oas_validator.rs"));

attributes! {
    struct OasValidatorConfig {
        /// The longest body, in bytes, that is checked; a longer one is refused.
        max_req_body_size: usize = 67_108_864, { "minimum": 1 };
        /// The OpenAPI document, in JSON.
        spec: Option<String>, { "minLength": 1 };
        /// The URL of the OpenAPI document.
        spec_url: Option<String>, { "pattern": "^https?://" };
        /// Fields of the request for the document.
        spec_url_request_headers: Option<Map<String, Value>>, { "additionalProperties": { "type": "string" } };
        /// Verifies the certificate of the server that has the document.
        ssl_verify: bool = false;
        /// Milliseconds for which the document is waited for.
        timeout: u64 = 10_000, { "minimum": 1_000, "maximum": 60_000 };
        /// Tells clients why a request is refused.
        verbose_errors: bool = false;
        /// Leaves out the body.
        skip_request_body_validation: bool = false;
        /// Leaves out fields and cookies.
        skip_request_header_validation: bool = false;
        /// Leaves out parameters in the query.
        skip_query_param_validation: bool = false;
        /// Leaves out parameters in the path.
        skip_path_params_validation: bool = false;
        /// Refuses requests that do not fit; otherwise they are reported in the log only.
        reject_if_not_match: bool = true;
        /// The status of a refusal.
        rejection_status_code: u16 = 400, { "minimum": 400, "maximum": 599 };
    }
    { "oneOf": [{ "required": ["spec"] }, { "required": ["spec_url"] }] }
}

attributes! {
    struct OasValidatorMetadata {
        /// Seconds for which a document from a URL is kept.
        spec_url_ttl: u64 = 3_600, { "minimum": 1 };
    }
}

/// The compiled plugin.
struct OasValidator {
    document: OasDocumentSource,
    config: OasValidatorConfig,
    outages: Outages,
    pace: Pace,
}

/// Where the document comes from.
enum OasDocumentSource {
    Written(Arc<OasDocument>),
    Url(RemoteDocument),
    /// The text is a reference that could not be resolved.
    Unresolved,
}

fn check(config: &Value) -> Result<(), String> {
    let config: OasValidatorConfig = config::parse_config(config)?;
    match &config.spec {
        // The text behind a reference is unknown until it is resolved.
        Some(spec) if !config::is_reference(spec) => OasDocument::read(spec).map(drop).map_err(in_spec),
        _ => Ok(()),
    }
}

/// The fault of a document with the field that holds it. A text that is no JSON is told in APISIX's words
/// alone.
fn in_spec(reason: String) -> String {
    if reason.starts_with('/') { format!("spec: {reason}") } else { reason }
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: OasValidatorConfig = config::parse_config(config)?;
    let document = match (&config.spec, &config.spec_url) {
        (Some(spec), _) if config::is_reference(spec) => OasDocumentSource::Unresolved,
        (Some(spec), _) => OasDocumentSource::Written(Arc::new(OasDocument::read(spec).map_err(in_spec)?)),
        (None, Some(url)) => {
            let metadata: OasValidatorMetadata =
                config::parse_config(build.metadata.unwrap_or(&Map::new().into()))?;
            let headers = config.spec_url_request_headers.clone().unwrap_or_default();
            let kept_ms = metadata.spec_url_ttl.saturating_mul(1_000);
            OasDocumentSource::Url(RemoteDocument::new(
                build,
                url,
                &headers,
                config.ssl_verify,
                config.timeout,
                kept_ms,
            )?)
        }
        (None, None) => return Err("spec or spec_url is needed".to_owned()),
    };
    let outages = Outages::new(build, KIND.name);
    Ok(Arc::new(OasValidator { document, config, outages, pace: Pace::every_ms(LOG_INTERVAL_MS) }))
}

impl Plugin for OasValidator {
    fn wants_request_body(&self, _exchange: &Exchange) -> BodyNeed {
        match self.config.skip_request_body_validation {
            true => BodyNeed::None,
            false => BodyNeed::Buffer { limit_bytes: self.config.max_req_body_size },
        }
    }

    fn refuse_long_body(&self, _exchange: &Exchange) -> Option<BufferedReply> {
        let limit = self.config.max_req_body_size;
        let text = format!(
            "error reading the request body. err: request size is greater than the maximum size {limit} allowed"
        );
        (!self.config.skip_request_body_validation).then(|| BufferedReply::message(500, &text))
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match &self.document {
            OasDocumentSource::Written(document) => self.check(exchange, document),
            OasDocumentSource::Unresolved => {
                let reason = "the reference in spec is not resolved";
                Flow::Reply(self.without_document(exchange, reason))
            }
            OasDocumentSource::Url(source) => Flow::Wait(Box::pin(async move {
                let document = match source.get(exchange.local()).await {
                    Ok(document) => document,
                    Err(reason) => return PhaseDecision::Reply(self.without_document(exchange, &reason)),
                };
                match self.check(exchange, &document) {
                    Flow::Wait(waits) => waits.await,
                    Flow::Reply(reply) => PhaseDecision::Reply(reply),
                    _ => PhaseDecision::Continue,
                }
            })),
        }
    }
}

impl OasValidator {
    fn check<'a>(&'a self, exchange: &'a mut Exchange, document: &OasDocument) -> Flow<'a> {
        let (operation, fault) = {
            let path = String::from_utf8_lossy(exchange.path());
            match document.find(exchange.request.method, &path) {
                None => (None, Some("the document has no such path and method".to_owned())),
                Some((operation, values)) => {
                    let fault = self.parameter_fault(exchange, &operation, &values);
                    (Some(operation), fault)
                }
            }
        };
        match (operation, fault) {
            (Some(operation), None) => self.check_body(exchange, operation),
            (_, Some(fault)) => self.conclude(exchange, Some(fault)).map_or(Flow::Continue, Flow::reply),
            (None, None) => Flow::Continue,
        }
    }

    fn parameter_fault(
        &self,
        exchange: &Exchange,
        operation: &OasOperation,
        path: &[(&str, &str)],
    ) -> Option<String> {
        let config = &self.config;
        let counts = |place: ParameterLocation| match place {
            ParameterLocation::Path => !config.skip_path_params_validation,
            ParameterLocation::Query => !config.skip_query_param_validation,
            ParameterLocation::Header | ParameterLocation::Cookie => !config.skip_request_header_validation,
        };
        let query = match config.skip_query_param_validation {
            true => Vec::new(),
            false => decoded_arguments(exchange.request.query().unwrap_or_default()),
        };
        let parameters = &operation.parameters;
        let steps = RefCell::new(SchemaSteps::on_worker());
        let headers = &exchange.request.headers;
        let parts = ParameterSources { path, query: &query, headers, parameters, steps };
        let counting = parameters.iter().filter(|parameter| counts(parameter.place));
        counting.into_iter().find_map(|parameter| parameter.fault(&parts))
    }

    fn check_body<'a>(&'a self, exchange: &'a mut Exchange, operation: Arc<OasOperation>) -> Flow<'a> {
        let rule = operation.body.as_ref().filter(|_| !self.config.skip_request_body_validation);
        let Some(rule) = rule else { return Flow::Continue };
        let headers = &exchange.request.headers;
        if headers.get_all("content-type").nth(1).is_some() {
            let fault = Some("duplicated Content-Type header".to_owned());
            return self.conclude(exchange, fault).map_or(Flow::Continue, Flow::reply);
        }
        let content_type = headers.get("content-type");
        let body = exchange.request_body().unwrap_or_default();
        if body.len() <= CHECKED_AT_ONCE_BYTES {
            let fault = rule.fault(content_type, body, &mut SchemaSteps::on_worker());
            return self.conclude(exchange, fault).map_or(Flow::Continue, Flow::reply);
        }
        // Before the body is copied, because the thread may be behind with many copies.
        let Some(held) = side_thread::hold_job_bytes(body.len()) else {
            return self.unchecked(exchange, "too many bodies wait").map_or(Flow::Continue, Flow::reply);
        };
        let (content_type, body) = (content_type.map(<[u8]>::to_vec), body.to_vec());
        Flow::Wait(Box::pin(async move {
            let check = move || {
                let _held = held;
                let rule = operation.body.as_ref()?;
                rule.fault(content_type.as_deref(), &body, &mut SchemaSteps::beside_workers())
            };
            let reply = match side_thread::run_on_side_thread(check).await {
                Ok(fault) => self.conclude(exchange, fault),
                Err(reason) => self.unchecked(exchange, reason),
            };
            match reply {
                None => PhaseDecision::Continue,
                Some(reply) => PhaseDecision::Reply(Box::new(reply)),
            }
        }))
    }

    /// The refusal of a request with this fault, if it is refused.
    fn conclude(&self, exchange: &Exchange, fault: Option<String>) -> Option<BufferedReply> {
        self.refusal(exchange, self.config.rejection_status_code, &fault?)
    }

    /// The refusal of a request of which the body could not be checked, which is no fault of the client.
    fn unchecked(&self, exchange: &Exchange, reason: &str) -> Option<BufferedReply> {
        self.refusal(exchange, 503, &format!("the body could not be checked: {reason}"))
    }

    fn refusal(&self, exchange: &Exchange, status: u16, fault: &str) -> Option<BufferedReply> {
        if let Some(requests) = self.pace.add(1, exchange.local().now_ms()) {
            let method = String::from_utf8_lossy(exchange.request.method_text());
            let path = String::from_utf8_lossy(exchange.path());
            tracing::warn!(%method, %path, fault, requests, "error occurred while validating request");
        }
        let detail = if self.config.verbose_errors { fault } else { "" };
        let text = format!("failed to validate request. {detail}");
        self.config.reject_if_not_match.then(|| BufferedReply::message(status, &text))
    }

    fn without_document(&self, exchange: &Exchange, reason: &str) -> Box<BufferedReply> {
        if let Some(requests) = self.outages.add(exchange.local().now_ms()) {
            tracing::warn!(reason, requests, "oas-validator has no document");
        }
        Box::new(BufferedReply::message(500, "failed to parse openapi spec"))
    }
}

/// Longer bodies are checked on the side thread: at about 100 MB/s this many bytes take less than a
/// millisecond.
const CHECKED_AT_ONCE_BYTES: usize = 64 * 1024;
/// Milliseconds between two lines about requests that do not fit, of one instance.
const LOG_INTERVAL_MS: u64 = 1_000;

#[cfg(test)]
mod tests;
