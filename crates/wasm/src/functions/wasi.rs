//! The functions of WASI that compilers put into every module: clock, random numbers, output as log lines,
//! and an environment without arguments, variables, files and sockets.

use tracing::Level;
use wasmtime::{Caller, Error, Linker};

use super::{WASI, log};
use crate::abi::AbiStatus;
use crate::host::Host;
use crate::limits::LOG_LINE_BYTES_MAX;
use crate::memory::{view, write, write_u32, write_u64};

/// Functions that modules import and nothing here has; each answers ENOSYS. There are no files, sockets and
/// threads.
pub(crate) const REFUSED: [&str; 35] = [
    "fd_advise",
    "fd_allocate",
    "fd_datasync",
    "fd_fdstat_set_flags",
    "fd_fdstat_set_rights",
    "fd_filestat_get",
    "fd_filestat_set_size",
    "fd_filestat_set_times",
    "fd_pread",
    "fd_prestat_dir_name",
    "fd_pwrite",
    "fd_read",
    "fd_readdir",
    "fd_renumber",
    "fd_seek",
    "fd_sync",
    "fd_tell",
    "path_create_directory",
    "path_filestat_get",
    "path_filestat_set_times",
    "path_link",
    "path_open",
    "path_readlink",
    "path_remove_directory",
    "path_rename",
    "path_symlink",
    "path_unlink_file",
    "poll_oneoff",
    "proc_raise",
    "sock_accept",
    "sock_recv",
    "sock_send",
    "sock_shutdown",
    "clock_res_get",
    "thread-spawn",
];

const SUCCESS: i32 = 0;
const BADF: i32 = 8;
const FAULT: i32 = 21;
const INVAL: i32 = 28;
const NOTSUP: i32 = 58;

/// The longest run of random bytes of one call.
const RANDOM_BYTES_MAX: u32 = 64 * 1024;
/// Parts of one write: as many as `writev` takes.
const PARTS_MAX: u32 = 1_024;
/// The kind of a file that is a terminal or another stream of characters.
const CHARACTER_DEVICE: u8 = 2;

pub(crate) fn add_wasi_functions(linker: &mut Linker<Host>) -> Result<(), Error> {
    for space in WASI {
        linker.func_wrap(space, "args_sizes_get", zeros)?;
        linker.func_wrap(space, "environ_sizes_get", zeros)?;
        linker.func_wrap(space, "args_get", |_: i32, _: i32| SUCCESS)?;
        linker.func_wrap(space, "environ_get", |_: i32, _: i32| SUCCESS)?;
        linker.func_wrap(space, "sched_yield", || SUCCESS)?;
        linker.func_wrap(space, "fd_close", |_: i32| BADF)?;
        linker.func_wrap(space, "fd_prestat_get", |_: i32, _: i32| BADF)?;
        linker.func_wrap(space, "clock_time_get", clock)?;
        linker.func_wrap(space, "random_get", random)?;
        linker.func_wrap(space, "fd_write", fd_write)?;
        linker.func_wrap(space, "fd_fdstat_get", fd_stat)?;
        linker.func_wrap(space, "proc_exit", |code: i32| -> Result<(), Error> {
            Err(Error::msg(format!("it exits with code {code}")))
        })?;
    }
    Ok(())
}

fn errno(written: Result<(), AbiStatus>) -> i32 {
    if written.is_ok() { SUCCESS } else { FAULT }
}

fn zeros(mut caller: Caller<'_, Host>, count: i32, bytes: i32) -> i32 {
    errno(write_u32(&mut caller, count, 0).and_then(|()| write_u32(&mut caller, bytes, 0)))
}

fn clock(mut caller: Caller<'_, Host>, id: i32, _precision: i64, place: i32) -> i32 {
    let now = match id {
        0 => net::env::wall_clock().as_nanos() as u64,
        1 => net::env::monotonic_ns(),
        _ => return NOTSUP,
    };
    errno(write_u64(&mut caller, place, now))
}

fn random(mut caller: Caller<'_, Host>, place: i32, length: i32) -> i32 {
    if length as u32 > RANDOM_BYTES_MAX {
        return INVAL;
    }
    let mut bytes = vec![0; length as u32 as usize];
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        return INVAL;
    }
    errno(write(&mut caller, place, &bytes))
}

/// Output is a character device that is only written.
fn fd_stat(mut caller: Caller<'_, Host>, fd: i32, place: i32) -> i32 {
    if !(0..=2).contains(&fd) {
        return BADF;
    }
    let mut stat = [0; 24];
    stat[0] = CHARACTER_DEVICE;
    // The right to write (bit 6).
    stat[8] = 1 << 6;
    errno(write(&mut caller, place, &stat))
}

/// Lines of the standard output are logged as information, those of the standard error as errors.
fn fd_write(mut caller: Caller<'_, Host>, fd: i32, parts: i32, count: i32, written: i32) -> i32 {
    let level = match fd {
        1 => Level::INFO,
        2 => Level::ERROR,
        _ => return BADF,
    };
    if count as u32 > PARTS_MAX {
        return INVAL;
    }
    let mut text = Vec::new();
    let mut total = 0_u32;
    for index in 0..count {
        let Some(at) = parts.checked_add(index.saturating_mul(8)) else { return FAULT };
        let part = view(&caller, at, 8).and_then(|pair| {
            let number = |at: usize| i32::from_le_bytes([pair[at], pair[at + 1], pair[at + 2], pair[at + 3]]);
            view(&caller, number(0), number(4))
        });
        let Ok(part) = part else { return FAULT };
        total = total.wrapping_add(part.len() as u32);
        let room = LOG_LINE_BYTES_MAX.saturating_sub(text.len());
        text.extend_from_slice(&part[..part.len().min(room)]);
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    if !text.trim().is_empty() {
        log::write_line(caller.data_mut(), level, &text);
    }
    errno(write_u32(&mut caller, written, total))
}
