//! The languages of extensions that this program has, and the extensions that the settings name. Extensions
//! among the objects are loaded by the checks of the model, with the loader that is made here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use exchange::plugin::extension::ExtensionLanguage;
use exchange::plugin::extension_loader::Loader;
use exchange::plugin::services::Services;
use model::PluginInfo;
use model::extension::{EXTENSION_CONTENT_BYTES_MAX, LoadedVersion};

#[cfg(feature = "wasm")]
use crate::settings::HttpRequestPhase;
use crate::settings::{LUA_FOLDERS, Settings};

/// The folder of compiled code in the data folder.
#[cfg(feature = "wasm")]
const WASM_CACHE: &str = "wasm-cache";

/// An extension that the settings name.
#[derive(Clone, Debug)]
pub(crate) struct FixedExtension {
    /// Its language.
    pub(crate) language: &'static str,
    /// The name of the plugin.
    pub(crate) name: String,
    /// Its file.
    pub(crate) path: PathBuf,
    /// Replaces the priority that its code names.
    pub(crate) priority: Option<i64>,
}

/// The loader of extensions, and the extensions that the settings name.
pub(crate) struct Extensions {
    loader: Arc<Loader>,
    fixed: Vec<LoadedVersion>,
}

impl Extensions {
    /// Those of an instance that runs with these services.
    ///
    /// # Errors
    /// The first extension of the settings that cannot be loaded.
    pub(crate) fn start(settings: &Settings, services: &Arc<Services>) -> anyhow::Result<Extensions> {
        let services = services.clone();
        read_modules(settings).map_err(anyhow::Error::msg)?;
        let languages = languages(settings, true);
        let mut extensions = Extensions::none(languages, move || Ok(services.clone()));
        for wanted in fixed(settings) {
            extensions.add(&wanted)?;
        }
        Ok(extensions)
    }

    /// Those of a command, which serves no request, and the faults of the extensions that cannot be loaded.
    pub(crate) fn offline(settings: &Settings) -> (Extensions, Vec<String>) {
        let owned = settings.clone();
        let services = move || super::services(&owned).map_err(|error| format!("{error:#}"));
        let mut extensions = Extensions::none(languages(settings, false), services);
        let folders = read_modules(settings).err();
        let wanted = fixed(settings);
        let add = |wanted: &FixedExtension| extensions.add(wanted).err().map(|error| format!("{error:#}"));
        let faults = folders.into_iter().chain(wanted.iter().filter_map(add)).collect();
        (extensions, faults)
    }

    fn none(
        languages: Vec<Box<dyn ExtensionLanguage>>,
        services: impl Fn() -> Result<Arc<Services>, String> + Send + Sync + 'static,
    ) -> Extensions {
        Extensions { loader: Arc::new(Loader::new(languages, services)), fixed: Vec::new() }
    }

    /// Loads an extension of the settings.
    fn add(&mut self, wanted: &FixedExtension) -> anyhow::Result<()> {
        let FixedExtension { language, name, path, priority } = wanted;
        let is_there =
            plugins::ALL.iter().any(|kind| kind.name == name) || self.infos().any(|info| info.name == **name);
        if is_there {
            anyhow::bail!("{}: there is a plugin {name} already", path.display());
        }
        let content = read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let loaded = self.loader.load_with_priority(name, language, &content, *priority);
        self.fixed.push(loaded.map_err(|reason| {
            anyhow::anyhow!("{}: the plugin {name} cannot be loaded: {reason}", path.display())
        })?);
        Ok(())
    }

    /// The extensions of the settings, for the compiler.
    pub(crate) fn fixed(&self) -> &[LoadedVersion] {
        &self.fixed
    }

    /// The plugins of the settings' extensions, for the catalog.
    pub(crate) fn infos(&self) -> impl Iterator<Item = PluginInfo> {
        self.fixed.iter().map(|loaded| loaded.info.clone())
    }

    /// The loader, for the catalog.
    pub(crate) fn loader(&self) -> Arc<Loader> {
        self.loader.clone()
    }
}

/// The content of a file, within the limit of contents.
fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let bytes = std::fs::metadata(path)?.len();
    if bytes > EXTENSION_CONTENT_BYTES_MAX as u64 {
        anyhow::bail!("it has {bytes} bytes, and {EXTENSION_CONTENT_BYTES_MAX} are allowed");
    }
    Ok(std::fs::read(path)?)
}

/// The languages that this program was built with. Compiled code is kept in the data folder if the instance
/// serves.
fn languages(settings: &Settings, serves: bool) -> Vec<Box<dyn ExtensionLanguage>> {
    let _ = (settings, serves);
    vec![
        #[cfg(feature = "lua")]
        Box::new(lua::Language),
        #[cfg(feature = "wasm")]
        Box::new(wasm_language(settings, serves)),
    ]
}

#[cfg(feature = "wasm")]
fn wasm_language(settings: &Settings, serves: bool) -> wasm::Language {
    let options = settings.wasm.0.iter().map(|plugin| {
        let phase = match plugin.http_request_phase {
            HttpRequestPhase::Access => wasm::RequestPhase::Access,
            HttpRequestPhase::Rewrite => wasm::RequestPhase::Rewrite,
        };
        (plugin.name.clone(), wasm::PluginOptions { priority: plugin.priority, phase })
    });
    let language = wasm::Language::default().with_options(options.collect());
    if serves { language.with_cache(settings.data.join(WASM_CACHE)) } else { language }
}

/// The extensions that the settings name, from all languages.
fn fixed(settings: &Settings) -> Vec<FixedExtension> {
    let wasm = settings.wasm.0.iter().map(|plugin| FixedExtension {
        language: "wasm",
        name: plugin.name.clone(),
        path: plugin.file.clone(),
        priority: Some(plugin.priority),
    });
    let in_lua = |name: &String| {
        let [file, of_streams] = LUA_FOLDERS.map(|folder| Path::new(folder).join(format!("{name}.lua")));
        let within = |file: &Path| {
            let mut paths = settings.lua_path.iter().map(|folder| folder.join(file));
            paths.find(|path| path.is_file())
        };
        let path = within(&file).or_else(|| within(&of_streams)).unwrap_or(file);
        FixedExtension { language: "lua", name: name.clone(), path, priority: None }
    };
    wasm.chain(settings.lua_plugins.iter().map(in_lua)).collect()
}

/// Reads the modules that plugins in Lua require.
fn read_modules(settings: &Settings) -> Result<(), String> {
    #[cfg(feature = "lua")]
    for folder in &settings.lua_path {
        lua::read_modules(folder).map_err(|reason| format!("lua_path: {reason}"))?;
    }
    #[cfg(not(feature = "lua"))]
    if !settings.lua_path.is_empty() {
        return Err("lua_path: this program was built without the feature `lua`".to_owned());
    }
    Ok(())
}
