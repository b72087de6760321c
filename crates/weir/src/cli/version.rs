//! `weir version`: the version, and the features and limits of this machine that matter to a gateway. Reads
//! `/proc` and `/sys`; changes nothing.

use std::fs;
use std::process::ExitCode;

use rustix::process::{Resource, getrlimit};

use crate::boot::memory_bound;
use crate::quick_copies;
use crate::settings::available_cores;
use crate::terminal::{Paint, print};

/// Print the version and what this machine offers
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct VersionArguments {}

/// Prints each in a line.
pub(crate) fn execute_version(_: &VersionArguments) -> anyhow::Result<ExitCode> {
    let paint = Paint::for_stdout();
    print(format_args!("weir {}", env!("CARGO_PKG_VERSION")));
    for (name, value) in offers() {
        print(format_args!("{} {value}", paint.faint(&format!("{name:<12}"))));
    }
    Ok(ExitCode::SUCCESS)
}

/// The features and limits of the machine, by name.
fn offers() -> Vec<(&'static str, String)> {
    vec![
        ("cores", available_cores().to_string()),
        ("memory", memory_limit()),
        ("open files", open_files()),
        ("kernel", sysctl("kernel/osrelease").unwrap_or_else(|| UNKNOWN.to_owned())),
        ("io_uring", io_uring(sysctl("kernel/io_uring_disabled").as_deref())),
        ("TLS", format!("rustls {}, aws-lc-rs {}", env!("RUSTLS_VERSION"), env!("AWS_LC_RS_VERSION"))),
        ("kTLS", kernel_tls(sysctl("net/ipv4/tcp_available_ulp").as_deref())),
        ("copies", quick_copies::describe().to_owned()),
        ("backlog", sysctl("net/core/somaxconn").unwrap_or_else(|| UNKNOWN.to_owned())),
        (
            "build",
            format!(
                "{} {}",
                std::env::consts::ARCH,
                if cfg!(debug_assertions) { "debug" } else { "release" }
            ),
        ),
    ]
}

/// The memory limit of the cgroup, or of the process where that is narrower.
fn memory_limit() -> String {
    match memory_bound() {
        Some(bound) => format!("{} MiB (limit of {})", bound.bytes >> 20, bound.name),
        None => "no limit of the cgroup".to_owned(),
    }
}

/// Descriptors this process may open; a proxied connection takes two.
fn open_files() -> String {
    let limit = getrlimit(Resource::Nofile);
    let text = |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
    format!("{} (may be raised to {})", text(limit.current), text(limit.maximum))
}

/// The kernel's switch in words (Documentation/admin-guide/sysctl/kernel.rst, `io_uring_disabled`, since
/// 6.6).
fn io_uring(disabled: Option<&str>) -> String {
    let text = match disabled {
        Some("0") => "allowed by the kernel (a container's filter may still refuse it)",
        Some("1") => "only for privileged processes",
        Some("2") => "switched off",
        _ => UNKNOWN,
    };
    format!("{text}; weir does not need it")
}

/// Whether the kernel can encrypt TLS records itself.
fn kernel_tls(protocols: Option<&str>) -> String {
    let has_tls = protocols.is_some_and(|list| list.split_whitespace().any(|protocol| protocol == "tls"));
    if has_tls { "available" } else { "not loaded" }.to_owned()
}

fn sysctl(name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/sys/{name}")).ok().map(|text| text.trim().to_owned())
}

const UNKNOWN: &str = "unknown";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernel_switches() {
        assert!(io_uring(Some("0")).starts_with("allowed"));
        assert!(io_uring(Some("2")).starts_with("switched off"));
        assert!(io_uring(None).starts_with("unknown"));
        assert_eq!(kernel_tls(Some("espintcp tls mptcp")), "available");
        assert_eq!(kernel_tls(Some("espintcp")), "not loaded");
        assert_eq!(kernel_tls(None), "not loaded");
    }

    #[test]
    fn every_offer_has_a_text() {
        assert!(offers().iter().all(|(name, value)| !name.is_empty() && !value.is_empty()));
    }
}
