//! Asking the Admin API of the node that runs here: where it listens, with which key, and what its refusals say. Knows no
//! command.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueHint;
use serde_json::Value;

use crate::ask::{Answer, Failure, Question, ask};
use crate::boot;
use crate::settings::{Place, SETTINGS, Settings, Written};

/// Which node is meant; the same for every command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NodeArguments {
    /// Settings file (YAML) of the node
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, env = "WEIR_CONFIG", hide_env_values = true)]
    config: Option<OsString>,
    /// Admin API of the node [default: as in its settings]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// Data folder of the node, where its Admin key is [default: as in its settings]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    data: Option<String>,
}

/// A node, as a command sees it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) settings: Settings,
    /// The Admin API was named, so that nothing else may answer in its place.
    pub(crate) is_named: bool,
}

impl NodeArguments {
    /// The node that is meant.
    ///
    /// # Errors
    /// Faulty settings.
    pub(crate) fn node(&self) -> anyhow::Result<Node> {
        let config = crate::cli::settings_file(self.config.clone());
        let mut flags = Written::default();
        for (name, value) in [("admin", &self.admin), ("data", &self.data)] {
            let setting =
                SETTINGS.iter().find(|setting| setting.name == name).expect("a setting of that name");
            if let Some(value) = value {
                flags.insert(setting, vec![value.clone()], Place::Flag);
            }
        }
        let settings = Settings::load(config.as_deref(), std::env::vars_os(), flags)?.settings;
        Ok(Node { settings, is_named: self.admin.is_some() })
    }
}

/// What became of a question.
pub(crate) enum Asked {
    /// An answer, whatever it says.
    Answered(Answer),
    /// No node runs here, and none was named.
    Nobody,
}

impl Node {
    /// Asks; `target` is what follows `/apisix/admin/`.
    ///
    /// # Errors
    /// No node where one was named, no key, or no answer.
    pub(crate) fn ask(&self, method: &str, target: &str, body: &str) -> anyhow::Result<Asked> {
        let Some(admin) = self.settings.admin else {
            bail!("this node has no Admin API: its setting `admin` is off");
        };
        let key = boot::admin_key_for_commands(&self.settings)?;
        let author = author();
        let mut fields = vec![("X-Weir-Author", author.as_str())];
        fields.extend(key.as_deref().map(|key| ("X-API-KEY", key)));
        let target = format!("/apisix/admin/{target}");
        let question = Question { method, target: &target, fields: &fields, body, patience: PATIENCE };
        match ask(admin, &question) {
            Ok(answer) => Ok(Asked::Answered(answer)),
            Err(Failure::NotThere(_)) if !self.is_named => Ok(Asked::Nobody),
            Err(Failure::NotThere(error)) => bail!(
                "no node answers at {admin}: {error}; see the line `listening admin` of the node's output"
            ),
            Err(Failure::Refused(reason)) => bail!("{reason}"),
        }
    }

    /// As [`Node::ask`], where only a running node can answer.
    ///
    /// # Errors
    /// As there, and nobody being there.
    pub(crate) fn ask_running(&self, method: &str, target: &str, body: &str) -> anyhow::Result<Answer> {
        match self.ask(method, target, body)? {
            Asked::Answered(answer) => Ok(answer),
            Asked::Nobody => {
                let admin =
                    self.settings.admin.map(|admin: SocketAddr| admin.to_string()).unwrap_or_default();
                bail!("no node runs at {admin}; start it, or name its Admin API with --admin")
            }
        }
    }
}

/// The JSON of a 200.
///
/// # Errors
/// Any other answer, as the node words it.
pub(crate) fn agreed(answer: Answer) -> anyhow::Result<Value> {
    match (answer.status, &answer.body) {
        (200, Ok(_)) => answer.body.map_err(anyhow::Error::msg),
        (200, Err(_)) => bail!("the node's answer is not JSON"),
        (401, _) => bail!(
            "the node does not take this Admin key ({}); give its key in WEIR_ADMIN_KEY, or its data folder with --data",
            answer.reason()
        ),
        _ => bail!("{}", answer.reason()),
    }
}

/// As [`agreed`], read as what it is.
///
/// # Errors
/// As there, and an answer of another form.
pub(crate) fn read<T: serde::de::DeserializeOwned>(answer: Answer) -> anyhow::Result<T> {
    serde_json::from_value(agreed(answer)?)
        .context("the node answered in a form this version does not know; see it with --json")
}

/// Who asks, as the system knows them; what no header field may carry is left out.
fn author() -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok()).unwrap_or_default();
    name.chars().filter(|shown| shown.is_ascii_graphic()).collect()
}

/// A whole set of a hundred thousand objects is checked, stored and compiled in it.
const PATIENCE: Duration = Duration::from_secs(120);
