//! A `config.yaml` of APISIX, read as settings. This file goes through the keys; the modules under it know
//! the meaning of each key, and the parsers of the settings check the values.

mod admin;
mod cache;
mod deployment;
mod discovery;
mod draft;
mod health_checks;
mod keys;
mod listeners;
mod logs;
mod plugins;
mod profile;
mod proxy_protocol;
#[cfg(test)]
mod reference;
mod stream;
#[cfg(test)]
mod tests;
mod tree;
mod units;
mod wasm;

use std::path::Path;

use control::source::file::expand_variables;
use stdx::nearest::nearest;

use super::fault::{SettingFault, SettingLocation};
use super::remark::Remarks;
use super::written::WrittenSettings;
use super::{EnvironmentReader, SETTINGS};
use draft::{Draft, Spot};
use keys::{Act, ApisixKey, KEYS};
pub(super) use profile::of_profile;
use tree::{Content, YamlNode};

/// The settings in the text of the file `path`, and its keys that have no effect here.
pub(super) fn parse_apisix_config(
    path: &Path,
    text: &str,
    environment: &EnvironmentReader<'_>,
    faults: &mut Vec<SettingFault>,
) -> (WrittenSettings, Remarks) {
    let mut fault = |line, reason| {
        faults.push(SettingFault {
            place: SettingLocation::File { path: path.to_owned(), line },
            name: String::new(),
            reason,
        });
    };
    let expanded = match expand_variables(text, environment) {
        Ok(expanded) => expanded,
        Err(unset) => {
            unset.into_iter().for_each(|unset| fault(unset.line, unset.reason));
            return Default::default();
        }
    };
    let root = match tree::parse_yaml_tree(&expanded) {
        Ok(root) => root,
        Err((line, reason)) => {
            fault(line, reason);
            return Default::default();
        }
    };
    let mut draft = Draft::new(path, environment, faults);
    section(&mut draft, "", &root);
    admin::finish_admin(&mut draft);
    deployment::finish_deployment(&mut draft);
    stream::finish_stream(&mut draft);
    proxy_protocol::finish_proxy_protocol(&mut draft);
    listeners::finish_listeners(&mut draft);
    logs::finish_logs(&mut draft);
    plugins::finish_plugins(&mut draft);
    draft.finish()
}

/// Reads a map of keys with the prefix `prefix`.
fn section(draft: &mut Draft<'_>, prefix: &str, node: &YamlNode) {
    let entries = match &node.content {
        Content::Map(entries) => entries,
        Content::Null => return,
        Content::List(_) | Content::Scalar { .. } => {
            return draft.fault(prefix, node.line, "is a map of keys, not a value of its own".to_owned());
        }
    };
    for (name, value) in entries {
        let full = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match known(prefix, &full) {
            Some(key) => apply(draft, key, &Spot { key: &full, node: value }),
            None if is_section(&full) => section(draft, &full, value),
            None => draft.remark(&full, value.line, unknown(prefix, name)),
        }
    }
}

fn apply(draft: &mut Draft<'_>, key: &ApisixKey, spot: &Spot<'_>) {
    // Skipped, because an empty value only removes APISIX's default, which matters for one key only.
    if matches!(spot.node.content, Content::Null) && !key.takes_null {
        return;
    }
    match key.act {
        Act::Setting(setting) => draft.copy(spot, setting),
        Act::Time(setting) => units::convert_time(draft, spot, setting),
        Act::Honour(honour) => honour(draft, spot),
        Act::Same(value) if spot.node.text() == Some(value) => {}
        Act::Moot => {}
        Act::Ignore | Act::Same(_) => draft.remark(spot.key, spot.node.line, key.says.to_owned()),
    }
}

/// The row of a key: its own, or the row `SECTION.*` of its section.
fn known(prefix: &str, full: &str) -> Option<&'static ApisixKey> {
    let is_any = |path: &str| path.strip_suffix(".*").is_some_and(|section| section == prefix);
    let own = KEYS.iter().find(|key| key.path == full);
    own.or_else(|| KEYS.iter().find(|key| is_any(key.path) && !is_section(full)))
}

/// Whether the table has keys under this one.
fn is_section(full: &str) -> bool {
    KEYS.iter().any(|key| key.path.strip_prefix(full).is_some_and(|rest| rest.starts_with('.')))
}

/// The remark on a key that APISIX does not have, or has elsewhere.
fn unknown(prefix: &str, name: &str) -> String {
    let children = KEYS.iter().filter_map(|key| {
        let rest = match prefix {
            "" => key.path,
            _ => key.path.strip_prefix(prefix)?.strip_prefix('.')?,
        };
        rest.split('.').next().filter(|child| *child != "*")
    });
    if let Some(near) = nearest(name, children) {
        return format!("there is no such key; did you mean `{near}`?");
    }
    let elsewhere = |key: &&ApisixKey| key.path.rsplit('.').next() == Some(name);
    if let Some(key) = KEYS.iter().find(elsewhere) {
        return format!("there is no such key; did you mean `{}`?", key.path);
    }
    let as_section = |key: &&ApisixKey| key.path.split('.').any(|part| part == name);
    if let Some(key) = KEYS.iter().find(as_section) {
        let end = key.path.find(name).map_or(0, |start| start + name.len());
        return format!("there is no such key; did you mean `{}`?", &key.path[..end]);
    }
    match SETTINGS.iter().find(|setting| prefix.is_empty() && setting.is_called(name)) {
        Some(setting) if setting.is_secret() => {
            format!("is a setting of Weir; set the environment variable {}", setting.variable())
        }
        Some(setting) => {
            format!(
                "is a setting of Weir; beside APISIX's keys, write it as `{}` or --{}",
                setting.variable(),
                setting.flag()
            )
        }
        None => "there is no such key".to_owned(),
    }
}
