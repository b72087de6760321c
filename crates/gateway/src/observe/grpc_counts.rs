//! Counters of gRPC calls by the status that the client got. One worker writes each with plain loads and
//! stores; a scrape reads them.

use std::sync::atomic::{AtomicU64, Ordering};

use exchange::grpc::code;
use exchange::observe::histogram::bump;

/// Codes, then other numbers, then calls without a status.
const COUNTERS: usize = code::LAST as usize + 3;

/// See the module.
#[derive(Debug, Default)]
pub struct GrpcCounts {
    counts: [AtomicU64; COUNTERS],
}

impl GrpcCounts {
    /// Counts a call that has ended with `status`.
    pub(crate) fn ended(&self, status: Option<u32>) {
        let place = match status {
            Some(code) => (code as usize).min(COUNTERS - 2),
            None => COUNTERS - 1,
        };
        bump(&self.counts[place], 1);
    }

    /// The counts, each with its label: the code, `other`, or `none` for a call that was cut.
    pub fn counts(&self) -> impl Iterator<Item = (String, u64)> {
        self.counts.iter().enumerate().map(|(place, count)| {
            let label = match COUNTERS - place {
                1 => "none".to_owned(),
                2 => "other".to_owned(),
                _ => place.to_string(),
            };
            (label, count.load(Ordering::Relaxed))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_a_counter_of_its_own() {
        let counts = GrpcCounts::default();
        for status in [Some(0), Some(16), Some(16), Some(17), Some(u32::MAX), None] {
            counts.ended(status);
        }
        let counted: Vec<_> = counts.counts().filter(|(_, count)| *count > 0).collect();
        let expected = [("0", 1), ("16", 2), ("other", 2), ("none", 1)];
        assert_eq!(counted, expected.map(|(label, count)| (label.to_owned(), count)));
    }
}
