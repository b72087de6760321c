//! The compiler of LuaJIT: whether it may run in this process, and its limits. It runs only where calls into
//! compiled code can be interrupted; elsewhere interpreters count each instruction. It knows no budget.

mod interrupt;
mod watchdog;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::OnceLock;

use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, VmState};

pub(crate) use interrupt::Interruptible;
pub(crate) use watchdog::SLICE_MAX;
use watchdog::ThreadWatch;

/// Machine code of one interpreter, in KiB, which is memory beside the interpreter's own: as much as some
/// thousand loops of plugins take. At the limit LuaJIT drops all of it and begins anew.
pub(crate) const CODE_MAX_KIB: u32 = 2_048;
/// Traces of one interpreter, which lie in its own memory.
pub(crate) const TRACES_MAX: u32 = 1_000;
/// Rounds of the loop that shows whether compiled code sees hooks: more than LuaJIT takes to compile it, and
/// few enough to take no time.
const PROBE_ROUNDS: u32 = 1_000;

/// Whether an interpreter is opened with the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompilerUse {
    /// Where calls into compiled code can be interrupted.
    IfInterruptible,
    Never,
}

impl CompilerUse {
    /// Lets the compiler work for `lua`, which has a global hook that charges the budget each `instructions`.
    /// From now on the hook is set only while a call runs that has used its first slice of time. None where
    /// the compiler may not run: the hook stays.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn enable(self, lua: &Lua, instructions: u32) -> mlua::Result<Option<Interruptible>> {
        if self == CompilerUse::Never {
            return Ok(None);
        }
        if let Err(reason) = availability() {
            static TOLD: OnceLock<()> = OnceLock::new();
            TOLD.get_or_init(|| tracing::info!("Lua runs without its compiler: {reason}"));
            return Ok(None);
        }
        let Some(thread) = ThreadWatch::of_this_thread() else { return Ok(None) };
        lua.load_std_libs(StdLib::JIT)?;
        let jit: Table = lua.globals().get("jit")?;
        let limits = (format!("maxmcode={CODE_MAX_KIB}"), format!("maxtrace={TRACES_MAX}"));
        jit.get::<Table>("opt")?.get::<Function>("start")?.call::<()>(limits)?;
        // Only the limits above were wanted of it: scripts do not get at the compiler.
        lua.globals().raw_remove("jit")?;
        Interruptible::new(lua, instructions, thread).map(Some)
    }
}

/// Why the compiler may not run in this process. Asked of LuaJIT and of the system once.
///
/// # Errors
/// As said.
pub(crate) fn availability() -> Result<(), &'static str> {
    static AVAILABILITY: OnceLock<Result<(), &'static str>> = OnceLock::new();
    *AVAILABILITY.get_or_init(|| {
        if !cfg!(all(target_os = "linux", target_env = "gnu")) {
            // Compiled code that lacks memory throws through frames that LuaJIT describes to the unwinder at
            // run time. LLVM's, of musl, does not take them, and the process would end.
            return Err("errors of compiled code are caught with glibc on Linux only");
        }
        if !interrupt::may_make_code() {
            return Err("the system lets no memory become executable, see MemoryDenyWriteExecute of systemd");
        }
        let is_interrupted = leaves_compiled_loops().map_err(|_| "there is no memory to try it")?;
        judge(is_interrupted)?;
        interrupt::handle_signals().map_err(|_| "the signal that interrupts it cannot be handled")?;
        watchdog::start().map_err(|_| "the thread that watches it cannot be started")
    })
}

/// The verdict about this build of LuaJIT, from the loop of [`leaves_compiled_loops`].
fn judge(is_interrupted: Option<bool>) -> Result<(), &'static str> {
    match is_interrupted {
        Some(true) => Ok(()),
        Some(false) => Err("LuaJIT was built without LUAJIT_ENABLE_CHECKHOOK, see .cargo/config.toml; \
             `cargo clean -p mlua-sys` before the next build"),
        None => Err("LuaJIT compiles no code here"),
    }
}

/// How many traces `lua` has compiled and holds.
///
/// # Errors
/// There is no memory for it.
pub(crate) fn count_traces(lua: &Lua) -> mlua::Result<usize> {
    // The table in which LuaJIT keeps the makers of its own modules.
    let Some(makers) = lua.named_registry_value::<Option<Table>>("_PRELOAD")? else { return Ok(0) };
    let Some(make) = makers.get::<Option<Function>>("jit.util")? else { return Ok(0) };
    let trace: Function = make.call::<Table>(())?.get("traceinfo")?;
    let mut traces = 0;
    for number in 1..=TRACES_MAX {
        if !trace.call::<Value>(number)?.is_nil() {
            traces += 1;
        }
    }
    Ok(traces)
}

/// Whether a compiled loop calls a hook that was set behind its compilation. None if it was not compiled.
fn leaves_compiled_loops() -> mlua::Result<Option<bool>> {
    let lua = Lua::new_with(StdLib::JIT, LuaOptions::new().catch_rust_panics(true))?;
    let loop_source = "local sum = 0 for i = 1, ... do sum = sum + i end return sum";
    let count_up: Function = lua.load(loop_source).into_function()?;
    count_up.call::<Value>(PROBE_ROUNDS)?;
    if count_traces(&lua)? == 0 {
        return Ok(None);
    }
    let hooks = Rc::new(Cell::new(0));
    let counted = hooks.clone();
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(1), move |_, _| {
        counted.set(counted.get() + 1);
        Ok(VmState::Continue)
    })?;
    count_up.call::<Value>(PROBE_ROUNDS)?;
    Ok(Some(hooks.get() >= PROBE_ROUNDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_without_the_option_is_refused() {
        assert!(judge(Some(false)).unwrap_err().contains("LUAJIT_ENABLE_CHECKHOOK"));
        assert!(judge(None).is_err());
        assert_eq!(judge(Some(true)), Ok(()));
    }

    #[test]
    fn this_build_has_the_option() {
        assert_eq!(judge(leaves_compiled_loops().unwrap()), Ok(()));
    }
}
