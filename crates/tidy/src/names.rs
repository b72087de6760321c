//! Names that a search finds: a type or a free function that is visible outside its file has a name of its
//! own in its crate, and few types share theirs with files of other crates. The counts may fall and never
//! rise.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::{collect, crates};

/// The most types and functions that share their name with another file of their crate.
const SHARED_IN_CRATE: Counts = Counts { types: 17, functions: 41 };

/// The most types, in thousandths of all, with a name that [`MANY_FILES`] files define.
const AMBIGUOUS_TYPES_PER_MILLE: usize = 11;

/// A name that so many files define leads nowhere.
const MANY_FILES: usize = 3;

/// Functions that each plugin has by the same name, because a table of plugins lists them.
const PLUGIN_TABLE: [&str; 5] = ["build", "build_template", "check", "schema", "template"];

#[derive(Debug, PartialEq, Eq)]
struct Counts {
    types: usize,
    functions: usize,
}

/// A definition: whether it is a function, whether it is visible outside its file, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Definition {
    is_function: bool,
    is_visible: bool,
    name: String,
}

#[test]
fn names_are_unique_in_their_crate() {
    let definitions = definitions_of_product();
    let mut files: BTreeMap<(&str, bool, &str), BTreeSet<&str>> = BTreeMap::new();
    for (file, definition) in &definitions {
        let key = (crate_of(file), definition.is_function, definition.name.as_str());
        files.entry(key).or_default().insert(file);
    }
    let mut shared = BTreeMap::new();
    for (file, definition) in definitions.iter().filter(|(_, definition)| definition.is_visible) {
        let name = definition.name.as_str();
        let is_of_table = crate_of(file) == "plugins" && PLUGIN_TABLE.contains(&name);
        let count = files[&(crate_of(file), definition.is_function, name)].len();
        if count > 1 && !(definition.is_function && is_of_table) {
            shared.entry(definition.is_function).or_insert_with(Vec::new).push(format!("{file}: {name}"));
        }
    }
    let count = |is_function| shared.get(&is_function).map_or(0, Vec::len);
    let counts = Counts { types: count(false), functions: count(true) };
    assert!(
        counts.types <= SHARED_IN_CRATE.types && counts.functions <= SHARED_IN_CRATE.functions,
        "{counts:?} names are shared where {SHARED_IN_CRATE:?} were: {shared:#?}"
    );
}

#[test]
fn types_are_found_by_their_name() {
    let definitions = definitions_of_product();
    let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let types = definitions.iter().filter(|(_, definition)| !definition.is_function);
    for (file, definition) in types.clone() {
        files.entry(&definition.name).or_default().insert(file);
    }
    let ambiguous = types.clone().filter(|(_, one)| files[one.name.as_str()].len() >= MANY_FILES).count();
    let per_mille = ambiguous * 1_000 / types.count();
    let worst: Vec<_> = files.iter().filter(|(_, files)| files.len() >= MANY_FILES).collect();
    assert!(
        per_mille <= AMBIGUOUS_TYPES_PER_MILLE,
        "{per_mille} of 1,000 types share their name with {MANY_FILES} files: {worst:#?}"
    );
}

#[test]
fn definitions_are_read() {
    let text = "pub(crate) struct A;\nenum B {}\npub trait C {\n    type D;\n}\npub async fn e() {}\nfn f() {}\nimpl A {\n    \
                pub fn g() {}\n}\n#[cfg(test)]\nmod tests {\n    struct H;\n}\n";
    let found: Vec<_> = definitions_in(text)
        .into_iter()
        .map(|found| (found.name, found.is_function, found.is_visible))
        .collect();
    let expected =
        [("A", false, true), ("B", false, false), ("C", false, true), ("e", true, true), ("f", true, false)];
    assert_eq!(
        found,
        expected.map(|(name, is_function, is_visible)| (name.to_owned(), is_function, is_visible))
    );
}

/// The definitions of all files of the program, with the paths of the files below `crates`.
fn definitions_of_product() -> Vec<(String, Definition)> {
    let (root, mut files) = (crates(), Vec::new());
    collect(&root, &mut files);
    let mut definitions = Vec::new();
    for file in files {
        let name = file.strip_prefix(&root).expect("it lies there").to_string_lossy().replace('\\', "/");
        if is_product(Path::new(&name)) {
            let text = fs::read_to_string(&file).expect("a source can be read");
            definitions.extend(definitions_in(&text).into_iter().map(|found| (name.clone(), found)));
        }
    }
    definitions
}

/// Whether a file is part of the program, and of neither tests nor the simulation.
fn is_product(file: &Path) -> bool {
    let parts: Vec<_> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let is_of_tests = |part: &String| {
        ["tests", "testing", "simulation"].contains(&part.as_str()) || part.ends_with("_tests")
    };
    parts.get(1).is_some_and(|part| part == "src")
        && !["testkit", "tidy"].contains(&parts[0].as_str())
        && !parts.iter().any(is_of_tests)
}

fn crate_of(file: &str) -> &str {
    file.split('/').next().unwrap_or_default()
}

/// The types and free functions that a text defines in front of its tests. Methods and associated types are
/// none.
fn definitions_in(text: &str) -> Vec<Definition> {
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    code.lines().filter_map(definition).collect()
}

/// The definition that a line begins. Functions inside of others are indented, and associated types are too.
fn definition(line: &str) -> Option<Definition> {
    let is_indented = line.starts_with(' ');
    let mut words = line.trim_start();
    let mut is_visible = false;
    if let Some(rest) = words.strip_prefix("pub") {
        is_visible = true;
        words =
            rest.strip_prefix('(').map_or(rest, |rest| rest.split_once(')').map_or(rest, |(_, rest)| rest));
    }
    loop {
        words = words.trim_start();
        let rest = ["const ", "async ", "unsafe "].iter().find_map(|word| words.strip_prefix(word));
        let Some(rest) = rest else { break };
        words = rest;
    }
    let (keyword, rest) = words.split_once(' ')?;
    let is_function = keyword == "fn";
    if !(is_function || ["struct", "enum", "trait", "type", "union"].contains(&keyword))
        || is_indented && (is_function || keyword == "type")
    {
        return None;
    }
    let name: String = rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
    (!name.is_empty()).then_some(Definition { is_function, is_visible, name })
}
