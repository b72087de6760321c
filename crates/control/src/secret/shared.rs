//! What the thread that asks secret managers and those who look values up have in common.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::outbound::OutboundPolicy;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;

use super::cache::Cache;
use super::environment::Environment;
use crate::tls;

/// How secret managers are asked.
#[derive(Clone, Debug)]
pub struct SecretOptions {
    /// How long a value counts as fresh.
    pub refresh: Duration,
    /// How long the last value is used while its manager does not answer.
    pub stale: Duration,
    /// How long one answer may take, from the look-up of the name to its last byte.
    pub timeout: Duration,
    /// Which addresses are out of bounds.
    pub policy: OutboundPolicy,
    /// Certificates to trust where a manager speaks TLS (PEM); without it the system's.
    pub ca: Option<PathBuf>,
}

/// What the thread and everybody else have in common.
pub(super) struct Shared {
    pub(super) options: SecretOptions,
    pub(super) environment: Environment,
    /// For managers that speak TLS; there once one was asked.
    tls: OnceLock<TlsConnector>,
    pub(super) cache: Mutex<Cache>,
    /// References whose values have changed, and that nobody has asked for yet.
    pub(super) changed: Mutex<Vec<Arc<str>>>,
    /// Whom to tell of them.
    pub(super) listener: Mutex<Option<Box<dyn Fn() + Send>>>,
    /// Something was tried for the first time.
    pub(super) tried: Condvar,
    /// There is something to do for the thread.
    pub(super) wake: Notify,
}

impl Shared {
    /// Values that nobody refers to yet.
    pub(super) fn new(options: SecretOptions, environment: Environment) -> Shared {
        let cache = Cache::new(options.refresh, options.stale, options.timeout);
        Shared {
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

    /// TLS towards managers. What cannot be made now is tried again for the next request.
    pub(super) fn tls(&self) -> Result<TlsConnector, String> {
        if let Some(connector) = self.tls.get() {
            return Ok(connector.clone());
        }
        let config = tls::trusting(self.options.ca.as_deref(), "secret_ca")?.with_no_client_auth();
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
