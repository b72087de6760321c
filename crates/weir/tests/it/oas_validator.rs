//! oas-validator through the real gateway, with the document inline and from a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use testkit::{Origin, Reply, Weir, wait_until};

use crate::support::BINARY;

/// A gateway in front of an origin that answers `served`.
struct Stage {
    weir: Weir,
    origin: Origin,
}

impl Stage {
    fn new() -> Stage {
        Stage { weir: Weir::start(BINARY), origin: Origin::answering("served") }
    }

    fn route(&self, plugin: &Value) {
        let nodes = json!({self.origin.address().to_string(): 1});
        let route = json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": {"oas-validator": plugin}});
        self.weir.put("routes/1", route);
    }

    /// The status and the body of a response.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let fields = [("Content-Type", "application/json")];
        let response = self.weir.client().request(method, path, &fields, body.as_bytes());
        (response.status, response.text())
    }
}

/// A library with books; a book may refer to others.
fn document() -> Value {
    json!({
        "openapi": "3.1.0", "info": {"title": "Library", "version": "1"}, "servers": [{"url": "https://example.com/v1"}],
        "paths": {
            "/books": {
                "get": {"parameters": [{"name": "sort", "in": "query", "schema": {"enum": ["title", "year"]}}]},
                "post": {"requestBody": {"required": true, "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Book"}},
                }}},
            },
            "/books/{isbn}": {"get": {"parameters": [
                {"name": "isbn", "in": "path", "required": true, "schema": {"type": "string", "pattern": "^[0-9]{13}$"}},
            ]}},
        },
        "components": {"schemas": {"Book": {"type": "object", "required": ["title"], "properties": {
            "title": {"type": "string"}, "year": {"type": ["integer", "null"]},
            "see": {"type": "array", "items": {"$ref": "#/components/schemas/Book"}},
        }}}},
    })
}

#[test]
fn requests_are_checked_against_the_document() {
    let stage = Stage::new();
    stage.route(&json!({"spec": document().to_string(), "verbose_errors": true}));
    let passes = |method: &str, path: &str, body: &str| {
        assert_eq!(stage.ask(method, path, body), (200, "served".to_owned()), "{method} {path}");
    };
    let refused = |method: &str, path: &str, body: &str, part: &str| {
        let (status, text) = stage.ask(method, path, body);
        assert_eq!(status, 400, "{method} {path}");
        assert!(text.contains("failed to validate request. ") && text.contains(part), "{text}");
    };
    passes("POST", "/v1/books", r#"{"title":"a","year":null,"see":[{"title":"b"}]}"#);
    passes("GET", "/books?sort=year", "");
    passes("GET", "/v1/books/9780000000001", "");
    refused("POST", "/v1/books", r#"{"title":"a","see":[{"title":1}]}"#, "body: ");
    refused("GET", "/books?sort=size", "", "query parameter sort");
    refused("GET", "/v1/books/x", "", "path parameter isbn");
    refused("PATCH", "/v1/books", "{}", "no such path and method");
    let long = json!({"title": "a".repeat(100_000), "year": "x"});
    refused("POST", "/v1/books", &long.to_string(), "property \\\"year\\\"");
    stage.route(&json!({"spec": document().to_string(), "rejection_status_code": 422}));
    let quiet = (422, "{\"message\":\"failed to validate request. \"}\n".to_owned());
    wait_until("the new status is in force", || stage.ask("GET", "/books?sort=size", "") == quiet);
}

#[test]
fn faulty_document_is_refused_with_its_place() {
    let stage = Stage::new();
    let mut faulty = document();
    faulty["components"]["schemas"]["Book"]["properties"]["year"]["type"] = "text".into();
    let plugins = json!({"oas-validator": {"spec": faulty.to_string()}});
    let (status, answer) = stage.weir.admin("PUT", "routes/1", json!({"uri": "/*", "plugins": plugins}));
    assert_eq!(status, 400);
    let text = answer.to_string();
    assert!(
        text.contains("spec: /paths/~1books/post/requestBody/content/application~1json/schema: "),
        "{text}"
    );
    assert!(text.contains("/components/schemas/Book/properties/year/type"), "{text}");
}

#[test]
fn document_from_a_server_is_kept_and_renewed() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let server = Origin::start(move |request| {
        let count = counter.fetch_add(1, Ordering::SeqCst);
        match (request.header("authorization"), count) {
            (Some("Bearer reader"), 0) => Reply::ok(&document().to_string()),
            // Later the document cannot be had.
            (Some("Bearer reader"), _) => Reply::with(503, &[], b"down"),
            _ => Reply::with(401, &[], b"no"),
        }
    });
    let stage = Stage::new();
    let plugin = |path: &str, headers: Value| {
        let url = format!("http://{}{path}", server.address());
        json!({"spec_url": url, "spec_url_request_headers": headers, "timeout": 2_000})
    };
    stage.weir.put("plugin_metadata/oas-validator", json!({"spec_url_ttl": 1}));
    stage.route(&plugin("/openapi.json", json!({"Authorization": "Bearer reader"})));
    assert_eq!(stage.ask("GET", "/books?sort=year", "").0, 200);
    assert_eq!(stage.ask("GET", "/books?sort=size", "").0, 400);
    wait_until("the document is asked for again", || {
        assert_eq!(stage.ask("GET", "/books?sort=size", "").0, 400, "the old document stays in force");
        asked.load(Ordering::SeqCst) >= 2
    });
    stage.route(&plugin("/other.json", json!({})));
    let unknown = (500, "{\"message\":\"failed to parse openapi spec\"}\n".to_owned());
    wait_until("the other document is in force", || stage.ask("GET", "/books", "") == unknown);
    wait_until("the error log tells the status", || {
        stage.weir.stderr().iter().any(|line| line.contains("spec URL returned status 401"))
    });
}
