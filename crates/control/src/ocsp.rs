//! OCSP responses for stapling (RFC 6960, RFC 6066 section 8): fetched from the responders that certificates
//! name, verified, and renewed before they end. A failure never takes a certificate out of force; it is shown
//! without a response, which is reported. It does not know TLS: the compiler asks for responses, and objects
//! with changed ones are published again.

mod cache;
mod message;
mod request;
mod thread;
mod verify;

use std::collections::BTreeSet;
use std::sync::Arc;

use model::outbound::OutboundPolicy;
use model::resource::{Resource, SslType};
use model::secret_reference::{SecretValues, is_certificate_reference};
use model::staple::Staples;
use model::{Applied, ObjectKey, ObjectKind, SnapshotObject};
use outbound::background::BackgroundThread;
use parking_lot::Mutex;
use stdx::prometheus_text::{header, sample};
use tokio::sync::Notify;

use cache::{OcspCache, WantedChain};

/// The responses of all certificates of objects that ask for stapling.
#[derive(Default)]
pub struct Ocsp {
    shared: Arc<OcspShared>,
    thread: Mutex<Option<BackgroundThread>>,
}

/// State that the thread shares with the users of responses.
#[derive(Default)]
struct OcspShared {
    policy: OutboundPolicy,
    cache: Mutex<OcspCache>,
    /// Objects with responses that have changed since [`Ocsp::take_changed`].
    changed: Mutex<BTreeSet<ObjectKey>>,
    listener: Mutex<Option<Box<dyn Fn() + Send>>>,
    /// Notified when the thread has something to do.
    wake: Notify,
}

impl Ocsp {
    /// A cache without responses; responders are reached under this policy.
    pub fn new(policy: OutboundPolicy) -> Ocsp {
        Ocsp { shared: Arc::new(OcspShared { policy, ..OcspShared::default() }), thread: Mutex::default() }
    }

    /// Sets the function that is called whenever [`Ocsp::take_changed`] has something to return.
    pub(crate) fn on_change(&self, listener: impl Fn() + Send + 'static) {
        *self.shared.listener.lock() = Some(Box::new(listener));
    }

    /// The objects with responses that have changed since the last call.
    pub(crate) fn take_changed(&self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut *self.shared.changed.lock())
    }

    /// Takes up the certificates of `applied` that ask for stapling, and drops those that no object has any
    /// more.
    pub(crate) fn follow(&self, applied: &Applied, secrets: &dyn SecretValues) {
        let asks = |object: &Arc<SnapshotObject>| stapling(object).is_some();
        let of_ssl = applied.diff.iter().filter(|difference| difference.key.kind == ObjectKind::Ssl);
        let concerned: Vec<_> =
            of_ssl.filter(|difference| difference.before.iter().chain(&difference.after).any(asks)).collect();
        if concerned.is_empty() {
            return;
        }
        let mut cache = self.shared.cache.lock();
        for difference in concerned {
            let wanted = difference.after.as_ref().map(|object| wanted(object, secrets));
            cache.set(&difference.key, wanted.unwrap_or_default());
        }
        let is_idle = cache.is_empty();
        drop(cache);
        if !is_idle {
            self.start_thread();
            self.shared.wake.notify_one();
        }
    }

    fn start_thread(&self) {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            match thread::start_ocsp_thread(Arc::clone(&self.shared)) {
                Ok(started) => *thread = Some(started),
                Err(error) => {
                    tracing::error!(%error, "no thread for OCSP: certificates are shown without responses")
                }
            }
        }
    }

    /// Stops the thread.
    pub(crate) fn stop(&self) {
        if let Some(thread) = self.thread.lock().take() {
            thread.stop();
        }
    }

    /// Appends the number of certificates that are to be stapled, by whether there is a response. An instance
    /// without any has no such metric.
    pub fn write_metrics(&self, text: &mut String) {
        let (valid, missing) = self.shared.cache.lock().counts(now_s());
        if valid + missing == 0 {
            return;
        }
        let name = "weir_ocsp_responses";
        header(
            text,
            name,
            "gauge",
            "Certificates that ask for OCSP stapling, by whether there is a valid response.",
        );
        for (state, count) in [("valid", valid), ("missing", missing)] {
            sample(text, name, &[("state", &state)], count);
        }
    }
}

impl Staples for Ocsp {
    fn staple(&self, certificate_der: &[u8]) -> Option<Vec<u8>> {
        self.shared.cache.lock().response(certificate_der, now_s())
    }
}

impl std::fmt::Debug for Ocsp {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Ocsp")
    }
}

impl OcspShared {
    fn tell(&self, changed: BTreeSet<ObjectKey>) {
        if changed.is_empty() {
            return;
        }
        self.changed.lock().extend(changed);
        if let Some(listener) = &*self.listener.lock() {
            listener();
        }
    }
}

/// The settings of an object that asks for stapling.
fn stapling(object: &SnapshotObject) -> Option<&model::resource::Ssl> {
    match &object.resource {
        Resource::Ssl(ssl) if ssl.enabled && ssl.ssl_type == SslType::Server && ssl.ocsp_stapling.enabled => {
            Some(ssl)
        }
        _ => None,
    }
}

/// The chains of an object that asks for stapling. A reference that is not resolved is left out: the compiler
/// reports it.
fn wanted(object: &SnapshotObject, secrets: &dyn SecretValues) -> Vec<WantedChain> {
    let Some(ssl) = stapling(object) else { return Vec::new() };
    let resolved = |text: &str| match is_certificate_reference(text) {
        true => secrets.value(text).ok(),
        false => Some(text.to_owned()),
    };
    let chains = ssl.pairs.iter().filter_map(|(chain, _)| resolved(chain));
    chains
        .map(|chain| WantedChain {
            chain,
            skip_verify: ssl.ocsp_stapling.skip_verify,
            cache_ttl_s: ssl.ocsp_stapling.cache_ttl.into(),
        })
        .collect()
}

/// The time now, in seconds since the Unix epoch.
fn now_s() -> i64 {
    let now = stdx::clock::unix_time();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
