//! The corpora of the fuzz targets for PROXY protocol headers and first bytes hold in an ordinary test run,
//! too, and so do bytes at random.
#![allow(clippy::expect_used, clippy::panic, reason = "an oracle panics where a property does not hold")]

#[path = "../../../fuzz/oracles/client_hello.rs"]
pub mod client_hello;
#[path = "../../../fuzz/oracles/corpus.rs"]
pub mod corpus;
#[path = "../../../fuzz/oracles/first_protocol.rs"]
pub mod first_protocol;
#[path = "../../../fuzz/oracles/mqtt_connect.rs"]
pub mod mqtt_connect;
#[path = "../../../fuzz/oracles/prefixes.rs"]
pub mod prefixes;
#[path = "../../../fuzz/oracles/proxy_protocol.rs"]
pub mod proxy_protocol;
#[path = "../../../fuzz/oracles/steering.rs"]
pub mod steering;

#[test]
fn proxy_protocol_headers() {
    corpus::run("proxy_protocol", proxy_protocol::check);
}

#[test]
fn first_bytes() {
    corpus::run("client_hello", client_hello::check);
    corpus::run("first_protocol", first_protocol::check);
    corpus::run("mqtt_connect", mqtt_connect::check);
}

#[test]
fn mutated_proxy_protocol_headers_hold() {
    mutate("proxy_protocol", proxy_protocol::check);
}

#[test]
fn mutated_first_bytes_hold() {
    mutate("client_hello", client_hello::check);
    mutate("first_protocol", first_protocol::check);
    mutate("mqtt_connect", mqtt_connect::check);
}

/// Checks seeds of the corpus of a target with bytes changed, doubled and left out.
fn mutate(target: &str, check: fn(&[u8])) {
    const ROUNDS: usize = 400;
    let mut random = fastrand::Rng::with_seed(7);
    let folder = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("a corpus").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    for file in files {
        let seed = std::fs::read(&file).expect("a readable file");
        for _ in 0..ROUNDS {
            let mut data = seed.clone();
            for _ in 0..random.usize(1..=3) {
                let at = random.usize(..data.len());
                match random.u8(..4) {
                    0 => data[at] = random.u8(..),
                    1 => data[at] = data[at].wrapping_add(1),
                    2 => data.insert(at, random.u8(..)),
                    _ if data.len() > 3 => drop(data.remove(at)),
                    _ => {}
                }
            }
            check(&data);
        }
    }
}
