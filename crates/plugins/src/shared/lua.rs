//! Scripts of users in Lua: LuaJIT without its just-in-time compiler, one interpreter for each worker, in a sandbox with limits
//! of instructions, time and memory. A script that fails or exceeds a limit ends its call with an error and nothing else. It
//! knows no plugin.

mod access;
mod budget;
mod json;
mod patterns;
mod sandbox;
mod script;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use exchange::Exchange;
use mlua::{Function, Lua, Table, Value};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

pub(crate) use budget::DecodingBudget;
pub(crate) use json::{Json, RESULT_MAX_BYTES};
pub(crate) use script::{LoadedScript, Script};

use budget::Budget;
use sandbox::Sandbox;
use script::LoadedScripts;

/// Memory that an idle interpreter may hold before its garbage is collected at once, in bytes.
const IDLE_BYTES: usize = 8 * 1024 * 1024;
/// The longest reason of an error, in bytes, because a script may make one of any length.
const REASON_MAX_BYTES: usize = 1_024;
/// Bytes that `ngx.escape_uri` leaves as they are (RFC 3986 section 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The interpreter of one worker.
pub(crate) struct Interpreter {
    sandbox: Sandbox,
    budget: Rc<Budget>,
    globals: Function,
    context: Function,
    render: Function,
    /// Where scripts look for the request.
    request: Table,
    loaded: RefCell<LoadedScripts>,
    /// The memory at which garbage is collected behind a call, in bytes.
    collect_at: Cell<usize>,
}

/// A call in progress.
pub(crate) struct Call<'a> {
    interpreter: &'a Interpreter,
}

impl Interpreter {
    fn open() -> mlua::Result<Interpreter> {
        let budget = Rc::new(Budget::default());
        let sandbox = sandbox::open(&budget)?;
        Ok(Interpreter {
            globals: sandbox.modules.get("globals")?,
            context: sandbox.request.get("context")?,
            render: sandbox.templates.get("render")?,
            request: sandbox.request.get("request")?,
            budget,
            sandbox,
            loaded: RefCell::default(),
            collect_at: Cell::new(IDLE_BYTES),
        })
    }

    /// Does `work` in the interpreter of this worker, for the request in `exchange`, within the limits of one call.
    ///
    /// # Errors
    /// The script's error, or the limit that it has exceeded, as a sentence for the log.
    pub(crate) fn call<T>(
        exchange: &Exchange,
        work: impl FnOnce(&Call<'_>) -> mlua::Result<T>,
    ) -> Result<T, String> {
        let slot = exchange.local().resource(|| Interpreter::open().map_err(|error| describe(&error)));
        let interpreter = match &*slot {
            Ok(interpreter) => interpreter,
            Err(reason) => return Err(reason.clone()),
        };
        interpreter.budget.begin();
        let result = interpreter.run(exchange, work);
        interpreter.budget.end();
        interpreter.tidy();
        result.map_err(|error| describe(&error))
    }

    fn run<T>(
        &self,
        exchange: &Exchange,
        work: impl FnOnce(&Call<'_>) -> mlua::Result<T>,
    ) -> mlua::Result<T> {
        self.sandbox.lua.scope(|scope| {
            let ask =
                scope.create_function(|lua, (kind, name): (mlua::LuaString, Option<mlua::LuaString>)| {
                    access::answer(lua, exchange, &kind, name.as_ref())
                })?;
            self.request.raw_set("ask", ask)?;
            let result = work(&Call { interpreter: self });
            self.request.raw_set("ask", Value::Nil)?;
            result
        })
    }

    /// Collects garbage once there is much of it, so that a large body does not hold memory for ever.
    fn tidy(&self) {
        let lua = &self.sandbox.lua;
        if lua.used_memory() > self.collect_at.get() {
            // It fails only if a finalizer fails, and no script has one.
            let _ = lua.gc_collect();
            // Values that scripts keep are not searched again behind each call.
            self.collect_at.set(IDLE_BYTES.max(lua.used_memory().saturating_mul(2)));
        }
    }
}

impl Call<'_> {
    /// The interpreter, to make values in.
    pub(crate) fn lua(&self) -> &Lua {
        &self.interpreter.sandbox.lua
    }

    /// The codec of JSON.
    pub(crate) fn json(&self) -> &Json {
        &self.interpreter.sandbox.json
    }

    /// Begins the limits of the call anew, behind work that was not that of a script.
    pub(crate) fn restart_budget(&self) {
        self.interpreter.budget.begin();
    }

    /// The script, loaded by this worker.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn load(&self, script: &std::sync::Arc<Script>) -> mlua::Result<LoadedScript> {
        let interpreter = self.interpreter;
        interpreter.loaded.borrow_mut().get(self.lua(), &interpreter.globals, script)
    }

    /// The context of the request as APISIX's plugins get it, `ctx`.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn context(&self) -> mlua::Result<Table> {
        self.interpreter.context.call(())
    }

    /// Renders a compiled template with the names of `fields`.
    ///
    /// # Errors
    /// The template's error.
    pub(crate) fn render(&self, template: &LoadedScript, fields: &Table) -> mlua::Result<Value> {
        self.interpreter.render.call((&template.function, &template.globals, fields))
    }
}

/// The first line of an error, without the stack behind it.
pub(crate) fn describe(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } | mlua::Error::WithContext { cause, .. } => {
            return describe(cause);
        }
        mlua::Error::RuntimeError(message) | mlua::Error::MemoryError(message) => message.clone(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    let line = text.lines().next().unwrap_or_default();
    let end = (0..=line.len().min(REASON_MAX_BYTES)).rev().find(|end| line.is_char_boundary(*end));
    line[..end.unwrap_or_default()].to_owned()
}

#[cfg(test)]
mod tests;
