//! Contenders for tests: a start script of a few lines that runs the built-in origin. Knows none of the
//! tests.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::command::{Outcome, weir};

/// A folder of scenarios and contenders, and the working folder of a run.
pub(super) struct Laboratory {
    pub(super) files: TempDir,
    pub(super) work: TempDir,
}

/// The script of a stand-in for each word of `start.sh`.
pub(super) struct StandIn {
    /// `start.sh install`.
    pub(super) install: &'static str,
    /// `start.sh run`.
    pub(super) run: &'static str,
}

impl Default for StandIn {
    fn default() -> Self {
        Self { install: "true", run: r#"exec "$WEIR" origin --listen "$LISTEN""# }
    }
}

/// The shortest scenario, with the program's own load generator.
pub(super) const SCENARIO: &str =
    "title: short\nabout: a test\nload: { tool: weir, connections: 2, expect: { bytes: 21 } }\n";

impl Laboratory {
    pub(super) fn new(scenarios: &[(&str, &str)], contenders: &[(&str, StandIn)]) -> Self {
        let laboratory = Self { files: tempfile::tempdir().unwrap(), work: tempfile::tempdir().unwrap() };
        let folder = laboratory.files.path();
        fs::create_dir_all(folder.join("scenarios")).unwrap();
        for (name, text) in scenarios {
            fs::write(folder.join("scenarios").join(format!("{name}.yaml")), text).unwrap();
        }
        for (name, stand_in) in contenders {
            let folder = folder.join("contenders").join(name);
            fs::create_dir_all(&folder).unwrap();
            let facts = format!(
                "title: {name}\nabout: a stand-in\nlanguage: Rust\nversion: '1'\nroutes: true\nprotocols: [http, h2c, grpc]\n"
            );
            fs::write(folder.join("contender.yaml"), facts).unwrap();
            let StandIn { install, run } = stand_in;
            let script = format!(
                "case \"$1\" in\ninstall) {install} ;;\nversion) echo version of {name} ;;\nrun) {run} ;;\nesac\n"
            );
            fs::write(folder.join("start.sh"), script).unwrap();
        }
        laboratory
    }

    /// The arguments of a short run, followed by `more`.
    pub(super) fn words<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let mut words = self.plain_words();
        words.extend(["--rounds", "2", "--seconds", "0.3"]);
        words.extend(more);
        words
    }

    /// The arguments of a run with the rounds and seconds of its scenarios.
    pub(super) fn plain_words(&self) -> Vec<&str> {
        vec!["lab", "run", "--files", self.files.path().to_str().unwrap(), "--save", "result.json"]
    }

    pub(super) fn run(&self, more: &[&str]) -> Outcome {
        let cache = self.work.path().join("cache");
        weir(self.work.path(), &self.words(more), &[("WEIR_LAB_DIR", cache.to_str().unwrap())])
    }

    /// The result that the run wrote.
    pub(super) fn report(&self) -> lab::result::RunReport {
        lab::report::json::read_report(&self.result()).unwrap()
    }

    pub(super) fn result(&self) -> PathBuf {
        self.work.path().join("result.json")
    }
}

/// Whether a process is running with this word in its command line.
pub(super) fn somebody_runs(word: &str) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else { return false };
    entries.flatten().any(|entry| {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(word)
    })
}
