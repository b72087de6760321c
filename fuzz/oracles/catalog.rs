//! The plugins of the oracles of objects: one of each shape, so that no real plugin is needed.

use std::sync::LazyLock;

use model::catalog::{PluginCatalog, PluginInfo, Subsystem};
use serde_json::json;

/// `auth` authenticates consumers, `count` has metadata and also serves layer 4, and `picky` refuses
/// configurations that its schema accepts.
pub static CATALOG: LazyLock<PluginCatalog> = LazyLock::new(|| {
    let mut auth = PluginInfo::new("auth", 2500, json!({"type": "object"}));
    auth.is_auth = true;
    auth.consumer_key = &["key"];
    auth.consumer_schema = Some(
        json!({"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}).into(),
    );
    let count = json!({
        "type": "object",
        "properties": {"count": {"type": "integer", "minimum": 1}},
        "required": ["count"],
    });
    let mut count = PluginInfo::new("count", 1002, count);
    count.metadata_schema = Some(
        json!({
            "type": "object",
            "properties": {"log_format": {"type": "object"}},
            "additionalProperties": false,
        })
        .into(),
    );
    count.subsystems = &[Subsystem::Http, Subsystem::Stream];
    let mut picky = PluginInfo::new("picky", 1, json!({"type": "object"}));
    picky.check = |config| match config.get("bad") {
        Some(bad) => Err(format!("{bad} is bad")),
        None => Ok(()),
    };
    let catalog = PluginCatalog::new(vec![auth, count, picky]).expect("three names");
    catalog.with_registries(["dns".into()])
});
