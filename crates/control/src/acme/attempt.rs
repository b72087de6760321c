//! One attempt at a certificate: the authorities in turn until one issues it, then its way into force; and
//! the question for advice on renewal. The outcome is written into the certificate's record.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::account::Accounts;
use super::answers::AcmeAnswers;
use super::config::{AcmeConfig, Authority};
use super::current::Current;
use super::failure::AcmeFailure;
use super::names;
use super::objects::Objects;
use super::order::{ActiveOrder, Issued, OrderRequest};
use super::record::{CertificateRecord, Issue, OpenOrder};
use super::schedule::Advice;
use crate::clock::Clock;
use crate::shared_state::SharedState;

/// The parts that attempts share; one for the process.
pub(super) struct AttemptContext {
    pub(super) config: AcmeConfig,
    pub(super) shared: SharedState,
    pub(super) accounts: Accounts,
    pub(super) answers: AcmeAnswers,
    pub(super) objects: Objects,
    pub(super) clock: Arc<dyn Clock>,
    /// Authorities that take no orders before a time.
    pub(super) limited: Mutex<HashMap<String, Instant>>,
    /// Certificates that an attempt is made at.
    pub(super) busy: Mutex<HashSet<String>>,
    pub(super) counts: AttemptCounts,
}

/// Outcomes of attempts since the start.
#[derive(Debug, Default)]
pub(super) struct AttemptCounts {
    pub(super) issued: AtomicU64,
    pub(super) failed: AtomicU64,
}

/// A certificate that is due.
pub(super) struct DueCertificate {
    pub(super) id: String,
    pub(super) names: Vec<String>,
    pub(super) current: Option<Current>,
}

impl AttemptContext {
    /// Orders the certificate. The record says afterwards how that went.
    pub(super) async fn order(&self, due: &DueCertificate) {
        let mut record = self.record(&due.id);
        record.names.clone_from(&due.names);
        let mut reasons = Vec::new();
        let mut waits = Vec::new();
        for authority in &self.config.authorities {
            if let Some(left) = self.limit_left(authority) {
                reasons.push(format!(
                    "{} takes no orders for {} s",
                    name_authority(authority),
                    left.as_secs()
                ));
                waits.push(left);
                continue;
            }
            match self.order_at(authority, due, &mut record).await {
                Ok(issued) => return self.bring_into_force(authority, due, record, issued).await,
                Err(failure) => {
                    if let Some(wait) = failure.retry_after {
                        self.limited.lock().insert(authority.directory.clone(), Instant::now() + wait);
                        waits.push(wait);
                    }
                    reasons.push(format!("{}: {}", name_authority(authority), failure.reason));
                }
            }
        }
        // Only if every authority asks for a wait, there is nothing to try before.
        let wait = waits.iter().min().filter(|_| waits.len() == self.config.authorities.len());
        self.note_failure(due, record, reasons.join("; "), wait.copied()).await;
    }

    /// Orders at one authority, with a new account where it has lost the one that is known.
    async fn order_at(
        &self,
        authority: &Authority,
        due: &DueCertificate,
        record: &mut CertificateRecord,
    ) -> Result<Issued, AcmeFailure> {
        match self.order_with_account(authority, due, record).await {
            Err(failure) if failure.account_is_unknown => {
                tracing::warn!(authority = %authority.directory, "the authority has lost the account; a new one is made");
                self.accounts.forget(authority).await?;
                record.open_order = None;
                self.order_with_account(authority, due, record).await
            }
            other => other,
        }
    }

    async fn order_with_account(
        &self,
        authority: &Authority,
        due: &DueCertificate,
        record: &mut CertificateRecord,
    ) -> Result<Issued, AcmeFailure> {
        let (account, last) = self.accounts.open(authority).await?;
        let is_same = record.authority.as_ref() == Some(&authority.directory);
        let knows_advice = record.advice.as_ref().is_some_and(|advice| advice.end_ms > 0);
        let replaced = due.current.as_ref().filter(|_| is_same && knows_advice);
        let open = record.open_order.clone().filter(|open| open.authority == authority.directory);
        let request = OrderRequest {
            names: &due.names,
            challenges: &self.config.challenges,
            profile: self.config.profile.as_deref(),
            replaces: replaced.and_then(|current| current.identifier.clone()),
            open_order: open.as_ref().map(|open| open.url.as_str()),
        };
        let run = ActiveOrder::begin(&account, last, &self.answers, request).await?;
        record.open_order =
            Some(OpenOrder { authority: authority.directory.clone(), url: run.url().to_owned() });
        // An instance that takes over goes on with this order. Without the record it makes another one, which
        // is no harm.
        self.keep(&due.id, record).await;
        run.finish().await
    }

    async fn bring_into_force(
        &self,
        authority: &Authority,
        due: &DueCertificate,
        mut record: CertificateRecord,
        issued: Issued,
    ) {
        let Some(key) = names::key_of(&due.id) else { return };
        if let Err(reason) = self.objects.put(&key, &issued, &due.names, &name_authority(authority)).await {
            let reason = format!("it was issued and could not be stored: {reason}");
            return self.note_failure(due, record, reason, None).await;
        }
        self.counts.issued.fetch_add(1, Ordering::Relaxed);
        let now_ms = self.clock.unix_ms();
        let is_early = due.current.as_ref().is_some_and(|current| current.validity.is_early(now_ms));
        let issue = Issue {
            names: &due.names,
            authority: &authority.directory,
            validity: issued.current.validity,
            is_early,
        };
        record.issue(issue, now_ms, random());
        tracing::info!(
            certificate = due.id,
            authority = name_authority(authority),
            "a certificate was issued"
        );
        if let Some(reason) = &record.error {
            tracing::error!(
                certificate = due.id,
                reason,
                "a certificate is renewed less often than it should be"
            );
        }
        self.keep(&due.id, &record).await;
    }

    async fn note_failure(
        &self,
        due: &DueCertificate,
        mut record: CertificateRecord,
        reason: String,
        wait: Option<Duration>,
    ) {
        self.counts.failed.fetch_add(1, Ordering::Relaxed);
        let now_ms = self.clock.unix_ms();
        let wait_ms = wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        record.fail(reason.clone(), wait_ms, now_ms, random());
        let next_s = record.not_before_ms.saturating_sub(now_ms) / 1000;
        tracing::warn!(
            certificate = due.id,
            failures = record.failures,
            next_s,
            reason,
            "no certificate was issued"
        );
        self.keep(&due.id, &record).await;
    }

    /// Asks the authority when it wants the certificate to be renewed (RFC 9773).
    pub(super) async fn ask_for_advice(&self, due: &DueCertificate) {
        let Some(current) = &due.current else { return };
        let now_ms = self.clock.unix_ms();
        let asked = self.advice(current, &self.record(&due.id), now_ms).await;
        // Read again, because only this field is to change.
        let mut record = self.record(&due.id);
        record.advice = Some(asked.unwrap_or_else(|failure| {
            tracing::debug!(certificate = due.id, reason = failure.reason, "no advice on renewal");
            let check_at_ms = now_ms.saturating_add(millis(ADVICE_AGAIN));
            Advice { start_ms: 0, end_ms: 0, check_at_ms, serial: current.serial.clone() }
        }));
        self.keep(&due.id, &record).await;
    }

    async fn advice(
        &self,
        current: &Current,
        record: &CertificateRecord,
        now_ms: u64,
    ) -> Result<Advice, AcmeFailure> {
        let known = |authority: &&Authority| record.authority.as_ref() == Some(&authority.directory);
        let authority = self.config.authorities.iter().find(known);
        let authority =
            authority.ok_or_else(|| AcmeFailure::new("its authority is no longer in acme_authorities"))?;
        let identifier = current.identifier.as_ref();
        let identifier =
            identifier.ok_or_else(|| AcmeFailure::new("it has no identifier of its authority"))?;
        let (account, last) = self.accounts.open(authority).await?;
        let asked = tokio::time::timeout(ADVICE_TIMEOUT, account.renewal_info(identifier)).await;
        let asked = asked.map_err(|_| AcmeFailure::new("no answer in time"))?;
        let (advice, again) = asked.map_err(|fault| AcmeFailure::of(&fault, &last))?;
        let window = advice.suggested_window;
        let at = |time: i128| u64::try_from(time / 1_000_000).unwrap_or_default();
        Ok(Advice {
            start_ms: at(window.start.unix_timestamp_nanos()),
            end_ms: at(window.end.unix_timestamp_nanos()),
            check_at_ms: now_ms.saturating_add(millis(again.clamp(ADVICE_SOONEST, ADVICE_LATEST))),
            serial: current.serial.clone(),
        })
    }

    /// The record of a certificate; an empty one where there is none.
    pub(super) fn record(&self, id: &str) -> CertificateRecord {
        let kept = self.shared.get(&record_path(id));
        kept.and_then(|document| CertificateRecord::read(&document.text)).unwrap_or_default()
    }

    async fn keep(&self, id: &str, record: &CertificateRecord) {
        match self.shared.put(&record_path(id), &record.text(), None).await {
            Ok(true) => {}
            Ok(false) => tracing::warn!(
                certificate = id,
                "another instance has written the record of this certificate"
            ),
            Err(fault) => tracing::warn!(certificate = id, %fault, "the record of a certificate is not kept"),
        }
    }

    fn limit_left(&self, authority: &Authority) -> Option<Duration> {
        let until = *self.limited.lock().get(&authority.directory)?;
        until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}

/// The path of a certificate's record.
pub(super) fn record_path(id: &str) -> String {
    format!("{RECORDS}{id}")
}

/// The host of an authority, its name for people.
pub(super) fn name_authority(authority: &Authority) -> String {
    let uri: Option<http::Uri> = authority.directory.parse().ok();
    uri.and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_else(|| authority.directory.clone())
}

/// A random number; 0 if the system has none, which only takes the jitter away.
fn random() -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => 0,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The folder of records.
pub(super) const RECORDS: &str = "certificates/";
/// Advice is asked for again after that where there was none.
const ADVICE_AGAIN: Duration = Duration::from_secs(6 * 3600);
/// Bounds of the time after which an authority wants to be asked again (RFC 9773 section 4.3.2 suggests the
/// same).
const ADVICE_SOONEST: Duration = Duration::from_secs(60);
const ADVICE_LATEST: Duration = Duration::from_secs(86_400);
/// For one question.
const ADVICE_TIMEOUT: Duration = Duration::from_secs(60);
