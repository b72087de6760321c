//! `apisix.proxy_cache` of a `config.yaml`: the zones have APISIX's form here. Makes no zone.

use serde_json::Value;

use super::discovery::tree_to_json;
use super::draft::{Draft, Spot};

/// `apisix.proxy_cache`; relative folders lie where APISIX has them.
pub(super) fn zones(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let mut written = tree_to_json(spot.node);
    let zones = written.get_mut("zones").and_then(Value::as_array_mut);
    for zone in zones.into_iter().flatten() {
        if let Some(path) = zone.get("disk_path").and_then(Value::as_str) {
            zone["disk_path"] = draft.beneath_home(path).into();
        }
    }
    draft.set_one(&spot.at(), "proxy_cache", written.to_string());
}
