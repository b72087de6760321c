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

pub(super) const INTRODUCTION: &str = "\
# Settings

<!-- Made from crates/weir/src/settings.rs by `UPDATE=1 cargo test -p weir`; edit it there. -->

Weir starts without any setting. Each one may be given, in rising precedence, in the settings file (YAML; `--config
FILE` or `WEIR_CONFIG`), as an environment variable `WEIR_<NAME>`, or as a flag. A list is a YAML list, a repeated flag,
or one text with commas; a list replaces that of the source before it. An empty environment variable counts as not set.
Relative paths in the settings file are relative to that file.

A working settings file:

```yaml
proxy: 0.0.0.0:9080
admin: 127.0.0.1:9180
data: /var/lib/weir
access_log: stdout
log_level: warn
```

`weir check FILE` prints every fault as `file:line: name: reason`.
";
