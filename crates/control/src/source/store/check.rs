//! Whether a store's file is undamaged: the storage library keeps a checksum of every page in the page above
//! it, but reads without verifying them. The check changes nothing on the disk: the repairs and records of
//! the library are written to memory, so that a damaged file stays unchanged for a recovery.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use redb::StorageBackend;

use super::guard::{Leaked, guarded};
use super::{DAMAGED, builder};

/// Checks the file.
///
/// The fault of the file.
/// # Errors
/// The fault.
pub(super) fn check_store(path: &Path) -> Result<(), String> {
    let file = File::open(path).map_err(|fault| fault.to_string())?;
    let overlay = Overlay::new(file).map_err(|fault| fault.to_string())?;
    let before = StoreFileHeader::of(&overlay);
    let result = guarded(|| {
        let database = builder().create_with_backend(overlay.clone()).map_err(|fault| fault.to_string())?;
        let mut database = Leaked::new(database);
        let is_sound = database.check_integrity().map_err(|fault| fault.to_string())?;
        let after = StoreFileHeader::of(&overlay);
        drop(database);
        Ok::<_, String>((is_sound, after))
    });
    let (is_sound, after) = result.map_err(|_| DAMAGED.to_owned())??;
    if !is_sound {
        return Err(DAMAGED.to_owned());
    }
    let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
    if after.transaction < before.transaction {
        if before.is_clean {
            // The library has found the newest state damaged and uses the one before it: acknowledged writes
            // would be lost without an error.
            return Err(DAMAGED.to_owned());
        }
        tracing::warn!(
            path = %path.display(),
            "the process did not end in order, and the last write to this file is incomplete: the state before it is used"
        );
    }
    Ok(())
}

/// The parts of the library's file header that the check reads (its `docs/design.md`, "Super-header").
#[derive(Debug)]
struct StoreFileHeader {
    /// Whether the file was closed properly.
    is_clean: bool,
    /// Number of the transaction in force.
    transaction: u64,
}

impl StoreFileHeader {
    fn of(overlay: &Overlay) -> Option<StoreFileHeader> {
        const FLAGS_AT: usize = 9;
        const SECOND_IS_IN_FORCE: u8 = 1;
        const NOT_CLOSED: u8 = 2;
        const SLOT_AT: [usize; 2] = [64, 64 + 128];
        /// Eight bytes of flags, and three roots: page, checksum, length.
        const TRANSACTION_AT: usize = 8 + 3 * 32;
        let mut bytes = [0; 320];
        overlay.read(0, &mut bytes).ok()?;
        let flags = bytes[FLAGS_AT];
        let at = SLOT_AT[usize::from(flags & SECOND_IS_IN_FORCE != 0)] + TRANSACTION_AT;
        let transaction = u64::from_le_bytes(bytes[at..at + 8].try_into().ok()?);
        Some(StoreFileHeader { is_clean: flags & NOT_CLOSED == 0, transaction })
    }
}

/// A file that is only read, with the writes to it in memory.
#[derive(Clone, Debug)]
struct Overlay(Arc<OverlayFile>);

#[derive(Debug)]
struct OverlayFile {
    file: File,
    state: Mutex<OverlayState>,
}

#[derive(Debug)]
struct OverlayState {
    length: u64,
    /// Bytes of the file that are still visible: it may have been truncated and extended again.
    file_length: u64,
    blocks: HashMap<u64, Box<[u8]>>,
}

/// Block size of the overlay; most writes of the library are whole pages of this size.
const BLOCK_BYTES: u64 = 4096;

impl Overlay {
    fn new(file: File) -> io::Result<Overlay> {
        let length = file.metadata()?.len();
        let state = OverlayState { length, file_length: length, blocks: HashMap::new() };
        Ok(Overlay(Arc::new(OverlayFile { file, state: Mutex::new(state) })))
    }

    fn state(&self) -> MutexGuard<'_, OverlayState> {
        self.0.state.lock()
    }

    /// The bytes of the file at `offset`; zeros after its end.
    fn read_file(&self, state: &OverlayState, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.fill(0);
        let there = usize::try_from(state.file_length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = there.min(out.len());
        self.0.file.read_exact_at(&mut out[..count], offset)
    }
}

/// The parts of `length` bytes at `offset` by block: its number, the begin of the part in the block and in
/// the bytes, and the length.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let left = length - done;
        let at = offset + done as u64;
        let inside = (at % BLOCK_BYTES) as usize;
        let count = left.min(BLOCK_BYTES as usize - inside);
        let part = (count > 0).then_some((at / BLOCK_BYTES, inside, done, count));
        done += count;
        part
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        if offset.saturating_add(out.len() as u64) > state.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_file(&state, offset, out)?;
        if !state.blocks.is_empty() {
            for (block, inside, at, count) in parts(offset, out.len()) {
                if let Some(bytes) = state.blocks.get(&block) {
                    out[at..at + count].copy_from_slice(&bytes[inside..inside + count]);
                }
            }
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.state();
        if length < state.length {
            state.blocks.retain(|block, _| block * BLOCK_BYTES < length);
            let last = length / BLOCK_BYTES;
            if let Some(bytes) = state.blocks.get_mut(&last) {
                bytes[(length % BLOCK_BYTES) as usize..].fill(0);
            }
        }
        state.file_length = state.file_length.min(length);
        state.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        for (block, inside, at, count) in parts(offset, data.len()) {
            if !state.blocks.contains_key(&block) {
                let mut bytes = vec![0; BLOCK_BYTES as usize].into_boxed_slice();
                self.read_file(&state, block * BLOCK_BYTES, &mut bytes)?;
                state.blocks.insert(block, bytes);
            }
            if let Some(bytes) = state.blocks.get_mut(&block) {
                bytes[inside..inside + count].copy_from_slice(&data[at..at + count]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlay_reads_what_was_written_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let content: Vec<u8> = (0..10_000_u32).map(|number| number as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let overlay = Overlay::new(File::open(&path).unwrap()).unwrap();
        let mut expected = content.clone();
        let check = |expected: &[u8]| {
            assert_eq!(overlay.len().unwrap(), expected.len() as u64);
            let mut found = vec![0; expected.len()];
            overlay.read(0, &mut found).unwrap();
            assert_eq!(found, expected);
            let inside = 4_000..expected.len().min(9_000);
            let mut found = vec![0; inside.len()];
            overlay.read(inside.start as u64, &mut found).unwrap();
            assert_eq!(found, expected[inside]);
        };
        check(&expected);
        overlay.write(4_000, &[7; 5_000]).unwrap();
        expected[4_000..9_000].fill(7);
        check(&expected);
        for length in [12_000, 4_100, 20_000] {
            overlay.set_len(length).unwrap();
            expected.resize(usize::try_from(length).unwrap(), 0);
            check(&expected);
        }
        assert!(overlay.read(19_999, &mut [0; 2]).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), content, "the file is as it was");
    }
}
