//! The plain manifests of Kubernetes: they are the chart's output with their values, and pass the same
//! checks.
//!
//! `UPDATE=1 cargo test -p weir --test operators manifests` writes them.

use std::collections::BTreeMap;
use std::fs;

use crate::support::{read, repository, weirchart};

const FOLDER: &str = "packaging/kubernetes";

/// The manifests by the names of their files, as the chart gives them.
fn made() -> BTreeMap<String, String> {
    let arguments = ["-plain", "-exists", "Secret/weir-admin", "weir", "../kubernetes/values.yaml"];
    let text = weirchart(&arguments).text();
    let parts = text.split("# File: ").skip(1).map(|part| part.split_once('\n').unwrap());
    parts.map(|(name, content)| (name.to_owned(), content.to_owned())).collect()
}

#[test]
fn manifests_are_the_output_of_the_chart() {
    let made = made();
    assert!(made.len() > 5, "{made:?}");
    for (name, content) in &made {
        let path = repository().join(FOLDER).join(name);
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, content).unwrap();
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(&written, content, "{name} is not that of the chart; UPDATE=1 writes it");
    }
}

#[test]
fn kustomization_names_all_manifests() {
    let text = read(&format!("{FOLDER}/kustomization.yaml"));
    let mut named: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("  - "))
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    named.sort_unstable();
    assert_eq!(named, made().keys().collect::<Vec<_>>());
}

#[test]
fn manifests_pass_the_checks_of_the_chart() {
    let made = made();
    let files: Vec<String> = made.keys().map(|name| format!("../kubernetes/{name}")).collect();
    let mut arguments = vec!["-manifests", "-exists", "Secret/weir-admin"];
    arguments.extend(files.iter().map(String::as_str));
    weirchart(&arguments).text();
}
