//! The reference pages of the plugins and their measured costs, taken from the committed documents and
//! indexed by plugin at the first question. It names no plugin.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The page of one plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PluginPage {
    /// Its first sentence, without a line end.
    pub(crate) summary: &'static str,
    /// Markdown, without the heading that names the plugin and the line with its place in the order.
    pub(crate) text: &'static str,
}

/// The page of the plugin of that name; none for a plugin that was added to the program.
pub(crate) fn find_plugin_page(name: &str) -> Option<PluginPage> {
    static PAGES: LazyLock<HashMap<&'static str, PluginPage>> =
        LazyLock::new(|| REFERENCE.iter().map(|(name, text)| (*name, page_of(text))).collect());
    PAGES.get(name).copied()
}

/// The cost of the plugin for one request in nanoseconds, as it was measured for the release.
pub(crate) fn cost_ns(name: &str) -> Option<u64> {
    static COSTS: LazyLock<HashMap<&'static str, u64>> =
        LazyLock::new(|| COSTS_TEXT.lines().filter_map(cost).collect());
    COSTS.get(name).copied()
}

/// Reads a file of the reference. Its head ends with a comment that names the source.
fn page_of(file: &'static str) -> PluginPage {
    let text = file.split_once("-->").map_or(file, |(_, text)| text).trim();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let end = paragraph.find(". ").or_else(|| paragraph.find(".\n")).map_or(paragraph.len(), |dot| dot + 1);
    PluginPage { summary: &paragraph[..end], text }
}

/// The name and the nanoseconds of a row such as ``| [`cors`](plugins/cors.md) | 100 | 2421 | 3.0 | passes |``.
fn cost(line: &'static str) -> Option<(&'static str, u64)> {
    let (name, rest) = line.strip_prefix("| [`")?.split_once("`]")?;
    Some((name, rest.split('|').nth(1)?.trim().parse().ok()?))
}

/// The name of each plugin with its file of the reference.
const REFERENCE: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/plugin_pages.rs"));
/// The table of costs.
const COSTS_TEXT: &str = include_str!("../../../docs/reference/plugin-costs.md");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plugin_of_the_reference_has_page_and_cost() {
        for (name, file) in REFERENCE {
            assert!(file.starts_with(&format!("# {name}\n")), "{name}");
            let page = find_plugin_page(name).unwrap_or_else(|| panic!("{name} has no page"));
            assert!(page.summary.ends_with('.') && page.summary.len() < 400, "{name}: {}", page.summary);
            assert!(page.text.contains("\n## Configuration\n"), "{name}");
            // A plugin that waits for a process of its own has no figure.
            let unmeasured = format!("| [`{name}`](plugins/{name}.md) | | | | not measured |");
            assert!(cost_ns(name).is_some() || COSTS_TEXT.contains(&unmeasured), "{name} has no cost");
        }
        assert!(REFERENCE.len() > 50, "{}", REFERENCE.len());
        assert_eq!((find_plugin_page("nothing"), cost_ns("nothing")), (None, None));
    }

    #[test]
    fn page_begins_behind_the_head() {
        let page =
            page_of("# one\n\nPriority: 1.\n\n<!-- Made. -->\n\nOne\nline. Two.\n\n## Configuration\n");
        assert_eq!(page, PluginPage { summary: "One\nline.", text: "One\nline. Two.\n\n## Configuration" });
        assert_eq!(page_of("No end\n"), PluginPage { summary: "No end", text: "No end" });
    }
}
