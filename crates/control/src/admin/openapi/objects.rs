//! The operations on objects, kind by kind: list, read, make, replace, patch, delete. Which verbs a kind lacks is asked
//! of `kinds`.

use http::Method;
use model::{Kind, schema as schemas};
use serde_json::{Map, Value, json};

use super::components::{camel, title};
use super::examples;
use super::operation::{Operation, schema};
use crate::admin::kinds;

/// Adds the paths of a kind.
pub(super) fn add(kind: Kind, paths: &mut Map<String, Value>) {
    match kind {
        Kind::Secret => {
            paths.insert("/secrets".to_owned(), json!({ "get": list(kind, "", &[]) }));
            for manager in schemas::secret_managers() {
                let place = Place {
                    kind,
                    collection: format!("/secrets/{manager}"),
                    suffix: camel(manager),
                    own: &[],
                    id: "Id",
                };
                place.add(paths);
            }
        }
        Kind::Credential => {
            let collection = "/consumers/{username}/credentials".to_owned();
            Place { kind, collection, suffix: String::new(), own: &["Username"], id: "Id" }.add(paths);
        }
        Kind::PluginMetadata => {
            let collection = format!("/{}", kind.collection());
            Place { kind, collection, suffix: String::new(), own: &[], id: "PluginName" }.add(paths);
        }
        Kind::Consumer => {
            let collection = format!("/{}", kind.collection());
            Place { kind, collection, suffix: String::new(), own: &[], id: "Username" }.add(paths);
        }
        _ => {
            let collection = format!("/{}", kind.collection());
            Place { kind, collection, suffix: String::new(), own: &[], id: "Id" }.add(paths);
        }
    }
}

/// Where the objects of a kind are.
struct Place {
    kind: Kind,
    collection: String,
    /// What tells its operations from those of another place of the kind.
    suffix: String,
    /// Parameters that the collection's path has.
    own: &'static [&'static str],
    /// The parameter that names one object.
    id: &'static str,
}

impl Place {
    fn add(&self, paths: &mut Map<String, Value>) {
        let mut collection = Map::new();
        collection.insert("get".to_owned(), list(self.kind, &self.suffix, self.own));
        if !matches!(self.kind, Kind::PluginMetadata | Kind::Secret) {
            collection.insert("put".to_owned(), self.put_collection());
        }
        if !kinds::is_off(self.kind, &Method::POST) {
            collection.insert("post".to_owned(), self.post());
        }
        paths.insert(self.collection.clone(), Value::Object(collection));
        let mut item = Map::new();
        item.insert("get".to_owned(), self.get());
        item.insert("put".to_owned(), self.put());
        item.insert("delete".to_owned(), self.delete());
        let path = format!("{}/{{{}}}", self.collection, self.id_name());
        if !kinds::is_off(self.kind, &Method::PATCH) {
            item.insert("patch".to_owned(), self.patch());
            paths.insert(format!("{path}/{{path}}"), json!({ "patch": self.patch_part() }));
        }
        paths.insert(path, Value::Object(item));
    }

    fn id_name(&self) -> &'static str {
        match self.id {
            "Username" => "username",
            "PluginName" => "name",
            _ => "id",
        }
    }

    fn operation(&self, verb: &str, summary: &str) -> Operation {
        let id = format!("{verb}{}{}", title(self.kind), self.suffix);
        Operation::new(self.kind.collection(), id, summary).parameters(self.own)
    }

    fn one(&self, verb: &str, summary: &str) -> Operation {
        self.operation(verb, summary).parameters(&[self.id])
    }

    fn in_words(&self) -> &'static str {
        self.kind.in_words()
    }

    /// The schema of what is sent.
    fn body(&self) -> Value {
        match self.kind {
            Kind::Secret => schema(&format!("Secret{}", self.suffix)),
            kind => schema(&title(kind)),
        }
    }

    /// The answer to a write.
    fn written(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "key": { "type": "string" },
                "value": schema(&format!("{}Shown", title(self.kind))),
            },
            "required": ["key", "value"],
            "additionalProperties": false,
        })
    }

    /// From the answer to a write to what can be done with the object.
    fn links(&self, id: &str) -> Value {
        let named = format!("{}{}", title(self.kind), self.suffix);
        let mut parameters = json!({ self.id_name(): id });
        if self.kind == Kind::Credential {
            parameters["username"] = json!("$request.path.username");
        }
        json!({
            "read": { "operationId": format!("get{named}"), "parameters": parameters },
            "delete": { "operationId": format!("delete{named}"), "parameters": parameters },
        })
    }

    fn get(&self) -> Value {
        self.one("get", &format!("Read a {}", self.in_words()))
            .answer("200", "The object.", schema(&format!("{}Entry", title(self.kind))))
            .refusal("404", "NotFound")
            .done()
    }

    fn put(&self) -> Value {
        let links = self.links(&format!("$request.path.{}", self.id_name()));
        let put = self
            .one("put", &format!("Make or replace a {}", self.in_words()))
            .parameters(&["Ttl"])
            .body(&self.body())
            .example(examples::of(self.kind, &self.suffix))
            .answer_with_links("200", "It was replaced.", self.written(), &links)
            .answer_with_links("201", "It was made.", self.written(), &links)
            .write();
        self.may_lack_its_consumer(put).done()
    }

    fn put_collection(&self) -> Value {
        let id = if self.kind == Kind::Consumer { "its `username`" } else { "the body's `id`" };
        let put = self
            .operation("put", &format!("Make or replace a {} under {id}", self.in_words()))
            .parameters(&["Ttl"])
            .body(&self.body())
            .example(examples::named(self.kind))
            .answer("200", "It was replaced.", self.written())
            .answer("201", "It was made.", self.written())
            .write();
        let mut put = self.may_lack_its_consumer(put).done();
        put["operationId"] = json!(format!("putNamed{}", title(self.kind)));
        put
    }

    fn may_lack_its_consumer(&self, operation: Operation) -> Operation {
        if self.kind == Kind::Credential { operation.refusal("404", "Unknown") } else { operation }
    }

    fn post(&self) -> Value {
        self.operation("create", &format!("Make a {} under an id of its own", self.in_words()))
            .describe("The id is a revision, in twenty digits. The body must have none.")
            .parameters(&["Ttl"])
            .body(&self.body())
            .example(examples::of(self.kind, &self.suffix))
            .answer_with_links("201", "It was made.", self.written(), &self.links("$response.body#/value/id"))
            .write()
            .done()
    }

    fn patch(&self) -> Value {
        self.one("patch", &format!("Merge a part into a {}", self.in_words()))
            .describe(
                "`null` deletes, objects merge, lists are replaced whole. The result is checked as a whole.",
            )
            .parameters(&["Ttl"])
            .body(&json!({ "type": "object" }))
            .example(examples::part(self.kind, &self.suffix))
            .answer("200", "The object as it is now.", self.written())
            .refusal("404", "NotFound")
            .write()
            .done()
    }

    fn patch_part(&self) -> Value {
        self.one("patchPartOf", &format!("Replace what is at a place of a {}", self.in_words()))
            .parameters(&["SubPath", "Ttl"])
            .body(&json!({ "description": "Any JSON; `null` deletes what is there." }))
            .example(json!({ "team": "example" }))
            .answer("200", "The object as it is now.", self.written())
            .refusal("404", "NotFound")
            .write()
            .done()
    }

    fn delete(&self) -> Value {
        let deleted = json!({
            "type": "object",
            "properties": { "deleted": { "type": "string", "const": "1" }, "key": { "type": "string" } },
            "required": ["deleted", "key"],
            "additionalProperties": false,
        });
        self.one("delete", &format!("Delete a {}", self.in_words()))
            .parameters(&["Force"])
            .answer("200", "It is gone.", deleted)
            .refusal("404", "NotFound")
            .write()
            .done()
    }
}

/// The listing of a collection.
fn list(kind: Kind, suffix: &str, own: &[&str]) -> Value {
    let listing = json!({
        "type": "object",
        "properties": {
            "list": { "type": "array", "items": schema(&format!("{}Entry", title(kind))) },
            "total": {
                "type": "integer",
                "minimum": 0,
                "description": "How many passed the filters, on all pages.",
            },
        },
        "required": ["list", "total"],
        "additionalProperties": false,
    });
    let id = format!("list{}{suffix}", camel(kind.collection()));
    let summary = format!("List {}, filtered and by pages", kind.collection().replace('_', " "));
    let mut operation = Operation::new(kind.collection(), id, summary)
        .parameters(own)
        .parameters(&["Page", "PageSize", "Name", "Uri", "Label"])
        .answer("200", "The objects that passed every filter.", listing)
        .refusal("400", "PageRefused");
    if kinds::refers_to_upstreams(kind) {
        operation = operation.parameters(&["Filter"]);
    }
    if kind == Kind::Credential {
        operation = operation.refusal("404", "NotFound");
    }
    operation.done()
}
