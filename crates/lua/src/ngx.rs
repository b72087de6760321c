//! The functions behind the table `ngx`. `ngx.lua` puts the table together; each file here has the functions
//! of one concern.

mod context;
mod fields;
mod log;
mod re;
mod request;
mod request_args;
mod response;
mod session;
mod shared;
mod socket;
mod socket_pool;
mod texts;
mod thread;
mod timer;
mod times;

use std::rc::Rc;

use mlua::{FromLuaMulti, IntoLuaMulti, Lua, Table};

use crate::json::Json;
use crate::runtime::state::InterpreterState;
use crate::sandbox::MEMORY_MAX_BYTES;

pub(crate) use fields::FieldNames;
pub(crate) use socket_pool::Sockets;
pub(crate) use texts::text_of;

/// Adds the functions to `native`.
///
/// # Errors
/// There is no memory for them.
pub(crate) fn install_ngx(
    lua: &Lua,
    native: &Table,
    state: &Rc<InterpreterState>,
    _: &Json,
) -> mlua::Result<()> {
    let add = Adder { lua, native, state };
    context::install_context(&add)?;
    log::install_logging(&add)?;
    re::install_regexes(&add)?;
    request::install_request(&add)?;
    request_args::install_request_args(&add)?;
    response::install_response(&add)?;
    session::install_session(&add)?;
    shared::install_shared_dicts(&add)?;
    socket::install_sockets(&add)?;
    texts::install_text_codings(&add)?;
    thread::install_threads(&add)?;
    timer::install_timers(&add)?;
    times::install_clock(&add)
}

/// Runs `work`, which makes values for texts of the request, without the limit of memory: under it each value
/// is made by a call of its own into the interpreter, which costs as much as the value. Heads of requests are
/// bounded, and the next allocation of the script finds the limit in force again.
fn at_once<R>(lua: &Lua, work: impl FnOnce() -> mlua::Result<R>) -> mlua::Result<R> {
    struct Limit<'a>(&'a Lua);
    impl Drop for Limit<'_> {
        fn drop(&mut self) {
            // It fails only in interpreters that others have opened.
            let _ = self.0.set_memory_limit(MEMORY_MAX_BYTES);
        }
    }
    lua.set_memory_limit(0)?;
    let _limit = Limit(lua);
    work()
}

/// Adds functions that share the state of an interpreter.
struct Adder<'a> {
    lua: &'a Lua,
    native: &'a Table,
    state: &'a Rc<InterpreterState>,
}

impl Adder<'_> {
    /// Adds the function `name`.
    fn add<A: FromLuaMulti, R: IntoLuaMulti>(
        &self,
        name: &str,
        function: impl Fn(&InterpreterState, &Lua, A) -> mlua::Result<R> + 'static,
    ) -> mlua::Result<()> {
        let state = self.state.clone();
        let function = self.lua.create_function(move |lua, values: A| function(&state, lua, values))?;
        self.native.raw_set(name, function)
    }

    /// Adds a function that gets the state as it is shared, for functions that begin a wait.
    fn add_shared<A: FromLuaMulti, R: IntoLuaMulti>(
        &self,
        name: &str,
        function: impl Fn(&Rc<InterpreterState>, &Lua, A) -> mlua::Result<R> + 'static,
    ) -> mlua::Result<()> {
        let state = self.state.clone();
        let function = self.lua.create_function(move |lua, values: A| function(&state, lua, values))?;
        self.native.raw_set(name, function)
    }
}
