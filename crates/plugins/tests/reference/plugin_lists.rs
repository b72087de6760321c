//! The lists of APISIX's plugins in the documents, made from `model::apisix_plugins` and `plugins::ALL`: a plugin that is
//! added here moves to those that work by itself.

use std::fmt::Write;
use std::path::PathBuf;

use model::apisix_plugins::{self, ApisixPlugin};

/// The plugins of this gateway that are not of APISIX.
const OWN: [&str; 0] = [];

#[test]
fn every_plugin_is_of_apisix_or_listed_as_own() {
    for kind in plugins::ALL {
        let is_own = OWN.contains(&kind.name);
        assert!(
            apisix_plugins::find(kind.name).is_some() != is_own,
            "add {} to OWN in crates/plugins/tests/reference/plugin_lists.rs, or correct its name",
            kind.name
        );
    }
}

#[test]
fn migration_guide_lists_all_plugins() {
    let path = document("guide/migrating-from-apisix.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the guide has the mark of the list");
    let (_, after) = rest.split_once(END).expect("the guide has the end of the list");
    compare(&path, &page, &format!("{before}{BEGIN}\n{}\n{END}{after}", migration_table()));
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

fn works(plugin: &ApisixPlugin) -> bool {
    plugins::ALL.iter().any(|kind| kind.name == plugin.name)
}

fn migration_table() -> String {
    let all = apisix_plugins::ALL;
    let working = all.iter().filter(|plugin| works(plugin)).count();
    let built_in = all.iter().filter(|plugin| plugin.is_built_in).count();
    let mut text = format!(
        "\nWeir has {working} of the {} plugins of APISIX 3.18; {built_in} more is built in. An object with any other is\n\
         refused (`unknown plugin`). The last column says what does its work meanwhile.\n\n\
         | plugin | for | here | instead |\n|---|---|---|---|\n",
        all.len()
    );
    let mut sorted: Vec<&ApisixPlugin> = all.iter().collect();
    sorted.sort_by_key(|plugin| (!works(plugin), plugin.family, plugin.name));
    for plugin in sorted {
        let (name, family) = (plugin.name, plugin.family.title());
        let _ = match (works(plugin), plugin.is_built_in) {
            (true, _) => {
                writeln!(text, "| [`{name}`](../reference/plugins.md#{name}) | {family} | works | |")
            }
            (false, true) => writeln!(text, "| `{name}` | {family} | built in | {} |", plugin.instead),
            (false, false) if plugin.instead.is_empty() => {
                writeln!(text, "| `{name}` | {family} | not yet | |")
            }
            (false, false) => writeln!(text, "| `{name}` | {family} | not yet | {} |", plugin.instead),
        };
    }
    text
}

fn feature_row() -> String {
    let names: Vec<&str> =
        apisix_plugins::ALL.iter().filter(|plugin| works(plugin)).map(|plugin| plugin.name).collect();
    let missing = apisix_plugins::ALL.iter().filter(|plugin| !works(plugin) && !plugin.is_built_in).count();
    format!(
        "{FEATURE} {} of the {} of APISIX 3.18 ([reference](plugins.md)): {}; merging, order, `_meta`, global rules | [the \
         other {missing}](../guide/migrating-from-apisix.md#plugins-of-apisix), `_meta.pre_function` (refused) |",
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

const BEGIN: &str = "<!-- plugins of APISIX: made by `UPDATE=1 cargo test -p plugins --test reference` from \
                     crates/model/src/apisix_plugins.rs -->";
const END: &str = "<!-- end -->";
/// The start of the row of the plugins.
const FEATURE: &str = "| plugins |";
