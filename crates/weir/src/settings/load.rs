//! From the sources of settings to the values in force: defaults, file, environment, flags.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::file;
use super::{Faults, Remarks, SettingFault, Settings, WrittenSettings};

/// The sources of settings besides the environment: read at the start, and again at HUP.
#[derive(Debug)]
pub(crate) struct SettingsSource {
    /// The settings file.
    pub(crate) config: Option<PathBuf>,
    /// The flags of the command line.
    pub(crate) flags: WrittenSettings,
}

impl SettingsSource {
    /// The settings as they are written now.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub(crate) fn load(&self) -> Result<LoadedSettings, Faults> {
        Settings::load(self.config.as_deref(), std::env::vars_os(), self.flags.clone())
    }
}

/// Settings, and the keys of the file that have no effect.
#[derive(Clone, Debug)]
pub(crate) struct LoadedSettings {
    /// The settings in force.
    pub(crate) settings: Settings,
    /// The keys of the file that have no effect here.
    pub(crate) remarks: Remarks,
}

impl Settings {
    /// The settings in force: defaults, then the settings file, then the environment, then flags.
    ///
    /// # Errors
    /// Every fault of every source, each with its place. A file that cannot be read or parsed is one fault.
    pub(crate) fn load(
        config: Option<&Path>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        flags: WrittenSettings,
    ) -> Result<LoadedSettings, Faults> {
        let mut faults = Vec::new();
        let mut written = WrittenSettings::defaults();
        let mut remarks = Remarks::default();
        let variables: Vec<(OsString, OsString)> = environment.into_iter().collect();
        if let Some(path) = config {
            let lookup = |name: &str| {
                let (_, value) = variables.iter().find(|(found, _)| found == name)?;
                value.to_str().map(str::to_owned)
            };
            let (from_file, said) = file::read_settings_file(path, &lookup, &mut faults);
            written.override_with(from_file);
            remarks = said;
        }
        written.override_with(WrittenSettings::from_environment(variables, &mut faults));
        written.override_with(flags);
        Self::from_written(&written, faults).map(|settings| LoadedSettings { settings, remarks })
    }

    /// The settings that the text of a settings file gives over the defaults, without environment and flags,
    /// for a check of the file alone. Only `${{VARIABLE}}` in a file of APISIX is replaced from the
    /// environment of this process.
    ///
    /// # Errors
    /// Every fault, with `path` and its line.
    pub(crate) fn from_file_text(path: &Path, text: &str) -> Result<LoadedSettings, Faults> {
        let mut faults = Vec::new();
        let mut written = WrittenSettings::defaults();
        let (from_file, remarks) =
            file::parse_settings_file(path, text, &|name| std::env::var(name).ok(), &mut faults);
        written.override_with(from_file);
        written.assume_etcd_password();
        Self::from_written(&written, faults).map(|settings| LoadedSettings { settings, remarks })
    }

    /// Parses every value, then checks the values that depend on each other.
    pub(super) fn from_written(
        written: &WrittenSettings,
        mut faults: Vec<SettingFault>,
    ) -> Result<Self, Faults> {
        let resolved = Self::resolve(written, &mut faults);
        resolved.and_then(|settings| settings.check_relations(written, &mut faults)).ok_or(Faults(faults))
    }
}
