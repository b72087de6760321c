//! The settings file: YAML with a line number for every key. Parses no value; recognises files of another
//! kind.

use std::path::Path;

use ::discovery::BlockFault;
use outbound::regular_file;
use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};
use serde_json::{Map, Value};
use stdx::nearest::{misspelt, nearest};

use super::fault::{SettingFault, SettingLocation};
use super::remark::Remarks;
use super::table::Setting;
use super::written::WrittenSettings;
use super::{EnvironmentReader, SETTINGS, apisix, discovery};

/// The kind of a YAML or JSON file, by its top-level keys.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FileKind {
    /// A `config.yaml` of APISIX.
    ApisixConfig,
    /// Routes, upstreams and other resources.
    Resources,
    /// A settings file, or an unknown file.
    Settings,
}

/// The kind of a file's text.
#[must_use]
pub(crate) fn kind_of(text: &str) -> FileKind {
    let keys = top_level_keys(text);
    let has = |names: &[&str]| keys.iter().any(|key| names.contains(&key.as_str()));
    if has(&APISIX_KEYS) {
        FileKind::ApisixConfig
    } else if has(&RESOURCE_KEYS) || names_misspelt_resource(&keys) {
        FileKind::Resources
    } else {
        FileKind::Settings
    }
}

/// Whether no key is a setting and one is a typing error of a kind of object (`route:` for `routes:`), not of
/// a setting.
fn names_misspelt_resource(keys: &[String]) -> bool {
    let is_setting =
        |key: &str| GROUPS.contains(&key) || SETTINGS.iter().any(|setting| setting.is_called(key));
    let is_resource = |key: &str| {
        misspelt(key, RESOURCE_KEYS).is_some()
            && misspelt(key, SETTINGS.iter().map(Setting::shown_name)).is_none()
    };
    !keys.iter().any(|key| is_setting(key)) && keys.iter().any(|key| is_resource(key))
}

/// Reads and parses the file at `path`. If that is a file of APISIX, reads the file that `APISIX_PROFILE`
/// selects instead.
pub(super) fn read_settings_file(
    path: &Path,
    environment: &EnvironmentReader<'_>,
    faults: &mut Vec<SettingFault>,
) -> (WrittenSettings, Remarks) {
    let mut fault = |path: &Path, error: std::io::Error, hint: &str| {
        let reason = format!("cannot be read{hint}: {error}");
        faults.push(SettingFault { place: place(path, 0), name: String::new(), reason });
        Default::default()
    };
    let named = regular_file::read_to_string(path, MAX_FILE_BYTES);
    let may_be_apisix = named.as_ref().map_or(true, |text| kind_of(text) == FileKind::ApisixConfig);
    let other = apisix::of_profile(path, environment).filter(|_| may_be_apisix);
    match (named, other) {
        (Ok(text), None) => parse_settings_file(path, &text, environment, faults),
        (Err(error), None) => fault(path, error, ""),
        (_, Some(other)) => match regular_file::read_to_string(&other, MAX_FILE_BYTES) {
            Ok(text) => apisix::parse_apisix_config(&other, &text, environment, faults),
            Err(error) => fault(&other, error, " (APISIX_PROFILE names it)"),
        },
    }
}

/// Parses the text of the file `path`, which is the place in faults and the base of relative paths.
pub(super) fn parse_settings_file(
    path: &Path,
    text: &str,
    environment: &EnvironmentReader<'_>,
    faults: &mut Vec<SettingFault>,
) -> (WrittenSettings, Remarks) {
    match kind_of(text) {
        FileKind::ApisixConfig => apisix::parse_apisix_config(path, text, environment, faults),
        FileKind::Resources | FileKind::Settings => (settings(path, text, faults), Remarks::default()),
    }
}

/// Parses the text of a settings file.
fn settings(path: &Path, text: &str, faults: &mut Vec<SettingFault>) -> WrittenSettings {
    let mut fault = |line, name: &str, reason: String| {
        faults.push(SettingFault { place: place(path, line), name: name.to_owned(), reason });
    };
    let mut written = WrittenSettings::default();
    let documents = match MarkedYaml::load_from_str(text) {
        Ok(documents) => documents,
        Err(error) => {
            fault(error.marker().line(), "", format!("not YAML: {}", error.info()));
            return written;
        }
    };
    if documents.len() > 1 {
        fault(documents[1].span.start.line(), "", "a settings file is one YAML document".to_owned());
    }
    let entries = match documents.first().map(|document| &document.data) {
        None | Some(YamlData::Value(Scalar::Null)) => return written,
        Some(YamlData::Mapping(entries)) => entries,
        Some(_) => {
            fault(1, "", "not a map of settings; write lines such as `proxy: 0.0.0.0:9080`".to_owned());
            return written;
        }
    };
    for (key, value) in entries {
        let line = key.span.start.line();
        let Some(name) = scalar_text(key) else {
            fault(line, "", "a setting's name is a plain word".to_owned());
            continue;
        };
        for (name, line, value) in ungrouped(name, line, value) {
            if let Ok(value) = &value
                && let Some(check) = check_of_blocks(&name)
                && let Value::Object(blocks) = discovery::yaml_to_json(value)
            {
                let faults = check(&blocks);
                for found in &faults {
                    let name = format!("{name}{}", found.pointer.replace('/', "."));
                    fault(
                        discovery::find_pointer_line(value, &found.pointer, line),
                        &name,
                        found.reason.clone(),
                    );
                }
                if !faults.is_empty() {
                    continue;
                }
            }
            match value.and_then(|value| entry(&name, value)) {
                Ok((setting, values)) => written.insert(setting, values, place(path, line)),
                Err(reason) => fault(line, &name, reason),
            }
        }
    }
    written
}

/// Gives all faults of a setting with a block for each registry.
type CheckBlocks = fn(&Map<String, Value>) -> Vec<BlockFault>;

/// The check of a setting with a block for each registry.
fn check_of_blocks(name: &str) -> Option<CheckBlocks> {
    match name {
        "discovery" => Some(::discovery::check_discovery_blocks),
        "proxy_cache" => Some(super::cache::check_cache_zones),
        "wasm" => Some(super::wasm::check_wasm_plugins),
        "registration" => Some(::discovery::registration::check_registration_blocks),
        _ => None,
    }
}

/// A name, its line, and its value or a fault.
type NamedValue<'v, 'y> = (String, usize, Result<&'v MarkedYaml<'y>, String>);

/// The settings of a group that is written as a map, such as `acme: {email: …}`; any other setting as it is.
fn ungrouped<'v, 'y>(name: String, line: usize, value: &'v MarkedYaml<'y>) -> Vec<NamedValue<'v, 'y>> {
    let group = GROUPS.contains(&name.as_str()).then(|| value.data.as_mapping()).flatten();
    let Some(entries) = group else { return vec![(name, line, Ok(value))] };
    let entry = |(key, value): (&MarkedYaml<'y>, &'v MarkedYaml<'y>)| {
        let line = key.span.start.line();
        match scalar_text(key) {
            Some(key) => (format!("{name}_{key}"), line, Ok(value)),
            None => (name.clone(), line, Err("a setting's name is a plain word".to_owned())),
        }
    };
    entries.iter().map(entry).collect()
}

/// The setting called `name` and the texts of its value.
fn entry(name: &str, value: &MarkedYaml<'_>) -> Result<(&'static Setting, Vec<String>), String> {
    let setting = SETTINGS.iter().find(|setting| setting.is_called(name)).ok_or_else(|| unknown(name))?;
    if setting.is_secret() {
        return Err(format!(
            "is a secret and does not belong in a file; set the environment variable {}",
            setting.variable()
        ));
    }
    Ok((setting, texts(setting, value)?))
}

/// The texts of a value: one for a scalar, one for each item of a list, JSON for a map where the setting
/// takes one.
fn texts(setting: &Setting, value: &MarkedYaml<'_>) -> Result<Vec<String>, String> {
    let item = |node: &MarkedYaml<'_>| scalar_text(node).ok_or("a list holds plain values only".to_owned());
    match &value.data {
        YamlData::Sequence(items) => items.iter().map(item).collect(),
        YamlData::Mapping(_) if check_of_blocks(setting.name).is_some() => {
            Ok(vec![discovery::yaml_to_json(value).to_string()])
        }
        YamlData::Mapping(_) if setting.takes_map() => Ok(vec![map_as_json(value)?]),
        YamlData::Mapping(_) => Err("takes a plain value, not a map".to_owned()),
        YamlData::Value(Scalar::Null) => Err("has no value; write one, or leave the line out".to_owned()),
        _ => scalar_text(value).map(|text| vec![text]).ok_or("is not a plain value".to_owned()),
    }
}

/// A map of texts as a JSON object, in its order.
fn map_as_json(value: &MarkedYaml<'_>) -> Result<String, String> {
    let entries = value.data.as_mapping().into_iter().flatten();
    let mut object = serde_json::Map::new();
    for (key, value) in entries {
        let (Some(key), Some(value)) = (scalar_text(key), scalar_text(value)) else {
            return Err("a map here holds plain texts only".to_owned());
        };
        object.insert(key, serde_json::Value::String(value));
    }
    Ok(serde_json::Value::Object(object).to_string())
}

/// The text of a scalar; nothing for null, lists and maps.
fn scalar_text(node: &MarkedYaml<'_>) -> Option<String> {
    match &node.data {
        YamlData::Value(Scalar::String(text)) => Some(text.to_string()),
        YamlData::Value(Scalar::Integer(number)) => Some(number.to_string()),
        YamlData::Value(Scalar::Boolean(value)) => Some(value.to_string()),
        YamlData::Value(Scalar::FloatingPoint(number)) => Some(number.to_string()),
        _ => None,
    }
}

/// The reason to refuse `name`, with the nearest known setting.
fn unknown(name: &str) -> String {
    if RESOURCE_KEYS.contains(&name) {
        return "is a resource, not a setting; put it in a file of its own and name that file with `resources: FILE`"
            .to_owned();
    }
    match nearest(name, SETTINGS.iter().filter(|setting| !setting.is_secret()).map(Setting::shown_name)) {
        Some(near) => format!("no such setting; did you mean `{near}`?"),
        None => match misspelt(name, RESOURCE_KEYS) {
            Some(near) => {
                format!("no such setting; the kind of object is `{near}`, in a file that `resources` names")
            }
            None => "no such setting; `weir run --help` lists them".to_owned(),
        },
    }
}

fn place(path: &Path, line: usize) -> SettingLocation {
    SettingLocation::File { path: path.to_owned(), line }
}

/// The keys of the outermost map. For a text that is not YAML, the words before a colon at the start of a
/// line, so that its faults are reported for the kind of file that was meant. A resources file may not be
/// YAML before `${{VAR}}` is replaced.
fn top_level_keys(text: &str) -> Vec<String> {
    if let Ok(documents) = MarkedYaml::load_from_str(text) {
        let map = documents.first().and_then(|document| document.data.as_mapping());
        return map.into_iter().flatten().filter_map(|(key, _)| scalar_text(key)).collect();
    }
    let unindented = text.lines().filter(|line| !line.starts_with([' ', '\t', '#']));
    let before_colon = unindented.filter_map(|line| line.split_once(':')).map(|(key, _)| key);
    before_colon.map(|key| key.trim_matches(['{', '"', '\'', ' ', '\t', '\u{feff}']).to_owned()).collect()
}

/// Largest settings file in bytes. A `config.yaml` of APISIX with all its comments has 35 KiB; a larger file
/// is a mistake.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Top-level keys that only a `config.yaml` of APISIX has (contract 2.2).
const APISIX_KEYS: [&str; 4] = ["apisix", "deployment", "nginx_config", "plugin_attr"];

/// Prefixes of settings that may be written as one map.
const GROUPS: [&str; 1] = ["acme"];

/// Top-level keys of a resources file (contract 2.2).
const RESOURCE_KEYS: [&str; 15] = [
    "routes",
    "services",
    "upstreams",
    "consumers",
    "credentials",
    "consumer_groups",
    "plugin_configs",
    "global_rules",
    "plugin_metadata",
    "ssls",
    "protos",
    "stream_routes",
    "secrets",
    "extensions",
    "contracts",
];
