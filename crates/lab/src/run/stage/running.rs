//! A running contender: changes of its configuration, and its folder.

use std::path::Path;

use super::{RunningContender, shell};
use crate::process::{ProcessGroup, Start};

impl RunningContender {
    /// Brings the next form of its configuration into force: a process of its own, beside the load.
    pub fn change(&mut self, program: &Path, cores: &[usize]) -> anyhow::Result<ProcessGroup> {
        self.changes += 1;
        ProcessGroup::start(&Start {
            guard: program,
            name: &format!("change-{}", self.changes),
            command: &shell(&self.script, &["change", &self.changes.to_string()]),
            environment: &self.environment,
            cores,
            directory: &self.directory,
        })
    }

    /// The folder of its files, and of those of programs beside it.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}
