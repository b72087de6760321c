//! The records of single requests as control reads them: those of all workers of the engine.

use std::sync::Arc;

use gateway::engine::Engine;
use model::report::{RequestRecord, Tap, TapCounts};

use super::bridge::Gateway;

/// See the module. Before the engine is started there are no records.
pub(super) struct GatewayTap(pub(super) Arc<Gateway>);

impl Tap for GatewayTap {
    fn open(&self, timed: bool) {
        self.0.engine().into_iter().flat_map(Engine::taps).for_each(|tap| tap.open(timed));
    }

    fn close(&self) {
        self.0.engine().into_iter().flat_map(Engine::taps).for_each(|tap| tap.close());
    }

    fn take(&self, records: &mut Vec<RequestRecord>) -> TapCounts {
        let mut all = TapCounts::default();
        for tap in self.0.engine().into_iter().flat_map(Engine::taps) {
            let counts = tap.take(records);
            all.seen += counts.seen;
            all.dropped += counts.dropped;
        }
        all
    }

    fn failures(&self) -> (Vec<RequestRecord>, u64) {
        let mut records = Vec::new();
        let taps = self.0.engine().into_iter().flat_map(Engine::taps);
        let lost = taps.map(|tap| tap.failures(&mut records)).sum();
        records.sort_by_key(|record| std::cmp::Reverse(record.t_ms + record.total_us / 1_000));
        (records, lost)
    }
}
