//! The corpus of the fuzz target for PROXY protocol headers holds in an ordinary test run, too, and so do bytes at random.
#![allow(clippy::expect_used, clippy::panic, reason = "an oracle panics where a property does not hold")]

#[path = "../../../fuzz/oracles/corpus.rs"]
pub mod corpus;
#[path = "../../../fuzz/oracles/proxy_protocol.rs"]
pub mod proxy_protocol;
#[path = "../../../fuzz/oracles/steering.rs"]
pub mod steering;

#[test]
fn proxy_protocol_headers() {
    corpus::run("proxy_protocol", proxy_protocol::check);
}

/// Seeds of the corpus with bytes changed, doubled and left out.
#[test]
fn mutated_proxy_protocol_headers_hold() {
    const ROUNDS: usize = 400;
    let mut random = fastrand::Rng::with_seed(7);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/proxy_protocol");
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
            proxy_protocol::check(&data);
        }
    }
}
