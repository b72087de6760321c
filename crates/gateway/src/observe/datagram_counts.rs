//! Counters of the datagrams of layer 4 of one worker: received of clients, sent to them, and dropped by
//! reason. The worker alone writes them, a scrape reads them.

use std::sync::atomic::{AtomicU64, Ordering};

use exchange::observe::histogram::bump;

/// Why a datagram was dropped. UDP has no words to tell a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// Its session was refused: no route, a plugin, no node.
    Refused,
    /// As many datagrams wait for the decision of a plugin as may, or as many sessions do.
    Waiting,
    /// It is longer than a datagram may be on its way.
    TooLarge,
    /// The kernel's buffer of the node's socket is full.
    NodeBusy,
    /// The node could not be sent it, or has refused datagrams before.
    NodeFailed,
    /// The kernel's buffer of the listener's socket is full.
    ClientBusy,
    /// The client could not be sent it.
    ClientFailed,
    /// It would begin a session, and its listener is closed.
    Closing,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [DropReason; 8] = [
        DropReason::Refused,
        DropReason::Waiting,
        DropReason::TooLarge,
        DropReason::NodeBusy,
        DropReason::NodeFailed,
        DropReason::ClientBusy,
        DropReason::ClientFailed,
        DropReason::Closing,
    ];

    /// The name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            DropReason::Refused => "refused",
            DropReason::Waiting => "waiting",
            DropReason::TooLarge => "too_large",
            DropReason::NodeBusy => "node_busy",
            DropReason::NodeFailed => "node_failed",
            DropReason::ClientBusy => "client_busy",
            DropReason::ClientFailed => "client_failed",
            DropReason::Closing => "closing",
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct DatagramCounts {
    /// Received of clients.
    pub received: AtomicU64,
    /// Received of nodes, for clients.
    pub answered: AtomicU64,
    dropped: [AtomicU64; DropReason::ALL.len()],
}

impl DatagramCounts {
    /// Counts datagrams that were dropped.
    pub(crate) fn dropped(&self, reason: DropReason, count: u64) {
        bump(&self.dropped[reason as usize], count);
    }

    /// How many were dropped for this reason.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize].load(Ordering::Relaxed)
    }
}
