//! A call for a request: the request as the runner sees it, and the changes or the reply that it answers
//! with.

mod query;

use std::net::IpAddr;

use exchange::Exchange;
use exchange::plugin::{BufferedReply, Flow, PhaseDecision, ResponseStep};
use message::FieldId;
use message::query::decode;

use super::call::{CallKind, RunnerCall, RunnerMessage, RunnerTimeBudget, TRIES};
use super::error::CallError;
use super::extra_info;
use super::flat::FlatWriter;
use super::frame;
use super::messages::{self, NameValueEntry, Rewrite, RunnerAction, RunnerQuestion, StopReply, request_call};
use super::response::{REFUSED, check_fields, write_fields};
use super::settings::Caller;
use crate::shared::uri::encode_path;

const CALL: CallKind = CallKind {
    frame: frame::REQUEST_CALL,
    send: "send RPC_HTTP_REQ_CALL",
    receive: "receive RPC_HTTP_REQ_CALL",
};

/// Fields of the response that a change of a request may not set, as in APISIX: they describe the response of
/// the upstream.
const KEPT_RESPONSE_FIELDS: [&str; 10] = [
    "connection",
    "content-length",
    "transfer-encoding",
    "location",
    "server",
    "www-authenticate",
    "content-encoding",
    "content-type",
    "content-location",
    "content-language",
];

/// The field with the client's address, which the gateway sends itself unless a plugin sets it.
const REAL_IP: &str = "X-Real-IP";

/// Fields that the runner wants on the response of the request.
#[derive(Default)]
struct ResponseFields(Vec<(String, Vec<u8>)>);

/// Calls the runner for the request of `exchange`.
pub(crate) fn call_for_request<'a>(caller: &'a Caller, exchange: &'a mut Exchange) -> Flow<'a> {
    Flow::Wait(Box::pin(decide(caller, exchange)))
}

/// Sets the fields of the response that the runner has named in its call for the request.
pub(crate) fn respond<'a>(exchange: &mut Exchange) -> ResponseStep<'a> {
    if exchange.peek_state::<ResponseFields>().is_some() {
        let fields = std::mem::take(&mut exchange.state::<ResponseFields>().0);
        let fields = fields.iter().map(|(name, value)| (name.as_str(), Some(&value[..])));
        write_fields(&mut exchange.response.headers, fields);
    }
    ResponseStep::Done
}

async fn decide(caller: &Caller, exchange: &mut Exchange) -> PhaseDecision {
    caller.count();
    match converse(caller, exchange).await {
        Ok(decision) => decision,
        Err(error) => match caller.failed(exchange, &error) {
            true => PhaseDecision::Continue,
            false => PhaseDecision::Reply(Box::new(BufferedReply::status(REFUSED))),
        },
    }
}

async fn converse(caller: &Caller, exchange: &mut Exchange) -> Result<PhaseDecision, CallError> {
    let budget = RunnerTimeBudget::new(caller);
    for _ in 1..TRIES {
        match once(caller, exchange, &budget).await {
            Err(CallError::TokenUnknown) => {}
            done => return done,
        }
    }
    once(caller, exchange, &budget).await
}

async fn once(
    caller: &Caller,
    exchange: &mut Exchange,
    budget: &RunnerTimeBudget,
) -> Result<PhaseDecision, CallError> {
    let worker = exchange.local().clone();
    let mut call = {
        let exchange = &*exchange;
        let begin =
            RunnerCall::begin(caller, &worker, CALL, |writer, id, token| write(writer, exchange, id, token));
        budget.spend(begin).await?
    };
    loop {
        match budget.spend(call.next(caller, &worker)).await? {
            RunnerMessage::Answer => break,
            RunnerMessage::Question(RunnerQuestion::Variable(name)) => {
                let value = extra_info::variable(exchange, &name).await?;
                budget.spend(call.answer(value.as_deref())).await?;
            }
            RunnerMessage::Question(RunnerQuestion::RequestBody) => {
                let body = extra_info::request_body(exchange).await?;
                budget.spend(call.answer(body)).await?;
            }
            // There is no response yet; APISIX answers with nothing too.
            RunnerMessage::Question(RunnerQuestion::ResponseBody) => budget.spend(call.answer(None)).await?,
        }
    }
    let decision = match messages::read_action(call.message(), call.id)? {
        RunnerAction::Pass => PhaseDecision::Continue,
        RunnerAction::Stop(stop) => PhaseDecision::Reply(Box::new(reply(&stop)?)),
        RunnerAction::Rewrite(changes) => {
            rewrite(exchange, &changes).await?;
            PhaseDecision::Continue
        }
    };
    call.end(&worker);
    Ok(decision)
}

/// Writes the request of `exchange`.
fn write(writer: &mut FlatWriter<'_>, exchange: &Exchange, id: u32, token: u32) -> Result<(), CallError> {
    let method = exchange.request.method_text();
    let number = method_number(method)
        .ok_or_else(|| CallError::Method(String::from_utf8_lossy(method).into_owned()))?;
    let root = writer.root(&[true; request_call::COUNT]);
    writer.u32(root.slot(request_call::ID), id);
    writer.u32(root.slot(request_call::TOKEN), token);
    writer.u8(root.slot(request_call::METHOD), number);
    let client_slot = root.slot(request_call::SRC_IP);
    match exchange.client_address().to_canonical() {
        IpAddr::V4(address) => writer.list_of_bytes(client_slot, &address.octets()),
        IpAddr::V6(address) => writer.list_of_bytes(client_slot, &address.octets()),
    }
    let path_slot = root.slot(request_call::PATH);
    match &exchange.target.rewritten_path {
        Some(path) => writer.text(path_slot, &percent_encoding::percent_decode(path).collect::<Vec<u8>>()),
        None => writer.text(path_slot, exchange.path()),
    }
    write_arguments(writer, root.slot(request_call::ARGS), exchange.forward_query().unwrap_or_default());
    let host = exchange.target.forward_host.as_deref().filter(|_| exchange.target.host_is_rewritten);
    let host = host.unwrap_or_else(|| exchange.request.authority());
    let fields = exchange.request.headers.iter().filter(|field| field.id != FieldId::Host);
    let fields = fields.map(|field| (field.name, Some(field.value)));
    let fields = std::iter::once((&b"host"[..], Some(host))).chain(fields);
    messages::write_lower_case(writer, root.slot(request_call::HEADERS), fields);
    Ok(())
}

fn write_arguments(writer: &mut FlatWriter<'_>, slot: usize, query: &[u8]) {
    let arguments = message::query::arguments(query).map(|(whole, name, value)| {
        let has_value = whole.len() > name.len();
        (decode(name), has_value.then(|| decode(value)))
    });
    let arguments: Vec<_> = arguments.collect();
    let entries = arguments.iter().map(|(name, value)| (&**name, value.as_deref()));
    messages::write_entries(writer, slot, entries);
}

/// The number of a method in the protocol; none for one that it does not have.
fn method_number(method: &[u8]) -> Option<u8> {
    const METHODS: [&str; 15] = [
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "DELETE",
        "MKCOL",
        "COPY",
        "MOVE",
        "OPTIONS",
        "PROPFIND",
        "PROPPATCH",
        "LOCK",
        "UNLOCK",
        "PATCH",
        "TRACE",
    ];
    METHODS.iter().position(|known| known.as_bytes() == method).and_then(|at| u8::try_from(at).ok())
}

/// The reply of a plugin.
fn reply(stop: &StopReply<'_>) -> Result<BufferedReply, CallError> {
    let status = match stop.status {
        0 => 200,
        status @ 200..=999 => status,
        _ => return Err(CallError::Malformed("the status of a reply is not between 200 and 999")),
    };
    check_fields(&stop.headers)?;
    let mut reply = BufferedReply::status(status).with_body(stop.body.to_vec());
    for (name, value) in &stop.headers {
        let id = FieldId::of(name);
        if let Some(value) = value
            && !id.is_hop_by_hop()
            && id != FieldId::ContentLength
        {
            let name = String::from_utf8_lossy(name).into_owned();
            reply = reply.with_header(name, String::from_utf8_lossy(value));
        }
    }
    Ok(reply)
}

/// Changes the request. Everything is checked first, so that a request is changed as a whole or not at all.
async fn rewrite(exchange: &mut Exchange, changes: &Rewrite<'_>) -> Result<(), CallError> {
    check_fields(&changes.headers)?;
    check_fields(&changes.response_headers)?;
    if changes.path.is_some_and(|path| !path.starts_with(b"/")) {
        return Err(CallError::Malformed("the new path does not begin with a slash"));
    }
    let hosts = changes.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"host"));
    let hosts: Result<Vec<&str>, _> = hosts.filter_map(|(_, value)| *value).map(host).collect();
    let hosts = hosts?;
    if !changes.body.is_empty() {
        extra_info::collect(exchange).await?;
        exchange
            .set_request_body(changes.body.to_vec())
            .map_err(|_| CallError::Body("it has been sent on already"))?;
    }
    if let Some(path) = changes.path {
        let mut encoded = Vec::with_capacity(path.len());
        encode_path(exchange, path, &mut encoded);
        let is_set = exchange.set_canonical_forward_path(&encoded);
        is_set.map_err(|_| CallError::Malformed("the new path is no path"))?;
    }
    if let Some(host) = hosts.last() {
        exchange.set_forward_host(host).map_err(|_| CallError::Malformed("the new host is no host"))?;
    }
    for entry in &changes.headers {
        rewrite_field(exchange, entry);
    }
    if !changes.args.is_empty() {
        let query = query::changed(exchange.forward_query().unwrap_or_default(), &changes.args);
        exchange.set_forward_query(&query).map_err(|_| CallError::Malformed("the new query is no query"))?;
    }
    let wanted = changes.response_headers.iter().filter_map(|(name, value)| {
        let name = std::str::from_utf8(name).ok()?;
        let is_kept = KEPT_RESPONSE_FIELDS.iter().any(|kept| kept.eq_ignore_ascii_case(name));
        (!is_kept).then(|| value.map(|value| (name.to_owned(), value.to_vec())))?
    });
    let wanted: Vec<_> = wanted.collect();
    if !wanted.is_empty() {
        exchange.state::<ResponseFields>().0 = wanted;
    }
    Ok(())
}

/// A host for the upstream.
fn host(value: &[u8]) -> Result<&str, CallError> {
    let is_visible = !value.is_empty() && value.iter().all(|byte| (0x21..0x7f).contains(byte));
    let text = std::str::from_utf8(value).ok().filter(|_| is_visible);
    text.ok_or(CallError::Malformed("the new host is no host"))
}

/// Sets or removes a field of the request, which was checked.
fn rewrite_field(exchange: &mut Exchange, (name, value): &NameValueEntry<'_>) {
    let id = FieldId::of(name);
    let Ok(name) = std::str::from_utf8(name) else { return };
    // The length and the connection are the gateway's; a request needs a host.
    if id.is_hop_by_hop() || matches!(id, FieldId::ContentLength | FieldId::Host) {
        return;
    }
    match value {
        None => exchange.remove_request_field(name),
        Some(value) => {
            // It was checked; a full head keeps its fields.
            let _ = exchange.request.headers.set(name, value);
            if name.eq_ignore_ascii_case(REAL_IP) {
                exchange.keep_real_ip_field();
            }
        }
    }
}

#[cfg(test)]
mod tests;
