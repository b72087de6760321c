//! Compiles modules on threads of their own, so that the time in which a write or a start waits for the
//! compiler is bounded. A module that takes longer is compiled on, and its code is there when it is written
//! again. It knows no ABI and no cache.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use parking_lot::{Condvar, Mutex};
use wasmtime::{Engine, Module};

use crate::limits::{COMPILE_MS_MAX, COMPILER_STACK_BYTES, COMPILES_MAX, FUNCTIONS_MAX};

/// A compilation that is under way, or of which the code has yet to be taken.
#[derive(Default)]
struct Job {
    result: Mutex<Option<Result<Module, String>>>,
    is_done: Condvar,
}

/// The compilations of the process by the digest of their module.
static JOBS: Mutex<BTreeMap<Vec<u8>, Arc<Job>>> = Mutex::new(BTreeMap::new());
/// A compilation has ended, so that another one may begin.
static ENDED: Condvar = Condvar::new();

/// The code of `content`; `refusal` makes a sentence of an error of the compiler.
///
/// # Errors
/// The module has too many functions, is compiled for longer than [`COMPILE_MS_MAX`], or as `refusal` says.
pub(crate) fn compile(
    engine: &Engine,
    content: &[u8],
    refusal: fn(&Engine, &[u8], &wasmtime::Error) -> String,
) -> Result<Module, String> {
    compile_within(engine, content, refusal, Duration::from_millis(COMPILE_MS_MAX))
}

fn compile_within(
    engine: &Engine,
    content: &[u8],
    refusal: fn(&Engine, &[u8], &wasmtime::Error) -> String,
    limit: Duration,
) -> Result<Module, String> {
    let functions = function_count(content).unwrap_or_default();
    if functions > FUNCTIONS_MAX {
        return Err(format!(
            "the module has {functions} functions; {FUNCTIONS_MAX} are allowed, because each takes the compiler about 1 ms"
        ));
    }
    let ends = Instant::now() + limit;
    let key = digest::digest(&digest::SHA256, content).as_ref().to_vec();
    let job = job(&key, engine, content, refusal, ends)?;
    let mut result = job.result.lock();
    while result.is_none() && !job.is_done.wait_until(&mut result, ends).timed_out() {}
    // Another write of the same module may wait for it.
    let compiled = result.clone();
    drop(result);
    match compiled {
        Some(compiled) => {
            JOBS.lock().remove(&key);
            compiled
        }
        None => Err(format!(
            "the module takes longer than {} s to compile; this goes on in the background, so that it can be written again later",
            limit.as_secs()
        )),
    }
}

/// The job of that key: one that is known, or a new one, which may begin once there are fewer than
/// [`COMPILES_MAX`].
fn job(
    key: &[u8],
    engine: &Engine,
    content: &[u8],
    refusal: fn(&Engine, &[u8], &wasmtime::Error) -> String,
    ends: Instant,
) -> Result<Arc<Job>, String> {
    let mut jobs = JOBS.lock();
    loop {
        if let Some(job) = jobs.get(key) {
            return Ok(job.clone());
        }
        // Code that was not asked for again is dropped with the next module, because it holds memory.
        jobs.retain(|_, job| job.result.lock().is_none());
        if jobs.len() < COMPILES_MAX {
            break;
        }
        if ENDED.wait_until(&mut jobs, ends).timed_out() {
            return Err(format!("{COMPILES_MAX} modules are being compiled; write this one again later"));
        }
    }
    let job = Arc::new(Job::default());
    let (of_thread, engine, content) = (job.clone(), engine.clone(), content.to_vec());
    let work = move || {
        let compiled = catch_unwind(AssertUnwindSafe(|| {
            Module::from_binary(&engine, &content).map_err(|error| refusal(&engine, &content, &error))
        }));
        let compiled = compiled.unwrap_or_else(|_| Err("the compiler of WebAssembly failed".to_owned()));
        *of_thread.result.lock() = Some(compiled);
        of_thread.is_done.notify_all();
        // With the lock, so that a waiter that has just counted the jobs hears of it.
        let _jobs = JOBS.lock();
        ENDED.notify_all();
    };
    let thread =
        std::thread::Builder::new().name("wasm-compiler".to_owned()).stack_size(COMPILER_STACK_BYTES);
    thread.spawn(work).map_err(|error| format!("no thread to compile the module: {error}"))?;
    jobs.insert(key.to_vec(), job.clone());
    Ok(job)
}

/// The number of functions that the section of functions (id 3) announces; none if the module has no such
/// section, or the sections before it are malformed, which the compiler says better.
fn function_count(content: &[u8]) -> Option<usize> {
    let mut rest = content.get(8..)?;
    loop {
        let (id, behind) = rest.split_first()?;
        let (length, body) = unsigned(behind)?;
        if *id == 3 {
            return unsigned(body).map(|(count, _)| count);
        }
        rest = body.get(length..)?;
    }
}

/// A number of 32 bits in LEB128, and the bytes behind it.
fn unsigned(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut number = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(5) {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((usize::try_from(number).ok()?, &bytes[index + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::engine;

    fn text(_: &Engine, _: &[u8], error: &wasmtime::Error) -> String {
        error.to_string()
    }

    /// A module of so many functions, which another number makes a different one.
    fn module_of(functions: usize, number: usize) -> Vec<u8> {
        let body = format!("(func (drop (i32.const {number})))").repeat(functions);
        wat::parse_str(format!("(module {body})")).unwrap()
    }

    #[test]
    fn functions_are_counted_before_compiling() {
        for count in [1, 127, 128, 20_000] {
            assert_eq!(function_count(&module_of(count, 0)), Some(count));
        }
        for malformed in
            [&b""[..], b"\0asm", b"\0asm\x01\0\0\0", b"\0asm\x01\0\0\0\x01\xff\xff\xff\xff\xff\x01"]
        {
            assert_eq!(function_count(malformed), None, "{malformed:?}");
        }
        let engine = engine().unwrap();
        let refused = compile(&engine, &module_of(FUNCTIONS_MAX + 1, 0), text).err().unwrap();
        assert!(refused.contains("has 20001 functions; 20000 are allowed"), "{refused}");
    }

    #[test]
    fn slow_module_is_compiled_on_and_taken_later() {
        let engine = engine().unwrap();
        let content = module_of(2_000, 1);
        let refused = compile_within(&engine, &content, text, Duration::ZERO).err().unwrap();
        // Other tests may hold both places.
        let expected = ["goes on in the background", "modules are being compiled"];
        assert!(expected.iter().any(|part| refused.contains(part)), "{refused}");
        assert!(compile(&engine, &content, text).is_ok());
        let malformed = b"\0asm\x01\0\0\0\xff";
        assert!(compile(&engine, malformed, text).is_err());
    }
}
