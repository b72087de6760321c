//! Keys of session tickets that the instances of a cluster share through etcd, so that a session of one is
//! resumed by all. No instance leads: each that finds a new key due writes one, under the condition that the
//! text has not changed, and one write wins. A new key is written some minutes before it makes tickets, so
//! that every instance can read it by then. Without etcd each instance goes on with the keys that it knows,
//! later with its own.

mod ring;

use std::sync::Arc;
use std::time::Duration;

use model::tickets::SharedTicketKeys;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::sealing::Sealer;
use crate::shared_state::SharedState;
use ring::TicketKeyRing;

/// The folder of the shared state.
pub(crate) const FOLDER: &str = "tls";
/// The path of the text in that folder.
const PATH: &str = "ticket_keys";
/// Longest time between two looks at the clock.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// Time until a failed write is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// The task that shares the keys; it ends when this is dropped.
pub(crate) struct TicketSharing(JoinHandle<()>);

impl TicketSharing {
    /// Shares the keys from now on.
    pub(crate) fn start(
        shared: SharedState,
        sealer: Sealer,
        clock: Arc<dyn Clock>,
        keys: Arc<dyn SharedTicketKeys>,
        handle: &Handle,
    ) -> TicketSharing {
        let task = TicketKeyTask { shared, sealer, clock, keys, last: None, was_unreadable: false };
        TicketSharing(handle.spawn(task.run()))
    }
}

impl Drop for TicketSharing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct TicketKeyTask {
    shared: SharedState,
    sealer: Sealer,
    clock: Arc<dyn Clock>,
    keys: Arc<dyn SharedTicketKeys>,
    /// The ring that the data plane has.
    last: Option<TicketKeyRing>,
    /// Whether the text could not be read, which was reported.
    was_unreadable: bool,
}

impl TicketKeyTask {
    async fn run(mut self) {
        loop {
            let wait = if self.shared.is_read() { self.turn().await } else { CHECK_EVERY };
            tokio::select! {
                () = self.shared.changed() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Takes up the shared keys, and writes a new one if it is due. Returns the time until the next turn.
    async fn turn(&mut self) -> Duration {
        let now_s = self.clock.unix_ms() / 1000;
        let ring = match self.read() {
            Ok(ring) => ring,
            Err(reason) => {
                if !std::mem::replace(&mut self.was_unreadable, true) {
                    tracing::error!(%reason, "shared keys of session tickets cannot be read; this instance uses its own");
                }
                return CHECK_EVERY;
            }
        };
        self.was_unreadable = false;
        self.share(&ring);
        let Some(next) = ring.renewed(now_s) else { return CHECK_EVERY };
        let text = self.sealer.seal_text(&next.text());
        match self.shared.put(PATH, &text, None).await {
            Ok(true) => self.share(&next),
            // Another instance was first; its write wakes this task.
            Ok(false) => {}
            Err(reason) => {
                tracing::warn!(%reason, "a key of session tickets cannot be shared; it is tried again");
                return AGAIN_AFTER;
            }
        }
        CHECK_EVERY
    }

    fn read(&self) -> Result<TicketKeyRing, String> {
        let Some(document) = self.shared.get(PATH) else { return Ok(TicketKeyRing::default()) };
        let text = self.sealer.open_text(&document.text).map_err(|fault| fault.to_string())?;
        TicketKeyRing::parse(&text)
    }

    fn share(&mut self, ring: &TicketKeyRing) {
        if self.last.as_ref() != Some(ring) {
            self.keys.share(ring.keys());
            self.last = Some(ring.clone());
        }
    }
}
