//! Counters of the sessions of layer 4 of one worker: begun, open, ended by cause, and their bytes. The
//! worker alone writes them, a scrape reads them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use exchange::failure::Cause;
use exchange::observe::histogram::bump;
use exchange::plugin::stream::{SessionEnd, StreamSession, StreamTransport};

/// See the module.
#[derive(Debug)]
pub struct SessionCounts {
    /// Begun sessions over TCP, TLS included.
    pub tcp: AtomicU64,
    /// Begun sessions over UDP.
    pub udp: AtomicU64,
    /// Open sessions over TCP.
    pub tcp_open: AtomicUsize,
    /// Open sessions over UDP.
    pub udp_open: AtomicUsize,
    /// Bytes received from clients.
    pub received_bytes: AtomicU64,
    /// Bytes sent to clients.
    pub sent_bytes: AtomicU64,
    ends: Box<[AtomicU64]>,
    failures: Box<[AtomicU64]>,
}

impl Default for SessionCounts {
    fn default() -> SessionCounts {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        SessionCounts {
            tcp: AtomicU64::new(0),
            udp: AtomicU64::new(0),
            tcp_open: AtomicUsize::new(0),
            udp_open: AtomicUsize::new(0),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            ends: zeros(SessionEnd::OWN.len()),
            failures: zeros(Cause::ALL.len()),
        }
    }
}

impl SessionCounts {
    /// Counts a session that begins.
    pub(crate) fn began(&self, transport: StreamTransport) {
        let (all, open) = self.of(transport);
        bump(all, 1);
        open.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a session that has ended.
    pub(crate) fn ended(&self, session: &StreamSession) {
        self.of(session.transport).1.fetch_sub(1, Ordering::Relaxed);
        bump(&self.received_bytes, session.received_bytes);
        bump(&self.sent_bytes, session.sent_bytes);
        match session.end {
            Some(SessionEnd::Failed(cause)) => bump(&self.failures[cause as usize], 1),
            Some(end) => {
                if let Some(index) = SessionEnd::OWN.iter().position(|own| *own == end) {
                    bump(&self.ends[index], 1);
                }
            }
            None => {}
        }
    }

    fn of(&self, transport: StreamTransport) -> (&AtomicU64, &AtomicUsize) {
        match transport {
            StreamTransport::Udp => (&self.udp, &self.udp_open),
            StreamTransport::Tcp | StreamTransport::Tls => (&self.tcp, &self.tcp_open),
        }
    }

    /// How many sessions ended so, for every end that a session can have, by code.
    pub fn ends(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let own = SessionEnd::OWN.iter().zip(&self.ends).map(move |(end, count)| (end.code(), load(count)));
        let failed = Cause::ALL.iter().zip(&self.failures);
        own.chain(
            failed.map(move |(cause, count)| (cause.code(), load(count))).filter(|(_, count)| *count > 0),
        )
    }
}
