//! The description in a contender's folder (`lab/contenders/NAME/contender.yaml`). The folder's `start.sh`
//! installs and starts the contender; other modules measure it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::scenario::ScenarioProtocol;
use crate::yaml;

/// One gateway that can be asked, or the origin itself.
///
/// Its folder holds `start.sh`, which takes one word: `install` (idempotent; from package registries only; a
/// reason on standard error and status 1 where it cannot be had), `version` (one line), `run` (writes its
/// configuration beneath `$DIRECTORY` and becomes the gateway by `exec`, in the foreground), and `change N`,
/// where `changes` is true (puts the Nth form of the configuration in force). The environment says how: see
/// `lab/contenders/lib.sh`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The folder's name; not written in the file.
    #[serde(default)]
    pub name: String,
    /// For headings: "HAProxy".
    pub title: String,
    /// One or two sentences: what it is, how it is configured, what is special about it.
    pub about: String,
    /// Its programming language.
    pub language: String,
    /// The pinned version, and where it is from: "1.22.1, Debian".
    pub version: String,
    /// The protocols that its clients may use.
    #[serde(default = "plain")]
    pub protocols: Vec<ScenarioProtocol>,
    /// Whether it can be given many routes (`$ROUTES`).
    #[serde(default)]
    pub routes: bool,
    /// Whether its configuration can be changed while it runs (`start.sh change N`).
    #[serde(default)]
    pub changes: bool,
    /// Whether it can have several endpoints, and settings for failing ones (`$ENDPOINTS`, `$PROTECTION`).
    #[serde(default)]
    pub endpoints: bool,
    /// Whether it forwards `/sodik/…` without the prefix; a contender that only copies bytes does not.
    #[serde(default = "yes")]
    pub strips_prefix: bool,
    /// Seconds of warm-up that it needs to reach its speed; virtual machines need some.
    #[serde(default)]
    pub warm_up_seconds: Option<f64>,
    /// Further variables of its environment. Other folders may start the same program with other values.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The folder with its `start.sh`, if it is a variant of that folder's program.
    #[serde(default)]
    pub variant_of: Option<String>,
    /// Whether it is part of every run that does not name contenders. Variants of a study are not.
    #[serde(default = "yes")]
    pub usual: bool,
}

fn plain() -> Vec<ScenarioProtocol> {
    vec![ScenarioProtocol::Http]
}

fn yes() -> bool {
    true
}

impl Definition {
    /// Reads one file's text; `name` is the folder's name. Fails with line and reason.
    pub fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        Self::parse_file(name, &format!("{name}/contender.yaml"), text)
    }

    /// As [`Self::parse`]; `file` is the name of the file in a fault.
    pub fn parse_file(name: &str, file: &str, text: &str) -> anyhow::Result<Self> {
        let mut definition: Self = yaml::parse_yaml(file, text)?;
        name.clone_into(&mut definition.name);
        Ok(definition)
    }
}
