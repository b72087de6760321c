//! The thread that makes the active checks of every upstream, once per process. The compiler tells it which
//! upstreams are checked; the checks themselves are in `checks`.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use model::outbound::OutboundPolicy;
use net::env;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;

use super::CompiledHealthChecks;
use super::checks::{Checks, monotonic_ms};
use super::counts::HealthCounts;

/// Due times are rounded up to this, so that 10,000 checks in a second wake the thread 100 times at most.
const STEP_MS: u64 = 10;

/// See the module. Dropping it ends the thread.
pub struct HealthMonitor {
    shared: Arc<MonitorState>,
    /// Started with the first upstream that is checked: a gateway without one has no such thread.
    is_running: Mutex<bool>,
}

struct MonitorState {
    policy: OutboundPolicy,
    inbox: Mutex<Inbox>,
    changed: Notify,
    counts: Arc<HealthCounts>,
}

/// Changes that the thread has not taken up: one for each upstream at most.
#[derive(Default)]
struct Inbox {
    changes: HealthChanges,
    /// The checks of all upstreams, with which a thread that panicked begins again.
    in_force: HashMap<Arc<str>, Arc<CompiledHealthChecks>>,
    is_closed: bool,
}

/// The checks of upstreams by identity; none where an upstream has none any more.
type HealthChanges = HashMap<Arc<str>, Option<Arc<CompiledHealthChecks>>>;

impl Inbox {
    fn set(&mut self, identity: &Arc<str>, health: Option<Arc<CompiledHealthChecks>>) {
        match &health {
            Some(health) => drop(self.in_force.insert(identity.clone(), health.clone())),
            None => drop(self.in_force.remove(identity)),
        }
        self.changes.insert(identity.clone(), health);
    }

    /// All checks in force become changes, because the thread begins anew.
    fn begin_anew(&mut self) {
        let in_force = self.in_force.iter();
        self.changes = in_force.map(|(identity, health)| (identity.clone(), Some(health.clone()))).collect();
    }
}

impl HealthMonitor {
    /// Checks that ask no address which `policy` refuses.
    pub fn new(policy: OutboundPolicy) -> HealthMonitor {
        let (inbox, changed, counts) = (Mutex::default(), Notify::new(), Arc::default());
        let shared = Arc::new(MonitorState { policy, inbox, changed, counts });
        HealthMonitor { shared, is_running: Mutex::new(false) }
    }

    /// The counters of all checks.
    pub(crate) fn counts(&self) -> &Arc<HealthCounts> {
        &self.shared.counts
    }

    /// Checks the upstream `identity` from now on as `health` says, or no longer.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(crate) fn set(
        &self,
        identity: &Arc<str>,
        health: Option<Arc<CompiledHealthChecks>>,
    ) -> io::Result<()> {
        let mut is_running = self.is_running.lock();
        if !*is_running {
            if health.is_none() {
                return Ok(());
            }
            let shared = self.shared.clone();
            env::service("health", move || begin(shared.clone()))?;
            *is_running = true;
        }
        self.shared.inbox.lock().set(identity, health);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Appends the counters in the Prometheus text format.
    pub fn write_metrics(&self, text: &mut String) {
        self.shared.counts.write_metrics(text);
    }
}

impl Drop for HealthMonitor {
    fn drop(&mut self) {
        self.shared.inbox.lock().is_closed = true;
        self.shared.changed.notify_one();
    }
}

/// Makes the checks, those included that a run began which has panicked.
async fn begin(shared: Arc<MonitorState>) {
    shared.inbox.lock().begin_anew();
    run(shared).await;
}

async fn run(shared: Arc<MonitorState>) {
    let (ends, mut ended) = unbounded_channel();
    let mut checks = Checks::new(shared.policy.clone(), shared.counts.clone(), ends);
    loop {
        let changes = {
            let mut inbox = shared.inbox.lock();
            if inbox.is_closed {
                return;
            }
            std::mem::take(&mut inbox.changes)
        };
        while let Ok(end) = ended.try_recv() {
            checks.take_end(end);
        }
        checks.turn(changes);
        let pause_ms = checks.next_ms().saturating_sub(monotonic_ms()).max(STEP_MS);
        tokio::select! {
            biased;
            () = shared.changed.notified() => {}
            Some(end) = ended.recv() => checks.take_end(end),
            () = env::sleep_ms(pause_ms) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use stdx::published::Published;

    use super::*;
    use crate::upstream::balance::testing::set;
    use crate::upstream::health::{HealthProbe, ProbeHost, ProbeKind};

    #[test]
    fn checks_in_force_begin_again_after_a_panic() {
        let health = || {
            let written = serde_json::from_str(r#"{"active": {}}"#).unwrap();
            let (kind, host) = (ProbeKind::Tcp, ProbeHost::Checks(None));
            let probe =
                HealthProbe { kind, tls: None, host, port: None, reuses_connection: false, timeout_ms: 1 };
            let cell = Arc::new(Published::new(Arc::new(set(&[1]))));
            Arc::new(CompiledHealthChecks::new(
                &"/upstreams/1".into(),
                &cell,
                &written,
                probe,
                Arc::default(),
            ))
        };
        let mut inbox = Inbox::default();
        let (stays, gone): (Arc<str>, Arc<str>) = ("/upstreams/1".into(), "/upstreams/2".into());
        inbox.set(&stays, Some(health()));
        inbox.set(&gone, Some(health()));
        inbox.changes.clear();
        inbox.set(&gone, None);
        inbox.begin_anew();
        let checked: Vec<&Arc<str>> = inbox.changes.keys().collect();
        assert_eq!(checked, [&stays]);
        assert!(inbox.changes[&stays].is_some());
    }
}
