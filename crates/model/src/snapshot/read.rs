//! Reading what was written into objects, each on its own and therefore several at once. Knows no other object.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use super::{Change, Object};
use crate::catalog::Catalog;
use crate::{Key, Refusal, Written, check};

/// What a key is to become.
pub(super) enum Candidate {
    /// Nothing.
    Deleted,
    /// An object that is good on its own.
    Good(Arc<Object>),
    /// What was written cannot be used.
    Bad(Written, Refusal),
}

/// Checks every change on its own, in order; many of them on several threads.
pub(super) fn all(catalog: &Catalog, changes: &[Change]) -> Vec<(Key, Candidate)> {
    let threads = threads_for(changes.len());
    if threads < 2 {
        return some(catalog, changes);
    }
    thread::scope(|scope| {
        let parts = changes.chunks(changes.len().div_ceil(threads));
        let readers: Vec<_> = parts.map(|part| scope.spawn(move || some(catalog, part))).collect();
        let mut read = Vec::with_capacity(changes.len());
        for reader in readers {
            match reader.join() {
                Ok(part) => read.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        read
    })
}

fn some(catalog: &Catalog, changes: &[Change]) -> Vec<(Key, Candidate)> {
    changes.iter().map(|change| (change.key.clone(), one(catalog, change))).collect()
}

fn one(catalog: &Catalog, change: &Change) -> Candidate {
    match &change.written {
        None => Candidate::Deleted,
        Some(written) => match read(catalog, written) {
            Ok(object) => Candidate::Good(object),
            Err(refusal) => Candidate::Bad(written.clone(), refusal),
        },
    }
}

/// Parses and checks an object on its own.
fn read(catalog: &Catalog, written: &Written) -> Result<Arc<Object>, Refusal> {
    if let Some(reason) = written.why_unreadable() {
        return Err(Refusal::single(None, "", reason));
    }
    let value = serde_json::from_str(&written.text)
        .map_err(|error| Refusal::single(None, "", format!("the text is not JSON: {error}")))?;
    let check::Checked { resource, warnings } = check::object(catalog, &written.key, &value)?;
    Ok(Arc::new(Object { written: written.clone(), resource, warnings }))
}

fn threads_for(changes: usize) -> usize {
    if changes < WORTH_A_THREAD {
        return 1;
    }
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    cores.min(changes / WORTH_A_THREAD + 1).min(MOST_THREADS)
}

/// So many changes take some ten milliseconds, beside which starting a thread is nothing.
const WORTH_A_THREAD: usize = 1000;
/// A first load on a large machine is over soon enough with these; more would only fill memory with their stacks.
const MOST_THREADS: usize = 8;
