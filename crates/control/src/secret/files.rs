//! Certificates and keys in files: their contents as they were read last, and a check for changes by time,
//! size and content. A file that cannot be read has a reason in the place of its content; its users keep
//! their last good form.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::Metadata;
use std::ops::Bound::{Excluded, Unbounded};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::secret_reference::file_path;
use outbound::regular_file;

/// The files that objects may refer to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FilePolicy {
    /// None, and those below these folders, links resolved: holders of the Admin key must not use other keys
    /// of the machine.
    Below(Vec<PathBuf>),
    /// All: the configuration is a file as well, of a user of this machine.
    #[default]
    All,
}

/// The files that objects in force refer to.
#[derive(Debug, Default)]
pub(super) struct SecretFiles {
    policy: FilePolicy,
    known: BTreeMap<Arc<str>, KnownFile>,
    next_check: Option<Instant>,
    /// The reference that was checked last, where a check did not get through all.
    checked: Option<Arc<str>>,
}

#[derive(Debug)]
struct KnownFile {
    stamp: Option<SecretFileStamp>,
    content: Result<Arc<str>, String>,
}

/// Facts of a file that change with its content. An equal stamp means an unchanged file, unless the file was
/// changed again within the resolution of its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SecretFileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl SecretFiles {
    pub(super) fn new(policy: FilePolicy) -> SecretFiles {
        SecretFiles { policy, ..SecretFiles::default() }
    }

    /// Reads the file of a reference that some object has. Known files are not read again here.
    pub(super) fn follow(&mut self, reference: &str) {
        if let Entry::Vacant(place) = self.known.entry(reference.into()) {
            place.insert(KnownFile::read(reference, &self.policy));
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
            None => KnownFile::read(reference, &self.policy).content,
        };
        content.map(|text| text.to_string())
    }

    /// Reads files again that have changed, at most [`FILES_PER_CHECK`] a call and no oftener than every
    /// [`CHECK_EVERY`]. Returns the references with changed contents.
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
            if file.refresh(reference, &self.policy) {
                changed.push(Arc::clone(reference));
            }
        }
        self.checked = None;
        self.next_check = Some(now + CHECK_EVERY);
        changed
    }
}

impl FilePolicy {
    /// Whether an object may name the file at `path`. A file below a folder may be missing, because tools
    /// write certificates after the object that names them.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check_name(&self, path: &str) -> Result<(), String> {
        let FilePolicy::Below(folders) = self else { return Ok(()) };
        if std::fs::metadata(path).is_err() && is_written_below(folders, path) {
            return Ok(());
        }
        self.check(path)
    }

    /// Whether the file at `path` may be read.
    fn check(&self, path: &str) -> Result<(), String> {
        let FilePolicy::Below(folders) = self else { return Ok(()) };
        // Resolved, so that neither `..` nor a link leads out of a folder.
        let file = std::fs::canonicalize(path);
        let is_below = |folder: &PathBuf| {
            let folder = std::fs::canonicalize(folder);
            folder.is_ok_and(|folder| file.as_ref().is_ok_and(|file| file.starts_with(folder)))
        };
        if folders.iter().any(is_below) {
            return Ok(());
        }
        match file {
            // Below a folder, a missing file is named as such; elsewhere its absence is not told.
            Err(fault) if is_written_below(folders, path) => Err(format!("{path}: {fault}")),
            _ => Err(format!("{path}: it is not below a folder that the setting certificate_folders names")),
        }
    }
}

/// Whether the text of a path leads below one of the folders; one with a step `..` may lead out of them.
fn is_written_below(folders: &[PathBuf], path: &str) -> bool {
    let path = Path::new(path);
    let leads_out = path.components().any(|step| step == Component::ParentDir);
    !leads_out && folders.iter().any(|folder| path.starts_with(folder))
}

impl KnownFile {
    fn read(reference: &str, policy: &FilePolicy) -> KnownFile {
        let path = file_path(reference).unwrap_or_default();
        if let Err(reason) = policy.check(path) {
            return KnownFile { stamp: None, content: Err(reason) };
        }
        // The stamp is taken first, so that a change during the reading is seen by the next check.
        let stamp = std::fs::metadata(path).ok().map(|metadata| SecretFileStamp::of(&metadata));
        let content = regular_file::read_to_string(Path::new(path), MAX_FILE_BYTES);
        let content = content.map(Into::into).map_err(|fault| format!("{path}: {fault}"));
        KnownFile { stamp: stamp.filter(|stamp| !stamp.is_recent()), content }
    }

    /// Reads the file again if its stamp has changed; whether its content did.
    fn refresh(&mut self, reference: &str, policy: &FilePolicy) -> bool {
        let path = file_path(reference).unwrap_or_default();
        let stamp = std::fs::metadata(path).ok().map(|metadata| SecretFileStamp::of(&metadata));
        if stamp.is_some() && stamp == self.stamp {
            return false;
        }
        let read = KnownFile::read(reference, policy);
        let is_changed = read.content != self.content;
        *self = read;
        is_changed
    }
}

impl SecretFileStamp {
    fn of(metadata: &Metadata) -> SecretFileStamp {
        let ns = |seconds: i64, part: i64| i128::from(seconds) * 1_000_000_000 + i128::from(part);
        SecretFileStamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether the file was changed so shortly ago that another change may not have changed the stamp.
    fn is_recent(&self) -> bool {
        let now = stdx::clock::unix_time();
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
        let mut files = SecretFiles::default();
        let mut now = Instant::now();
        files.follow(&reference);
        assert!(files.value(&reference).unwrap_err().contains("No such file"));
        std::fs::write(&path, "one").unwrap();
        let mut check = |files: &mut SecretFiles| {
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
    fn only_files_below_the_folders_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("in")).unwrap();
        std::fs::create_dir(at("out")).unwrap();
        for file in ["in/a.pem", "out/a.pem"] {
            std::fs::write(at(file), "content").unwrap();
        }
        std::os::unix::fs::symlink(at("out/a.pem"), at("in/link.pem")).unwrap();
        std::os::unix::fs::symlink(at("in/a.pem"), at("out/link.pem")).unwrap();
        let check = |policy: FilePolicy, name: &str, expected: Result<&str, &str>| {
            let reference = format!("$file://{}/{name}", folder.path().display());
            match (SecretFiles::new(policy).value(&reference), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{name}"),
                (Err(reason), Err(part)) => assert!(reason.contains(part), "{name}: {reason}"),
                (found, _) => panic!("{name}: {found:?}"),
            }
        };
        let below = || FilePolicy::Below(vec![at("in")]);
        check(below(), "in/a.pem", Ok("content"));
        check(below(), "out/link.pem", Ok("content"));
        check(below(), "in/missing.pem", Err("No such file"));
        for name in ["out/a.pem", "in/link.pem", "in/../out/a.pem", "out/missing.pem"] {
            check(below(), name, Err("not below a folder"));
        }
        check(FilePolicy::Below(Vec::new()), "in/a.pem", Err("not below a folder"));
        check(FilePolicy::All, "out/a.pem", Ok("content"));
        std::os::unix::fs::symlink(at("in/later.pem"), at("in/dangling.pem")).unwrap();
        let named = |policy: FilePolicy, path: String, expected: bool| {
            assert_eq!(policy.check_name(&path).is_ok(), expected, "{path}");
        };
        for name in ["in/a.pem", "in/missing.pem", "in/dangling.pem", "out/link.pem"] {
            named(below(), at(name).display().to_string(), true);
        }
        for name in
            ["out/a.pem", "in/link.pem", "in/../out/a.pem", "in/../out/missing.pem", "out/missing.pem"]
        {
            named(below(), at(name).display().to_string(), false);
        }
        named(below(), "/etc/passwd".to_owned(), false);
        named(FilePolicy::Below(Vec::new()), at("in/a.pem").display().to_string(), false);
        named(FilePolicy::All, "/etc/passwd".to_owned(), true);
    }

    #[test]
    fn many_files_are_checked_in_parts() {
        let mut files = SecretFiles::default();
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
