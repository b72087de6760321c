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
#[derive(Debug)]
pub(crate) struct Flood {
    account: Account<COSTS>,
    /// Whether the peer is a client. The rates follow from it: a reference to them would make each idle
    /// connection larger.
    is_of_client: bool,
    is_exhausted: bool,
}

impl Flood {
    /// The account of a connection from a client, which fails with the first frame beyond a budget.
    pub(crate) fn of_client() -> Self {
        Self { account: Account::default(), is_of_client: true, is_exhausted: false }
    }

    /// The account of a connection to a server, which requests of many clients share: beyond a budget it
    /// takes no further request, and it fails beyond [`Limits::SERVER_BUDGETS`] of them.
    pub(crate) fn of_server() -> Self {
        Self { account: Account::default(), is_of_client: false, is_exhausted: false }
    }

    /// Starts a new interval when the current one is over.
    #[inline]
    pub(crate) fn tick(&mut self, now_ms: u64) {
        self.account.tick(now_ms, Limits::RATE_INTERVAL_MS);
    }

    /// When the current interval began.
    pub(crate) fn interval_start_ms(&self) -> u64 {
        self.account.interval_start_ms()
    }

    /// A stream was completed on both sides.
    pub(crate) fn stream_completed(&mut self) {
        self.account.stream_completed();
    }

    /// A DATA frame with data was sent or received.
    #[inline]
    pub(crate) fn data_frame(&mut self) {
        self.account.data_frame();
    }

    /// Whether a budget was exceeded, so that the connection should take no further stream.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// Counts one frame.
    ///
    /// # Errors
    /// The peer sent too many of them in this interval.
    pub(crate) fn charge(&mut self, cost: Cost) -> Result<(), ConnectionError> {
        let (rates, budgets) =
            if self.is_of_client { (&CLIENT_RATES, 1) } else { (&SERVER_RATES, Limits::SERVER_BUDGETS) };
        self.account.charge(cost as usize, rates).or_else(|excess| {
            self.is_exhausted = true;
            if excess.budgets < budgets { Ok(()) } else { Err(ConnectionError::calm(excess.reason)) }
        })
    }
}

const COSTS: usize = 9;

const fn rate(base: u32, per_stream: u64, per_data_frame: u64, reason: &'static str) -> Rate {
    Rate { base, per_stream, per_data_frame, reason }
}

const PEER_RESETS: &str = "too many RST_STREAM frames";
const LOCAL_RESETS: &str = "too many faulty streams";
const PINGS: &str = "too many PING frames";
const SETTINGS: &str = "too many SETTINGS frames";
const PRIORITIES: &str = "too many priority frames";
const WINDOW_UPDATES: &str = "too many WINDOW_UPDATE frames";
const EMPTY_DATA: &str = "too many empty DATA frames";
const UNKNOWN: &str = "too many unknown frames";
const LATE_FRAMES: &str = "too many frames for closed streams";

/// The budgets of a client, in the order of [`Cost`].
static CLIENT_RATES: [Rate; COSTS] = [
    rate(Limits::RATE_PEER_RESETS, 1, 0, PEER_RESETS),
    rate(Limits::RATE_LOCAL_RESETS, 0, 0, LOCAL_RESETS),
    rate(Limits::RATE_PINGS, 1, 2, PINGS),
    rate(Limits::RATE_SETTINGS, 0, 0, SETTINGS),
    rate(Limits::RATE_PRIORITIES, 4, 0, PRIORITIES),
    rate(Limits::RATE_WINDOW_UPDATES, 4, 8, WINDOW_UPDATES),
    rate(Limits::RATE_EMPTY_DATA, 16, 2, EMPTY_DATA),
    rate(Limits::RATE_UNKNOWN, 4, 1, UNKNOWN),
    rate(Limits::RATE_LATE_FRAMES, 4, 1, LATE_FRAMES),
];

/// The budgets of a server, in the order of [`Cost`]. Its resets, faulty streams and empty frames are bounded
/// by the streams that this side started, so that they have no budget: they are not counted.
static SERVER_RATES: [Rate; COSTS] = [
    rate(0, 0, 0, PEER_RESETS),
    rate(0, 0, 0, LOCAL_RESETS),
    rate(Limits::SERVER_RATE * Limits::RATE_PINGS, 4, 4, PINGS),
    rate(Limits::SERVER_RATE * Limits::RATE_SETTINGS, 4, 1, SETTINGS),
    rate(Limits::SERVER_RATE * Limits::RATE_PRIORITIES, 4, 1, PRIORITIES),
    rate(Limits::SERVER_RATE * Limits::RATE_WINDOW_UPDATES, 4, 8, WINDOW_UPDATES),
    rate(0, 0, 0, EMPTY_DATA),
    rate(Limits::SERVER_RATE * Limits::RATE_UNKNOWN, 4, 1, UNKNOWN),
    rate(Limits::SERVER_RATE * Limits::RATE_LATE_FRAMES, 4, 1, LATE_FRAMES),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    /// The costs of a client with their base, and those of a server.
    const COSTS_OF_CLIENT: [(Cost, u32); COSTS] = [
        (Cost::PeerReset, Limits::RATE_PEER_RESETS),
        (Cost::LocalReset, Limits::RATE_LOCAL_RESETS),
        (Cost::Ping, Limits::RATE_PINGS),
        (Cost::Settings, Limits::RATE_SETTINGS),
        (Cost::Priority, Limits::RATE_PRIORITIES),
        (Cost::WindowUpdate, Limits::RATE_WINDOW_UPDATES),
        (Cost::EmptyData, Limits::RATE_EMPTY_DATA),
        (Cost::Unknown, Limits::RATE_UNKNOWN),
        (Cost::LateFrame, Limits::RATE_LATE_FRAMES),
    ];
    const COSTS_OF_SERVER: [Cost; 6] =
        [Cost::Ping, Cost::Settings, Cost::Priority, Cost::WindowUpdate, Cost::Unknown, Cost::LateFrame];

    /// How many frames are accepted in one interval.
    fn accepted(flood: &mut Flood, cost: Cost) -> u32 {
        (0..10_000_000).find(|_| flood.charge(cost).is_err()).unwrap()
    }

    #[test]
    fn rates_hold_and_an_interval_forgives() {
        for (cost, rate) in COSTS_OF_CLIENT {
            let mut flood = Flood::of_client();
            assert_eq!(accepted(&mut flood, cost), rate, "{cost:?}");
            flood.tick(Limits::RATE_INTERVAL_MS - 1);
            assert_eq!(flood.charge(cost).unwrap_err().code, ErrorCode::ENHANCE_YOUR_CALM);
            flood.tick(Limits::RATE_INTERVAL_MS);
            assert!(flood.charge(cost).is_ok());
        }
    }

    #[test]
    fn server_beyond_a_budget_exhausts_then_fails() {
        for (cost, base) in COSTS_OF_CLIENT.into_iter().filter(|(cost, _)| COSTS_OF_SERVER.contains(cost)) {
            let (mut flood, budget) = (Flood::of_server(), Limits::SERVER_RATE * base);
            (0..budget).for_each(|_| flood.charge(cost).unwrap());
            assert!(!flood.is_exhausted(), "{cost:?}");
            flood.charge(cost).unwrap();
            assert!(flood.is_exhausted(), "{cost:?}");
            let rest = accepted(&mut flood, cost);
            assert_eq!(u64::from(budget + 1 + rest), Limits::SERVER_BUDGETS * u64::from(budget), "{cost:?}");
        }
    }

    #[test]
    fn useful_work_earns_frames() {
        let mut flood = Flood::of_client();
        (0..10).for_each(|_| flood.stream_completed());
        (0..10).for_each(|_| flood.data_frame());
        assert_eq!(accepted(&mut flood, Cost::PeerReset), Limits::RATE_PEER_RESETS + 10);
        assert_eq!(accepted(&mut flood, Cost::Ping), Limits::RATE_PINGS + 30);
        assert_eq!(accepted(&mut flood, Cost::WindowUpdate), Limits::RATE_WINDOW_UPDATES + 120);
        assert_eq!(accepted(&mut flood, Cost::EmptyData), Limits::RATE_EMPTY_DATA + 180);
        assert_eq!(accepted(&mut flood, Cost::LocalReset), Limits::RATE_LOCAL_RESETS);
    }

    #[test]
    fn data_of_a_server_earns_each_kind() {
        for cost in COSTS_OF_SERVER {
            let mut flood = Flood::of_server();
            for _ in 0..1_000_000 {
                flood.data_frame();
                flood.charge(cost).unwrap();
            }
            assert!(!flood.is_exhausted(), "{cost:?}");
        }
    }
}
