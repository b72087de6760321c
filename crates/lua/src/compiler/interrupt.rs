//! Interrupts an interpreter in the middle of its code: a signal to the thread of a call lets the call's own
//! thread install the hook of the interpreter, which compiled loops look for. It decides not when.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_int;
use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use mlua::ffi::{LUA_MASKCOUNT, lua_Hook, lua_State, lua_gethook, lua_sethook};
use mlua::{Lua, WeakLua};

use super::watchdog::ThreadWatch;

/// The signal. No other part of the program uses it: the kernel sends it for urgent data of sockets that have
/// an owner (F_SETOWN), which Weir's have not. A process that does not handle it ignores it.
const SIGNAL: c_int = libc::SIGURG;

/// Modes of `luaJIT_setmode` in `luajit.h`: the compiler of all functions, off and on.
const ENGINE_OFF: c_int = 0;
const ENGINE_ON: c_int = 0x100;

// SAFETY: the declaration is that of `luajit.h`; mlua links the library.
unsafe extern "C-unwind" {
    fn luaJIT_setmode(state: *mut lua_State, index: c_int, mode: c_int) -> c_int;
}

/// An interpreter, the hook of which is set only while it is interrupted.
pub(crate) struct Interruptible {
    place: Box<InterruptPlace>,
    lua: WeakLua,
    thread: Arc<ThreadWatch>,
}

/// The parts that the signal handler uses. Boxed, so that their address stays.
struct InterruptPlace {
    /// The main state of the interpreter.
    state: *mut lua_State,
    hook: lua_Hook,
    instructions: c_int,
    is_hooked: AtomicBool,
    is_compiling: Cell<bool>,
}

thread_local! {
    // The signal handler reads both. Their first values are constant and need no drop, so that access is a
    // plain one to the memory of the thread, without an allocation or a registration.
    static RUNNING: Cell<*const InterruptPlace> = const { Cell::new(ptr::null()) };
    static DELIVERED: Cell<u32> = const { Cell::new(0) };
}

impl Interruptible {
    /// Takes the hook that `lua` has off, until a call has used its first slice.
    ///
    /// # Errors
    /// It has no hook, or there is no memory.
    pub(super) fn new(lua: &Lua, instructions: u32, thread: Arc<ThreadWatch>) -> mlua::Result<Interruptible> {
        let mut place = None;
        // SAFETY: `state` is valid within the closure, which leaves its stack as it was. It is the main
        // state, because no coroutine runs here; LuaJIT has one hook for all coroutines of an interpreter.
        unsafe {
            lua.exec_raw::<()>((), |state| {
                let hook = lua_gethook(state);
                lua_sethook(state, None, 0, 0);
                place = hook.map(|hook| (state, hook));
            })?;
        }
        let (state, hook) = place.ok_or_else(|| mlua::Error::runtime("the interpreter has no hook"))?;
        let instructions = c_int::try_from(instructions).unwrap_or(c_int::MAX);
        let place = InterruptPlace {
            state,
            hook,
            instructions,
            is_hooked: AtomicBool::new(false),
            is_compiling: Cell::new(true),
        };
        Ok(Interruptible { place: Box::new(place), lua: lua.weak(), thread })
    }

    /// Runs `work`, which is interrupted once it has used a slice of time: the hook is set until it ends.
    pub(crate) fn run<R>(&self, work: impl FnOnce() -> R) -> R {
        let Some(lua) = self.lua.try_upgrade() else { return work() };
        let _running =
            Running { interruptible: self, outer: RUNNING.replace(&raw const *self.place), _lua: lua };
        self.thread.begin_slice();
        work()
    }

    /// Begins a slice anew within [`Interruptible::run`].
    pub(crate) fn restart(&self) {
        self.place.unhook();
        self.thread.begin_slice();
    }

    /// Stops compiling until the hook is taken off. To be called by the hook: a hook ends each attempt to
    /// compile, and LuaJIT would give loops up for ever that it could not compile several times.
    pub(crate) fn pause_compiling(&self) {
        if self.place.is_hooked.load(Ordering::Relaxed) && self.place.is_compiling.replace(false) {
            // SAFETY: the hook runs, so that the state lives, on its thread.
            unsafe { luaJIT_setmode(self.place.state, 0, ENGINE_OFF) };
        }
    }
}

/// Publishes an interpreter to the signal handler for as long as it lives.
struct Running<'a> {
    interruptible: &'a Interruptible,
    outer: *const InterruptPlace,
    /// Keeps the state alive while the handler may use it.
    _lua: Lua,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        RUNNING.set(self.outer);
        // The handler runs on this thread: it must not find the place once the hook is being taken off.
        compiler_fence(Ordering::SeqCst);
        self.interruptible.place.unhook();
        match self.outer.is_null() {
            true => self.interruptible.thread.end_slice(),
            false => self.interruptible.thread.begin_slice(),
        }
    }
}

impl InterruptPlace {
    /// Sets the hook. The signal handler calls it between any two instructions of the thread.
    ///
    /// # Safety
    /// The state lives, and this is its thread.
    unsafe fn set_hook(&self) {
        self.is_hooked.store(true, Ordering::Relaxed);
        // SAFETY: as said above. LuaJIT lets signal handlers call `lua_sethook`, which allocates nothing. The
        // signal may have met an update of the interpreter's table of instructions, which then goes on
        // with what it has found before; the table is whole, but may lack the hook. Taking the hook off first
        // makes the next signal write all of the table again.
        unsafe {
            lua_sethook(self.state, None, 0, 0);
            lua_sethook(self.state, Some(self.hook), LUA_MASKCOUNT, self.instructions);
        }
    }

    fn unhook(&self) {
        if !self.is_hooked.swap(false, Ordering::Relaxed) {
            return;
        }
        // SAFETY: only `run` and `restart` within it come here, and `run` holds the interpreter.
        unsafe {
            lua_sethook(self.state, None, 0, 0);
            if !self.is_compiling.replace(true) {
                luaJIT_setmode(self.state, 0, ENGINE_ON);
            }
        }
    }
}

extern "C" fn interrupt_this_thread(_: c_int) {
    DELIVERED.set(DELIVERED.get().wrapping_add(1));
    let running = RUNNING.get();
    if !running.is_null() {
        // SAFETY: a place that is published is boxed in an `Interruptible` that `run` borrows, and `run`
        // holds the interpreter. An interpreter stays on the thread that has opened it.
        unsafe { (*running).set_hook() };
    }
}

/// Installs the signal handler.
///
/// # Errors
/// The system's.
pub(super) fn handle_signals() -> io::Result<()> {
    // SAFETY: zeros are a valid `sigaction`. The handler touches the memory of its thread and, of a running
    // interpreter, what `lua_sethook` may touch in signal handlers. Calls of the system go on behind it, and
    // it has a stack of its own where the thread has one, because the thread's own may be all but used up.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = interrupt_this_thread as extern "C" fn(c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(SIGNAL, &action, ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether a signal to this thread is delivered to it: no filter of system calls and no mask prevents it.
pub(super) fn is_delivered() -> bool {
    let before = DELIVERED.get();
    // The system delivers a signal of a thread to itself before the call returns.
    interrupt(this_thread());
    DELIVERED.get() != before
}

/// The number of this thread, for [`interrupt`].
pub(super) fn this_thread() -> libc::pid_t {
    // SAFETY: it has no argument and cannot fail.
    unsafe { libc::gettid() }
}

/// Interrupts the interpreter that runs on a thread of this process, if one runs. The number of a thread that
/// has ended does no harm: the system refuses it, or another thread has it and finds its own interpreter.
pub(super) fn interrupt(thread: libc::pid_t) {
    // SAFETY: all arguments are numbers.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
}

/// Whether memory that was written may become executable. LuaJIT ends the process where it may not.
pub(super) fn may_make_code() -> bool {
    const BYTES: usize = 4_096;
    // SAFETY: a new mapping, which no other code knows of and which is taken away again.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(ptr::null_mut(), BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return false;
        }
        let is_allowed = libc::mprotect(page, BYTES, libc::PROT_READ | libc::PROT_EXEC) == 0;
        libc::munmap(page, BYTES);
        is_allowed
    }
}
