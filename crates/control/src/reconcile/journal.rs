//! The trait of the place that the writes of one batch go to. It does not know contents and permissions.

use model::ObjectKey;

use crate::source::store::{Expect, StoreError};

/// The revisions of a written object.
pub(super) struct Indices {
    pub(super) created: u64,
    pub(super) modified: u64,
}

/// One put, with the known revisions of the object that it replaces.
pub(super) struct JournalPut<'p> {
    pub(super) key: &'p ObjectKey,
    pub(super) text: &'p str,
    /// Revisions of the object as the writer sees it; none: the object is new.
    pub(super) before: Option<Indices>,
    /// The condition for the object that is replaced.
    pub(super) expect: Expect,
    /// Seconds until the object expires.
    pub(super) ttl_s: Option<f64>,
    pub(super) now_ms: u64,
}

/// Where the writes of one batch go: into a transaction, or into a list of operations for later.
pub(super) trait Journal {
    /// The next revision. Every single write takes one.
    fn advance(&mut self) -> u64;

    /// A number for a new object that no other object has or will get.
    ///
    /// # Errors
    /// The source cannot be asked.
    fn new_id(&mut self) -> Result<u64, StoreError>;

    /// Writes one object under the current revision.
    ///
    /// # Errors
    /// The object is not as expected. A source that several instances write may know that only afterwards.
    fn put(&mut self, put: &JournalPut<'_>) -> Result<Indices, StoreError>;

    /// Removes one object; `before` has its known revisions.
    ///
    /// # Errors
    /// As [`Journal::put`].
    fn delete(&mut self, path: &str, before: Option<&Indices>) -> Result<(), StoreError>;

    /// How many operations are planned so far, where they are only planned.
    fn planned(&self) -> usize {
        0
    }

    /// Drops the operations planned after the first `count`.
    fn take_back(&mut self, _count: usize) {}
}
