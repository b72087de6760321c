//! Shared parts of the tests of the engine: a gateway in front of origins, described as resources. Holds no
//! test.

use std::fmt::Write;
use std::net::SocketAddr;

use serde_json::json;
use testkit::{Origin, Reply, Signal, Step, Weir, WeirBuilder};

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

/// One route for every path to one node; `more` has further fields of the upstream, as YAML flow.
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

/// Puts a route for every path to the nodes of a registry's service.
pub(crate) fn follow_service(weir: &Weir, registry: &str, service: &str) {
    let upstream = json!({"discovery_type": registry, "service_name": service});
    weir.put("routes/1", json!({"uri": "/*", "upstream": upstream}));
}

/// An origin with long requests: it accepts an upgrade and echoes, and at `/slow` it sets `asked` and answers
/// `done` after `go`. Elsewhere it answers `served`.
pub(crate) fn lasting_origin(asked: &Signal, go: &Signal) -> Origin {
    let (asked, go) = (asked.clone(), go.clone());
    Origin::start(move |request| {
        if request.header("upgrade").is_some() {
            let consent =
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
            return Reply::raw(consent.as_bytes()).then(Step::Echo).close();
        }
        if request.path() != "/slow" {
            return Reply::ok("served");
        }
        let reply = Reply::new().then(Step::Set(asked.clone())).wait(&go);
        reply.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")
    })
}

/// The fields of a request for a tunnel to that origin.
pub(crate) const TUNNEL: [(&str, &str); 3] =
    [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13")];

/// The memory that a process keeps data in, in bytes, resident or swapped out: heap, stacks and shared
/// memory. Without the pages of its program, 4 MB in a debug build: the kernel maps them when code runs for
/// the first time and drops them at any time, so that they would distort the measurement.
pub(crate) fn memory_of(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let kilobytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    ["RssAnon:", "RssShmem:", "VmSwap:"].map(kilobytes).iter().sum::<u64>() * 1024
}
