//! The change that puts an object in force as the store or etcd holds it. It reads neither.

use std::borrow::Cow;

use model::{ObjectKey, SnapshotChange, WrittenObject};

use crate::sealing::{Sealer, StorageMedium};
use crate::source::store::StoredRecord;

/// The change that puts a stored object in force, its secrets decrypted. If they cannot be decrypted, the
/// object is faulty.
pub(crate) fn stored_change(
    sealer: &Sealer,
    medium: StorageMedium,
    key: ObjectKey,
    record: StoredRecord,
) -> SnapshotChange {
    let text = match sealer.open_from(medium, &key, &record.text) {
        Ok(Cow::Borrowed(_)) => record.text.into(),
        Ok(Cow::Owned(opened)) => opened.into(),
        Err(reason) => WrittenObject::unreadable_json(&reason.to_string(), Sealer::json_of(&record.text)),
    };
    let written = WrittenObject {
        key: key.clone(),
        text,
        created_index: record.created_index,
        modified_index: record.modified_index,
    };
    SnapshotChange { key, written: Some(written) }
}
