//! Prints the cost of a lookup, a change and a route at 100 and at 100,000 routes, in one run.
//!
//! `cargo run --release -p router --example lookup`. Compare the rows with each other; the absolute figures
//! depend on the machine.
#![allow(clippy::print_stdout, reason = "printing is what an example is for")]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use router::vars::{Value, Variable, VariableSource};
use router::{Mode, Params, RequestView, Router, Rule, RuleInput};

struct Request {
    path: String,
    host: String,
}

impl VariableSource for Request {
    fn variable<'a>(&'a self, _: &Variable) -> Option<Value<'a>> {
        None
    }
}

impl RequestView for Request {
    fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }

    fn host(&self) -> &[u8] {
        self.host.as_bytes()
    }

    fn raw_host(&self) -> &[u8] {
        self.host.as_bytes()
    }

    fn method_bit(&self) -> Option<u8> {
        Some(0)
    }

    fn remote_addr(&self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    }
}

fn main() {
    println!(
        "{:<24} {:>8} {:>7} {:>7} {:>9} {:>8}",
        "routes", "count", "ns hit", "ns miss", "ns change", "bytes"
    );
    for (name, path, host) in [
        ("exact", "/api/v1/item{n}", None),
        ("prefix", "/api/v1/item{n}/*", None),
        ("exact, a host each", "/checked-out", Some("h{n}.example.com")),
        ("prefix, wildcard hosts", "/shop/*", Some("*.h{n}.example.com")),
    ] {
        for count in [100, 100_000] {
            measure(name, path, host, count);
        }
    }
}

fn measure(name: &str, path: &str, host: Option<&str>, count: u32) {
    let fill = |pattern: &str, n: u32| pattern.replace("{n}", &n.to_string());
    let rule = |n: u32| {
        let hosts = host.map(|host| fill(host, n)).into_iter().collect();
        let input = RuleInput { paths: vec![fill(path, n)], hosts, ..RuleInput::default() };
        Arc::new(Rule::new(input).expect("the rules here are well-formed"))
    };
    let request = |n: u32| Request {
        path: fill(path, n).replace('*', "some/thing"),
        host: host.map_or("example.com".to_owned(), |host| fill(host, n).replace('*', "www")),
    };
    let mut router = Router::new(Mode::HostUri);
    let resident = resident_bytes();
    let rules: Vec<Arc<Rule>> = (0..count).map(rule).collect();
    for (slot, rule) in (0..).zip(&rules) {
        router.insert(slot, Arc::clone(rule));
    }
    let bytes = resident_bytes().saturating_sub(resident) / u64::from(count);
    // The same hundred requests, spread over the routes, so that only the table differs.
    let hits: Vec<Request> = (0..100).map(|n| request(n * (count / 100))).collect();
    let misses: Vec<Request> =
        (0..100).map(|n| Request { path: format!("/none/{n}"), ..request(n) }).collect();
    let hit = lookups(&router, &hits, true);
    let miss = lookups(&router, &misses, false);
    let start = Instant::now();
    for (slot, rule) in (0..CHANGES).zip(&rules) {
        let published = router.clone();
        router.remove(slot, rule);
        router.insert(slot, Arc::clone(rule));
        black_box(published);
    }
    let change = start.elapsed().as_nanos() / u128::from(CHANGES.min(count));
    println!("{name:<24} {count:>8} {hit:>7} {miss:>7} {change:>9} {bytes:>8}");
}

/// The memory of the process, rules and router; only the rows of 100,000 are meaningful. Zero where there is
/// no `/proc`.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * PAGE_BYTES
}

fn lookups(router: &Router, requests: &[Request], found: bool) -> u128 {
    let mut params = Params::new();
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for request in requests {
            assert_eq!(black_box(router.find(request, &mut params)).is_some(), found);
        }
    }
    start.elapsed().as_nanos() / (ROUNDS * requests.len()) as u128
}

/// The page size of x86-64 and of most ARM systems.
const PAGE_BYTES: u64 = 4096;
/// Rounds over the requests; they take a fraction of a second.
const ROUNDS: usize = 5_000;
/// Changes that are timed, each while a clone of the router is published.
const CHANGES: u32 = 100;
