//! Counters of refusals and failures: requests by the table of causes, connections by the limit that refused
//! them or made them close. One worker writes each counter with plain loads and stores; a scrape reads them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::observe::idle_counts::IdleState;
use exchange::failure::Cause;
use exchange::observe::histogram::bump;
use exchange::overload::capacity::Shortage;

/// A connection that was closed before a byte of the client was read, by the limit or setting that asked for
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// The process holds as many connections as it may.
    MaxConnections,
    /// The address holds as many as one may.
    MaxConnectionsPerAddress,
    /// Memory is all but used up.
    Memory,
    /// The peer may send no PROXY protocol header, and its listener asks for one.
    ProxyProtocolFrom,
    /// The PROXY protocol header is missing, malformed, cut or late.
    ProxyProtocol,
}

impl ConnectionRefusal {
    /// All of them.
    pub const ALL: &'static [ConnectionRefusal] = &[
        ConnectionRefusal::MaxConnections,
        ConnectionRefusal::MaxConnectionsPerAddress,
        ConnectionRefusal::Memory,
        ConnectionRefusal::ProxyProtocolFrom,
        ConnectionRefusal::ProxyProtocol,
    ];

    /// The name used in metrics: that of the setting.
    pub fn code(self) -> &'static str {
        match self {
            ConnectionRefusal::MaxConnections => "max_connections",
            ConnectionRefusal::MaxConnectionsPerAddress => "max_connections_per_address",
            ConnectionRefusal::Memory => "memory_limit",
            ConnectionRefusal::ProxyProtocolFrom => "proxy_protocol_from",
            ConnectionRefusal::ProxyProtocol => "proxy_protocol",
        }
    }
}

/// The counters of one worker.
#[derive(Debug)]
pub struct FailureCounts {
    causes: Box<[AtomicU64]>,
    refusals: Box<[AtomicU64]>,
    /// Indexed by shortage, then by state of silence.
    evictions: Box<[AtomicU64]>,
}

impl Default for FailureCounts {
    fn default() -> FailureCounts {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        FailureCounts {
            causes: zeros(Cause::ALL.len()),
            refusals: zeros(ConnectionRefusal::ALL.len()),
            evictions: zeros(Shortage::ALL.len() * IdleState::ALL.len()),
        }
    }
}

impl FailureCounts {
    /// Counts an exchange that failed.
    pub(crate) fn failed(&self, cause: Cause) {
        bump(&self.causes[cause as usize], 1);
    }

    /// Counts a connection that was refused.
    pub(crate) fn refused(&self, refusal: ConnectionRefusal) {
        bump(&self.refusals[refusal as usize], 1);
    }

    /// Counts a silent connection that was closed to make room.
    pub(crate) fn evicted(&self, shortage: Shortage, silence: IdleState) {
        bump(self.eviction(shortage, silence), 1);
    }

    fn eviction(&self, shortage: Shortage, silence: IdleState) -> &AtomicU64 {
        &self.evictions[shortage as usize * IdleState::ALL.len() + silence as usize]
    }

    /// How many silent connections in state `silence` were closed because of `shortage`.
    pub fn evictions(&self, shortage: Shortage, silence: IdleState) -> u64 {
        self.eviction(shortage, silence).load(Ordering::Relaxed)
    }

    /// How many exchanges failed with `cause`.
    pub fn failures(&self, cause: Cause) -> u64 {
        self.causes[cause as usize].load(Ordering::Relaxed)
    }

    /// How many connections were refused by `refusal`.
    pub fn refusals(&self, refusal: ConnectionRefusal) -> u64 {
        self.refusals[refusal as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_own_counter() {
        let counts = FailureCounts::default();
        for (number, cause) in Cause::ALL.iter().enumerate() {
            (0..=number).for_each(|_| counts.failed(*cause));
        }
        for (number, cause) in Cause::ALL.iter().enumerate() {
            assert_eq!(counts.failures(*cause), number as u64 + 1, "{cause:?}");
        }
        for refusal in ConnectionRefusal::ALL {
            counts.refused(*refusal);
            assert_eq!(counts.refusals(*refusal), 1, "{refusal:?}");
        }
        for (number, (shortage, silence)) in pairs().enumerate() {
            (0..=number).for_each(|_| counts.evicted(shortage, silence));
        }
        for (number, (shortage, silence)) in pairs().enumerate() {
            assert_eq!(counts.evictions(shortage, silence), number as u64 + 1, "{shortage:?} {silence:?}");
        }
    }

    fn pairs() -> impl Iterator<Item = (Shortage, IdleState)> {
        Shortage::ALL.iter().flat_map(|shortage| IdleState::ALL.iter().map(|silence| (*shortage, *silence)))
    }
}
