//! Serves requests of the control API to endpoints of loaded code: each as an exchange of this worker that
//! meets no route, no plugin and no upstream.

use std::rc::Rc;

use message::Version;
use model::report::{EndpointReply, EndpointRequest};

use crate::command::EndpointCall;
use crate::context::WorkerContext;
use exchange::Exchange;
use exchange::plugin::extension::EndpointCode;
use exchange::plugin::{BufferedReply, Flow, PHASE_WAIT_MS, PhaseDecision};
use exchange::prepare::prepare;
use net::env;

/// Answers the request in a task of its own.
pub(super) fn serve_endpoint_call(context: &Rc<WorkerContext>, call: EndpointCall) {
    let context = context.clone();
    env::spawn(async move {
        let EndpointCall { endpoint, request, answer } = call;
        let replied = match EndpointCode::of(&endpoint) {
            Some(code) => {
                let mut exchange = context.exchanges.checkout();
                match fill(&context, &mut exchange, request) {
                    Ok(()) => reply(&mut exchange, code).await,
                    Err(refusal) => Ok(refusal),
                }
            }
            None => Err("the endpoint has no code".to_owned()),
        };
        // An error means that the client no longer waits.
        let _ = answer.send(replied);
    });
}

/// Makes the request an exchange; an error is the answer to a request that cannot be one.
fn fill(
    context: &Rc<WorkerContext>,
    exchange: &mut Exchange,
    asked: EndpointRequest,
) -> Result<(), EndpointReply> {
    let refused = |status: u16, reason: &dyn std::fmt::Display| EndpointReply {
        status,
        headers: Vec::new(),
        body: format!("{reason}\n").into_bytes(),
    };
    exchange.times.started_ns = context.local.clock_ns();
    let host = asked.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let authority = host.map_or(&b""[..], |(_, value)| value);
    let EndpointRequest { method, target, .. } = &asked;
    let made = exchange.request.set(Version::Http11, method.as_bytes(), authority, target.as_bytes());
    made.map_err(|error| refused(400, &error.reason()))?;
    for (name, value) in &asked.headers {
        exchange.request.headers.append(name, value).map_err(|error| refused(400, &error))?;
    }
    exchange.connection.peer = asked.peer.into();
    exchange.stats.request_bytes = asked.body.len() as u64;
    exchange.body.keep_whole(asked.body, None);
    exchange.decision.directory = Some(context.generation());
    let mut scratch = context.path_scratch.borrow_mut();
    prepare(&context.local.options, &mut scratch, exchange)
        .map_err(|failure| refused(failure.cause.status(), &failure.detail))
}

/// The reply of the endpoint, within the time of a phase.
async fn reply(
    exchange: &mut Exchange,
    code: &dyn exchange::plugin::Plugin,
) -> Result<EndpointReply, String> {
    let decision = match code.api(exchange) {
        Flow::Continue => PhaseDecision::Continue,
        Flow::Reply(reply) => PhaseDecision::Reply(reply),
        Flow::Stream(reply) => PhaseDecision::Stream(reply),
        Flow::Stored(reply) => PhaseDecision::Stored(reply),
        Flow::Wait(future) => tokio::select! {
            decision = future => decision,
            () = env::sleep_ms(PHASE_WAIT_MS) => {
                return Err(format!("the endpoint took longer than {PHASE_WAIT_MS} ms"));
            }
        },
    };
    let reply = match decision {
        PhaseDecision::Continue => BufferedReply::status(200),
        PhaseDecision::Reply(reply) => *reply,
        PhaseDecision::Stream(_) | PhaseDecision::Stored(_) => {
            return Err("the endpoint answers in parts, which the control API does not send".to_owned());
        }
    };
    let mut headers: Vec<(String, String)> =
        reply.headers.into_iter().map(|(name, value)| (name.into_owned(), value)).collect();
    for (name, value) in std::mem::take(&mut exchange.early_fields) {
        if !name.eq_ignore_ascii_case("set-cookie") {
            headers.retain(|(own, _)| !own.eq_ignore_ascii_case(&name));
        }
        headers.push((name.into(), value.into()));
    }
    Ok(EndpointReply { status: reply.status, headers, body: reply.body.into_owned() })
}
