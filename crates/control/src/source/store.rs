//! The embedded store: the text of every object under its key, a revision that only grows, durable before it
//! is acknowledged. It knows neither the meaning of the texts nor the permissions of writers.
//!
//! Many writes share one [`Transaction`] and so one fsync (group commit): the caller opens one, adds every
//! waiting write and answers all of them after [`Transaction::commit`].

mod check;
mod failures;
mod guard;
mod instance;
mod lock;
mod older;
mod record;
mod set_statement;
mod transaction;
mod versions;

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use thiserror::Error;

use guard::{Leaked, guarded};
use versions::RevisionLog;

pub(crate) use failures::write_store_metrics;
pub use guard::panic_is_expected;
pub use instance::{InstanceListener, RunningInstance};
pub(crate) use lock::make_directory;
pub use lock::{DirectoryLock, LockError};
pub use record::{RecordError, StoredRecord};
pub use set_statement::SetStatement;
pub use transaction::{Expect, Transaction};
pub use versions::{RecordChange, RevisionInfo, RevisionLabel, VersionSource};

/// The store of one data directory, open in one process and used by one thread.
#[derive(Debug)]
pub struct ConfigStore {
    path: PathBuf,
    database: Option<Leaked<Database>>,
    /// Set when the file has proved to be damaged; it is not used afterwards.
    damaged: OnceLock<()>,
    /// The format of the file; the next write raises it.
    format: u64,
    revision: u64,
    cluster_id: String,
    /// `(expiry in ms, key)` of all objects that expire, soonest first.
    expiries: BTreeSet<(u64, String)>,
    log: RevisionLog,
    _lock: DirectoryLock,
}

/// The reasons why the store cannot be opened, read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The directory cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The file is not a store of this program, or cannot be read as one.
    #[error(
        "{path} is not a usable store: {reason}. Nothing was changed; restore the file from a backup, or move it away to start with an empty store"
    )]
    Unusable {
        path: PathBuf,
        /// The fault of the file.
        reason: String,
    },
    /// The file was written by a newer version.
    #[error(
        "{path} has store format {found}, this version knows {FORMAT}: start the newer version again, or restore a backup or the copy that the newer version kept beside it ({path}.format-{FORMAT})"
    )]
    Newer {
        path: PathBuf,
        /// The format found.
        found: u64,
    },
    /// The key changed since it was read.
    #[error("value changed before overwritten")]
    Conflict,
    /// Reading or writing failed; no change of the transaction is kept.
    #[error("the store cannot be written: {0}")]
    Failed(String),
}

impl ConfigStore {
    /// Opens the store in `directory`; creates both if they do not exist.
    ///
    /// # Errors
    /// The directory is in use, or the file is foreign, damaged or of a newer format. An existing file is
    /// never reset.
    pub fn open(directory: &Path) -> Result<ConfigStore, StoreError> {
        ConfigStore::open_locked(DirectoryLock::take(directory)?)
    }

    /// As [`ConfigStore::open`], in a directory that is already locked.
    ///
    /// # Errors
    /// The file is foreign, damaged, of a newer format, or open in another process. An existing file is never
    /// reset.
    pub fn open_locked(lock: DirectoryLock) -> Result<ConfigStore, StoreError> {
        ConfigStore::open_file(lock, STORE_FILE)
    }

    /// As [`ConfigStore::open_locked`], under another file name: a second store beside the instance's own.
    ///
    /// # Errors
    /// As [`ConfigStore::open_locked`].
    pub fn open_file(lock: DirectoryLock, name: &str) -> Result<ConfigStore, StoreError> {
        let directory = lock.directory();
        let path = directory.join(name);
        if path.exists() {
            check::check_store(&path)
                .map_err(|reason| StoreError::Unusable { path: path.clone(), reason })?;
        } else {
            create(directory, &path)?;
        }
        let (database, meta) = open_database(&path)?;
        Ok(ConfigStore {
            path,
            database: Some(database),
            damaged: OnceLock::new(),
            format: meta.format,
            revision: meta.revision,
            cluster_id: meta.cluster_id,
            expiries: BTreeSet::new(),
            log: meta.log,
            _lock: lock,
        })
    }

    /// Keeps a copy of a store of an older format beside it, because the next write raises the format; does
    /// nothing to a store of the present format. To be called before the first write.
    ///
    /// # Errors
    /// The copy cannot be written, or the store cannot be opened again; nothing was changed.
    pub fn keep_older_format(&mut self) -> Result<(), StoreError> {
        if self.format == FORMAT {
            return Ok(());
        }
        let format = self.format;
        // A copy of an open file would look as if its process had crashed.
        self.close();
        let copy = older::keep_copy(&self.path, format).map_err(|error| {
            let copy = older::name_older_copy(&self.path, format);
            let (store, copy) = (self.path.display(), copy.display());
            StoreError::Failed(format!(
                "{store} has the format {format} of an older version, and its copy {copy} cannot be kept: {error}"
            ))
        })?;
        tracing::warn!(
            store = %self.path.display(),
            copy = %copy.display(),
            "the store has format {format} of an older version; a copy was kept, and the next write raises it to {FORMAT}"
        );
        self.reopen()
    }

    /// Whether `directory` has a store, usable or not.
    pub fn exists(directory: &Path) -> bool {
        directory.join(STORE_FILE).exists()
    }

    /// The revision of the last committed write; 0 in a fresh store.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// A name for this store, made at random when it was created.
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// The origin of its objects, if they are a copy.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn origin(&self) -> Result<Option<String>, StoreError> {
        let bytes = self.fact(ORIGIN)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The file of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every object, in the order of keys. Must be called once after opening, because the store learns here
    /// which objects expire.
    ///
    /// # Errors
    /// The file cannot be read, or holds a record that cannot be decoded.
    pub fn load(&mut self) -> Result<Vec<(String, StoredRecord)>, StoreError> {
        let objects = self.read_all()?;
        let expiring = objects.iter().filter_map(|(key, record)| Some((record.expires_at_ms?, key.clone())));
        self.expiries = expiring.collect();
        Ok(objects)
    }

    /// Closes the file, so that another process can open it; the lock is kept.
    pub fn close(&mut self) {
        let Some(database) = self.database.take() else { return };
        if self.damaged.get().is_some() {
            // Closing writes, based on the library's state, which is wrong for a damaged file.
            database.forget();
        } else if guarded(|| drop(database)).is_err() {
            self.note_damage();
        }
    }

    /// Opens the file again, if it is closed, with the writes and the revision of other processes.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn reopen(&mut self) -> Result<(), StoreError> {
        self.usable()?;
        if self.database.is_none() {
            let (database, meta) = open_database(&self.path)?;
            self.format = meta.format;
            // A commit that failed may have reached the disk; its revisions are not used again.
            self.revision = self.revision.max(meta.revision);
            self.log = meta.log;
            self.database = Some(database);
        }
        Ok(())
    }

    fn read_all(&self) -> Result<Vec<(String, StoredRecord)>, StoreError> {
        self.read(|read| {
            let table = Leaked::new(read.open_table(OBJECTS).map_err(|fault| self.unusable(fault))?);
            let mut objects = Vec::new();
            for entry in table.iter().map_err(|fault| self.unusable(fault))? {
                let (key, bytes) = entry.map_err(|fault| self.unusable(fault))?;
                let record = StoredRecord::decode(bytes.value())
                    .map_err(|fault| self.unusable(format!("object {}: {fault}", key.value())))?;
                objects.push((key.value().to_owned(), record));
            }
            Ok(objects)
        })
    }

    /// Reads committed data. All reading calls of the library go through this function, because they may
    /// panic over a damaged file.
    fn read<T>(
        &self,
        reading: impl FnOnce(&ReadTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.usable()?;
        let database = self.database.as_ref().ok_or_else(|| self.unusable(NOT_OPEN))?;
        let result = guarded(|| {
            let read = Leaked::new(database.begin_read().map_err(|fault| self.unusable(fault))?);
            reading(&read)
        });
        result.unwrap_or_else(|_| Err(self.note_damage()))
    }

    /// Fails when the file has proved to be damaged.
    fn usable(&self) -> Result<(), StoreError> {
        if self.damaged.get().is_some() { Err(self.unusable(DAMAGED)) } else { Ok(()) }
    }

    /// Whether the file has proved to be damaged while it was in use.
    pub fn is_damaged(&self) -> bool {
        self.damaged.get().is_some()
    }

    fn note_damage(&self) -> StoreError {
        if self.damaged.set(()).is_ok() {
            tracing::error!(path = %self.path.display(), "the store is damaged: nothing is written to it any more");
        }
        self.unusable(DAMAGED)
    }

    /// A fact about the store itself.
    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|read| {
            let table = Leaked::new(read.open_table(META).map_err(|fault| self.unusable(fault))?);
            let bytes = table.get(name).map_err(|fault| self.unusable(fault))?;
            Ok(bytes.map(|bytes| bytes.value().to_vec()))
        })
    }

    /// The bytes that [`Transaction::keep`] stored beside the objects under that name; none where there are
    /// none.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn kept(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.fact(&format!("{KEPT}{name}"))
    }

    /// Keys of objects that have expired at `now_ms`, at most `limit` of them, soonest first.
    pub fn expired(&self, now_ms: u64, limit: usize) -> Vec<String> {
        self.expiries
            .iter()
            .take_while(|(at, _)| *at <= now_ms)
            .take(limit)
            .map(|(_, key)| key.clone())
            .collect()
    }

    /// Starts a transaction. Dropping it without a commit undoes its writes.
    ///
    /// # Errors
    /// The file cannot be used. After an I/O fault (a full disk) the file is opened again, so that writes
    /// succeed once the cause is gone.
    pub fn begin(&mut self) -> Result<Transaction<'_>, StoreError> {
        self.reopen()?;
        let database = self.database.as_ref().expect("opened in the line above");
        match guarded(|| database.begin_write()) {
            Ok(Ok(write)) => Ok(Transaction::new(self, Leaked::new(write))),
            Ok(Err(fault)) => {
                self.close();
                Err(StoreError::Failed(fault.to_string()))
            }
            Err(_) => Err(self.note_damage()),
        }
    }

    fn unusable(&self, reason: impl ToString) -> StoreError {
        failures::count_store_failure();
        StoreError::Unusable { path: self.path.clone(), reason: reason.to_string() }
    }
}

impl Drop for ConfigStore {
    fn drop(&mut self) {
        self.close();
    }
}

struct StoreMeta {
    format: u64,
    revision: u64,
    cluster_id: String,
    log: RevisionLog,
}

/// Creates the file under another name and renames it, so that a crash in between leaves no incomplete store,
/// and an empty file under the store's name is always foreign.
fn create(directory: &Path, path: &Path) -> Result<(), StoreError> {
    let unfinished = path.with_extension(UNFINISHED_EXTENSION);
    let made = || -> Result<(), StoreError> {
        match std::fs::remove_file(&unfinished) {
            Err(fault) if fault.kind() != io::ErrorKind::NotFound => return Err(failed(fault)),
            _ => {}
        }
        let mut random = [0; CLUSTER_ID_BYTES];
        getrandom::fill(&mut random).map_err(failed)?;
        let cluster_id: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let database = builder().create(&unfinished).map_err(failed)?;
        // Objects hold credentials of consumers and upstreams.
        std::fs::set_permissions(&unfinished, Permissions::from_mode(0o600)).map_err(failed)?;
        let write = database.begin_write().map_err(failed)?;
        write.open_table(OBJECTS).map_err(failed)?;
        put_number(&write, FORMAT_VERSION, FORMAT)?;
        put_number(&write, REVISION, 0)?;
        put_bytes(&write, APPLICATION, APPLICATION_ID)?;
        put_bytes(&write, CLUSTER, cluster_id.as_bytes())?;
        write.commit().map_err(failed)?;
        drop(database);
        std::fs::rename(&unfinished, path).map_err(failed)?;
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
    };
    made().map_err(|fault| StoreError::Unusable { path: path.to_owned(), reason: fault.to_string() })
}

fn open_database(path: &Path) -> Result<(Leaked<Database>, StoreMeta), StoreError> {
    let unusable = |reason: String| StoreError::Unusable { path: path.to_owned(), reason };
    let opened = guarded(|| {
        let database = Leaked::new(builder().open(path).map_err(|fault| unusable(fault.to_string()))?);
        let meta = read_meta(path, &database)?;
        Ok((database, meta))
    });
    opened.unwrap_or_else(|_| Err(unusable(DAMAGED.to_owned())))
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn read_meta(path: &Path, database: &Database) -> Result<StoreMeta, StoreError> {
    let unusable = |reason: String| StoreError::Unusable { path: path.to_owned(), reason };
    let read = Leaked::new(database.begin_read().map_err(|fault| unusable(fault.to_string()))?);
    let table = read.open_table(META).map_err(|_| unusable("it belongs to another program".to_owned()))?;
    let table = Leaked::new(table);
    let bytes = |name: &str| -> Result<Vec<u8>, StoreError> {
        let found = table.get(name).map_err(|fault| unusable(fault.to_string()))?;
        found.map(|value| value.value().to_vec()).ok_or_else(|| unusable(format!("it has no `{name}`")))
    };
    let number = |name: &str| -> Result<u64, StoreError> {
        let bytes = bytes(name)?;
        let array = bytes.try_into().map_err(|_| unusable(format!("its `{name}` is not a number")))?;
        Ok(u64::from_le_bytes(array))
    };
    if bytes(APPLICATION)? != APPLICATION_ID {
        return Err(unusable("it belongs to another program".to_owned()));
    }
    let format = number(FORMAT_VERSION)?;
    if !(FORMAT_WITHOUT_CHECKSUMS..=FORMAT).contains(&format) {
        return Err(StoreError::Newer { path: path.to_owned(), found: format });
    }
    let revision = number(REVISION)?;
    let log = RevisionLog::read(&read, number(LOGGED).ok(), revision)
        .map_err(|fault| unusable(fault.to_string()))?;
    Ok(StoreMeta {
        format,
        revision,
        cluster_id: String::from_utf8_lossy(&bytes(CLUSTER)?).into_owned(),
        log,
    })
}

fn put_number(write: &WriteTransaction, name: &str, value: u64) -> Result<(), StoreError> {
    put_bytes(write, name, &value.to_le_bytes())
}

fn put_bytes(write: &WriteTransaction, name: &str, value: &[u8]) -> Result<(), StoreError> {
    let mut table = write.open_table(META).map_err(failed)?;
    table.insert(name, value).map_err(failed)?;
    Ok(())
}

fn failed(fault: impl ToString) -> StoreError {
    StoreError::Failed(fault.to_string())
}

/// Memory for pages of the store. The library's default is a gigabyte: it would hold all objects a second
/// time, and every kept revision. Requests use the compiled configuration, so that the store is read only at
/// the start and around writes.
const CACHE_BYTES: usize = 8 << 20;
/// Name of the store in the data directory.
const STORE_FILE: &str = "store.redb";
/// Extension of a store that is not complete yet.
const UNFINISHED_EXTENSION: &str = "redb.unfinished";
/// Key text → [`StoredRecord`].
const OBJECTS: TableDefinition<&str, &[u8]> = TableDefinition::new("objects");
/// Facts about the store itself.
const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
const FORMAT_VERSION: &str = "format";
const REVISION: &str = "revision";
/// The revision up to which changes were recorded. A version of Weir that records none does not update it.
const LOGGED: &str = "logged";
/// Prefix of the names of data that is kept beside the objects.
const KEPT: &str = "kept/";
const CLUSTER: &str = "cluster_id";
const APPLICATION: &str = "application";
/// The origin of the objects of a copy.
const ORIGIN: &str = "origin";
/// Distinguishes our files from those of other programs that use the same library.
const APPLICATION_ID: &[u8] = b"weir-store";
/// The format that is written: each record carries a checksum.
const FORMAT: u64 = 2;
/// The oldest format that is read. Its records get checksums when they are written again.
const FORMAT_WITHOUT_CHECKSUMS: u64 = 1;
/// 128 random bits, so that two stores never have the same id.
const CLUSTER_ID_BYTES: usize = 16;
const DAMAGED: &str = "its pages are damaged";
const NOT_OPEN: &str = "an earlier fault closed it";

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod tests;
