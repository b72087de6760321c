//! Light threads, `ngx.thread`: coroutines of one call that run beside its function.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use mlua::{Error, IntoLuaMulti, Lua, MultiValue, Value, Variadic};

use super::Adder;
use crate::runtime::call::{ProgramCall, ThreadEnd};

pub(super) fn install_threads(add: &Adder<'_>) -> mlua::Result<()> {
    add.add("spawn", |state, _, values: MultiValue| {
        state.may_wait()?;
        state.call()?.spawn(values)
    })?;
    add.add("kill", |state, lua, number: u64| {
        let call = state.call()?;
        let mut threads = call.threads.borrow_mut();
        match threads.get(&number) {
            Some(ThreadEnd::Running) => {
                threads.insert(number, ThreadEnd::Gone);
                call.unspawn(number);
                true.into_lua_multi(lua)
            }
            Some(ThreadEnd::Ended(_)) => (Value::Nil, "already terminated").into_lua_multi(lua),
            _ => (Value::Nil, "already waited or killed").into_lua_multi(lua),
        }
    })?;
    add.add("thread_status", |state, _, number: u64| {
        let call = state.call()?;
        Ok(match call.threads.borrow().get(&number) {
            Some(ThreadEnd::Running) => "running",
            Some(ThreadEnd::Ended(_)) => "zombie",
            _ => "dead",
        })
    })?;
    add.add_shared("start_wait_threads", |state, lua, numbers: Variadic<u64>| {
        if numbers.is_empty() {
            return Err(Error::runtime("at least one light thread expected"));
        }
        let (call, weak) = (state.call()?, lua.weak());
        state.wait(poll_fn(move |_| {
            let lua = weak.try_upgrade().ok_or_else(|| Error::runtime("the interpreter is gone"));
            let taken = lua.map(|lua| take_ended(&call, &lua, &numbers));
            match taken {
                Ok(None) => Poll::Pending,
                Ok(Some(values)) => Poll::Ready(values),
                Err(error) => Poll::Ready(Err(error)),
            }
        }))
    })
}

/// The results of the first of these threads that has ended; it is taken off the call.
fn take_ended(call: &Rc<ProgramCall>, lua: &Lua, numbers: &[u64]) -> Option<mlua::Result<MultiValue>> {
    let mut threads = call.threads.borrow_mut();
    for number in numbers {
        match threads.get(number) {
            Some(ThreadEnd::Running) => {}
            Some(ThreadEnd::Ended(_)) => {
                let Some(ThreadEnd::Ended(result)) = threads.insert(*number, ThreadEnd::Gone) else {
                    continue;
                };
                return Some(match result {
                    Ok(mut values) => {
                        values.push_front(Value::Boolean(true));
                        Ok(values)
                    }
                    Err(reason) => (false, reason).into_lua_multi(lua),
                });
            }
            _ => return Some((Value::Nil, "already waited or killed").into_lua_multi(lua)),
        }
    }
    None
}
