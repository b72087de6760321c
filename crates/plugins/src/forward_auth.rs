//! # forward-auth
//!
//! Asks another server whether a request may pass. The status of its response decides: below 300 the request
//! continues, with the listed fields of the response; any other response is sent to the client.
//!
//! ```json
//! {
//!   "uri": "http://127.0.0.1:9000/auth",
//!   "request_headers": ["Authorization", "Cookie"],
//!   "upstream_headers": ["X-User-ID"],
//!   "client_headers": ["Location", "WWW-Authenticate"],
//!   "timeout": 1000
//! }
//! ```
//!
//! **Request to the server.** `X-Forwarded-Proto`, `X-Forwarded-Method`, `X-Forwarded-Host`,
//! `X-Forwarded-Uri` and `X-Forwarded-For` describe the request, and replace fields of these names that the
//! client sends. The path in `X-Forwarded-Uri` is the canonical one, which is also matched, so that the
//! server and the router see the same path. `request_headers` lists fields of the client that are forwarded,
//! `extra_headers` adds others, with variables in their values; a request with a line break or another
//! control character in one of these values is refused with 403, because the server would decide without the
//! field. With `request_method` `POST` the request's body is sent along, with its `Content-Encoding`; a body
//! of more than `max_req_body_size` bytes is refused with 413.
//!
//! **Response of the server.** Each field in `upstream_headers` is copied from the response into the request
//! for the upstream; a field that the response lacks is removed from the request, because only the server can
//! vouch for it. For a refusal the client receives the response's status, body and `Content-Type`, and the
//! fields in `client_headers`. A redirect is a refusal. With `consumer_header` the named field holds the name
//! of a consumer; its plugins are then merged into the route's; without the field, or with a consumer that
//! does not exist, the request is refused with 403. The server is then asked in the rewrite phase, before a
//! body is read: `consumer_header` and `POST` exclude each other.
//!
//! **Without a response** of at most 1 MiB within `timeout` milliseconds, the client receives
//! `status_on_error`; with `allow_degradation` the request passes. The error log names the fault, the server
//! and the side at fault, at most once a second for each instance.
//!
//! Each worker keeps up to `keepalive_pool` connections for `keepalive_timeout` milliseconds. Over `https`
//! the server's certificate has to be valid for the URI's host and signed by an authority that the setting
//! `trusted_certificates` names, unless `ssl_verify` is `false`.

mod settings;

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::outbound::{
    OutboundDestination, OutboundError, OutboundLimits, OutboundRequest, OutboundResponse, OutboundTls,
};
use exchange::plugin::{
    BodyNeed, BufferedReply, Build, Explained, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase,
};

use message::{FieldError, FieldId, Headers, Method};
use net::endpoint::KeepAlive;
use router::vars::Template;
use serde_json::Value;

use crate::shared::attributes::Attribute;
use crate::shared::config;
use crate::shared::consumer::set_consumer_headers;
use crate::shared::outages::Outages;
use crate::shared::uri::encode_path;
use settings::{ForwardAuthConfig, RequestMethod, check, extra_headers};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "forward-auth",
    2002,
    &[PluginPhase::Rewrite, PluginPhase::RequestBody, PluginPhase::Access],
    ForwardAuthConfig::schema,
    build,
)
.checked(check)
.documented(include_str!("forward_auth.rs"));

/// The compiled plugin.
struct ForwardAuth {
    destination: OutboundDestination,
    limits: OutboundLimits,
    method: RequestMethod,
    /// The longest request body that is sent along: it is held in memory while the server is asked.
    max_body_bytes: usize,
    request_headers: Vec<Box<str>>,
    extra_headers: Vec<(Box<str>, Template)>,
    upstream_headers: Vec<Box<str>>,
    client_headers: Vec<Box<str>>,
    consumer_header: Option<Box<str>>,
    /// The reply while the server cannot be reached; `None` if requests pass.
    on_error: Option<BufferedReply>,
    outages: Outages,
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: ForwardAuthConfig = config::parse_config(config)?;
    let keep_alive = KeepAlive {
        size: if config.keepalive { config.keepalive_pool } else { 0 },
        idle_timeout_ms: config.keepalive_timeout,
        ..KeepAlive::default()
    };
    let timeout_ms = config.timeout;
    Ok(Arc::new(ForwardAuth {
        destination: build.services.destination(
            &config.uri,
            keep_alive,
            &OutboundTls::verifying(config.ssl_verify),
        )?,
        limits: OutboundLimits {
            connect_timeout_ms: timeout_ms,
            total_timeout_ms: timeout_ms,
            max_body_bytes: ANSWER_MAX_BYTES,
        },
        method: config.request_method,
        max_body_bytes: config.max_req_body_size,
        request_headers: config.request_headers,
        extra_headers: extra_headers(config.extra_headers.as_ref())?,
        upstream_headers: config.upstream_headers,
        client_headers: config.client_headers,
        consumer_header: config.consumer_header,
        on_error: (!config.allow_degradation).then(|| BufferedReply::status(config.status_on_error)),
        outages: Outages::new(build, "forward-auth"),
    }))
}

impl Plugin for ForwardAuth {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        // A consumer has to be known before its plugins can be merged.
        match self.consumer_header {
            Some(_) => Flow::Wait(Box::pin(self.ask(exchange))),
            None => Flow::Continue,
        }
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match self.consumer_header {
            Some(_) => Flow::Continue,
            None => Flow::Wait(Box::pin(self.ask(exchange))),
        }
    }

    fn wants_request_body(&self, _exchange: &Exchange) -> BodyNeed {
        match self.method {
            RequestMethod::Get => BodyNeed::None,
            RequestMethod::Post => BodyNeed::Buffer { limit_bytes: self.max_body_bytes },
        }
    }

    fn explain(&self, _: &mut Exchange, phase: PluginPhase) -> Explained {
        let asks_in = if self.consumer_header.is_some() { PluginPhase::Rewrite } else { PluginPhase::Access };
        if phase != asks_in {
            return Explained::passes();
        }
        Explained::calls(format!("it would ask {}", self.destination.uri()))
    }
}

impl ForwardAuth {
    async fn ask(&self, exchange: &mut Exchange) -> PhaseDecision {
        // Without a field that the server may decide by, it would decide about another request.
        let Ok(question) = self.question(exchange) else {
            return PhaseDecision::Reply(Box::new(BufferedReply::status(MALFORMED_STATUS)));
        };
        let worker = exchange.local().clone();
        match worker.http.send(&self.destination, &question, &self.limits).await {
            Ok(answer) if answer.status >= 300 => self.refuse(answer),
            Ok(answer) => self.let_pass(exchange, &answer),
            Err(error) => self.without_answer(&error, worker.now_ms()),
        }
    }

    /// The request to the server.
    ///
    /// # Errors
    /// A value that comes from the client through a variable is not valid in a field.
    fn question(&self, exchange: &Exchange) -> Result<OutboundRequest, FieldError> {
        let request = &exchange.request;
        let mut headers = Headers::new();
        let mut target = Vec::new();
        encode_path(exchange, exchange.path(), &mut target);
        if let Some(query) = request.query() {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        let client = exchange.client_address().to_string();
        let about_it: [(&str, &[u8]); 5] = [
            ("X-Forwarded-Proto", exchange.connection.scheme.as_str().as_bytes()),
            ("X-Forwarded-Method", request.method_text()),
            ("X-Forwarded-Host", exchange.host()),
            ("X-Forwarded-Uri", &target),
            ("X-Forwarded-For", client.as_bytes()),
        ];
        for (name, value) in about_it {
            headers.set(name, value)?;
        }
        let is_post = self.method == RequestMethod::Post;
        if is_post {
            let codings = request.headers.get_all_known(FieldId::ContentEncoding);
            codings.for_each(|coding| append(&mut headers, "Content-Encoding", coding));
        }
        for (name, value) in &self.extra_headers {
            let mut rendered = Vec::new();
            value.render(exchange, &mut rendered);
            headers.set(name, &rendered)?;
        }
        for name in &self.request_headers {
            if !headers.contains(name) {
                request.headers.get_all(name).for_each(|value| append(&mut headers, name, value));
            }
        }
        let body = if is_post { exchange.request_body().unwrap_or_default().to_vec() } else { Vec::new() };
        let method = if is_post { Method::Post } else { Method::Get };
        Ok(OutboundRequest { method, headers, body: body.into() })
    }

    fn refuse(&self, answer: OutboundResponse) -> PhaseDecision {
        let mut reply = BufferedReply::status(answer.status).with_body(answer.body);
        let listed = |name: &str| self.client_headers.iter().any(|other| other.eq_ignore_ascii_case(name));
        // The reply has a length of its own.
        let is_the_answers = |id: FieldId| !id.is_hop_by_hop() && id != FieldId::ContentLength;
        for field in answer.headers.iter().filter(|field| is_the_answers(field.id)) {
            let name = String::from_utf8_lossy(field.name);
            if listed(&name) || name.eq_ignore_ascii_case("content-type") {
                reply = reply.with_header(name.into_owned(), String::from_utf8_lossy(field.value));
            }
        }
        PhaseDecision::Reply(Box::new(reply))
    }

    fn let_pass(&self, exchange: &mut Exchange, answer: &OutboundResponse) -> PhaseDecision {
        if let Some(name) = &self.consumer_header {
            let named = answer.headers.get(name).and_then(|value| std::str::from_utf8(value).ok());
            let refused = match named.filter(|name| !name.is_empty()) {
                None => "consumer header missing in auth response",
                Some(username) => match exchange.consumer_named(username) {
                    None => "consumer not found",
                    Some(consumer) => {
                        set_consumer_headers(exchange, &consumer);
                        exchange.authenticate(consumer);
                        ""
                    }
                },
            };
            if !refused.is_empty() {
                return PhaseDecision::Reply(Box::new(
                    BufferedReply::status(403).with_body(refused.as_bytes()),
                ));
            }
        }
        for name in &self.upstream_headers {
            exchange.remove_request_field(name);
            exchange.decision.user_fields.push(name.clone());
            let headers = &mut exchange.request.headers;
            answer.headers.get_all(name).for_each(|value| append(headers, name, value));
        }
        PhaseDecision::Continue
    }

    fn without_answer(&self, error: &OutboundError, now_ms: u64) -> PhaseDecision {
        if let Some(requests) = self.outages.add(now_ms) {
            let passes = self.on_error.is_none();
            tracing::warn!(%error, requests, passes, "forward-auth got no answer");
        }
        match &self.on_error {
            Some(reply) => PhaseDecision::Reply(Box::new(reply.clone())),
            None => PhaseDecision::Continue,
        }
    }
}

/// Appends a field after others of the same name. A received value is valid, so this fails only if the list
/// is full.
fn append(headers: &mut Headers, name: &str, value: &[u8]) {
    let _ = headers.append(name, value);
}

/// The longest response that is accepted: a page with a login form, not a download.
const ANSWER_MAX_BYTES: usize = 1024 * 1024;
/// The status of a request of which a field for the server cannot be written.
const MALFORMED_STATUS: u16 = 403;
#[cfg(test)]
mod tests;
