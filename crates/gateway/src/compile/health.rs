//! The health checks of an upstream: how its nodes are asked, and what a change of the configuration keeps of
//! the verdicts. It asks no node.

use std::sync::Arc;

use model::resource::{
    ActiveChecks, CheckType, HealthChecks, PassHost, UpstreamConfig as Written, UpstreamScheme,
};
use model::snapshot::Snapshot;
use net::nodes::NodeSet;
use net::tls::client::ClientTls;
use net::tls::identity::{ALPN_HTTP1, ALPN_HTTP2, ClientIdentity};
use stdx::published::Published;

use super::SnapshotCompiler;
use crate::upstream::health::monitor::HealthMonitor;
use crate::upstream::health::{self, CompiledHealthChecks, HealthProbe, HttpRequest, ProbeHost, ProbeKind};

impl SnapshotCompiler {
    /// Has `monitor` check the upstreams that say so; without it no node is asked, as in commands that
    /// only read a configuration.
    #[must_use]
    pub fn with_health(mut self, monitor: Arc<HealthMonitor>) -> SnapshotCompiler {
        self.health = Some(monitor);
        self
    }

    /// How the nodes of `written` are asked; none without checks.
    ///
    /// # Errors
    /// A certificate that cannot be used, as a sentence.
    pub(super) fn probe(
        &self,
        snapshot: &Snapshot,
        written: &Written,
    ) -> Result<Option<HealthProbe>, String> {
        let Some(active) = written.checks.as_ref().map(|checks| &checks.active) else { return Ok(None) };
        let checks_host = active.host.clone();
        Ok(Some(HealthProbe {
            kind: match active.check_type {
                CheckType::Tcp => ProbeKind::Tcp,
                CheckType::Http | CheckType::Https => ProbeKind::Http(HttpRequest::new(active)),
                CheckType::Grpc => {
                    ProbeKind::Grpc { service: active.grpc_service.clone().unwrap_or_default() }
                }
            },
            tls: self.probe_tls(snapshot, written, active)?,
            host: match &written.pass_host {
                PassHost::Rewrite(host) => ProbeHost::Rewrite(host.clone()),
                PassHost::Node => ProbeHost::Node(checks_host),
                PassHost::Pass => ProbeHost::Checks(checks_host),
            },
            port: active.port,
            reuses_connection: active.reuse_connection,
            timeout_ms: u64::try_from(active.timeout.as_millis()).unwrap_or(u64::MAX).max(1),
        }))
    }

    /// The TLS identity of the checks: the upstream's authorities and client certificate, verified as the
    /// checks say.
    fn probe_tls(
        &self,
        snapshot: &Snapshot,
        written: &Written,
        active: &ActiveChecks,
    ) -> Result<Option<Arc<ClientTls>>, String> {
        let is_over_tls = match active.check_type {
            CheckType::Https => true,
            CheckType::Grpc => matches!(written.scheme, UpstreamScheme::Https | UpstreamScheme::Grpcs),
            CheckType::Http | CheckType::Tcp => false,
        };
        if !is_over_tls {
            return Ok(None);
        }
        let identity = ClientIdentity {
            verifies: active.https_verify_certificate,
            alpn: if active.check_type == CheckType::Grpc { ALPN_HTTP2 } else { ALPN_HTTP1 },
            ..self.client_identity(snapshot, written)?
        };
        let found = self.services.tls().intern(identity);
        found.map(Some).map_err(|reason| format!("checks.active: {reason}"))
    }

    /// Starts the checks of the upstream `identity`, lets those in force go on if they are the same, or ends
    /// them. Verdicts and counters are kept unless `checks` itself has changed.
    ///
    /// # Errors
    /// The thread of the checks cannot be started.
    pub(super) fn follow_checks(
        &self,
        identity: &Arc<str>,
        cell: &Arc<Published<NodeSet>>,
        checks: Option<(&HealthChecks, HealthProbe)>,
        before: Option<&Arc<CompiledHealthChecks>>,
    ) -> Result<Option<Arc<CompiledHealthChecks>>, String> {
        let Some(monitor) = &self.health else { return Ok(None) };
        let is_written = |before: &&Arc<CompiledHealthChecks>| {
            checks.as_ref().is_some_and(|(now, _)| before.is_written(now))
        };
        let kept = before.filter(is_written);
        if let Some(before) = before.filter(|before| !is_written(before)) {
            before.end();
        }
        if kept.is_none() && (before.is_some() || checks.is_some()) {
            health::forget_verdicts(&cell.load().states);
        }
        let Some((written, probe)) = checks else {
            if before.is_some() {
                self.end_checks(identity);
            }
            return Ok(None);
        };
        let health = CompiledHealthChecks::new(identity, cell, written, probe, monitor.counts().clone());
        if let Some(before) = kept.filter(|before| before.is_same(&health)) {
            return Ok(Some(before.clone()));
        }
        let health = Arc::new(health);
        let begun = monitor.set(identity, Some(health.clone()));
        begun.map_err(|error| format!("checks: cannot start the thread of health checks: {error}"))?;
        Ok(Some(health))
    }

    /// Ends the checks of an upstream that is gone or has none any more.
    pub(super) fn end_checks(&self, identity: &Arc<str>) {
        // Only the start of the thread can fail.
        let _ = self.health.as_ref().map(|monitor| monitor.set(identity, None));
    }
}
