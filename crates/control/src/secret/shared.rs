//! The state that the thread that asks secret managers shares with the users of the values.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::outbound::OutboundPolicy;
use outbound::tls::trusting_authorities;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;

use super::cache::SecretCache;
use super::environment::SecretEnvironment;
use super::files::FilePolicy;

/// Settings for requests to secret managers.
#[derive(Clone, Debug)]
pub struct SecretOptions {
    /// Time for which a value counts as fresh.
    pub refresh: Duration,
    /// Time for which the last value is used while its manager does not answer.
    pub stale: Duration,
    /// Time limit of one answer, from the lookup of the name to its last byte.
    pub timeout: Duration,
    /// The addresses that may be connected to.
    pub policy: OutboundPolicy,
    /// Trusted certificates for managers with TLS (PEM); none: those of the system.
    pub ca: Option<PathBuf>,
    /// The files that certificates and keys may be read from.
    pub files: FilePolicy,
}

/// State of the thread and of the users of the values.
pub(super) struct SecretShared {
    pub(super) options: SecretOptions,
    pub(super) environment: SecretEnvironment,
    /// For managers with TLS; made at the first request.
    tls: OnceLock<TlsConnector>,
    pub(super) cache: Mutex<SecretCache>,
    /// References with values that have changed since the last
    /// [`Secrets::take_changed`](super::Secrets::take_changed).
    pub(super) changed: Mutex<Vec<Arc<str>>>,
    /// Called after each change.
    pub(super) listener: Mutex<Option<Box<dyn Fn() + Send>>>,
    /// Notified when a document was requested for the first time.
    pub(super) tried: Condvar,
    /// Notified when the thread has something to do.
    pub(super) wake: Notify,
}

impl SecretShared {
    /// State without references.
    pub(super) fn new(options: SecretOptions, environment: SecretEnvironment) -> SecretShared {
        let cache = SecretCache::new(options.refresh, options.stale, options.timeout);
        SecretShared {
            options,
            environment,
            tls: OnceLock::new(),
            cache: Mutex::new(cache),
            changed: Mutex::default(),
            listener: Mutex::default(),
            tried: Condvar::new(),
            wake: Notify::new(),
        }
    }

    /// The TLS settings for managers. If they cannot be made, the next request tries again.
    pub(super) fn tls(&self) -> Result<TlsConnector, String> {
        if let Some(connector) = self.tls.get() {
            return Ok(connector.clone());
        }
        let config = trusting_authorities(self.options.ca.as_deref(), "secret_ca")?.with_no_client_auth();
        Ok(self.tls.get_or_init(|| TlsConnector::from(Arc::new(config))).clone())
    }

    pub(super) fn tell(&self, changed: Vec<Arc<str>>) {
        if changed.is_empty() {
            return;
        }
        self.changed.lock().extend(changed);
        if let Some(listener) = &*self.listener.lock() {
            listener();
        }
    }
}
