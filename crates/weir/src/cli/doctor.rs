//! `weir doctor`: checks of the machine, the settings and the running instance, each with what to do about
//! it. It changes nothing but a file in the data folder, which it removes again.

mod etcd;
mod instance;
mod machine;
mod names;
mod places;

use std::process::ExitCode;

use serde::Serialize;

use crate::admin_client::{NodeArguments, running_on};
use crate::terminal::{Paint, print};
use crate::top::numbers::clean;

/// Check the machine and the running instance, and say what to do
///
/// Limits and kernel settings of the machine, the data folder, the ports of the settings, certificates, etcd,
/// DNS, the clock, and the instance that runs on the data folder. Ends with 1 if a check has failed; what
/// only needs attention ends with 0.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DoctorArguments {
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: NodeArguments,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckState {
    /// Nothing to do.
    Ok,
    /// It works, and may not under load or later.
    Attention,
    /// The gateway cannot work, or not as the settings say.
    Failed,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct DoctorCheck {
    name: &'static str,
    state: CheckState,
    /// The finding.
    found: String,
    /// The action to take; none if it is ok.
    advice: Option<String>,
}

impl DoctorCheck {
    fn ok(name: &'static str, found: impl Into<String>) -> DoctorCheck {
        DoctorCheck { name, state: CheckState::Ok, found: found.into(), advice: None }
    }

    fn attention(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> DoctorCheck {
        DoctorCheck { name, state: CheckState::Attention, found: found.into(), advice: Some(advice.into()) }
    }

    fn failed(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> DoctorCheck {
        DoctorCheck { name, state: CheckState::Failed, found: found.into(), advice: Some(advice.into()) }
    }
}

/// Checks, and prints each in a line.
pub(crate) fn execute_doctor(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    let checks = match arguments.node.node() {
        Ok(node) => {
            let running = running_on(&node.settings.data);
            let mut checks = vec![DoctorCheck::ok("settings", "read without a fault")];
            checks.extend(machine::check_machine(&node.settings));
            checks.push(places::data_folder(&node.settings.data));
            checks.extend(places::data_writers(&node.settings.data));
            checks.extend(places::check_ports(&node.settings, running.as_ref()));
            checks.extend(places::check_certificate_files(&node.settings));
            checks.extend(names::check_name_servers(&node.settings));
            checks.extend(etcd::check_etcd(&node.settings));
            checks.extend(instance::check_instance(&node, running.as_ref()));
            checks
        }
        Err(error) => {
            let advice = "repair the settings; `weir check FILE` lists every fault";
            vec![DoctorCheck::failed("settings", format!("{error:#}"), advice)]
        }
    };
    let is_good = checks.iter().all(|check| check.state != CheckState::Failed);
    if arguments.json {
        let answer = serde_json::json!({ "ok": is_good, "checks": checks });
        print(serde_json::to_string_pretty(&answer)?);
    } else {
        print(render(&checks, Paint::for_stdout()).trim_end());
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The checks as lines, with what to do below.
fn render(checks: &[DoctorCheck], paint: Paint) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for DoctorCheck { name, state, found, advice } in checks {
        let state = match state {
            CheckState::Ok => paint.good("ok       "),
            CheckState::Attention => paint.noted("attention"),
            CheckState::Failed => paint.bad("failed   "),
        };
        text.push_str(&format!("{state}  {name:<width$}  {}\n", clean(found)));
        if let Some(advice) = advice {
            text.push_str(&format!("           {:<width$}  {}\n", "", paint.faint(&clean(advice))));
        }
    }
    let count = |wanted| checks.iter().filter(|check| check.state == wanted).count();
    let (failed, attention) = (count(CheckState::Failed), count(CheckState::Attention));
    text.push_str(&format!("{} checks, {attention} need attention, {failed} failed\n", checks.len()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_lines_with_advice() {
        let checks = [
            DoctorCheck::ok("memory", "512 MiB"),
            DoctorCheck::attention("somaxconn", "128", "set it to 4096"),
            DoctorCheck::failed("proxy", "0.0.0.0:80:\u{1b}in use", "choose another"),
        ];
        let expected = "\
ok         memory     512 MiB
attention  somaxconn  128
                      set it to 4096
failed     proxy      0.0.0.0:80:?in use
                      choose another
3 checks, 1 need attention, 1 failed
";
        assert_eq!(render(&checks, Paint::Plain), expected);
    }
}
