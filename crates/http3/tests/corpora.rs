//! The corpus of the fuzz target for HTTP/3 holds in an ordinary test run, too, and so do mutations of it.
#![allow(clippy::unwrap_used)]

use std::sync::LazyLock;

use proptest::prelude::*;

#[path = "../../../fuzz/oracles/corpus.rs"]
pub mod corpus;
#[path = "../../../fuzz/oracles/http3.rs"]
pub mod http3_oracle;
#[path = "../../../fuzz/oracles/steering.rs"]
pub mod steering;

#[test]
fn streams_and_sections() {
    corpus::run("http3", http3_oracle::check);
}

/// The seeds in the order of their names.
static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/http3");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
});

/// A change of one seed: a byte, a part that is doubled or removed, or the end of another seed.
#[derive(Debug, Clone)]
enum Change {
    Byte(prop::sample::Index, u8),
    Double(prop::sample::Index, prop::sample::Index),
    Remove(prop::sample::Index, prop::sample::Index),
    Append(prop::sample::Index, prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        4 => (place(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        1 => (place(), place()).prop_map(|(from, to)| Change::Double(from, to)),
        1 => (place(), place()).prop_map(|(from, to)| Change::Remove(from, to)),
        2 => (place(), place()).prop_map(|(seed, from)| Change::Append(seed, from)),
    ]
}

fn apply(data: &mut Vec<u8>, change: &Change) {
    let range = |from: &prop::sample::Index, to: &prop::sample::Index| {
        let (from, to) = (from.index(data.len() + 1), to.index(data.len() + 1));
        from.min(to)..from.max(to)
    };
    match change {
        Change::Byte(at, byte) if !data.is_empty() => {
            let at = at.index(data.len());
            data[at] = *byte;
        }
        Change::Byte(..) => {}
        Change::Double(from, to) => {
            let part = data[range(from, to)].to_vec();
            data.extend_from_slice(&part);
        }
        Change::Remove(from, to) => drop(data.drain(range(from, to))),
        Change::Append(seed, from) => {
            let other = &SEEDS[seed.index(SEEDS.len())];
            data.extend_from_slice(&other[from.index(other.len() + 1)..]);
        }
    }
}

proptest! {
    #[test]
    fn mutated_seeds_hold(
        seed in any::<prop::sample::Index>(),
        changes in proptest::collection::vec(change(), 0..6),
    ) {
        let mut data = SEEDS[seed.index(SEEDS.len())].clone();
        changes.iter().for_each(|change| apply(&mut data, change));
        http3_oracle::check(&data);
    }
}
