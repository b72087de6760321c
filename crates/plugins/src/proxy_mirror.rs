//! # proxy-mirror
//!
//! Sends a copy of requests to another server, to try a new version with real traffic. The responses of that
//! server are thrown away; it never delays a client, and its failures change nothing.
//!
//! ```json
//! { "host": "http://127.0.0.1:8081", "path": "/shadow", "path_concat_mode": "prefix", "sample_ratio": 0.1 }
//! ```
//!
//! **Destination.** `host` is `http://` or `https://`, a name or address, and perhaps a port. The certificate
//! of an `https` server is not verified, as in APISIX, unless the setting `tls_verify_all` is on. `grpc://`
//! and `grpcs://` are refused, because copies are sent by HTTP/1.1 only.
//!
//! **Copies.** A copy has the method, the fields (without those of the connection), the `Host` and the body
//! of the request. Its path and query are those of the request; `path` replaces the path, or precedes it with
//! `path_concat_mode` `prefix`. The path is taken when this plugin runs, which is before `proxy-rewrite`; to
//! copy a rewritten path, give `proxy-rewrite` a `_meta.priority` above 1010. `sample_ratio` is the share of
//! the requests that are copied, drawn at random for each.
//!
//! Only requests that are forwarded are copied, not those that a plugin answers. A copy without a body is
//! sent when the request is forwarded. One with a body is sent after the response, because the body is kept
//! while it passes by: up to 1 MiB; a request with a longer body, or with one that did not arrive whole, is
//! not copied. Copies are not masked by `data-mask`.
//!
//! **Limits.** A copy may take 5 seconds to connect and 60 in all. At most 256 copies of an instance, and on
//! a worker copies with 32 MiB of bodies, are under way; further ones are dropped. The error log reports
//! copies that were dropped or failed, with their number, in one line a second at most for each instance; the
//! metric `weir_plugin_events_total` counts them (`lost`) and those that were sent (`copied`).

mod in_flight;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use exchange::Exchange;
use exchange::WorkerLocal;
use exchange::observe::pace::Pace;
use exchange::plugin::events::EventCounter;
use exchange::plugin::outbound::{
    CopiedLine, OutboundCause, OutboundDestination, OutboundLimits, OutboundRequest, OutboundTls, check_uri,
};
use exchange::plugin::{BodyNeed, Build, Flow, Plugin, PluginKind, PluginPhase};
use message::{FieldId, Method};
use net::endpoint::KeepAlive;
use net::env;
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes, words};
use crate::shared::config;
use in_flight::{MirrorBodyBytes, MirrorCopyCount, MirrorPermit};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "proxy-mirror",
    1010,
    &[PluginPhase::Rewrite, PluginPhase::RequestBody, PluginPhase::BeforeProxy, PluginPhase::BeforeLog],
    ProxyMirrorConfig::schema,
    build,
)
.checked(|config| check(&config::parse_config(config)?))
.documented(include_str!("proxy_mirror.rs"));

attributes! {
    struct ProxyMirrorConfig {
        /// The server that receives the copies: a scheme, a host and perhaps a port.
        host: String, { "pattern": HOST_PATTERN };
        /// The path of the copies, in place of that of the request.
        path: Option<String>, { "pattern": PATH_PATTERN };
        /// Whether `path` replaces the path of the request or precedes it.
        path_concat_mode: PathMode = PathMode::Replace;
        /// The share of the requests that are copied.
        sample_ratio: f64 = 1.0, { "minimum": 0.00001, "maximum": 1, "default": 1 };
    }
}

words! {
    enum PathMode {
        /// `path` alone.
        Replace = "replace",
        /// `path`, then the path of the request.
        Prefix = "prefix",
    }
}

/// The compiled plugin.
struct ProxyMirror {
    path: Option<Box<str>>,
    path_mode: PathMode,
    sample_ratio: f64,
    mirror: Arc<Mirror>,
}

/// The server that receives copies, shared by the instance and the copies under way.
struct Mirror {
    destination: OutboundDestination,
    copies: Arc<MirrorCopyCount>,
    copied: EventCounter,
    lost: EventCounter,
    pace: Pace,
}

/// The copy of a request that is yet to be sent.
#[derive(Default)]
struct PendingCopy {
    target: Option<String>,
    /// It is sent after the response, with the body.
    waits_for_body: bool,
}

fn check(config: &ProxyMirrorConfig) -> Result<(), String> {
    match config.host.split_once("://") {
        Some((scheme @ ("grpc" | "grpcs"), _)) => Err(format!(
            "host: {scheme} is not supported, because copies are sent by HTTP/1.1 only; write http or https"
        )),
        _ if config::is_reference(&config.host) => Ok(()),
        _ => check_uri(&config.host).map_err(|reason| format!("host: {reason}")),
    }
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: ProxyMirrorConfig = config::parse_config(config)?;
    check(&config)?;
    let destination =
        build.services.destination(&config.host, KeepAlive::default(), &OutboundTls::default())?;
    Ok(Arc::new(ProxyMirror {
        path: config.path.map(Into::into),
        path_mode: config.path_concat_mode,
        sample_ratio: config.sample_ratio,
        mirror: Arc::new(Mirror {
            destination,
            copies: Arc::default(),
            copied: build.services.event_counter(KIND.name, "copied"),
            lost: build.services.event_counter(KIND.name, "lost"),
            pace: Pace::every_ms(LOG_INTERVAL_MS),
        }),
    }))
}

impl ProxyMirror {
    /// Path and query of the copy.
    fn target(&self, exchange: &Exchange) -> String {
        let own = exchange.forward_path();
        let (prefix, path) = match (&self.path, self.path_mode) {
            (None, _) => ("", own),
            (Some(path), PathMode::Prefix) => (&**path, own),
            (Some(path), PathMode::Replace) => (&**path, &b""[..]),
        };
        let query = exchange.forward_query();
        let parts =
            [prefix.as_bytes(), path, if query.is_some() { b"?" } else { b"" }, query.unwrap_or_default()];
        String::from_utf8_lossy(&parts.concat()).into_owned()
    }

    fn send(&self, exchange: &Exchange, target: String, body: &[u8]) {
        let local = exchange.local().clone();
        // Another plugin may have had a longer body read whole.
        if body.len() > BODY_MAX_BYTES {
            return self.mirror.report(&local, &too_long());
        }
        let bodies = local.resource(MirrorBodyBytes::default);
        let Some(place) = MirrorPermit::take(&self.mirror.copies, &bodies, body.len()) else {
            return self.mirror.report(&local, &"too many copies are under way");
        };
        let request = &exchange.request;
        let line = CopiedLine {
            method: request.method_text().into(),
            target,
            host: exchange.target.forward_host.as_deref().unwrap_or(request.authority()).into(),
        };
        let mut headers = request.headers.clone();
        headers.remove_known(FieldId::Host);
        let method = if request.method == Method::Other { Method::Post } else { request.method };
        let copy = OutboundRequest { method, headers, body: body.to_vec().into() };
        let mirror = self.mirror.clone();
        env::spawn(async move {
            let _place = place;
            match local.http.send_copy(&mirror.destination, &line, &copy, &LIMITS).await {
                // A long response is thrown away like any other.
                Ok(_)
                | Err(exchange::plugin::outbound::OutboundError {
                    cause: OutboundCause::BodyTooLarge, ..
                }) => {
                    mirror.copied.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => mirror.report(&local, &error),
            }
        });
    }
}

impl Mirror {
    fn report(&self, local: &WorkerLocal, reason: &dyn std::fmt::Display) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        if let Some(requests) = self.pace.add(1, local.now_ms()) {
            tracing::warn!(%reason, requests, host = self.destination.uri(), "proxy-mirror lost copies of requests");
        }
    }
}

impl Plugin for ProxyMirror {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        if self.sample_ratio >= 1.0 || fastrand::f64() < self.sample_ratio {
            let target = self.target(exchange);
            exchange.state::<PendingCopy>().target = Some(target);
        }
        Flow::Continue
    }

    fn wants_request_body(&self, exchange: &Exchange) -> BodyNeed {
        let is_copied = exchange.peek_state::<PendingCopy>().is_some_and(|pending| pending.target.is_some());
        if is_copied && has_body(exchange) {
            BodyNeed::Copy { limit_bytes: BODY_MAX_BYTES }
        } else {
            BodyNeed::None
        }
    }

    fn before_proxy<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let waits = has_body(exchange) && exchange.body.whole().is_none();
        let pending = exchange.state::<PendingCopy>();
        pending.waits_for_body = waits;
        if !waits && let Some(target) = pending.target.take() {
            self.send(exchange, target, exchange.body.whole().unwrap_or_default());
        }
        Flow::Continue
    }

    // Not in the log phase, because `data-mask` changes the request before it.
    fn request_ended(&self, exchange: &Exchange) {
        // Without `waits_for_body` the request was answered before it was forwarded.
        let Some(PendingCopy { target: Some(target), waits_for_body: true }) =
            exchange.peek_state::<PendingCopy>()
        else {
            return;
        };
        let sent = exchange.read_whole_request_body(|body| self.send(exchange, target.clone(), body));
        if sent.is_none() {
            self.mirror.report(exchange.local(), &too_long());
        }
    }
}

fn too_long() -> String {
    format!("the body did not arrive whole or is longer than {BODY_MAX_BYTES} bytes")
}

/// Whether the request announces a body.
fn has_body(exchange: &Exchange) -> bool {
    let headers = &exchange.request.headers;
    let length = headers.get("content-length");
    length.map_or_else(|| may_have_body(exchange), |length| length != b"0")
}

/// Whether a request without a declared length may have a body: HTTP/1 says so, later versions end the
/// stream.
fn may_have_body(exchange: &Exchange) -> bool {
    use message::Version::{Http2, Http3};
    let request = &exchange.request;
    match request.version {
        Http2 | Http3 => !matches!(request.method, Method::Get | Method::Head | Method::Options),
        _ => request.headers.contains("transfer-encoding"),
    }
}

/// The longest body that is kept for a copy.
const BODY_MAX_BYTES: usize = 1024 * 1024;
/// The limits of one copy. Its response is read only to keep the connection.
const LIMITS: OutboundLimits =
    OutboundLimits { connect_timeout_ms: 5_000, total_timeout_ms: 60_000, max_body_bytes: 64 * 1024 };
/// Milliseconds between two lines about copies that were lost.
const LOG_INTERVAL_MS: u64 = 1_000;
/// As in APISIX.
const HOST_PATTERN: &str = r"^(http(s)?|grpc(s)?):\/\/([\da-zA-Z.-]+|\[[\da-fA-F:]+\])(:\d+)?$";
const PATH_PATTERN: &str = r"^/[^?&]+$";

#[cfg(test)]
mod tests;
