//! The state of managed certificates, for the Admin API and for scrapes. It reads what instances share, so
//! that each of them shows the same.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use serde_json::{Value, json};
use stdx::prometheus_text::{header, sample};

use super::attempt::AttemptContext;
use super::leader;
use super::manager::{CurrentCache, WantedCertificate};
use super::plan;
use crate::view::SharedView;

/// See the module.
pub(super) struct AcmeReport {
    pub(super) environment: Arc<AttemptContext>,
    pub(super) view: SharedView,
    pub(super) name: String,
    pub(super) cache: Mutex<CurrentCache>,
}

/// One certificate.
struct AcmeReportLine {
    state: &'static str,
    value: Value,
}

impl AcmeReport {
    /// The state of every managed certificate, by id.
    pub(super) fn certificates(&self) -> Value {
        let lines = self.lines();
        let total = lines.len();
        json!({ "list": lines.into_iter().map(|line| line.value).collect::<Vec<_>>(), "total": total })
    }

    /// The number of certificates by state, and whether this instance orders.
    pub(super) fn summary(&self) -> Value {
        let lines = self.lines();
        let count = |state: &str| lines.iter().filter(|line| line.state == state).count();
        json!({
            "leader": self.leads(),
            "certificates": STATES.iter().map(|state| ((*state).to_owned(), count(state).into())).collect::<serde_json::Map<_, _>>(),
        })
    }

    /// Appends the metrics in the Prometheus text format.
    pub(super) fn write_metrics(&self, text: &mut String) {
        let lines = self.lines();
        header(text, "weir_acme_certificates", "gauge", "Certificates that are ordered by ACME, by state.");
        for state in STATES {
            let count = lines.iter().filter(|line| line.state == state).count();
            sample(text, "weir_acme_certificates", &[("state", &state)], count);
        }
        let counts = &self.environment.counts;
        header(
            text,
            "weir_acme_attempts_total",
            "counter",
            "Attempts at certificates by this instance, by result.",
        );
        for (result, count) in [("issued", &counts.issued), ("failed", &counts.failed)] {
            sample(text, "weir_acme_attempts_total", &[("result", &result)], count.load(Ordering::Relaxed));
        }
    }

    fn leads(&self) -> bool {
        let shared = &self.environment.shared;
        !shared.is_cluster() || shared.get(leader::PATH).is_some_and(|holder| *holder.text == *self.name)
    }

    fn lines(&self) -> Vec<AcmeReportLine> {
        let now_ms = self.environment.clock.unix_ms();
        let wanted = self.environment.wanted();
        let mut cache = self.cache.lock();
        wanted.into_iter().map(|wanted| self.line(&mut cache, wanted, now_ms)).collect()
    }

    fn line(&self, cache: &mut CurrentCache, wanted: WantedCertificate, now_ms: u64) -> AcmeReportLine {
        let record = self.environment.record(&wanted.id);
        let current = cache.get(&self.view, &wanted.id);
        let is_valid = current.as_ref().is_some_and(|current| {
            current.validity.holds_at(now_ms) && wanted.names.iter().all(|name| current.covers(name))
        });
        let state = state_of(record.failures > 0, is_valid);
        let seconds = |ms: u64| if ms == 0 { Value::Null } else { (ms / 1000).into() };
        let order_at_ms = plan::order_at_ms(&wanted.names, current.as_ref(), &record, now_ms);
        let value = json!({
            "id": wanted.id,
            "names": wanted.names,
            "state": state,
            "on_demand": wanted.on_demand,
            "ordering": self.environment.busy.lock().contains(&wanted.id),
            "authority": record.authority,
            "not_before": current.as_ref().map(|current| current.validity.not_before_ms / 1000),
            "not_after": current.as_ref().map(|current| current.validity.not_after_ms / 1000),
            "serial": current.as_ref().map(|current| &current.serial),
            "next_order": order_at_ms.max(now_ms) / 1000,
            "last_attempt": seconds(record.attempted_at_ms),
            "issued": record.issued,
            "failures": record.failures,
            "error": record.error,
            "advised_window": record.advice.as_ref().filter(|advice| advice.end_ms > 0).map(|advice| {
                json!({ "start": advice.start_ms / 1000, "end": advice.end_ms / 1000 })
            }),
        });
        AcmeReportLine { state, value }
    }
}

fn state_of(has_failed: bool, is_valid: bool) -> &'static str {
    match (has_failed, is_valid) {
        (true, true) => "renewal_failing",
        (true, false) => "failing",
        (false, true) => "valid",
        (false, false) => "pending",
    }
}

/// The states, the good one first. `pending`: there is none that is valid now, and no attempt has failed.
const STATES: [&str; 4] = ["valid", "pending", "renewal_failing", "failing"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acme::schedule::Validity;

    #[test]
    fn certificate_is_pending_before_its_validity() {
        let validity = Validity { not_before_ms: 10, not_after_ms: 20 };
        let check = |now_ms: u64, has_failed: bool, expected: &str| {
            assert_eq!(state_of(has_failed, validity.holds_at(now_ms)), expected, "{now_ms} {has_failed}");
        };
        check(9, false, "pending");
        check(10, false, "valid");
        check(19, false, "valid");
        check(20, false, "pending");
        check(9, true, "failing");
        check(10, true, "renewal_failing");
        assert!([true, false].iter().all(|failed| STATES.contains(&state_of(*failed, *failed))));
    }
}
