//! The time after an upgrade in which both processes serve: the old one on its kept connections, which it tells to close one
//! after the other, the new one on everything else. Neither process ends here.
//!
//! In this time the old process follows a file or etcd by itself. The store belongs to the new process: it lets writes wait
//! until the old process begins no request any more, and has it hurry when a write comes
//! (docs/decisions/0026-writes-after-an-upgrade.md).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use control::{Control, WriteGate};
use gateway::engine::Engine;

use super::channel::{Channel, ChannelFault, Message, Patience};
use crate::boot::bridge::Gateway;

/// How often a wait looks at both the line and the gate.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long writes wait at most, once the first has come. The old process needs somewhat more than two seconds; one that
/// hangs must not keep the new one from being changed.
const WRITES_WAIT_MAX: Duration = Duration::from_secs(5);

/// The old process's side.
pub(in crate::boot) struct OldSide {
    pub(in crate::boot) channel: Channel,
    pub(in crate::boot) control: Control,
    pub(in crate::boot) gateway: Arc<Gateway>,
    /// How long the old process goes on.
    pub(in crate::boot) grace: Duration,
    /// Set when its last connection has ended.
    pub(in crate::boot) is_drained: Arc<AtomicBool>,
}

impl OldSide {
    /// Follows the configuration until no request begins any more; the new process learns that by the end of the line.
    pub(in crate::boot) fn run(self) {
        let (spread, wait) = Engine::hand_over_times(self.grace);
        if self.is_told_to_hurry(spread)
            && let Some(engine) = self.gateway.engine()
        {
            engine.shorten_hand_over();
        }
        // An upgrade before this one may not be over either.
        let gate = self.control.write_gate();
        gate.want();
        let until = Instant::now() + wait;
        while (Instant::now() < until && !self.is_drained.load(Ordering::Relaxed)) || !gate.is_open() {
            std::thread::sleep(LOOK_EVERY);
        }
        self.control.shutdown();
    }

    /// Waits for `at_most`; true if the new process asked for haste before that.
    fn is_told_to_hurry(&self, at_most: Duration) -> bool {
        let deadline = Some(Instant::now() + at_most);
        let patience = Patience { deadline, abandoned: Some(&self.is_drained) };
        loop {
            match self.channel.receive(patience) {
                Ok((Message::Hurry, _)) => return true,
                Ok(_) => {}
                // The new process has ended, or is of a version that lets no write wait.
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

/// The new process's side: opens the gate when the old process begins no request any more.
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
                // If it has ended meanwhile, the next look at the line says so.
                let _ = channel.send(&Message::Hurry, &[]);
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
