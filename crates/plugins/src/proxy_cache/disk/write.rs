//! Writes an entry: into a file beside the others, which gets its name when it is complete, so that a half of
//! one is never read. The thread of the zone does it, in the order in which pieces come.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest;
use message::Headers;
use parking_lot::Mutex;

use super::super::entry::{CacheEntry, CachedBody, EntryTimes};
use super::super::fill::Filling;
use super::super::flight::Leader;
use super::super::zone::Zone;
use super::format::{FileHead, Preamble};
use super::{DiskFile, DiskStore, PIECE_BYTES};

/// Where an entry goes in a zone.
#[derive(Clone)]
pub(in super::super) struct EntryDestination {
    pub(in super::super) zone: Arc<Zone>,
    pub(in super::super) key: Arc<[u8]>,
    pub(in super::super) fields: Box<[Box<str>]>,
    pub(in super::super) signature: Vec<u8>,
}

/// An entry that is being written.
pub(in super::super) struct DiskFill {
    store: Arc<DiskStore>,
    head: Vec<u8>,
    /// Bytes that the thread does not have yet.
    held: Vec<u8>,
    length: u64,
    filling: Arc<Filling>,
    /// Of the thread; none while everything fits in `held`.
    part: Option<Arc<Mutex<PartialFile>>>,
}

/// A file that is not complete.
struct PartialFile {
    path: PathBuf,
    body_offset: u32,
    /// None after a failure.
    file: Option<File>,
    /// Counts until the file is complete or removed.
    _filling: Arc<Filling>,
}

impl EntryDestination {
    /// The response cannot be stored: requests that wait for it go on side by side, and so do the next ones.
    pub(in super::super) fn fail(&self, leader: Option<Leader>) {
        self.zone.pass_unless_stored(&self.key);
        if let Some(leader) = leader {
            leader.pass();
        }
    }

    fn head(&self, entry: &CacheEntry) -> FileHead {
        FileHead {
            key: self.key.to_vec(),
            fields: self.fields.to_vec(),
            signature: self.signature.clone(),
            status: entry.status,
            times: entry.times,
            headers: entry.headers.clone(),
        }
    }

    /// The name of a file, in its folders: the digest of the key, and a number that no other file has.
    fn name(&self, levels: &[usize]) -> PathBuf {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&self.key);
        context.update(&self.signature);
        let digest = data_encoding::HEXLOWER.encode(&context.finish().as_ref()[..16]);
        let (mut path, mut end) = (PathBuf::new(), digest.len());
        for level in levels {
            path.push(&digest[end - level..end]);
            end -= level;
        }
        path.push(format!("{digest}-{:016x}", fastrand::u64(..)));
        path
    }
}

impl DiskFill {
    /// Begins to write an entry with this head.
    pub(in super::super) fn new(
        store: &Arc<DiskStore>,
        destination: &EntryDestination,
        status: u16,
        headers: &Headers,
        times: EntryTimes,
    ) -> DiskFill {
        let head = FileHead {
            key: destination.key.to_vec(),
            fields: destination.fields.to_vec(),
            signature: destination.signature.clone(),
            status,
            times,
            headers: headers.clone(),
        };
        DiskFill {
            store: store.clone(),
            head: head.bytes(),
            held: Vec::new(),
            length: 0,
            filling: Arc::new(Filling::new(&destination.zone)),
            part: None,
        }
    }

    /// Takes bytes of the body; false if it cannot be stored.
    pub(in super::super) fn piece(&mut self, bytes: &[u8]) -> bool {
        let is_full = !self.held.is_empty() && self.held.len() + bytes.len() > PIECE_BYTES;
        if is_full && !self.hand_over() || !self.filling.take(bytes.len() as u64) {
            return false;
        }
        self.length += bytes.len() as u64;
        self.held.extend_from_slice(bytes);
        true
    }

    /// Gives the bytes so far to the thread; false if it has too many already.
    fn hand_over(&mut self) -> bool {
        if !self.store.take_queue(self.held.len() as u64) {
            return false;
        }
        let is_first = self.part.is_none();
        let part = self.part.get_or_insert_with(|| {
            let body_offset = Preamble::new(&self.head, None, 0).body_offset;
            let path = self.store.temporary().join(format!("{:016x}", fastrand::u64(..)));
            Arc::new(Mutex::new(PartialFile {
                path,
                body_offset,
                file: None,
                _filling: self.filling.clone(),
            }))
        });
        let (part, store, piece) = (part.clone(), self.store.clone(), std::mem::take(&mut self.held));
        self.store.write(move || {
            let mut part = part.lock();
            if let Err(error) = part.append(is_first, &piece) {
                store.failed("write a file", &error);
                part.give_up();
            }
            store.give_queue(piece.len() as u64);
        });
        true
    }

    /// Completes the entry; `leader` lets those go on that wait for it.
    pub(in super::super) fn finish(
        mut self,
        destination: EntryDestination,
        entry: CacheEntry,
        leader: Option<Leader>,
    ) {
        if !self.hand_over() {
            return destination.fail(leader);
        }
        let Some(part) = self.part.take() else { return };
        let (store, length) = (self.store.clone(), self.length);
        let head = std::mem::take(&mut self.head);
        self.store.clone().write(move || {
            if leader.as_ref().is_some_and(Leader::is_purged) {
                return part.lock().give_up();
            }
            let completed = part.lock().complete(&store, &destination, &head, length);
            match completed {
                Ok(Some(file)) => {
                    let entry = CacheEntry { body: CachedBody::Disk(file), ..entry };
                    let EntryDestination { zone, key, fields, signature } = &destination;
                    zone.insert(key, fields, signature, Arc::new(entry));
                }
                Ok(None) => return destination.fail(leader),
                Err(error) => {
                    store.failed("complete a file", &error);
                    part.lock().give_up();
                    return destination.fail(leader);
                }
            }
            drop(leader);
        });
    }
}

impl Drop for DiskFill {
    fn drop(&mut self) {
        // The response was cut, or is not stored after all.
        if let Some(part) = self.part.take() {
            self.store.write(move || part.lock().give_up());
        }
    }
}

impl PartialFile {
    fn append(&mut self, is_first: bool, piece: &[u8]) -> io::Result<()> {
        if is_first {
            let mut options = OpenOptions::new();
            let mut file = options.read(true).write(true).create_new(true).mode(0o600).open(&self.path)?;
            io::Seek::seek(&mut file, io::SeekFrom::Start(self.body_offset.into()))?;
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => file.write_all(piece),
            // An earlier piece failed, which was told.
            None => Ok(()),
        }
    }

    /// Writes the head and gives the file its name; none if an earlier piece failed.
    fn complete(
        &mut self,
        store: &Arc<DiskStore>,
        destination: &EntryDestination,
        head: &[u8],
        length: u64,
    ) -> io::Result<Option<Arc<DiskFile>>> {
        let Some(file) = self.file.take() else { return Ok(None) };
        let preamble = Preamble::new(head, Some(self.body_offset), length);
        write_head(&file, &preamble, head)?;
        // An empty body leaves the room of the head unwritten.
        file.set_len(u64::from(self.body_offset) + length)?;
        let path = store.settings.path.join(destination.name(&store.settings.levels));
        rename(&self.path, &path)?;
        let stored = Arc::new(DiskFile::new(store.clone(), path, self.body_offset.into(), length));
        stored.keep_open(Arc::new(file));
        Ok(Some(stored))
    }

    fn give_up(&mut self) {
        self.file = None;
        let _ = fs::remove_file(&self.path);
    }
}

/// The preamble after the head, so that a head that was not written whole has none that vouches for it.
fn write_head(file: &File, preamble: &Preamble, head: &[u8]) -> io::Result<()> {
    file.write_all_at(head, super::format::PREAMBLE_BYTES as u64)?;
    file.write_all_at(&preamble.bytes(), 0)
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(to.parent().unwrap_or(to))?;
            fs::rename(from, to)
        }
        renamed => renamed,
    }
}

/// Writes the head of a refreshed entry where the old one was. Without room for it the file keeps the old
/// one: after a start the entry is as stale as before, and is revalidated again.
pub(in super::super) fn rewrite_head(destination: &EntryDestination, entry: &CacheEntry) {
    let CachedBody::Disk(file) = &entry.body else { return };
    let head = destination.head(entry).bytes();
    if !Preamble::has_room(file.body_offset, &head) {
        return;
    }
    let stored = file.clone();
    file.store.write(move || {
        let preamble = Preamble::new(&head, Some(stored.body_offset as u32), stored.length);
        let written = OpenOptions::new().write(true).open(&stored.path);
        if let Err(error) = written.and_then(|file| write_head(&file, &preamble, &head)) {
            stored.store.failed("write a head", &error);
        }
    });
}
