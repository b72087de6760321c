//! Work for guests between requests: the ticks of their timers, and telling them of items in their queues. It
//! ends with the instance.

use std::sync::Arc;

use net::env;

use crate::host::Host;
use crate::limits::{QUEUE_TURN_ITEMS, SWEEP_MS, TICK_MIN_MS};
use crate::shared::SharedQueue;

/// Sets the period of the timer of the current configuration; 0 ends it.
pub(crate) fn set_period(host: &mut Host, period_ms: u32) {
    let context = host.current_root();
    let home = host.home.clone();
    let Some(root) = host.roots.get_mut(&context) else { return };
    root.tick = root.tick.wrapping_add(1);
    let tick = root.tick;
    // An instance that only checks a configuration has no worker to tick on.
    let (Some(home), 1..) = (home, period_ms) else { return };
    let period_ms = u64::from(period_ms).max(TICK_MIN_MS);
    env::spawn(async move {
        loop {
            env::sleep_ms(period_ms).await;
            let Some(cell) = home.cell.upgrade() else { return };
            if !cell.tick(context, tick) {
                return;
            }
        }
    });
}

/// Tells the current configuration of items in the queue `number` from now on.
pub(crate) fn follow_queue(host: &mut Host, number: u32, queue: Arc<SharedQueue>) {
    let context = host.current_root();
    let home = host.home.clone();
    let Some(root) = host.roots.get_mut(&context) else { return };
    let Some(home) = home.filter(|_| !root.queues.contains(&number)) else { return };
    root.queues.push(number);
    env::spawn(async move {
        loop {
            let is_notified = tokio::select! {
                biased;
                () = queue.ready.notified() => true,
                // Looks whether the instance is still there.
                () = env::sleep_ms(SWEEP_MS) => false,
            };
            let cell = home.cell.upgrade().filter(|cell| cell.has_root(context));
            let Some(cell) = cell else {
                // Another worker, or the next version of the plugin, is to have the item.
                if is_notified {
                    queue.ready.notify_one();
                }
                return;
            };
            let mut takes = true;
            for _ in 0..QUEUE_TURN_ITEMS {
                let before = queue.len();
                // A guest that takes nothing is told again of the next item only.
                takes = before > 0 && cell.queue_ready(context, number) && queue.len() < before;
                if !takes {
                    break;
                }
            }
            if takes && !queue.is_empty() {
                queue.ready.notify_one();
                env::yield_to_events().await;
            }
        }
    });
}
