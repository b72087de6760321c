//! The index of a zone on disk, made anew at a start: every file that is whole becomes an entry, every other
//! one is removed. Requests are served meanwhile, and miss if their entry was not found yet.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use super::super::entry::{CacheEntry, CachedBody};
use super::super::zone::{Zone, ZoneLookup};
use super::format::{FileHead, PREAMBLE_BYTES, Preamble};
use super::{DiskFile, DiskStore, is_hex};

/// Reads the folder of a zone, as long as the zone is there.
pub(super) fn load(zone: &Weak<Zone>) {
    let Some(disk) = zone.upgrade().and_then(|zone| zone.disk.clone()) else { return };
    let mut count = 0_usize;
    if let Err(error) = folder(zone, &disk, &disk.settings.path.clone(), LEVELS_MAX, &mut count) {
        disk.failed("read its folder", &error);
    }
    let zone = &*disk.zone;
    tracing::info!(zone, entries = count, "the index of the cache on disk was read");
}

/// The most folders above a file. All are looked into, because files of other `cache_levels` take room on the
/// disk as well.
const LEVELS_MAX: usize = 3;

fn folder(
    zone: &Weak<Zone>,
    disk: &Arc<DiskStore>,
    path: &Path,
    levels: usize,
    count: &mut usize,
) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let Some(zone_now) = zone.upgrade() else { return Ok(()) };
        let entry = entry?;
        let kind = entry.file_type()?;
        let path = entry.path();
        let is_level = entry.file_name().to_str().is_some_and(|name| is_hex(name, 1) || is_hex(name, 2));
        if kind.is_dir() && levels > 0 && is_level {
            folder(zone, disk, &path, levels - 1, count)?;
        } else if kind.is_file() && is_own(&path) {
            *count += usize::from(file(&zone_now, disk, &path));
        }
    }
    Ok(())
}

/// Whether a file has the form of a name that this gateway gives, so that no other file is ever removed.
fn is_own(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('-'));
    name.is_some_and(|(digest, number)| is_hex(digest, 32) && is_hex(number, 16))
}

/// Takes a file into the index; false if it was removed or a newer one is known.
fn file(zone: &Arc<Zone>, disk: &Arc<DiskStore>, path: &Path) -> bool {
    let Ok(Some((head, preamble))) = read(path) else {
        let _ = fs::remove_file(path);
        return false;
    };
    let (offset, length) = (u64::from(preamble.body_offset), preamble.body_bytes);
    let body = Arc::new(DiskFile::new(disk.clone(), path.to_owned(), offset, length));
    let FileHead { key, fields, signature, status, times, headers } = head;
    // One that is newer came from the upstream meanwhile, or from another file of the same key.
    if let ZoneLookup::Entry(known) = zone.find_signed(&key, &fields, &signature)
        && known.times.stored_s >= times.stored_s
    {
        return false;
    }
    let entry =
        CacheEntry { status, headers, body: CachedBody::Disk(body), times, held_until_s: AtomicU64::new(0) };
    zone.insert(&key.into(), &fields, &signature, Arc::new(entry));
    true
}

/// The head of a whole file of this version.
fn read(path: &Path) -> io::Result<Option<(FileHead, Preamble)>> {
    let mut file = File::open(path)?;
    let mut bytes = [0; PREAMBLE_BYTES];
    file.read_exact(&mut bytes)?;
    let Some(preamble) = Preamble::read(&bytes) else { return Ok(None) };
    if file.metadata()?.len() != u64::from(preamble.body_offset).saturating_add(preamble.body_bytes) {
        return Ok(None);
    }
    let mut head = vec![0; preamble.head_bytes as usize];
    file.read_exact(&mut head)?;
    if !preamble.vouches_for(&head) {
        return Ok(None);
    }
    Ok(FileHead::read(&head).map(|head| (head, preamble)))
}

#[cfg(test)]
mod tests {
    use super::super::super::settings::{DiskSettings, ZoneSettings};
    use super::*;

    #[test]
    fn files_of_other_levels_are_looked_at() {
        let path = std::env::temp_dir().join(format!("weir-cache-levels-{}", std::process::id()));
        let name = format!("{:032x}-{:016x}", 1, 2);
        let files = [path.join(&name), path.join("a").join(&name), path.join("a/bc/d").join(&name)];
        let foreign = [path.join("a/x"), path.join("other").join(&name)];
        for file in files.iter().chain(&foreign) {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "damaged").unwrap();
        }
        let disk = DiskSettings { path: path.clone(), size_bytes: 1 << 20, levels: [1, 2].into() };
        let settings = ZoneSettings { name: "z".into(), memory_bytes: 1 << 20, disk: Some(disk) };
        let zone = Arc::new(Zone::new(&settings));
        load(&Arc::downgrade(&zone));
        assert_eq!(files.map(|file| file.exists()), [false; 3]);
        assert_eq!(foreign.map(|file| file.exists()), [true; 2]);
        fs::remove_dir_all(path).unwrap();
    }
}
