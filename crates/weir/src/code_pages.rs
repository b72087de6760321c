//! The program's own code in memory. Reading settings, compiling schemas and building tables touch most of it once; a
//! node then runs a small part for months. It knows nothing of what the code does.

use std::ffi::c_void;

/// Leaves the code that only the start has run to the page cache: it no longer counts as this process's memory, and is
/// the first the kernel takes back when memory is short. What is run again is mapped again, without reading the disk
/// while it is cached: some dozens of soft page faults in all.
///
/// Where the mapping cannot be found or advised on, everything stays as it is.
pub(crate) fn release() {
    let Ok(program) = std::fs::read_link("/proc/self/exe") else { return };
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    for (start, length) in code_of(&maps, &program.to_string_lossy()) {
        // SAFETY: pages of an executable mapping hold nothing but the file, for code is never relocated in place (a
        // position-independent program has no DT_TEXTREL). Dropped, they are read from it again at the next access,
        // which no thread can tell from a page that was never touched.
        #[allow(unsafe_code)]
        let _ =
            unsafe { rustix::mm::madvise(start as *mut c_void, length, rustix::mm::Advice::LinuxDontNeed) };
    }
}

/// The start and the length of each executable mapping of `program` in a table of mappings (proc(5), `/proc/PID/maps`).
/// Those that may only be read are left alone: one of them holds addresses that the loader has filled in.
fn code_of(maps: &str, program: &str) -> Vec<(usize, usize)> {
    let parse = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (range, permissions) = (fields.next()?, fields.next()?);
        let is_code = permissions == "r-xp" && line.ends_with(program);
        let (start, end) = range.split_once('-').filter(|_| is_code)?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        Some((start, end.checked_sub(start)?))
    };
    maps.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_executable_and_the_programs_own() {
        let maps = "\
            1000-3000 r--p 00000000 fe:00 1    /usr/bin/weir\n\
            3000-9000 r-xp 00002000 fe:00 1    /usr/bin/weir\n\
            9000-a000 rw-p 00008000 fe:00 1    /usr/bin/weir\n\
            a000-b000 r-xp 00000000 fe:00 2    /usr/lib/libc.so.6\n\
            b000-c000 r--p 00000000 00:00 0\n\
            nonsense\n";
        assert_eq!(code_of(maps, "/usr/bin/weir"), [(0x3000, 0x6000)]);
    }

    #[test]
    fn a_process_that_released_its_code_runs_on() {
        let before = code_of(&std::fs::read_to_string("/proc/self/maps").unwrap(), &program());
        assert!(!before.is_empty());
        release();
        assert_eq!(code_of(&std::fs::read_to_string("/proc/self/maps").unwrap(), &program()), before);
    }

    fn program() -> String {
        std::fs::read_link("/proc/self/exe").unwrap().to_string_lossy().into_owned()
    }
}
