//! Extensions: plugins of users, which are objects. The seam to the code that loads them, and the plugins of
//! those that are loaded. It knows no language and runs nothing.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{BASE64, HEXLOWER};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::catalog::{CatalogPlugin, PluginInfo};

/// Versions that one extension keeps: those that a rollback or a comparison may need. Pushing one more drops
/// the oldest that serves no request.
pub const EXTENSION_VERSIONS_MAX: usize = 10;
/// The longest text of all versions of an extension together, in bytes: an object of it fits a request of
/// etcd (1.5 MiB) and a body of the Admin API (1.5 MiB) with its other fields.
pub const EXTENSION_TEXT_BYTES_MAX: usize = 1_400_000;
/// The largest content of one version, decoded, in bytes. A module that is sent compressed grows to that at
/// most.
pub const EXTENSION_CONTENT_BYTES_MAX: usize = 16 << 20;

/// Loads versions of extensions, in a sandbox that serves no request.
pub trait ExtensionLoader: Send + Sync {
    /// The languages that it knows.
    fn languages(&self) -> Vec<&'static str>;

    /// Whether contents of the language are no text, and so are written in base64.
    fn is_binary(&self, language: &str) -> bool;

    /// Loads a version.
    ///
    /// # Errors
    /// Why it cannot be loaded, a sentence.
    fn load(&self, name: &str, language: &str, content: &[u8]) -> Result<LoadedVersion, String>;
}

/// A version of an extension that can serve requests.
#[derive(Clone)]
pub struct LoadedVersion {
    /// The plugin that it is.
    pub info: PluginInfo,
    /// A number that no other loaded version of this process has.
    pub serial: u64,
    /// The code, for the side that runs it.
    pub code: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for LoadedVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "LoadedVersion({:?}, {})", self.info, self.serial)
    }
}

/// An extension that is in force: the version that serves, and the one that serves a share of the requests.
#[derive(Clone, Debug)]
pub struct LoadedExtension {
    /// The active version.
    pub active: LoadedVersion,
    /// The version on trial.
    pub canary: Option<LoadedVersion>,
    /// The plugin as the checks see it.
    pub plugin: Arc<CatalogPlugin>,
}

impl LoadedExtension {
    /// The extension with these versions: its plugin has the schema of the active one, serves the traffic
    /// that both versions serve, and a configuration must pass the canary's schema and check too.
    #[must_use]
    pub fn new(active: LoadedVersion, canary: Option<LoadedVersion>) -> LoadedExtension {
        let mut info = active.info.clone();
        if let Some(canary) = &canary {
            if info.subsystems != canary.info.subsystems {
                info.subsystems = info.subsystems_shared_with(&canary.info);
            }
            let second = CatalogPlugin::of_user(canary.info.clone());
            let first = info.check_running.take();
            info.check_running = Some(Arc::new(move |config| {
                first.as_ref().map_or(Ok(()), |check| check(config))?;
                match second.first_fault(config) {
                    Some(reason) => Err(format!("the canary version refuses it: {reason}")),
                    None => Ok(()),
                }
            }));
        }
        LoadedExtension { active, canary, plugin: Arc::new(CatalogPlugin::of_user(info)) }
    }
}

/// The plugins of the extensions in force, by name. A clone shares them.
#[derive(Clone, Debug, Default)]
pub struct ExtensionPlugins(Arc<BTreeMap<Box<str>, Arc<CatalogPlugin>>>);

impl ExtensionPlugins {
    /// The plugin of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&CatalogPlugin> {
        self.0.get(name).map(|plugin| &**plugin)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &CatalogPlugin> {
        self.0.values().map(|plugin| &**plugin)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts a plugin in, or takes it out.
    pub(crate) fn set(&mut self, name: &str, plugin: Option<Arc<CatalogPlugin>>) {
        match plugin {
            Some(plugin) => drop(Arc::make_mut(&mut self.0).insert(name.into(), plugin)),
            None if self.0.contains_key(name) => drop(Arc::make_mut(&mut self.0).remove(name)),
            None => {}
        }
    }
}

/// The bytes of a written content: of a language of texts the text, otherwise base64, of gzip or of the bytes
/// themselves.
///
/// # Errors
/// Why the text is no content, a sentence.
pub fn decoded(is_binary: bool, text: &str) -> Result<Vec<u8>, String> {
    if !is_binary {
        return Ok(text.as_bytes().to_vec());
    }
    let encoded: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let bytes = BASE64.decode(&encoded).map_err(|error| format!("it is no base64: {error}"))?;
    if !bytes.starts_with(&GZIP_MAGIC) {
        return Ok(bytes);
    }
    let mut content = Vec::new();
    let limit = EXTENSION_CONTENT_BYTES_MAX as u64 + 1;
    let read = GzDecoder::new(&*bytes).take(limit).read_to_end(&mut content);
    read.map_err(|error| format!("its gzip data are damaged: {error}"))?;
    if content.len() > EXTENSION_CONTENT_BYTES_MAX {
        return Err(format!("it is longer than {EXTENSION_CONTENT_BYTES_MAX} bytes when it is decompressed"));
    }
    Ok(content)
}

/// The written form of a content: the reverse of [`decoded`]. A large module is written in its gzip form.
///
/// # Errors
/// The content is of a language of texts and no text.
pub fn encoded(is_binary: bool, content: &[u8]) -> Result<String, String> {
    if !is_binary {
        return match std::str::from_utf8(content) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(format!("it is no text in UTF-8: {error}")),
        };
    }
    if content.len() < COMPRESSED_FROM_BYTES {
        return Ok(BASE64.encode(content));
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(content).and_then(|()| encoder.finish());
    Ok(BASE64.encode(&written.map_err(|error| format!("it cannot be compressed: {error}"))?))
}

/// The SHA-256 of a content in hexadecimal: the name of its version.
#[must_use]
pub fn version_of(content: &[u8]) -> String {
    HEXLOWER.encode(digest(&SHA256, content).as_ref())
}

/// Shorter modules are written as they are, so that an object of one can be read without a tool.
const COMPRESSED_FROM_BYTES: usize = 4_096;
/// The first bytes of gzip data (RFC 1952 section 2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_contents_are_decoded_to_the_same() {
        for content in [b"short".to_vec(), vec![b'x'; COMPRESSED_FROM_BYTES]] {
            for is_binary in [true, false] {
                let text = encoded(is_binary, &content).unwrap();
                assert_eq!(decoded(is_binary, &text).unwrap(), content);
                assert!(text.len() <= content.len() * 2);
            }
        }
        assert!(encoded(false, b"\xff").is_err());
    }

    #[test]
    fn contents_are_decoded_within_a_limit() {
        let gzip = |bytes: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(bytes).unwrap();
            BASE64.encode(&encoder.finish().unwrap())
        };
        assert_eq!(decoded(false, "return {}").unwrap(), b"return {}");
        assert_eq!(decoded(true, " AGFz\nbQ== ").unwrap(), b"\0asm");
        assert_eq!(decoded(true, &gzip(b"\0asm")).unwrap(), b"\0asm");
        for (faulty, reason) in [
            ("?".to_owned(), "no base64"),
            (BASE64.encode(&[0x1f, 0x8b, 1]), "gzip data are damaged"),
            (gzip(&vec![0; EXTENSION_CONTENT_BYTES_MAX + 1]), "longer than"),
        ] {
            let found = decoded(true, &faulty).unwrap_err();
            assert!(found.contains(reason), "{found}");
        }
    }

    #[test]
    fn version_is_the_digest_of_the_content() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(version_of(b"abc"), expected);
    }
}
