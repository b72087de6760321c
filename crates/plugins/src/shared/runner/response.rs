//! A call for a response: its status and fields as the runner sees them, and the changes that it answers
//! with. The runner is called when the head of the response is there. Only if it asks for the body then, the
//! body is read before the head is sent.

use exchange::Exchange;
use exchange::plugin::{BodyNeed, Portion, ResponseStep};
use message::{FieldId, Headers, Method};

use super::call::{CallKind, RunnerCall, RunnerMessage, RunnerTimeBudget, TRIES};
use super::error::CallError;
use super::extra_info::{self, BODY_BYTES_MAX};
use super::flat::FlatWriter;
use super::frame;
use super::messages::{self, NameValueEntry, ResponseChange, RunnerQuestion, response_call};
use super::settings::Caller;
use crate::shared::event_stream::is_event_stream;

const CALL: CallKind = CallKind {
    frame: frame::RESPONSE_CALL,
    send: "send RPC_HTTP_RESP_CALL",
    receive: "receive RPC_HTTP_RESP_CALL",
};

/// The status where the runner fails, as in APISIX.
pub(super) const REFUSED: u16 = 503;

/// The call of one response.
#[derive(Default)]
struct ResponseCall {
    /// A call in which the runner waits for the body.
    waiting: Option<RunnerCall>,
    /// The new body.
    replaced: Option<Vec<u8>>,
}

/// The end of the first part of a call.
enum Begun {
    /// The runner has answered; a new body, if there is one.
    Answered(Option<Vec<u8>>),
    /// The runner waits for the body.
    WantsBody(RunnerCall),
}

/// Calls the runner for the head of the response.
pub(crate) fn call_for_response_head<'a>(caller: &'a Caller, exchange: &'a mut Exchange) -> ResponseStep<'a> {
    // A reply of the gateway or of a plugin is none of the upstream.
    if exchange.stats.answered_locally && !exchange.stats.is_stored {
        return ResponseStep::Done;
    }
    ResponseStep::Wait(Box::pin(async move {
        caller.count();
        match RunnerTimeBudget::new(caller).spend(begin(caller, exchange)).await {
            Ok(Begun::Answered(None)) => {}
            Ok(Begun::Answered(body)) => exchange.state::<ResponseCall>().replaced = body,
            Ok(Begun::WantsBody(call)) => exchange.state::<ResponseCall>().waiting = Some(call),
            Err(error) if caller.failed(exchange, &error) => {}
            Err(_) => {
                refuse(exchange);
                exchange.state::<ResponseCall>().replaced = Some(Vec::new());
            }
        }
    }))
}

/// The need of the body.
pub(crate) fn need(exchange: &Exchange) -> BodyNeed {
    match exchange.peek_state::<ResponseCall>() {
        Some(ResponseCall { waiting: Some(_), .. }) => BodyNeed::Buffer { limit_bytes: BODY_BYTES_MAX },
        Some(ResponseCall { replaced: Some(_), .. }) => BodyNeed::Stream,
        _ => BodyNeed::None,
    }
}

/// Gives the body to a runner that waits for it, or puts the new body in its place.
pub(crate) fn call_for_response_body<'a>(
    caller: &'a Caller,
    exchange: &'a mut Exchange,
    body: &'a mut Vec<u8>,
    portion: Portion,
) -> ResponseStep<'a> {
    if exchange.peek_state::<ResponseCall>().is_none() {
        return ResponseStep::Done;
    }
    let visit = exchange.state::<ResponseCall>();
    if let Some(replaced) = &mut visit.replaced {
        body.clear();
        if portion == Portion::Last {
            *body = std::mem::take(replaced);
        }
        return ResponseStep::Done;
    }
    let Some(call) = visit.waiting.take() else { return ResponseStep::Done };
    ResponseStep::Wait(Box::pin(async move {
        match RunnerTimeBudget::new(caller).spend(finish(caller, exchange, call, body)).await {
            Ok(None) => {}
            Ok(Some(new)) => *body = new,
            Err(error) if caller.failed(exchange, &error) => {}
            Err(_) => {
                refuse(exchange);
                body.clear();
            }
        }
    }))
}

/// Makes the response one that says that the runner has failed.
fn refuse(exchange: &mut Exchange) {
    exchange.begin_response();
    exchange.response.status = REFUSED;
}

async fn begin(caller: &Caller, exchange: &mut Exchange) -> Result<Begun, CallError> {
    for _ in 1..TRIES {
        match once(caller, exchange).await {
            Err(CallError::TokenUnknown) => {}
            done => return done,
        }
    }
    once(caller, exchange).await
}

async fn once(caller: &Caller, exchange: &mut Exchange) -> Result<Begun, CallError> {
    let worker = exchange.local().clone();
    let mut call = {
        let exchange = &*exchange;
        RunnerCall::begin(caller, &worker, CALL, |writer, id, token| {
            write(writer, exchange, id, token);
            Ok(())
        })
        .await?
    };
    match questions(caller, exchange, &mut call, None).await? {
        true => Ok(Begun::WantsBody(call)),
        false => {
            let body = apply(exchange, &messages::read_response_change(call.message(), call.id)?)?;
            call.end(&worker);
            Ok(Begun::Answered(body))
        }
    }
}

/// Answers the questions of the runner until it answers the call. True: it asks for the body, which is not
/// known yet.
async fn questions(
    caller: &Caller,
    exchange: &mut Exchange,
    call: &mut RunnerCall,
    body: Option<&[u8]>,
) -> Result<bool, CallError> {
    let worker = exchange.local().clone();
    loop {
        match call.next(caller, &worker).await? {
            RunnerMessage::Answer => return Ok(false),
            RunnerMessage::Question(RunnerQuestion::Variable(name)) => {
                let value = extra_info::variable(exchange, &name).await?;
                call.answer(value.as_deref()).await?;
            }
            RunnerMessage::Question(RunnerQuestion::RequestBody) => {
                call.answer(extra_info::request_body(exchange).await?).await?;
            }
            // A body without an end cannot be waited for.
            RunnerMessage::Question(RunnerQuestion::ResponseBody)
                if has_no_body(exchange) || is_event_stream(&exchange.response.headers) =>
            {
                call.answer(None).await?;
            }
            RunnerMessage::Question(RunnerQuestion::ResponseBody) => match body {
                Some(body) => call.answer(Some(body).filter(|body| !body.is_empty())).await?,
                None => return Ok(true),
            },
        }
    }
}

/// Gives the body to a runner that has asked for it, and takes its answer.
async fn finish(
    caller: &Caller,
    exchange: &mut Exchange,
    mut call: RunnerCall,
    body: &[u8],
) -> Result<Option<Vec<u8>>, CallError> {
    call.answer(Some(body).filter(|body| !body.is_empty())).await?;
    questions(caller, exchange, &mut call, Some(body)).await?;
    let new = apply(exchange, &messages::read_response_change(call.message(), call.id)?)?;
    call.end(&exchange.local().clone());
    Ok(new)
}

/// Whether the response to this request has no body.
fn has_no_body(exchange: &Exchange) -> bool {
    exchange.request.method == Method::Head || matches!(exchange.response.status, 100..=199 | 204 | 304)
}

fn write(writer: &mut FlatWriter<'_>, exchange: &Exchange, id: u32, token: u32) {
    let root = writer.root(&[true; response_call::COUNT]);
    writer.u32(root.slot(response_call::ID), id);
    writer.u16(root.slot(response_call::STATUS), exchange.response.status);
    writer.u32(root.slot(response_call::TOKEN), token);
    let fields = exchange.response.headers.iter().map(|field| (field.name, Some(field.value)));
    messages::write_entries(writer, root.slot(response_call::HEADERS), fields);
}

/// Changes the head of the response, and gives the new body if there is one.
fn apply(exchange: &mut Exchange, change: &ResponseChange<'_>) -> Result<Option<Vec<u8>>, CallError> {
    check_fields(&change.headers)?;
    match change.status {
        0 => {}
        status @ 200..=999 => {
            exchange.response.status = status;
            // The reason phrase of the old status would contradict the new one.
            exchange.response.reason = Default::default();
        }
        _ => return Err(CallError::Malformed("the status of a response is not between 200 and 999")),
    }
    let headers = &mut exchange.response.headers;
    if !change.body.is_empty() {
        // These describe the old body; the runner may name new ones.
        for name in ["Content-Encoding", "ETag", "Last-Modified"] {
            headers.remove(name);
        }
    }
    let named =
        change.headers.iter().filter_map(|(name, value)| Some((std::str::from_utf8(name).ok()?, *value)));
    write_fields(headers, named);
    Ok((!change.body.is_empty() && !has_no_body(exchange)).then(|| change.body.to_vec()))
}

/// Writes fields that were checked: the first of a name replaces those that are there, further ones are
/// added, one without a value removes them. Fields of the connection and of the length are the gateway's.
pub(super) fn write_fields<'e>(
    headers: &mut Headers,
    fields: impl Iterator<Item = (&'e str, Option<&'e [u8]>)>,
) {
    let mut seen: Vec<&str> = Vec::new();
    for (name, value) in fields {
        let id = FieldId::of(name.as_bytes());
        if id.is_hop_by_hop() || id == FieldId::ContentLength {
            continue;
        }
        let is_further = seen.iter().any(|other| other.eq_ignore_ascii_case(name));
        let Some(value) = value else {
            headers.remove(name);
            continue;
        };
        let write = if is_further { Headers::append } else { Headers::set };
        // They were checked; a full head keeps its fields.
        let _ = write(headers, name, value);
        seen.push(name);
    }
}

/// Checks names and values of fields.
///
/// # Errors
/// One of them cannot stand in a head.
pub(super) fn check_fields(fields: &[NameValueEntry<'_>]) -> Result<(), CallError> {
    let mut room = Headers::new();
    for (name, value) in fields {
        let name = std::str::from_utf8(name).ok();
        let is_valid = name.is_some_and(|name| room.append(name, value.unwrap_or_default()).is_ok());
        if !is_valid {
            return Err(CallError::Malformed("a field has a name or a value that no field can have"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
