//! The file of an entry: where it lies, and its open descriptor while there is one. The file is removed with
//! the last holder.

use std::fs::{self, File};
use std::io::{self, IoSliceMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::DiskStore;

/// The longest body that is kept beside its open file: with [`super::OPEN_FILES_MAX`], 16 MiB for a zone.
const KEPT_BODY_BYTES_MAX: usize = 32 * 1024;

/// See the module.
pub(in super::super) struct DiskFile {
    pub(super) store: Arc<DiskStore>,
    pub(super) path: PathBuf,
    /// Where the body begins.
    pub(super) body_offset: u64,
    pub(super) length: u64,
    open: Mutex<Option<OpenBodyFile>>,
    /// Whether it was read since the last look.
    was_used: AtomicBool,
}

/// An open file, and its body where that is short and was asked for: a hit then reads no file. Files that are
/// open at the same time have a limit, and so have these bodies.
#[derive(Clone)]
pub(in super::super) struct OpenBodyFile {
    pub(in super::super) file: Arc<File>,
    pub(in super::super) body: Option<Bytes>,
}

impl DiskFile {
    pub(super) fn new(store: Arc<DiskStore>, path: PathBuf, body_offset: u64, length: u64) -> DiskFile {
        let (open, was_used) = (Mutex::default(), AtomicBool::new(false));
        DiskFile { store, path, body_offset, length, open, was_used }
    }

    /// The length of the body in bytes.
    pub(in super::super) fn length(&self) -> u64 {
        self.length
    }

    /// The bytes that it takes on the disk, in blocks of 4 KiB.
    pub(in super::super) fn disk_bytes(&self) -> u64 {
        (self.body_offset + self.length).next_multiple_of(4_096)
    }

    /// The open file; none if it has to be opened first.
    pub(in super::super) fn opened(&self) -> Option<OpenBodyFile> {
        let open = self.open.lock().clone();
        if open.is_some() && !self.was_used.load(Ordering::Relaxed) {
            self.was_used.store(true, Ordering::Relaxed);
        }
        open
    }

    /// Keeps `file` open.
    pub(super) fn keep_open(self: &Arc<Self>, file: Arc<File>) {
        *self.open.lock() = Some(OpenBodyFile { file, body: None });
        self.store.note_open(self);
    }

    /// Keeps the whole `body` as long as the file is open, if it is short.
    pub(in super::super) fn keep_body(&self, body: &Bytes) {
        if body.len() <= KEPT_BODY_BYTES_MAX
            && let Some(open) = &mut *self.open.lock()
        {
            open.body = Some(body.clone());
        }
    }

    /// Whether it was read since the last call.
    pub(super) fn take_use(&self) -> bool {
        self.was_used.swap(false, Ordering::Relaxed)
    }

    /// Closes the file once its readers are done.
    pub(super) fn close(&self) {
        *self.open.lock() = None;
    }

    /// Opens the file. It waits for the disk.
    pub(super) fn open(self: &Arc<Self>) -> io::Result<Arc<File>> {
        if let Some(open) = self.opened() {
            return Ok(open.file);
        }
        let file = File::open(&self.path)?;
        if file.metadata()?.len() != self.body_offset + self.length {
            return Err(io::Error::other("the file has another length"));
        }
        let file = Arc::new(file);
        self.keep_open(file.clone());
        Ok(file)
    }

    /// Reads bytes of the body that the kernel has in memory; none if they would have to come from the disk.
    pub(in super::super) fn read_cached(
        &self,
        file: &File,
        offset: u64,
        room: &mut [u8],
    ) -> Option<io::Result<usize>> {
        let at = self.body_offset + offset;
        match preadv2(file, &mut [IoSliceMut::new(room)], at, ReadWriteFlags::NOWAIT) {
            Ok(count) => Some(Ok(count)),
            // A file system without the flag, or a kernel before 4.14.
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS) => None,
            Err(error) => Some(Err(error.into())),
        }
    }
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        if self.store.is_closed.load(Ordering::Relaxed) {
            return;
        }
        let path = std::mem::take(&mut self.path);
        // The writer does it, because removing a long file takes time.
        self.store.write(move || {
            let _ = fs::remove_file(path);
        });
    }
}
