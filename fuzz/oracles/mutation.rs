//! Mutations of the seeds of a corpus, for ordinary test runs.

use proptest::prelude::*;

/// The seeds of the fuzz target in the order of their names.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/").to_owned() + target;
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// A change of one seed: a byte, a part that is doubled or removed, or the end of another seed.
#[derive(Debug, Clone)]
pub enum Change {
    Byte(prop::sample::Index, u8),
    Double(prop::sample::Index, prop::sample::Index),
    Remove(prop::sample::Index, prop::sample::Index),
    Append(prop::sample::Index, prop::sample::Index),
}

/// Any change.
pub fn change() -> impl Strategy<Value = Change> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        4 => (place(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        1 => (place(), place()).prop_map(|(from, to)| Change::Double(from, to)),
        1 => (place(), place()).prop_map(|(from, to)| Change::Remove(from, to)),
        2 => (place(), place()).prop_map(|(seed, from)| Change::Append(seed, from)),
    ]
}

/// Applies `change` to `data`; ends of other seeds come from `seeds`.
pub fn apply(data: &mut Vec<u8>, change: &Change, seeds: &[Vec<u8>]) {
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
            let other = &seeds[seed.index(seeds.len())];
            data.extend_from_slice(&other[from.index(other.len() + 1)..]);
        }
    }
}
