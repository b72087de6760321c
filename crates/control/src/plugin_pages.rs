//! The reference pages of the plugins and their measured costs, taken from the committed documents and split by plugin at the
//! first question. It names no plugin.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The page of one plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page {
    /// Its first sentence, without a line end.
    pub(crate) summary: &'static str,
    /// Markdown, without the heading that names the plugin.
    pub(crate) text: &'static str,
}

/// The page of the plugin of that name; none for a plugin that was added to the program.
pub(crate) fn page(name: &str) -> Option<Page> {
    static PAGES: LazyLock<HashMap<&'static str, Page>> = LazyLock::new(|| pages(REFERENCE));
    PAGES.get(name).copied()
}

/// The cost of the plugin for one request in nanoseconds, as it was measured for the release.
pub(crate) fn cost_ns(name: &str) -> Option<u64> {
    static COSTS: LazyLock<HashMap<&'static str, u64>> =
        LazyLock::new(|| COSTS_TEXT.lines().filter_map(cost).collect());
    COSTS.get(name).copied()
}

/// Splits the reference at the headings of the second level; lines of code are no headings.
fn pages(reference: &'static str) -> HashMap<&'static str, Page> {
    let mut pages = HashMap::new();
    let mut current: Option<(&'static str, usize)> = None;
    let (mut at, mut is_code) = (0, false);
    for line in reference.split_inclusive('\n') {
        is_code ^= line.starts_with("```");
        if let Some(name) = line.strip_prefix("## ").filter(|_| !is_code) {
            if let Some((name, begin)) = current {
                pages.insert(name, page_of(&reference[begin..at]));
            }
            current = Some((name.trim(), at + line.len()));
        }
        at += line.len();
    }
    if let Some((name, begin)) = current {
        pages.insert(name, page_of(&reference[begin..]));
    }
    pages
}

fn page_of(text: &'static str) -> Page {
    let text = text.trim();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let end = paragraph.find(". ").or_else(|| paragraph.find(".\n")).map_or(paragraph.len(), |dot| dot + 1);
    Page { summary: &paragraph[..end], text }
}

/// The name and the nanoseconds of a row such as ``| [`cors`](plugins.md#cors) | 100 | 2421 | 3.0 | passes |``.
fn cost(line: &'static str) -> Option<(&'static str, u64)> {
    let (name, rest) = line.strip_prefix("| [`")?.split_once("`]")?;
    Some((name, rest.split('|').nth(1)?.trim().parse().ok()?))
}

/// The reference of all plugins.
const REFERENCE: &str = include_str!("../../../docs/reference/plugins.md");
/// The table of costs.
const COSTS_TEXT: &str = include_str!("../../../docs/reference/plugin-costs.md");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plugin_of_the_reference_has_page_and_cost() {
        let mut seen = 0;
        for line in REFERENCE.lines().filter_map(|line| line.strip_prefix("| [")) {
            let Some((name, _)) = line.split_once("](#") else { continue };
            let page = page(name).unwrap_or_else(|| panic!("{name} has no page"));
            assert!(page.summary.ends_with('.') && page.summary.len() < 400, "{name}: {}", page.summary);
            assert!(page.text.contains("### Configuration"), "{name}");
            // A plugin that waits for a process of its own has no figure.
            let unmeasured = format!("| [`{name}`](plugins.md#{name}) | | | | not measured |");
            assert!(cost_ns(name).is_some() || COSTS_TEXT.contains(&unmeasured), "{name} has no cost");
            seen += 1;
        }
        assert!(seen > 50, "{seen}");
        assert_eq!((page("nothing"), cost_ns("nothing")), (None, None));
    }

    #[test]
    fn code_is_not_read_as_a_heading() {
        let pages = pages("# All\n\n## one\n\nOne. Two.\n\n```sh\n## not\n```\n\n## two\n\nNo end\n");
        assert_eq!(pages.len(), 2);
        assert_eq!(pages["one"].summary, "One.");
        assert_eq!(pages["two"], Page { summary: "No end", text: "No end" });
    }
}
