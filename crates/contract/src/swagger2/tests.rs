//! Tests of the translation: documents of both versions side by side, faults with their places, and limits.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::from_swagger2;

/// A whole document around the fields of `root`.
fn swagger(root: Value) -> Value {
    let mut document = json!({ "swagger": "2.0", "info": { "title": "T", "version": "1" }, "paths": {} });
    for (field, value) in root.as_object().unwrap() {
        document[field] = value.clone();
    }
    document
}

/// The operation `post /a` after the translation.
fn translated_operation(root: Value, operation: Value) -> Value {
    let mut document = swagger(root);
    document["paths"] = json!({ "/a": { "post": operation } });
    from_swagger2(&document).unwrap().pointer("/paths/~1a/post").unwrap().clone()
}

fn fault_of(root: Value) -> String {
    from_swagger2(&swagger(root)).unwrap_err()
}

#[test]
fn root_becomes_servers_and_keeps_extensions() {
    let document = from_swagger2(&swagger(json!({
        "host": "api.example.com", "basePath": "/v1/", "schemes": ["https", "http"], "x-owner": "team",
        "tags": [{ "name": "pets" }], "security": [{ "key": [] }],
    })))
    .unwrap();
    let expected = json!({
        "openapi": "3.0.3", "info": { "title": "T", "version": "1" },
        "servers": [{ "url": "https://api.example.com/v1" }, { "url": "http://api.example.com/v1" }],
        "tags": [{ "name": "pets" }], "paths": {}, "security": [{ "key": [] }], "x-owner": "team",
    });
    assert_eq!(document, expected);
    let server = |root| from_swagger2(&swagger(root)).unwrap()["servers"].clone();
    assert_eq!(server(json!({ "basePath": "v1" })), json!([{ "url": "/v1" }]));
    assert_eq!(server(json!({ "host": "h", "basePath": "/" })), json!([{ "url": "https://h" }]));
    assert_eq!(server(json!({})), Value::Null);
}

#[test]
fn schemas_are_rewritten_in_order() {
    let document = from_swagger2(&swagger(json!({ "definitions": {
        "Pet": {
            "type": "object", "discriminator": "kind", "required": ["kind"],
            "properties": {
                "zeta": { "type": "string", "x-nullable": true, "enum": ["a"] },
                "kind": { "type": "string" },
                "alpha": { "$ref": "#/definitions/Tag", "x-nullable": true },
                "discriminator": { "type": "string", "example": { "$ref": "#/definitions/Tag" } },
                "data": { "type": "file" },
                "list": { "type": "array", "items": { "$ref": "#/definitions/Tag" } },
            },
        },
        "Tag": { "allOf": [{ "$ref": "#/definitions/Pet" }], "additionalProperties": false, "x-tag": 1 },
    }})))
    .unwrap();
    let schemas = &document["components"]["schemas"];
    let expected = json!({
        "type": "object", "discriminator": { "propertyName": "kind" }, "required": ["kind"],
        "properties": {
            "zeta": { "type": "string", "enum": ["a", null], "nullable": true },
            "kind": { "type": "string" },
            "alpha": { "nullable": true, "allOf": [{ "$ref": "#/components/schemas/Tag" }] },
            "discriminator": { "type": "string", "example": { "$ref": "#/definitions/Tag" } },
            "data": { "format": "binary", "type": "string" },
            "list": { "type": "array", "items": { "$ref": "#/components/schemas/Tag" } },
        },
    });
    assert_eq!(schemas["Pet"].to_string(), expected.to_string());
    assert_eq!(
        schemas["Tag"],
        json!({ "allOf": [{ "$ref": "#/components/schemas/Pet" }], "additionalProperties": false, "x-tag": 1 })
    );
}

#[test]
fn parameters_keep_order_and_get_styles() {
    let operation = translated_operation(
        json!({ "parameters": { "Page": { "name": "page", "in": "query", "type": "integer" } } }),
        json!({ "operationId": "a", "parameters": [
            { "name": "z", "in": "query", "type": "array", "items": { "type": "string" },
              "collectionFormat": "multi", "description": "all", "x-p": true },
            { "$ref": "#/parameters/Page" },
            { "name": "c", "in": "query", "type": "array", "items": { "type": "integer" } },
            { "name": "p", "in": "query", "type": "array", "items": {}, "collectionFormat": "pipes" },
            { "name": "s", "in": "query", "type": "array", "items": {}, "collectionFormat": "ssv" },
            { "name": "h", "in": "header", "type": "array", "items": { "collectionFormat": "csv" } },
            { "name": "n", "in": "header", "required": true, "type": "string", "x-nullable": true,
              "maxLength": 3 },
        ], "responses": {}, "schemes": ["http"] }),
    );
    let expected = json!({ "operationId": "a", "parameters": [
        { "name": "z", "in": "query", "description": "all", "style": "form", "explode": true,
          "schema": { "type": "array", "items": { "type": "string" } }, "x-p": true },
        { "$ref": "#/components/parameters/Page" },
        { "name": "c", "in": "query", "style": "form", "explode": false,
          "schema": { "type": "array", "items": { "type": "integer" } } },
        { "name": "p", "in": "query", "style": "pipeDelimited", "explode": false,
          "schema": { "type": "array", "items": {} } },
        { "name": "s", "in": "query", "style": "spaceDelimited", "explode": false,
          "schema": { "type": "array", "items": {} } },
        { "name": "h", "in": "header", "style": "simple", "explode": false,
          "schema": { "type": "array", "items": {} } },
        { "name": "n", "in": "header", "required": true,
          "schema": { "type": "string", "maxLength": 3, "nullable": true } },
    ], "responses": {} });
    assert_eq!(operation.to_string(), expected.to_string());
}

#[test]
fn body_has_media_types_of_operation() {
    let shared = json!({
        "consumes": ["application/json"],
        "parameters": { "B": { "name": "b", "in": "body", "schema": { "type": "object" } } },
    });
    let body = |consumes: Option<Value>| {
        let mut operation = json!({ "parameters": [{ "$ref": "#/parameters/B" }], "responses": {} });
        if let Some(consumes) = consumes {
            operation["consumes"] = consumes;
        }
        translated_operation(shared.clone(), operation)["requestBody"].clone()
    };
    assert_eq!(body(None), json!({ "$ref": "#/components/requestBodies/B" }));
    let schema = json!({ "schema": { "type": "object" } });
    assert_eq!(
        body(Some(json!(["application/xml", "text/json"]))),
        json!({
            "content": { "application/xml": schema, "text/json": schema },
            "x-codegen-request-body-name": "b",
        })
    );
}

#[test]
fn form_fields_become_one_body() {
    let form = |fields: Value, consumes: Value| {
        let operation = json!({ "consumes": consumes, "parameters": fields, "responses": {} });
        translated_operation(json!({}), operation)["requestBody"].clone()
    };
    let name = json!({ "name": "name", "in": "formData", "type": "string", "description": "its name" });
    let file = json!({ "name": "file", "in": "formData", "type": "file", "required": true });
    let tags = json!({ "name": "tags", "in": "formData", "type": "array", "items": { "type": "string" } });
    assert_eq!(
        form(json!([name, tags]), json!([])),
        json!({ "content": { "application/x-www-form-urlencoded": {
            "schema": { "type": "object", "properties": {
                "name": { "type": "string", "description": "its name" },
                "tags": { "type": "array", "items": { "type": "string" } },
            } },
            "encoding": { "tags": { "style": "form", "explode": false } },
        } } })
    );
    assert_eq!(
        form(json!([name, file]), json!(["application/json", "application/x-www-form-urlencoded"])),
        json!({ "content": { "multipart/form-data": { "schema": {
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": "its name" },
                "file": { "format": "binary", "type": "string" },
            },
            "required": ["file"],
        } } }, "required": true })
    );
}

#[test]
fn body_of_path_reaches_operations() {
    let mut document = swagger(json!({}));
    document["paths"] = json!({ "/a/{id}": {
        "parameters": [
            { "name": "id", "in": "path", "type": "string" },
            { "name": "b", "in": "body", "schema": { "type": "string" } },
        ],
        "put": { "responses": {} },
        "x-path": 1,
    } });
    let written = from_swagger2(&document).unwrap();
    let expected = json!({
        "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }],
        "put": { "responses": {}, "requestBody": {
            "content": { "application/json": { "schema": { "type": "string" } } },
            "x-codegen-request-body-name": "b",
        } },
        "x-path": 1,
    });
    assert_eq!(written.pointer("/paths/~1a~1{id}").unwrap(), &expected);
}

#[test]
fn responses_have_content_and_headers() {
    let operation = translated_operation(
        json!({ "produces": ["application/json"], "responses": { "Gone": { "description": "gone" } } }),
        json!({ "responses": {
            "200": {
                "description": "ok", "schema": { "$ref": "#/definitions/Pet" },
                "headers": { "X-Rate": { "type": "integer", "description": "left" } },
                "examples": { "application/json": { "id": 1 }, "text/plain": "one" },
            },
            "204": {}, "410": { "$ref": "#/responses/Gone" }, "x-more": 1,
        } }),
    );
    let schema = json!({ "$ref": "#/components/schemas/Pet" });
    let expected = json!({
        "200": {
            "description": "ok",
            "headers": { "X-Rate": { "description": "left", "schema": { "type": "integer" } } },
            "content": {
                "application/json": { "schema": schema, "example": { "id": 1 } },
                "text/plain": { "schema": schema, "example": "one" },
            },
        },
        "204": { "description": "" }, "410": { "$ref": "#/components/responses/Gone" }, "x-more": 1,
    });
    assert_eq!(operation["responses"], expected);
    let file = json!({ "responses": { "200": { "schema": { "type": "file" } } } });
    let content = &translated_operation(json!({}), file)["responses"]["200"]["content"];
    assert!(content.get("application/octet-stream").is_some());
}

#[test]
fn security_definitions_become_schemes() {
    let schemes = from_swagger2(&swagger(json!({ "securityDefinitions": {
        "b": { "type": "basic", "x-b": 1 },
        "k": { "type": "apiKey", "name": "key", "in": "query", "description": "a key" },
        "i": { "type": "oauth2", "flow": "implicit", "authorizationUrl": "https://a", "scopes": { "r": "read" } },
        "a": { "type": "oauth2", "flow": "application", "tokenUrl": "https://t" },
        "c": { "type": "oauth2", "flow": "accessCode", "authorizationUrl": "https://a", "tokenUrl": "https://t" },
    }})))
    .unwrap();
    let expected = json!({
        "b": { "type": "http", "scheme": "basic", "x-b": 1 },
        "k": { "type": "apiKey", "name": "key", "in": "query", "description": "a key" },
        "i": { "type": "oauth2", "flows": { "implicit": {
            "authorizationUrl": "https://a", "scopes": { "r": "read" } } } },
        "a": { "type": "oauth2", "flows": { "clientCredentials": { "tokenUrl": "https://t", "scopes": {} } } },
        "c": { "type": "oauth2", "flows": { "authorizationCode": {
            "authorizationUrl": "https://a", "tokenUrl": "https://t", "scopes": {} } } },
    });
    assert_eq!(schemes["components"]["securitySchemes"], expected);
}

#[test]
fn references_between_paths_lead_to_content() {
    let mut document = swagger(json!({ "parameters": {
        "B": { "name": "b", "in": "body", "schema": { "properties": { "x": { "type": "string" } } } },
    } }));
    document["paths"] = json!({
        "/a": { "get": { "produces": ["a/b"], "responses": { "200": { "schema": { "type": "object" } } } } },
        "/c": { "get": { "responses": { "200": {
            "schema": { "properties": {
                "x": { "$ref": "#/paths/~1a/get/responses/200/schema" },
                "y": { "$ref": "#/parameters/B/schema/properties/x" },
            } },
        } } } },
    });
    let written = from_swagger2(&document).unwrap();
    let mut references = Vec::new();
    let properties = "/paths/~1c/get/responses/200/content/application~1json/schema/properties";
    for (_, schema) in written.pointer(properties).unwrap().as_object().unwrap() {
        let reference = schema["$ref"].as_str().unwrap();
        assert!(written.pointer(&reference[1..]).is_some(), "{reference}");
        references.push(reference);
    }
    assert_eq!(references[0], "#/paths/~1a/get/responses/200/content/a~1b/schema");
}

#[test]
fn faults_name_their_place() {
    let operation = |operation: Value| json!({ "paths": { "/a": { "get": operation } } });
    let parameter = |parameter: Value| operation(json!({ "parameters": [parameter], "responses": {} }));
    let cases = [
        (json!({ "paths": 1 }), "/paths: an object is expected here"),
        (json!({ "schemes": ["ftp"], "host": "h" }), "/schemes/0: a scheme must be one of"),
        (
            parameter(json!({ "name": "q", "in": "cookie" })),
            "/paths/~1a/get/parameters/0/in: a parameter must",
        ),
        (parameter(json!({ "name": "q" })), "/paths/~1a/get/parameters/0: the field `in` is missing"),
        (parameter(json!({ "$ref": "#/parameters/No" })), "/paths/~1a/get/parameters/0: the reference"),
        (parameter(json!({ "$ref": "b.yaml#/x" })), "/paths/~1a/get/parameters/0: the reference"),
        (
            parameter(json!({ "name": "q", "in": "query", "type": "array", "collectionFormat": "tsv" })),
            "/paths/~1a/get/parameters/0/collectionFormat: OpenAPI 3 has no form for values between tabs",
        ),
        (
            parameter(json!({ "name": "q", "in": "path", "type": "array", "collectionFormat": "multi" })),
            "/paths/~1a/get/parameters/0/collectionFormat: OpenAPI 3 has this form for `query`",
        ),
        (
            json!({ "definitions": { "A": { "items": [{}] } } }),
            "/definitions/A/items: Swagger 2.0 allows one schema here",
        ),
        (
            json!({ "definitions": { "A": { "$ref": "#/info" } } }),
            "/definitions/A/$ref: the reference \"#/info\" leads to no schema",
        ),
        (
            json!({ "securityDefinitions": { "o": { "type": "oauth2", "flow": "magic" } } }),
            "/securityDefinitions/o/flow: `flow` must be one of",
        ),
        (operation(json!({ "consumes": "a/b" })), "/paths/~1a/get/consumes: a list is expected here"),
        (
            json!({ "responses": { "A": { "$ref": "#/responses/A" } } }),
            "/responses/A: references lead to each other in a circle",
        ),
    ];
    for (root, expected) in cases {
        let fault = fault_of(root);
        assert!(fault.starts_with(expected), "{fault}\nis not\n{expected}");
    }
    assert!(from_swagger2(&json!([])).is_err());
}

#[test]
fn deep_and_multiplied_documents_are_refused() {
    let mut schema = json!({});
    for _ in 0..120 {
        schema = json!({ "items": schema });
    }
    assert!(fault_of(json!({ "definitions": { "A": schema } })).contains("levels"));
    let types: Vec<String> = (0..3000).map(|number| format!("a/{number}")).collect();
    let properties: Value = (0..1000).map(|number| (number.to_string(), json!({}))).collect();
    let response = json!({ "schema": { "properties": properties } });
    let fault = fault_of(json!({ "produces": types, "responses": { "A": response } }));
    assert!(fault.starts_with("/responses/A/schema") && fault.contains("values"), "{fault}");
}

/// A value of any shape, with the names that the translation looks at.
fn any_value() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "$ref",
        "type",
        "in",
        "name",
        "schema",
        "items",
        "properties",
        "parameters",
        "responses",
        "get",
        "/a",
        "definitions",
        "allOf",
        "consumes",
        "produces",
        "200",
        "headers",
        "examples",
        "x-nullable",
        "enum",
    ]);
    let texts = prop::sample::select(vec![
        "#/definitions/a",
        "#/parameters/name",
        "#",
        "#/",
        "array",
        "file",
        "body",
        "query",
        "formData",
        "basic",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        texts.prop_map(|text| json!(text))
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((names.clone(), inner), 0..6).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_document_is_read_without_panic(paths in any_value(), shared in any_value()) {
        let document = swagger(json!({
            "paths": { "/a": { "get": paths } }, "parameters": { "name": shared }, "responses": { "b": shared },
            "definitions": { "a": shared },
        }));
        let _ = from_swagger2(&document);
        let _ = from_swagger2(&paths);
    }
}
