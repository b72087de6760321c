//! The software bill of materials: the fields that SPDX 2.3 requires, and every library that the program
//! holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::pack::{output, package, program, repository};

/// The document.
fn document() -> Value {
    serde_json::from_slice(&fs::read(package(".spdx.json")).unwrap()).unwrap()
}

/// Name and version with the SHA-256 of each crate that has a purl.
fn crates(document: &Value) -> BTreeMap<String, String> {
    let packages = document["packages"].as_array().unwrap().iter();
    packages
        .filter_map(|package| {
            let locator = package["externalRefs"][0]["referenceLocator"].as_str()?;
            let key = locator.strip_prefix("pkg:cargo/")?.replace("%2B", "+");
            Some((key, package["checksums"][0]["checksumValue"].as_str()?.to_owned()))
        })
        .collect()
}

#[test]
fn bill_has_the_required_fields_of_spdx() {
    let document = document();
    assert_eq!(document["spdxVersion"], "SPDX-2.3");
    assert_eq!(document["dataLicense"], "CC0-1.0");
    assert_eq!(document["SPDXID"], "SPDXRef-DOCUMENT");
    assert!(
        document["documentNamespace"]
            .as_str()
            .is_some_and(|uri| uri.starts_with("https://") && !uri.contains('#'))
    );
    let created = document["creationInfo"]["created"].as_str().unwrap();
    assert!(created.len() == 20 && created.ends_with('Z'), "{created}");
    assert!(document["creationInfo"]["creators"][0].as_str().unwrap().starts_with("Tool: "));
    let mut ids = BTreeSet::new();
    for package in document["packages"].as_array().unwrap() {
        let id = package["SPDXID"].as_str().unwrap();
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '.' || letter == '-';
        assert!(id.strip_prefix("SPDXRef-").is_some_and(|rest| rest.chars().all(is_allowed)), "{id}");
        assert!(ids.insert(id), "{id} is there twice");
        for field in ["name", "versionInfo", "downloadLocation", "licenseDeclared", "copyrightText"] {
            assert!(package[field].as_str().is_some_and(|text| !text.is_empty()), "{id}: {field}");
        }
        assert!(!package["licenseDeclared"].as_str().unwrap().contains('/'), "{package}");
    }
    let mut contained = 0;
    for relation in document["relationships"].as_array().unwrap() {
        for end in ["spdxElementId", "relatedSpdxElement"] {
            let id = relation[end].as_str().unwrap();
            assert!(id == "SPDXRef-DOCUMENT" || ids.contains(id), "{id} is no package");
        }
        contained += usize::from(relation["relationshipType"] == "CONTAINS");
    }
    // All but the program itself.
    assert_eq!(contained, ids.len() - 1);
}

#[test]
fn bill_names_every_crate_that_the_program_shows() {
    let listed = crates(&document());
    // Panics name the file of their source, and so the crate with its version, whichever way it was linked.
    let pattern = "registry/src/[^/]+/[A-Za-z0-9_.+-]+/";
    let found = output(Command::new("grep").args(["-aohE", pattern]).arg(program()));
    let shown: BTreeSet<String> = found
        .lines()
        .map(|path| path.split('/').nth(3).unwrap())
        .map(|folder| {
            let is_version =
                |at: &usize| folder[at + 1..].starts_with(|letter: char| letter.is_ascii_digit());
            let at = folder.match_indices('-').map(|(at, _)| at).find(is_version).unwrap();
            format!("{}@{}", &folder[..at], &folder[at + 1..])
        })
        .collect();
    assert!(shown.len() > 60, "{} crates: {shown:?}", shown.len());
    let missing: Vec<_> = shown.iter().filter(|each| !listed.contains_key(*each)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn bill_has_the_checksums_of_the_lock() {
    let listed = crates(&document());
    let lock = fs::read_to_string(repository().join("Cargo.lock")).unwrap();
    let value = |entry: &str, name: &str| {
        let line = entry.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
        line.map(|line| line.trim_end_matches('"').to_owned())
    };
    let mut sums = BTreeMap::new();
    for entry in lock.split("[[package]]\n").skip(1) {
        if let Some(checksum) = value(entry, "checksum") {
            sums.insert(
                format!("{}@{}", value(entry, "name").unwrap(), value(entry, "version").unwrap()),
                checksum,
            );
        }
    }
    assert!(listed.len() > 200, "{} crates", listed.len());
    for (key, checksum) in &listed {
        assert_eq!(sums.get(key), Some(checksum), "{key}");
    }
    for present in ["rustls@", "tokio@", "luajit-src@", "aws-lc-sys@"] {
        assert!(listed.keys().any(|key| key.starts_with(present)), "{present}");
    }
    for absent in ["proptest@", "syn@", "cc@"] {
        assert!(!listed.keys().any(|key| key.starts_with(absent)), "{absent}: a crate that is not linked");
    }
}

#[test]
fn dashboard_licenses_match_the_lock_of_npm() {
    let lock = fs::read(repository().join("web/package-lock.json")).unwrap();
    let lock: Value = serde_json::from_slice(&lock).unwrap();
    let texts = fs::read_to_string(repository().join("packaging/dashboard-licenses.txt")).unwrap();
    let mut checked = 0;
    for (place, entry) in lock["packages"].as_object().unwrap() {
        let Some((_, name)) = place.rsplit_once("node_modules/") else { continue };
        if entry["dev"] == true {
            continue;
        }
        let line = format!("\n{name} {} (", entry["version"].as_str().unwrap());
        assert!(texts.contains(&line), "{line}: run packaging/licenses.py after npm ci in web");
        checked += 1;
    }
    assert!(checked > 50, "{checked} packages");
}
