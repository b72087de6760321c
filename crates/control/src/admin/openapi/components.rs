//! The schemas that operations refer to and that check what is written: those of objects and plugins. It
//! knows no operation.

use model::catalog::{CatalogPlugin, SchemaType, Subsystem};
use model::{ObjectKind, PluginCatalog, schema as schemas};
use serde_json::{Map, Value, json};

use super::convert::to_2020_12;

/// The name of the schema of a kind: `ConsumerGroup`.
pub(super) fn title(kind: ObjectKind) -> String {
    camel(kind.singular())
}

/// `consumer_group` as `ConsumerGroup`.
pub(super) fn camel(name: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    name.split('_').map(capital).collect()
}

/// Adds the schemas of objects and plugins to those of the templates.
pub(super) fn add_component_schemas(catalog: &PluginCatalog, components: &mut Value) {
    let Some(all) = components.as_object_mut() else { return };
    for kind in ObjectKind::ALL {
        add_kind(kind, to_2020_12(schemas::find_object_schema(kind)), all);
    }
    for manager in schemas::secret_managers() {
        let (written, _) = schemas::secret_manager(manager).expect("it is in the list of managers");
        all.insert(format!("Secret{}", camel(manager)), as_body(ObjectKind::Secret, to_2020_12(written)));
    }
    add_plugins(catalog, all);
}

fn schema(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// A kind as it is written (`Route`), as it is shown (`RouteShown`).
fn add_kind(kind: ObjectKind, written: Value, all: &mut Map<String, Value>) {
    let name = title(kind);
    let properties = written.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let body = as_body(kind, written);
    let own = body.get("properties").and_then(Value::as_object);
    let shown: Map<String, Value> = properties
        .into_iter()
        .filter(|(field, _)| !(kind == ObjectKind::Ssl && matches!(field.as_str(), "key" | "keys")))
        .map(|(field, property)| {
            let is_own = own.is_some_and(|own| own.contains_key(&field));
            let at = format!("#/components/schemas/{name}/properties/{field}");
            (field, if is_own { json!({ "$ref": at }) } else { property })
        })
        .collect();
    let description = match kind {
        ObjectKind::Ssl => "The stored object, without private keys.",
        _ => "The stored object.",
    };
    all.insert(name.clone(), body);
    all.insert(
        format!("{name}Shown"),
        json!({ "type": "object", "description": description, "properties": shown }),
    );
}

/// The schema of a body: without the times, which the gateway sets; with an optional id, which the path may
/// have instead; with the schemas of the gateway's plugins.
fn as_body(kind: ObjectKind, mut schema_of_kind: Value) -> Value {
    if let Some(properties) = schema_of_kind.get_mut("properties").and_then(Value::as_object_mut) {
        properties.shift_remove("create_time");
        properties.shift_remove("update_time");
        if kind != ObjectKind::Upstream && properties.contains_key("upstream") {
            properties.insert("upstream".to_owned(), schema("Upstream"));
        }
        if let Some(plugins) = properties.get_mut("plugins").and_then(Value::as_object_mut) {
            plugins.insert("allOf".to_owned(), json!([schema(plugins_of(kind))]));
        }
    }
    if let Some(required) = schema_of_kind.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != "id");
    }
    schema_of_kind
}

fn plugins_of(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Consumer => "ConsumerPlugins",
        ObjectKind::Credential => "CredentialPlugins",
        ObjectKind::StreamRoute => "StreamPlugins",
        _ => "Plugins",
    }
}

/// Adds the schemas of each plugin, and for each kind of `plugins` field the plugins that it may have.
fn add_plugins(catalog: &PluginCatalog, all: &mut Map<String, Value>) {
    let mut sets: [(&str, Map<String, Value>); 4] =
        ["Plugins", "ConsumerPlugins", "CredentialPlugins", "StreamPlugins"].map(|name| (name, Map::new()));
    for plugin in catalog.iter() {
        let info = plugin.info();
        for schema_type in [SchemaType::Plugin, SchemaType::Consumer, SchemaType::Metadata] {
            if let Some(written) = plugin.schema_for(schema_type) {
                all.insert(component(plugin, schema_type), to_2020_12(written));
            }
        }
        let use_as = |schema_type| (info.name.to_string(), schema(&component(plugin, schema_type)));
        let on_consumers = match plugin.schema_for(SchemaType::Consumer) {
            Some(_) => SchemaType::Consumer,
            None => SchemaType::Plugin,
        };
        if info.serves(Subsystem::Http) {
            sets[0].1.extend([use_as(SchemaType::Plugin)]);
            sets[1].1.extend([use_as(on_consumers)]);
            if info.is_auth && !info.consumer_key.is_empty() {
                sets[2].1.extend([use_as(on_consumers)]);
            }
        }
        if info.serves(Subsystem::Stream) {
            sets[3].1.extend([use_as(SchemaType::Plugin)]);
        }
    }
    for (name, plugins) in sets {
        let set = json!({ "type": "object", "properties": plugins, "additionalProperties": false });
        all.insert(name.to_owned(), set);
    }
}

fn component(plugin: &CatalogPlugin, schema_type: SchemaType) -> String {
    let suffix = match schema_type {
        SchemaType::Plugin => "",
        SchemaType::Consumer => ".consumer",
        SchemaType::Metadata => ".metadata",
    };
    format!("plugin.{}{suffix}", plugin.info().name)
}
