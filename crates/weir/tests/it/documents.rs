//! The form of the documents, and names in them that the program has: tables that render, links that lead to
//! files, metrics that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use testkit::{Client, Weir};

use crate::hardening::pages::{read, repository};

/// Every Markdown page of the repository, without the folders that builds and tools make.
fn pages() -> Vec<PathBuf> {
    let mut folders = vec![repository()];
    let mut pages = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir()
                && !["target", "node_modules", "work"].contains(&&*name)
                && !name.starts_with('.')
            {
                folders.push(path);
            } else if name.ends_with(".md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    assert!(pages.len() > 30, "{pages:?}");
    pages
}

/// The lines of a page with their numbers, without those in code fences.
fn lines(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push((index + 1, line));
        }
    }
    lines
}

/// The number of bars between the cells of a table's row. A bar in code or after a backslash is written `\|`
/// in Markdown.
fn cells(row: &str) -> usize {
    row.replace("\\\\", "").replace("\\|", "").matches('|').count()
}

/// The faults because of which the tables of a text do not render.
fn table_faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let lines = lines(text);
    let mut before = 0;
    for (position, (number, line)) in lines.iter().enumerate() {
        let is_row = line.starts_with('|');
        let begins = is_row && (position == 0 || !lines[position - 1].1.starts_with('|'));
        if begins {
            before = cells(line);
            let rule = lines.get(position + 1).map_or("", |(_, line)| line);
            if !rule.starts_with('|') || rule.contains(|sign: char| !"|-: ".contains(sign)) {
                faults.push(format!("{number}: a table begins without a heading and its rule: {line}"));
            }
        }
        if is_row && cells(line) != before {
            faults.push(format!(
                "{number}: a row of {} cells in a table of {}: {line}",
                cells(line) - 1,
                before - 1
            ));
        }
    }
    faults
}

#[test]
fn tables_of_all_pages_render() {
    for page in pages() {
        let faults = table_faults(&fs::read_to_string(&page).unwrap());
        assert!(faults.is_empty(), "{}: {faults:#?}", page.display());
    }
}

#[test]
fn table_split_by_a_blank_line_is_found() {
    let whole = "| a | b |\n|---|---|\n| 1 | `x \\| y` |\n";
    assert_eq!(table_faults(whole), Vec::<String>::new());
    let split = "| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n";
    assert_eq!(table_faults(split), ["5: a table begins without a heading and its rule: | 3 | 4 |"]);
    let short = "| a | b |\n|---|---|\n| 1 |\n";
    assert_eq!(table_faults(short), ["3: a row of 1 cells in a table of 2: | 1 |"]);
    assert_eq!(table_faults("```\n| a\n```\n"), Vec::<String>::new(), "code is no table");
}

#[test]
fn links_between_pages_lead_to_files() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for (number, line) in lines(&text) {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let target = link.split('#').next().unwrap_or_default();
                if target.is_empty() || target.contains("://") || target.contains(' ') {
                    continue;
                }
                let path = page.parent().unwrap().join(target);
                assert!(path.exists(), "{}:{number}: {link} leads nowhere", page.display());
            }
        }
    }
}

/// Whether a word is the name of a metric of the gateway or of its process.
fn is_metric(word: &str) -> bool {
    ["apisix_", "weir_", "process_"].iter().any(|prefix| word.starts_with(prefix))
}

/// The names of metrics in the first cells of the tables of a page.
fn documented(page: &str) -> BTreeSet<String> {
    let text = read(page);
    let rows = lines(&text).into_iter().filter_map(|(_, line)| line.strip_prefix("| `"));
    let names = rows.flat_map(|row| row.split(" |").next().unwrap_or_default().split('`'));
    let name = |text: &str| {
        let name = text.split('{').next().unwrap_or_default();
        is_metric(name).then(|| name.to_owned())
    };
    names.filter_map(name).collect()
}

/// The metric families that the sources announce: after `# TYPE`, or as an argument of the function that
/// writes it.
fn announced() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders: Vec<PathBuf> =
        ["control", "discovery", "exchange", "gateway", "outbound", "plugins", "weir"]
            .map(|name| repository().join("crates").join(name).join("src"))
            .into();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                names.extend(families(code));
            }
        }
    }
    names
}

fn families(code: &str) -> impl Iterator<Item = String> {
    let is_letter = |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '_';
    let typed = code.split("# TYPE ").skip(1).map(move |rest| {
        let end = rest.find(|sign| !is_letter(sign)).unwrap_or(rest.len());
        rest[..end].to_owned()
    });
    // `"name", "gauge"`: name and kind are adjacent arguments, or the name is bound just before.
    let quoted: Vec<&str> = code.split('"').collect();
    let mut given = Vec::new();
    for (index, _) in
        quoted.iter().enumerate().filter(|(_, text)| ["gauge", "counter", "histogram"].contains(text))
    {
        let names = quoted[..index].iter().rev().filter(|text| is_metric(text));
        let name = names.copied().find(|text| text.chars().all(is_letter));
        given.extend(name.map(str::to_owned));
    }
    typed.chain(given).filter(|name| is_metric(name)).collect::<Vec<_>>().into_iter()
}

#[test]
fn every_metric_is_documented_and_exists() {
    let documented = documented("docs/guide/observability.md");
    let announced = announced();
    assert!(announced.contains("apisix_etcd_reachable") && announced.len() > 15, "{announced:?}");
    let lacking: Vec<_> = announced.difference(&documented).collect();
    assert!(lacking.is_empty(), "docs/guide/observability.md lacks {lacking:?}");
    let invented: Vec<_> = documented.difference(&announced).collect();
    assert!(invented.is_empty(), "docs/guide/observability.md names {invented:?}, which do not exist");
    // Compares with a running instance too, so that no name is composed in a way that this test does not
    // find.
    let weir = Weir::start(env!("CARGO_BIN_EXE_weir"));
    let page = Client::connect(weir.address("metrics")).get("/apisix/prometheus/metrics");
    let text = String::from_utf8_lossy(&page.body).into_owned();
    let shown: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert!(shown.len() > 8, "{text}");
    for name in shown {
        assert!(documented.contains(name), "{name} is shown and not documented");
    }
}
