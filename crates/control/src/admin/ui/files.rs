//! The files of the dashboard, by their names below `web/dist`. A build without the feature `dashboard` has none.

use bytes::Bytes;

/// A set of files.
pub(in crate::admin) trait Files: Send + Sync {
    /// The content of the file with that name, such as `assets/index-1a2b.js`; none if there is no such file.
    fn get(&self, name: &str) -> Option<Bytes>;
}

/// The files in the binary.
pub(in crate::admin) fn embedded() -> &'static dyn Files {
    &Embedded
}

struct Embedded;

#[cfg(feature = "dashboard")]
impl Files for Embedded {
    fn get(&self, name: &str) -> Option<Bytes> {
        // A name with two dots in a row would leave the folder if files were read from a disk; no file has one.
        let file = Dist::get(name).filter(|_| !name.contains(".."))?;
        Some(match file.data {
            std::borrow::Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            std::borrow::Cow::Owned(bytes) => Bytes::from(bytes),
        })
    }
}

#[cfg(not(feature = "dashboard"))]
impl Files for Embedded {
    fn get(&self, _: &str) -> Option<Bytes> {
        None
    }
}

/// The folder as it was when the binary was built; a missing one is empty.
#[cfg(feature = "dashboard")]
#[derive(rust_embed::RustEmbed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Dist;
