//! The limits of guests, each with its reason. A guest that meets one gets an error status; one that exceeds
//! its time or its stack is ended with its call.

/// The longest module, in bytes. The Go compiler writes 2 to 4 MiB for a small filter; compiling takes time
/// by length.
pub const MODULE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Functions of a module: the compiler takes about 1 ms for one. The modules of Go with 4 MiB have about
/// 10,000.
pub const FUNCTIONS_MAX: usize = 20_000;
/// The longest time in which a write or a start waits for the compiler, in milliseconds: other writes wait as
/// long. A module of 10,000 functions takes about 10 seconds; few large functions can take any time.
pub const COMPILE_MS_MAX: u64 = 30_000;
/// Modules that are compiled at once: each takes a processor and memory of many times its length.
pub const COMPILES_MAX: usize = 2;
/// The stack of a thread that compiles, in bytes: the compiler calls itself for nested code.
pub const COMPILER_STACK_BYTES: usize = 8 * 1024 * 1024;
/// The memory of one instance, in bytes: each worker has an instance of each module, so that this counts
/// several times.
pub const MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Elements of all tables of one instance together: the table of a 4 MiB module has about 10,000 functions.
pub const TABLE_ELEMENTS_MAX: usize = 100_000;
/// The stack of a guest's functions, in bytes: it lies on the stack of the worker's thread, which has 2 MiB.
pub const STACK_BYTES_MAX: usize = 512 * 1024;
/// Processor time of one callback of a request, in milliseconds. The worker serves nothing else meanwhile, so
/// that this is the longest delay that one call can bring to other requests.
pub const CALL_CPU_MS: u64 = 20;
/// Functions of the gateway that a guest calls in one callback. Filters call some tens; a guest that only
/// calls would reach no place where its processor time is looked at.
pub const HOST_CALLS_MAX: u32 = 100_000;
/// Calls of functions of the gateway between two looks at the processor time of a callback.
pub const HOST_CALLS_PER_LOOK: u32 = 32;
/// Processor time to start an instance, and of each configuration that it takes: the runtime of Go starts in
/// 5 to 20 ms.
pub const START_CPU_MS: u64 = 500;
/// The period of the clock that interrupts guests, in milliseconds. A call is looked at no more often than
/// this.
pub const EPOCH_MS: u64 = 5;

/// Requests of one instance under way at once: as many as a worker serves connections in practice.
pub const CONTEXTS_MAX: usize = 65_536;
/// Configurations of one module in one instance.
pub const ROOTS_MAX: usize = 1_000;

/// The longest body that is held for a guest that pauses, or that asks for whole bodies, in bytes. Envoy's
/// buffer of a connection has the same size.
pub const BODY_BUFFER_MAX: usize = 1024 * 1024;
/// The longest request body that is read whole without being asked for, in bytes, so that the guest may wait
/// and reply while it has the body; of longer ones it sees the pieces on their way.
pub const BODY_AUTO_MAX: u64 = 64 * 1024;

/// Calls to other servers of one context under way at once.
pub const CALLS_PER_CONTEXT_MAX: usize = 16;
/// Calls to other servers of one instance under way at once; their answers are held in memory.
pub const CALLS_PER_INSTANCE_MAX: usize = 256;
/// The longest time of a call to another server, in milliseconds: a request that waits for one is given up
/// after as much.
pub const CALL_TIMEOUT_MAX_MS: u64 = 30_000;
/// The longest body of a call and of its answer, in bytes.
pub const CALL_BODY_BYTES_MAX: usize = 1024 * 1024;
/// Servers that the guests of one worker call; each has its addresses looked up in the background.
pub const DESTINATIONS_MAX: usize = 256;

/// The shortest period of `proxy_on_tick`, in milliseconds; a shorter one is raised to it, so that timers of
/// guests cannot fill a worker's time.
pub const TICK_MIN_MS: u64 = 10;

/// Keys of the shared data of one plugin.
pub const SHARED_KEYS_MAX: usize = 10_000;
/// Keys and values of the shared data of one plugin together, in bytes.
pub const SHARED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Queues of one plugin.
pub const QUEUES_MAX: usize = 64;
/// Items of one queue; a further one is refused with INTERNAL_FAILURE.
pub const QUEUE_ITEMS_MAX: usize = 10_000;
/// The items of one queue together, in bytes.
pub const QUEUE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Items after which a worker that was told of them serves requests before it takes further ones.
pub const QUEUE_TURN_ITEMS: usize = 64;

/// Metrics of one plugin: scrapes send each of them.
pub const METRICS_MAX: usize = 1_000;
/// The longest name of a metric, in bytes.
pub const METRIC_NAME_BYTES_MAX: usize = 200;

/// Properties that guests set for one request.
pub const PROPERTIES_MAX: usize = 64;
/// Path and value of such a property together, in bytes.
pub const PROPERTY_BYTES_MAX: usize = 16 * 1024;

/// Pairs in a map that a guest passes: more than any server takes as fields.
pub const PAIRS_MAX: usize = 1_000;
/// Fields of a message to which a guest may add one. Each is sent on; a runner of plugins may add as many.
pub const FIELDS_MAX: usize = 1_000;
/// The longest serialised map that a guest passes, in bytes.
pub const PAIRS_BYTES_MAX: usize = 256 * 1024;

/// The longest line that a guest logs, in bytes; the rest is cut off.
pub const LOG_LINE_BYTES_MAX: usize = 4 * 1024;
/// Lines that the guests of one module log on one worker in one second; further ones are counted and dropped.
pub const LOG_LINES_PER_SECOND_MAX: u32 = 200;

/// Failures in a row before an instance is not made anew at once.
pub const FAILURES_MAX: u32 = 3;
/// The first time without an instance after so many failures, in milliseconds; it doubles with each further
/// failure.
pub const BACKOFF_FIRST_MS: u64 = 500;
/// The longest time without an instance, in milliseconds.
pub const BACKOFF_MAX_MS: u64 = 30_000;
/// How often a worker looks for instances and configurations that nothing uses any more, in milliseconds.
pub const SWEEP_MS: u64 = 2_000;
