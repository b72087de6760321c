//! The reference page of the keys, made from the table, and the invariants of the table.

use std::fmt::Write;

use super::super::reference::check_page;
use super::draft::setting_called;
use super::keys::{Act, ApisixKey, KEYS};

#[test]
fn the_page_of_the_keys_is_up_to_date() {
    let mut page = INTRODUCTION.to_owned();
    let mut section = "";
    for key in KEYS {
        let first = key.path.split(['.', '*']).next().unwrap();
        if ["apisix", "nginx_config", "deployment"].contains(&first) && first != section {
            section = first;
            let _ = write!(page, "\n## {section}\n\n{HEAD}");
        } else if !["apisix", "nginx_config", "deployment", ""].contains(&first) && section != "plugins" {
            section = "plugins";
            let _ = write!(page, "\n## Plugins and the rest\n\n{HEAD}");
        }
        let _ = writeln!(page, "| `{}` | {} |", key.path, happens(key));
    }
    check_page("apisix-config.md", &page);
}

fn happens(key: &ApisixKey) -> String {
    let says = key.says;
    match key.act {
        Act::Setting(setting) => format!("`{}`", setting_called(setting).unwrap().shown_name()),
        Act::Time(setting) => format!("`{}`, in milliseconds", setting_called(setting).unwrap().shown_name()),
        Act::Honour(_) => says.to_owned(),
        Act::Same("") => format!("no effect unless empty: {says}"),
        Act::Same(value) => format!("no effect; silent if `{value}`: {says}"),
        Act::Moot => format!("nothing to do: {says}"),
        Act::Ignore => format!("no effect: {says}"),
    }
}

#[test]
fn keys_are_unique_and_have_reasons() {
    let mut paths: Vec<&str> = KEYS.iter().map(|key| key.path).collect();
    paths.sort_unstable();
    let count = paths.len();
    paths.dedup();
    assert_eq!(paths.len(), count);
    for key in KEYS {
        let is_plain = matches!(key.act, Act::Setting(_) | Act::Time(_));
        assert_eq!(key.says.is_empty(), is_plain, "{}", key.path);
    }
}

const HEAD: &str = "| key | what happens |\n|---|---|\n";

const INTRODUCTION: &str = "\
# Keys of APISIX's `config.yaml`

<!-- Made from crates/weir/src/settings/apisix/keys.rs by `UPDATE=1 cargo test -p weir`; edit it there. -->

`weir run --config config.yaml` reads the `config.yaml` of APISIX 3, known by its `apisix:` or `deployment:` keys. A key
becomes the [setting](settings.md) that stands beside it; environment and flags override it. What is not written has
Weir's default, not APISIX's. What has no effect is told in one warning, with the line, and so is a key that does not
exist, with the one that was probably meant; `weir check config.yaml` prints a line for each. A value that is wrong keeps
the node from starting, as `file:line: key: reason`.
";
