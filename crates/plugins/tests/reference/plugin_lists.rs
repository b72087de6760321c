//! The lists of APISIX's plugins in the documents, made from `model::apisix_plugins` and `plugins::ALL`: a
//! plugin that is added here moves to those that work by itself.

use std::fmt::Write;
use std::path::PathBuf;

use model::apisix_plugins::{self, ApisixPlugin};
use stdx::nearest::misspelt;

#[test]
fn no_plugin_has_a_misspelt_name_of_apisix() {
    for kind in plugins::ALL.iter().filter(|kind| apisix_plugins::find_apisix_plugin(kind.name).is_none()) {
        let near = misspelt(kind.name, apisix_plugins::ALL.iter().map(|plugin| plugin.name));
        assert_eq!(near, None, "{} is nearly the name of a plugin of APISIX", kind.name);
    }
}

#[test]
fn guide_to_writing_shows_the_example() {
    let path = document("guide/writing-a-plugin.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let example = include_str!("../../guide/maintenance.rs");
    compare(&path, &page, &between(&page, EXAMPLE, &format!("\n```rust\n{example}```\n")));
}

#[test]
fn page_of_costs_has_a_row_for_every_plugin() {
    // The page is measured, not made by a test: a checkout without it lacks nothing else.
    let Ok(page) = std::fs::read_to_string(document("reference/plugin-costs.md")) else { return };
    for kind in plugins::ALL {
        assert!(
            page.contains(&format!("| [`{0}`](plugins/{0}.md) |", kind.name)),
            "docs/reference/plugin-costs.md lacks {}: `cargo bench -p plugins --bench costs -- --write` writes it",
            kind.name
        );
    }
}

#[test]
fn readme_counts_the_plugins() {
    let path = document("../README.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let line = |line: &str| if line.starts_with(FEATURE) { readme_row() } else { line.to_owned() };
    let expected: Vec<String> = page.lines().map(line).collect();
    assert!(page.lines().any(|line| line.starts_with(FEATURE)));
    compare(&path, &page, &format!("{}\n", expected.join("\n")));
}

#[test]
fn migration_guide_lists_all_plugins() {
    let path = document("guide/migrating-from-apisix.md");
    let page = std::fs::read_to_string(&path).unwrap();
    compare(&path, &page, &between(&page, LIST, &migration_table()));
}

#[test]
fn features_name_the_plugins_that_work() {
    let path = document("reference/features.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let line = |line: &str| if line.starts_with(FEATURE) { feature_row() } else { line.to_owned() };
    let expected: Vec<String> = page.lines().map(line).collect();
    assert!(page.lines().any(|line| line.starts_with(FEATURE)));
    compare(&path, &page, &format!("{}\n", expected.join("\n")));
}

/// The page with `text` between the mark `begin` and the next end.
fn between(page: &str, begin: &str, text: &str) -> String {
    let (before, rest) = page.split_once(begin).expect("the page has the mark");
    let (_, after) = rest.split_once(END).expect("the page has the end");
    format!("{before}{begin}\n{text}\n{END}{after}")
}

fn works(plugin: &ApisixPlugin) -> bool {
    plugins::ALL.iter().any(|kind| kind.name == plugin.name)
}

fn migration_table() -> String {
    let all = apisix_plugins::ALL;
    let working = all.iter().filter(|plugin| works(plugin)).count();
    let mut text = format!(
        "\nWeir has {working} of the {} plugins of APISIX 3.18. An object with any other is\n\
         refused (`unknown plugin`). The last column says what does its work meanwhile.\n\n\
         | plugin | for | here | instead |\n|---|---|---|---|\n",
        all.len()
    );
    let mut sorted: Vec<&ApisixPlugin> = all.iter().collect();
    sorted.sort_by_key(|plugin| (!works(plugin), plugin.family, plugin.name));
    for plugin in sorted {
        let (name, family) = (plugin.name, plugin.family.title());
        let _ = match (works(plugin), plugin.is_refused) {
            (true, _) => {
                writeln!(text, "| [`{name}`](../reference/plugins/{name}.md) | {family} | works | |")
            }
            (false, true) => writeln!(text, "| `{name}` | {family} | refused | {} |", plugin.instead),
            (false, false) if plugin.instead.is_empty() => {
                writeln!(text, "| `{name}` | {family} | not yet | |")
            }
            (false, false) => writeln!(text, "| `{name}` | {family} | not yet | {} |", plugin.instead),
        };
    }
    text
}

fn missing() -> usize {
    apisix_plugins::ALL.iter().filter(|plugin| !works(plugin)).count()
}

fn readme_row() -> String {
    format!(
        "{FEATURE} [{}](docs/reference/plugins.md), with merging, order and `_meta` as in APISIX; [write one](docs/guide/writing-a-plugin.md) | [{} of \
         APISIX](docs/guide/migrating-from-apisix.md#plugins-of-apisix) |",
        plugins::ALL.len(),
        missing()
    )
}

fn feature_row() -> String {
    let names: Vec<&str> =
        apisix_plugins::ALL.iter().filter(|plugin| works(plugin)).map(|plugin| plugin.name).collect();
    let own: Vec<&str> = plugins::ALL
        .iter()
        .map(|kind| kind.name)
        .filter(|name| apisix_plugins::find_apisix_plugin(name).is_none())
        .collect();
    let own = if own.is_empty() { String::new() } else { format!("; besides {}", own.join(", ")) };
    let missing = missing();
    format!(
        "{FEATURE} {} of the {} of APISIX 3.18 ([reference](plugins.md)): {}{own}; merging, order, `_meta` with `pre_function`, \
         global rules | [the other {missing}](../guide/migrating-from-apisix.md#plugins-of-apisix) |",
        names.len(),
        apisix_plugins::ALL.len(),
        names.join(", "),
    )
}

fn document(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(path)
}

/// Compares `committed` with `expected`, or writes the page when `UPDATE=1` is set.
fn compare(path: &PathBuf, committed: &str, expected: &str) {
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        return std::fs::write(path, expected).unwrap();
    }
    assert!(
        committed == expected,
        "{} is out of date: `UPDATE=1 cargo test -p plugins --test reference` writes it",
        path.display()
    );
}

const LIST: &str = "<!-- plugins of APISIX: made by `UPDATE=1 cargo test -p plugins --test reference` from \
                     crates/model/src/apisix_plugins.rs -->";
const EXAMPLE: &str = "<!-- the example: made by `UPDATE=1 cargo test -p plugins --test reference` from \
                       crates/plugins/guide/maintenance.rs -->";
const END: &str = "<!-- end -->";
/// The start of the row of the plugins.
const FEATURE: &str = "| plugins |";
