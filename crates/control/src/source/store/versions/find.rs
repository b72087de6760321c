//! Looking things up among the kept revisions: the revisions of one object, an object as it was, and the
//! difference of two revisions. It changes nothing.

use std::collections::BTreeSet;

use super::{RecordChange, RevisionInfo, UNDO, VERSIONS, opened, undone};
use crate::source::store::guard::Leaked;
use crate::source::store::{ConfigStore, OBJECTS, StoreError, StoredRecord, failed};

impl ConfigStore {
    /// The revisions below `below` that pass the filter, newest first, at most `limit` of them. With a key,
    /// only those that changed the object with that key.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn versions_with(
        &self,
        below: u64,
        limit: usize,
        key: Option<&str>,
        admits: &dyn Fn(&RevisionInfo) -> bool,
    ) -> Result<Vec<RevisionInfo>, StoreError> {
        if self.log.latest.is_none() {
            return Ok(Vec::new());
        }
        self.read(|read| {
            let Some(heads) = opened(read.open_table(VERSIONS))? else { return Ok(Vec::new()) };
            let heads = Leaked::new(heads);
            let undo = opened(read.open_table(UNDO))?.map(Leaked::new);
            let mut found = Vec::new();
            for row in heads.range(..below).map_err(failed)?.rev() {
                if found.len() == limit {
                    break;
                }
                let (revision, bytes) = row.map_err(failed)?;
                let version = RevisionInfo::decode(revision.value(), bytes.value())?;
                if !admits(&version) {
                    continue;
                }
                if let Some(key) = key {
                    let Some(undo) = &undo else { continue };
                    if undo.get((version.revision, key)).map_err(failed)?.is_none() {
                        continue;
                    }
                }
                found.push(version);
            }
            Ok(found)
        })
    }

    /// The record of a key at `revision`, where the inner none means that it did not exist; none where that
    /// revision is not kept.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn object_at(&self, revision: u64, key: &str) -> Result<Option<Option<StoredRecord>>, StoreError> {
        if revision < self.oldest_version() || revision > self.revision {
            return Ok(None);
        }
        let record = self.read(|read| {
            let heads = opened(read.open_table(VERSIONS))?.map(Leaked::new);
            let undo = opened(read.open_table(UNDO))?.map(Leaked::new);
            if let (Some(heads), Some(undo)) = (&heads, &undo) {
                for row in heads.range(revision.saturating_add(1)..).map_err(failed)? {
                    let (later, _) = row.map_err(failed)?;
                    // The first later change recorded the object as it was before.
                    if let Some(bytes) = undo.get((later.value(), key)).map_err(failed)? {
                        return match bytes.value() {
                            [] => Ok(None),
                            bytes => StoredRecord::decode(bytes).map(Some).map_err(failed),
                        };
                    }
                }
            }
            let objects = Leaked::new(read.open_table(OBJECTS).map_err(failed)?);
            let bytes = objects.get(key).map_err(failed)?;
            bytes.map(|bytes| StoredRecord::decode(bytes.value()).map_err(failed)).transpose()
        });
        record.map(Some)
    }

    /// Every key that was changed between two kept revisions, in either order, with its records at `from` and
    /// at `to`, ordered by key; an error with the revision that is not kept.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn between(&self, from: u64, to: u64) -> Result<Result<Vec<RecordChange>, u64>, StoreError> {
        for revision in [from, to] {
            if revision < self.oldest_version() || revision > self.revision {
                return Ok(Err(revision));
            }
        }
        let (first, last) = (from.min(to), from.max(to));
        let changed = self.read(|read| {
            let objects = Leaked::new(read.open_table(OBJECTS).map_err(failed)?);
            let at_first = undone(read, first + 1..=last)?;
            let mut since_last = undone(read, last.saturating_add(1)..=self.revision)?;
            let keys: BTreeSet<&String> = at_first.keys().collect();
            let mut changed = Vec::with_capacity(keys.len());
            for key in keys {
                let later = match since_last.remove(key) {
                    Some(record) => record,
                    None => {
                        let bytes = objects.get(key.as_str()).map_err(failed)?;
                        bytes.map(|bytes| StoredRecord::decode(bytes.value()).map_err(failed)).transpose()?
                    }
                };
                let earlier = at_first.get(key).cloned().flatten();
                let (before, after) = if from <= to { (earlier, later) } else { (later, earlier) };
                changed.push(RecordChange { key: key.clone(), before, after });
            }
            Ok(changed)
        });
        changed.map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::store::{Expect, RevisionLabel, VersionSource};

    /// A store with the revisions 1 to 4: `a` is written, `b` is written, `a` is changed, `b` is removed.
    fn store(directory: &std::path::Path) -> ConfigStore {
        let mut store = ConfigStore::open(directory).unwrap();
        let steps: [(&str, Option<&str>, &str); 4] = [
            ("routes/a", Some("1"), "ana (::1)"),
            ("routes/b", Some("2"), "ben"),
            ("routes/a", Some("3"), "ben"),
            ("routes/b", None, "Ana"),
        ];
        for (index, (key, text, by)) in steps.into_iter().enumerate() {
            let mut transaction = store.begin().unwrap();
            let at_ms = 1000 * (index as u64 + 1);
            transaction.sign(RevisionLabel { at_ms, source: VersionSource::Admin, by: by.into() });
            transaction.advance();
            match text {
                Some(text) => drop(transaction.put(key, text, Expect::Any, None).unwrap()),
                None => drop(transaction.delete(key).unwrap()),
            }
            transaction.commit().unwrap();
        }
        store
    }

    #[test]
    fn revisions_are_found_by_object_and_filter() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
        let check = |below: u64, limit: usize, key: Option<&str>, since: u64, expected: &[u64]| {
            let found =
                store.versions_with(below, limit, key, &|version| version.label.at_ms >= since).unwrap();
            let found: Vec<u64> = found.iter().map(|version| version.revision).collect();
            assert_eq!(found, expected, "{below} {limit} {key:?} {since}");
        };
        check(u64::MAX, 10, None, 0, &[4, 3, 2, 1]);
        check(u64::MAX, 10, Some("routes/a"), 0, &[3, 1]);
        check(u64::MAX, 1, Some("routes/a"), 0, &[3]);
        check(3, 10, Some("routes/a"), 0, &[1]);
        check(u64::MAX, 10, Some("routes/b"), 3000, &[4]);
        check(u64::MAX, 10, Some("routes/none"), 0, &[]);
        check(u64::MAX, 0, None, 0, &[]);
    }

    #[test]
    fn object_is_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
        let check = |revision: u64, key: &str, expected: Option<Option<&str>>| {
            let found = store.object_at(revision, key).unwrap();
            let found = found.as_ref().map(|found| found.as_ref().map(|record| record.text.as_str()));
            assert_eq!(found, expected, "{revision} {key}");
        };
        check(0, "routes/a", Some(None));
        check(1, "routes/a", Some(Some("1")));
        check(2, "routes/a", Some(Some("1")));
        check(3, "routes/a", Some(Some("3")));
        check(4, "routes/a", Some(Some("3")));
        check(3, "routes/b", Some(Some("2")));
        check(4, "routes/b", Some(None));
        check(5, "routes/a", None);
    }

    #[test]
    fn difference_of_two_revisions_has_both_sides() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
        let check = |from: u64, to: u64, expected: &[(&str, Option<&str>, Option<&str>)]| {
            let found = store.between(from, to).unwrap().unwrap();
            let text = |record: &Option<StoredRecord>| record.as_ref().map(|record| record.text.clone());
            let found: Vec<_> = found
                .iter()
                .map(|changed| (changed.key.clone(), text(&changed.before), text(&changed.after)))
                .collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|(key, before, after)| {
                    ((*key).to_owned(), before.map(str::to_owned), after.map(str::to_owned))
                })
                .collect();
            assert_eq!(found, expected, "{from} {to}");
        };
        check(1, 3, &[("routes/a", Some("1"), Some("3")), ("routes/b", None, Some("2"))]);
        check(3, 1, &[("routes/a", Some("3"), Some("1")), ("routes/b", Some("2"), None)]);
        check(2, 4, &[("routes/a", Some("1"), Some("3")), ("routes/b", Some("2"), None)]);
        check(4, 4, &[]);
        assert_eq!(store.between(1, 5).unwrap(), Err(5));
    }
}
