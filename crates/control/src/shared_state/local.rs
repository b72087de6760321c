//! Texts in a folder, one file each, for an instance that is alone. Files hold private keys, so that only
//! their owner may read them.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::SharedDocument;

/// See the module.
pub(super) struct FolderMedium {
    path: PathBuf,
    revision: AtomicU64,
}

impl FolderMedium {
    pub(super) fn new(path: PathBuf) -> FolderMedium {
        FolderMedium { path, revision: AtomicU64::new(1) }
    }

    /// The texts that are kept; none if there is no folder. A file that cannot be read is skipped and
    /// reported.
    pub(super) fn load(&self) -> io::Result<BTreeMap<String, SharedDocument>> {
        let mut documents = BTreeMap::new();
        for collection in KEPT {
            let files = match fs::read_dir(self.path.join(collection)) {
                Ok(files) => files,
                Err(fault) if fault.kind() == io::ErrorKind::NotFound => continue,
                Err(fault) => return Err(fault),
            };
            for file in files {
                let path = file?.path();
                let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(SUFFIX)) else {
                    continue;
                };
                match outbound::regular_file::read_to_string(&path, TEXT_MAX_BYTES) {
                    Ok(text) => {
                        let document = SharedDocument { text: text.into(), revision: 1 };
                        documents.insert(format!("{collection}/{name}"), document);
                    }
                    Err(fault) => {
                        tracing::error!(path = %path.display(), %fault, "state of ACME cannot be read")
                    }
                }
            }
        }
        Ok(documents)
    }

    /// Writes a text; on disk when this returns, if it is of a kind that is kept.
    pub(super) fn put(&self, path: &str, text: &str) -> io::Result<u64> {
        if let Some(file) = self.file(path) {
            let folder = file.parent().unwrap_or(&self.path);
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            let unfinished = file.with_extension("unfinished");
            let mut open = OpenOptions::new();
            let mut out = open.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
            out.write_all(text.as_bytes())?;
            out.sync_all()?;
            fs::rename(&unfinished, &file)?;
            fs::File::open(folder)?.sync_all()?;
        }
        Ok(self.revision.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(super) fn remove(&self, path: &str) -> io::Result<()> {
        match self.file(path).map(fs::remove_file) {
            Some(Err(fault)) if fault.kind() != io::ErrorKind::NotFound => Err(fault),
            _ => Ok(()),
        }
    }

    /// The file of a path; none for what ends with the process.
    fn file(&self, path: &str) -> Option<PathBuf> {
        let (collection, name) = path.split_once('/')?;
        // Names are ids and hashes; nothing of them may lead out of the folder.
        let is_plain = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        (KEPT.contains(&collection) && is_plain)
            .then(|| Path::new(&self.path).join(collection).join(format!("{name}{SUFFIX}")))
    }
}

/// Collections that outlive the process: accounts, records of certificates, and with a resource file the
/// certificates themselves.
const KEPT: [&str; 3] = ["accounts", "certificates", "objects"];
const SUFFIX: &str = ".json";
/// An object with a long chain has some ten KiB.
const TEXT_MAX_BYTES: u64 = 1 << 20;
