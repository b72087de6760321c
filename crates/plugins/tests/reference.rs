//! The reference page of the plugins, made from each one's documentation and schemas; the committed page is compared
//! with it.
#![allow(clippy::unwrap_used)]

#[path = "../../model/tests/reference/schema_table.rs"]
mod schema_table;

#[path = "reference/plugin_lists.rs"]
mod plugin_lists;

use std::fmt::Write;

use exchange::plugin::stream::StreamPhase;
use exchange::plugin::{PluginPhase, PluginKind};
use serde_json::Value;

#[test]
fn the_page_of_the_plugins_is_up_to_date() {
    schema_table::check_page("plugins.md", "plugins", &plugins_page());
}

fn plugins_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n| plugin | priority | phases | on stream routes |\n|---|---|---|---|\n");
    for kind in plugins::ALL {
        let phases: Vec<&str> = kind.phases.iter().copied().map(phase).collect();
        let stream = kind.stream.as_ref().map_or(&[][..], |stream| stream.phases);
        let stream: Vec<&str> = stream.iter().copied().map(stream_phase).collect();
        let (phases, stream) = (phases.join(", "), stream.join(", "));
        let _ = writeln!(page, "| [{0}](#{0}) | {1} | {phases} | {stream} |", kind.name, kind.priority);
    }
    for kind in plugins::ALL {
        write_plugin(&mut page, kind);
    }
    page
}

fn write_plugin(page: &mut String, kind: &PluginKind) {
    page.push('\n');
    let lines = kind.documentation.lines().map_while(|line| line.strip_prefix("//!"));
    for line in lines.map(|line| line.strip_prefix(' ').unwrap_or(line)) {
        let deeper = if line.starts_with('#') { "#" } else { "" };
        let _ = writeln!(page, "{deeper}{line}");
    }
    write_schema(page, "Configuration", (kind.schema)());
    if let Some(schema) = kind.consumer_schema {
        write_schema(page, "Configuration on a consumer or credential", schema());
    }
    if let Some(schema) = kind.metadata_schema {
        write_schema(page, "Metadata", schema());
    }
}

fn write_schema(page: &mut String, title: &str, schema: Value) {
    let _ = write!(page, "\n### {title}\n");
    let before = page.len();
    schema_table::write_table(page, &schema, &|_| None);
    if page.len() == before {
        page.push_str("\nNo fields of its own.\n");
    }
}

fn phase(phase: PluginPhase) -> &'static str {
    match phase {
        PluginPhase::Preflight => "preflight",
        PluginPhase::Rewrite => "rewrite",
        PluginPhase::RequestBody => "request_body",
        PluginPhase::Access => "access",
        PluginPhase::Attempt => "attempt",
        PluginPhase::BeforeProxy => "before_proxy",
        PluginPhase::UpstreamResponse => "upstream_response",
        PluginPhase::ResponseHead => "response_head",
        PluginPhase::ResponseBody => "response_body",
        PluginPhase::Encode => "encode",
        PluginPhase::Informational => "informational",
        PluginPhase::BeforeLog => "before_log",
        PluginPhase::Log => "log",
    }
}

fn stream_phase(phase: StreamPhase) -> &'static str {
    match phase {
        StreamPhase::Preread => "preread",
        StreamPhase::Log => "log",
    }
}

const INTRODUCTION: &str = "\
# Plugins

<!-- Made from the files of crates/plugins/src by `UPDATE=1 cargo test -p plugins --test reference`; edit it there. -->

Every plugin of this version, in the order in which they run (higher priority first). What all of them have in common,
such as merging and `_meta`, stands in [the guide](../guide/plugins.md).
";
