//! The declarative file: YAML or JSON with the names of collections at the top, read again when it changes.
//! It finds the objects, their keys and their lines, and does not know their meaning.

pub(crate) mod compose;
mod document;
mod expand;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::{FaultPolicy, PluginCatalog, Snapshot, SnapshotChange};
use outbound::regular_file;

pub use compose::compose_document as compose;
pub(crate) use document::parse_item;
pub use document::{ConfigDocument, FileObject, dotted};
pub use expand::{Expanded, Unset, expand_variables};

/// A fault with its place in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFault {
    pub path: PathBuf,
    /// Its line, from 1.
    pub line: usize,
    /// The place in the document, `routes[3].plugins.limit-count.count`; empty for the document itself.
    pub place: String,
    /// The fault, and its remedy where that is not obvious.
    pub reason: String,
}

impl fmt::Display for FileFault {
    /// `file:line: path: reason`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: ", self.path.display(), self.line)?;
        if !self.place.is_empty() {
            write!(formatter, "{}: ", self.place)?;
        }
        formatter.write_str(&self.reason)
    }
}

/// A polled file: symlink swaps of mounted volumes are noticed too.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    seen: Option<SourceFileStamp>,
    /// The ending of the last good text; none before the first one.
    ending: Option<TextEnding>,
}

/// The ending of a text, from which an incomplete next one can be recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextEnding {
    /// With [`END_MARK`].
    Closed,
    /// Without [`END_MARK`].
    Open,
}

/// The properties by which a changed file is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SourceFileStamp {
    modified: (i64, i64),
    inode: u64,
    size: u64,
}

impl FileSource {
    /// A source that has not been read yet.
    pub fn new(path: PathBuf) -> FileSource {
        FileSource { path, seen: None, ending: None }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file has changed since it was last read (or was never read). A missing file has not
    /// changed, so that the last good configuration stays.
    pub fn changed(&self) -> bool {
        state(&self.path).is_ok_and(|state| self.seen != Some(state))
    }

    /// Reads the file.
    ///
    /// # Errors
    /// The faults because of which the text is no document; nothing of it is applied then.
    pub fn read(&mut self) -> Result<ConfigDocument, Vec<FileFault>> {
        // Taken before reading, so that a write in between is seen as a change later.
        self.seen = state(&self.path).ok();
        let text = text(&self.path, regular_file::open_regular(&self.path))?;
        let ending = TextEnding::of(&text);
        if let Some(reason) = self.half_written(&text, ending) {
            return Err(whole_file(&self.path, text.lines().count().max(1), reason));
        }
        let document = parse(&self.path, &text)?;
        self.ending = Some(ending);
        Ok(document)
    }

    /// The reason why a text after a good one may be incomplete. An editor that writes in place can be caught
    /// in the middle, and half a file would remove the objects of the other half.
    fn half_written(&self, text: &str, ending: TextEnding) -> Option<String> {
        match (self.ending?, ending) {
            (TextEnding::Closed, TextEnding::Open) => Some(format!(
                "the file ended in {END_MARK} before and no longer does: it may be half written. Close it with \
                 {END_MARK} again, or restart to read it without"
            )),
            (TextEnding::Open, TextEnding::Open) if is_blank(text) => {
                Some(format!("the file is empty; for no objects, write `routes: []` or {END_MARK}"))
            }
            _ => None,
        }
    }
}

impl TextEnding {
    fn of(text: &str) -> TextEnding {
        if text.trim_end().ends_with(END_MARK) { TextEnding::Closed } else { TextEnding::Open }
    }
}

/// The result of a check of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileCheck {
    /// Faults of objects, or of the whole file.
    pub faults: Vec<FileFault>,
    /// Parts of it that have no effect; each reason begins with `warning: `.
    pub warnings: Vec<FileFault>,
}

/// Every fault and warning of the file at `path`, in the order of lines, as a gateway with these plugins
/// would find them. It changes neither the running configuration nor the disk.
pub fn check_resource_file(path: &Path, catalog: &PluginCatalog) -> FileCheck {
    let document = match read_document(path) {
        Ok(document) => document,
        Err(faults) => return FileCheck { faults, warnings: Vec::new() },
    };
    let changes: Vec<SnapshotChange> =
        document.objects.iter().map(|object| object.change(FIRST_REVISION)).collect();
    let applied = Snapshot::default().apply(catalog, &changes, FIRST_REVISION, FaultPolicy::Lenient);
    let mut faults = document.faults.clone();
    faults.extend(applied.faults.iter().filter_map(|fault| document.place(fault)));
    faults.sort_by_key(|fault| fault.line);
    FileCheck { faults, warnings: collect_warnings(&document, &applied.snapshot) }
}

/// The warnings of a document, in the order of lines.
pub(crate) fn collect_warnings(document: &ConfigDocument, snapshot: &Snapshot) -> Vec<FileFault> {
    let of_objects = document.objects.iter().flat_map(|object| {
        let warnings = snapshot.warnings_at(&object.key).into_iter();
        warnings.filter_map(move |warning| document.warning(&object.key, &warning.pointer, &warning.reason))
    });
    let mut warnings: Vec<FileFault> = of_objects.collect();
    warnings.extend(snapshot.equal_routes(MAX_EQUAL_ROUTES).into_iter().filter_map(|(later, first)| {
        let first = &first.id;
        let reason =
            format!("it matches the same requests as route `{first}`, so that one of them never serves");
        document.warning(later, "", &reason)
    }));
    let skipped = document.objects.iter().filter_map(|object| snapshot.get(&object.key));
    warnings.extend(skipped.flat_map(|object| {
        let place = |fault: &model::ConfigFault| {
            let reason = format!("skipped (ignore_faulty_plugins): {}", fault.reason);
            document.warning(object.key(), &fault.pointer, &reason)
        };
        object.skipped().iter().filter_map(place).collect::<Vec<_>>()
    }));
    warnings.sort_by_key(|warning| warning.line);
    warnings
}

/// The value of a YAML or JSON text, within the same limits as a file; the error names its line.
pub(crate) fn parse_value(text: &str) -> Result<serde_json::Value, String> {
    yaml::parse(text)
        .map(|marked| marked.value)
        .map_err(|fault| format!("line {}: {}", fault.line, fault.reason))
}

/// Reads and splits the file at `path`. Errors: as for [`FileSource::read`].
pub fn read_document(path: &Path) -> Result<ConfigDocument, Vec<FileFault>> {
    parse(path, &text(path, regular_file::open_regular(path))?)
}

/// Reads the file at `path` as a complete set: every fault of its shape counts, and an empty file is a fault.
/// A command reads it once, so it may be a pipe: `weir apply <(make-routes)`.
///
/// # Errors
/// Every fault.
pub fn read_whole(path: &Path) -> Result<ConfigDocument, Vec<FileFault>> {
    let text = text(path, File::open(path))?;
    if is_blank(&text) && TextEnding::of(&text) == TextEnding::Open {
        let reason = format!("the file is empty; for no objects, write `routes: []` or {END_MARK}");
        return Err(whole_file(path, 1, reason));
    }
    let document = parse(path, &text)?;
    if document.faults.is_empty() { Ok(document) } else { Err(document.faults) }
}

fn parse(path: &Path, text: &str) -> Result<ConfigDocument, Vec<FileFault>> {
    ConfigDocument::parse(path, text, &|name| std::env::var(name).ok())
}

/// The text of an opened file within [`MAX_FILE_BYTES`].
fn text(path: &Path, opened: io::Result<File>) -> Result<String, Vec<FileFault>> {
    let text = opened.and_then(|file| regular_file::read_bounded(file, MAX_FILE_BYTES));
    text.map_err(|error| whole_file(path, 1, format!("cannot be read: {error}")))
}

/// Whether a text holds nothing but comments.
pub fn is_blank(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'))
}

fn whole_file(path: &Path, line: usize, reason: String) -> Vec<FileFault> {
    vec![FileFault { path: path.to_owned(), line, place: String::new(), reason }]
}

fn state(path: &Path) -> io::Result<SourceFileStamp> {
    let metadata = std::fs::metadata(path)?;
    Ok(SourceFileStamp {
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        inode: metadata.ino(),
        size: metadata.size(),
    })
}

/// Limit of a file: 100,000 routes of 2.5 KB. A larger file is a mistake (a log, an archive).
const MAX_FILE_BYTES: u64 = 256 << 20;
/// The last line of a complete file, by which a reader can recognise an incomplete one (contract 2.2).
const END_MARK: &str = "#END";
/// Limit of reported equal routes. The first hundred usually show the cause.
const MAX_EQUAL_ROUTES: usize = 100;
/// The revision for a check, because a checked document has no history.
const FIRST_REVISION: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_change_is_a_new_time_size_or_inode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("weir.yaml");
        let mut source = FileSource::new(path.clone());
        assert!(!source.changed(), "a file that is not there has not changed");
        std::fs::write(&path, "routes: []\n").unwrap();
        assert!(source.changed());
        source.read().unwrap();
        assert!(!source.changed());
        std::fs::write(&path, "routes: []\n\n").unwrap();
        assert!(source.changed(), "another size");
        source.read().unwrap();
        let beside = directory.path().join("beside");
        std::fs::copy(&path, &beside).unwrap();
        std::fs::rename(&beside, &path).unwrap();
        assert!(source.changed(), "another inode");
        source.read().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(!source.changed());
        assert_eq!(source.read().unwrap_err()[0].line, 1);
    }

    #[test]
    fn file_once_ended_by_mark_must_keep_the_mark() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("weir.yaml");
        let mut source = FileSource::new(path.clone());
        let mut check = |text: &str, expected: Result<(), &str>| {
            std::fs::write(&path, text).unwrap();
            let read = source.read().map(drop).map_err(|faults| faults[0].reason.clone());
            match (read, expected) {
                (Err(reason), Err(part)) => assert!(reason.contains(part), "{text:?}: {reason}"),
                (read, expected) => assert_eq!(read.is_ok(), expected.is_ok(), "{text:?}"),
            }
        };
        check("", Ok(()));
        check("routes: []\n", Ok(()));
        check("", Err("the file is empty"));
        check("# nothing\n", Err("the file is empty"));
        check("routes:\n#END\n", Ok(()));
        check("routes:\n", Err("half written"));
        check("", Err("half written"));
        check("routes: [\n#END", Err("while parsing"));
        check("#END", Ok(()));
    }

    #[test]
    fn unreadable_files_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("weir.yaml");
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        let faults = read_document(&path).unwrap_err();
        assert_eq!(
            faults[0].to_string(),
            format!("{}:1: cannot be read: it is not UTF-8 text", path.display())
        );
        let reason = &read_document(directory.path()).unwrap_err()[0].reason;
        assert_eq!(reason, "cannot be read: it is a directory, not a regular file");
    }
}
