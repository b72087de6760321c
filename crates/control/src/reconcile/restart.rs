//! The reconciling thread after a panic, which is a fault of the gateway: the panic is caught, the
//! configuration is read again, because a change may be stored and not in force, and the thread goes on.
//! Commands that arrive meanwhile are refused with the reason. It does not know where the panic was.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use stdx::threads::ThreadLife;

use super::{ControlLoop, Flow, ReconcileCommand, WriteRefusal};

/// The name of the thread.
pub(super) const THREAD: &str = "reconcile";

impl ControlLoop {
    /// Runs the thread until it is to end.
    pub(super) fn live(mut self, life: &ThreadLife) {
        while catch_unwind(AssertUnwindSafe(|| self.run())).is_err() {
            if self.start_again(life) == Flow::Stop {
                return;
            }
        }
    }

    /// Reads the configuration again, as often as that panics.
    fn start_again(&mut self, life: &ThreadLife) -> Flow {
        loop {
            let pause_ms = life.panicked();
            tracing::error!(
                "the thread that brings configuration into force panicked, which is a fault of the gateway; \
                 it starts again in {pause_ms} ms"
            );
            if self.refuse_for(Duration::from_millis(pause_ms)) == Flow::Stop {
                return Flow::Stop;
            }
            if catch_unwind(AssertUnwindSafe(|| self.source.recover(&mut self.reconciler))).is_ok() {
                life.restarted();
                return Flow::Continue;
            }
        }
    }

    /// Refuses the commands that arrive in this time.
    fn refuse_for(&mut self, time: Duration) -> Flow {
        let until = Instant::now() + time;
        loop {
            match self.inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                // The caller may have dropped its future, so a failed send is ignored.
                Ok(ReconcileCommand::Write(_, reply)) => drop(reply.send(Err(not_done()))),
                Ok(ReconcileCommand::Reload(reply)) => drop(reply.send(vec![RESTARTS.to_owned()])),
                Ok(ReconcileCommand::Stop) | Err(RecvTimeoutError::Disconnected) => return Flow::Stop,
                // Updates, secrets and the other process are looked at when the thread runs; a task learns
                // that it was dropped.
                Ok(
                    ReconcileCommand::Adopt
                    | ReconcileCommand::Updates
                    | ReconcileCommand::Secrets
                    | ReconcileCommand::Release(_)
                    | ReconcileCommand::Task(_),
                ) => {}
                Err(RecvTimeoutError::Timeout) => return Flow::Continue,
            }
        }
    }
}

/// The refusal of a write that arrives while the thread is down.
pub(super) fn not_done() -> WriteRefusal {
    WriteRefusal::Store(format!("{RESTARTS}: nothing was written"))
}

/// The answer to a write during which the thread panicked.
pub(super) fn not_known() -> WriteRefusal {
    WriteRefusal::Store(format!("{RESTARTS}: read the object to see whether it was written"))
}

const RESTARTS: &str =
    "the thread that brings configuration into force has panicked and is being started again";
