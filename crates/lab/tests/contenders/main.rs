//! Compares the contenders' folders with each other and with the interface of `lab/contenders/lib.sh`. It
//! installs and measures nothing; contenders of Debian are started by `gateway` and `protocols` if they are
//! installed.

#![allow(clippy::unwrap_used)]

mod gateway;
mod layer4;
mod protocols;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lab::contender::Definition;
use lab::scenario::ScenarioProtocol;
use tempfile::TempDir;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/contenders");

fn definitions() -> BTreeMap<String, Definition> {
    let folders =
        fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(path.join("contender.yaml")).unwrap();
        (name.clone(), Definition::parse(&name, &text).unwrap())
    };
    folders.map(read).collect()
}

/// The start scripts, by folder.
fn scripts() -> BTreeMap<String, PathBuf> {
    let script = |name: String| (name.clone(), Path::new(FOLDER).join(name).join("start.sh"));
    definitions().into_keys().map(script).filter(|(_, path)| path.exists()).collect()
}

fn call(script: &Path, words: &[&str], cache: &Path) -> Output {
    Command::new(script).args(words).env("CACHE", cache).env("WEIR", "/nowhere/weir").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_mentioned_contender_has_a_folder() {
    let names: BTreeSet<String> = definitions().into_keys().collect();
    let wanted = [
        "direct",
        "nginx",
        "nginx-l4",
        "haproxy",
        "envoy",
        "envoy-wasm",
        "traefik",
        "caddy",
        "h2o",
        "pingora",
        "zuul1",
        "zuul2",
        "scg",
        "edgeservice",
        "netty-l4",
        "netty-l7",
        "ngx-lua",
        "ngx-lua-empty",
        "weir",
        "weir-l4",
        "weir-five-plugins",
        "weir-lua",
        "weir-wasm",
        "weir-ten-plugins",
        "weir-traced-1",
        "weir-traced-100",
        "weir-10000-routes",
    ];
    for name in wanted {
        assert!(names.contains(name), "there is no {name}");
    }
}

#[test]
fn contender_folder_has_program_or_is_variant() {
    let scripts = scripts();
    for (name, definition) in definitions() {
        let of = definition.variant_of.as_deref().unwrap_or(&name);
        assert_eq!(scripts.contains_key(&name), of == name, "{name}");
        assert!(scripts.contains_key(of), "{name} is a variant of {of}, which has no start.sh");
        assert!(!definition.title.is_empty() && !definition.about.is_empty(), "{name}");
    }
}

#[test]
fn script_runs_and_refuses_unknown_arguments() {
    let cache = TempDir::new().unwrap();
    for (name, script) in scripts() {
        assert_ne!(fs::metadata(&script).unwrap().permissions().mode() & 0o111, 0, "{name}");
        assert!(Command::new("bash").arg("-n").arg(&script).status().unwrap().success(), "{name}");
        for words in [&[][..], &["stop"], &["change"], &["change", "x"]] {
            let output = call(&script, words, cache.path());
            assert_eq!(output.status.code(), Some(2), "{name} {words:?}: {}", said(&output));
            assert!(said(&output).contains("usage: "), "{name} {words:?}: {}", said(&output));
        }
    }
}

#[test]
fn a_script_says_which_variable_it_misses() {
    for (name, script) in scripts() {
        let output = Command::new(&script).arg("install").env_remove("CACHE").output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(said(&output).contains("$CACHE is not set"), "{name}: {}", said(&output));
    }
}

#[test]
fn changeable_contenders_declare_it() {
    let definitions = definitions();
    for (name, script) in scripts() {
        let can = fs::read_to_string(script).unwrap().contains("\ncontender_reload()");
        assert_eq!(definitions[&name].changes, can, "{name}");
        // A variant that forwards bytes has another configuration.
        let is_same = |each: &&Definition| each.environment.get("LAYER").is_none_or(|layer| layer != "4");
        let variants = definitions.values().filter(|each| each.variant_of.as_ref() == Some(&name));
        for variant in variants.filter(is_same) {
            assert_eq!(variant.changes, can, "{}", variant.name);
            // Plugins of requests have no part in bytes.
            let requests = |protocol: &ScenarioProtocol| !protocol.is_layer4();
            let wanted: BTreeSet<ScenarioProtocol> =
                definitions[&name].protocols.iter().copied().filter(requests).collect();
            assert_eq!(
                variant.protocols.iter().copied().collect::<BTreeSet<_>>(),
                wanted,
                "{}",
                variant.name
            );
        }
    }
}

#[test]
fn contenders_with_several_endpoints_declare_it() {
    let definitions = definitions();
    for (name, script) in scripts() {
        let can = fs::read_to_string(script).unwrap().contains("each_endpoint endpoint");
        assert_eq!(definitions[&name].endpoints, can, "{name}");
    }
}
