//! `/apisix/admin/plugins`: names, properties and schemas of the plugins in the catalog. It names no plugin.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use model::PluginCatalog;
use model::catalog::{CatalogPlugin, SchemaType, Subsystem};
use serde_json::{Map, Value, json};

use super::call::{AdminParts, Call};
use crate::serve::query::Query;
use crate::serve::{RefusalResponse, respond};

/// Answers one request for `plugins` or `plugins/NAME`.
pub(super) async fn answer_plugins(
    parts: &Arc<AdminParts>,
    name: Option<&str>,
    call: &Call,
) -> Response<Bytes> {
    match (&call.method, name) {
        (&Method::PUT, Some("reload")) => {
            // Plugins are compiled in, so only the resource file can have changed.
            parts.reconcile.reload().await;
            respond::text_response(StatusCode::OK, "done")
        }
        (method, Some("reload")) => {
            let message =
                format!("please use PUT method to reload the plugins, {method} method is not allowed.");
            respond::error_response(StatusCode::METHOD_NOT_ALLOWED, message)
        }
        (&Method::GET, Some("list")) => list(&parts.catalog(), &call.query),
        (&Method::GET, name) => answer_plugin_schema(&parts.catalog(), name, &call.query),
        _ => respond::not_found(),
    }
}

/// The schema of one plugin, or with `all=true` the descriptions of all plugins.
pub(super) fn answer_plugin_schema(
    catalog: &PluginCatalog,
    name: Option<&str>,
    query: &Query,
) -> Response<Bytes> {
    let subsystem = match subsystem(query) {
        Ok(subsystem) => subsystem,
        Err(refusal) => return *refusal,
    };
    if query.get("all") == Some("true") {
        return respond::json(StatusCode::OK, &plugin_descriptions(catalog, subsystem));
    }
    let Some(name) = name else { return respond::bad("not found plugin name") };
    let Some(plugin) = catalog.get(name).filter(|plugin| plugin.info().serves(subsystem)) else {
        let message = format!("plugin not found in subsystem {}", subsystem_name(subsystem));
        return respond::error_response(StatusCode::NOT_FOUND, message);
    };
    let schema_type = SchemaType::from_name(query.get("schema_type").unwrap_or_default()).unwrap_or_default();
    match plugin.schema_for(schema_type) {
        Some(schema) => respond::json(StatusCode::OK, schema),
        None => respond::bad("not found schema"),
    }
}

/// The descriptions of the plugins of a subsystem, by name.
pub(crate) fn plugin_descriptions(catalog: &PluginCatalog, subsystem: Subsystem) -> Map<String, Value> {
    let plugins = catalog.iter().filter(|plugin| plugin.info().serves(subsystem));
    plugins.map(|plugin| (plugin.info().name.to_string(), describe(plugin))).collect()
}

fn describe(plugin: &CatalogPlugin) -> Value {
    let info = plugin.info();
    let mut described = Map::new();
    described.insert("version".to_owned(), version(&info.version));
    described.insert("priority".to_owned(), info.priority.into());
    described.insert("schema".to_owned(), Value::clone(&info.schema));
    for (name, schema) in
        [("consumer_schema", &info.consumer_schema), ("metadata_schema", &info.metadata_schema)]
    {
        if let Some(schema) = schema {
            described.insert(name.to_owned(), Value::clone(schema));
        }
    }
    if info.is_global {
        described.insert("scope".to_owned(), "global".into());
    }
    if info.is_auth {
        described.insert("type".to_owned(), "auth".into());
    }
    Value::Object(described)
}

/// A version as a number if it is one, because APISIX writes `0.1`. The digest of an extension is none.
fn version(text: &str) -> Value {
    let number = text.parse::<f64>().ok().filter(|_| text.len() <= VERSION_CHARS_MAX);
    number.map_or_else(|| Value::from(text), Value::from)
}

/// The longest version that is a number.
const VERSION_CHARS_MAX: usize = 8;

fn list(catalog: &PluginCatalog, query: &Query) -> Response<Bytes> {
    match subsystem(query) {
        Ok(subsystem) => {
            let plugins = catalog.iter().filter(|plugin| plugin.info().serves(subsystem));
            let names: Vec<&str> = plugins.map(|plugin| &*plugin.info().name).collect();
            respond::json(StatusCode::OK, &json!(names))
        }
        Err(refusal) => *refusal,
    }
}

fn subsystem(query: &Query) -> Result<Subsystem, RefusalResponse> {
    match query.get("subsystem") {
        None | Some("http") => Ok(Subsystem::Http),
        Some("stream") => Ok(Subsystem::Stream),
        Some(other) => Err(respond::refuse_request(format!("unsupported subsystem: {other}"))),
    }
}

fn subsystem_name(subsystem: Subsystem) -> &'static str {
    match subsystem {
        Subsystem::Http => "http",
        Subsystem::Stream => "stream",
    }
}
