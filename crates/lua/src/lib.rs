//! Scripts of users in Lua: LuaJIT, one interpreter for each worker, in a sandbox with limits of
//! instructions, time and memory. A script that fails or exceeds a limit ends its call with an error and
//! nothing else. It knows no plugin.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access;
pub mod base64;
mod budget;
mod compiler;
mod endpoint;
mod json;
mod language;
mod md5;
pub mod modules;
pub mod natives;
mod ngx;
mod patterns;
mod plugin;
mod runtime;
mod sandbox;
mod script;
mod scripts;
pub mod serverless;
#[doc(hidden)]
pub mod testing;
pub mod wide_bytes;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use exchange::Exchange;
use exchange::observe::pace::Pace;
use mlua::{Function, Lua, Table, Value};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

pub use budget::DecodingBudget;
pub use json::{Json, RESULT_MAX_BYTES};
pub use language::Language;
pub use runtime::{LIMITS, read_modules, set_host};
pub use script::{LoadedScript, LuaScript};
pub use scripts::SCRIPT_CHECKS;

use budget::{CallBudget, STEPS_MAX};
use sandbox::{MEMORY_MAX_BYTES, Sandbox};
use script::LoadedScripts;

/// Memory that an idle interpreter may hold before its garbage is collected at once, in bytes.
const IDLE_BYTES: usize = 8 * 1024 * 1024;
/// Memory at which garbage is collected in any case, in bytes: the rest is for the next call.
const COLLECT_MAX_BYTES: usize = MEMORY_MAX_BYTES / 4 * 3;
/// Memory that scripts may keep from call to call, in bytes. Beyond it the interpreter is replaced, because
/// all scripts of a worker share its memory, and each of them would fail.
const KEPT_MAX_BYTES: usize = MEMORY_MAX_BYTES / 2;
/// Milliseconds between two lines about interpreters that were replaced.
const LOG_INTERVAL_MS: u64 = 1_000;
/// The longest reason of an error, in bytes, because a script may make one of any length.
const REASON_MAX_BYTES: usize = 1_024;
/// The interpreter's message of a lack of memory.
const NO_MEMORY: &str = "not enough memory";
/// Bytes that `ngx.escape_uri` leaves as they are (RFC 3986 section 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Holds the interpreter of one worker between calls.
struct InterpreterSlot {
    /// None before the first call, and where the interpreter was full.
    interpreter: RefCell<Option<Rc<Interpreter>>>,
    pace: Pace,
}

/// The interpreter of one worker.
pub struct Interpreter {
    sandbox: Sandbox,
    budget: Rc<CallBudget>,
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
pub struct ScriptCall<'a> {
    interpreter: &'a Interpreter,
}

impl InterpreterSlot {
    fn new() -> InterpreterSlot {
        InterpreterSlot { interpreter: RefCell::default(), pace: Pace::every_ms(LOG_INTERVAL_MS) }
    }

    /// The interpreter, opened now if there is none. A failure is not kept, because memory may be there for
    /// the next call.
    fn get(&self) -> mlua::Result<Rc<Interpreter>> {
        if let Some(interpreter) = &*self.interpreter.borrow() {
            return Ok(interpreter.clone());
        }
        let interpreter = Rc::new(Interpreter::open()?);
        *self.interpreter.borrow_mut() = Some(interpreter.clone());
        Ok(interpreter)
    }

    /// Drops an interpreter that scripts have filled with values that they keep. The next call opens a new
    /// one, which loads its scripts again.
    fn replace(&self, exchange: &Exchange, kept_bytes: usize) {
        self.interpreter.take();
        if let Some(times) = self.pace.add(1, exchange.local().now_ms()) {
            tracing::warn!(kept_bytes, times, "scripts kept too much memory: their global names are unset");
        }
    }
}

impl Interpreter {
    fn open() -> mlua::Result<Interpreter> {
        let budget = Rc::new(CallBudget::default());
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

    /// Does `work` in the interpreter of this worker, for the request in `exchange`, within the limits of one
    /// call.
    ///
    /// # Errors
    /// The script's error, or the limit that it has exceeded, as a sentence for the log.
    pub fn call<T>(
        exchange: &Exchange,
        work: impl FnOnce(&ScriptCall<'_>) -> mlua::Result<T>,
    ) -> Result<T, String> {
        let slot = exchange.local().resource(InterpreterSlot::new);
        let interpreter = slot.get().map_err(|error| describe(&error))?;
        let result = interpreter.budget.run(STEPS_MAX, || interpreter.run(exchange, work));
        let result = result.map_err(|error| describe(&error));
        let lacked_memory = result.as_ref().is_err_and(|reason| reason.contains(NO_MEMORY));
        if let Some(kept_bytes) = interpreter.tidy(lacked_memory) {
            slot.replace(exchange, kept_bytes);
        }
        result
    }

    fn run<T>(
        &self,
        exchange: &Exchange,
        work: impl FnOnce(&ScriptCall<'_>) -> mlua::Result<T>,
    ) -> mlua::Result<T> {
        self.sandbox.lua.scope(|scope| {
            let ask =
                scope.create_function(|lua, (kind, name): (mlua::LuaString, Option<mlua::LuaString>)| {
                    access::answer(lua, exchange, &kind, name.as_ref())
                })?;
            self.request.raw_set("ask", ask)?;
            let result = work(&ScriptCall { interpreter: self });
            self.request.raw_set("ask", Value::Nil)?;
            result
        })
    }

    /// Collects garbage once there is much of it, so that a large body does not hold memory for ever. Gives
    /// the bytes that scripts keep if they are too many for other scripts, or for a call that
    /// `lacked_memory`.
    fn tidy(&self, lacked_memory: bool) -> Option<usize> {
        let lua = &self.sandbox.lua;
        if !lacked_memory && lua.used_memory() <= self.collect_at.get() {
            return None;
        }
        // It fails only if a finalizer fails, and no script has one.
        let _ = lua.gc_collect();
        let kept_bytes = lua.used_memory();
        // Values that scripts keep are not searched again behind each call.
        self.collect_at.set(kept_bytes.saturating_mul(2).clamp(IDLE_BYTES, COLLECT_MAX_BYTES));
        // A call that lacked memory although the interpreter is all but empty needs too much itself.
        let is_full = kept_bytes > KEPT_MAX_BYTES || (lacked_memory && kept_bytes > IDLE_BYTES);
        is_full.then_some(kept_bytes)
    }
}

impl ScriptCall<'_> {
    /// The interpreter, to make values in.
    pub fn lua(&self) -> &Lua {
        &self.interpreter.sandbox.lua
    }

    /// The codec of JSON.
    pub fn json(&self) -> &Json {
        &self.interpreter.sandbox.json
    }

    /// Begins the limits of the call anew, behind work that was not that of a script.
    pub fn restart_budget(&self) {
        self.interpreter.budget.restart();
    }

    /// The script, loaded by this worker.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn load(&self, script: &std::sync::Arc<LuaScript>) -> mlua::Result<LoadedScript> {
        let interpreter = self.interpreter;
        interpreter.loaded.borrow_mut().get(self.lua(), &interpreter.globals, script)
    }

    /// The context of the request as APISIX's plugins get it, `ctx`.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn context(&self) -> mlua::Result<Table> {
        self.interpreter.context.call(())
    }

    /// Renders a compiled template with the names of `fields`.
    ///
    /// # Errors
    /// The template's error.
    pub fn render(&self, template: &LoadedScript, fields: &Table) -> mlua::Result<Value> {
        self.interpreter.render.call((&template.function, &template.globals, fields))
    }
}

/// The type of `value` as `type` of Lua names it: whole numbers have no type of their own.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        other => other.type_name(),
    }
}

/// The first line of an error, without the stack behind it.
pub fn describe(error: &mlua::Error) -> String {
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
