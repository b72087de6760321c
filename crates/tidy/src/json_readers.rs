//! JSON of clients, nodes, providers and registries is read by the crate `jsonx`, which bounds the values in
//! it and keeps the digits of its numbers. Readers of `serde_json` are in the files of [`OWN_TEXTS`] only,
//! each with the reason why no other machine chooses its text.
//!
//! A new reader of an answer or a body calls `jsonx::read`, or `jsonx::parse` where numbers are sent on.

use std::fs;

use crate::{collect, crates};

/// Crates that no gateway in service reads with, besides the crate of the bounds.
const OTHER_CRATES: [&str; 5] = ["jsonx", "lab", "peer", "testkit", "tidy"];

/// The calls that read a text.
const READERS: [&str; 6] = [
    "serde_json::from_slice",
    "serde_json::from_str",
    "serde_json::from_reader",
    "serde_json::Deserializer::from_",
    "parse::<Value>",
    "parse::<serde_json::Value>",
];

/// Imports that would hide a reader.
const IMPORTS: [&str; 4] = ["from_slice", "from_str", "from_reader", "Deserializer"];

/// Texts that the gateway has written itself, and keeps in its store, in etcd or in its memory. Writes were
/// bounded when they came.
const STORED: &str = "objects that were bounded when they were written";
/// Texts of the operator: flags, variables, files and the arguments of commands.
const CONFIGURED: &str = "text of the operator";
/// Answers to commands of the operator.
const COMMANDS: &str = "a command reads the answer of its own gateway";
/// Files that the gateway writes for itself.
const OWN_FILES: &str = "a file or message of the gateway itself";

/// The files with readers of `serde_json`, and the reason.
const OWN_TEXTS: &[(&str, &str)] = &[
    ("control/src/acme/account.rs", OWN_FILES),
    ("control/src/acme/record.rs", OWN_FILES),
    ("control/src/admin/extensions.rs", STORED),
    ("control/src/admin/kinds.rs", STORED),
    ("control/src/admin/listing.rs", STORED),
    ("control/src/admin/openapi/template.rs", "templates that are part of the program"),
    ("control/src/admin/resources.rs", STORED),
    ("control/src/admin/weir/top.rs", STORED),
    ("control/src/admin/weir/usage.rs", STORED),
    ("control/src/control_api.rs", STORED),
    ("control/src/extension_folder.rs", STORED),
    ("control/src/hidden.rs", STORED),
    ("control/src/hidden/places.rs", STORED),
    ("control/src/plan.rs", STORED),
    ("control/src/reconcile/good.rs", OWN_FILES),
    ("control/src/reconcile/whole.rs", STORED),
    ("control/src/reconcile/write.rs", STORED),
    ("control/src/sealing.rs", STORED),
    ("control/src/source/file/compose.rs", CONFIGURED),
    ("control/src/source/store/instance.rs", OWN_FILES),
    ("control/src/source/store/set_statement.rs", OWN_FILES),
    ("control/src/summary/facts.rs", STORED),
    ("discovery/src/copy.rs", OWN_FILES),
    ("discovery/src/publish.rs", "the filter of an upstream's `discovery_args`, which is configured"),
    ("gateway/src/explain/walk.rs", STORED),
    ("lua/src/json.rs", "the reader of scripts, whose budget each value is charged to before it is made"),
    (
        "model/src/lenient_json.rs",
        "it measures the text itself, because it reads control characters leniently",
    ),
    ("model/src/schema.rs", "schemas that are part of the program"),
    ("model/src/snapshot/read.rs", STORED),
    ("model/src/validate/user_schema.rs", "a text inside of a bounded value, of which nothing is built"),
    ("plugins/src/google_cloud_logging/account.rs", CONFIGURED),
    ("plugins/src/graphql_limit_count/sources.rs", STORED),
    ("plugins/src/graphql_proxy_cache.rs", STORED),
    ("plugins/src/opa/input.rs", STORED),
    ("weir/src/ask.rs", COMMANDS),
    ("weir/src/boot/upgrade/channel.rs", OWN_FILES),
    ("weir/src/boot/upgrade/outcome.rs", OWN_FILES),
    ("weir/src/cli/plugin/manage.rs", CONFIGURED),
    ("weir/src/cli/plugin/test.rs", CONFIGURED),
    ("weir/src/cli/tap.rs", COMMANDS),
    ("weir/src/settings/apisix/discovery.rs", CONFIGURED),
    ("weir/src/settings/cache.rs", CONFIGURED),
    ("weir/src/settings/discovery.rs", CONFIGURED),
    ("weir/src/settings/parse/access_log_format.rs", CONFIGURED),
    ("weir/src/settings/registration.rs", CONFIGURED),
    ("weir/src/settings/runner.rs", CONFIGURED),
    ("weir/src/settings/wasm.rs", CONFIGURED),
    ("yaml/src/lib.rs", "a configuration, of which the nodes are bounded"),
];

#[test]
fn json_of_other_machines_is_bounded() {
    let crates = crates();
    let mut files = Vec::new();
    collect(&crates, &mut files);
    let mut found = Vec::new();
    for file in files {
        let name = file.strip_prefix(&crates).expect("it lies there").to_string_lossy().replace('\\', "/");
        let text = fs::read_to_string(&file).expect("a source can be read");
        if !is_product(&name) || !reads(&text) {
            continue;
        }
        found.push(name);
    }
    let allowed = |name: &String| OWN_TEXTS.iter().any(|(own, _)| own == name);
    let others: Vec<&String> = found.iter().filter(|name| !allowed(name)).collect();
    assert!(others.is_empty(), "these files read JSON without a bound; call `jsonx::read`: {others:#?}");
    let gone: Vec<&str> =
        OWN_TEXTS.iter().map(|(own, _)| *own).filter(|own| !found.iter().any(|name| name == own)).collect();
    assert!(gone.is_empty(), "these files have no reader any more; remove them from the list: {gone:#?}");
}

#[test]
fn planted_reader_is_found() {
    assert!(reads("fn f() { serde_json::from_slice(b\"\") }"));
    assert!(reads("use serde_json::{Value, from_str};\nfn f() {}"));
    assert!(reads("use serde_json::Deserializer;\n"));
    assert!(!reads("// serde_json::from_slice\nuse serde_json::{Map, Value};\n"));
    assert!(!reads("fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() { serde_json::from_str(\"\") }\n}\n"));
}

/// Whether a file is part of the program.
fn is_product(name: &str) -> bool {
    let parts: Vec<&str> = name.split(['/', '.']).collect();
    let is_of_tests = |part: &&str| *part == "tests" || part.ends_with("_tests") || *part == "testing";
    name.contains("/src/") && !OTHER_CRATES.contains(&parts[0]) && !parts.iter().any(is_of_tests)
}

/// Whether the code in front of the tests has a reader.
fn reads(text: &str) -> bool {
    let code: String = text
        .split("\n#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default()
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    let imports =
        code.split(';').filter_map(|statement| statement.trim_start().strip_prefix("use serde_json::"));
    READERS.iter().any(|reader| code.contains(reader))
        || imports
            .flat_map(|tree| tree.split(|letter: char| !letter.is_alphanumeric() && letter != '_'))
            .any(|word| IMPORTS.contains(&word))
}
