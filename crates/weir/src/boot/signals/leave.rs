//! The time between TERM and the drain: the instance leaves its registries and still serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Logs, SignalRequest, Signals};
use crate::boot::node::ServingInstance;

/// How the time before a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// By itself, or by a second TERM or QUIT.
    InTime,
    /// By INT.
    AtOnce,
}

/// Takes the instance out of its registries while it still serves, and waits for the `drain_delay` of the
/// settings. TERM and QUIT end the wait, and the drain begins; INT ends also the drain.
pub(super) async fn leave(node: &ServingInstance, signals: &mut Signals) -> Leaving {
    let delay = Duration::from_secs(node.settings.drain_delay_seconds);
    if node.registration.is_none() && delay.is_zero() {
        return Leaving::InTime;
    }
    node.gateway.leave();
    let is_over = Arc::new(AtomicBool::new(false));
    let abandon = Arc::clone(&is_over);
    let registration = node.registration.clone();
    let withdrawing = tokio::task::spawn_blocking(move || {
        registration.is_none_or(|registration| registration.withdraw(&|| abandon.load(Ordering::Relaxed)))
    });
    let steps = async {
        // Registrations that cannot be withdrawn are logged there.
        let _ = withdrawing.await;
        if !delay.is_zero() {
            tracing::info!(
                drain_delay_seconds = delay.as_secs(),
                "the instance still accepts until it drains"
            );
            tokio::time::sleep(delay).await;
        }
    };
    tokio::pin!(steps);
    let outcome = loop {
        tokio::select! {
            () = &mut steps => break Leaving::InTime,
            asked = signals.next() => match asked {
                SignalRequest::Drain => break Leaving::InTime,
                SignalRequest::Stop => break Leaving::AtOnce,
                SignalRequest::Reopen => Logs::of(node).reopen(),
                SignalRequest::Reload | SignalRequest::Upgrade => {}
            }
        }
    };
    is_over.store(true, Ordering::Relaxed);
    outcome
}
