//! What the tests of the engine share: a gateway in front of origins, described as resources. Holds no test.

use std::fmt::Write;
use std::net::SocketAddr;

use testkit::{Origin, Weir, WeirBuilder};

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// A gateway that runs these resources (YAML).
pub(crate) fn gateway(resources: &str) -> Weir {
    builder(resources).start()
}

/// A gateway that is not started yet, for other settings.
pub(crate) fn builder(resources: &str) -> WeirBuilder {
    Weir::builder(BINARY).resources(resources)
}

/// A gateway that passes every request on to `origin`.
pub(crate) fn in_front_of(origin: &Origin) -> Weir {
    gateway(&everything_to(origin.address(), ""))
}

/// As [`in_front_of`], with further settings as arguments.
pub(crate) fn in_front_of_with(origin: &Origin, arguments: &[&str]) -> Weir {
    builder(&everything_to(origin.address(), "")).arguments(arguments).start()
}

/// One route for every path to one node; `more` is further fields of the upstream, `, `-separated YAML flow.
pub(crate) fn everything_to(node: SocketAddr, more: &str) -> String {
    route("uri: /*", &upstream(&[node], more))
}

/// A resources file of one route: its fields and its upstream, as YAML flow.
pub(crate) fn route(fields: &str, upstream: &str) -> String {
    format!("routes:\n  - {{id: '1', {fields}, upstream: {upstream}}}\n")
}

/// An upstream of nodes with weight 1, as YAML flow.
pub(crate) fn upstream(nodes: &[SocketAddr], more: &str) -> String {
    let mut text = "{nodes: {".to_owned();
    for node in nodes {
        write!(text, "'{node}': 1, ").unwrap();
    }
    if more.is_empty() { text + "}}" } else { format!("{text}}}, {more}}}") }
}

/// What a process holds of its own, in bytes: what it maps of its program counts when it is run for the first time.
pub(crate) fn memory_of(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
