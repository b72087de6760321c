//! The reference page of the settings, made from the table; the committed page is compared with it.

use std::fmt::Write;
use std::path::Path;

use super::arguments::one_paragraph;
use super::{SETTINGS, Setting};

#[test]
fn the_settings_page_is_up_to_date() {
    check_page("settings.md", &settings_page());
}

/// Compares the page `docs/reference/<name>` with `expected`, or writes it when `UPDATE=1` is set.
pub(crate) fn check_page(name: &str, expected: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let path = folder.join(name);
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&path, expected).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == expected,
        "docs/reference/{name} is out of date: `UPDATE=1 cargo test -p weir` writes it"
    );
}

fn settings_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n## Most used\n\n| to | setting | default |\n|---|---|---|\n");
    for (purpose, name) in MOST_USED {
        let setting = find(name);
        let default = match setting.default {
            "" => "none".to_owned(),
            default if default.len() > LONGEST_DEFAULT => "a text".to_owned(),
            default => format!("`{default}`"),
        };
        let anchor = setting.shown_name();
        let shown = if setting.is_secret() { setting.variable() } else { anchor.to_owned() };
        let _ = writeln!(page, "| {purpose} | [`{shown}`](#{anchor}) | {default} |");
    }
    let mut section = "";
    for setting in SETTINGS {
        if setting.section != section {
            section = setting.section;
            let _ = write!(page, "\n## {section}\n");
        }
        write_setting(&mut page, setting);
    }
    page
}

fn write_setting(page: &mut String, setting: &Setting) {
    let default = setting.default.replace(env!("CARGO_PKG_VERSION"), "<version>");
    let default = if default.is_empty() { "none".to_owned() } else { format!("`{default}`") };
    let variable = setting.variable();
    let written = if setting.is_secret() {
        format!("environment only: `{variable}`")
    } else {
        format!("`{}` · `--{}` · `{variable}`", setting.shown_name(), setting.flag())
    };
    let also = match setting.short_name {
        Some(_) => format!(" (`{}` is accepted too)", setting.name),
        None => String::new(),
    };
    let _ = write!(
        page,
        "\n### {}\n\n{written}{also}\n\n{}\n\nValue: `{}`. Default: {default}.\n",
        setting.shown_name(),
        one_paragraph(setting.documentation),
        setting.value_name,
    );
}

fn find(name: &str) -> &'static Setting {
    SETTINGS.iter().find(|setting| setting.is_called(name)).unwrap_or_else(|| panic!("no setting {name}"))
}

/// Longer defaults are shown only in the description of their setting, in characters.
const LONGEST_DEFAULT: usize = 40;

/// The settings that a new installation needs first, each with its purpose. `examples/weir.yaml` shows all of
/// them.
const MOST_USED: [(&str, &str); 20] = [
    ("listen for clients", "proxy"),
    ("move the Admin API, or turn it off", "admin"),
    ("let other machines use the Admin API", "admin_allow"),
    ("give the Admin key instead of having one made", "admin_key"),
    ("scrape metrics from another machine", "metrics"),
    ("probe health from another machine", "status"),
    ("keep configuration and keys in another folder", "data"),
    ("take the configuration from a file", "resources"),
    ("take the configuration from etcd", "source"),
    ("name the members of etcd", "etcd_endpoints"),
    ("refuse a configuration with any fault", "strict"),
    ("write an access log", "access_log"),
    ("choose its format, or `json`", "access_log_format"),
    ("write the error log to a file", "error_log"),
    ("say more or less in it", "log_level"),
    ("believe a load balancer in front about the client", "real_ip_from"),
    ("limit the size of request bodies", "max_body_bytes"),
    ("change the number of workers", "workers"),
    ("give requests longer to finish at a stop", "grace"),
    ("shed load before latency grows", "overload"),
];

#[test]
fn sample_file_shows_the_most_used_settings() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/weir.yaml");
    let sample = std::fs::read_to_string(path).unwrap();
    for setting in MOST_USED.iter().map(|(_, name)| find(name)) {
        let name = setting.shown_name();
        let written = |line: &str| line.trim_start_matches('#').starts_with(&format!("{name}:"));
        let shown = if setting.is_secret() {
            sample.contains(&setting.variable())
        } else {
            sample.lines().any(written)
        };
        assert!(shown, "examples/weir.yaml lacks {name}");
    }
}

const INTRODUCTION: &str = "\
# Settings

<!-- Made from crates/weir/src/settings.rs by `UPDATE=1 cargo test -p weir`; edit it there. -->

Weir starts without any setting. Each one may be given, in rising precedence, in the settings file (YAML; `--config
FILE` or `WEIR_CONFIG`), as an environment variable `WEIR_<NAME>`, or as a flag. A list is a YAML list, a repeated flag,
or one text with commas; a list replaces that of the source before it. An empty environment variable counts as not set.
Relative paths in the settings file are relative to that file.

[examples/weir.yaml](../../examples/weir.yaml) is a settings file with explanations to start from.
`weir check FILE` prints every fault as `file:line: name: reason`.
";
