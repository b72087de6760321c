//! # opa
//!
//! Asks a server of [Open Policy Agent](https://www.openpolicyagent.org) whether a request may pass.
//!
//! ```json
//! {
//!     "host": "http://127.0.0.1:8181",
//!     "policy": "gateway",
//!     "with_consumer": false,
//!     "send_headers_upstream": ["X-User"],
//!     "timeout": 1000
//! }
//! ```
//!
//! **Question.** The server is sent `POST /v1/data/POLICY` with this document as `input`:
//!
//! | field | value |
//! |---|---|
//! | `type` | `http` |
//! | `request` | `scheme`, `method`, `host`, `port`, `path` (canonical and decoded, as it is matched), `headers` (names in lower case) and `query` (decoded); a header field or argument that is sent more than once is a list, an argument without a value is `true` |
//! | `var` | `server_addr`, `server_port`, `remote_addr`, `remote_port`, and `timestamp` in seconds |
//! | `route` | with `with_route`, the route as it was written, without its upstream |
//! | `service` | with `with_service`, the route's service as it was written, without its upstream |
//! | `consumer` | with `with_consumer`, the consumer as it was written, its `consumer_name` and `credential_id` |
//!
//! Objects are sent with the secrets that are written in them, such as the consumer's keys; secrets that are
//! references are sent as references. Credentials are separate objects and are not sent.
//!
//! **Decision.** The policy's document, `result` of the answer, is an object. With `allow: true` the request
//! continues. Each field in `send_headers_upstream` is then set to its value in `headers` of the document; a
//! field that the document lacks is removed from the request, because only the server can vouch for it. If
//! one of these values is not valid in a field, the client is answered with 503, because the upstream would
//! decide without it.
//!
//! With any other `allow` the client is answered with `status_code` of the document (403 without one), with
//! the fields in its `headers` and with its `reason` as the body: a text as it is, anything else as JSON.
//!
//! **Without a decision.** If no answer of at most 1 MiB comes within `timeout` milliseconds, the client is
//! answered with 403; if the answer has another status than 200 or holds no object as `result`, as with a
//! policy that does not exist, with 503. The error log names the fault, the server and the side at fault, at
//! most once a second for each instance.
//!
//! Each worker keeps up to `keepalive_pool` connections for `keepalive_timeout` milliseconds. Over `https`
//! the server's certificate has to be valid for the host and signed by an authority that the setting
//! `trusted_certificates` names, unless `ssl_verify` is `false`.

mod decision;
mod input;

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::outbound::{
    OutboundDestination, OutboundLimits, OutboundRequest, OutboundTls, check_uri,
};
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase,
};
use message::{FieldError, Headers, Method};
use net::endpoint::KeepAlive;
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::fields;
use crate::shared::outages::Outages;
use decision::OpaDecision;
use input::OpaInput;

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("opa", 2001, &[PluginPhase::Access], OpaConfig::schema, build)
        .checked(check)
        .documented(include_str!("opa.rs"));

attributes! {
    struct OpaConfig {
        /// The server: an http or https URI.
        host: String;
        /// Whether the server's certificate is verified, for an https URI.
        ssl_verify: bool = true;
        /// The path of the policy's document, behind /v1/data/.
        policy: String;
        /// Milliseconds until the whole answer has to be there.
        timeout: u64 = 3_000, {"minimum": 1, "maximum": 60_000};
        /// Keeps connections for further requests.
        keepalive: bool = true;
        /// Fields of the decision that the upstream gets in place of the client's.
        send_headers_upstream: Option<Vec<Box<str>>>, {"minItems": 1};
        /// Milliseconds a connection is kept without use.
        keepalive_timeout: u64 = 60_000, {"minimum": 1_000};
        /// The most connections kept by each worker.
        keepalive_pool: u32 = 5, {"minimum": 1};
        /// Sends the route along.
        with_route: bool = false;
        /// Sends the route's service along.
        with_service: bool = false;
        /// Sends the consumer along, with the secrets written in it.
        with_consumer: bool = false;
    }
    {"title": "Pass or refuse by a policy of Open Policy Agent"}
}

impl OpaConfig {
    fn uri(&self) -> String {
        format!("{}/v1/data/{}", self.host.trim_end_matches('/'), self.policy.trim_start_matches('/'))
    }
}

struct Opa {
    destination: OutboundDestination,
    limits: OutboundLimits,
    input: OpaInput,
    upstream_fields: Vec<Box<str>>,
    outages: Outages,
}

fn check(config: &Value) -> Result<(), String> {
    let config: OpaConfig = config::parse_config(config)?;
    for name in config.send_headers_upstream.iter().flatten() {
        fields::parse_field_name(name).map_err(|reason| format!("send_headers_upstream: {reason}"))?;
    }
    match config::is_reference(&config.host) || config::is_reference(&config.policy) {
        true => Ok(()),
        false => check_uri(&config.uri()).map_err(|reason| format!("host: {reason}")),
    }
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: OpaConfig = config::parse_config(config)?;
    let keep_alive = KeepAlive {
        size: if config.keepalive { config.keepalive_pool } else { 0 },
        idle_timeout_ms: config.keepalive_timeout,
        ..KeepAlive::default()
    };
    let tls = OutboundTls::verifying(config.ssl_verify);
    Ok(Arc::new(Opa {
        destination: build.services.destination(&config.uri(), keep_alive, &tls)?,
        limits: OutboundLimits {
            connect_timeout_ms: config.timeout,
            total_timeout_ms: config.timeout,
            max_body_bytes: ANSWER_MAX_BYTES,
        },
        input: OpaInput::new(config.with_route, config.with_service, config.with_consumer),
        upstream_fields: config.send_headers_upstream.unwrap_or_default(),
        outages: Outages::new(build, "opa"),
    }))
}

impl Plugin for Opa {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        Flow::Wait(Box::pin(self.ask(exchange)))
    }

    fn explain(&self, _: &mut Exchange, _: PluginPhase) -> Explained {
        Explained::calls(format!("it would ask {}", self.destination.uri()))
    }
}

impl Opa {
    async fn ask(&self, exchange: &mut Exchange) -> PhaseDecision {
        let worker = exchange.local().clone();
        let mut headers = Headers::new();
        headers.set("Content-Type", b"application/json").expect("a valid field");
        let body = self.input.render(exchange).into();
        let question = OutboundRequest { method: Method::Post, headers, body };
        let refusal = match worker.http.send(&self.destination, &question, &self.limits).await {
            Ok(answer) => match decision::read_opa_decision(answer.status, &answer.body) {
                Ok(OpaDecision::Pass(fields)) => match self.let_pass(exchange, &fields) {
                    Ok(()) => return PhaseDecision::Continue,
                    Err(_) => {
                        self.log(worker.now_ms(), "a value of its headers is not valid in a field");
                        BufferedReply::status(503)
                    }
                },
                Ok(OpaDecision::Refuse(reply)) => reply,
                Err(fault) => {
                    self.log(worker.now_ms(), &fault);
                    BufferedReply::status(503)
                }
            },
            Err(error) => {
                self.log(worker.now_ms(), &error.to_string());
                BufferedReply::status(403)
            }
        };
        PhaseDecision::Reply(Box::new(refusal))
    }

    /// Sets the fields for the upstream.
    ///
    /// # Errors
    /// A value is not valid in a field: the upstream would decide without it.
    fn let_pass(&self, exchange: &mut Exchange, fields: &decision::DecisionFields) -> Result<(), FieldError> {
        for name in &self.upstream_fields {
            exchange.remove_request_field(name);
            exchange.decision.user_fields.push(name.clone());
            for (_, value) in fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name)) {
                exchange.request.headers.append(name, value.as_bytes())?;
            }
        }
        Ok(())
    }

    fn log(&self, now_ms: u64, fault: &str) {
        if let Some(requests) = self.outages.add(now_ms) {
            tracing::warn!(fault, requests, "opa got no decision");
        }
    }
}

/// The longest answer that is accepted: a decision with a reason, not a set of data.
const ANSWER_MAX_BYTES: usize = 1024 * 1024;
#[cfg(test)]
mod tests;
