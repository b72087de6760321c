//! Certificates and keys in files: their contents as they were read last, and a check for changes by time, size and content.
//! A file that cannot be read has a reason in the place of its content; its users keep their last good form.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::Metadata;
use std::ops::Bound::{Excluded, Unbounded};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use model::secret_reference::file_path;

use crate::regular_file;

/// The files that objects in force refer to.
#[derive(Debug, Default)]
pub(super) struct Files {
    known: BTreeMap<Arc<str>, KnownFile>,
    next_check: Option<Instant>,
    /// The reference that was checked last, where a check did not get through all.
    checked: Option<Arc<str>>,
}

#[derive(Debug)]
struct KnownFile {
    stamp: Option<Stamp>,
    content: Result<Arc<str>, String>,
}

/// Facts of a file that change with its content. An equal stamp means an unchanged file, unless the file was changed again within
/// the resolution of its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl Files {
    /// Reads the file of a reference that some object has. Known files are not read again here.
    pub(super) fn follow(&mut self, reference: &str) {
        if let Entry::Vacant(place) = self.known.entry(reference.into()) {
            place.insert(KnownFile::read(reference));
        }
    }

    /// Forgets the file of a reference that no object has.
    pub(super) fn forget(&mut self, reference: &str) {
        self.known.remove(reference);
    }

    /// The content of a file, as it was read last.
    pub(super) fn value(&self, reference: &str) -> Result<String, String> {
        let content = match self.known.get(reference) {
            Some(file) => file.content.clone(),
            None => KnownFile::read(reference).content,
        };
        content.map(|text| text.to_string())
    }

    /// Reads files again that have changed, at most [`FILES_PER_CHECK`] a call and no oftener than every [`CHECK_EVERY`].
    /// Returns the references with changed contents.
    pub(super) fn check(&mut self, now: Instant) -> Vec<Arc<str>> {
        if self.known.is_empty() || self.next_check.is_some_and(|next| now < next) {
            return Vec::new();
        }
        let from = self.checked.take().map_or(Unbounded, Excluded);
        let mut changed = Vec::new();
        let mut left = FILES_PER_CHECK;
        for (reference, file) in self.known.range_mut::<Arc<str>, _>((from, Unbounded)) {
            if left == 0 {
                // The rest is checked by the next call, a second later.
                return changed;
            }
            left -= 1;
            self.checked = Some(Arc::clone(reference));
            if file.refresh(reference) {
                changed.push(Arc::clone(reference));
            }
        }
        self.checked = None;
        self.next_check = Some(now + CHECK_EVERY);
        changed
    }
}

impl KnownFile {
    fn read(reference: &str) -> KnownFile {
        let path = file_path(reference).unwrap_or_default();
        // The stamp is taken first, so that a change during the reading is seen by the next check.
        let stamp = std::fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata));
        let content = regular_file::read_to_string(Path::new(path), MAX_FILE_BYTES);
        let content = content.map(Into::into).map_err(|fault| format!("{path}: {fault}"));
        KnownFile { stamp: stamp.filter(|stamp| !stamp.is_recent()), content }
    }

    /// Reads the file again if its stamp has changed; whether its content did.
    fn refresh(&mut self, reference: &str) -> bool {
        let path = file_path(reference).unwrap_or_default();
        let stamp = std::fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata));
        if stamp.is_some() && stamp == self.stamp {
            return false;
        }
        let read = KnownFile::read(reference);
        let is_changed = read.content != self.content;
        *self = read;
        is_changed
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        let ns = |seconds: i64, part: i64| i128::from(seconds) * 1_000_000_000 + i128::from(part);
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether the file was changed so shortly ago that another change may not have changed the stamp.
    fn is_recent(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now_ns = i128::try_from(now.as_nanos()).unwrap_or(i128::MAX);
        now_ns.saturating_sub(self.changed_ns.max(self.modified_ns)) < CLOCK_TICK_NS
    }
}

/// Interval of the checks. A certificate is renewed days before its end, so that seconds do not matter.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// Files that one call checks: each costs a system call or two, and writes of the Admin API wait meanwhile.
const FILES_PER_CHECK: usize = 2_000;
/// Limit of one file. A bundle of all public authorities has a quarter of a MiB.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The coarsest resolution of file times that is common (FAT: two seconds).
const CLOCK_TICK_NS: i128 = 2_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_file_is_found_by_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cert.pem");
        let reference = format!("$file://{}", path.display());
        let mut files = Files::default();
        let mut now = Instant::now();
        files.follow(&reference);
        assert!(files.value(&reference).unwrap_err().contains("No such file"));
        std::fs::write(&path, "one").unwrap();
        let mut check = |files: &mut Files| {
            now += CHECK_EVERY;
            files.check(now).len()
        };
        assert_eq!((check(&mut files), files.value(&reference).as_deref()), (1, Ok("one")));
        assert_eq!(check(&mut files), 0, "nothing has changed");
        std::fs::write(&path, "one").unwrap();
        assert_eq!(check(&mut files), 0, "written again with the same content");
        std::fs::write(&path, "two").unwrap();
        assert_eq!((check(&mut files), files.value(&reference).as_deref()), (1, Ok("two")));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(check(&mut files), 1);
        assert!(files.value(&reference).is_err());
        files.forget(&reference);
        std::fs::write(&path, "three").unwrap();
        assert_eq!((check(&mut files), files.value(&reference).as_deref()), (0, Ok("three")));
    }

    #[test]
    fn many_files_are_checked_in_parts() {
        let mut files = Files::default();
        for number in 0..=FILES_PER_CHECK {
            let file = KnownFile { stamp: None, content: Ok("gone".into()) };
            files.known.insert(format!("$file:///nowhere/{number}").into(), file);
        }
        let now = Instant::now();
        assert_eq!(files.check(now).len(), FILES_PER_CHECK);
        assert_eq!(files.check(now).len(), 1);
        assert_eq!(files.check(now).len(), 0, "the interval is not over");
    }
}
