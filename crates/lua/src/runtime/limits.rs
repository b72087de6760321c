//! The limits of code of users, each with its reason. They are named in messages and on the reference page.

/// Instructions between two charges to the budget of a call: few, because operations on long strings count as
/// one instruction.
pub(crate) const CHARGED_INSTRUCTIONS: u32 = 200;
/// Instructions of one call over all its parts between waits. A call that waits often may not use the worker
/// for ever.
pub(crate) const CALL_STEPS_MAX: u64 = 50_000_000;
/// Coroutines that resume each other: each takes native stack.
pub(crate) const COROUTINE_DEPTH_MAX: u32 = 32;
/// Coroutines kept for the next calls of a worker: as many as calls that commonly wait at the same time.
pub(crate) const IDLE_COROUTINES_MAX: usize = 64;
/// Light threads of one call, ended ones included: each holds memory until its call ends.
pub(crate) const THREADS_MAX: usize = 64;
/// Bytes that one call may write with `ngx.print` and `ngx.say`: the body is held until the call ends.
pub(crate) const OUTPUT_MAX_BYTES: usize = 8 * 1024 * 1024;
/// The longest body of a request that code of users sees: it is held in memory.
pub(crate) const BODY_MAX_BYTES: usize = 8 * 1024 * 1024;
/// Variables that code of users sets in one session of layer 4: each is held until the session ends.
pub(crate) const SESSION_VARIABLES_MAX: usize = 64;
/// The longest value of such a variable, in bytes: more than names and identifiers of clients need.
pub(crate) const SESSION_VARIABLE_MAX_BYTES: usize = 4 * 1024;
/// Timers of one worker that wait or run, as in nginx (`lua_max_pending_timers` is 1024).
pub(crate) const TIMERS_MAX: usize = 1_024;
/// The longest time of one run of a timer, in milliseconds: a run that never ends would hold its memory for
/// ever.
pub(crate) const TIMER_RUN_MS: u64 = 60_000;
/// The longest `ngx.sleep` and the longest delay of a timer, in seconds.
pub(crate) const DELAY_MAX_SECONDS: f64 = 86_400.0;
/// Programs that one worker holds loaded. Beyond it those that no configuration uses leave.
pub(crate) const PROGRAMS_MAX: usize = 1_024;
/// Configurations that one worker holds as tables.
pub(crate) const CONFIGS_MAX: usize = 16_384;
/// Names of variables that are kept parsed.
pub(crate) const VARIABLES_MAX: usize = 1_024;
/// Compiled patterns of `ngx.re` that one worker keeps, as `lua_regex_cache_max_entries` in nginx.
pub(crate) const PATTERNS_MAX: usize = 1_024;
/// The longest pattern of `ngx.re`, in bytes: its compilation takes time in proportion.
pub(crate) const PATTERN_MAX_BYTES: usize = 8 * 1024;
/// Dictionaries of `ngx.shared`; they live as long as the process.
pub(crate) const DICTIONARIES_MAX: usize = 64;
/// Bytes of keys and values in one dictionary. Beyond it the entries used longest ago leave.
pub(crate) const DICTIONARY_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Bytes that each entry of a dictionary counts for beside its key and value.
pub(crate) const DICTIONARY_ENTRY_BYTES: usize = 64;
/// Modules of a folder of `extra_lua_path`, and their bytes in all: they are read at the start and held.
pub(crate) const MODULES_MAX: usize = 1_024;
/// See [`MODULES_MAX`].
pub(crate) const MODULES_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Folders inside each other that are looked through for modules.
pub(crate) const MODULES_DEPTH_MAX: usize = 8;
/// Destinations of sockets that one worker keeps: each has its name looked up.
pub(crate) const DESTINATIONS_MAX: usize = 256;
/// Connections that one worker keeps for later sockets.
pub(crate) const POOLED_MAX: usize = 256;
/// Bytes that a socket holds of what has arrived and was not received: the longest line or answer.
pub(crate) const RECEIVED_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Sockets that one worker has open at the same time.
pub(crate) const SOCKETS_MAX: usize = 1_024;

/// The limits as the reference page shows them: the name, the value, the unit.
pub const LIMITS: &[(&str, u64, &str)] = &[
    ("STEPS_MAX", crate::budget::STEPS_MAX, "instructions between two waits of a call"),
    ("CALL_STEPS_MAX", CALL_STEPS_MAX, "instructions of a call"),
    ("TIME_MAX", crate::budget::TIME_MAX.as_millis() as u64, "milliseconds of computing between two waits"),
    (
        "PHASE_WAIT_MS",
        exchange::plugin::PHASE_WAIT_MS,
        "milliseconds of one function of a plugin, waits included",
    ),
    ("MEMORY_MAX_BYTES", crate::sandbox::MEMORY_MAX_BYTES as u64, "bytes of the interpreter of a worker"),
    (
        "CODE_MAX_KIB",
        crate::compiler::CODE_MAX_KIB as u64,
        "KiB of machine code that LuaJIT makes of it, beside them",
    ),
    ("TRACES_MAX", crate::compiler::TRACES_MAX as u64, "compiled loops and functions of an interpreter"),
    (
        "SLICE_MAX",
        crate::compiler::SLICE_MAX.as_millis() as u64,
        "milliseconds of a part of a call that run without counting where code is compiled",
    ),
    ("COROUTINE_DEPTH_MAX", COROUTINE_DEPTH_MAX as u64, "coroutines inside each other"),
    ("THREADS_MAX", THREADS_MAX as u64, "light threads of a call"),
    ("OUTPUT_MAX_BYTES", OUTPUT_MAX_BYTES as u64, "bytes written by `ngx.print` and `ngx.say` in a call"),
    ("BODY_MAX_BYTES", BODY_MAX_BYTES as u64, "bytes of a request body that a plugin reads"),
    (
        "PREREAD_MAX_BYTES",
        exchange::plugin::stream::PREREAD_MAX_BYTES as u64,
        "first bytes of a session that `peek` gives",
    ),
    ("SESSION_VARIABLES_MAX", SESSION_VARIABLES_MAX as u64, "variables that are set in a session"),
    ("SESSION_VARIABLE_MAX_BYTES", SESSION_VARIABLE_MAX_BYTES as u64, "bytes of one such variable"),
    ("TIMERS_MAX", TIMERS_MAX as u64, "timers of a worker"),
    ("TIMER_RUN_MS", TIMER_RUN_MS, "milliseconds of one run of a timer"),
    ("PATTERN_MAX_BYTES", PATTERN_MAX_BYTES as u64, "bytes of a pattern of `ngx.re`"),
    ("DICTIONARIES_MAX", DICTIONARIES_MAX as u64, "dictionaries of `ngx.shared`"),
    ("DICTIONARY_MAX_BYTES", DICTIONARY_MAX_BYTES as u64, "bytes of one dictionary of `ngx.shared`"),
    ("SOCKETS_MAX", SOCKETS_MAX as u64, "open sockets of a worker"),
    ("POOLED_MAX", POOLED_MAX as u64, "connections that a worker keeps for later sockets"),
    ("RECEIVED_MAX_BYTES", RECEIVED_MAX_BYTES as u64, "bytes of one answer that a socket receives"),
];
