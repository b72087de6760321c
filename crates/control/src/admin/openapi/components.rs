//! The parts that operations refer to: schemas of objects and plugins, headers, parameters, refusals, keys. It refuses
//! to know which operation uses which.

use model::catalog::{CatalogPlugin, SchemaType, Subsystem};
use model::{Catalog, Kind, schema as schemas};
use serde_json::{Map, Value, json};

use super::convert::to_2020_12;
use super::operation::{headers, reference, schema};

/// The id in all examples, so that they speak of the same objects.
pub(super) const EXAMPLE_ID: &str = "example";

/// Everything under `components`.
pub(super) fn all(catalog: &Catalog) -> Value {
    json!({
        "schemas": all_schemas(catalog),
        "headers": {
            "Server": {
                "description": "`APISIX/` and the version whose API this is, by which tools tell what they may ask.",
                "required": true,
                "schema": { "type": "string" },
            },
            "ApiVersion": {
                "description": "The version of the Admin API.",
                "required": true,
                "schema": { "type": "string", "const": "v3" },
            },
            "Revision": {
                "description": "The revision the answer is about: the one a write made, else the one in force. It only \
                                grows.",
                "required": true,
                "schema": { "type": "string", "pattern": "^[0-9]+$" },
            },
            "Warning": {
                "description": "On the answer to a write: something in the object that has no effect, such as an unknown \
                                field of a plugin. One field for each warning.",
                "required": false,
                "schema": { "type": "string" },
            },
        },
        "parameters": parameters(catalog),
        "responses": responses(),
        "securitySchemes": {
            "KeyInHeader": { "type": "apiKey", "in": "header", "name": "X-API-KEY" },
            "KeyInQuery": { "type": "apiKey", "in": "query", "name": "api_key" },
            "KeyInCookie": { "type": "apiKey", "in": "cookie", "name": "x_api_key" },
        },
    })
}

/// The name of a kind's schemas: `ConsumerGroup`.
pub(super) fn title(kind: Kind) -> String {
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

fn all_schemas(catalog: &Catalog) -> Map<String, Value> {
    let mut all = Map::new();
    for kind in Kind::ALL {
        let written = to_2020_12(schemas::of(kind));
        add_kind(kind, &title(kind), written, &mut all);
    }
    for manager in schemas::secret_managers() {
        let (written, _) = schemas::secret_manager(manager).expect("it is in the list of managers");
        let name = format!("Secret{}", camel(manager));
        all.insert(name, as_body(Kind::Secret, to_2020_12(written)));
    }
    add_plugins(catalog, &mut all);
    all.insert("Error".to_owned(), error());
    all.insert("KeyNotFound".to_owned(), key_not_found());
    all.insert("Fault".to_owned(), fault());
    all.insert("Verdict".to_owned(), verdict());
    all
}

/// A kind as it is written (`Route`), as it is shown (`RouteShown`), and its entry in answers (`RouteEntry`).
fn add_kind(kind: Kind, name: &str, written: Value, all: &mut Map<String, Value>) {
    let properties = written.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let body = as_body(kind, written);
    let own = body.get("properties").and_then(Value::as_object);
    let shown: Map<String, Value> = properties
        .into_iter()
        .filter(|(field, _)| !(kind == Kind::Ssl && matches!(field.as_str(), "key" | "keys")))
        .map(|(field, property)| {
            let is_own = own.is_some_and(|own| own.contains_key(&field));
            let at = format!("#/components/schemas/{name}/properties/{field}");
            (field, if is_own { json!({ "$ref": at }) } else { property })
        })
        .collect();
    let description = match kind {
        Kind::Ssl => "As it is stored, without private keys.",
        _ => "As it is stored.",
    };
    all.insert(name.to_owned(), body);
    all.insert(
        format!("{name}Shown"),
        json!({ "type": "object", "description": description, "properties": shown }),
    );
    let entry = json!({
        "type": "object",
        "properties": {
            "key": { "type": "string", "description": "Its key below the prefix, `/apisix/routes/1`." },
            "value": schema(&format!("{name}Shown")),
            "createdIndex": { "type": "integer", "minimum": 0, "description": "The revision that made it." },
            "modifiedIndex": { "type": "integer", "minimum": 0, "description": "The revision that wrote it last." },
        },
        "required": ["key", "value", "createdIndex", "modifiedIndex"],
        "additionalProperties": false,
    });
    all.insert(format!("{name}Entry"), entry);
}

/// The schema of what may be sent: the times are the gateway's own, the id may stand in the path alone, plugins have
/// the schemas of those there are.
fn as_body(kind: Kind, mut schema_of_kind: Value) -> Value {
    if let Some(properties) = schema_of_kind.get_mut("properties").and_then(Value::as_object_mut) {
        properties.shift_remove("create_time");
        properties.shift_remove("update_time");
        if kind != Kind::Upstream && properties.contains_key("upstream") {
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

fn plugins_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Consumer => "ConsumerPlugins",
        Kind::Credential => "CredentialPlugins",
        Kind::StreamRoute => "StreamPlugins",
        _ => "Plugins",
    }
}

/// The schema of each plugin in each of its uses, and the sets of them that objects may have.
fn add_plugins(catalog: &Catalog, all: &mut Map<String, Value>) {
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
            if info.is_auth {
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

fn error() -> Value {
    json!({
        "type": "object",
        "properties": {
            "error_msg": { "type": "string", "description": "What is wrong and where." },
            "description": { "type": "string", "description": "Why a key was refused." },
            "req_body": { "type": "string", "description": "The body, where it is no JSON." },
            "errors": { "type": "array", "description": "Every fault of a set.", "items": { "type": "object" } },
        },
        "required": ["error_msg"],
        "additionalProperties": false,
    })
}

fn key_not_found() -> Value {
    json!({
        "type": "object",
        "properties": { "message": { "type": "string", "const": "Key not found" } },
        "required": ["message"],
        "additionalProperties": false,
    })
}

fn fault() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pointer": { "type": "string", "description": "The place in the object, a JSON pointer." },
            "reason": { "type": "string", "description": "What is wrong there." },
        },
        "required": ["pointer", "reason"],
        "additionalProperties": false,
    })
}

fn verdict() -> Value {
    let kinds: Vec<&str> = Kind::ALL.into_iter().map(Kind::collection).collect();
    json!({
        "type": "object",
        "properties": {
            "kind": { "type": "string", "enum": kinds },
            "id": { "type": "string" },
            "state": {
                "type": "string",
                "enum": ["in_force", "last_good", "out", "unplaced"],
                "description": "in_force: as it was written last. last_good: an earlier form, for what was written last \
                                is faulty. out: no form of it; its requests are answered 503. unplaced: none, of a \
                                route whose match cannot be read.",
            },
            "revision_in_force": {
                "type": ["integer", "null"],
                "description": "The revision that wrote the form in force; null when that cannot be said.",
            },
            "revision_written": { "type": "integer", "description": "The revision that wrote it last." },
            "faults": { "type": "array", "items": schema("Fault") },
            "skipped_plugins": {
                "type": "array",
                "items": schema("Fault"),
                "description": "Faulty plugins that `ignore_faulty_plugins` names; the object runs without them.",
            },
            "warnings": {
                "type": "array",
                "items": schema("Fault"),
                "description": "What has no effect in it, such as unknown fields of plugins; at most 21.",
            },
        },
        "required": [
            "kind", "id", "state", "revision_in_force", "revision_written", "faults", "skipped_plugins", "warnings",
        ],
        "additionalProperties": false,
    })
}

fn parameters(catalog: &Catalog) -> Value {
    let plugins: Vec<String> = catalog.iter().map(|plugin| plugin.info().name.to_string()).collect();
    let identifier =
        json!({ "type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[a-zA-Z0-9-_.]+$" });
    let username =
        json!({ "type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[a-zA-Z0-9_-]+$" });
    let path = |name: &str, description: &str, schema: &Value| json!({ "name": name, "in": "path", "required": true, "description": description, "schema": schema });
    let with_example = |mut parameter: Value, example: Value| {
        parameter["example"] = example;
        parameter
    };
    let query = |name: &str, description: &str, schema: Value| json!({ "name": name, "in": "query", "description": description, "schema": schema });
    json!({
        "Id": with_example(path("id", "The object's id.", &identifier), json!(EXAMPLE_ID)),
        "Username": with_example(path("username", "The consumer's name.", &username), json!(EXAMPLE_ID)),
        "PluginName": with_example(
            path("name", "The plugin.", &json!({ "type": "string", "enum": plugins })),
            json!(plugins.first()),
        ),
        "SubPath": with_example(path(
            "path",
            "The place in the object, `methods`; deeper places have slashes (`upstream/nodes`), which this template \
             cannot say.",
            &json!({ "type": "string", "minLength": 1 }),
        ), json!("labels")),
        "Page": query("page", "Which page, from 1; together with page_size.", json!({ "type": "integer", "minimum": 1 })),
        "PageSize": query(
            "page_size",
            "Objects on a page; together with page. A page is ordered by the revision that made its objects.",
            json!({ "type": "integer", "minimum": 10, "maximum": 500 }),
        ),
        "Name": query("name", "A regular expression that the name has.", json!({ "type": "string" })),
        "Uri": query("uri", "A regular expression that a path has.", json!({ "type": "string" })),
        "Label": query("label", "A label that is there.", json!({ "type": "string" })),
        "Filter": query(
            "filter",
            "What it refers to, a query within the query: `service_id=1` or `upstream_id=1`.",
            json!({ "type": "string" }),
        ),
        "Ttl": query(
            "ttl",
            "Seconds until the object ends by itself.",
            json!({ "type": "number", "exclusiveMinimum": 0 }),
        ),
        "Force": query(
            "force",
            "Exactly `true`: even if others refer to it.",
            json!({ "type": "string" }),
        ),
        "KindFilter": query(
            "kind",
            "The collection's name: only the objects of this kind.",
            json!({ "type": "string", "enum": Kind::ALL.map(Kind::collection) }),
        ),
        "Subsystem": query(
            "subsystem",
            "Whose plugins.",
            json!({ "type": "string", "enum": ["http", "stream"], "default": "http" }),
        ),
        "SchemaType": query(
            "schema_type",
            "Which of the plugin's schemas: `consumer`, `metadata`, or with any other word the common one.",
            json!({ "type": "string", "default": "plugin" }),
        ),
    })
}

fn responses() -> Value {
    let refused = |description: &str, schema_name: &str| {
        json!({
            "description": description,
            "headers": headers(),
            "content": { "application/json": { "schema": schema(schema_name) } },
        })
    };
    let not_admitted = |description: &str| {
        json!({
            "description": description,
            "headers": { "Server": reference("headers", "Server") },
            "content": { "application/json": { "schema": schema("Error") } },
        })
    };
    json!({
        "Refused": refused("What was sent is not right; nothing has changed.", "Error"),
        "PageRefused": {
            "description": "The page or its size is out of bounds or no whole number (a bare text, as APISIX answers it, \
                            whatever its content type says), or another argument is not right (the envelope of errors).",
            "headers": headers(),
            "content": { "application/json": {} },
        },
        "Unauthorized": not_admitted("No key, a wrong one, or one whose role may not do this."),
        "CrossSite": not_admitted(
            "The key came in the cookie, and neither `Sec-Fetch-Site` nor `Origin` says that the request comes from a page \
             of this origin.",
        ),
        "NotFound": refused("There is no such object.", "KeyNotFound"),
        "Unknown": refused("There is no such thing.", "Error"),
        "ReadOnly": refused("The configuration comes from a file, or the verb is switched off for the kind.", "Error"),
        "TooSlow": { "description": "The body did not come in time." },
        "Unavailable": refused("It cannot be stored now, was changed by another meanwhile, or another whole set is being worked on. Nothing has changed, unless the reason says that this is not known.", "Error"),
    })
}
