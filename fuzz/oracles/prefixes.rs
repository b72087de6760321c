//! The answers of a look at first bytes over growing prefixes: open until one byte decides, and the same from
//! then on.

/// Prefixes that are tried in any case, from either end. All of a long input would take the square of its
/// length.
const TRIED_BYTES: usize = 64;

/// Checks that `look` says `open` of every tried prefix, and its answer of the whole input from some length
/// on; gives that answer.
///
/// # Panics
/// If an answer changes with more bytes.
pub fn settled<T: PartialEq + std::fmt::Debug>(
    input: &[u8],
    cuts: [usize; 2],
    open: &T,
    look: impl Fn(&[u8]) -> T,
) -> T {
    let whole = look(input);
    let near_end = input.len().saturating_sub(TRIED_BYTES)..input.len();
    let mut lengths: Vec<usize> = (0..input.len().min(TRIED_BYTES)).chain(cuts).chain(near_end).collect();
    lengths.sort_unstable();
    let mut is_settled = false;
    for length in lengths {
        let answer = look(&input[..length]);
        is_settled |= answer != *open;
        let is_right = if is_settled { answer == whole } else { answer == *open };
        assert!(is_right, "{answer:?} of {length} bytes, {whole:?} of {}", input.len());
    }
    whole
}
