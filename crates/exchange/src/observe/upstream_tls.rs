//! Counts of TLS handshakes with nodes, by their outcome. One worker writes them, the scrape reads them.

use std::sync::atomic::{AtomicU64, Ordering};

use net::tls::failure::TlsFault;
use stdx::prometheus_text::{header, sample};

use super::histogram::bump;

/// The outcome of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeOutcome {
    /// It made a new session.
    Full,
    /// It resumed one.
    Resumed,
    /// It failed.
    Failed(TlsFault),
    /// It was not complete in time, or its request ended first.
    GivenUp,
}

impl HandshakeOutcome {
    const ALL: [HandshakeOutcome; 6] = [
        HandshakeOutcome::Full,
        HandshakeOutcome::Resumed,
        HandshakeOutcome::Failed(TlsFault::Certificate),
        HandshakeOutcome::Failed(TlsFault::Handshake),
        HandshakeOutcome::Failed(TlsFault::Closed),
        HandshakeOutcome::GivenUp,
    ];

    /// The labels `result` and `reason`.
    const fn labels(self) -> (&'static str, &'static str) {
        match self {
            HandshakeOutcome::Full => ("full", ""),
            HandshakeOutcome::Resumed => ("resumed", ""),
            HandshakeOutcome::Failed(TlsFault::Certificate) => ("failed", "certificate"),
            HandshakeOutcome::Failed(TlsFault::Handshake) => ("failed", "handshake"),
            HandshakeOutcome::Failed(TlsFault::Closed) => ("failed", "closed"),
            HandshakeOutcome::GivenUp => ("failed", "given_up"),
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct UpstreamTlsCounts([AtomicU64; HandshakeOutcome::ALL.len()]);

impl UpstreamTlsCounts {
    /// Counts one handshake; only the worker that owns the counts calls this.
    pub fn count(&self, outcome: HandshakeOutcome) {
        let index = HandshakeOutcome::ALL.iter().position(|one| *one == outcome);
        if let Some(counter) = index.and_then(|index| self.0.get(index)) {
            bump(counter, 1);
        }
    }
}

/// Appends the sums of all workers.
pub fn write<'a>(workers: impl Iterator<Item = &'a UpstreamTlsCounts> + Clone, text: &mut String) {
    let name = "weir_upstream_tls_handshakes_total";
    header(
        text,
        name,
        "counter",
        "TLS handshakes with nodes: with a new session, resumed, and failed ones by reason.",
    );
    for (index, outcome) in HandshakeOutcome::ALL.into_iter().enumerate() {
        let count: u64 = workers.clone().map(|counts| counts.0[index].load(Ordering::Relaxed)).sum();
        let (result, reason) = outcome.labels();
        sample(text, name, &[("result", &result), ("reason", &reason)], count);
    }
}
