//! The settings of the plugin runner, as the supervisor takes them.

use std::path::PathBuf;

use crate::settings::{RunnerUser, Settings};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::boot) struct RunnerSettings {
    /// The program and its arguments; empty: this instance starts no runner.
    pub(super) command: Vec<String>,
    /// The path of the socket; none: each process gets one of its own.
    pub(super) socket: Option<PathBuf>,
    /// The user that the process runs as; none: that of the instance.
    pub(super) user: Option<RunnerUser>,
    /// Variables of the process: a name, or a name and a value.
    pub(super) environment: Vec<String>,
    /// The longest time of a call, in milliseconds.
    pub(super) timeout_ms: u64,
}

impl RunnerSettings {
    /// Those of `settings`.
    pub(in crate::boot) fn of(settings: &Settings) -> RunnerSettings {
        RunnerSettings {
            command: settings.plugin_runner.clone(),
            socket: settings.plugin_runner_socket.clone(),
            user: settings.plugin_runner_user,
            environment: settings.plugin_runner_environment.clone(),
            timeout_ms: settings.plugin_runner_timeout_ms,
        }
    }

    /// The names and values of the variables that the process gets: those of this process with the names
    /// `common` and those that the settings name, and those that they set.
    pub(super) fn variables(
        &self,
        common: impl Iterator<Item = String>,
    ) -> Vec<(String, std::ffi::OsString)> {
        let inherited = |name: String| std::env::var_os(&name).map(|value| (name, value));
        let mut variables: Vec<_> = common.filter_map(inherited).collect();
        for entry in &self.environment {
            match entry.split_once('=') {
                Some((name, value)) => variables.push((name.to_owned(), value.into())),
                None => variables.extend(inherited(entry.clone())),
            }
        }
        variables
    }
}
