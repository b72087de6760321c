//! The last failure to write the configuration, until a write succeeds. Readers see it in the view: without
//! it an instance on a full disk looks healthy, because requests are served. It does not try again.

use super::whole::WholeRefused;
use super::{Done, Reconciler, WriteRefusal};
use crate::source::store::StoreError;
use crate::view::WriteFailure;

impl Reconciler {
    /// Notes the results of writes in their order: the last one that the store took or failed at decides.
    /// Refusals of an object are neither.
    pub(super) fn note_writes(&mut self, results: &[Result<Done, WriteRefusal>]) {
        let decisive = |result: &Result<Done, WriteRefusal>| match result {
            Ok(_) => Some(Ok(())),
            Err(WriteRefusal::Store(reason)) if *reason != StoreError::Conflict.to_string() => {
                Some(Err(reason.clone()))
            }
            Err(_) => None,
        };
        if let Some(written) = results.iter().rev().find_map(decisive) {
            self.note_written(written);
        }
    }

    /// As [`Reconciler::note_writes`], for a change of many objects.
    pub(super) fn note_whole<T>(&mut self, result: &Result<T, WholeRefused>) {
        match result {
            Ok(_) => self.note_written(Ok(())),
            Err(WholeRefused::Write(WriteRefusal::Store(reason)))
                if *reason != StoreError::Conflict.to_string() =>
            {
                self.note_written(Err(reason.clone()));
            }
            Err(_) => {}
        }
    }

    /// Notes that the source has taken a write, or the reason why it has not.
    pub(super) fn note_written(&mut self, written: Result<(), String>) {
        let failure = written.err().map(|reason| {
            let since_ms = self.write_failure.as_ref().map(|failure| failure.since_ms);
            WriteFailure { reason, since_ms: since_ms.unwrap_or_else(|| self.parts.clock.unix_ms()) }
        });
        if failure != self.write_failure {
            if failure.is_none() {
                tracing::info!("the configuration can be written again");
            }
            self.write_failure = failure;
            self.show();
        }
    }
}
