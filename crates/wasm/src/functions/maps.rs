//! Fields of requests, responses, trailers and answers: reading and writing one or all.

use wasmtime::{Caller, Error, Linker};

use super::ENV;
use crate::abi::{AbiStatus, AbiVersion, MapId, Pairs, deserialize, serialize};
use crate::fields::{MessageKind, Write};
use crate::host::{CallbackData, Host};
use crate::limits::{PAIRS_BYTES_MAX, PAIRS_MAX};
use crate::memory::{HostResult, finish, give, view, with_two, write_u32};

pub(crate) fn add_map_functions(linker: &mut Linker<Host>) -> Result<(), Error> {
    linker.func_wrap(
        ENV,
        "proxy_get_header_map_value",
        |mut caller: Caller<'_, Host>, map: i32, key: i32, key_size: i32, data: i32, size: i32| {
            finish(get(&mut caller, map, (key, key_size), data, size))
        },
    )?;
    for (name, write) in
        [("proxy_add_header_map_value", Write::Add), ("proxy_replace_header_map_value", Write::Replace)]
    {
        linker.func_wrap(
            ENV,
            name,
            move |mut caller: Caller<'_, Host>,
                  map: i32,
                  key: i32,
                  key_size: i32,
                  value: i32,
                  value_size: i32| {
                finish(set(&mut caller, map, (key, key_size), (value, value_size), write))
            },
        )?;
    }
    linker.func_wrap(
        ENV,
        "proxy_remove_header_map_value",
        |mut caller: Caller<'_, Host>, map: i32, key: i32, key_size: i32| {
            finish(set(&mut caller, map, (key, key_size), (0, 0), Write::Remove))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_get_header_map_pairs",
        |mut caller: Caller<'_, Host>, map: i32, data: i32, size: i32| {
            finish(
                pairs(&caller, map)
                    .map_err(Into::into)
                    .and_then(|bytes| give(&mut caller, &bytes, data, size)),
            )
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_get_header_map_size",
        |mut caller: Caller<'_, Host>, map: i32, size: i32| {
            let written =
                pairs(&caller, map).and_then(|bytes| write_u32(&mut caller, size, bytes.len() as u32));
            finish(written.map_err(Into::into))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_set_header_map_pairs",
        |mut caller: Caller<'_, Host>, map: i32, data: i32, size: i32| {
            finish(set_pairs(&mut caller, map, data, size))
        },
    )?;
    Ok(())
}

/// A map by its place.
enum Map {
    Head(MessageKind),
    Frame(MapId),
}

fn map_of(number: i32) -> Result<Map, AbiStatus> {
    Ok(match MapId::of(number).ok_or(AbiStatus::BadArgument)? {
        MapId::RequestHeaders => Map::Head(MessageKind::Request),
        MapId::ResponseHeaders => Map::Head(MessageKind::Response),
        other => Map::Frame(other),
    })
}

fn in_frame(frame: &CallbackData, id: MapId) -> Option<&Pairs> {
    match id {
        MapId::RequestTrailers => frame.request_trailers.as_ref(),
        MapId::ResponseTrailers => frame.response_trailers.as_ref(),
        MapId::CallHeaders | MapId::GrpcInitial => frame.answer.as_ref().map(|answer| &answer.headers),
        MapId::CallTrailers | MapId::GrpcTrailing => frame.answer.as_ref().map(|answer| &answer.trailers),
        MapId::RequestHeaders | MapId::ResponseHeaders => None,
    }
}

/// Guests of the first version take an empty value for a missing one, and know no NOT_FOUND here.
fn missing(caller: &mut Caller<'_, Host>, status: AbiStatus, data: i32, size: i32) -> HostResult {
    if caller.data().identity.abi == AbiVersion::V0_1_0 {
        return give(caller, &[], data, size);
    }
    Err(status.into())
}

fn get(caller: &mut Caller<'_, Host>, map: i32, key: (i32, i32), data: i32, size: i32) -> HostResult {
    let map = map_of(map)?;
    let host = caller.data();
    let key = str::from_utf8(view(caller, key.0, key.1)?).map_err(|_| AbiStatus::BadArgument)?;
    let found = match map {
        Map::Head(head) => host
            .with_exchange(|exchange| head.exists(exchange).then(|| head.get(exchange, key)))
            .flatten()
            .ok_or(AbiStatus::BadArgument),
        Map::Frame(id) => in_frame(&host.frame, id)
            .map(|pairs| {
                let is_key = |name: &[u8]| name.eq_ignore_ascii_case(key.as_bytes());
                pairs.iter().find(|(name, _)| is_key(name)).map(|(_, value)| value.clone())
            })
            .ok_or(AbiStatus::BadArgument),
    };
    match found {
        Ok(Some(value)) => give(caller, &value, data, size),
        Ok(None) => missing(caller, AbiStatus::NotFound, data, size),
        Err(status) => missing(caller, status, data, size),
    }
}

fn set(
    caller: &mut Caller<'_, Host>,
    map: i32,
    key: (i32, i32),
    value: (i32, i32),
    write: Write,
) -> HostResult {
    let map = map_of(map)?;
    let written = with_two(caller, key, value, |key, value, host| {
        let key = str::from_utf8(key).map_err(|_| AbiStatus::BadArgument)?;
        match map {
            Map::Head(head) => host
                .with_exchange(|exchange| {
                    if !head.exists(exchange) {
                        return Err(AbiStatus::BadArgument);
                    }
                    head.write(exchange, key, value, write)
                })
                .unwrap_or(Err(AbiStatus::BadArgument)),
            Map::Frame(id) => {
                let pairs = editable(&mut host.frame, id).ok_or(AbiStatus::BadArgument)?;
                edit(pairs, key.as_bytes(), value, write)?;
                host.frame.is_edited = true;
                Ok(())
            }
        }
    })?;
    Ok(written?)
}

/// The trailers that a guest may change; answers of calls are only read.
fn editable(frame: &mut CallbackData, id: MapId) -> Option<&mut Pairs> {
    match id {
        MapId::RequestTrailers => frame.request_trailers.as_mut(),
        MapId::ResponseTrailers => frame.response_trailers.as_mut(),
        _ => None,
    }
}

fn edit(pairs: &mut Pairs, key: &[u8], value: &[u8], write: Write) -> Result<(), AbiStatus> {
    if write != Write::Add {
        pairs.retain(|(name, _)| !name.eq_ignore_ascii_case(key));
    }
    if write != Write::Remove {
        let bytes: usize = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
        if pairs.len() >= PAIRS_MAX || bytes + key.len() + value.len() > PAIRS_BYTES_MAX {
            return Err(AbiStatus::InternalFailure);
        }
        pairs.push((key.to_vec(), value.to_vec()));
    }
    Ok(())
}

fn pairs(caller: &Caller<'_, Host>, map: i32) -> Result<Vec<u8>, AbiStatus> {
    let host = caller.data();
    match map_of(map)? {
        Map::Head(head) => host
            .with_exchange(|exchange| head.exists(exchange).then(|| head.serialized(exchange)))
            .flatten()
            .ok_or(AbiStatus::BadArgument),
        Map::Frame(id) => {
            let pairs = in_frame(&host.frame, id).ok_or(AbiStatus::BadArgument)?;
            Ok(serialize(pairs.iter().map(|(name, value)| (&name[..], &value[..]))))
        }
    }
}

fn set_pairs(caller: &mut Caller<'_, Host>, map: i32, data: i32, size: i32) -> HostResult {
    let map = map_of(map)?;
    let new = deserialize(view(caller, data, size)?).ok_or(AbiStatus::BadArgument)?;
    let host = caller.data_mut();
    match map {
        Map::Head(head) => host
            .with_exchange(|exchange| {
                if !head.exists(exchange) {
                    return Err(AbiStatus::BadArgument);
                }
                head.replace_all(exchange, &new)
            })
            .unwrap_or(Err(AbiStatus::BadArgument))?,
        Map::Frame(id) => {
            *editable(&mut host.frame, id).ok_or(AbiStatus::BadArgument)? = new;
            host.frame.is_edited = true;
        }
    }
    Ok(())
}
