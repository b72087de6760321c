//! The structure of the crates `control`, `exchange` and `gateway`: which top-level modules may import which,
//! and that no file imports, directly or not, a file that imports it. A top-level module is a file or folder
//! directly under `src`; the items here call it a room. Tests, the simulation and `testing` are left out,
//! because they may import every module.
//!
//! A new import between top-level modules needs a reason: add it here if the upper one uses the lower one;
//! otherwise move the shared item down.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::{collect, crates};

/// The top-level modules of `gateway` from the bottom up, each with those that it may import.
const GATEWAY: &[(&str, &[&str])] = &[
    ("observe", &[]),
    ("body", &[]),
    ("forward", &["body"]),
    ("command", &["observe"]),
    ("idle", &["observe"]),
    ("evict", &["command", "idle", "observe"]),
    ("h1", &["body", "forward"]),
    ("h2", &["forward"]),
    ("tunnel", &["body", "h1"]),
    ("upstream", &["body", "evict", "forward", "h1", "h2", "tunnel"]),
    ("runtime", &["upstream"]),
    ("compile", &["runtime", "upstream"]),
    ("explain", &["body", "forward", "h1", "runtime", "upstream"]),
    ("context", &["evict", "observe", "runtime", "upstream"]),
    ("pipeline", &["body", "context", "forward", "observe", "runtime", "tunnel", "upstream"]),
    (
        "downstream",
        &[
            "body", "command", "context", "forward", "h1", "h2", "observe", "pipeline", "runtime", "tunnel",
            "upstream",
        ],
    ),
    ("worker", &["command", "context", "downstream", "evict", "observe"]),
    ("engine", &["command", "context", "observe", "runtime", "upstream", "worker"]),
];

/// The top-level modules of `control` from the bottom up, each with those that it may import: what all
/// listeners share, the sources, the view of the configuration and its readers, the thread that changes it,
/// the APIs, the start.
const CONTROL: &[(&str, &[&str])] = &[
    ("clock", &[]),
    ("object_path", &[]),
    ("stored_key", &[]),
    ("extension_edit", &[]),
    ("plugin_pages", &[]),
    ("references", &[]),
    ("route_target", &[]),
    ("sealing", &[]),
    ("hidden", &[]),
    ("tap", &[]),
    ("ocsp", &[]),
    ("secret", &[]),
    ("serve", &["clock", "object_path"]),
    ("source", &["stored_key"]),
    ("report", &["tap"]),
    ("plan", &["hidden", "stored_key"]),
    ("certificates", &["serve"]),
    ("log_level", &["serve"]),
    ("instance_id", &["source"]),
    ("key", &["source"]),
    ("server_info", &["source"]),
    ("shared_state", &["source"]),
    ("ticket_keys", &["clock", "sealing", "shared_state"]),
    ("view", &["source"]),
    ("status", &["certificates", "serve", "view"]),
    ("verdict", &["object_path", "serve", "view"]),
    ("explain", &["hidden", "serve", "stored_key", "view"]),
    ("summary", &["route_target", "verdict", "view"]),
    ("upstreams", &["certificates", "report", "serve", "summary"]),
    (
        "reconcile",
        &[
            "clock",
            "hidden",
            "ocsp",
            "plan",
            "sealing",
            "secret",
            "serve",
            "source",
            "stored_key",
            "verdict",
            "view",
        ],
    ),
    ("extension_folder", &["extension_edit", "reconcile", "view"]),
    ("acme", &["clock", "reconcile", "sealing", "shared_state", "view"]),
    (
        "admin",
        &[
            "acme",
            "certificates",
            "clock",
            "explain",
            "extension_edit",
            "hidden",
            "object_path",
            "plan",
            "plugin_pages",
            "reconcile",
            "references",
            "report",
            "route_target",
            "sealing",
            "serve",
            "source",
            "stored_key",
            "summary",
            "tap",
            "upstreams",
            "verdict",
            "view",
        ],
    ),
    ("offline", &["admin", "plan", "reconcile", "sealing", "source", "stored_key", "view"]),
    (
        "control_api",
        &[
            "admin",
            "certificates",
            "explain",
            "log_level",
            "reconcile",
            "report",
            "serve",
            "upstreams",
            "verdict",
            "view",
        ],
    ),
    ("metrics_server", &["acme", "serve", "source", "verdict", "view"]),
    (
        "start",
        &[
            "acme",
            "admin",
            "clock",
            "control_api",
            "extension_folder",
            "metrics_server",
            "ocsp",
            "reconcile",
            "report",
            "sealing",
            "secret",
            "serve",
            "server_info",
            "shared_state",
            "source",
            "status",
            "summary",
            "ticket_keys",
            "view",
        ],
    ),
];

/// The top-level modules of `exchange`, each with those that it may import. They have no order, because an
/// exchange holds the plugins' state and a plugin takes the exchange; their files have one.
const EXCHANGE: &[(&str, &[&str])] = &[
    ("client_address", &["exchange"]),
    ("deadline", &["local"]),
    ("exchange", &["client_address", "failure", "grpc", "local", "options", "overload", "plugin"]),
    ("failure", &[]),
    ("grpc", &["failure"]),
    ("inner", &["client_address", "exchange", "local", "plugin"]),
    ("local", &["options", "overload", "plugin"]),
    ("observe", &["exchange"]),
    ("options", &["client_address"]),
    ("overload", &["failure", "observe", "options", "own_addresses"]),
    ("own_addresses", &[]),
    ("plugin", &["exchange", "failure", "observe", "overload"]),
    ("prepare", &["exchange", "failure", "grpc", "options"]),
];

/// The crates in which no files may import each other in a circle.
const WITHOUT_CIRCLE: &[&str] = &["exchange", "gateway", "outbound"];

/// Files of one crate by module path, with the module paths that each imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_import_only_what_their_table_allows() {
    for (name, table) in [("control", CONTROL), ("exchange", EXCHANGE), ("gateway", GATEWAY)] {
        let mut faults = BTreeSet::new();
        for (file, targets) in imports_of(name) {
            let from = room_of(&file);
            let allowed = table.iter().find(|(room, _)| *room == from).map_or(&[][..], |(_, below)| *below);
            let rooms =
                targets.iter().map(|target| room_of(target)).filter(|to| !from.is_empty() && *to != from);
            faults.extend(rooms.filter(|to| !allowed.contains(to)).map(|to| format!("{file} imports {to}")));
        }
        assert!(faults.is_empty(), "crates/{name}, against the table of {}: {faults:#?}", file!());
    }
}

#[test]
fn modules_of_floors_import_only_lower_ones() {
    for (name, table) in [("control", CONTROL), ("gateway", GATEWAY)] {
        for (place, (room, below)) in table.iter().enumerate() {
            for one in *below {
                let floor = table.iter().position(|(other, _)| other == one);
                let is_lower = floor.is_some_and(|floor| floor < place);
                assert!(is_lower, "crates/{name}: {room} does not stand above {one}");
            }
        }
    }
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    for name in WITHOUT_CIRCLE {
        let circles = circles_of(&imports_of(name));
        assert!(circles.is_empty(), "crates/{name}: {circles:#?}");
    }
}

#[test]
fn planted_circle_is_found() {
    let text = "use super::b::{C, D as E};\nfn f() { crate::a::g(); }\n";
    let files: BTreeSet<String> = ["a", "b", "b::c"].iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(targets_of("a", text, &files), BTreeSet::from(["b".to_owned()]));
    assert_eq!(targets_of("b::c", text, &files), BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    let arrow = |to: &[&str]| to.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let imports = Imports::from([
        ("a".into(), arrow(&["b"])),
        ("b".into(), arrow(&["b::c"])),
        ("b::c".into(), arrow(&["a"])),
    ]);
    assert_eq!(circles_of(&imports), [["a", "b", "b::c"].map(str::to_owned).to_vec()]);
}

/// The first part of a module path; empty for the crate's root.
fn room_of(module: &str) -> &str {
    module.split("::").next().unwrap_or_default()
}

/// The modules that each product file of a crate imports.
fn imports_of(name: &str) -> Imports {
    let source = crates().join(name).join("src");
    let mut files = Vec::new();
    collect(&source, &mut files);
    let texts: BTreeMap<String, String> = files
        .iter()
        .map(|file| (module_of(file.strip_prefix(&source).expect("it lies there")), file))
        .filter(|(module, _)| {
            !["tests", "testing", "simulation"].iter().any(|part| module.split("::").any(|one| one == *part))
        })
        .map(|(module, file)| (module, fs::read_to_string(file).expect("a source can be read")))
        .collect();
    assert!(texts.len() > 1, "{} has sources", source.display());
    let names = texts.keys().cloned().collect();
    texts.iter().map(|(module, text)| (module.clone(), targets_of(module, text, &names))).collect()
}

fn module_of(file: &Path) -> String {
    let parts: Vec<_> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let path = parts.join("::");
    if path == "lib" || path == "main" { String::new() } else { path }
}

/// The modules among `files` with items that `text`, the source of `module`, names by a path.
fn targets_of(module: &str, text: &str, files: &BTreeSet<String>) -> BTreeSet<String> {
    let code: String = text
        .split("\nmod tests {")
        .next()
        .unwrap_or_default()
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .fold(String::new(), |code, line| code + line + "\n");
    let own: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
    let mut paths = Vec::new();
    for statement in code.split(';') {
        let start = statement.trim_start();
        let after_pub = start.strip_prefix("pub").map_or(start, |rest| {
            rest.trim_start()
                .strip_prefix('(')
                .and_then(|rest| rest.split_once(')'))
                .map_or(rest, |(_, rest)| rest)
        });
        match after_pub.trim_start().strip_prefix("use ") {
            Some(tree) => expand(&tree.split_whitespace().collect::<Vec<_>>().join(" "), "", &mut paths),
            None => paths_inside(statement, &mut paths),
        }
    }
    let targets = paths.iter().filter_map(|path| resolve(path, &own, files));
    targets.filter(|target| target != module && !target.is_empty()).collect()
}

/// The paths that begin with `crate`, `super` or `self` inside code.
fn paths_inside(code: &str, paths: &mut Vec<String>) {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    for word in code.split(|letter| !is_word(letter)) {
        if ["crate::", "super::", "self::"].iter().any(|start| word.starts_with(start)) {
            paths.push(word.to_owned());
        }
        // A `use` inside a function is found below, because no statement need precede it.
    }
    for (_, tree) in code.match_indices("use ").map(|(at, _)| code.split_at(at + 4)) {
        expand(tree.trim_end(), "", paths);
    }
}

/// The single paths of a tree such as `a::{b, c::{d, e}}`.
fn expand(tree: &str, before: &str, paths: &mut Vec<String>) {
    let Some(open) = tree.find('{') else {
        paths.push(format!("{before}{}", tree.split(" as ").next().unwrap_or_default().trim()));
        return;
    };
    let before = format!("{before}{}", tree[..open].trim());
    let inside = tree[open + 1..].rsplit_once('}').map_or(&tree[open + 1..], |(inside, _)| inside);
    let (mut depth, mut from) = (0, 0);
    for (at, letter) in inside.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&inside[from..at], &before, paths);
                from = at + 1;
            }
            _ => {}
        }
    }
    if !inside[from..].trim().is_empty() {
        expand(&inside[from..], &before, paths);
    }
}

/// The module among `files` that `path` leads to from the module `own`.
fn resolve(path: &str, own: &[&str], files: &BTreeSet<String>) -> Option<String> {
    let mut parts: Vec<&str> = path.split("::").map(str::trim).collect();
    let mut base: Vec<&str> = match parts[0] {
        "crate" => Vec::new(),
        "self" | "super" => own.to_vec(),
        // Either a child module of `own`, or another crate.
        child => {
            let is_child = files.contains(&own.iter().copied().chain([child]).collect::<Vec<_>>().join("::"));
            is_child.then(|| own.to_vec())?
        }
    };
    while matches!(parts.first(), Some(&("crate" | "self" | "super"))) {
        if parts.remove(0) == "super" {
            base.pop();
        }
    }
    base.extend(parts);
    (1..=base.len()).rev().map(|length| base[..length].join("::")).find(|module| files.contains(module))
}

/// The sets of files that import each other in a circle (strongly connected components of more than one
/// file).
fn circles_of(imports: &Imports) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|module| (module, reachable(module, imports))).collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for (module, others) in &reached {
        let circle: Vec<String> = others
            .iter()
            .filter(|other| reached.get(*other).is_some_and(|back| back.contains(module)))
            .map(|one| (*one).clone())
            .collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

fn reachable<'i>(from: &'i String, imports: &'i Imports) -> BTreeSet<&'i String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for next in imports.get(module).into_iter().flatten() {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    reached
}
