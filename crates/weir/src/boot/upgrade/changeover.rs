//! The time after an upgrade in which both processes serve: the old one on its kept connections, which it
//! tells to close one after the other, the new one on all new connections. Ends neither process.
//!
//! In this time the old process follows a file or etcd by itself. The store belongs to the new process, which
//! holds writes back until the old process begins no further request, and asks it to hurry when a write comes
//! (docs/decisions/0026-writes-after-an-upgrade.md).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use control::{Control, WriteGate};
use gateway::engine::Engine;

use super::channel::{Channel, ChannelFault, Patience, UpgradeMessage};
use crate::boot::bridge::Gateway;

/// How often a wait checks both the channel and the gate.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Longest time that writes are held back, counted from the first one. The old process needs somewhat more
/// than two seconds; one that hangs must not keep the new process from taking writes.
const WRITES_WAIT_MAX: Duration = Duration::from_secs(5);

/// The side of the old process.
pub(in crate::boot) struct OldSide {
    pub(in crate::boot) channel: Channel,
    pub(in crate::boot) control: Control,
    pub(in crate::boot) gateway: Arc<Gateway>,
    /// How long the old process may serve its connections.
    pub(in crate::boot) grace: Duration,
    /// Set when its last connection has ended.
    pub(in crate::boot) is_drained: Arc<AtomicBool>,
}

impl OldSide {
    /// Follows the configuration until no request begins any more, then closes the channel, which tells the
    /// new process.
    pub(in crate::boot) fn run(self) {
        let (spread, wait) = Engine::hand_over_times(self.grace);
        if self.is_told_to_hurry(spread)
            && let Some(engine) = self.gateway.engine()
        {
            engine.shorten_hand_over();
        }
        // Waits for the gate as well, because an upgrade before this one may still hold it.
        let gate = self.control.write_gate();
        gate.want();
        let until = Instant::now() + wait;
        while (Instant::now() < until && !self.is_drained.load(Ordering::Relaxed)) || !gate.is_open() {
            std::thread::sleep(LOOK_EVERY);
        }
        self.control.shutdown();
    }

    /// Waits for `at_most`; true if the new process sent `Hurry` before that.
    fn is_told_to_hurry(&self, at_most: Duration) -> bool {
        let deadline = Some(Instant::now() + at_most);
        let patience = Patience { deadline, abandoned: Some(&self.is_drained) };
        loop {
            match self.channel.receive(patience) {
                Ok((UpgradeMessage::Hurry, _)) => return true,
                Ok(_) => {}
                // The new process has ended, or its version does not hold writes back.
                Err(ChannelFault::Ended | ChannelFault::Failed(_) | ChannelFault::Nonsense(_)) => {
                    return self.sleep_until(deadline);
                }
                Err(ChannelFault::TimedOut | ChannelFault::Abandoned) => return false,
            }
        }
    }

    fn sleep_until(&self, deadline: Option<Instant>) -> bool {
        while deadline.is_some_and(|deadline| Instant::now() < deadline)
            && !self.is_drained.load(Ordering::Relaxed)
        {
            std::thread::sleep(LOOK_EVERY);
        }
        false
    }
}

/// The side of the new process: opens the gate when the old process begins no further request.
pub(super) fn await_old_side(channel: &Channel, gate: &WriteGate) {
    let mut hurried_at: Option<Instant> = None;
    loop {
        match channel.receive(Patience { deadline: Some(Instant::now() + LOOK_EVERY), abandoned: None }) {
            Ok(_) | Err(ChannelFault::TimedOut | ChannelFault::Abandoned) => {}
            Err(_) => break,
        }
        match hurried_at {
            None if gate.is_wanted() => {
                hurried_at = Some(Instant::now());
                // Ignored, because the next `receive` reports an old process that has ended.
                let _ = channel.send(&UpgradeMessage::Hurry, &[]);
            }
            Some(at) if at.elapsed() >= WRITES_WAIT_MAX => {
                tracing::warn!(
                    "the old process has not said in time that it begins no request any more; a kept connection to it may \
                     be answered by the configuration before this write"
                );
                break;
            }
            _ => {}
        }
    }
    gate.open();
}
