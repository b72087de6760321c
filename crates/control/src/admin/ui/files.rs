//! The files of the dashboard, by their names below `web/dist`, in a coding that the client accepts. A build
//! without the feature `dashboard` has none. It knows no request.

mod recode;

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use parking_lot::Mutex;

use super::negotiation::Coding;

/// A set of files. Texts are stored once, as Brotli under their name with `.br` behind it; the plain and gzip
/// forms are made from that form.
pub(in crate::admin) struct DashboardFiles {
    /// The stored content by the name in the folder.
    stored: fn(&str) -> Option<Bytes>,
    /// The gzip forms by the name of the file, made at the first request for each. Browsers offer Brotli only
    /// over HTTPS and to localhost, so gzip is the usual coding of a remote Admin listener. The largest file
    /// takes 20 ms of one of its two threads, and no key is needed to ask for it, so that the form is kept.
    /// The names are those of stored files, and all forms together have 0.6 MB.
    gzip: Mutex<BTreeMap<String, Bytes>>,
}

/// The content of a file in one coding.
pub(super) struct CodedFile {
    /// None for the plain content.
    pub(super) coding: Option<Coding>,
    pub(super) body: Bytes,
}

impl DashboardFiles {
    pub(super) const fn new(stored: fn(&str) -> Option<Bytes>) -> DashboardFiles {
        DashboardFiles { stored, gzip: Mutex::new(BTreeMap::new()) }
    }

    /// The content of a file that is stored plain, such as `index.html`; none if there is no such file.
    pub(super) fn plain(&self, name: &str) -> Option<Bytes> {
        (self.stored)(name)
    }

    /// The content of the file with that name, such as `assets/index-1a2b.js`: a text in the first of the
    /// `accepted` codings, plain if there is none; other files plain. None if there is no such file.
    ///
    /// # Errors
    /// The stored form is no Brotli, or its content is longer than a file may be.
    pub(super) fn get(&self, name: &str, accepted: &[Coding]) -> Option<io::Result<CodedFile>> {
        if name.ends_with(BROTLI_SUFFIX) {
            // The name of a stored form would give its bytes without `Content-Encoding`.
            return None;
        }
        let Some(brotli) = (self.stored)(&format!("{name}{BROTLI_SUFFIX}")) else {
            return self.plain(name).map(|body| Ok(CodedFile { coding: None, body }));
        };
        let coding = accepted.first().copied();
        let body = match coding {
            Some(Coding::Brotli) => Ok(brotli),
            Some(Coding::Gzip) => self.gzip(name, &brotli),
            // All browsers accept gzip, and the largest file takes 2 ms, so that the 1.9 MB of plain forms
            // are not kept.
            None => recode::decompress(&brotli).map(Bytes::from),
        };
        Some(body.map(|body| CodedFile { coding, body }))
    }

    fn gzip(&self, name: &str, brotli: &[u8]) -> io::Result<Bytes> {
        if let Some(made) = self.gzip.lock().get(name) {
            return Ok(made.clone());
        }
        // The lock is not held while the form is made, so that the other thread of the Admin listener need
        // not wait. If both threads make the same form, the bytes are the same.
        let made = Bytes::from(recode::gzip(&recode::decompress(brotli)?)?);
        self.gzip.lock().insert(name.to_owned(), made.clone());
        Ok(made)
    }

    /// How many gzip forms are kept.
    #[cfg(all(test, feature = "dashboard"))]
    pub(super) fn kept(&self) -> usize {
        self.gzip.lock().len()
    }
}

/// The files in the binary.
pub(in crate::admin) fn embedded() -> &'static DashboardFiles {
    static EMBEDDED: DashboardFiles = DashboardFiles::new(embedded_file);
    &EMBEDDED
}

#[cfg(feature = "dashboard")]
fn embedded_file(name: &str) -> Option<Bytes> {
    // A name with two dots in a row would leave the folder if files were read from a disk; no file has one.
    let file = Dist::get(name).filter(|_| !name.contains(".."))?;
    Some(match file.data {
        std::borrow::Cow::Borrowed(bytes) => Bytes::from_static(bytes),
        std::borrow::Cow::Owned(bytes) => Bytes::from(bytes),
    })
}

#[cfg(not(feature = "dashboard"))]
fn embedded_file(_: &str) -> Option<Bytes> {
    None
}

/// The names of the files in the binary, as they are stored.
#[cfg(all(test, feature = "dashboard"))]
pub(super) fn embedded_names() -> impl Iterator<Item = std::borrow::Cow<'static, str>> {
    Dist::iter()
}

/// The folder as it was when the binary was built; a missing one is empty.
#[cfg(feature = "dashboard")]
#[derive(rust_embed::RustEmbed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Dist;

/// The end of the name of a stored form in Brotli; `web/scripts/compress.mjs` writes them.
const BROTLI_SUFFIX: &str = ".br";
