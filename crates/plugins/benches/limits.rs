//! The time that a limit takes in a request, and the memory of a million keys:
//! `cargo bench -p plugins --bench limits`. No Redis is needed: with delayed synchronisation no request waits
//! for one.
#![allow(clippy::print_stdout, reason = "a bench prints its figures")]

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use exchange::Exchange;
use exchange::client_address::ClientAddress;
use exchange::plugin::{Flow, Plugin};
use exchange::testing::Scene;
use serde_json::{Value, json};

/// Requests that are measured together.
const REQUESTS: u64 = 1_000_000;
/// Values of the key among them.
const KEYS: u64 = 1_000;
/// Keys of the measurement of memory.
const KEYS_IN_MEMORY: u64 = 1_000_000;

/// Nanoseconds of one request with the given number of keys; without a plugin, those of the loop itself.
fn request_ns(exchange: &mut Exchange, plugin: Option<&dyn Plugin>, keys: u64) -> f64 {
    let began = Instant::now();
    for request in 0..REQUESTS {
        let address = Ipv4Addr::from((request % keys) as u32).into();
        exchange.set_client(ClientAddress { address, port: None });
        if let Some(plugin) = plugin {
            let flow = plugin.access(black_box(exchange));
            assert!(matches!(flow, Flow::Continue), "the limit is never reached");
        }
    }
    began.elapsed().as_nanos() as f64 / REQUESTS as f64
}

/// Resident memory of this process, in bytes.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize =
        text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * rustix::param::page_size()
}

fn configurations() -> Vec<(&'static str, &'static str, Value)> {
    let count = json!({
        "count": 9_000_000_000_u64, "time_window": 3600, "key": "remote_addr", "show_limit_quota_header": false,
    });
    let with = |more: Value| {
        let mut config = count.clone();
        config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        config
    };
    let delayed = json!({"policy": "redis", "redis_host": "127.0.0.1", "redis_port": 1, "sync_interval": 1});
    let rate = json!({"rate": 1e12, "burst": 1e12, "nodelay": true, "key": "remote_addr"});
    vec![
        ("limit-count", "fixed", count.clone()),
        ("limit-count", "sliding", with(json!({"window_type": "sliding"}))),
        ("limit-count", "delayed", with(delayed)),
        ("limit-req", "local", rate),
    ]
}

fn main() {
    let measure = async {
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let empty = request_ns(&mut exchange, None, KEYS);
        println!("{:<14} {:<10} {:>14} {:>22}", "plugin", "counts", "ns a request", "MB for a million keys");
        for (name, counts, config) in configurations() {
            let kind = plugins::ALL.iter().find(|kind| kind.name == name).expect("a plugin");
            let plugin = scene.build(kind, &config);
            request_ns(&mut exchange, Some(&*plugin), KEYS);
            let taken = request_ns(&mut exchange, Some(&*plugin), KEYS) - empty;
            drop(plugin);
            let before = resident_bytes();
            let plugin = scene.build(kind, &config);
            request_ns(&mut exchange, Some(&*plugin), KEYS_IN_MEMORY);
            let grown = resident_bytes().saturating_sub(before) as f64 / 1e6;
            println!("{name:<14} {counts:<10} {taken:>14.0} {grown:>22.0}");
        }
    };
    net::env::block_on(measure).expect("an event loop");
}
