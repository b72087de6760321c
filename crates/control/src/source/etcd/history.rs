//! The history that etcd has: its own old revisions, until they are compacted, and notes about the author of
//! each change, among Weir's own keys, which other programs do not read. It does not know the meaning of the
//! objects.

use std::cmp::Reverse;

use jsonx::Bounds;
use outbound::etcd::message::{RangeRequest, RangeResponse, SortOrder, SortTarget};
use outbound::etcd::range::RANGE;
use serde::{Deserialize, Serialize};

use super::load::load_at;
use super::message::{DeleteRangeRequest, DeleteRangeResponse};
use super::write::{EtcdOperation, Expected, KeyPrefix};
use super::{Etcd, EtcdEntry, EtcdError, KeySpace, own_place};
use crate::source::store::{RevisionInfo, RevisionLabel, StoredRecord, VersionSource};

/// The note about one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The revision with its author and time.
    pub version: RevisionInfo,
    /// The paths of the objects it changed.
    pub paths: Vec<String>,
}

/// A note in the form of its value in etcd.
#[derive(Debug, Serialize, Deserialize)]
struct NoteValue {
    at_ms: u64,
    source: VersionSource,
    by: String,
    paths: Vec<String>,
}

/// The operation that writes a note about a change of these objects, in the same transaction as the change.
pub(crate) fn build_note_operation(
    label: &RevisionLabel,
    paths: impl Iterator<Item = String>,
) -> EtcdOperation {
    let written = NoteValue {
        at_ms: label.at_ms,
        source: label.source,
        by: label.by.as_ref().to_owned(),
        paths: paths.collect(),
    };
    // The key has a random part, because two instances may write in the same millisecond.
    let mut random = [0; 8];
    // Without random bytes the worst case is that one of two such writes is refused and repeated a
    // millisecond later.
    let _ = getrandom::fill(&mut random);
    EtcdOperation {
        path: format!("versions/{:020}-{:016x}", label.at_ms, u64::from_le_bytes(random)),
        place: KeyPrefix::Own,
        text: Some(serde_json::to_string(&written).expect("texts and numbers serialize")),
        expect: Expected::At(0),
        ttl_s: None,
    }
}

impl Etcd {
    /// The noted revisions below `below`, newest first, at most `limit` of them.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub async fn notes(&self, space: &KeySpace, below: u64, limit: usize) -> Result<Vec<Note>, EtcdError> {
        let mut notes = Vec::new();
        // In both, because etcd may have granted more, or less, before.
        for place in [own_place::beside(space.prefix()), own_place::build_own_prefix(space.prefix())] {
            match self.notes_below(&place, below, limit).await {
                Ok(others) => notes.extend(others),
                Err(error) if error.is_denied() => {}
                Err(error) => return Err(error),
            }
        }
        notes.sort_by_key(|note| Reverse(note.version.revision));
        notes.dedup_by_key(|note| note.version.revision);
        notes.truncate(limit);
        Ok(notes)
    }

    async fn notes_below(&self, own: &str, below: u64, limit: usize) -> Result<Vec<Note>, EtcdError> {
        let (key, range_end) = versions_of(own);
        let request = RangeRequest {
            key,
            range_end,
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            max_create_revision: i64::try_from(below.saturating_sub(1)).unwrap_or(i64::MAX).max(1),
            sort_order: SortOrder::Descend as i32,
            sort_target: SortTarget::Create as i32,
            ..RangeRequest::default()
        };
        let answer: RangeResponse = self.calls.call(RANGE, request).await?;
        let read = |kv: outbound::etcd::message::KeyValue| {
            let written: NoteValue = jsonx::read(&kv.value, Bounds::DEFAULT).ok()?;
            let revision = kv.create_revision.unsigned_abs();
            let label = RevisionLabel { at_ms: written.at_ms, source: written.source, by: written.by.into() };
            let objects = u32::try_from(written.paths.len()).unwrap_or(u32::MAX);
            let version = RevisionInfo::external(revision, revision.saturating_sub(1), label, objects);
            Some(Note { version, paths: written.paths })
        };
        // Other programs may have written values that are no notes.
        Ok(answer.kvs.into_iter().filter_map(read).collect())
    }

    /// All objects below the prefix at a revision, without those that have a time to live.
    ///
    /// # Errors
    /// [`EtcdError::Compacted`] where etcd no longer has it.
    pub async fn at(&self, space: &KeySpace, revision: u64) -> Result<Vec<EtcdEntry>, EtcdError> {
        let set = load_at(self, space, revision).await?;
        Ok(set.entries.into_iter().filter(|(path, _)| !set.leased.contains(path)).collect())
    }

    /// One object at a revision.
    ///
    /// # Errors
    /// [`EtcdError::Compacted`] where etcd no longer has it.
    pub async fn object_at(
        &self,
        space: &KeySpace,
        path: &str,
        revision: u64,
    ) -> Result<Option<StoredRecord>, EtcdError> {
        let request = RangeRequest {
            key: space.key(path),
            revision: i64::try_from(revision).unwrap_or(i64::MAX),
            ..RangeRequest::default()
        };
        let answer: RangeResponse = self.calls.call(RANGE, request).await?;
        Ok(answer.kvs.into_iter().find_map(|kv| space.record(kv)))
    }

    /// Whether etcd still has a revision.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub async fn knows(&self, space: &KeySpace, revision: u64) -> Result<bool, EtcdError> {
        match self.object_at(space, "", revision).await {
            Ok(_) => Ok(true),
            Err(EtcdError::Compacted) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the oldest notes beyond those that are kept.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub async fn forget_oldest(&self, space: &KeySpace) -> Result<(), EtcdError> {
        let (first, range_end) = versions_of(&self.own_prefix(space.prefix()).await?);
        let count = RangeRequest {
            key: first.clone(),
            range_end: range_end.clone(),
            count_only: true,
            ..RangeRequest::default()
        };
        let answer: RangeResponse = self.calls.call(RANGE, count).await?;
        let beyond = answer.count.saturating_sub(NOTES_KEPT);
        if beyond <= 0 {
            return Ok(());
        }
        // Keys begin with the time, so that the oldest are first.
        let oldest = RangeRequest {
            key: first.clone(),
            range_end,
            limit: beyond + 1,
            keys_only: true,
            ..RangeRequest::default()
        };
        let answer: RangeResponse = self.calls.call(RANGE, oldest).await?;
        let Some(kept) = answer.kvs.into_iter().next_back() else { return Ok(()) };
        let gone = DeleteRangeRequest { key: first, range_end: kept.key };
        let _: DeleteRangeResponse = self.calls.call("/etcdserverpb.KV/DeleteRange", gone).await?;
        Ok(())
    }
}

/// The first key of the notes below the prefix of own keys, and the key after the last one.
fn versions_of(own: &str) -> (Vec<u8>, Vec<u8>) {
    KeySpace::new(&format!("{own}/versions")).range()
}

/// Limit of notes: some hundred bytes each, all of which etcd holds in memory.
const NOTES_KEPT: i64 = 1_000;
