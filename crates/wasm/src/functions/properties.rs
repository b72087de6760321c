//! Properties of requests and sessions, of the guest and of its configuration.

use wasmtime::{Caller, Error, Linker};

use super::ENV;
use crate::abi::AbiStatus;
use crate::host::Host;
use crate::memory::{HostResult, finish, give, view, with_two};
use crate::properties::{self, session};

pub(crate) fn add_property_functions(linker: &mut Linker<Host>) -> Result<(), Error> {
    linker.func_wrap(
        ENV,
        "proxy_get_property",
        |mut caller: Caller<'_, Host>, path: i32, path_size: i32, data: i32, size: i32| {
            finish(get(&mut caller, path, path_size, data, size))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_set_property",
        |mut caller: Caller<'_, Host>, path: i32, path_size: i32, value: i32, value_size: i32| {
            let set = with_two(&mut caller, (path, path_size), (value, value_size), |path, value, host| {
                let set = host.with_exchange(|exchange| properties::set_property(exchange, path, value));
                let set = set.or_else(|| {
                    host.with_session(|session| session::set_session_property(session, path, value))
                });
                set.unwrap_or(Err(AbiStatus::NotFound))
            });
            finish(set.and_then(|set| set).map_err(Into::into))
        },
    )?;
    Ok(())
}

fn get(caller: &mut Caller<'_, Host>, path: i32, path_size: i32, data: i32, size: i32) -> HostResult {
    let path = view(caller, path, path_size)?;
    let host = caller.data();
    let name = host.identity.name.as_bytes();
    let value = match path.strip_suffix(b"\0").unwrap_or(path) {
        // The libraries for C++ and AssemblyScript find the code of a plugin by its root id, which is the
        // name in APISIX too.
        b"plugin_name" | b"plugin_vm_id" | b"plugin_root_id" => Some(name.to_vec()),
        _ => match host.with_exchange(|exchange| properties::get_property(exchange, path)) {
            Some(value) => value,
            None => host.read_session(|session| session::get_session_property(session, path)).flatten(),
        },
    };
    give(caller, &value.ok_or(AbiStatus::NotFound)?, data, size)
}
