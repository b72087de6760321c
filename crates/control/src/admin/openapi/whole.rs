//! The operations on whole sets: plans, applying, versions, going back, and `configs`. It refuses to know how they are
//! answered.

use model::Kind;
use serde_json::{Map, Value, json};

use super::operation::{Operation, headers, schema};

/// Adds their paths.
pub(super) fn add(paths: &mut Map<String, Value>) {
    let mut insert = |path: &str, item: Value| paths.insert(path.to_owned(), item);
    insert("/configs", json!({ "get": get_configs(), "head": head_configs(), "put": put_configs() }));
    insert("/weir/plan", json!({ "post": plan() }));
    insert("/weir/apply", json!({ "post": apply() }));
    insert("/weir/rollback", json!({ "post": rollback() }));
    insert("/weir/versions", json!({ "get": versions() }));
    insert("/weir/versions/{version}", json!({ "get": version() }));
}

/// A whole set; `more` is what else may stand in it.
fn set(more: Map<String, Value>) -> Value {
    let mut properties = more;
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Credential) {
        let list = json!({ "type": "array", "items": { "type": "object" } });
        properties.insert(kind.collection().to_owned(), list);
    }
    json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "description": "Collections by name. Credentials are among the consumers, with the id \
                        `USERNAME/credentials/ID`.",
    })
}

/// A whole set of `configs`, with what it says of itself.
fn configs() -> Value {
    let versions = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Credential).map(|kind| {
        let version = json!({ "type": "integer", "minimum": 0 });
        (format!("{}_conf_version", kind.collection()), version)
    });
    let mut more: Map<String, Value> = versions.collect();
    more.insert("X-Digest".to_owned(), json!({ "type": "string" }));
    more.insert("X-Last-Modified".to_owned(), json!({ "type": "integer" }));
    set(more)
}

fn own_headers() -> Value {
    let mut all = headers();
    all["X-Digest"] = json!({
        "description": "The name of the set in force, unless something else changed it since.",
        "schema": { "type": "string" },
    });
    all["X-Last-Modified"] = json!({
        "description": "When it was changed last, in seconds since 1970.",
        "schema": { "type": "string", "pattern": "^[0-9]+$" },
    });
    all
}

fn whole(id: &str, summary: &str) -> Operation {
    Operation::new("weir", id, summary)
}

fn get_configs() -> Value {
    let content = json!({ "application/json": { "schema": configs() }, "application/yaml": {} });
    let set = json!({ "description": "The set.", "headers": own_headers(), "content": content });
    whole("getConfigs", "The whole set, to be put again")
        .describe("Private keys are shown to keys that may put the set. `Accept` chooses JSON or YAML.")
        .response("200", set)
        .done()
}

fn head_configs() -> Value {
    let answer = json!({ "description": "Its name and time.", "headers": own_headers() });
    whole("headConfigs", "The name of the set in force").response("200", answer).done()
}

fn put_configs() -> Value {
    let digest = json!({
        "name": "X-Digest",
        "in": "header",
        "required": true,
        "description": "A name for the set.",
        "schema": { "type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^[!-~]+$" },
    });
    let nothing = |description: &str| json!({ "description": description, "headers": headers() });
    whole("putConfigs", "Put a whole set in the place of the one in force")
        .parameter(digest)
        .body_as(&["application/json", "application/yaml"], &configs())
        .response("202", nothing("It is in force."))
        .response("204", nothing("It is the one in force already."))
        .write()
        .done()
}

/// What is done to one object.
fn object_change() -> Value {
    let field = json!({
        "type": "object",
        "properties": { "pointer": { "type": "string" }, "before": {}, "after": {} },
        "required": ["pointer"],
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": {
            "key": { "type": "string", "description": "`routes/1`." },
            "action": { "type": "string", "enum": ["create", "change", "delete"] },
            "fields": { "type": "array", "items": field, "description": "Secrets are `(hidden)`." },
        },
        "required": ["key", "action", "fields"],
        "additionalProperties": false,
    })
}

/// A plan; with the revisions before and after once it is done.
fn plan_schema(is_done: bool) -> Value {
    let mut body = json!({
        "type": "object",
        "properties": {
            "revision": { "type": "integer", "description": "The revision it starts from." },
            "create": { "type": "integer" },
            "change": { "type": "integer" },
            "delete": { "type": "integer" },
            "objects": { "type": "array", "items": object_change() },
        },
        "required": ["revision", "create", "change", "delete", "objects"],
        "additionalProperties": false,
    });
    if is_done {
        body["properties"]["revision"]["description"] = "The version that was made.".into();
        body["properties"]["before"] =
            json!({ "type": "integer", "description": "The version to go back to." });
    }
    body
}

/// Refusals of whole sets tell every fault, the revision in force, or the oldest version.
fn refusals(operation: Operation) -> Operation {
    let faults = json!({
        "type": "object",
        "properties": {
            "error_msg": { "type": "string" },
            "faults": { "type": "array", "items": { "type": "object" }, "description": "Each with its place." },
        },
        "required": ["error_msg", "faults"],
        "additionalProperties": false,
    });
    let unknown = json!({
        "type": "object",
        "properties": { "error_msg": { "type": "string" }, "oldest": { "type": "integer" } },
        "required": ["error_msg"],
        "additionalProperties": false,
    });
    operation
        .answer("400", "It cannot be done, and why.", json!({ "anyOf": [schema("Error"), faults] }))
        .answer("404", "That version is not kept.", unknown)
}

fn moved(operation: Operation) -> Operation {
    let moved = json!({
        "type": "object",
        "properties": { "error_msg": { "type": "string" }, "revision": { "type": "integer" } },
        "required": ["error_msg", "revision"],
        "additionalProperties": false,
    });
    operation.answer("409", "The configuration is not at the revision that was expected.", moved)
}

fn number(name: &str, required: bool, description: &str) -> Value {
    json!({
        "name": name,
        "in": "query",
        "required": required,
        "description": description,
        "schema": { "type": "integer", "minimum": 0 },
    })
}

fn switch(name: &str, description: &str) -> Value {
    json!({
        "name": name,
        "in": "query",
        "description": description,
        "schema": { "type": "string", "enum": ["true", "false"] },
    })
}

fn keep_others() -> Value {
    switch("keep_others", "Objects that the set does not name stay.")
}

fn expect() -> Value {
    number("expect", false, "Only if this revision is in force.")
}

fn plan() -> Value {
    let operation = whole("plan", "What a set would change")
        .parameter(keep_others())
        .parameter(number(
            "to",
            false,
            "What going back to this version would change; the body is not looked at.",
        ))
        .body_as(&["application/json", "application/yaml"], &set(Map::new()))
        .answer("200", "What would be done.", plan_schema(false))
        .store();
    refusals(operation).done()
}

fn apply() -> Value {
    let operation = whole("apply", "Bring a set into force, all of it or nothing")
        .parameter(keep_others())
        .parameter(expect())
        .body_as(&["application/json", "application/yaml"], &set(Map::new()))
        .answer("200", "It is in force.", plan_schema(true))
        .write();
    moved(refusals(operation)).done()
}

fn rollback() -> Value {
    let operation = whole("rollback", "Bring an older version into force again, as a new one")
        .parameter(number("to", true, "The version."))
        .parameter(expect())
        .parameter(switch("force", "Also objects that could not be used now: they are reported as faulty."))
        .answer("200", "It is in force.", plan_schema(true))
        .write();
    moved(refusals(operation)).done()
}

/// What is told of a version; with its changes where it is asked for alone.
fn version_schema(with_changes: bool) -> Value {
    let mut body = json!({
        "type": "object",
        "properties": {
            "version": { "type": "integer" },
            "parent": { "type": "integer", "description": "The version it came after." },
            "at_ms": { "type": "integer", "description": "When, in milliseconds since 1970." },
            "source": { "type": "string", "enum": ["admin", "apply", "rollback", "configs", "expiry"] },
            "by": { "type": "string", "description": "Who, as far as it is known." },
            "objects": { "type": "integer", "description": "How many it changed." },
        },
        "required": ["version", "parent", "at_ms", "source", "by", "objects"],
        "additionalProperties": false,
    });
    if with_changes {
        body["properties"]["changes"] = json!({ "type": "array", "items": object_change() });
    }
    body
}

fn versions() -> Value {
    let limit = json!({
        "name": "limit",
        "in": "query",
        "description": "At most so many; 100 unless told.",
        "schema": { "type": "integer", "minimum": 1, "maximum": 10000 },
    });
    let body = json!({
        "type": "object",
        "properties": {
            "revision": { "type": "integer", "description": "The revision in force." },
            "oldest": { "type": "integer", "description": "The oldest version to go back to." },
            "versions": { "type": "array", "items": version_schema(false), "description": "Newest first." },
        },
        "required": ["revision", "oldest", "versions"],
        "additionalProperties": false,
    });
    let operation = whole("listVersions", "The versions that are kept")
        .parameter(limit)
        .parameter(number("before", false, "Only older ones."))
        .answer("200", "The versions.", body)
        .store();
    operation.done()
}

fn version() -> Value {
    let version = json!({
        "name": "version",
        "in": "path",
        "required": true,
        "schema": { "type": "integer", "minimum": 0 },
    });
    let operation = whole("getVersion", "One version and what it changed")
        .parameter(version)
        .answer("200", "The version.", version_schema(true))
        .store();
    refusals(operation).done()
}
