//! Contexts and the flow of requests: pausing, continuing, local replies, timers, and the old clock.

use exchange::plugin::BufferedReply;
use wasmtime::{Caller, Error, Linker};

use super::ENV;
use crate::abi::{AbiStatus, Pairs, StreamSide, deserialize};
use crate::fields::STATUSES;
use crate::host::Host;
use crate::limits::BODY_BUFFER_MAX;
use crate::memory::{HostResult, finish, view, write_u64};
use crate::timers;

pub(crate) fn add_context_functions(linker: &mut Linker<Host>) -> Result<(), Error> {
    linker.func_wrap(ENV, "proxy_set_effective_context", |mut caller: Caller<'_, Host>, context: i32| {
        let host = caller.data_mut();
        let context = context as u32;
        if !host.streams.contains_key(&context) && !host.roots.contains_key(&context) {
            return AbiStatus::BadArgument as i32;
        }
        host.current = context;
        AbiStatus::Ok as i32
    })?;
    linker.func_wrap(ENV, "proxy_done", |mut caller: Caller<'_, Host>| {
        let host = caller.data_mut();
        let context = host.current;
        match host.stream().filter(|stream| stream.awaits_done) {
            Some(stream) => {
                stream.awaits_done = false;
                host.done.push(context);
                AbiStatus::Ok as i32
            }
            None => AbiStatus::NotFound as i32,
        }
    })?;
    linker.func_wrap(ENV, "proxy_continue_stream", |mut caller: Caller<'_, Host>, side: i32| match side {
        0..=2 => resume(&mut caller, StreamSide::of(side)),
        3 => AbiStatus::Unimplemented as i32,
        _ => AbiStatus::BadArgument as i32,
    })?;
    linker.func_wrap(ENV, "proxy_continue_request", |mut caller: Caller<'_, Host>| {
        resume(&mut caller, Some(StreamSide::Request))
    })?;
    linker.func_wrap(ENV, "proxy_continue_response", |mut caller: Caller<'_, Host>| {
        resume(&mut caller, Some(StreamSide::Response))
    })?;
    linker.func_wrap(ENV, "proxy_resume_downstream", |mut caller: Caller<'_, Host>| {
        resume(&mut caller, Some(StreamSide::Downstream))
    })?;
    linker.func_wrap(ENV, "proxy_close_stream", |mut caller: Caller<'_, Host>, side: i32| {
        if !(0..=3).contains(&side) {
            return AbiStatus::BadArgument as i32;
        }
        let Some(stream) = caller.data_mut().stream() else { return AbiStatus::BadArgument as i32 };
        stream.is_closed = true;
        stream.wake();
        AbiStatus::Ok as i32
    })?;
    // The route is matched before a plugin runs, so that there is nothing to forget.
    linker.func_wrap(ENV, "proxy_clear_route_cache", || AbiStatus::Ok as i32)?;
    linker.func_wrap(
        ENV,
        "proxy_send_local_response",
        |mut caller: Caller<'_, Host>,
         status: i32,
         details: i32,
         details_size: i32,
         body: i32,
         body_size: i32,
         fields: i32,
         fields_size: i32,
         grpc_status: i32| {
            let _ = (details, details_size);
            finish(reply(&mut caller, status, (body, body_size), (fields, fields_size), grpc_status))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_set_tick_period_milliseconds",
        |mut caller: Caller<'_, Host>, period: i32| {
            timers::set_period(caller.data_mut(), period as u32);
            AbiStatus::Ok as i32
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_get_current_time_nanoseconds",
        |mut caller: Caller<'_, Host>, place: i32| {
            let now = net::env::wall_clock().as_nanos() as u64;
            finish(write_u64(&mut caller, place, now).map_err(Into::into))
        },
    )?;
    // The runtime of C++ tells of its growth.
    linker.func_wrap(ENV, "emscripten_notify_memory_growth", |_: i32| {})?;
    linker.func_wrap(
        ENV,
        "abort",
        |_message: i32, _file: i32, line: i32, column: i32| -> Result<(), Error> {
            Err(Error::msg(format!("it aborts at line {line}, column {column} of its source")))
        },
    )?;
    Ok(())
}

fn resume(caller: &mut Caller<'_, Host>, side: Option<StreamSide>) -> i32 {
    let (Some(side), Some(stream)) = (side, caller.data_mut().stream()) else {
        return AbiStatus::BadArgument as i32;
    };
    // A session has one side only, and a request has not that one.
    if stream.is_session != (side == StreamSide::Downstream) {
        return AbiStatus::Unimplemented as i32;
    }
    stream.resume(side);
    AbiStatus::Ok as i32
}

fn reply(
    caller: &mut Caller<'_, Host>,
    status: i32,
    body: (i32, i32),
    fields: (i32, i32),
    grpc_status: i32,
) -> HostResult {
    let status = u16::try_from(status).ok().filter(|status| STATUSES.contains(status));
    let status = status.ok_or(AbiStatus::BadArgument)?;
    let body = view(caller, body.0, body.1)?.to_vec();
    if body.len() > BODY_BUFFER_MAX {
        return Err(AbiStatus::InternalFailure.into());
    }
    let fields: Pairs = deserialize(view(caller, fields.0, fields.1)?).ok_or(AbiStatus::BadArgument)?;
    let mut reply = BufferedReply::status(status).with_body(body);
    for (name, value) in fields {
        let (Ok(name), Ok(value)) = (String::from_utf8(name), String::from_utf8(value)) else {
            return Err(AbiStatus::BadArgument.into());
        };
        let is_framing = ["content-length", "transfer-encoding", "connection"]
            .iter()
            .any(|one| name.eq_ignore_ascii_case(one));
        if !name.starts_with(':') && !is_framing {
            reply = reply.with_header(name, value);
        }
    }
    let stream = caller.data_mut().stream().ok_or(AbiStatus::BadArgument)?;
    if stream.is_session {
        return Err(AbiStatus::Unimplemented.into());
    }
    // -1 says that there is none.
    if grpc_status >= 0 && stream.reply.is_none() {
        reply = reply.with_header("grpc-status", grpc_status.to_string());
    }
    // The first reply counts, because it may have been sent.
    stream.reply.get_or_insert(Box::new(reply));
    stream.wake();
    Ok(())
}
