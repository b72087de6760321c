//! The setting `proxy_cache`: the zones of the plugin of that name, in the form that APISIX has for them.

use std::path::{Path, PathBuf};

use discovery::BlockFault;
use plugins::CacheSettings;
use serde_json::{Map, Value};

use super::Settings;
use super::written::SettingTexts;

/// The zones as they were written, and the folder of relative paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CacheZones {
    written: Option<Value>,
    folder: PathBuf,
}

/// The zones, as one JSON object; nothing is the default.
pub(super) fn parse_cache_zones(given: &SettingTexts) -> Result<CacheZones, String> {
    let Some(text) = given.values.first().filter(|text| !text.is_empty()) else {
        return Ok(CacheZones::default());
    };
    let written: Value = serde_json::from_str(text).map_err(|_| {
        "is no JSON object; write `{\"zones\": [{\"name\": \"memory_cache\", \"memory_size\": \"50m\"}]}`"
            .to_owned()
    })?;
    let folder = given.resolve("");
    CacheSettings::parse(&written, &folder)?;
    Ok(CacheZones { written: Some(written), folder })
}

/// The fault of a map in a settings file, if it has one.
pub(super) fn check_cache_zones(written: &Map<String, Value>) -> Vec<BlockFault> {
    let checked = CacheSettings::parse(&Value::Object(written.clone()), Path::new("."));
    checked.err().map(|reason| BlockFault { pointer: String::new(), reason }).into_iter().collect()
}

impl Settings {
    /// The zones; without the setting, those of APISIX's default, on disk in the data folder.
    ///
    /// # Errors
    /// The fault of the setting, which was checked when it was read.
    pub(crate) fn cache(&self) -> Result<CacheSettings, String> {
        match &self.proxy_cache.written {
            Some(written) if written.get("zones").is_some() => {
                CacheSettings::parse(written, &self.proxy_cache.folder)
            }
            Some(written) => CacheSettings::parse(written, &self.data),
            None => Ok(CacheSettings::in_folder(&self.data)),
        }
    }
}
