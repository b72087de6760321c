//! `weir/plugins`: the catalogue of the plugins, and one of them with its page and the objects that have it.
//! It names no plugin.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use model::catalog::{CatalogPlugin, Subsystem};
use model::{ObjectKind, apisix_plugins};
use serde_json::{Value, json};

use crate::admin::call::AdminParts;
use crate::plugin_pages;
use crate::serve::respond;

/// Answers `weir/plugins` and `weir/plugins/NAME`.
pub(super) async fn answer_plugin_catalog(parts: &Arc<AdminParts>, name: Option<String>) -> Response<Bytes> {
    let parts = Arc::clone(parts);
    let answered = respond::blocking(move || match name {
        None => list(&parts),
        Some(name) => match parts.catalog().get(&name) {
            Some(plugin) => one(&parts, plugin),
            None => respond::error_response(
                StatusCode::NOT_FOUND,
                format!("there is no plugin {name} in this instance"),
            ),
        },
    });
    answered.await.unwrap_or_else(|refusal| *refusal)
}

fn list(parts: &AdminParts) -> Response<Bytes> {
    let view = parts.view.load();
    let mut uses: HashMap<Box<str>, usize> = HashMap::new();
    for kind in KINDS {
        for summary in parts.summaries.of_view(&view, kind).iter() {
            for name in &summary.facts.plugins {
                match uses.get_mut(name) {
                    Some(count) => *count += 1,
                    None => drop(uses.insert(name.clone(), 1)),
                }
            }
        }
    }
    let describe = |plugin| {
        let mut described = describe(plugin);
        described["used_by"] = json!(uses.get(&*plugin.info().name).copied().unwrap_or_default());
        described
    };
    let list: Vec<Value> = parts.catalog().iter().map(describe).collect();
    respond::json(StatusCode::OK, &json!({ "list": list }))
}

fn one(parts: &AdminParts, plugin: &CatalogPlugin) -> Response<Bytes> {
    let view = parts.view.load();
    let name = &*plugin.info().name;
    let mut used = Vec::new();
    let mut used_by = 0;
    for kind in KINDS {
        for summary in parts.summaries.of_view(&view, kind).iter() {
            if !summary.facts.plugins.iter().any(|plugin| &**plugin == name) {
                continue;
            }
            used_by += 1;
            if used.len() < USED_MAX {
                // Credentials are below their consumer, so that kind and id make the key of each object.
                let kind = if kind == ObjectKind::Credential { ObjectKind::Consumer } else { kind };
                used.push(json!({ "kind": kind.collection(), "id": &*summary.key.id }));
            }
        }
    }
    let mut described = describe(plugin);
    described["used_by"] = json!(used_by);
    described["used"] = used.into();
    described["docs"] = json!(plugin_pages::find_plugin_page(name).map_or("", |page| page.text));
    respond::json(StatusCode::OK, &described)
}

fn describe(plugin: &CatalogPlugin) -> Value {
    let info = plugin.info();
    let group =
        apisix_plugins::find_apisix_plugin(&info.name).map_or(EXTENSION, |plugin| plugin.family.title());
    let summary = plugin_pages::find_plugin_page(&info.name).map(|page| page.summary.replace('\n', " "));
    json!({
        "name": info.name,
        "summary": summary.unwrap_or_default(),
        "group": group,
        "phases": info.phases,
        "priority": info.priority,
        "scopes": scopes(plugin),
        "cost_ns": plugin_pages::cost_ns(&info.name),
        // Calls are timed by the gateway while a reader asks for it; it does not offer that yet.
        "live": null,
    })
}

/// The kinds of objects that it may be written in.
fn scopes(plugin: &CatalogPlugin) -> Vec<&'static str> {
    let info = plugin.info();
    let mut scopes = Vec::new();
    if info.serves(Subsystem::Http) {
        scopes.extend(["route", "service", "plugin_config", "global_rule", "consumer_group", "consumer"]);
        if info.is_auth && !info.consumer_key.is_empty() {
            scopes.push("credential");
        }
    }
    if info.serves(Subsystem::Stream) {
        scopes.push("stream_route");
    }
    scopes
}

/// The kinds of objects that have plugins.
const KINDS: [ObjectKind; 8] = [
    ObjectKind::Route,
    ObjectKind::Service,
    ObjectKind::PluginConfig,
    ObjectKind::GlobalRule,
    ObjectKind::ConsumerGroup,
    ObjectKind::Consumer,
    ObjectKind::Credential,
    ObjectKind::StreamRoute,
];
/// The group of plugins that APISIX does not have.
const EXTENSION: &str = "extension";
/// Objects in the answer about one plugin.
const USED_MAX: usize = 500;
