//! # grpc-web
//!
//! Lets browsers call gRPC services: translates gRPC-Web, over HTTP/1.1, HTTP/2 or HTTP/3, into gRPC and
//! back.
//!
//! ```json
//! {
//!     "cors_allow_headers": "content-type,x-grpc-web,x-user-agent,authorization"
//! }
//! ```
//!
//! The upstream has the scheme `grpc` or `grpcs`. Unary calls and server streaming pass; gRPC-Web has no
//! client streaming. A server's messages are sent on as they arrive.
//!
//! **Path.** With a path such as `/grpc/web/*`, the text in place of `*` is the path of the call: a client
//! with the base URL `https://example.com/grpc/web` calls `/package.Service/Method`. A route with a whole
//! path or a named parameter keeps the path of the request.
//!
//! **Requests.** The content types are `application/grpc-web` and `application/grpc-web-text` (base64, also
//! in several texts with padding each), both also with `+proto`. A POST with another type, with text that is
//! no base64, or with more than `max_req_body_size` bytes is answered with 400; another method with 405. A
//! text is read whole before it is sent on, as is a binary body of unannounced length. `grpc-timeout` bounds
//! the call.
//!
//! **Responses.** The content type is that of the request. The trailers of the call stand in the last frame
//! of the body (first byte 0x80), the status first, and are not sent as trailers. A call that fails before
//! its first message has its status in the head, and an empty body. A status of HTTP that the gateway or
//! another server gives, such as 502, stays, and the body is a frame with the matching status of gRPC.
//!
//! **CORS.** OPTIONS is answered with 204, `Access-Control-Allow-Methods: POST` and
//! `Access-Control-Allow-Headers` from `cors_allow_headers`, a preflight request (with `Origin` and
//! `Access-Control-Request-Method`) before authentication, because browsers send no credentials with it.
//! Every response allows the origin `*`, unless it has an `Access-Control-Allow-Origin` already, such as that
//! of `cors`, and exposes `grpc-message` and `grpc-status`. Add `cors` to the route to allow some origins
//! only: where it is, this plugin allows none by itself.

mod frame;
mod text;

use std::sync::Arc;

use exchange::Exchange;
use exchange::grpc::{code_of_cause, code_of_status, is_call, message_text};
use exchange::observe::pace::Pace;
use exchange::plugin::{
    BodyNeed, BufferedReply, Build, Flow, Plugin, PluginKind, PluginPhase, Portion, ResponseStep,
};
use message::{FieldId, Headers, Method};
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::uri::encode_path;

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "grpc-web",
    505,
    &[
        PluginPhase::Preflight,
        PluginPhase::RequestBody,
        PluginPhase::Access,
        PluginPhase::ResponseHead,
        PluginPhase::ResponseBody,
    ],
    GrpcWebConfig::schema,
    build,
)
.documented(include_str!("grpc_web.rs"));

attributes! {
    struct GrpcWebConfig {
        /// The longest body of a request, in bytes; a longer one is refused.
        max_req_body_size: u64 = 67_108_864, { "minimum": 1 };
        /// The fields that scripts of other origins may send, separated by commas.
        cors_allow_headers: Box<str> = "content-type,x-grpc-web,x-user-agent".into();
    }
}

struct GrpcWeb {
    max_body_bytes: usize,
    allow_headers: Box<str>,
}

/// The form of the bodies of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Binary,
    Text,
}

/// A call that is translated.
#[derive(Default)]
struct GrpcWebCall {
    /// None for a request that is no call, or was refused.
    encoding: Option<Encoding>,
    /// The content type of the request.
    content_type: Vec<u8>,
    /// The last frame of the body.
    frame: Vec<u8>,
    /// The head has the status, so that no frame follows.
    is_status_sent: bool,
    /// The body is no messages of gRPC, and only the frame is sent.
    drops_body: bool,
}

/// Requests that are refused: clients cause them, so there is one line in ten seconds at most.
static REFUSED: Pace = Pace::every_ms(10_000);

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: GrpcWebConfig = config::parse_config(config)?;
    Ok(Arc::new(GrpcWeb {
        max_body_bytes: usize::try_from(config.max_req_body_size).unwrap_or(usize::MAX),
        allow_headers: config.cors_allow_headers,
    }))
}

/// The form of bodies of a content type; none if it is not gRPC-Web.
fn encoding(content_type: &[u8]) -> Option<Encoding> {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    match &*essence.to_ascii_lowercase() {
        b"application/grpc-web" | b"application/grpc-web+proto" => Some(Encoding::Binary),
        b"application/grpc-web-text" | b"application/grpc-web-text+proto" => Some(Encoding::Text),
        _ => None,
    }
}

fn content_type(exchange: &Exchange) -> &[u8] {
    exchange.request.headers.get_known(FieldId::ContentType).unwrap_or_default()
}

/// The text in place of the `*` at the end of the route's path.
fn path_of_call(exchange: &Exchange) -> Option<&[u8]> {
    // Only routes with parameters have their values kept.
    if let Some(rest) = exchange.params.get(b":ext") {
        return Some(rest);
    }
    let literal = exchange.matched_uri()?.strip_suffix('*')?;
    exchange.path().strip_prefix(literal.as_bytes())
}

fn refuse<'a>(exchange: &Exchange, status: u16, reason: &str) -> Flow<'a> {
    if let Some(count) = REFUSED.add(1, exchange.local().now_ms()) {
        tracing::warn!(count, "grpc-web refuses requests, the last one because of {reason}");
    }
    Flow::reply(BufferedReply::status(status))
}

impl Plugin for GrpcWeb {
    fn preflight<'a>(&'a self, _exchange: &'a mut Exchange) -> Flow<'a> {
        Flow::reply(BufferedReply::status(204))
    }

    fn wants_request_body(&self, exchange: &Exchange) -> BodyNeed {
        if exchange.request.method != Method::Post {
            return BodyNeed::None;
        }
        match encoding(content_type(exchange)) {
            None => BodyNeed::None,
            Some(Encoding::Binary) if self.is_short(exchange) => BodyNeed::None,
            Some(_) => BodyNeed::Buffer { limit_bytes: self.max_body_bytes },
        }
    }

    fn refuse_long_body(&self, _exchange: &Exchange) -> Option<BufferedReply> {
        Some(BufferedReply::status(400))
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match exchange.request.method {
            Method::Options => return Flow::reply(BufferedReply::status(204)),
            Method::Post => {}
            _ => return refuse(exchange, 405, "another method than POST"),
        }
        let content_type = content_type(exchange).to_vec();
        let Some(encoding) = encoding(&content_type) else {
            return refuse(exchange, 400, "a content type that is not gRPC-Web");
        };
        if encoding == Encoding::Text {
            let Some(body) = exchange.request_body().and_then(text::decode_grpc_text) else {
                return refuse(exchange, 400, "a body that is no base64");
            };
            if exchange.set_request_body(body).is_err() {
                return refuse(exchange, 400, "a body that was not read whole");
            }
        }
        if !self.forward(exchange) {
            return refuse(exchange, 400, "a path or fields that cannot be sent on");
        }
        let call = exchange.state::<GrpcWebCall>();
        (call.encoding, call.content_type) = (Some(encoding), content_type);
        Flow::Continue
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        self.allow_origins(exchange);
        let status = exchange.response.status;
        let is_messages = exchange.response.headers.get_known(FieldId::ContentType).is_some_and(is_call);
        let failed = exchange.failure.as_ref().map(|failure| code_of_cause(failure.cause));
        let has_status = exchange.response.headers.contains("grpc-status");
        let call = exchange.state::<GrpcWebCall>();
        if call.encoding.is_none() {
            return ResponseStep::Done;
        }
        call.is_status_sent = is_messages && has_status;
        call.drops_body = !is_messages;
        if call.drops_body {
            let code = failed.unwrap_or_else(|| code_of_status(status));
            let text = match status {
                200..300 => "upstream grpc status not received",
                status => message::reason::phrase(status),
            };
            call.frame = frame::of_status(code, &message_text(text));
        }
        let content_type = std::mem::take(&mut call.content_type);
        let headers = &mut exchange.response.headers;
        for name in ["content-length", "trailer"] {
            headers.remove(name);
        }
        // A head without space for it has a client that cannot read the body.
        let _ = headers.set("Content-Type", &content_type);
        ResponseStep::Done
    }

    fn wants_response_body(&self, exchange: &Exchange) -> BodyNeed {
        match exchange.peek_state::<GrpcWebCall>() {
            Some(GrpcWebCall { encoding: Some(_), .. }) => BodyNeed::Stream,
            _ => BodyNeed::None,
        }
    }

    fn response_trailers(&self, exchange: &mut Exchange, trailers: &mut Headers) {
        let call = exchange.state::<GrpcWebCall>();
        if call.encoding.is_none() {
            return;
        }
        if !call.is_status_sent && !call.drops_body {
            call.frame = frame::of_trailers(trailers);
        }
        trailers.clear();
    }

    fn response_body<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        portion: Portion,
    ) -> ResponseStep<'a> {
        let call = exchange.state::<GrpcWebCall>();
        let is_text = call.encoding == Some(Encoding::Text);
        if call.drops_body {
            body.clear();
        }
        if is_text {
            text::encode_grpc_text(body);
        }
        if portion == Portion::Last {
            let mut frame = std::mem::take(&mut call.frame);
            if is_text {
                text::encode_grpc_text(&mut frame);
            }
            body.extend_from_slice(&frame);
        }
        ResponseStep::Done
    }
}

impl GrpcWeb {
    /// Whether the body is announced to be short enough, so that it need not be read before it is sent on.
    fn is_short(&self, exchange: &Exchange) -> bool {
        let length = exchange.request.headers.get_known(FieldId::ContentLength);
        length
            .and_then(message::syntax::decimal)
            .is_some_and(|bytes| usize::try_from(bytes).is_ok_and(|bytes| bytes <= self.max_body_bytes))
    }

    /// Makes the request a call of gRPC. False if it cannot be sent.
    fn forward(&self, exchange: &mut Exchange) -> bool {
        if let Some(path) = path_of_call(exchange).filter(|path| !path.is_empty()) {
            let mut encoded = Vec::with_capacity(1 + path.len());
            if path.first() != Some(&b'/') {
                encoded.push(b'/');
            }
            encode_path(exchange, path, &mut encoded);
            if exchange.set_forward_path(&encoded).is_err() {
                return false;
            }
        }
        let is_set = exchange.request.headers.set("Content-Type", b"application/grpc").is_ok();
        // The timeout is that of the client, which counts from its request.
        exchange.translate_call(exchange.times.started_ns);
        is_set
    }

    /// Lets scripts of other origins read the response.
    fn allow_origins(&self, exchange: &mut Exchange) {
        let is_preflight = exchange.request.method == Method::Options;
        let is_decided = exchange.decision.has_cors;
        let headers = &mut exchange.response.headers;
        // Each fails only if the response has as many fields as are allowed; then browsers refuse it.
        if is_preflight {
            let _ = headers.set("Access-Control-Allow-Methods", b"POST");
            let _ = headers.set("Access-Control-Allow-Headers", self.allow_headers.as_bytes());
        }
        if !is_decided && !headers.contains("Access-Control-Allow-Origin") {
            let _ = headers.set("Access-Control-Allow-Origin", b"*");
        }
        let _ = headers.set("Access-Control-Expose-Headers", b"grpc-message,grpc-status");
    }
}

#[cfg(test)]
mod tests;
