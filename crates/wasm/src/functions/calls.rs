//! Calls to other servers, over HTTP and gRPC, and the status of their answers.

use message::{Headers, Method};
use wasmtime::{Caller, Error, Linker};

use super::ENV;
use crate::abi::{AbiStatus, Pairs, deserialize};
use crate::host::{CallKind, Host};
use crate::limits::{CALL_BODY_BYTES_MAX, CALL_TIMEOUT_MAX_MS};
use crate::memory::{HostResult, finish, give, view, write_u32};
use crate::outgoing::{self, CallPayload, OutgoingCall};

pub(crate) fn add_call_functions(linker: &mut Linker<Host>) -> Result<(), Error> {
    linker.func_wrap(
        ENV,
        "proxy_http_call",
        |mut caller: Caller<'_, Host>,
         upstream: i32,
         upstream_size: i32,
         fields: i32,
         fields_size: i32,
         body: i32,
         body_size: i32,
         _trailers: i32,
         _trailers_size: i32,
         timeout: i32,
         number: i32| {
            let places = [(upstream, upstream_size), (fields, fields_size), (body, body_size)];
            finish(http_call(&mut caller, places, timeout, number))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_grpc_call",
        |mut caller: Caller<'_, Host>,
         upstream: i32,
         upstream_size: i32,
         service: i32,
         service_size: i32,
         method: i32,
         method_size: i32,
         fields: i32,
         fields_size: i32,
         message: i32,
         message_size: i32,
         timeout: i32,
         number: i32| {
            let places = [
                (upstream, upstream_size),
                (service, service_size),
                (method, method_size),
                (fields, fields_size),
                (message, message_size),
            ];
            finish(grpc_call(&mut caller, places, timeout, number))
        },
    )?;
    for name in ["proxy_grpc_cancel", "proxy_grpc_close"] {
        linker.func_wrap(ENV, name, |mut caller: Caller<'_, Host>, number: i32| {
            let host = caller.data_mut();
            let context = host.current;
            let has_ended = host.end_call(context, number as u32);
            if has_ended { AbiStatus::Ok as i32 } else { AbiStatus::NotFound as i32 }
        })?;
    }
    linker.func_wrap(
        ENV,
        "proxy_get_status",
        |mut caller: Caller<'_, Host>, code: i32, data: i32, size: i32| {
            let answer = caller.data().frame.answer.as_ref();
            let (status, message) =
                answer.map_or((0, Vec::new()), |answer| (answer.status, answer.message.clone()));
            let written = write_u32(&mut caller, code, status).map_err(Into::into);
            finish(written.and_then(|()| give(&mut caller, &message, data, size)))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_call_foreign_function",
        |caller: Caller<'_, Host>,
         name: i32,
         size: i32,
         _data: i32,
         _data_size: i32,
         _result: i32,
         _length: i32| {
            let plugin = caller.data().identity.name;
            match view(&caller, name, size) {
                Ok(name) => {
                    let name = String::from_utf8_lossy(&name[..name.len().min(100)]);
                    tracing::debug!(target: "wasm", plugin, %name, "there are no foreign functions");
                    AbiStatus::NotFound as i32
                }
                Err(status) => status as i32,
            }
        },
    )?;
    Ok(())
}

fn pair<'a>(pairs: &'a Pairs, wanted: &str) -> Option<&'a str> {
    let found = pairs.iter().find(|(name, _)| name == wanted.as_bytes())?;
    str::from_utf8(&found.1).ok()
}

fn http_call(
    caller: &mut Caller<'_, Host>,
    places: [(i32, i32); 3],
    timeout: i32,
    number: i32,
) -> HostResult {
    let [upstream, fields, body] = places;
    let upstream = upstream_name(caller, upstream)?;
    let pairs = deserialize(view(caller, fields.0, fields.1)?).ok_or(AbiStatus::BadArgument)?;
    let body = view(caller, body.0, body.1)?.to_vec();
    if body.len() > CALL_BODY_BYTES_MAX {
        return Err(AbiStatus::InternalFailure.into());
    }
    let (Some(method), Some(path), Some(authority)) =
        (pair(&pairs, ":method"), pair(&pairs, ":path"), pair(&pairs, ":authority"))
    else {
        return Err(AbiStatus::BadArgument.into());
    };
    if Method::of(method.as_bytes()) == Method::Connect || !path.starts_with('/') {
        return Err(AbiStatus::BadArgument.into());
    }
    let payload = CallPayload::Http {
        method: method.as_bytes().into(),
        target: path.to_owned(),
        authority: authority.as_bytes().into(),
        body,
    };
    let headers = headers(&pairs)?;
    let outgoing = OutgoingCall { upstream, headers, payload, timeout_ms: timeout_ms(timeout) };
    start(caller, outgoing, CallKind::Http, number)
}

fn grpc_call(
    caller: &mut Caller<'_, Host>,
    places: [(i32, i32); 5],
    timeout: i32,
    number: i32,
) -> HostResult {
    let [upstream, service, method, fields, message] = places;
    let upstream = upstream_name(caller, upstream)?;
    let text = |place: (i32, i32)| {
        let bytes = view(caller, place.0, place.1)?;
        str::from_utf8(bytes).map_err(|_| AbiStatus::BadArgument)
    };
    let method = format!("/{}/{}", text(service)?, text(method)?);
    if !message::syntax::is_target(method.as_bytes()) {
        return Err(AbiStatus::BadArgument.into());
    }
    let headers = headers(&deserialize(view(caller, fields.0, fields.1)?).ok_or(AbiStatus::BadArgument)?)?;
    let message = view(caller, message.0, message.1)?.to_vec();
    if message.len() > CALL_BODY_BYTES_MAX {
        return Err(AbiStatus::InternalFailure.into());
    }
    let outgoing = OutgoingCall {
        upstream,
        headers,
        payload: CallPayload::Grpc { method, message },
        timeout_ms: timeout_ms(timeout),
    };
    start(caller, outgoing, CallKind::Grpc, number)
}

/// A timeout of 0 is none in Envoy; here it is the longest.
fn timeout_ms(timeout: i32) -> u64 {
    match u64::from(timeout as u32) {
        0 => CALL_TIMEOUT_MAX_MS,
        other => other.min(CALL_TIMEOUT_MAX_MS),
    }
}

fn headers(pairs: &Pairs) -> Result<Headers, AbiStatus> {
    let mut headers = Headers::new();
    for (name, value) in pairs.iter().filter(|(name, _)| !name.starts_with(b":")) {
        let name = str::from_utf8(name).map_err(|_| AbiStatus::BadArgument)?;
        headers.append(name, value).map_err(|_| AbiStatus::BadArgument)?;
    }
    Ok(headers)
}

/// The base URI of an upstream: `HOST:PORT` is plain HTTP, a URI says its scheme, and a name without a colon
/// is the id of an upstream of the configuration. Envoy passes clusters in a message of gRPC, which is not
/// read here.
fn upstream_name(caller: &Caller<'_, Host>, place: (i32, i32)) -> Result<String, AbiStatus> {
    let name = str::from_utf8(view(caller, place.0, place.1)?).map_err(|_| AbiStatus::BadArgument)?;
    if name.starts_with("http://") || name.starts_with("https://") {
        return Ok(name.to_owned());
    }
    if name.contains(':') {
        return Ok(format!("http://{name}"));
    }
    let origin = caller.data().with_exchange(|exchange| {
        let directory = exchange.decision.directory.as_ref()?;
        directory.upstream_origin(&format!("/upstreams/{name}"))
    });
    let origin = origin.flatten().ok_or(AbiStatus::BadArgument)?;
    let scheme = if matches!(origin.scheme, "https" | "grpcs") { "https" } else { "http" };
    Ok(format!("{scheme}://{}", origin.address))
}

fn start(caller: &mut Caller<'_, Host>, outgoing: OutgoingCall, kind: CallKind, number: i32) -> HostResult {
    // The place is checked first: a call without its number could not be told from others.
    write_u32(caller, number, 0)?;
    let token = outgoing::start_call(caller.data_mut(), outgoing, kind)?;
    Ok(write_u32(caller, number, token)?)
}
