//! Compiled code on disk, so that a start does not compile each module anew. A file is taken only with a tag
//! that was made with the key of its folder, because compiled code runs without the checks of WebAssembly: a
//! faulty, foreign or old file is compiled anew. The folder and its files belong to the gateway's user alone.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use aws_lc_rs::{digest, hmac};
use data_encoding::HEXLOWER;
use wasmtime::{Engine, Module};

/// Files kept; of more, the oldest are removed. As many modules as a gateway may load, with one earlier
/// version of some.
const FILES_MAX: usize = 300;
/// The longest file that is read: compiled code takes three to ten times the bytes of its module.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The name of the file with the key.
const KEY_FILE: &str = "key";
/// The ending of files with code.
const ENDING: &str = "cwasm";
const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 32;
/// Permissions of the folder: others could put their own code in, or read the key.
const OPEN_TO_OTHERS: u32 = 0o077;

/// See the module.
pub(crate) struct CodeCache {
    folder: PathBuf,
    key: hmac::Key,
}

impl CodeCache {
    /// The cache in `folder`, which is made if it is missing.
    ///
    /// # Errors
    /// Why the folder cannot be used, a sentence.
    pub(crate) fn open(folder: &Path) -> Result<CodeCache, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let found = fs::metadata(folder).map_err(failed)?;
        if found.mode() & OPEN_TO_OTHERS != 0 {
            return Err(format!("{}: others may use the folder; make its mode 0700", folder.display()));
        }
        let path = folder.join(KEY_FILE);
        let key = match fs::read(&path) {
            Ok(key) if key.len() == KEY_BYTES => key,
            _ => make_key(folder, &path).map_err(failed)?,
        };
        Ok(CodeCache { folder: folder.to_owned(), key: hmac::Key::new(hmac::HMAC_SHA256, &key) })
    }

    fn name(content: &[u8]) -> String {
        HEXLOWER.encode(digest::digest(&digest::SHA256, content).as_ref())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name).with_extension(ENDING)
    }

    fn tag(&self, name: &str, code: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(name.as_bytes());
        context.update(code);
        context.sign()
    }

    /// The compiled code of `content`, if it is there and whole.
    pub(crate) fn get(&self, engine: &Engine, content: &[u8]) -> Option<Module> {
        let name = CodeCache::name(content);
        let path = self.path(&name);
        let mut file = fs::File::open(&path).ok()?;
        let mut bytes = Vec::new();
        let limit = FILE_BYTES_MAX.min(file.metadata().ok()?.len());
        (&mut file).take(limit).read_to_end(&mut bytes).ok()?;
        let checked = self.checked(&name, &bytes);
        let module = checked.and_then(|code| {
            // SAFETY: `checked` has verified, with the key of this folder, that this program wrote the code
            // for this content; wasmtime itself refuses code of another version or with other settings.
            #[allow(unsafe_code)]
            unsafe { Module::deserialize(engine, code) }.ok()
        });
        if module.is_none() {
            tracing::warn!(target: "wasm", file = %path.display(), "compiled code is faulty or old and is made anew");
            let _ = fs::remove_file(&path);
        }
        module
    }

    /// The code in `bytes`, if its tag is right.
    fn checked<'a>(&self, name: &str, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (tag, code) = bytes.split_at_checked(TAG_BYTES)?;
        let mut message = Vec::with_capacity(name.len() + code.len());
        message.extend_from_slice(name.as_bytes());
        message.extend_from_slice(code);
        hmac::verify(&self.key, &message, tag).ok()?;
        Some(code)
    }

    /// Keeps the compiled code of `content`. A failure costs only time at the next start, and is logged.
    pub(crate) fn put(&self, content: &[u8], module: &Module) {
        let name = CodeCache::name(content);
        let written = module.serialize().map_err(|error| error.to_string()).and_then(|code| {
            let temporary = self.folder.join(format!("{name}.{}.tmp", std::process::id()));
            let write = || {
                let mut file = OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .mode(0o600)
                    .open(&temporary)?;
                file.write_all(self.tag(&name, &code).as_ref())?;
                file.write_all(&code)?;
                fs::rename(&temporary, self.path(&name))
            };
            write().map_err(|error| {
                let _ = fs::remove_file(&temporary);
                error.to_string()
            })
        });
        if let Err(reason) = written {
            tracing::warn!(target: "wasm", %reason, "compiled code cannot be kept");
        }
        self.remove_oldest();
    }

    fn remove_oldest(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut files: Vec<(SystemTime, PathBuf)> = entries
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|ending| ending == ENDING))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        files.sort();
        let excess = files.len().saturating_sub(FILES_MAX);
        for (_, path) in files.drain(..excess) {
            let _ = fs::remove_file(path);
        }
    }
}

/// A key at random, written in one step so that two processes of one folder end with the same.
fn make_key(folder: &Path, path: &Path) -> std::io::Result<Vec<u8>> {
    let mut key = vec![0; KEY_BYTES];
    aws_lc_rs::rand::fill(&mut key).map_err(|_| std::io::Error::other("no random numbers"))?;
    let temporary = folder.join(format!("{KEY_FILE}.{}.tmp", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&key)?;
    fs::rename(&temporary, path)?;
    fs::read(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::engine;

    const MODULE: &str = "(module (memory (export \"memory\") 1) (func (export \"f\")))";

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("weir-wasm-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn faulty_files_are_not_taken() {
        let folder = folder("faulty");
        let engine = engine().unwrap();
        let content = wat::parse_str(MODULE).unwrap();
        let cache = CodeCache::open(&folder).unwrap();
        assert!(cache.get(&engine, &content).is_none());
        cache.put(&content, &Module::new(&engine, &content).unwrap());
        assert!(CodeCache::open(&folder).unwrap().get(&engine, &content).is_some(), "the key is found again");
        let path = cache.path(&CodeCache::name(&content));
        let good = fs::read(&path).unwrap();
        for at in [0, TAG_BYTES, good.len() / 2, good.len() - 1] {
            let mut faulty = good.clone();
            faulty[at] ^= 1;
            fs::write(&path, faulty).unwrap();
            assert!(cache.get(&engine, &content).is_none(), "byte {at}");
            assert!(!path.exists(), "a faulty file is removed");
        }
        for cut in [0, TAG_BYTES - 1, TAG_BYTES, good.len() - 1] {
            fs::write(&path, &good[..cut]).unwrap();
            assert!(cache.get(&engine, &content).is_none(), "cut at {cut}");
        }
        // The code of another module under this name.
        let other = wat::parse_str("(module (memory (export \"memory\") 2))").unwrap();
        cache.put(&other, &Module::new(&engine, &other).unwrap());
        fs::rename(cache.path(&CodeCache::name(&other)), &path).unwrap();
        assert!(cache.get(&engine, &content).is_none());
        // Another key.
        fs::write(&path, &good).unwrap();
        fs::write(folder.join(KEY_FILE), [7; KEY_BYTES]).unwrap();
        assert!(CodeCache::open(&folder).unwrap().get(&engine, &content).is_none());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn folder_open_to_others_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder("open");
        drop(CodeCache::open(&folder).unwrap());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let refused = CodeCache::open(&folder).err().unwrap();
        assert!(refused.contains("0700"), "{refused}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
