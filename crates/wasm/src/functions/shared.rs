//! Data and queues that the instances of a plugin share.

use wasmtime::{Caller, Error, Linker};

use super::ENV;
use crate::abi::AbiStatus;
use crate::host::Host;
use crate::memory::{HostResult, finish, give, view, with_two, write_u32};
use crate::timers;

pub(crate) fn add_shared_functions(linker: &mut Linker<Host>) -> Result<(), Error> {
    linker.func_wrap(
        ENV,
        "proxy_get_shared_data",
        |mut caller: Caller<'_, Host>, key: i32, key_size: i32, data: i32, size: i32, cas: i32| {
            finish(get(&mut caller, key, key_size, data, size, cas))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_set_shared_data",
        |mut caller: Caller<'_, Host>, key: i32, key_size: i32, value: i32, value_size: i32, cas: i32| {
            let set = with_two(&mut caller, (key, key_size), (value, value_size), |key, value, host| {
                host.identity.data.set(key, value, cas as u32)
            });
            finish(set.and_then(|set| set).map_err(Into::into))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_register_shared_queue",
        |mut caller: Caller<'_, Host>, name: i32, size: i32, number: i32| {
            finish(register(&mut caller, name, size, number))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_resolve_shared_queue",
        |mut caller: Caller<'_, Host>, vm: i32, vm_size: i32, name: i32, size: i32, number: i32| {
            finish(resolve(&mut caller, (vm, vm_size), (name, size), number))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_enqueue_shared_queue",
        |caller: Caller<'_, Host>, number: i32, value: i32, size: i32| {
            let queue = caller.data().identity.shared.queue(number as u32);
            let pushed = queue.and_then(|queue| queue.push(view(&caller, value, size)?));
            finish(pushed.map_err(Into::into))
        },
    )?;
    linker.func_wrap(
        ENV,
        "proxy_dequeue_shared_queue",
        |mut caller: Caller<'_, Host>, number: i32, data: i32, size: i32| {
            let item = caller.data().identity.shared.queue(number as u32).and_then(|queue| queue.pop());
            finish(item.map_err(Into::into).and_then(|item| give(&mut caller, &item, data, size)))
        },
    )?;
    Ok(())
}

fn get(caller: &mut Caller<'_, Host>, key: i32, key_size: i32, data: i32, size: i32, cas: i32) -> HostResult {
    let found = caller.data().identity.data.get(view(caller, key, key_size)?);
    let (value, version) = found.ok_or(AbiStatus::NotFound)?;
    write_u32(caller, cas, version)?;
    give(caller, &value, data, size)
}

fn register(caller: &mut Caller<'_, Host>, name: i32, size: i32, place: i32) -> HostResult {
    let identity = caller.data().identity.clone();
    let number = identity.shared.register_queue(identity.name, view(caller, name, size)?)?;
    let queue = identity.shared.queue(number)?;
    write_u32(caller, place, number)?;
    timers::follow_queue(caller.data_mut(), number, queue);
    Ok(())
}

fn resolve(caller: &mut Caller<'_, Host>, vm: (i32, i32), name: (i32, i32), place: i32) -> HostResult {
    let number = with_two(caller, vm, name, |vm, name, host| {
        let own = host.identity.name;
        let vm = if vm.is_empty() { own } else { str::from_utf8(vm).map_err(|_| AbiStatus::BadArgument)? };
        host.identity.shared.resolve_queue(vm, name)
    })??;
    Ok(write_u32(caller, place, number)?)
}
