//! Reading of a `config.yaml`: texts, and the settings, remarks and faults that they give. The modules hold
//! the tables, by subject.

mod deployment;
mod listeners;
mod lua;
mod nginx;
mod stream;

use std::path::Path;

use super::super::{Faults, Settings};
use super::*;

/// The settings that differ from the defaults, the remarks and the faults.
type Outcome = (Vec<String>, Vec<String>, Vec<String>);

fn read(path: &str, text: &str) -> Outcome {
    let environment = |name: &str| match name {
        "PORT" => Some("9000".to_owned()),
        "KEY" => Some("\"a-key-of-the-environment\"".to_owned()),
        _ => None,
    };
    let mut faults = Vec::new();
    let (written, remarks) = parse_apisix_config(Path::new(path), text, &environment, &mut faults);
    let remarks = remarks.lines().collect();
    let mut all = WrittenSettings::defaults();
    all.override_with(written);
    match Settings::from_written(&all, faults) {
        Ok(settings) => {
            let defaults =
                Settings::from_written(&WrittenSettings::defaults(), Vec::new()).unwrap().in_force();
            let differing = settings.in_force().into_iter().filter(|setting| !defaults.contains(setting));
            (differing.map(|(name, value)| format!("{name} {value}")).collect(), remarks, Vec::new())
        }
        Err(Faults(faults)) => (Vec::new(), remarks, faults.iter().map(ToString::to_string).collect()),
    }
}

/// Checks that the text gives exactly these settings, remarks and faults; of a remark or fault, its
/// beginning.
fn check(text: &str, settings: &[&str], remarks: &[&str], faults: &[&str]) {
    let (found_settings, found_remarks, found_faults) = read("c.yaml", text);
    assert_eq!(found_settings, settings, "{text}");
    for (found, expected) in [(&found_remarks, remarks), (&found_faults, faults)] {
        assert_eq!(found.len(), expected.len(), "{text}\n{found:#?}");
        for (found, part) in found.iter().zip(expected) {
            assert!(found.starts_with(&format!("c.yaml:{part}")), "{found:?} is not {part:?}");
        }
    }
}

/// Checks that the text gives these settings, without a remark or fault.
fn gives(text: &str, settings: &[&str]) {
    check(text, settings, &[], &[]);
}

fn warns(text: &str, remarks: &[&str]) {
    check(text, &[], remarks, &[]);
}

fn refused(text: &str, faults: &[&str]) {
    check(text, &[], &[], faults);
}

#[test]
fn nothing_written_is_every_default() {
    gives("", &[]);
    gives("apisix:\n", &[]);
    gives("apisix: {}\ndeployment: {role: traditional}\n#END", &[]);
    gives("apisix: {node_listen: ~, control: null, trusted_addresses:}\n", &[]);
}

#[test]
fn unknown_keys_are_reported_with_nearest() {
    warns(
        "apisix:\n  node_lisen: 1\n  colour: blue\n  allow_admin: [0.0.0.0/0]\n  config_center: yaml\n\
         deploymnt: {}\netcd: {host: []}\nproxy: 0.0.0.0:1\nadmin_key: x\n",
        &[
            "2: apisix.node_lisen: warning: there is no such key; did you mean `node_listen`?",
            "3: apisix.colour: warning: there is no such key",
            "4: apisix.allow_admin: warning: there is no such key; did you mean `deployment.admin.allow_admin`?",
            "5: apisix.config_center: warning: there is no such key",
            "6: deploymnt: warning: there is no such key; did you mean `deployment`?",
            "7: etcd: warning: there is no such key; did you mean `deployment.etcd`?",
            "8: proxy: warning: is a setting of Weir; beside APISIX's keys, write it as `WEIR_PROXY` or --proxy",
            "9: admin_key: warning: there is no such key; did you mean `deployment.admin.admin_key`?",
        ],
    );
}

#[test]
fn texts_that_are_no_configuration() {
    refused("apisix:\n  a: [1\n", &["2: not YAML: "]);
    refused("apisix: {}\napisix: {}\n", &["2: not YAML: "]);
    refused("apisix: {}\n---\napisix: {}\n", &["3: a `config.yaml` is one YAML document"]);
    refused(
        "apisix:\n  node_listen: ${{NOBODY}}\n  x: ${{ALSO}}\n",
        &["2: the environment variable NOBODY", "3: "],
    );
    refused("apisix: 1\n", &["1: apisix: is a map of keys"]);
    assert_eq!(read("c.yaml", "- apisix\n").2, ["c.yaml:1: is not a map of keys"]);
}

#[test]
fn no_output_shows_a_key() {
    let text = "deployment:\n  admin:\n    admin_key: [{key: 0123456789abcdef-secret, role: viewer}]\n";
    let (settings, remarks, _) = read("c.yaml", text);
    assert!(!format!("{settings:?}{remarks:?}").contains("0123456789abcdef"));
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused_with_a_reason(
        text in "apisix:\n(  (node_listen|ssl|router|control|plugins|status|dns_resolver): ?(\\[|\\]|\\{|\\}|1|a|,|: |~|\n|- | ){0,12}\n){0,4}"
    ) {
        let (_, remarks, faults) = read("c.yaml", &text);
        proptest::prop_assert!(remarks.iter().chain(&faults).all(|line| line.starts_with("c.yaml:")), "{faults:?}");
    }
}
