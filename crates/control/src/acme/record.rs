//! The record of a managed certificate, which survives restarts and changes of the leader: how its orders
//! went and when the next one is due. It does not know the certificate's bytes.

use serde::{Deserialize, Serialize};

use super::schedule::{self, Advice, Past, Validity};

/// See the module. Unknown fields are ignored, because instances of several versions may share records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CertificateRecord {
    /// The names that were ordered last, or are to be ordered on demand.
    pub(super) names: Vec<String>,
    /// A client has asked for it.
    pub(super) on_demand: bool,
    /// The directory of the authority that issued it.
    pub(super) authority: Option<String>,
    /// When it was issued.
    pub(super) issued_at_ms: u64,
    /// Certificates that were issued.
    pub(super) issued: u64,
    /// Failed attempts since the last issue.
    pub(super) failures: u32,
    /// Why the last attempt failed.
    pub(super) error: Option<String>,
    /// When the last attempt ended.
    pub(super) attempted_at_ms: u64,
    /// No attempt before that.
    pub(super) not_before_ms: u64,
    /// An order that was begun and not finished, and its authority.
    pub(super) open_order: Option<OpenOrder>,
    /// The authority's advice on renewal.
    pub(super) advice: Option<Advice>,
    /// Renewals in a row that were much earlier than usual.
    pub(super) early_renewals: u32,
}

/// An order at an authority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OpenOrder {
    /// The directory of the authority.
    pub(super) authority: String,
    /// The order.
    pub(super) url: String,
}

/// A certificate that was just issued.
#[derive(Debug, Clone, Copy)]
pub(super) struct Issue<'a> {
    pub(super) names: &'a [String],
    /// The directory of the authority.
    pub(super) authority: &'a str,
    pub(super) validity: Validity,
    /// The certificate before was renewed much earlier than usual.
    pub(super) is_early: bool,
}

impl CertificateRecord {
    pub(super) fn read(text: &str) -> Option<CertificateRecord> {
        serde_json::from_str(text).ok()
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).expect("a record has texts for keys only")
    }

    pub(super) fn past(&self) -> Past {
        Past { issued_at_ms: self.issued_at_ms, early_renewals: self.early_renewals }
    }

    /// Notes a failed attempt. `retry_after_ms` is what the authority asks for.
    pub(super) fn fail(&mut self, reason: String, retry_after_ms: Option<u64>, now_ms: u64, random: u64) {
        self.failures = self.failures.saturating_add(1);
        self.error = Some(reason);
        self.attempted_at_ms = now_ms;
        let pause = schedule::pause_ms(self.failures, random).max(retry_after_ms.unwrap_or_default());
        self.not_before_ms = now_ms.saturating_add(pause);
        self.open_order = None;
    }

    /// Notes an issued certificate with this validity. One that is due already by this machine's clock counts
    /// as a failure, because otherwise a clock that is ahead would order without end.
    pub(super) fn issue(&mut self, issued: Issue<'_>, now_ms: u64, random: u64) {
        let Issue { names, authority, validity, is_early } = issued;
        let failures = self.failures;
        self.names = names.to_vec();
        self.authority = Some(authority.to_owned());
        self.issued_at_ms = now_ms;
        self.issued = self.issued.saturating_add(1);
        self.failures = 0;
        self.error = None;
        self.attempted_at_ms = now_ms;
        self.not_before_ms = now_ms.saturating_add(BETWEEN_ISSUES_MS.min(validity.lifetime_ms() / 4));
        self.open_order = None;
        self.advice = None;
        self.early_renewals = if is_early { self.early_renewals.saturating_add(1) } else { 0 };
        if now_ms > validity.usual_ms(0) {
            self.failures = failures;
            let reason = "the new certificate is due for renewal already: the clock of this machine is ahead, or the \
                          authority issues certificates for the past";
            self.fail(reason.to_owned(), None, now_ms, random);
        }
    }
}

/// Between two certificates of the same names, whatever the reason of the second one is: its object is
/// deleted again and again, or the clock of this machine is wrong. Authorities count duplicates by the week.
const BETWEEN_ISSUES_MS: u64 = 600_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_push_the_next_attempt_away() {
        let mut record = CertificateRecord {
            open_order: Some(OpenOrder { authority: "a".into(), url: "u".into() }),
            ..CertificateRecord::default()
        };
        record.fail("no route".to_owned(), None, 1_000, 0);
        assert_eq!((record.failures, record.not_before_ms), (1, 1_000 + 54_000));
        assert_eq!(record.open_order, None);
        record.fail("rate limited".to_owned(), Some(7_200_000), 2_000, 0);
        assert_eq!((record.failures, record.not_before_ms), (2, 2_000 + 7_200_000));
        assert_eq!(CertificateRecord::read(&record.text()).as_ref(), Some(&record));
        let names = ["a.example".to_owned()];
        let validity = Validity { not_before_ms: 0, not_after_ms: 4_000_000 };
        let issue = |is_early| Issue { names: &names, authority: "d", validity, is_early };
        record.issue(issue(true), 9_000, 0);
        assert_eq!((record.failures, &record.error, record.early_renewals, record.issued), (0, &None, 1, 1));
        assert_eq!(record.not_before_ms, 9_000 + 600_000);
        record.issue(issue(false), 9_000, 0);
        assert_eq!((record.early_renewals, record.issued), (0, 2));
    }

    #[test]
    fn certificate_that_is_due_at_once_is_a_failure() {
        let names = ["a.example".to_owned()];
        let validity = Validity { not_before_ms: 0, not_after_ms: 30_000 };
        let issue = Issue { names: &names, authority: "d", validity, is_early: false };
        let mut record = CertificateRecord::default();
        record.issue(issue, 19_000, 0);
        assert_eq!((record.failures, record.not_before_ms), (0, 19_000 + 7_500));
        for failures in 1..4 {
            record.issue(issue, 20_001, 0);
            assert_eq!(record.failures, failures);
            assert!(record.error.as_ref().is_some_and(|error| error.contains("clock of this machine")));
        }
        assert_eq!((record.not_before_ms, record.issued), (20_001 + 810_000, 4));
    }

    #[test]
    fn records_of_other_versions_are_read() {
        assert_eq!(CertificateRecord::read("{}"), Some(CertificateRecord::default()));
        assert!(
            CertificateRecord::read(r#"{"failures":3,"new":[1]}"#).is_some_and(|record| record.failures == 3)
        );
        assert_eq!(CertificateRecord::read("7"), None);
        assert_eq!(CertificateRecord::read("no JSON"), None);
    }
}
