//! `weir plugin check`: loads a plugin in its sandbox, as an upload does, and prints what it is.

use std::process::ExitCode;

use model::extension::{EXTENSION_CONTENT_BYTES_MAX, EXTENSION_TEXT_BYTES_MAX, EXTENSION_VERSIONS_MAX};
use serde_json::json;

use super::file::{FileArguments, code};
use crate::terminal::{Paint, print};

/// Load a plugin in the sandbox and print what it is
///
/// Does what an upload does, without an instance: the code is compiled and asked for its priority, phases and
/// schema.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PluginCheckArguments {
    #[command(flatten)]
    file: FileArguments,
    /// Print the facts as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn execute_plugin_check(arguments: &PluginCheckArguments) -> anyhow::Result<ExitCode> {
    let file = arguments.file.read()?;
    let loaded = file.load()?;
    let extension = &code(&loaded)?.extension;
    let mut phases = Vec::new();
    if extension.serves_http() {
        phases.extend(extension.phases().iter().map(|phase| phase.name()));
    }
    for name in extension.stream_phases().iter().map(|phase| phase.name()) {
        if !phases.contains(&name) {
            phases.push(name);
        }
    }
    let (schema, metadata_schema) = (extension.schema(), extension.metadata_schema());
    let bytes = file.content.len();
    if arguments.json {
        print(serde_json::to_string_pretty(&json!({
            "name": file.name, "language": file.language, "version": file.version(), "bytes": bytes,
            "priority": extension.priority(), "phases": phases, "schema": schema, "metadata_schema": metadata_schema,
            "limits": {
                "content_bytes": EXTENSION_CONTENT_BYTES_MAX, "versions": EXTENSION_VERSIONS_MAX,
                "text_bytes_of_all_versions": EXTENSION_TEXT_BYTES_MAX,
            },
        }))?);
        return Ok(ExitCode::SUCCESS);
    }
    let paint = Paint::for_stdout();
    print(format_args!("{} {}", file.name, paint.good("can be used")));
    print(format_args!("  language  {}", file.language));
    print(format_args!("  version   {}", file.version()));
    print(format_args!("  size      {bytes} bytes of {EXTENSION_CONTENT_BYTES_MAX}"));
    print(format_args!("  priority  {}", extension.priority()));
    print(format_args!("  phases    {}", phases.join(", ")));
    print(format_args!("  schema    {schema}"));
    if let Some(schema) = metadata_schema {
        print(format_args!("  metadata  {schema}"));
    }
    Ok(ExitCode::SUCCESS)
}
