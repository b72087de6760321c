//! `weir plugin push`: gives the running instance one more version of a plugin.

use std::process::ExitCode;

use anyhow::bail;
use model::extension::{ExtensionLoader, encoded};
use serde_json::{Value, json};

use super::file::{FileArguments, loader};
use super::manage::{answered, short};
use crate::admin_client::NodeArguments;
use crate::terminal::{Paint, print};

/// Give the running instance one more version of a plugin
///
/// The instance loads the version in its sandbox first: a faulty one is refused and changes nothing. The
/// first version of a plugin is active at once; a later one serves nothing until it is activated or gets a
/// share of the requests.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PushArguments {
    #[command(flatten)]
    file: FileArguments,
    /// Let the version serve all requests
    #[arg(long)]
    activate: bool,
    /// Let the version serve this share of the requests, such as 5%
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, conflicts_with = "activate")]
    canary: Option<f64>,
    /// Note about the version, for people
    #[arg(long, value_name = "TEXT")]
    desc: Option<String>,
    /// Print the answer of the instance as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: NodeArguments,
}

pub(super) fn execute_plugin_push(arguments: &PushArguments) -> anyhow::Result<ExitCode> {
    let file = arguments.file.read()?;
    let is_binary = loader()?.is_binary(&file.language);
    let content = encoded(is_binary, &file.content).map_err(anyhow::Error::msg)?;
    let mut body = json!({ "language": file.language, "content": content });
    if let Some(desc) = &arguments.desc {
        body["desc"] = desc.clone().into();
    }
    let mut target = format!("extensions/{}/versions?activate={}", file.name, arguments.activate);
    if let Some(percent) = arguments.canary {
        target.push_str(&format!("&canary={percent}"));
    }
    let node = arguments.node.node()?;
    let answer = answered(node.ask_running("POST", &target, &body.to_string())?)?;
    if arguments.json {
        print(serde_json::to_string_pretty(&answer)?);
        return Ok(ExitCode::SUCCESS);
    }
    let version = answer["version"].as_str().unwrap_or_default();
    let paint = Paint::for_stdout();
    let state = if answer["active"] == *version {
        "is active".to_owned()
    } else if answer["canary"]["version"] == *version {
        let share = answer["canary"]["percent"].as_f64().unwrap_or(100.0);
        format!("serves {share} % of the requests")
    } else {
        format!("is there; to use it: weir plugin activate {} {}", file.name, short(&Value::from(version)))
    };
    print(format_args!("version {} of {} {state}", paint.good(&short(&Value::from(version))), file.name));
    Ok(ExitCode::SUCCESS)
}

/// A share in percent, with or without the sign.
pub(super) fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("a share is a number from 0 to 100, such as 5%".to_owned()),
    }
}

/// Fails with the reason of an answer that is none of success.
pub(super) fn refused(reason: &str) -> anyhow::Result<Value> {
    bail!("{reason}")
}

#[cfg(test)]
mod tests {
    use super::parse_percent;

    #[test]
    fn shares_are_numbers_up_to_a_hundred() {
        assert_eq!(parse_percent("5%"), Ok(5.0));
        assert_eq!(parse_percent("0.5"), Ok(0.5));
        for faulty in ["", "-1", "101%", "NaN", "five"] {
            assert!(parse_percent(faulty).is_err(), "{faulty}");
        }
    }
}
