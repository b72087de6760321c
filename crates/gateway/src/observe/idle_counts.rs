//! How many client connections of a worker are silent, that is without a request in flight, by state, as
//! other threads see them.

use std::sync::atomic::{AtomicU32, Ordering};

/// Why a connection is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleState {
    /// It was accepted, and no byte of a request has come.
    Unspoken,
    /// Its last response was sent; it waits for the client to close.
    Closing,
    /// It is kept alive and waits for the next request.
    Idle,
    /// A part of a request head has arrived.
    Head,
}

/// How many kinds of silence there are.
pub(crate) const KINDS: usize = IdleState::ALL.len();

impl IdleState {
    /// All states, in the order in which connections are closed to make room. A connection that has never
    /// sent a byte costs its client nothing; one that is closing has its response; an idle one costs its
    /// client a new handshake; an unfinished head is a request that has begun.
    pub const ALL: &'static [IdleState] =
        &[IdleState::Unspoken, IdleState::Closing, IdleState::Idle, IdleState::Head];

    /// The name used in metrics.
    pub fn code(self) -> &'static str {
        match self {
            IdleState::Unspoken => "unspoken",
            IdleState::Closing => "closing",
            IdleState::Idle => "idle",
            IdleState::Head => "head",
        }
    }
}

/// The silent connections of one worker as others see them; the worker alone writes.
#[derive(Debug, Default)]
pub struct IdleCounts {
    pub(crate) counts: [AtomicU32; KINDS],
    /// When the oldest connection of each state became silent: the low 32 bits of the worker's milliseconds,
    /// which are unambiguous for ages up to 24 days. No timeout of a silent connection is longer than a day.
    pub(crate) oldest_ms: [AtomicU32; KINDS],
}

impl IdleCounts {
    /// How many connections are silent for that reason.
    pub fn count(&self, silence: IdleState) -> u32 {
        self.counts[silence as usize].load(Ordering::Relaxed)
    }

    /// How long the oldest of them has been silent; none if there is no such connection.
    pub(crate) fn oldest_age_ms(&self, silence: IdleState, now_ms: u64) -> Option<u32> {
        let oldest_ms = self.oldest_ms[silence as usize].load(Ordering::Relaxed);
        (self.count(silence) > 0).then(|| age_ms(oldest_ms, now_ms))
    }
}

/// Milliseconds since `since_ms`; 0 if that is ahead, because workers read the clock at different moments.
pub(crate) fn age_ms(since_ms: u32, now_ms: u64) -> u32 {
    let age_ms = (now_ms as u32).wrapping_sub(since_ms);
    if age_ms > u32::MAX / 2 { 0 } else { age_ms }
}
