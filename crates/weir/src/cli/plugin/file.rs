//! The file of a plugin: its content, its name and its language, and its code, loaded in the sandbox. It
//! names no language.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::ValueHint;
use exchange::plugin::extension_loader::{LoadedCode, Loader};
use model::extension::{EXTENSION_CONTENT_BYTES_MAX, ExtensionLoader, LoadedVersion, version_of};

use crate::boot;
use crate::settings::{Settings, WrittenSettings};

/// The file of a plugin, and what its name does not say.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct FileArguments {
    /// File with the code: NAME.lua or NAME.wasm
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,
    /// Name of the plugin [default: the name of the file]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Language of the code [default: the ending of the file]
    #[arg(long, value_name = "LANGUAGE")]
    pub(super) language: Option<String>,
}

/// The content of a plugin's file, with its name and its language.
pub(super) struct PluginFile {
    pub(super) name: String,
    pub(super) language: String,
    pub(super) content: Vec<u8>,
}

impl FileArguments {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read or is too long, or its name says no language.
    pub(super) fn read(&self) -> anyhow::Result<PluginFile> {
        let part = |part: Option<&std::ffi::OsStr>| part.and_then(|part| part.to_str()).map(str::to_owned);
        let name = self.name.clone().or_else(|| part(self.file.file_stem()));
        let language = self.language.clone().or_else(|| part(self.file.extension()));
        let content = read(&self.file)?;
        match (name, language) {
            (Some(name), Some(language)) => Ok(PluginFile { name, language, content }),
            _ => bail!("{}: the name of the file has no ending: give --language", self.file.display()),
        }
    }
}

impl PluginFile {
    /// The version that the content is.
    pub(super) fn version(&self) -> String {
        version_of(&self.content)
    }

    /// Loads the code in the sandbox of its language.
    ///
    /// # Errors
    /// The reason of the language.
    pub(super) fn load(&self) -> anyhow::Result<LoadedVersion> {
        let loader = loader()?;
        let known = loader.languages();
        if !known.contains(&&*self.language) {
            bail!("this program has no language {}; it has {}", self.language, known.join(" and "));
        }
        let loaded = loader.load(&self.name, &self.language, &self.content).map_err(anyhow::Error::msg)?;
        model::extension::LoadedExtension::new(loaded.clone(), None)
            .plugin
            .compile()
            .map_err(|error| anyhow::anyhow!("its schema is no JSON Schema: {error}"))?;
        Ok(loaded)
    }
}

/// The code of a loaded version.
pub(super) fn code(loaded: &LoadedVersion) -> anyhow::Result<&LoadedCode> {
    loaded.code.downcast_ref::<LoadedCode>().context("the version was loaded by another loader")
}

/// The settings of an instance without a settings file.
///
/// # Errors
/// Faulty settings in the environment.
pub(super) fn load_environment_settings() -> anyhow::Result<Settings> {
    Ok(Settings::load(None, std::env::vars_os(), WrittenSettings::default())?.settings)
}

/// The loader of this program, as an instance without a settings file has it.
///
/// # Errors
/// Faulty settings in the environment.
pub(in crate::cli) fn loader() -> anyhow::Result<Arc<Loader>> {
    Ok(boot::Extensions::offline(&load_environment_settings()?).0.loader())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let about = || format!("cannot read {}", path.display());
    let bytes = std::fs::metadata(path).with_context(about)?.len();
    if bytes > EXTENSION_CONTENT_BYTES_MAX as u64 {
        bail!("{} has {bytes} bytes, and {EXTENSION_CONTENT_BYTES_MAX} are allowed", path.display());
    }
    std::fs::read(path).with_context(about)
}
