//! The operations that are no objects': the probe, plugins, schemas, checks, and what Weir adds. It refuses to know how
//! they are answered.

use model::Kind;
use serde_json::{Map, Value, json};

use super::operation::{Operation, headers, schema};

/// Adds their paths.
pub(super) fn add(paths: &mut Map<String, Value>) {
    let mut insert = |path: &str, item: Value| paths.insert(path.to_owned(), item);
    insert("/", json!({ "head": probe(), "options": preflight() }));
    insert("/openapi.json", json!({ "get": this_document() }));
    insert("/plugins", json!({ "get": all_plugins() }));
    insert("/plugins/list", json!({ "get": plugin_names() }));
    insert("/plugins/reload", json!({ "put": reload() }));
    insert("/plugins/{name}", json!({ "get": plugin_schema("getPlugin") }));
    insert("/schema/plugins/{name}", json!({ "get": plugin_schema("getPluginSchema") }));
    insert("/schema/{kind}", json!({ "get": kind_schema() }));
    for kind in Kind::ALL {
        insert(&format!("/schema/validate/{}", kind.collection()), json!({ "post": validate(kind) }));
    }
    insert("/configs/validate", json!({ "post": validate_set() }));
    insert("/weir/status", json!({ "get": status() }));
    insert("/weir/verdicts", json!({ "get": verdicts() }));
    insert("/weir/verdicts/{kind}/{id}", json!({ "get": verdict() }));
    insert("/weir/explain", json!({ "post": explain() }));
    insert("/weir/adopt", json!({ "post": adopt() }));
}

/// Without a key, so nothing can be refused.
fn probe() -> Value {
    json!({
        "tags": ["schemas"],
        "operationId": "probe",
        "summary": "Whether an Admin API is here; needs no key",
        "security": [],
        "responses": {
            "200": { "description": "It is.", "headers": headers() },
        },
    })
}

fn preflight() -> Value {
    json!({
        "tags": ["schemas"],
        "operationId": "preflight",
        "summary": "What a browser asks first, on this and every other path; needs no key",
        "security": [],
        "responses": {
            "200": { "description": "The headers of CORS, if they are switched on.", "headers": headers() },
        },
    })
}

fn schemas(id: &str, summary: &str) -> Operation {
    Operation::new("schemas", id, summary)
}

fn this_document() -> Value {
    let document = json!({ "type": "object", "required": ["openapi", "info", "paths"] });
    schemas("getOpenApi", "This document").answer("200", "The document.", document).done()
}

fn all_plugins() -> Value {
    let plugin = json!({
        "type": "object",
        "properties": {
            "version": { "type": ["number", "string"] },
            "priority": { "type": "integer" },
            "schema": { "type": "object" },
            "consumer_schema": { "type": "object" },
            "metadata_schema": { "type": "object" },
            "type": { "type": "string", "const": "auth" },
        },
        "required": ["version", "priority", "schema"],
        "additionalProperties": false,
    });
    let all = json!({
        "name": "all",
        "in": "query",
        "required": true,
        "description": "Exactly `true`.",
        "schema": { "type": "string", "const": "true" },
    });
    schemas("getPlugins", "Everything about all plugins")
        .parameter(all)
        .parameters(&["Subsystem"])
        .answer("200", "By name.", json!({ "type": "object", "additionalProperties": plugin }))
        .done()
}

fn plugin_names() -> Value {
    let names = json!({ "type": "array", "items": { "type": "string" } });
    schemas("listPlugins", "The names of all plugins, highest priority first")
        .parameters(&["Subsystem"])
        .answer("200", "The names.", names)
        .done()
}

fn reload() -> Value {
    let done = json!({
        "description": "The text `done`, as APISIX answers it, whatever its content type says.",
        "headers": headers(),
        "content": { "application/json": {} },
    });
    schemas("reloadPlugins", "Read the file of resources again, where that is the source")
        .response("200", done)
        .refusal("403", "CrossSite")
        .done()
}

fn plugin_schema(id: &str) -> Value {
    schemas(id, "One of a plugin's schemas, in JSON Schema draft 7")
        .parameters(&["PluginName", "Subsystem", "SchemaType"])
        .answer("200", "The schema.", json!({ "type": "object" }))
        .refusal("404", "Unknown")
        .done()
}

fn kind_schema() -> Value {
    let kinds: Vec<&str> = Kind::ALL.into_iter().map(Kind::singular).collect();
    let kind = json!({
        "name": "kind",
        "in": "path",
        "required": true,
        "description": "The kind, in the singular.",
        "schema": { "type": "string", "enum": kinds },
    });
    schemas("getSchema", "The schema of a kind of object, in JSON Schema draft 7")
        .parameter(kind)
        .answer("200", "The schema.", json!({ "type": "object" }))
        .done()
}

fn validate(kind: Kind) -> Value {
    let id = format!("validate{}", super::components::title(kind));
    schemas(&id, &format!("Check a {} as a write would, but against nothing that is stored", kind.in_words()))
        .body(&schema(&super::components::title(kind)))
        .response("200", nothing("It is right."))
        .done()
}

fn validate_set() -> Value {
    let lists: Map<String, Value> = Kind::ALL
        .into_iter()
        .filter(|kind| *kind != Kind::Credential)
        .map(|kind| (kind.collection().to_owned(), json!({ "type": "array", "items": { "type": "object" } })))
        .collect();
    schemas("validateConfigs", "Check a whole set of objects; all faults are told")
        .describe("References are not followed: a set may lean on objects that are not in it.")
        .body_as(&["application/json", "application/yaml"], &json!({ "type": "object", "properties": lists }))
        .response("200", nothing("It is right."))
        .refusal("503", "Unavailable")
        .done()
}

fn nothing(description: &str) -> Value {
    json!({ "description": description, "headers": headers() })
}

fn weir(id: &str, summary: &str) -> Operation {
    Operation::new("weir", id, summary)
}

fn status() -> Value {
    let worker = json!({
        "type": "object",
        "properties": { "worker": { "type": "integer" }, "revision": { "type": "integer" } },
        "required": ["worker", "revision"],
    });
    let fault = json!({
        "type": "object",
        "properties": {
            "key": { "type": ["string", "null"] },
            "pointer": { "type": "string" },
            "reason": { "type": "string" },
            "kept": { "type": "boolean", "description": "Whether a last good form stays in force." },
        },
        "required": ["reason"],
    });
    let body = json!({
        "type": "object",
        "properties": {
            "revision": { "type": "integer", "description": "The revision in force." },
            "workers": { "type": "array", "items": worker, "description": "Which one each worker runs." },
            "objects": {
                "type": "object",
                "additionalProperties": { "type": "integer" },
                "description": "How many of each kind are in force.",
            },
            "faults": { "type": "array", "items": fault },
            "etcd": { "type": "object", "description": "How it stands with etcd, where that is the source." },
        },
        "required": ["revision", "workers", "objects", "faults"],
    });
    weir("getStatus", "What runs: revisions, objects, faults").answer("200", "The status.", body).done()
}

fn verdicts() -> Value {
    let body = json!({
        "type": "object",
        "properties": {
            "revision": { "type": "integer", "description": "The revision in force." },
            "total": { "type": "integer", "description": "How many objects are not in force as written." },
            "list": {
                "type": "array",
                "items": schema("Verdict"),
                "maxItems": 1000,
                "description": "The first thousand of them, ordered by key.",
            },
            "source_faults": {
                "type": "array",
                "items": { "type": "string" },
                "description": "What the source tells: lines of a file, keys that are no objects.",
            },
        },
        "required": ["revision", "total", "list", "source_faults"],
        "additionalProperties": false,
    });
    weir("listVerdicts", "The objects that are not in force as they were written last, and why")
        .parameters(&["KindFilter"])
        .answer("200", "The verdicts.", body)
        .done()
}

fn verdict() -> Value {
    let kinds = Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Credential | Kind::Secret));
    let kind = json!({
        "name": "kind",
        "in": "path",
        "required": true,
        "description": "The collection's name. Of a credential the path is \
                        `consumers/USERNAME/credentials/ID`, of a secret `secrets/MANAGER/ID`.",
        "schema": { "type": "string", "enum": kinds.map(Kind::collection).collect::<Vec<_>>() },
    });
    weir("getVerdict", "What became of one object")
        .parameter(kind)
        .parameters(&["Id"])
        .answer("200", "The verdict.", schema("Verdict"))
        .answer(
            "404",
            "There is no such object, or no such kind.",
            json!({ "anyOf": [schema("KeyNotFound"), schema("Error")] }),
        )
        .done()
}

fn explain() -> Value {
    let question = json!({
        "type": "object",
        "properties": {
            "method": { "type": "string" },
            "url": { "type": "string", "description": "An absolute URL, or a path with its query." },
            "headers": {
                "type": "array",
                "items": { "type": "array", "prefixItems": [{ "type": "string" }, { "type": "string" }], "minItems": 2, "maxItems": 2 },
            },
            "remote_addr": { "type": "string", "description": "The client's address; loopback if it is missing." },
        },
        "required": ["method", "url"],
        "additionalProperties": false,
    });
    weir("explain", "Which route a request would take, and why the others lost")
        .body(&question)
        .answer("200", "The record of the decision.", json!({ "type": "object" }))
        .refusal("404", "Unknown")
        .done()
}

fn adopt() -> Value {
    let body = json!({
        "type": "object",
        "properties": { "adopting": { "type": "boolean", "const": true } },
        "required": ["adopting"],
        "additionalProperties": false,
    });
    weir("adopt", "Take over what etcd has, even if it is older than what is in force")
        .describe("400 where the configuration does not come from etcd.")
        .answer("202", "It is about to be done.", body)
        .refusal("503", "Unavailable")
        .done()
}
