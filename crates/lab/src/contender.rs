//! What a contender's folder says of it (`lab/contenders/NAME/contender.yaml`). How one is installed and started is the
//! business of its `start.sh`; how it is measured, of others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::scenario::Protocol;
use crate::yaml;

/// One gateway that can be asked, or the origin itself.
///
/// Its folder holds `start.sh`, which takes one word: `install` (idempotent; from package registries only; a reason on
/// standard error and status 1 where it cannot be had), `version` (one line), `run` (writes its configuration beneath
/// `$DIRECTORY` and becomes the gateway by `exec`, in the foreground), and `change N`, where `changes` is true (puts the
/// Nth form of the configuration in force). The environment says how: see `lab/contenders/lib.sh`.
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
    /// What it is written in.
    pub language: String,
    /// The pinned version, and where it is from: "1.22.1, Debian".
    pub version: String,
    /// What it can be asked by.
    #[serde(default = "plain")]
    pub protocols: Vec<Protocol>,
    /// It can be given many routes (`$ROUTES`).
    #[serde(default)]
    pub routes: bool,
    /// Its configuration can be changed while it runs (`start.sh change N`).
    #[serde(default)]
    pub changes: bool,
    /// It forwards `/sodik/…` without the prefix; what only copies bytes does not.
    #[serde(default = "yes")]
    pub strips_prefix: bool,
    /// Needs a warm-up of so many seconds before it is at its speed; virtual machines do.
    #[serde(default)]
    pub warm_up_seconds: Option<f64>,
    /// Further variables of its environment. Other folders may start the same program with other ones.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// It belongs to this folder's program: `start.sh` is taken from there.
    #[serde(default)]
    pub variant_of: Option<String>,
    /// Part of every run that does not name contenders. Variants of one program for a study are not.
    #[serde(default = "yes")]
    pub usual: bool,
}

fn plain() -> Vec<Protocol> {
    vec![Protocol::Http]
}

fn yes() -> bool {
    true
}

impl Definition {
    /// Reads one file's text; `name` is the folder's name. Fails with line and reason.
    pub fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        Self::parse_file(name, &format!("{name}/contender.yaml"), text)
    }

    /// The same; `file` is how the file is called in a fault.
    pub fn parse_file(name: &str, file: &str, text: &str) -> anyhow::Result<Self> {
        let mut definition: Self = yaml::read(file, text)?;
        name.clone_into(&mut definition.name);
        Ok(definition)
    }
}
