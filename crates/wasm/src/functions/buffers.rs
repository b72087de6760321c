//! Bodies and configurations: reading a part, replacing a part, and the length.

use wasmtime::{Caller, Error, Linker};

use super::ENV;
use crate::abi::{AbiStatus, BufferId};
use crate::host::{CallbackData, Host};
use crate::limits::BODY_BUFFER_MAX;
use crate::memory::{HostResult, finish, give, view, write_u32};

pub(crate) fn add_buffer_functions(linker: &mut Linker<Host>) -> Result<(), Error> {
    linker.func_wrap(
        ENV,
        "proxy_get_buffer_bytes",
        |mut caller: Caller<'_, Host>, id: i32, start: i32, length: i32, data: i32, size: i32| {
            finish(get(&mut caller, id, start, length, data, size))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_set_buffer_bytes",
        |mut caller: Caller<'_, Host>, id: i32, start: i32, length: i32, data: i32, size: i32| {
            finish(set(&mut caller, id, start, length, data, size))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_get_buffer_status",
        |mut caller: Caller<'_, Host>, id: i32, length: i32, flags: i32| {
            finish(status(&mut caller, id, length, flags))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_get_configuration",
        |mut caller: Caller<'_, Host>, data: i32, size: i32| {
            let configuration = caller.data().frame.configuration.clone().unwrap_or_default();
            finish(give(&mut caller, &configuration, data, size))
        },
    )?;
    Ok(())
}

/// The bytes of a buffer, if it is there now.
fn buffer(frame: &CallbackData, id: i32) -> Result<&[u8], AbiStatus> {
    let found = match BufferId::of(id).ok_or(AbiStatus::BadArgument)? {
        BufferId::RequestBody => frame.request_body.as_deref(),
        BufferId::ResponseBody => frame.response_body.as_deref(),
        BufferId::DownstreamData => frame.downstream_data.as_deref(),
        BufferId::UpstreamData => None,
        BufferId::CallBody | BufferId::GrpcMessage => frame.answer.as_ref().map(|answer| &answer.body[..]),
        BufferId::VmConfiguration => Some(&[][..]),
        BufferId::PluginConfiguration => frame.configuration.as_deref(),
        BufferId::CallData => None,
    };
    found.ok_or(AbiStatus::NotFound)
}

fn get(caller: &mut Caller<'_, Host>, id: i32, start: i32, length: i32, data: i32, size: i32) -> HostResult {
    let bytes = buffer(&caller.data().frame, id)?;
    let (start, length) = (start as u32 as usize, length as u32 as usize);
    let end = start.checked_add(length).ok_or(AbiStatus::BadArgument)?.min(bytes.len());
    let part = bytes.get(start.min(end)..end).unwrap_or_default().to_vec();
    give(caller, &part, data, size)
}

fn status(caller: &mut Caller<'_, Host>, id: i32, length: i32, flags: i32) -> HostResult {
    let bytes = buffer(&caller.data().frame, id)?.len() as u32;
    write_u32(caller, length, bytes)?;
    write_u32(caller, flags, 0)?;
    Ok(())
}

/// Replaces `length` bytes from `start`; a start behind the end appends.
fn set(caller: &mut Caller<'_, Host>, id: i32, start: i32, length: i32, data: i32, size: i32) -> HostResult {
    let id = BufferId::of(id).ok_or(AbiStatus::BadArgument)?;
    let new = view(caller, data, size)?.to_vec();
    let frame = &mut caller.data_mut().frame;
    let body = match id {
        BufferId::RequestBody => frame.request_body.as_mut(),
        BufferId::ResponseBody => frame.response_body.as_mut(),
        // The first bytes of a session go to its node as they are.
        BufferId::DownstreamData | BufferId::UpstreamData => return Err(AbiStatus::Unimplemented.into()),
        _ => return Err(AbiStatus::BadArgument.into()),
    };
    let body = body.ok_or(AbiStatus::NotFound)?;
    let start = (start as u32 as usize).min(body.len());
    let end = start.saturating_add(length as u32 as usize).min(body.len());
    // A guest could otherwise make the gateway hold more than it may have itself.
    if body.len() - (end - start) + new.len() > BODY_BUFFER_MAX.max(body.len()) {
        return Err(AbiStatus::InternalFailure.into());
    }
    body.splice(start..end, new);
    frame.is_edited = true;
    Ok(())
}
