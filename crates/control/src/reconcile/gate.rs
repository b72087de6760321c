//! A gate in front of the writes: while it is held, the writes of the Admin API wait. It does not know the
//! reason.
//!
//! After an upgrade the old process still answers requests on its kept connections, with its own
//! configuration. A write that was acknowledged is in force for every request that begins after the answer,
//! so the writes wait until the old process begins no more requests
//! (docs/decisions/0026-writes-after-an-upgrade.md).

use tokio::sync::watch;

/// The gate. Clones share its state.
#[derive(Debug, Clone)]
pub struct WriteGate {
    state: watch::Sender<GateState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GateState {
    Open,
    /// Writes have to wait, and none has arrived yet.
    Held,
    /// Writes have to wait, and at least one has arrived.
    Wanted,
}

impl Default for WriteGate {
    /// A gate that is open.
    fn default() -> WriteGate {
        WriteGate { state: watch::Sender::new(GateState::Open) }
    }
}

impl WriteGate {
    /// Makes all later writes wait.
    pub fn hold(&self) {
        self.state.send_replace(GateState::Held);
    }

    /// Lets waiting and later writes pass.
    pub fn open(&self) {
        self.state.send_replace(GateState::Open);
    }

    /// Whether the writes pass.
    pub fn is_open(&self) -> bool {
        *self.state.borrow() == GateState::Open
    }

    /// Whether a write waits.
    pub fn is_wanted(&self) -> bool {
        *self.state.borrow() == GateState::Wanted
    }

    /// Acts as a write that arrives: [`WriteGate::is_wanted`] is true afterwards while the gate is held.
    pub fn want(&self) {
        self.state.send_if_modified(|state| {
            let is_first = *state == GateState::Held;
            if is_first {
                *state = GateState::Wanted;
            }
            is_first
        });
    }

    /// Waits until the gate is open.
    pub(crate) async fn pass(&self) {
        if self.is_open() {
            return;
        }
        self.want();
        // The sender is part of this gate, so it lives for as long as the wait.
        let _ = self.state.subscribe().wait_for(|state| *state == GateState::Open).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn held_gate_passes_writes_once_it_is_open() {
        let gate = WriteGate::default();
        gate.pass().await;
        gate.want();
        assert!(gate.is_open() && !gate.is_wanted());
        gate.hold();
        assert!(!gate.is_open() && !gate.is_wanted());
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { gate.pass().await }
        });
        while !gate.is_wanted() {
            tokio::task::yield_now().await;
        }
        assert!(!waiting.is_finished());
        gate.open();
        waiting.await.unwrap();
        gate.pass().await;
    }
}
