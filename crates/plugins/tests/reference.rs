//! The reference of the plugins, made from each one's documentation and schemas: a page for each plugin and
//! an index of all. The committed pages are compared with it.
#![allow(clippy::unwrap_used)]

#[path = "../../model/tests/reference/schema_table.rs"]
mod schema_table;

#[path = "reference/plugin_lists.rs"]
mod plugin_lists;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use exchange::plugin::stream::StreamPhase;
use exchange::plugin::{PluginKind, PluginPhase};
use model::apisix_plugins::{self, Family};
use serde_json::Value;

#[test]
fn index_of_plugins_is_up_to_date() {
    schema_table::check_page("plugins.md", "plugins", &index());
}

#[test]
fn page_of_each_plugin_is_up_to_date() {
    for kind in plugins::ALL {
        schema_table::check_page(&format!("plugins/{}.md", kind.name), "plugins", &plugin_page(kind));
    }
}

#[test]
fn every_page_belongs_to_a_plugin() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/plugins");
    let pages: BTreeSet<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let made: BTreeSet<PathBuf> =
        plugins::ALL.iter().map(|kind| folder.join(format!("{}.md", kind.name))).collect();
    for page in pages.difference(&made) {
        assert!(
            std::env::var_os("UPDATE").is_some_and(|value| value == "1"),
            "{} belongs to no plugin: `UPDATE=1 cargo test -p plugins --test reference` deletes it",
            page.display()
        );
        std::fs::remove_file(page).unwrap();
    }
}

/// The page with all plugins by group.
fn index() -> String {
    let mut page = format!(
        "# Plugins\n\n<!-- Made from the files of crates/plugins/src by {COMMAND}; edit it there. -->\n\n\
         Weir has {} plugins. {INTRODUCTION}",
        plugins::ALL.len()
    );
    // Plugins that APISIX does not have are in no family; they come last.
    let groups: BTreeSet<_> =
        plugins::ALL.iter().map(|kind| (family(kind).is_none(), family(kind))).collect();
    for (_, group) in groups {
        let _ = write!(page, "\n## {}\n{GROUP_HEAD}", group.map_or(EXTENSIONS.to_owned(), heading));
        for kind in plugins::ALL.iter().filter(|kind| family(kind) == group) {
            let (name, priority, (phases, stream)) = (kind.name, kind.priority, phases(kind));
            // The anchor is where links led before each plugin had a page.
            let link = format!("<a id=\"{name}\"></a>[{name}](plugins/{name}.md)");
            let _ = writeln!(page, "| {link} | {} | {priority} | {phases} | {stream} |", summary(kind));
        }
    }
    page.push_str(ORDER);
    let order: Vec<String> =
        plugins::ALL.iter().map(|kind| format!("{} ({})", kind.name, kind.priority)).collect();
    let _ = writeln!(page, "{}.", order.join(",\n"));
    page
}

fn family(kind: &PluginKind) -> Option<Family> {
    apisix_plugins::find_apisix_plugin(kind.name).map(|plugin| plugin.family)
}

/// The title of a family with a capital.
fn heading(family: Family) -> String {
    let title = family.title();
    format!("{}{}", title[..1].to_uppercase(), &title[1..])
}

/// The first sentence of a plugin's documentation, without its links.
fn summary(kind: &PluginKind) -> String {
    let lines = documentation(kind).skip(1).skip_while(|line| line.is_empty());
    let paragraph: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    let sentence = paragraph.split_inclusive(". ").next().unwrap_or_default().trim_end();
    let mut parts = sentence.split("](");
    let mut text = parts.next().unwrap_or_default().replace('[', "");
    for part in parts {
        text.push_str(&part.split_once(')').expect("a link has an end").1.replace('[', ""));
    }
    text
}

/// The page of one plugin.
fn plugin_page(kind: &PluginKind) -> String {
    let (phases, stream) = phases(kind);
    let mut page = format!("# {}\n\nPriority: {}.", kind.name, kind.priority);
    for (title, phases) in [("Phases", phases), ("Phases on stream routes", stream)] {
        if !phases.is_empty() {
            let _ = write!(page, " {title}: {phases}.");
        }
    }
    let file = kind.name.replace('-', "_");
    let _ = write!(
        page,
        " See [all plugins](../plugins.md).\n\n\
         <!-- Made from crates/plugins/src/{file}.rs by {COMMAND}; edit it there. -->\n"
    );
    for line in documentation(kind).skip(1) {
        let _ = writeln!(page, "{line}");
    }
    write_schema(&mut page, "Configuration", (kind.schema)());
    if let Some(schema) = kind.consumer_schema {
        write_schema(&mut page, "Configuration on a consumer or credential", schema());
    }
    if let Some(schema) = kind.metadata_schema {
        write_schema(&mut page, "Metadata", schema());
    }
    page
}

/// The lines of a plugin's documentation, the first of which is its heading.
fn documentation(kind: &PluginKind) -> impl Iterator<Item = &'static str> {
    let lines = kind.documentation.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| line.strip_prefix(' ').unwrap_or(line))
}

fn write_schema(page: &mut String, title: &str, schema: Value) {
    let _ = write!(page, "\n## {title}\n");
    let before = page.len();
    schema_table::write_table(page, &schema, &|_| None);
    if page.len() == before {
        page.push_str("\nNo fields of its own.\n");
    }
}

/// The phases of requests, and those of sessions of layer 4.
fn phases(kind: &PluginKind) -> (String, String) {
    let phases: Vec<&str> = kind.phases.iter().copied().map(phase).collect();
    let stream = kind.stream.as_ref().map_or(&[][..], |stream| stream.phases);
    let stream: Vec<&str> = stream.iter().copied().map(stream_phase).collect();
    (phases.join(", "), stream.join(", "))
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

/// The command that writes the pages.
const COMMAND: &str = "`UPDATE=1 cargo test -p plugins --test reference`";
const INTRODUCTION: &str = "\
Each has a page with its description, an example that it accepts, and tables of its
fields. [Costs of plugins](plugin-costs.md) lists how much time each takes of a request.

[The guide](../guide/plugins.md) explains what all plugins have in common:

- An object has a plugin by its name under `plugins`. If several objects that apply to a request have the same plugin,
  [one copy counts](../guide/plugins.md#where-plugins-may-be-written-and-which-copy-counts).
- A plugin runs in the [phases](../guide/plugins.md#when-they-run) that its row lists. In each phase, plugins of global rules
  run before those of the route; among the plugins of either, those with the higher priority run first.
- A stream route may have the plugins that have phases on stream routes.
- Every configuration takes [`_meta`](../guide/plugins.md#_meta): it switches the plugin off, changes its priority, adds a
  condition, or replaces the body of its refusals.
- [Metadata](../guide/plugins.md#metadata) are fields that all instances of a plugin share.
- [Unknown fields](../guide/plugins.md#unknown-fields) are refused if they are typing errors; others are accepted with a
  warning.
- Plugins that call another server or report to it share a client, limits and [queues](../guide/plugins.md#calls-and-queues).
";
/// The heading of the plugins that APISIX does not have.
const EXTENSIONS: &str = "Extensions of Weir";
const GROUP_HEAD: &str = "
| plugin | what it does | priority | phases | on stream routes |
|---|---|---|---|---|
";
const ORDER: &str = "
## Order

All plugins by priority, the first to run at the front:

";
