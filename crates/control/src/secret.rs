//! Values of references to secrets: a cache with lookups that never block, refreshed in the background.
//! Environment variables are read at each lookup; files of certificates are checked for changes every few
//! seconds. Secret managers are asked by a thread, which starts with the first reference to one. It does not
//! know the users of the values; each user asks for changes itself.

mod cache;
mod environment;
mod files;
mod manager;
mod managers;
mod shared;
mod thread;

use std::sync::Arc;
use std::time::Instant;

use model::resource::Resource;
use model::secret_reference::{self, SecretReference, SecretValues, file_path};
use model::{Applied, ConfigFault, ObjectKind, SnapshotObject};
use outbound::background::BackgroundThread;
use parking_lot::Mutex;
use stdx::prometheus_text::{header, sample};

use cache::ReferenceCounts;
pub use environment::SecretEnvironment;
pub use files::FilePolicy;
use files::SecretFiles;
pub use shared::SecretOptions;
use shared::SecretShared;

/// The values of all references, shared by the reconciling thread and the compiler.
pub struct Secrets {
    shared: Arc<SecretShared>,
    files: Mutex<SecretFiles>,
    thread: Mutex<Option<BackgroundThread>>,
}

impl Secrets {
    /// A cache without references.
    pub fn new(options: SecretOptions, environment: SecretEnvironment) -> Secrets {
        Secrets {
            files: Mutex::new(SecretFiles::new(options.files.clone())),
            shared: Arc::new(SecretShared::new(options, environment)),
            thread: Mutex::default(),
        }
    }

    /// Sets the function that is called whenever [`Secrets::take_changed`] has something to return.
    pub(crate) fn on_change(&self, listener: impl Fn() + Send + 'static) {
        *self.shared.listener.lock() = Some(Box::new(listener));
    }

    /// The references with values that have changed since the last call.
    pub(crate) fn take_changed(&self) -> Vec<Arc<str>> {
        std::mem::take(&mut *self.shared.changed.lock())
    }

    /// Reads files again that have changed; [`Secrets::take_changed`] returns their references. It blocks for
    /// the system calls.
    pub(crate) fn check_files(&self) {
        let changed = self.files.lock().check(Instant::now());
        self.shared.tell(changed);
    }

    /// Takes up the managers and references of `applied`, and drops those that it removed.
    pub(crate) fn follow(&self, applied: &Applied) {
        let now = Instant::now();
        let mut cache = self.shared.cache.lock();
        let mut changed = Vec::new();
        for difference in &applied.diff {
            if difference.key.kind == ObjectKind::Secret {
                let manager = difference.after.as_ref().and_then(|object| match &object.resource {
                    Resource::Secret(secret) => Some(secret.value.clone()),
                    _ => None,
                });
                changed.extend(cache.set_manager(&difference.key.id, manager, now));
            }
            let references = |object: &Arc<SnapshotObject>| -> Vec<Arc<str>> {
                secret_reference::list_secret_references(&object.resource)
                    .into_iter()
                    .map(|(_, text)| text.into())
                    .collect()
            };
            for reference in difference.after.iter().flat_map(references) {
                match file_path(&reference) {
                    Some(_) => self.files.lock().follow(&reference),
                    None => cache.follow(&reference, now),
                }
            }
            for reference in difference.before.iter().flat_map(references) {
                if !applied.snapshot.has_secret_reference(&reference) {
                    match file_path(&reference) {
                        Some(_) => self.files.lock().forget(&reference),
                        None => cache.forget(&reference),
                    }
                }
            }
        }
        let idle = cache.is_empty();
        drop(cache);
        self.shared.tell(changed);
        if !idle {
            self.start_thread();
            self.shared.wake.notify_one();
        }
    }

    fn start_thread(&self) {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            match thread::start_secrets_thread(Arc::clone(&self.shared)) {
                Ok(started) => *thread = Some(started),
                Err(error) => tracing::error!(%error, "no thread for secrets: references stay unresolved"),
            }
        }
    }

    /// Waits until every document was asked for once, or until `deadline`.
    pub(crate) fn await_first(&self, deadline: Instant) {
        let mut cache = self.shared.cache.lock();
        while !cache.all_tried() {
            if self.shared.tried.wait_until(&mut cache, deadline).timed_out() {
                tracing::warn!("not every secret is there yet; what needs one stays closed until it is");
                return;
            }
        }
    }

    /// The faults of references in the objects of `applied`.
    pub(crate) fn faults(&self, applied: &Applied) -> Vec<ConfigFault> {
        let objects = applied.diff.iter().filter_map(|difference| difference.after.as_ref());
        let unresolved = |object: &Arc<SnapshotObject>| -> Vec<ConfigFault> {
            let references = secret_reference::list_secret_references(&object.resource);
            let fault = |(pointer, reference): (String, &str)| {
                let reason = self.value(reference).err()?;
                let reason = format!("{reference} leads nowhere: {reason}");
                Some(ConfigFault { key: Some(object.key().clone()), pointer, reason, kept: false })
            };
            references.into_iter().filter_map(fault).collect()
        };
        objects.flat_map(unresolved).collect()
    }

    /// Stops the thread.
    pub(crate) fn stop(&self) {
        if let Some(thread) = self.thread.lock().take() {
            thread.stop();
        }
    }

    /// Appends the count of references to secret managers by their state, in the Prometheus text format. An
    /// instance without such references has no such metric.
    pub fn write_metrics(&self, text: &mut String) {
        let ReferenceCounts { fresh, stale, unresolved } = self.shared.cache.lock().counts();
        if fresh + stale + unresolved == 0 {
            return;
        }
        let name = "weir_secret_references";
        header(text, name, "gauge", "References to secret managers, by what is known of their values.");
        for (state, count) in [("fresh", fresh), ("stale", stale), ("unresolved", unresolved)] {
            sample(text, name, &[("state", &state)], count);
        }
    }
}

impl SecretValues for Secrets {
    fn value(&self, reference: &str) -> Result<String, String> {
        if file_path(reference).is_some() {
            return self.files.lock().value(reference);
        }
        match SecretReference::parse(reference) {
            Some(SecretReference::Environment { name, key }) => {
                environment::value(self.shared.environment, name, key)
            }
            Some(SecretReference::Managed { .. }) => self.shared.cache.lock().value(reference),
            Some(SecretReference::Malformed) | None => {
                Err("it is not written as $secret://MANAGER/ID/PATH/KEY".to_owned())
            }
        }
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secrets")
    }
}

#[cfg(test)]
mod tests;
