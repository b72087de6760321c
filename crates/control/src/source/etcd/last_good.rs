//! A copy of etcd's data on this instance's disk, from which an instance starts while its etcd is down. It is
//! written before the data comes into force, so that an instance never starts with an older state than it has
//! served. It does not know the objects.

use std::collections::HashMap;
use std::path::Path;

use super::EtcdEntry;
use crate::source::store::{ConfigStore, DirectoryLock, StoreError, StoredRecord};

/// The copy on disk.
#[derive(Debug)]
pub struct LastGood {
    /// None while there is no file to write.
    store: Option<ConfigStore>,
    /// None after another process has taken over the copy.
    lock: Option<DirectoryLock>,
    origin: CopySource,
    /// Whether the copy lacks changes that the disk did not take.
    lacks_changes: bool,
}

/// The origin of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CopySource {
    prefix: String,
    cluster_id: u64,
}

/// The content of the copy on disk.
#[derive(Debug, Default)]
pub struct EtcdCopy {
    /// The revision of etcd; 0 where the copy is empty.
    pub revision: u64,
    pub entries: Vec<EtcdEntry>,
}

impl LastGood {
    /// Whether a copy lies in `directory`, usable or not.
    pub fn exists(directory: &Path) -> bool {
        directory.join(FILE).exists()
    }

    /// Opens the copy in a data directory, or creates it. A copy of another prefix is emptied; one that
    /// cannot be used is renamed.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn open(lock: &DirectoryLock, prefix: &str) -> Result<(LastGood, EtcdCopy), StoreError> {
        match LastGood::open_existing(lock, prefix) {
            Ok(opened) => Ok(opened),
            Err(fault @ StoreError::Unusable { .. }) => {
                put_aside(lock.directory(), &fault)?;
                LastGood::open_existing(lock, prefix)
            }
            Err(fault) => Err(fault),
        }
    }

    fn open_existing(lock: &DirectoryLock, prefix: &str) -> Result<(LastGood, EtcdCopy), StoreError> {
        let mut store = ConfigStore::open_file(lock.try_clone().map_err(failed)?, FILE)?;
        let entries = store.load()?;
        let origin = store.origin()?.as_deref().and_then(CopySource::parse);
        let is_ours = origin.as_ref().is_some_and(|origin| origin.prefix == prefix);
        let kept =
            if is_ours { EtcdCopy { revision: store.revision(), entries } } else { EtcdCopy::default() };
        let cluster_id = origin.filter(|_| is_ours).map_or(0, |origin| origin.cluster_id);
        let origin = CopySource { prefix: prefix.to_owned(), cluster_id };
        let lock = Some(lock.try_clone().map_err(failed)?);
        Ok((LastGood { store: Some(store), lock, origin, lacks_changes: false }, kept))
    }

    /// The cluster of the copied data; 0 before the first copy.
    pub fn cluster_id(&self) -> u64 {
        self.origin.cluster_id
    }

    /// Whether the copy lacks changes, so that it must be replaced as a whole before further changes.
    pub fn lacks_changes(&self) -> bool {
        self.lacks_changes
    }

    /// Makes the copy equal to the data of etcd at a revision.
    ///
    /// # Errors
    /// The disk does not take it; the copy is unchanged.
    pub fn replace(
        &mut self,
        revision: u64,
        cluster_id: u64,
        entries: &[EtcdEntry],
    ) -> Result<(), StoreError> {
        let mut replaced = self.try_replace(revision, cluster_id, entries);
        if let Err(fault) = &replaced
            && self.store.as_ref().is_none_or(ConfigStore::is_damaged)
        {
            replaced = self.begin_anew(fault).and_then(|()| self.try_replace(revision, cluster_id, entries));
        }
        self.lacks_changes = replaced.is_err();
        replaced
    }

    fn try_replace(
        &mut self,
        revision: u64,
        cluster_id: u64,
        entries: &[EtcdEntry],
    ) -> Result<(), StoreError> {
        if self.lock.is_none() {
            return Ok(());
        }
        let store = self.store.as_mut().ok_or_else(no_copy)?;
        store.reopen()?;
        let mut gone: HashMap<String, StoredRecord> = store.load()?.into_iter().collect();
        self.origin.cluster_id = cluster_id;
        let origin = self.origin.text();
        let mut transaction = store.begin()?;
        for (path, record) in entries {
            if gone.remove(path).as_ref() != Some(record) {
                transaction.copy(path, record)?;
            }
        }
        for path in gone.keys() {
            transaction.delete(path)?;
        }
        transaction.copy_origin(&origin)?;
        transaction.copy_revision(revision);
        transaction.commit().map(drop)
    }

    /// Applies the changes up to a revision; a change without a record removes the key.
    ///
    /// # Errors
    /// The disk does not take it, or did not take an earlier change: the copy stays at an earlier revision of
    /// etcd.
    pub fn change<'a>(
        &mut self,
        revision: u64,
        changes: impl Iterator<Item = (&'a str, Option<&'a StoredRecord>)>,
    ) -> Result<(), StoreError> {
        if self.lacks_changes {
            return Err(StoreError::Failed("it lacks earlier changes and is made anew soon".to_owned()));
        }
        let changed = self.try_change(revision, changes);
        self.lacks_changes = changed.is_err();
        changed
    }

    fn try_change<'a>(
        &mut self,
        revision: u64,
        changes: impl Iterator<Item = (&'a str, Option<&'a StoredRecord>)>,
    ) -> Result<(), StoreError> {
        if self.lock.is_none() {
            return Ok(());
        }
        let store = self.store.as_mut().ok_or_else(no_copy)?;
        let mut transaction = store.begin()?;
        for (path, record) in changes {
            match record {
                Some(record) => transaction.copy(path, record)?,
                None => drop(transaction.delete(path)?),
            }
        }
        transaction.copy_revision(revision);
        transaction.commit().map(drop)
    }

    /// Closes the file, so that another process can open it.
    pub fn close(&mut self) {
        if let Some(store) = &mut self.store {
            store.close();
        }
    }

    /// Renames a damaged copy and creates an empty one. etcd still has all of its objects.
    fn begin_anew(&mut self, fault: &StoreError) -> Result<(), StoreError> {
        let Some(lock) = &self.lock else { return Ok(()) };
        if self.store.take().is_some() {
            put_aside(lock.directory(), fault)?;
        }
        self.store = Some(ConfigStore::open_file(lock.try_clone().map_err(failed)?, FILE)?);
        Ok(())
    }

    /// Leaves the copy to another process: later changes are accepted and not written.
    pub fn give_away(&mut self) {
        self.store = None;
        self.lock = None;
    }
}

/// Renames a copy that cannot be used, so that users can inspect it. Takes the first free name of
/// [`ASIDE_MAX`] names.
fn put_aside(directory: &Path, fault: &StoreError) -> Result<(), StoreError> {
    let name = |number: usize| match number {
        1 => directory.join(format!("{FILE}.unusable")),
        number => directory.join(format!("{FILE}.unusable.{number}")),
    };
    let number = (1..ASIDE_MAX).find(|number| !name(*number).exists()).unwrap_or(ASIDE_MAX);
    let aside = name(number);
    tracing::error!(%fault, aside = %aside.display(), "the copy of etcd's data is put aside; etcd has everything that was in it");
    std::fs::rename(directory.join(FILE), &aside).map_err(failed)
}

fn no_copy() -> StoreError {
    StoreError::Failed("there is no copy; it is made anew soon".to_owned())
}

fn failed(fault: std::io::Error) -> StoreError {
    StoreError::Failed(fault.to_string())
}

impl CopySource {
    fn text(&self) -> String {
        format!("{:016x} {}", self.cluster_id, self.prefix)
    }

    fn parse(text: &str) -> Option<CopySource> {
        let (cluster_id, prefix) = text.split_once(' ')?;
        Some(CopySource { cluster_id: u64::from_str_radix(cluster_id, 16).ok()?, prefix: prefix.to_owned() })
    }
}

/// The copy's file in the data directory.
const FILE: &str = "etcd.redb";
/// Limit of renamed copies; the last name is used again, so that a failing disk does not fill with copies.
const ASIDE_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, text: &str, index: u64) -> EtcdEntry {
        let record = StoredRecord {
            text: text.to_owned(),
            created_index: index,
            modified_index: index,
            expires_at_ms: None,
        };
        (path.to_owned(), record)
    }

    #[test]
    fn written_copy_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::take(folder.path()).unwrap();
        let open = |prefix: &str| LastGood::open(&lock, prefix).unwrap();
        let (mut copy, kept) = open("/apisix");
        assert_eq!((kept.revision, kept.entries.len(), copy.cluster_id()), (0, 0, 0));
        copy.replace(7, 0xc1, &[entry("routes/1", "{}", 3), entry("routes/2", "{}", 7)]).unwrap();
        let (_, second) = entry("routes/1", "{\"a\":1}", 9);
        copy.change(9, [("routes/1", Some(&second)), ("routes/2", None)].into_iter()).unwrap();
        drop(copy);
        let (mut copy, kept) = open("/apisix");
        assert_eq!((kept.revision, copy.cluster_id()), (9, 0xc1));
        assert_eq!(kept.entries, [("routes/1".to_owned(), second)]);
        // Older data that was adopted.
        copy.replace(4, 0xc2, &[entry("routes/3", "{}", 4)]).unwrap();
        drop(copy);
        let (copy, kept) = open("/apisix");
        assert_eq!((kept.revision, kept.entries.len(), copy.cluster_id()), (4, 1, 0xc2));
        drop(copy);
        let (copy, kept) = open("/other");
        assert_eq!((kept.revision, kept.entries.len(), copy.cluster_id()), (0, 0, 0), "of another prefix");
    }

    #[test]
    fn copy_that_lacks_a_change_refuses_later_ones() {
        let folder = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::take(folder.path()).unwrap();
        let (mut copy, _) = LastGood::open(&lock, "/apisix").unwrap();
        let (_, record) = entry("routes/1", "{}", 3);
        copy.lacks_changes = true;
        assert!(copy.change(3, [("routes/1", Some(&record))].into_iter()).is_err());
        copy.replace(3, 1, &[entry("routes/1", "{}", 3)]).unwrap();
        copy.change(4, [("routes/1", None)].into_iter()).unwrap();
        assert!(!copy.lacks_changes());
    }

    #[test]
    fn damaged_copy_is_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::take(folder.path()).unwrap();
        std::fs::write(folder.path().join(FILE), "no store").unwrap();
        let (_, kept) = LastGood::open(&lock, "/apisix").unwrap();
        assert_eq!(kept.revision, 0);
        assert!(folder.path().join("etcd.redb.unusable").exists());
    }
}
