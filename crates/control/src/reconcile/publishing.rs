//! Passes the configuration from the sources to the workers and to readers, with everything that is known of
//! it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use model::{Applied, ConfigFault, ObjectKey, WrittenObject};

use super::{Reconciler, fault_log};
use crate::view::View;

impl Reconciler {
    /// The object as it was written, also if it is faulty.
    pub(super) fn written(&self, key: &ObjectKey) -> Option<&WrittenObject> {
        match self.snapshot.faulty_at(key) {
            Some(faulty) => Some(&faulty.written),
            None => self.snapshot.get(key).map(|object| &object.written),
        }
    }

    /// Passes a new snapshot to workers and readers.
    pub(super) fn publish(&mut self, applied: Applied) {
        self.good.keep(&self.parts.sealer, &applied.snapshot);
        self.hand_over(applied);
    }

    /// As [`Reconciler::publish`]; the good forms on disk stay unchanged.
    pub(super) fn hand_over(&mut self, applied: Applied) {
        let snapshot = applied.snapshot.clone();
        let applied = self.automatic.lay_over(&self.parts.catalog, applied);
        self.prepare_secrets(&applied);
        self.parts.ocsp.follow(&applied, &*self.parts.secrets);
        let publisher = &mut self.parts.publisher;
        // The configuration is already checked and stored, so that a bug in the compiler must not end the
        // control side.
        let faults = catch_unwind(AssertUnwindSafe(|| publisher.publish(&applied))).unwrap_or_else(|_| {
            vec![ConfigFault::general(format!(
                "revision {} cannot be compiled: a panic",
                applied.snapshot.revision()
            ))]
        });
        for fault in faults.iter().filter(|fault| fault.key.is_none()) {
            tracing::error!(%fault, "the configuration cannot be compiled");
        }
        self.compile_faults = self.automatic.cut(faults, MAX_COMPILE_FAULTS);
        let touched = |fault: &ConfigFault| {
            applied.diff.iter().any(|difference| Some(&difference.key) == fault.key.as_ref())
        };
        self.reference_faults.retain(|fault| !touched(fault));
        self.reference_faults.extend(self.secret_faults(&applied));
        self.reference_faults.truncate(MAX_COMPILE_FAULTS);
        self.snapshot = snapshot;
        let touched = applied.faults.into_iter().chain(self.compile_faults.iter().cloned());
        let touched = touched.filter_map(|fault| fault.key).collect();
        fault_log::report_skipped(&applied.diff);
        self.show_automatic_faults();
        self.start_faults.settle(&self.snapshot, &self.compile_faults);
        let view = self.view();
        self.fault_log.report(&view, touched, self.facts.logs_faults);
        self.parts.view.store(view);
    }

    /// Takes expired certificates out of force, where a setting says so.
    pub(super) fn expire(&mut self) {
        let Some(faults) = self.parts.publisher.expire() else { return };
        let touched = faults.iter().filter_map(|fault| fault.key.clone()).collect();
        self.compile_faults = self.automatic.cut(faults, MAX_COMPILE_FAULTS);
        let view = self.view();
        self.fault_log.report(&view, touched, self.facts.logs_faults);
        self.parts.view.store(view);
    }

    /// Replaces the view for readers.
    pub(super) fn show(&self) {
        self.parts.view.store(self.view());
    }

    /// The view for readers.
    pub(super) fn view(&self) -> View {
        let mut view = View {
            snapshot: self.snapshot.clone(),
            skips_plugins: self.parts.catalog.ignores_any(),
            unready: Vec::new(),
            faults: self.faults.clone(),
            compile_faults: self.compile_faults.clone(),
            reference_faults: self.reference_faults.clone(),
            etcd: self.etcd.clone(),
            configs: Arc::clone(&self.configs),
            changed: self.changed,
            write_failure: self.write_failure.clone(),
        };
        view.unready = self.start_faults.reasons(&view);
        view
    }
}

impl Drop for Reconciler {
    fn drop(&mut self) {
        self.parts.secrets.stop();
        self.parts.ocsp.stop();
    }
}

/// Limit of compile faults that are kept, of written objects and of automatic routes each. The first thousand
/// usually show the cause.
const MAX_COMPILE_FAULTS: usize = 1000;
