//! Where a request would be sent: the message that an endpoint would receive, and the endpoints that it may
//! go to, each with its share.

use std::net::SocketAddr;
use std::sync::Arc;

use model::report::ExplainQuestion;
use net::node_state::Unusable;
use serde_json::{Value, json};

use crate::body::BodyLength;
use crate::forward::upgrade;
use crate::h1::encode;
use crate::runtime::{CompiledRoute, Generation};
use crate::upstream::{PassHost, Upstream};
use exchange::Exchange;
use exchange::plugin::{UpstreamChoice, UpstreamRef};

/// Endpoints that are listed; an upstream may have thousands.
const CANDIDATES_MAX: usize = 100;
/// Upstreams that are listed where a plugin divides requests among several.
const CHOICES_MAX: usize = 20;

/// The upstream that the request would go to: the one that a plugin has selected, else that of its route.
pub(super) fn resolve_upstream<'r>(
    generation: &'r Generation,
    route: Option<&Arc<CompiledRoute>>,
    selected: Option<&UpstreamRef>,
) -> Option<&'r Upstream> {
    let slot = match selected {
        Some(selected) => *generation.upstream_slots.get(selected.identity())?,
        None => route?.upstream?,
    };
    generation.upstreams.get(slot).map(|upstream| &**upstream)
}

/// Fields that the gateway itself writes, in lower case; no value of them is a secret.
const OWN_FIELDS: [&str; 17] = [
    "host",
    "connection",
    "upgrade",
    "content-length",
    "transfer-encoding",
    "te",
    "via",
    "x-real-ip",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-consumer-username",
    "x-consumer-custom-id",
    "x-credential-identifier",
    "x-consumer-group",
    "x-request-id",
];
/// Stands for a value that may be a secret.
const HIDDEN: &str = "(hidden)";

/// The request as an endpoint of `upstream` would receive it over HTTP/1, with a body as long as the question
/// says. A value that a plugin sets is shown only where the question or the `route` has it as a text: it may
/// be what a reference to a secret stands for, and keys that may ask need not be allowed to see that.
pub(super) fn forwarded(
    exchange: &mut Exchange,
    upstream: &Upstream,
    route: Option<&Arc<CompiledRoute>>,
    question: &ExplainQuestion,
) -> Value {
    if !exchange.target.host_is_rewritten {
        match &upstream.pass_host {
            PassHost::Pass => {}
            PassHost::Rewrite(host) => exchange.target.forward_host = Some(host.as_bytes().to_vec()),
            PassHost::Node => {
                let first = upstream.nodes.load().nodes.first().map(|node| node.host.as_bytes().to_vec());
                exchange.target.forward_host = first;
            }
        }
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let host = exchange.target.forward_host.as_deref().unwrap_or(exchange.request.authority());
    let mut url = format!("{}://{}{}", upstream.scheme, text(host), text(exchange.forward_path()));
    if let Some(query) = exchange.forward_query() {
        url.push('?');
        url.push_str(&text(query));
    }
    let length = match question.body_bytes {
        0 => BodyLength::None,
        bytes => BodyLength::Known(bytes),
    };
    exchange.decision.is_upgrade = route.is_some_and(|route| route.enable_websocket)
        && upgrade::is_passed_on(exchange, upstream.protocol.is_http2(), length);
    let mut head = Vec::new();
    encode::write_h1_request_head(exchange, length, &mut head);
    let head = text(&head);
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let written = route.map(|route| &*route.info.written);
    let service = route.and_then(|route| route.info.service.as_ref()).map(|service| &*service.written);
    let is_known = |name: &str, value: &str| {
        OWN_FIELDS.iter().any(|own| name.eq_ignore_ascii_case(own))
            || question.headers.iter().any(|(_, asked)| asked == value)
            || [written, service].into_iter().flatten().any(|text| text.contains(value))
    };
    let shown = |(name, value)| json!([name, if is_known(name, value) { value } else { HIDDEN }]);
    let headers: Vec<Value> = fields.map(shown).collect();
    json!({ "method": text(exchange.request.method_text()), "url": url, "headers": headers })
}

/// The endpoints of `upstream`. The share of one is what its weight says among the usable ones of the
/// priority in use; a method that measures endpoints, or a hash of the request, may divide otherwise.
pub(super) fn candidates(upstream: &Upstream) -> Value {
    let set = upstream.nodes.load();
    let is_usable = |node: &net::nodes::ResolvedNode| node.state.is_usable() && node.weight > 0;
    let in_use = set.nodes.iter().filter(|node| is_usable(node)).map(|node| node.priority).max();
    let takes_part = |node: &net::nodes::ResolvedNode| is_usable(node) && Some(node.priority) == in_use;
    let total: u64 =
        set.nodes.iter().filter(|node| takes_part(node)).map(|node| u64::from(node.weight)).sum();
    let listed: Vec<Value> = set
        .nodes
        .iter()
        .take(CANDIDATES_MAX)
        .map(|node| {
            let address: SocketAddr = node.endpoint.address;
            let share = if takes_part(node) && total > 0 {
                f64::from(node.weight) * 100.0 / total as f64
            } else {
                0.0
            };
            let state = if node.state.is(Unusable::Unhealthy) {
                "unhealthy"
            } else if node.state.is(Unusable::Ejected) {
                "ejected"
            } else {
                "usable"
            };
            json!({ "address": address, "state": state, "share": (share * 10.0).round() / 10.0 })
        })
        .collect();
    described(upstream, listed)
}

/// The upstreams that a plugin divides such requests among, each with its share and its endpoints.
pub(super) fn choices(
    generation: &Generation,
    route: Option<&Arc<CompiledRoute>>,
    choices: &[UpstreamChoice],
) -> Value {
    let of_choice = |choice: &UpstreamChoice| {
        let found = resolve_upstream(generation, route, choice.upstream.as_ref());
        json!({ "share": (choice.share * 10.0).round() / 10.0, "upstream": found.map(candidates) })
    };
    choices.iter().take(CHOICES_MAX).map(of_choice).collect()
}

/// As [`candidates`], of a session of layer 4 at `local`, which is the destination of one that goes where its
/// client wanted to go.
pub(super) fn of_session(upstream: &Upstream, local: SocketAddr) -> Value {
    let Some(original) = &upstream.original else { return candidates(upstream) };
    let (state, share) = match original.refusal(local) {
        None => ("allowed", 100.0),
        Some(_) => ("refused", 0.0),
    };
    described(upstream, vec![json!({ "address": local, "state": state, "share": share })])
}

fn described(upstream: &Upstream, candidates: Vec<Value>) -> Value {
    let identity = &*upstream.identity;
    let id = identity.strip_prefix("/upstreams/").or_else(|| identity.strip_prefix('/')).unwrap_or(identity);
    json!({ "id": id, "type": upstream.balancer.name, "candidates": candidates })
}
