//! The words for a plugin that cannot be used: misspelt, switched off, of another subsystem, or one that
//! APISIX has and this gateway has not. Knows names only.

use stdx::nearest::misspelt;

use crate::apisix_plugins;
use crate::catalog::{PluginCatalog, Subsystem};

/// Why there is no plugin of that name for `subsystem`, with what to do. It begins with the contract's line.
pub(super) fn unknown(catalog: &PluginCatalog, subsystem: Subsystem, name: &str) -> String {
    let line = format!("unknown plugin [{name}]");
    if catalog.get(name).is_some() {
        let served = if subsystem == Subsystem::Stream { "HTTP only, not layer 4" } else { "layer 4 only" };
        return format!("{line}: it serves {served}");
    }
    if catalog.options().switched_off.contains(name) {
        return format!("{line}: it is built in and switched off; add it to the setting `plugins`");
    }
    match apisix_plugins::find_apisix_plugin(name) {
        Some(known) if known.is_refused => return format!("{line}: {}", known.instead),
        Some(_) => return format!("{line}: APISIX has it, this version of Weir has not"),
        None => {}
    }
    let usable = || catalog.iter().filter(|plugin| plugin.info().serves(subsystem));
    if let Some(near) = misspelt(name, usable().map(|plugin| &*plugin.info().name)) {
        return format!("{line}; did you mean `{near}`?");
    }
    if let Some(near) = misspelt(name, apisix_plugins::ALL.iter().map(|plugin| plugin.name)) {
        return format!(
            "{line}; did you mean `{near}`? APISIX has that plugin, this version of Weir has not"
        );
    }
    let names: Vec<&str> = usable().map(|plugin| &*plugin.info().name).collect();
    format!(
        "{line}: neither Weir nor APISIX has a plugin of this name; this gateway has {}",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PluginInfo;
    use crate::check::CheckOptions;
    use serde_json::json;

    #[test]
    fn unknown_plugins_are_told_apart() {
        let plugin = |name: &'static str| PluginInfo::new(name, 0, json!({"type": "object"}));
        let options =
            CheckOptions { switched_off: ["cors".into()].into_iter().collect(), ..CheckOptions::default() };
        let catalog = PluginCatalog::new(vec![plugin("limit-count"), plugin("key-auth")])
            .unwrap()
            .with_options(options);
        let check = |subsystem, name: &str, expected: &str| {
            let found = unknown(&catalog, subsystem, name);
            assert_eq!(found, format!("unknown plugin [{name}]{expected}"));
        };
        let http = Subsystem::Http;
        check(http, "limit-cont", "; did you mean `limit-count`?");
        check(http, "limit_count", "; did you mean `limit-count`?");
        check(http, "jwt-auth", ": APISIX has it, this version of Weir has not");
        check(
            http,
            "inspect",
            ": its breakpoints are debugging hooks in the Lua code of APISIX, and there is no such code here; set the log \
             level while the instance runs, or ask `weir explain`",
        );
        check(
            http,
            "jwt-auht",
            "; did you mean `jwt-auth`? APISIX has that plugin, this version of Weir has not",
        );
        check(http, "cors", ": it is built in and switched off; add it to the setting `plugins`");
        check(
            http,
            "my-own",
            ": neither Weir nor APISIX has a plugin of this name; this gateway has key-auth, limit-count",
        );
        check(Subsystem::Stream, "key-auth", ": it serves HTTP only, not layer 4");
    }
}
