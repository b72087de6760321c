//! Checks of the machine: limits of the process, memory, kernel settings, the clock. It reads `/proc` and
//! `/sys`.

use std::fs;

use rustix::process::{Resource, getrlimit};

use super::DoctorCheck;
use crate::boot::{MemoryBound, memory_bound};
use crate::settings::{MemoryLimit, Settings};

/// Descriptors besides those of connections: listeners, files, the event loops.
const OTHER_DESCRIPTORS: u64 = 1_000;
/// Connections that wait to be accepted during a burst.
const BACKLOG_WANTED: u64 = 1_024;
/// Ports for connections to one address of a node.
const PORTS_WANTED: u64 = 20_000;
/// Receive buffer of a UDP socket, below which QUIC loses datagrams during bursts.
const DATAGRAMS_WANTED: u64 = 2_500_000;
/// 2025-01-01. A clock before that was never set.
const CLOCK_FROM_S: u64 = 1_735_689_600;

/// All checks of the machine.
pub(super) fn check_machine(settings: &Settings) -> Vec<DoctorCheck> {
    let mut checks = vec![descriptors(settings), memory(settings)];
    let kernel = [
        number("somaxconn", "net/core/somaxconn", BACKLOG_WANTED, "connections of a burst are refused"),
        number(
            "syn backlog",
            "net/ipv4/tcp_max_syn_backlog",
            BACKLOG_WANTED,
            "handshakes of a burst are lost",
        ),
        ports(),
        huge_pages(),
    ];
    checks.extend(kernel.into_iter().flatten());
    if !settings.proxy_tls_http3.is_empty() {
        checks.extend(number(
            "rmem_max",
            "net/core/rmem_max",
            DATAGRAMS_WANTED,
            "QUIC loses datagrams of a burst",
        ));
    }
    checks.push(clock(stdx::clock::unix_time().as_secs()));
    checks
}

/// The hard limit, because the gateway raises its own limit to it.
fn descriptors(settings: &Settings) -> DoctorCheck {
    let wanted = 2 * settings.max_connections as u64 + OTHER_DESCRIPTORS;
    let Some(limit) = getrlimit(Resource::Nofile).maximum else {
        return DoctorCheck::ok("descriptors", "unlimited");
    };
    enough_descriptors(limit, wanted)
}

fn enough_descriptors(limit: u64, wanted: u64) -> DoctorCheck {
    let found = format!("{limit}, and max_connections needs up to {wanted}");
    if limit >= wanted {
        return DoctorCheck::ok("descriptors", found);
    }
    let advice = format!(
        "raise the limit (LimitNOFILE={wanted} in a systemd unit, ulimit -Hn), or lower max_connections"
    );
    DoctorCheck::attention("descriptors", found, advice)
}

fn memory(settings: &Settings) -> DoctorCheck {
    let bound = memory_bound();
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    match (&settings.memory_limit, bound) {
        (MemoryLimit::Bytes(limit), Some(bound)) if *limit > bound.bytes => DoctorCheck::failed(
            "memory",
            format!("memory_limit is {}, and {} allows {}", mib(*limit), bound.name, mib(bound.bytes)),
            "lower memory_limit, or write auto: otherwise the kernel ends the process first",
        ),
        (MemoryLimit::Bytes(limit), _) => {
            DoctorCheck::ok("memory", format!("memory_limit is {}", mib(*limit)))
        }
        (MemoryLimit::Auto, Some(bound)) => {
            let MemoryBound { bytes, name, share, .. } = bound;
            DoctorCheck::ok("memory", format!("the limit is {share} of the {} of {name}", mib(bytes)))
        }
        (MemoryLimit::Auto | MemoryLimit::Off, _) => DoctorCheck::attention(
            "memory",
            "no limit: requests are not rejected before the machine runs out of memory",
            "set memory_limit, or a limit of the cgroup (MemoryMax= in a systemd unit)",
        ),
    }
}

/// A kernel setting that should be at least `wanted`; none where the kernel does not show it.
fn number(name: &'static str, path: &str, wanted: u64, effect: &str) -> Option<DoctorCheck> {
    let value = sysctl(path)?.parse::<u64>().ok()?;
    if value >= wanted {
        return Some(DoctorCheck::ok(name, value.to_string()));
    }
    let setting = path.replace('/', ".");
    let advice = format!("{effect}: sysctl -w {setting}={wanted}");
    Some(DoctorCheck::attention(name, value.to_string(), advice))
}

/// The ports of outgoing connections.
fn ports() -> Option<DoctorCheck> {
    port_range(&sysctl("net/ipv4/ip_local_port_range")?)
}

fn port_range(text: &str) -> Option<DoctorCheck> {
    let mut ends = text.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    let found = format!("{first} to {last}");
    if (last + 1).saturating_sub(first) >= PORTS_WANTED {
        return Some(DoctorCheck::ok("port range", found));
    }
    let advice =
        "connections to one node run out of ports: sysctl -w net.ipv4.ip_local_port_range='10240 65535'";
    Some(DoctorCheck::attention("port range", found, advice))
}

fn huge_pages() -> Option<DoctorCheck> {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    Some(huge_page_mode(&text))
}

fn huge_page_mode(text: &str) -> DoctorCheck {
    let mode = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match mode {
        Some("always") => DoctorCheck::attention(
            "huge pages",
            "always",
            "memory may grow in steps of 2 MiB: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        mode => DoctorCheck::ok("huge pages", mode.unwrap_or("unknown")),
    }
}

fn clock(now_s: u64) -> DoctorCheck {
    if now_s < CLOCK_FROM_S {
        let advice = "set the clock, and keep it set (chrony, systemd-timesyncd): certificates depend on it";
        return DoctorCheck::failed("clock", "it is before 2025", advice);
    }
    let mut date = stdx::clock::HttpDate::new();
    DoctorCheck::ok("clock", String::from_utf8_lossy(date.at(now_s)).into_owned())
}

fn sysctl(path: &str) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/sys/{path}")).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;

    #[test]
    fn limits_that_are_too_low_need_attention() {
        assert_eq!(enough_descriptors(1_024, 201_000).state, CheckState::Attention);
        assert_eq!(enough_descriptors(1_048_576, 201_000).state, CheckState::Ok);
        assert_eq!(port_range("32768\t60999").map(|check| check.state), Some(CheckState::Ok));
        assert_eq!(port_range("60000 60999").map(|check| check.state), Some(CheckState::Attention));
        assert_eq!(port_range("x"), None);
        assert_eq!(huge_page_mode("always [madvise] never").state, CheckState::Ok);
        assert_eq!(huge_page_mode("[always] madvise never").state, CheckState::Attention);
        assert_eq!(clock(0).state, CheckState::Failed);
    }
}
