//! Explains the decision on a request: the same preparation and the same router as for a real request.
//! Plugins tell their effect without it. It sends nothing, counts nothing and touches no worker.

mod destination;
mod session;
mod walk;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;

use message::{FieldId, Version};
use model::report::ExplainQuestion;
use router::path::PathScratch;
use router::{Params, Verdict};
use serde_json::{Value, json};

use crate::runtime::{CompiledRoute, Generation, Runtime};
use exchange::Exchange;
use exchange::WorkerLocal;
use exchange::exchange::RequestScheme;
use exchange::failure::Cause;
use exchange::failure::Unavailable;
use exchange::options::Options;
use exchange::prepare::prepare;

pub use session::explain_session;

/// Candidates that a record lists at most; `considered_total` is the number of all.
const CONSIDERED_MAX: usize = 100;

/// The record for a request: `revision`, the `request` as the router sees it, the route that `matched`, why
/// it is answered 503 (`closed`), the candidates that were `considered`, in order, with their verdicts, the
/// faulty routes that are not in the table (`unplaced`), what each plugin would do (`pipeline`), the request
/// as it would be `forwarded`, and the `upstream` with its endpoints, or the `choices` of a plugin that
/// divides such requests, each with its share. `with` of the question is not looked at.
///
/// # Errors
/// Why the gateway would refuse the request before looking for a route, as a sentence.
pub fn explain(
    runtime: &Arc<Runtime>,
    options: &Options,
    question: &ExplainQuestion,
) -> Result<Value, String> {
    let mut exchange = asked(options, question)?;
    let mut params = Params::default();
    let matched = runtime.router.find(&exchange, &mut params);
    if let Some(reason) = exchange.gave_up.get() {
        return Err(format!("it would be refused with {}: {reason}", Cause::PatternLimit.status()));
    }
    let route = matched.and_then(|slot| runtime.routes.get(slot));
    let id_of = |slot: u32| runtime.routes.get(slot).map(|route| route.info.id.to_string());
    let all = runtime.router.explain(&exchange);
    let considered: Vec<Value> = all
        .iter()
        .take(CONSIDERED_MAX)
        .map(|candidate| {
            let (verdict, by) = match candidate.verdict {
                Verdict::OutrankedBy(slot) => ("outranked", id_of(slot)),
                verdict => (verdict_name(verdict), None),
            };
            let route = runtime.routes.get(candidate.slot);
            let mut entry = json!({
                "id": id_of(candidate.slot),
                "name": route.and_then(|route| route.info.name.as_deref()),
                "path": candidate.path_pattern,
                "host": candidate.host_pattern,
                "verdict": verdict,
                "by": by,
            });
            if let Some(missing) = route.and_then(|route| route.missing.as_ref()) {
                entry["detail"] = json!(missing.detail);
            }
            let is_about_vars = matches!(candidate.verdict, Verdict::Matched | Verdict::LostVars);
            if is_about_vars && route.is_some_and(|route| route.info.rule.uses_request_body()) {
                entry["detail"] = json!("its vars look into the body, which is not part of the question");
            }
            entry
        })
        .collect();
    let mut record = json!({
        "revision": runtime.revision,
        "request": {
            "host": String::from_utf8_lossy(exchange.host()),
            "path": String::from_utf8_lossy(exchange.path()),
        },
        "matched": route.map(|route| described(runtime, route, &params)),
        "closed": closed(runtime, route.map(|route| &**route)).map(|missing| &missing.detail),
        "considered": considered,
        "considered_total": all.len(),
        "unplaced": runtime
            .unplaced
            .iter()
            .map(|unplaced| json!({ "id": unplaced.id, "reason": unplaced.reason }))
            .collect::<Vec<_>>(),
    });
    exchange.params = params;
    exchange.decision.route = matched;
    add_journey(&mut record, runtime, route, &mut exchange, question);
    Ok(record)
}

/// Adds the plugins that the request would meet, and its destination.
fn add_journey(
    record: &mut Value,
    runtime: &Arc<Runtime>,
    route: Option<&Arc<CompiledRoute>>,
    exchange: &mut Exchange,
    question: &ExplainQuestion,
) {
    // No reclaimer takes the generation, so that it is freed here.
    let generation = Rc::new(Generation::new(runtime.clone(), channel().0));
    let is_closed = !record["closed"].is_null();
    exchange.decision.directory = Some(generation.clone());
    if is_closed {
        record["pipeline"] = json!([]);
    } else {
        let walk = walk::walk(&generation, route, exchange);
        record["pipeline"] = walk.plugins.into();
        if walk.ended_by.is_none()
            && route.is_some()
            && let Some(upstream) =
                destination::resolve_upstream(&generation, route, exchange.decision.upstream.as_ref())
        {
            record["forwarded"] = destination::forwarded(exchange, upstream, route, question);
            record["upstream"] = destination::candidates(upstream);
            if !walk.choices.is_empty() {
                // No one upstream is the answer.
                record["upstream"] = Value::Null;
                record["choices"] = destination::choices(&generation, route, &walk.choices);
            }
            return;
        }
    }
    record["forwarded"] = Value::Null;
    record["upstream"] = Value::Null;
}

/// Why the request would be answered 503: a faulty global rule, else a faulty route.
fn closed<'r>(runtime: &'r Runtime, route: Option<&'r CompiledRoute>) -> Option<&'r Unavailable> {
    runtime.global_missing.as_ref().or_else(|| route?.missing.as_ref())
}

/// The request as an exchange, parsed by the parser of real requests.
fn asked(options: &Options, question: &ExplainQuestion) -> Result<Exchange, String> {
    let ExplainQuestion { method, url, headers, remote_addr, .. } = question;
    let (of_url, target) = match url.split_once("://") {
        Some((_, rest)) => rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len())),
        None => ("", url.as_str()),
    };
    let host = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    // The authority of an absolute URL counts more than a Host field (RFC 9112 section 3.2.2).
    let authority = host.map_or(of_url, |(_, host)| if of_url.is_empty() { host } else { of_url });
    let target = if target.is_empty() { "/" } else { target };
    let local = WorkerLocal::new(0, Arc::new(options.clone()), Arc::default());
    let mut exchange = Exchange::new(local);
    let refused = |reason: &dyn std::fmt::Display| format!("it would be refused with 400: {reason}");
    let made =
        exchange.request.set(Version::Http11, method.as_bytes(), authority.as_bytes(), target.as_bytes());
    made.map_err(|error| refused(&error.reason()))?;
    let implied = ("Host".to_owned(), authority.to_owned());
    for (name, value) in headers.iter().chain(host.is_none().then_some(&implied)) {
        exchange.request.headers.append(name, value.as_bytes()).map_err(|error| refused(&error))?;
    }
    let request = &mut exchange.request;
    if request.headers.contains_token(FieldId::Connection, "upgrade") {
        request.spans.upgrade = request.headers.span_of(FieldId::Upgrade).filter(|span| !span.is_empty());
    }
    exchange.connection.peer = SocketAddr::new(*remote_addr, 0).into();
    let is_tls = url.starts_with("https://");
    exchange.connection.scheme = if is_tls { RequestScheme::Https } else { RequestScheme::Http };
    let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let port = port.unwrap_or(if is_tls { 443 } else { 80 });
    exchange.connection.local = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port).into();
    prepare(options, &mut PathScratch::default(), &mut exchange).map_err(|failure| {
        format!("it would be refused with {}: {}", failure.cause.status(), failure.detail)
    })?;
    Ok(exchange)
}

fn described(runtime: &Runtime, route: &CompiledRoute, params: &Params) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let params: serde_json::Map<String, Value> =
        params.iter().map(|(name, value)| (text(name), Value::String(text(value)))).collect();
    let upstream = route.upstream.and_then(|slot| runtime.upstreams.get(slot));
    json!({
        "id": &*route.info.id,
        "service_id": route.info.service.as_ref().map(|service| service.id.to_string()),
        "upstream_id": upstream.and_then(|upstream| upstream.identity.strip_prefix("/upstreams/")),
        "plugins": route.plugins.instances().iter().map(|instance| instance.name).collect::<Vec<_>>(),
        "params": params,
    })
}

fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Matched => "matched",
        Verdict::LostMethod => "method",
        Verdict::LostRemoteAddr => "remote_addr",
        Verdict::LostHost => "host",
        Verdict::LostVars => "vars",
        Verdict::Undecided(_) => "undecided",
        Verdict::LostParameter => "parameter",
        Verdict::OutrankedBy(_) => "outranked",
    }
}
