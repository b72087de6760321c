//! `weir upgrade`: has the instance on a data folder replaced by the binary that is at its path now, and
//! prints the outcome. The two processes do the upgrade themselves.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueHint;

use super::run::settings_file;
use crate::boot::upgrade;
use crate::settings::{SETTINGS, SettingLocation, Settings, WrittenSettings};
use crate::terminal::print;

/// Replace the binary of the running node without refusing a connection
///
/// Finds the node by the lock of its data folder and sends it USR2: it starts the binary that lies where its
/// own was started from, with the same arguments and the settings as they are written now, hands it its
/// listeners and its store, and ends once the new process serves. If that cannot be, it goes on, and the
/// reason is printed; exit code 1.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct UpgradeArguments {
    /// Settings file (YAML) of the node
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, env = "WEIR_CONFIG", hide_env_values = true)]
    config: Option<OsString>,
    /// Data folder of the node [default: as in its settings]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    data: Option<String>,
    /// Seconds to wait for the outcome [default: `upgrade_timeout` of the settings, and 10]
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
}

/// Asks, waits, and prints the outcome.
pub(crate) fn execute_upgrade(arguments: &UpgradeArguments) -> anyhow::Result<ExitCode> {
    let settings = settings(arguments)?;
    let wait = arguments.wait.unwrap_or(settings.upgrade_timeout_seconds + TELLING_SECONDS);
    let done = upgrade::request(&settings.data, Duration::from_secs(wait))?;
    print(format_args!(
        "process {} has taken over from process {}: weir {}",
        done.to, done.from, done.version
    ));
    Ok(ExitCode::SUCCESS)
}

/// The instance's settings, with the folder argument on top.
fn settings(arguments: &UpgradeArguments) -> anyhow::Result<Settings> {
    let config = settings_file(arguments.config.clone());
    let mut flags = WrittenSettings::default();
    if let Some(data) = &arguments.data {
        let setting = SETTINGS.iter().find(|setting| setting.name == "data").expect("a setting of that name");
        flags.insert(setting, vec![data.clone()], SettingLocation::Flag);
    }
    Ok(Settings::load(config.as_deref(), std::env::vars_os(), flags)?.settings)
}

/// Time for an instance to end a successor that was too slow, and to write the outcome.
const TELLING_SECONDS: u64 = 10;
