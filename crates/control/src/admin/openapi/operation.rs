//! One operation of the document, put together from its parts. It refuses to know which operations there are.

use serde_json::{Map, Value, json};

/// A reference to a component.
pub(super) fn reference(section: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{section}/{name}") })
}

/// A reference to a schema.
pub(super) fn schema(name: &str) -> Value {
    reference("schemas", name)
}

/// An operation in the making. Every one can be refused for its key and its arguments.
pub(super) struct Operation {
    fields: Map<String, Value>,
    parameters: Vec<Value>,
    responses: Map<String, Value>,
}

impl Operation {
    pub(super) fn new(tag: &str, id: impl Into<String>, summary: impl Into<String>) -> Operation {
        let mut fields = Map::new();
        fields.insert("tags".to_owned(), json!([tag]));
        fields.insert("operationId".to_owned(), Value::String(id.into()));
        fields.insert("summary".to_owned(), Value::String(summary.into()));
        Operation { fields, parameters: Vec::new(), responses: Map::new() }
            .response("400", reference("responses", "Refused"))
            .response("401", reference("responses", "Unauthorized"))
    }

    pub(super) fn describe(mut self, text: &str) -> Operation {
        self.fields.insert("description".to_owned(), Value::String(text.to_owned()));
        self
    }

    /// Parameters by the name of their component.
    pub(super) fn parameters(mut self, names: &[&str]) -> Operation {
        self.parameters.extend(names.iter().map(|name| reference("parameters", name)));
        self
    }

    /// A parameter that belongs to this operation alone.
    pub(super) fn parameter(mut self, parameter: Value) -> Operation {
        self.parameters.push(parameter);
        self
    }

    /// A JSON body that must be there.
    pub(super) fn body(self, schema: &Value) -> Operation {
        self.body_as(&["application/json"], schema)
    }

    /// An example of the body, which is described already.
    pub(super) fn example(mut self, example: Value) -> Operation {
        if let Some(body) = self.fields.get_mut("requestBody") {
            body["content"]["application/json"]["example"] = example;
        }
        self
    }

    pub(super) fn body_as(mut self, types: &[&str], schema: &Value) -> Operation {
        let content: Map<String, Value> =
            types.iter().map(|name| ((*name).to_owned(), json!({ "schema": schema }))).collect();
        self.fields.insert("requestBody".to_owned(), json!({ "required": true, "content": content }));
        self.response("408", reference("responses", "TooSlow"))
    }

    /// A JSON answer.
    pub(super) fn answer(self, status: &str, description: &str, schema: Value) -> Operation {
        self.answer_with_links(status, description, schema, &Value::Null)
    }

    /// A JSON answer that leads to other operations.
    pub(super) fn answer_with_links(
        self,
        status: &str,
        description: &str,
        schema: Value,
        links: &Value,
    ) -> Operation {
        let mut response = json!({
            "description": description,
            "headers": headers(),
            "content": { "application/json": { "schema": schema } },
        });
        if !links.is_null() {
            response["links"] = links.clone();
        }
        self.response(status, response)
    }

    /// An answer by the name of its component.
    pub(super) fn refusal(self, status: &str, name: &str) -> Operation {
        self.response(status, reference("responses", name))
    }

    /// Adds the refusals of operations that need a store: 405 from a file, 503 from a store that cannot be used now.
    pub(super) fn store(self) -> Operation {
        self.refusal("405", "ReadOnly").refusal("503", "Unavailable")
    }

    /// Adds the refusals of writes: those of [`Operation::store`], and 403 to a page of another origin.
    pub(super) fn write(self) -> Operation {
        self.store().refusal("403", "CrossSite")
    }

    pub(super) fn response(mut self, status: &str, response: Value) -> Operation {
        self.responses.insert(status.to_owned(), response);
        self
    }

    pub(super) fn done(mut self) -> Value {
        if !self.parameters.is_empty() {
            self.fields.insert("parameters".to_owned(), Value::Array(self.parameters));
        }
        let mut responses: Vec<(String, Value)> = self.responses.into_iter().collect();
        responses.sort_by(|left, right| left.0.cmp(&right.0));
        self.fields.insert("responses".to_owned(), Value::Object(responses.into_iter().collect()));
        Value::Object(self.fields)
    }
}

/// The headers of every answer to a caller whose key was checked.
pub(super) fn headers() -> Value {
    json!({
        "Server": reference("headers", "Server"),
        "X-API-VERSION": reference("headers", "ApiVersion"),
        "X-Weir-Revision": reference("headers", "Revision"),
        "X-Weir-Warning": reference("headers", "Warning"),
    })
}
