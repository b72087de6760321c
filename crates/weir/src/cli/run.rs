//! `weir run`: gathers the settings and starts an instance. The instance itself is in `boot`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueHint;

use crate::boot;
use crate::quick_copies;
use crate::settings::{SettingsArguments, SettingsSource};

/// Run the gateway
///
/// It starts with no file at all. A setting is taken from its flag, else from the environment variable
/// `WEIR_<NAME>`, else from the settings file, else it has its default.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunArguments {
    /// Settings file (YAML), with the names of the flags below, `_` for `-`
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, env = "WEIR_CONFIG", hide_env_values = true)]
    config: Option<OsString>,
    #[command(flatten)]
    settings: SettingsArguments,
}

/// Runs until the instance has stopped.
pub(crate) fn execute_run(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    quick_copies::enable_quick_copies();
    let config = settings_file(arguments.config);
    boot::run_instance(SettingsSource { config, flags: arguments.settings.written })
}

/// The settings file of the argument. An empty name counts as none, because an empty variable counts as not
/// set.
pub(crate) fn settings_file(name: Option<OsString>) -> Option<PathBuf> {
    name.filter(|name| !name.is_empty()).map(PathBuf::from)
}
