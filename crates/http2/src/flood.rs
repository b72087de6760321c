//! The kinds of cheap frames and how many of each a peer may send. It does not know when frames are counted.

use multiplex::account::{Account, Rate};

use crate::{ConnectionError, Limits};

/// A kind of frame that ordinary peers send rarely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    PeerReset,
    LocalReset,
    Ping,
    Settings,
    Priority,
    WindowUpdate,
    EmptyData,
    Unknown,
    LateFrame,
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

    /// A DATA frame with data was sent or received.
    #[inline]
    pub(crate) fn data_frame(&mut self) {
        self.0.data_frame();
    }

    /// Counts one frame.
    ///
    /// # Errors
    /// The peer sent too many of them in this interval.
    pub(crate) fn charge(&mut self, cost: Cost) -> Result<(), ConnectionError> {
        self.0.charge(cost as usize, &RATES).map_err(ConnectionError::calm)
    }
}

const COSTS: usize = 9;

/// In the order of [`Cost`].
const RATES: [Rate; COSTS] = [
    Rate {
        base: Limits::RATE_PEER_RESETS,
        per_stream: 1,
        per_data_frame: 0,
        reason: "too many RST_STREAM frames",
    },
    Rate {
        base: Limits::RATE_LOCAL_RESETS,
        per_stream: 0,
        per_data_frame: 0,
        reason: "too many faulty streams",
    },
    Rate { base: Limits::RATE_PINGS, per_stream: 1, per_data_frame: 2, reason: "too many PING frames" },
    Rate {
        base: Limits::RATE_SETTINGS,
        per_stream: 0,
        per_data_frame: 0,
        reason: "too many SETTINGS frames",
    },
    Rate {
        base: Limits::RATE_PRIORITIES,
        per_stream: 4,
        per_data_frame: 0,
        reason: "too many priority frames",
    },
    Rate {
        base: Limits::RATE_WINDOW_UPDATES,
        per_stream: 4,
        per_data_frame: 8,
        reason: "too many WINDOW_UPDATE frames",
    },
    Rate {
        base: Limits::RATE_EMPTY_DATA,
        per_stream: 2,
        per_data_frame: 0,
        reason: "too many empty DATA frames",
    },
    Rate { base: Limits::RATE_UNKNOWN, per_stream: 4, per_data_frame: 0, reason: "too many unknown frames" },
    Rate {
        base: Limits::RATE_LATE_FRAMES,
        per_stream: 4,
        per_data_frame: 1,
        reason: "too many frames for closed streams",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    /// How many frames are accepted in one interval.
    fn accepted(flood: &mut Flood, cost: Cost) -> u32 {
        (0..1_000_000).find(|_| flood.charge(cost).is_err()).unwrap()
    }

    #[test]
    fn rates_hold_and_an_interval_forgives() {
        for (cost, rate) in [
            (Cost::PeerReset, Limits::RATE_PEER_RESETS),
            (Cost::LocalReset, Limits::RATE_LOCAL_RESETS),
            (Cost::Ping, Limits::RATE_PINGS),
            (Cost::Settings, Limits::RATE_SETTINGS),
            (Cost::Priority, Limits::RATE_PRIORITIES),
            (Cost::WindowUpdate, Limits::RATE_WINDOW_UPDATES),
            (Cost::EmptyData, Limits::RATE_EMPTY_DATA),
            (Cost::Unknown, Limits::RATE_UNKNOWN),
            (Cost::LateFrame, Limits::RATE_LATE_FRAMES),
        ] {
            let mut flood = Flood::default();
            assert_eq!(accepted(&mut flood, cost), rate, "{cost:?}");
            flood.tick(Limits::RATE_INTERVAL_MS - 1);
            assert_eq!(flood.charge(cost).unwrap_err().code, ErrorCode::ENHANCE_YOUR_CALM);
            flood.tick(Limits::RATE_INTERVAL_MS);
            assert!(flood.charge(cost).is_ok());
        }
    }

    #[test]
    fn useful_work_earns_frames() {
        let mut flood = Flood::default();
        (0..10).for_each(|_| flood.stream_completed());
        (0..10).for_each(|_| flood.data_frame());
        assert_eq!(accepted(&mut flood, Cost::PeerReset), Limits::RATE_PEER_RESETS + 10);
        assert_eq!(accepted(&mut flood, Cost::Ping), Limits::RATE_PINGS + 30);
        assert_eq!(accepted(&mut flood, Cost::WindowUpdate), Limits::RATE_WINDOW_UPDATES + 120);
        assert_eq!(accepted(&mut flood, Cost::LocalReset), Limits::RATE_LOCAL_RESETS);
    }
}
