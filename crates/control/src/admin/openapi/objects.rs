//! The operations on objects: the template `objects.json`, filled in for each collection. `kinds` knows the
//! verbs that a kind lacks.

use http::Method;
use model::{ObjectKind, schema as schemas};
use serde_json::{Value, json};

use super::components::{camel, title};
use super::template;
use crate::admin::kinds;

/// Adds the paths of every kind to a document, in short forms, and the schemas of their answers.
pub(super) fn add_object_paths(document: &mut Value) {
    let examples = template::parse_template(include_str!("examples.json"));
    let others = std::mem::replace(&mut document["paths"], json!({}));
    for kind in ObjectKind::ALL {
        let of_kind = ObjectCollection::new(kind, format!("/{}", kind.collection()), String::new());
        let mut template = of_kind.template();
        document["paths"][format!("/schema/validate/{}", kind.collection())]["post"] =
            template["validate"].take();
        add_fields(&mut document["components"]["schemas"], template["schemas"].take());
        let places = match kind {
            ObjectKind::Secret => {
                document["paths"]["/secrets"]["get"] = of_kind.operation("list", &mut template, &examples);
                let of_manager =
                    |name: &str| ObjectCollection::new(kind, format!("/secrets/{name}"), camel(name));
                schemas::secret_managers().map(of_manager).collect()
            }
            ObjectKind::Credential => {
                vec![ObjectCollection::new(
                    kind,
                    "/consumers/{username}/credentials".to_owned(),
                    String::new(),
                )]
            }
            _ => vec![of_kind],
        };
        places.iter().for_each(|place| place.add(&examples, &mut document["paths"]));
    }
    add_fields(&mut document["paths"], others);
    add_collections(&mut document["components"]["schemas"]);
}

/// Adds the collections to the schemas of whole sets, where credentials are among the consumers.
fn add_collections(schemas: &mut Value) {
    for kind in ObjectKind::ALL.into_iter().filter(|kind| *kind != ObjectKind::Credential) {
        for set in ["CheckedSet", "ObjectSet", "Configs"] {
            schemas[set]["properties"][kind.collection()] =
                json!({ "type": "array", "items": { "type": "object" } });
        }
        schemas["Configs"]["properties"][format!("{}_conf_version", kind.collection())] =
            json!({ "type": "integer", "minimum": 0 });
    }
}

fn add_fields(target: &mut Value, more: Value) {
    if let (Some(target), Value::Object(more)) = (target.as_object_mut(), more) {
        target.extend(more);
    }
}

/// A collection of objects of one kind.
struct ObjectCollection {
    kind: ObjectKind,
    path: String,
    /// Tells the managers of secrets apart in the names of operations.
    suffix: String,
    /// The name of an object in the path: the component of the parameter, and the parameter.
    id: (&'static str, &'static str),
}

impl ObjectCollection {
    fn new(kind: ObjectKind, path: String, suffix: String) -> ObjectCollection {
        let id = match kind {
            ObjectKind::Consumer => ("Username", "username"),
            ObjectKind::PluginMetadata => ("PluginName", "name"),
            _ => ("Id", "id"),
        };
        ObjectCollection { kind, path, suffix, id }
    }

    /// The template with the names of this collection filled in.
    fn template(&self) -> Value {
        let (kind, collection) = (title(self.kind), self.kind.collection());
        let place = format!("{kind}{}", self.suffix);
        let source = if self.kind == ObjectKind::Consumer { "its `username`" } else { "the body's `id`" };
        let names = [
            ("@tag", collection),
            ("@Plural", &format!("{}{}", camel(collection), self.suffix)),
            ("@plural", &collection.replace('_', " ")),
            ("@Place", &place),
            ("@Kind", &kind),
            ("@kind", self.kind.in_words()),
            ("@source", source),
            ("@Id", self.id.0),
            ("@id", self.id.1),
        ];
        let text = include_str!("objects.json").to_owned();
        template::parse_template(&names.iter().fold(text, |text, (mark, name)| text.replace(mark, name)))
    }

    fn add(&self, examples: &Value, paths: &mut Value) {
        let mut template = self.template();
        let object = format!("{}/{{{}}}", self.path, self.id.1);
        let part = format!("{object}/{{path}}");
        let operations = [
            (&self.path, "get", "list"),
            (&self.path, "put", "putNamed"),
            (&self.path, "post", "create"),
            (&part, "patch", "patchPartOf"),
            (&object, "get", "get"),
            (&object, "put", "put"),
            (&object, "delete", "delete"),
            (&object, "patch", "patch"),
        ];
        for (path, verb, name) in operations.into_iter().filter(|(_, _, name)| self.has(name)) {
            paths[path][verb] = self.operation(name, &mut template, examples);
        }
    }

    fn has(&self, operation: &str) -> bool {
        match operation {
            "putNamed" => !matches!(self.kind, ObjectKind::PluginMetadata | ObjectKind::Secret),
            "create" => !kinds::is_off(self.kind, &Method::POST),
            "patch" | "patchPartOf" => !kinds::is_off(self.kind, &Method::PATCH),
            _ => true,
        }
    }

    /// An operation of the template, with its example and the parameters and responses that only this kind
    /// has.
    fn operation(&self, name: &str, template: &mut Value, examples: &Value) -> Value {
        let mut operation = template[name].take();
        let example = &examples[format!("{}{}", title(self.kind), self.suffix)];
        match name {
            "put" | "create" => operation["example"] = example["body"].clone(),
            "patch" => operation["example"] = example["part"].clone(),
            "putNamed" => {
                operation["example"] = example["body"].clone();
                if self.kind != ObjectKind::Consumer {
                    operation["example"]["id"] = "example".into();
                }
            }
            "list" if kinds::refers_to_upstreams(self.kind) => {
                operation["parameters"].as_array_mut().into_iter().for_each(|all| all.push("Filter".into()));
            }
            _ => {}
        }
        if self.kind == ObjectKind::Credential {
            below_consumer(name, &mut operation);
        }
        operation
    }
}

/// Adds the consumer to an operation on credentials: its parameter, and 404 if it does not exist.
fn below_consumer(name: &str, operation: &mut Value) {
    operation["parameters"].as_array_mut().into_iter().for_each(|all| all.insert(0, "Username".into()));
    match name {
        "list" => operation["responses"]["404"] = "NotFound".into(),
        "put" | "putNamed" => operation["responses"]["404"] = "Unknown".into(),
        _ => {}
    }
    for response in operation["responses"].as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        for link in response
            .get_mut("links")
            .and_then(Value::as_object_mut)
            .into_iter()
            .flat_map(|all| all.values_mut())
        {
            link["parameters"]["username"] = "$request.path.username".into();
        }
    }
}
