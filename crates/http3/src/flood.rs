//! The kinds of cheap frames and how many of each a peer may send. It does not know when frames are counted.

use multiplex::account::{Account, Rate};

use crate::{ConnectionError, Limits};

/// A kind of frame or event that ordinary peers cause rarely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    PeerReset,
    LocalReset,
    Control,
    Priority,
    EmptyData,
    UnknownFrame,
    UnknownStream,
    Instruction,
}

/// The account of one connection.
#[derive(Debug, Default)]
pub(crate) struct Flood(Account<COSTS>);

impl Flood {
    /// Starts a new interval when the current one is over.
    #[inline]
    pub(crate) fn tick(&mut self, now_ms: u64) {
        self.0.tick(now_ms, Limits::RATE_INTERVAL_MS);
    }

    /// A stream was completed on both sides.
    pub(crate) fn stream_completed(&mut self) {
        self.0.stream_completed();
    }

    /// A DATA frame with data was received.
    #[inline]
    pub(crate) fn data_frame(&mut self) {
        self.0.data_frame();
    }

    /// When the current interval began.
    pub(crate) fn interval_start_ms(&self) -> u64 {
        self.0.interval_start_ms()
    }

    /// Counts one frame.
    ///
    /// # Errors
    /// The peer sent too many of them in this interval.
    pub(crate) fn charge(&mut self, cost: Cost) -> Result<(), ConnectionError> {
        self.0.charge(cost as usize, &RATES).map_err(|excess| ConnectionError::load(excess.reason))
    }
}

const COSTS: usize = 8;

const fn rate(base: u32, per_stream: u64, per_data_frame: u64, reason: &'static str) -> Rate {
    Rate { base, per_stream, per_data_frame, reason }
}

/// In the order of [`Cost`].
const RATES: [Rate; COSTS] = [
    rate(Limits::RATE_PEER_RESETS, 1, 0, "too many reset requests"),
    rate(Limits::RATE_LOCAL_RESETS, 0, 0, "too many faulty requests"),
    rate(Limits::RATE_CONTROL, 0, 0, "too many control frames"),
    rate(Limits::RATE_PRIORITIES, 4, 0, "too many PRIORITY_UPDATE frames"),
    rate(Limits::RATE_EMPTY_DATA, 16, 2, "too many empty DATA frames"),
    rate(Limits::RATE_UNKNOWN_FRAMES, 4, 1, "too many unknown frames"),
    rate(Limits::RATE_UNKNOWN_STREAMS, 0, 0, "too many unknown streams"),
    rate(Limits::RATE_INSTRUCTIONS, 4, 0, "too many QPACK instructions"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn rates_hold_and_an_interval_forgives() {
        for (cost, base, per_stream) in [
            (Cost::PeerReset, Limits::RATE_PEER_RESETS, 1),
            (Cost::LocalReset, Limits::RATE_LOCAL_RESETS, 0),
            (Cost::Control, Limits::RATE_CONTROL, 0),
            (Cost::Priority, Limits::RATE_PRIORITIES, 4),
            (Cost::EmptyData, Limits::RATE_EMPTY_DATA, 16),
            (Cost::UnknownFrame, Limits::RATE_UNKNOWN_FRAMES, 4),
            (Cost::UnknownStream, Limits::RATE_UNKNOWN_STREAMS, 0),
            (Cost::Instruction, Limits::RATE_INSTRUCTIONS, 4),
        ] {
            let mut flood = Flood::default();
            (0..3).for_each(|_| flood.stream_completed());
            let accepted = (0..1_000_000).find(|_| flood.charge(cost).is_err()).unwrap();
            assert_eq!(accepted, base + 3 * per_stream, "{cost:?}");
            flood.tick(Limits::RATE_INTERVAL_MS - 1);
            assert_eq!(flood.charge(cost).unwrap_err().code, ErrorCode::EXCESSIVE_LOAD);
            flood.tick(Limits::RATE_INTERVAL_MS);
            assert!(flood.charge(cost).is_ok());
        }
    }
}
