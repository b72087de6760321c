//! A resource file as a whole set for the Admin API: it is sent as one document, and faults in the response
//! get their lines in the file. Knows no command.

use std::path::Path;

use anyhow::bail;
use control::plan::ConfigPlan;
use control::source::file::{self, ConfigDocument};
use model::ConfigFault;
use serde_json::Value;

use crate::admin_client::{agreed, decode_response};
use crate::ask::InstanceResponse;

/// The objects of a resource file.
#[derive(Debug)]
pub(in crate::cli) struct WholeSet {
    pub(in crate::cli) document: ConfigDocument,
    /// The objects as JSON for the instance, with variables replaced.
    pub(in crate::cli) body: String,
    keep_others: bool,
}

impl WholeSet {
    /// Reads the file.
    ///
    /// # Errors
    /// The faults that make the file unusable, each as a line.
    pub(in crate::cli) fn read(path: &Path, keep_others: bool) -> Result<WholeSet, Vec<String>> {
        let lines = |faults: Vec<file::FileFault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
        let document = file::read_whole(path).map_err(lines)?;
        let objects = document.objects.iter().map(|object| (&object.key, &*object.text));
        let body = Value::Object(file::compose(objects)).to_string();
        Ok(WholeSet { document, body, keep_others })
    }

    /// The target of a request about this set.
    pub(in crate::cli) fn target(&self, what: &str, arguments: &[(&str, u64)]) -> String {
        let mut target = format!("weir/{what}?keep_others={}", self.keep_others);
        for (name, value) in arguments {
            target.push_str(&format!("&{name}={value}"));
        }
        target
    }

    /// The plan in a response, or the faults that prevent one.
    pub(in crate::cli) fn plan(
        &self,
        answer: InstanceResponse,
    ) -> anyhow::Result<Result<ConfigPlan, Vec<String>>> {
        match self.faults(&answer) {
            Some(faults) => Ok(Err(faults)),
            None => decode_response(answer).map(Ok),
        }
    }

    /// The JSON of a 200, or the faults that prevent it.
    pub(in crate::cli) fn outcome(
        &self,
        answer: InstanceResponse,
    ) -> anyhow::Result<Result<Value, Vec<String>>> {
        match self.faults(&answer) {
            Some(faults) => Ok(Err(faults)),
            None => agreed(answer).map(Ok),
        }
    }

    /// The faults in a response, each with its line in the file.
    fn faults(&self, answer: &InstanceResponse) -> Option<Vec<String>> {
        let faults = answer.body.as_ref().ok()?.get("faults")?.as_array()?;
        let text = |fault: &Value, name: &str| fault[name].as_str().unwrap_or_default().to_owned();
        let fault = |item: &Value| {
            let path = text(item, "key");
            let key = self.document.objects.iter().map(|object| &object.key).find(|key| key.path() == path);
            let fault = ConfigFault {
                key: key.cloned(),
                pointer: text(item, "pointer"),
                reason: text(item, "reason"),
                kept: false,
            };
            if key.is_some() {
                self.place(&fault)
            } else {
                (usize::MAX, format!("{path}{}: {}", fault.pointer, fault.reason))
            }
        };
        Some(in_order(faults.iter().map(fault).collect()))
    }

    /// The lines of faults.
    pub(in crate::cli) fn placed(&self, faults: &[ConfigFault]) -> Vec<String> {
        in_order(faults.iter().map(|fault| self.place(fault)).collect())
    }

    /// The number of the line that the fault is about, and the fault as text. A fault outside the file comes
    /// last.
    fn place(&self, fault: &ConfigFault) -> (usize, String) {
        match self.document.place(fault) {
            Some(placed) => (placed.line, placed.to_string()),
            None => (usize::MAX, fault.to_string()),
        }
    }
}

/// Faults in the order of the file.
fn in_order(mut faults: Vec<(usize, String)>) -> Vec<String> {
    faults.sort_by_key(|(line, _)| *line);
    faults.into_iter().map(|(_, fault)| fault).collect()
}

/// The revision that an apply of this plan builds on; fails if it is not the expected one.
pub(in crate::cli) fn check_revision(plan: &ConfigPlan, expected: Option<u64>) -> anyhow::Result<u64> {
    match expected {
        Some(expected) if expected != plan.revision => bail!(
            "the configuration is at revision {}, not at {expected}: it was changed in the meantime; make a \
             new plan with `weir plan`",
            plan.revision
        ),
        _ => Ok(plan.revision),
    }
}
