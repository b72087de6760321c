//! The corpus of the fuzz target for HTTP/3 holds in an ordinary test run, too, and so do mutations of it.
#![expect(unreachable_pub, reason = "the same files are public in the fuzz targets' workspace")]
#![allow(clippy::unwrap_used)]

use std::sync::LazyLock;

use proptest::prelude::*;

#[path = "../../../../fuzz/oracles/corpus.rs"]
pub mod corpus;
#[path = "../../../../fuzz/oracles/decoded_fields.rs"]
pub mod decoded_fields;
#[path = "../../../../fuzz/oracles/http3.rs"]
pub mod http3_oracle;
#[path = "../../../../fuzz/oracles/mutation.rs"]
pub mod mutation;
#[path = "../../../../fuzz/oracles/steering.rs"]
pub mod steering;

#[test]
fn streams_and_sections() {
    corpus::run("http3", http3_oracle::check);
}

static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| mutation::seeds("http3"));

proptest! {
    #[test]
    fn mutated_seeds_hold(
        seed in any::<prop::sample::Index>(),
        changes in proptest::collection::vec(mutation::change(), 0..6),
    ) {
        let mut data = SEEDS[seed.index(SEEDS.len())].clone();
        changes.iter().for_each(|change| mutation::apply(&mut data, change, &SEEDS));
        http3_oracle::check(&data);
    }
}
