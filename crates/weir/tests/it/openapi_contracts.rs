//! Contracts through the real gateway: operations as routes, checks of requests and responses, security
//! schemes, other methods and paths, mocks and the page.

use std::process::Command;

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Response, Weir};

use crate::support::BINARY;

const PETS: &str = r##"
openapi: 3.0.3
info: {title: Pets, version: "1"}
servers: [{url: https://pets.test/v2}]
paths:
  /pets/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: integer, minimum: 1}}
    get:
      operationId: getPet
      parameters: [{name: verbose, in: query, schema: {type: boolean}}]
      responses:
        "200":
          description: one
          content: {application/json: {schema: {$ref: "#/components/schemas/Pet"}}}
        "404": {description: none}
    put:
      operationId: savePet
      requestBody: {required: true, content: {application/json: {schema: {$ref: "#/components/schemas/Pet"}}}}
      responses: {"204": {description: saved}}
  /pets/mine:
    get: {operationId: mine, responses: {"200": {description: mine}}}
components:
  schemas:
    Pet:
      type: object
      required: [name]
      properties: {name: {type: string, maxLength: 5, example: rex}, age: {type: integer, maximum: 30}}
"##;

/// A gateway with the contract `pets` in front of an origin that answers with its target.
struct Stage {
    weir: Weir,
    origin: Origin,
}

impl Stage {
    fn new(more: Value) -> Stage {
        Stage::answering(more, Reply::ok)
    }

    fn answering(more: Value, answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Stage {
        let origin = Origin::start(move |request| answer(&request.target));
        let stage = Stage { weir: Weir::start(BINARY), origin };
        let (status, body) = stage.put(PETS, more);
        assert_eq!(status, 201, "{body}");
        stage
    }

    fn put(&self, content: &str, more: Value) -> (u16, Value) {
        let nodes = json!({ self.origin.address().to_string(): 1 });
        let mut contract = json!({ "content": content, "upstream": { "nodes": nodes } });
        contract.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.weir.admin("PUT", "weir/contracts/pets", contract)
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Response {
        self.ask_with(method, path, &[("Content-Type", "application/json")], body)
    }

    fn ask_with(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Response {
        let mut client: Client = self.weir.client();
        client.request(method, path, fields, body.as_bytes())
    }
}

#[test]
fn operations_are_served_and_others_refused() {
    let stage = Stage::new(json!({}));
    let check = |method: &str, path: &str, body: &str, status: u16, part: &str| {
        let response = stage.ask(method, path, body);
        let text = response.text();
        assert!(
            response.status == status && text.contains(part),
            "{method} {path}: {} {text}",
            response.status
        );
        response
    };
    check("GET", "/v2/pets/7", "", 200, "/v2/pets/7");
    check("GET", "/v2/pets/7?verbose=true", "", 200, "/v2/pets/7?verbose=true");
    check("GET", "/v2/pets/mine", "", 200, "/v2/pets/mine");
    check("HEAD", "/v2/pets/7", "", 200, "");
    let refused = check(
        "GET",
        "/v2/pets/0?verbose=maybe",
        "",
        400,
        r#""title":"The request does not match the contract""#,
    );
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    let problem: Value = serde_json::from_str(&refused.text()).unwrap();
    let places: Vec<String> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| format!("{} {} {}", error["in"], error["name"], error["rule"]).replace('"', ""))
        .collect();
    assert_eq!(places, ["path id minimum", "query verbose type"], "{problem}");
    check("PUT", "/v2/pets/7", r#"{"name":"rex"}"#, 200, "/v2/pets/7");
    check("PUT", "/v2/pets/7", r#"{"name":"too long","age":31}"#, 400, r#""pointer":"/age""#);
    check("PUT", "/v2/pets/7", "", 400, "request body is required");
    let other = check("DELETE", "/v2/pets/7", "", 405, "no such method");
    assert_eq!(other.header("allow"), Some("GET, HEAD, OPTIONS, PUT"));
    assert_eq!(check("OPTIONS", "/v2/pets/7", "", 204, "").header("allow"), Some("GET, HEAD, OPTIONS, PUT"));
    check("DELETE", "/v2/pets/mine", "", 405, "no such method");
    check("GET", "/v2/nothing", "", 404, "The contract has no such path");
    check("GET", "/v3/pets/7", "", 404, "404 Route Not Found");
    stage.weir.delete("weir/contracts/pets");
    check("GET", "/v2/pets/7", "", 404, "404 Route Not Found");
}

#[test]
fn faulty_document_leaves_the_last_one() {
    let stage = Stage::new(json!({}));
    let (status, body) = stage.put(&PETS.replace("maximum: 30", "maximum: old"), json!({}));
    assert_eq!(status, 400, "{body}");
    assert!(body["error_msg"].as_str().unwrap().contains("line "), "{body}");
    assert_eq!(stage.ask("GET", "/v2/pets/7", "").status, 200);
    let (status, body) = stage.put(&PETS.replace("/pets/mine", "/cats"), json!({}));
    assert_eq!(status, 200, "{body}");
    assert_eq!(stage.ask("GET", "/v2/pets/mine", "").status, 400, "mine is an id now");
    assert_eq!(stage.ask("GET", "/v2/cats", "").status, 200);
}

#[test]
fn base_path_is_replaced_for_nodes() {
    let stage = Stage::new(json!({ "base_path": "/api/pets-service", "unknown": "pass" }));
    assert_eq!(
        stage.ask("GET", "/api/pets-service/pets/7?verbose=true", "").text(),
        "/v2/pets/7?verbose=true"
    );
    assert_eq!(stage.ask("GET", "/api/pets-service/pets/0", "").status, 400);
    assert_eq!(stage.ask("GET", "/api/pets-service/free", "").text(), "/v2/free");
    assert_eq!(stage.ask("GET", "/v2/pets/7", "").status, 404);
}

#[test]
fn security_scheme_is_checked_by_plugin() {
    let stage = Stage::new(json!({}));
    let with_key = PETS
        .replace(
            "components:",
            "components:\n  securitySchemes: {k: {type: apiKey, in: header, name: X-Pet-Key}}",
        )
        .replace("operationId: getPet", "operationId: getPet\n      security: [{k: []}]");
    let (status, body) = stage.put(&with_key, json!({}));
    assert_eq!(status, 200, "{body}");
    stage
        .weir
        .put("consumers/jack", json!({ "username": "jack", "plugins": { "key-auth": { "key": "secret" } } }));
    assert_eq!(stage.ask("GET", "/v2/pets/7", "").status, 401);
    assert_eq!(stage.ask_with("GET", "/v2/pets/7", &[("X-Pet-Key", "secret")], "").status, 200);
    assert_eq!(stage.ask("GET", "/v2/pets/mine", "").status, 200, "an operation without security");
}

#[test]
fn rules_of_one_operation_count_apart() {
    let limit =
        json!({ "limit-count": { "count": 1, "time_window": 600, "key_type": "constant", "key": "all" } });
    let rules = json!({ "operations": { "getPet": { "plugins": limit }, "mine": { "plugins": limit } } });
    let stage = Stage::new(rules);
    let statuses: Vec<u16> = ["/v2/pets/7", "/v2/pets/mine", "/v2/pets/7", "/v2/pets/mine"]
        .into_iter()
        .map(|path| stage.ask("GET", path, "").status)
        .collect();
    assert_eq!(statuses, [200, 200, 503, 503]);
}

#[test]
fn responses_are_checked() {
    let pet = |body: &str| Reply::with(200, &[("Content-Type", "application/json")], body.as_bytes());
    let answer = move |target: &str| match target {
        "/v2/pets/1" => pet(r#"{"name":"rex"}"#),
        "/v2/pets/2" => pet(r#"{"name":7}"#),
        "/v2/pets/404" => Reply::status(404, ""),
        _ => Reply::status(418, ""),
    };
    let stage = Stage::answering(json!({ "response": "enforce" }), answer);
    let statuses: Vec<u16> =
        [1, 2, 404, 5].into_iter().map(|id| stage.ask("GET", &format!("/v2/pets/{id}"), "").status).collect();
    assert_eq!(statuses, [200, 502, 404, 502]);
    let (status, body) = stage.put(PETS, json!({ "response": "warn" }));
    assert_eq!(status, 200, "{body}");
    assert_eq!(stage.ask("GET", "/v2/pets/2", "").text(), r#"{"name":7}"#);
}

#[test]
fn status_without_body_is_checked() {
    let stage = Stage::answering(json!({ "response": "enforce" }), |target| match target {
        "/v2/pets/1" => Reply::status(304, ""),
        _ => Reply::status(418, ""),
    });
    assert_eq!(stage.ask("GET", "/v2/pets/1", "").status, 304);
    assert_eq!(stage.ask("HEAD", "/v2/pets/2", "").status, 502);
}

#[test]
fn template_is_preferred_to_unknown_paths() {
    let stage = Stage::new(json!({}));
    let content = "openapi: 3.1.0\nservers: [{url: /v2}]\npaths:\n  /{id}: {get: {operationId: one}}\n  /{id}/a: {get: \
                   {operationId: text}}\n  /{id}/{part}: {get: {operationId: part}}\n";
    assert_eq!(stage.put(content, json!({})).0, 200);
    for (path, route) in
        [("/v2/7", "one"), ("/v2/7/a", "text"), ("/v2/7/b", "part"), ("/v2/7/b/c", "unknown")]
    {
        let question = json!({ "method": "GET", "url": format!("http://h{path}") });
        let (status, record) = stage.weir.admin("POST", "weir/explain", question);
        assert_eq!(
            (status, &record["matched"]["id"]),
            (200, &json!(format!("contract/pets/{route}"))),
            "{record}"
        );
        assert_eq!(stage.ask("GET", path, "").status, if route == "unknown" { 404 } else { 200 }, "{path}");
    }
}

#[test]
fn faulty_contract_of_a_file_is_closed() {
    let origin = Origin::answering("open");
    let upstream = format!("upstream: {{nodes: {{'{}': 1}}}}", origin.address());
    let contract = |id: &str, base: &str, content: &str| {
        format!("  - {{id: {id}, base_path: {base}, {upstream}, content: '{content}'}}\n")
    };
    let good = "{openapi: 3.0.3, paths: {/a: {get: {operationId: a}}}}";
    let resources = format!(
        "routes:\n  - {{id: all, uri: /*, {upstream}}}\ncontracts:\n{}{}",
        contract("good", "/good", good),
        contract("bad", "/bad", "{openapi: 3.0.3, paths: {a: {}}}"),
    );
    let weir = Weir::builder(BINARY).resources(&resources).start();
    let statuses: Vec<u16> = ["/good/a", "/good/b", "/bad/a", "/bad", "/other"]
        .into_iter()
        .map(|path| weir.client().get(path).status)
        .collect();
    assert_eq!(statuses, [200, 404, 503, 503, 200]);
}

#[test]
fn undeclared_fields_are_dropped() {
    let stage = Stage::new(json!({ "headers": "declared" }));
    stage.ask_with("GET", "/v2/pets/7", &[("X-Secret", "1"), ("Accept", "text/plain")], "");
    let request = stage.origin.last_request();
    assert_eq!((request.header("x-secret"), request.header("accept")), (None, Some("text/plain")));
    // The consumer's name of a client is none; that of an authentication plugin is.
    stage.ask_with("GET", "/v2/pets/7", &[("X-Consumer-Username", "root")], "");
    assert_eq!(stage.origin.last_request().header("x-consumer-username"), None);
    stage
        .weir
        .put("consumers/jack", json!({ "username": "jack", "plugins": { "key-auth": { "key": "secret" } } }));
    assert_eq!(stage.put(PETS, json!({ "headers": "declared", "plugins": { "key-auth": {} } })).0, 200);
    assert_eq!(stage.ask_with("GET", "/v2/pets/7", &[("apikey", "secret")], "").status, 200);
    let request = stage.origin.last_request();
    assert_eq!((request.header("x-consumer-username"), request.header("apikey")), (Some("jack"), None));
}

#[test]
fn document_answers_and_is_shown() {
    let stage = Stage::new(json!({ "mock": "always", "docs": { "path": "/pets-docs" } }));
    let mocked = stage.ask("GET", "/v2/pets/7", "");
    assert_eq!((mocked.status, &*mocked.text()), (200, r#"{"name":"rex","age":30}"#));
    assert_eq!(stage.ask_with("GET", "/v2/pets/7", &[("Prefer", "code=404")], "").status, 404);
    let page = stage.ask("GET", "/pets-docs", "");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.text().contains("getPet"), "{}", page.text());
    assert!(page.header("content-security-policy").unwrap().contains("script-src 'sha256-"));
    let document: Value =
        serde_json::from_str(&stage.ask("GET", "/pets-docs/openapi.json", "").text()).unwrap();
    assert_eq!(document["info"]["title"], "Pets");
    let with_secret = format!("{PETS}x-weir-plugins: {{basic-auth: {{realm: s3cr3t}}}}\n");
    assert_eq!(stage.put(&with_secret, json!({ "docs": { "path": "/pets-docs" } })).0, 200);
    for path in ["/pets-docs", "/pets-docs/openapi.json"] {
        assert!(!stage.ask("GET", path, "").text().contains("s3cr3t"), "{path}");
    }
    assert!(stage.origin.requests().is_empty());
}

#[test]
fn documents_are_read_and_compared_on_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let old = file("old.yaml", PETS);
    let new = file(
        "new.yaml",
        &PETS.replace("name: verbose, in: query,", "name: verbose, in: query, required: true,"),
    );
    let faulty = file("faulty.yaml", "openapi: 3.0.3\npaths: {pets: {}}");
    let check = |arguments: &[&str], code: i32, part: &str| {
        let output = Command::new(BINARY).arg("contract").args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(
            output.status.code() == Some(code) && text.contains(part),
            "{arguments:?} {:?}: {text}",
            output.status
        );
    };
    check(&["check", &old], 0, "savePet  PUT     /pets/{id}\n");
    check(&["check", &faulty], 1, "faulty.yaml:2: /paths/pets: a path begins with `/`");
    check(&["check", "/nowhere"], 1, "cannot be read");
    check(&["diff", &old, &old], 0, "0 breaking, 0 warnings, 0 others");
    check(&["diff", &old, &new], 3, "request-parameter-became-required");
    check(&["diff", "--fail-on", "none", "--json", &old, &new], 0, r#""level":"breaking""#);
    check(&["diff", "--level", "request-parameter-became-required=off", &old, &new], 0, "0 breaking");
    check(&["diff", "--level", "no-such-rule=off", &old, &new], 1, "there is no rule");
    check(&["page", &old], 0, "<!doctype html>");
}
