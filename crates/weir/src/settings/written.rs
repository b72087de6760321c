//! Settings as written: texts with their places, with the precedence of sources. Knows the syntax of no
//! value.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use stdx::nearest::nearest;

use super::fault::{SettingFault, SettingLocation};
use super::service_variable::is_service_variable;
use super::table::{Setting, variable_of};
use super::{SETTINGS, shown_name};

/// The texts that one source has for one setting.
#[derive(Clone, Debug)]
pub(crate) struct SettingTexts {
    /// The texts in order: one, or several from a list or a repeated flag; no text is an empty default.
    pub(crate) values: Vec<String>,
    /// Where they were written.
    pub(crate) place: SettingLocation,
}

/// Settings that were written, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct WrittenSettings(BTreeMap<&'static str, SettingTexts>);

impl WrittenSettings {
    /// The defaults of all settings.
    #[must_use]
    pub(crate) fn defaults() -> Self {
        let mut written = Self::default();
        for setting in SETTINGS {
            let values = Some(setting.default).filter(|text| !text.is_empty()).map(str::to_owned);
            written.insert(setting, values.into_iter().collect(), SettingLocation::Default);
        }
        written
    }

    /// The `WEIR_<NAME>` variables. An empty one counts as not set, because compose files pass unset
    /// variables as empty ones.
    ///
    /// Other `WEIR_` variables are ignored, because resource files may use them. A near miss of a setting is
    /// a fault, except for variables that Kubernetes sets for its Services.
    pub(crate) fn from_environment(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        faults: &mut Vec<SettingFault>,
    ) -> Self {
        let mut written = Self::default();
        for (variable, value) in variables {
            let Some(variable) = variable.to_str().filter(|name| name.starts_with("WEIR_")) else { continue };
            if value.is_empty() || [CONFIG_VARIABLE, UPGRADE_VARIABLE].contains(&variable) {
                continue;
            }
            match (find_variable(variable), value.into_string()) {
                (Some(setting), Ok(text)) => {
                    written.insert(setting, vec![text], SettingLocation::Environment)
                }
                (Some(_), Err(_)) => {
                    faults.push(environment_fault(variable, "is not valid UTF-8".to_owned()));
                }
                (None, Ok(text)) if is_service_variable(variable, &text) => {}
                (None, _) => faults.extend(near_miss(variable)),
            }
        }
        written
    }

    /// Writes one setting; replaces an earlier value.
    pub(crate) fn insert(&mut self, setting: &'static Setting, values: Vec<String>, place: SettingLocation) {
        self.0.insert(setting.name, SettingTexts { values, place });
    }

    /// Takes all settings of `other`; they replace those that are here.
    pub(crate) fn override_with(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Stands in for the password of etcd beside a user name of a settings file, which is checked without the
    /// environment of the service, and may not hold the password itself. A file of APISIX holds both.
    pub(super) fn assume_etcd_password(&mut self) {
        let is_named = self
            .0
            .get("etcd_username")
            .is_some_and(|given| matches!(given.place, SettingLocation::File { .. }));
        if let Some(password) = self.0.get_mut("etcd_password")
            && is_named
            && password.values.is_empty()
        {
            password.values = vec!["of the environment".to_owned()];
        }
    }

    /// The value of the setting `name`, or a fault.
    pub(super) fn read<T>(
        &self,
        name: &'static str,
        parser: fn(&SettingTexts) -> Result<T, String>,
        faults: &mut Vec<SettingFault>,
    ) -> Option<T> {
        let given = self.0.get(name).expect("defaults are written for every setting");
        parser(given).map_err(|reason| faults.push(self.fault(name, reason))).ok()
    }

    /// A fault of two settings together, reported at the one with the later line or the higher source.
    pub(super) fn fault_of_pair(&self, names: [&'static str; 2], reason: String) -> SettingFault {
        let rank = |name: &&str| match self.0.get(*name).map(|given| &given.place) {
            None | Some(SettingLocation::Default) => (0, 0),
            Some(SettingLocation::File { line, .. } | SettingLocation::Translated { line, .. }) => (1, *line),
            Some(SettingLocation::Environment) => (2, 0),
            Some(SettingLocation::Flag) => (3, 0),
        };
        self.fault(names.into_iter().max_by_key(rank).expect("two names"), reason)
    }

    /// A fault of the setting `name`, at the place where it was written.
    pub(super) fn fault(&self, name: &'static str, reason: String) -> SettingFault {
        let place = self.0.get(name).map_or(SettingLocation::Default, |given| given.place.clone());
        let shown = shown_name(name);
        let name = match place {
            SettingLocation::Environment => variable_of(shown),
            SettingLocation::Flag => format!("--{}", shown.replace('_', "-")),
            SettingLocation::Translated { ref key, .. } => key.to_string(),
            SettingLocation::Default | SettingLocation::File { .. } => shown.to_owned(),
        };
        SettingFault { place, name, reason }
    }
}

impl SettingTexts {
    /// A path in absolute form or relative to the working folder: a relative one in a settings file is
    /// relative to that file.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        match &self.place {
            SettingLocation::File { path: file, .. } | SettingLocation::Translated { path: file, .. } => {
                file.parent().unwrap_or(Path::new("")).join(path)
            }
            SettingLocation::Default | SettingLocation::Environment | SettingLocation::Flag => {
                PathBuf::from(path)
            }
        }
    }
}

fn find_variable(variable: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| {
        variable == variable_of(setting.name)
            || setting.short_name.is_some_and(|short| variable == variable_of(short))
    })
}

fn near_miss(variable: &str) -> Option<SettingFault> {
    let name = variable.strip_prefix("WEIR_")?.to_ascii_lowercase();
    let near = nearest(&name, SETTINGS.iter().map(Setting::shown_name))?;
    Some(environment_fault(variable, format!("no such setting; did you mean `{}`?", variable_of(near))))
}

fn environment_fault(variable: &str, reason: String) -> SettingFault {
    SettingFault { place: SettingLocation::Environment, name: variable.to_owned(), reason }
}

/// Marks a process that is started for an upgrade, with the id of its parent. Only the upgrade sets it.
pub(crate) const UPGRADE_VARIABLE: &str = "WEIR_UPGRADE_FROM";

/// Names the settings file; the command line reads the variable.
pub(super) const CONFIG_VARIABLE: &str = "WEIR_CONFIG";
