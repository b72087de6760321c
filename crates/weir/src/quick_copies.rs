//! Large copies on AMD processors. glibc before 2.39 copies pieces of some KiB with `rep movsb`, which Zen 3
//! and 4 run at a fraction of the speed of vector moves (glibc bug 30994). TLS copies every byte of a body,
//! so that 1 MB costs up to half as much CPU again. The choice of the instruction is a tunable, which the
//! loader reads from the environment only: a gateway starts itself again with it
//! ([0038](../../../docs/decisions/0038-quick-copies.md)).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The environment variable of glibc's tunables, separated by colons.
const VARIABLE: &str = "GLIBC_TUNABLES";

/// The tunable: the size in bytes from which a copy uses `rep movsb`.
const THRESHOLD: &str = "glibc.cpu.x86_rep_movsb_threshold";

/// No copy is as large.
const NEVER_BYTES: &str = "1000000000";

/// The vendor is in the second line.
const DESCRIPTION_BYTES: usize = 256;

/// Starts the program again with the tunable, where it would pay and is not there yet. The process keeps its
/// id and its descriptors. Returns if nothing is to do, or if the program cannot be started again: then
/// copies stay slow.
pub(crate) fn enable_quick_copies() {
    let Some(tunables) = missing_tunables() else { return };
    let Ok(program) = std::env::current_exe() else { return };
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| program.clone().into_os_string());
    let _refused = Command::new(program).arg0(name).args(arguments).env(VARIABLE, tunables).exec();
}

/// How this process copies, for `weir version`.
pub(crate) fn describe() -> &'static str {
    match (is_affected(), missing_tunables().is_some()) {
        (false, _) => "of the C library",
        (true, false) => "without rep movsb, by GLIBC_TUNABLES",
        (true, true) => "without rep movsb once `weir run` has set GLIBC_TUNABLES",
    }
}

fn missing_tunables() -> Option<OsString> {
    if is_affected() { with_threshold(std::env::var_os(VARIABLE).as_deref()) } else { None }
}

/// Whether the C library may be one with the fault, and the processor one that shows it.
fn is_affected() -> bool {
    cfg!(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))
        && first_processor().is_ok_and(|text| is_made_by_amd(&text))
}

/// The kernel's description of the first processor. That of all would be 400 KB on a large machine.
fn first_processor() -> io::Result<String> {
    let mut text = Vec::with_capacity(DESCRIPTION_BYTES);
    File::open("/proc/cpuinfo")?.take(DESCRIPTION_BYTES as u64).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn is_made_by_amd(cpuinfo: &str) -> bool {
    let vendor = cpuinfo.lines().find_map(|line| line.strip_prefix("vendor_id"));
    vendor.is_some_and(|vendor| vendor.trim_start_matches([' ', '\t', ':']) == "AuthenticAMD")
}

/// The tunables with the threshold; none if they set it already, to this or another value.
fn with_threshold(tunables: Option<&OsStr>) -> Option<OsString> {
    let given = tunables.unwrap_or_default();
    if given.as_bytes().windows(THRESHOLD.len()).any(|part| part == THRESHOLD.as_bytes()) {
        return None;
    }
    let mut all = given.to_owned();
    if !all.is_empty() {
        all.push(":");
    }
    all.push(format!("{THRESHOLD}={NEVER_BYTES}"));
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunables_of_the_user_are_kept() {
        let ours = "glibc.cpu.x86_rep_movsb_threshold=1000000000";
        for (given, expected) in [
            (None, Some(ours.to_owned())),
            (Some(""), Some(ours.to_owned())),
            (Some("glibc.malloc.check=1"), Some(format!("glibc.malloc.check=1:{ours}"))),
            (Some("glibc.cpu.x86_rep_movsb_threshold=2048"), None),
            (Some(ours), None),
        ] {
            let tunables = with_threshold(given.map(OsStr::new));
            assert_eq!(tunables, expected.map(OsString::from), "{given:?}");
        }
    }

    #[test]
    fn vendor_is_read_from_cpuinfo() {
        for (text, is_amd) in [
            ("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\n", true),
            ("processor\t: 0\nvendor_id\t: GenuineIntel\n", false),
            ("processor\t: 0\nBogoMIPS\t: 50.00\n", false),
        ] {
            assert_eq!(is_made_by_amd(text), is_amd, "{text}");
        }
    }
}
