//! # body-transformer
//!
//! Makes a new body of a request or a response with a template, for example JSON of a SOAP envelope.
//!
//! ```json
//! {
//!   "request": {
//!     "input_format": "json",
//!     "template": "<order><item>{{_escape_xml(item)}}</item><count>{{count}}</count></order>"
//!   },
//!   "response": {
//!     "input_format": "xml",
//!     "template": "{\"id\": {*_escape_json(receipt.id)*}, \"status\": \"{{_ctx.var.status}}\"}"
//!   }
//! }
//! ```
//!
//! **Formats.** `input_format` says how a body is decoded; the template sees its fields by name. Without it
//! the `Content-Type` tells: `text/xml`, `application/json`, `application/x-www-form-urlencoded` and
//! `multipart/…` are known; any other body is not decoded, and the template has no fields of it. A GET
//! request is always decoded as `args`.
//!
//! | `input_format` | fields |
//! |---|---|
//! | `json` | those of the object, or the elements of the array from 1; `null` prints as nothing. 128 levels at most |
//! | `xml` | the root element by its name, its children below it, without prefixes of namespaces: a string for an element with text alone, a list for elements that repeat; attributes are in `_attr`, and the text beside them is at 1. 128 levels and 200,000 elements, attributes and texts at most. A document type is refused; references to entities other than the five of XML stay as they are written |
//! | `encoded` | those of the form, 100 at most; a list where a name repeats, `true` without a value |
//! | `args` | the arguments of the query of the request, as of a form |
//! | `multipart` | the values of the named parts, of 1,000 parts at most, each with 64 lines and 8 KiB of header at most; `_multipart` edits the parts (`get`, `set_simple`, `delete`, `tostring`) |
//! | `plain` | none; `_body` is the text |
//!
//! **Templates** have the syntax of lua-resty-template: `{{expression}}` prints with HTML escaped,
//! `{*expression*}` as it is, `{% code %}` is Lua, `{# comment #}` is left out, `{-raw-}…{-raw-}` is text.
//! Includes (`{(file)}`, `{[name]}`), blocks and layouts are refused. A template may be written in Base64:
//! with `template_is_base64`, and for the formats `json`, `xml`, `plain` and `multipart` wherever it can be
//! decoded. Beside the fields of the body a template has `_body`, the body as it was received; `_ctx.var`,
//! the variables of the request; `_ctx.headers`; `_ctx.consumer` (`username`, `group_id`, `labels`);
//! `_escape_json` and `_escape_xml`; `context`, all fields; and the functions of Lua 5.1. `require` knows
//! `cjson`, `cjson.safe` and `apisix.core` (`json`, `log`, `request`, `string`, `table`). A template that
//! does not compile is refused when the route is written.
//!
//! **Requests.** The body is decoded as it came, with the `Content-Type` that it came with, before
//! `proxy-rewrite` changes either one; it is read after authentication. A body of more than
//! `max_req_body_size` bytes is answered with 413, one that is not of its format with 400, and 503 says that
//! the template has failed or that there is no memory for the new body; the log has the reason.
//!
//! **Responses** of upstreams and local ones are transformed, and lose `Content-Length`, `Content-Encoding`,
//! `ETag`, `Last-Modified` and digests. An event stream (`text/event-stream`) has no end at which it could be
//! transformed, and passes unchanged. A compressed body cannot be decoded: keep the upstream from compressing
//! with `proxy-rewrite` (`"set": {"Accept-Encoding": "identity"}`). A compressed local one stays as it is. A
//! response of an upstream that cannot be transformed is answered with 500, because the body may hold what
//! the template leaves out; a local one stays as it is, and so does an empty body that cannot be decoded,
//! with any `Content-Encoding`. A response fails with 502 if its body is longer than
//! `max_resp_body_size`; APISIX cuts it there.
//!
//! **Limits.** A body may have a million values and take half a second to be decoded; one that exceeds this
//! is answered like one that is not of its format. A template may execute 5 million instructions, each step
//! of a pattern search counted as one, or take half a second; the worker serves no other request meanwhile.
//! All templates and functions of `exit-transformer` of one worker share 128 MiB; if values in global names
//! of functions take more than half of it, or leave too little for a call, these names are unset. A new body
//! has 64 MiB at most.

mod format;
mod multipart;
mod template;
mod transformation;
mod xml;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use exchange::Exchange;
use exchange::observe::pace::Pace;
use exchange::plugin::events::EventCounter;
use exchange::plugin::{
    BodyNeed, BufferedReply, Build, Flow, Plugin, PluginKind, PluginPhase, Portion, ResponseStep,
};
use message::{FieldId, Method};
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::encoding::decode::codings;
use crate::shared::event_stream::is_event_stream;
use format::{EncodedBody, Format};
use transformation::{Transformation, TransformationFault};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "body-transformer",
    1080,
    &[
        PluginPhase::Rewrite,
        PluginPhase::RequestBody,
        PluginPhase::Access,
        PluginPhase::ResponseHead,
        PluginPhase::ResponseBody,
    ],
    BodyTransformerConfig::schema,
    build,
)
.checked(check)
.documented(include_str!("body_transformer.rs"));

/// Milliseconds between two lines about failures of one instance.
const LOG_INTERVAL_MS: u64 = 1_000;
/// The default of both limits of bodies, in bytes, as in APISIX.
const BODY_BYTES_DEFAULT: usize = 64 * 1024 * 1024;

attributes! {
    struct BodyTransformerConfig {
        /// How the body of a request is transformed.
        request: Option<TransformationConfig>;
        /// How the body of a response is transformed.
        response: Option<TransformationConfig>;
        /// The longest body of a request, in bytes; a longer one is answered with 413.
        max_req_body_size: usize = BODY_BYTES_DEFAULT, { "minimum": 1 };
        /// The longest body of a response, in bytes; a response with a longer one fails.
        max_resp_body_size: usize = BODY_BYTES_DEFAULT, { "minimum": 1 };
    }
    {
        "anyOf": [
            { "required": ["request"] },
            { "required": ["response"] },
            { "required": ["request", "response"] },
        ],
    }
}

attributes! {
    struct TransformationConfig {
        /// The format of the body; without it the media type tells.
        input_format: Option<Format>;
        /// The template of the new body.
        template: String;
        /// The template is written in Base64.
        template_is_base64: bool = false;
    }
}

/// The compiled plugin.
struct BodyTransformer {
    request: Option<Transformation>,
    response: Option<Transformation>,
    request_bytes_max: usize,
    response_bytes_max: usize,
    failures: EventCounter,
    pace: Pace,
}

/// Facts of the messages before other plugins change them.
#[derive(Default)]
struct BodyTransformerState {
    request: Option<ReceivedMessage>,
    response: Option<ReceivedMessage>,
}

struct ReceivedMessage {
    format: Option<Format>,
    /// For the boundary of a multipart body.
    content_type: Vec<u8>,
    /// The codings of a compressed body.
    codings: Vec<u8>,
}

fn check(config: &Value) -> Result<(), String> {
    let config: BodyTransformerConfig = config::parse_config(config)?;
    sides(&config).map(drop)
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: BodyTransformerConfig = config::parse_config(config)?;
    let (request, response) = sides(&config)?;
    Ok(Arc::new(BodyTransformer {
        request,
        response,
        request_bytes_max: config.max_req_body_size,
        response_bytes_max: config.max_resp_body_size,
        failures: build.services.event_counter("body-transformer", "failed"),
        pace: Pace::every_ms(LOG_INTERVAL_MS),
    }))
}

type Sides = (Option<Transformation>, Option<Transformation>);

fn sides(config: &BodyTransformerConfig) -> Result<Sides, String> {
    let compile = |name: &'static str, side: &TransformationConfig| {
        Transformation::compile(name, side.input_format, &side.template, side.template_is_base64)
    };
    Ok((
        config.request.as_ref().map(|side| compile("request", side)).transpose()?,
        config.response.as_ref().map(|side| compile("response", side)).transpose()?,
    ))
}

impl ReceivedMessage {
    /// `codings` are those of the body; nothing if it is not compressed.
    fn new(format: Option<Format>, content_type: &[u8], codings: &[u8]) -> ReceivedMessage {
        ReceivedMessage {
            format: format.or_else(|| Format::guess(content_type)),
            content_type: content_type.to_vec(),
            codings: codings.to_vec(),
        }
    }

    fn input<'a>(&'a self, exchange: &'a Exchange, body: Option<&'a [u8]>) -> EncodedBody<'a> {
        let query = exchange.request.query().unwrap_or_default();
        EncodedBody { format: self.format, content_type: &self.content_type, query, body }
    }
}

impl BodyTransformer {
    fn note(&self, exchange: &Exchange, fault: &TransformationFault, bytes: usize) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        if let Some(messages) = self.pace.add(1, exchange.local().now_ms()) {
            let route = exchange.route().map_or("", |route| &*route.id);
            tracing::warn!(route, bytes, messages, "body-transformer: {}", fault.reason);
        }
    }

    /// The new body of the response in `exchange`.
    fn response(&self, exchange: &Exchange, body: &[u8]) -> Option<Result<Vec<u8>, TransformationFault>> {
        let transformation = self.response.as_ref()?;
        let message = exchange.peek_state::<BodyTransformerState>()?.response.as_ref()?;
        if !message.codings.is_empty() && !body.is_empty() {
            let codings = String::from_utf8_lossy(&message.codings);
            let reason = format!("response body decode: the upstream has compressed it ({codings})");
            return Some(Err(TransformationFault { status: 500, text: reason.clone(), reason }));
        }
        Some(transformation.apply(exchange, &message.input(exchange, Some(body))))
    }
}

impl Plugin for BodyTransformer {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        if let Some(request) = &self.request {
            let content_type = exchange.request.headers.get_known(FieldId::ContentType).unwrap_or_default();
            let format = match exchange.request.method {
                Method::Get => Some(Format::Args),
                _ => request.format,
            };
            let message = ReceivedMessage::new(format, content_type, b"");
            exchange.state::<BodyTransformerState>().request = Some(message);
        }
        Flow::Continue
    }

    fn wants_request_body(&self, _exchange: &Exchange) -> BodyNeed {
        match self.request {
            Some(_) => BodyNeed::Buffer { limit_bytes: self.request_bytes_max },
            None => BodyNeed::None,
        }
    }

    fn refuse_long_body(&self, _exchange: &Exchange) -> Option<BufferedReply> {
        self.request.is_some().then(|| BufferedReply::status(413))
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let message = exchange.peek_state::<BodyTransformerState>().and_then(|visit| visit.request.as_ref());
        let (Some(request), Some(message)) = (&self.request, message) else { return Flow::Continue };
        let body = exchange.request_body().filter(|body| !body.is_empty());
        let bytes = body.map_or(0, <[u8]>::len);
        match request.apply(exchange, &message.input(exchange, body)) {
            Ok(body) => match exchange.set_request_body(body) {
                Ok(()) => Flow::Continue,
                // Without a body that was read whole, the rest of the old one would follow the new one.
                Err(_) => Flow::reply(BufferedReply::status(500)),
            },
            Err(fault) => {
                self.note(exchange, &fault, bytes);
                Flow::reply(BufferedReply::message(fault.status, &fault.text))
            }
        }
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        if let Some(response) = &self.response {
            let headers = &exchange.response.headers;
            let content_type = headers.get_known(FieldId::ContentType).unwrap_or_default();
            let message = ReceivedMessage::new(response.format, content_type, &codings(headers));
            let is_local = exchange.stats.answered_locally && !exchange.stats.is_stored;
            if is_event_stream(headers) || (is_local && !message.codings.is_empty()) {
                // It has no end, or cannot be decoded: it stays as it is, so that its head has to describe it
                // still.
                exchange.state::<BodyTransformerState>().response = None;
                return ResponseStep::Done;
            }
            exchange.state::<BodyTransformerState>().response = Some(message);
            for name in ["Content-Encoding", "Last-Modified", "ETag"] {
                exchange.response.headers.remove(name);
            }
        }
        ResponseStep::Done
    }

    fn wants_response_body(&self, exchange: &Exchange) -> BodyNeed {
        match exchange.peek_state::<BodyTransformerState>().and_then(|visit| visit.response.as_ref()) {
            Some(_) => BodyNeed::Buffer { limit_bytes: self.response_bytes_max },
            None => BodyNeed::None,
        }
    }

    fn response_body<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        _portion: Portion,
    ) -> ResponseStep<'a> {
        match self.response(exchange, body) {
            None => {}
            Some(Ok(new)) => *body = new,
            // Such as a 201 without content: there is nothing to hide in it.
            Some(Err(fault)) if body.is_empty() && fault.status == 400 => {}
            Some(Err(fault)) => {
                self.note(exchange, &fault, body.len());
                if !exchange.stats.answered_locally || exchange.stats.is_stored {
                    exchange.response.status = 500;
                    exchange.response.reason = Default::default();
                    // A response that is full keeps the type of the old body.
                    let _ = exchange.response.headers.set_known(FieldId::ContentType, b"application/json");
                    let text = json!({ "message": "the response could not be transformed" });
                    *body = format!("{text}\n").into_bytes();
                }
            }
        }
        ResponseStep::Done
    }
}

#[cfg(test)]
mod tests;
