//! authz-keycloak through the real gateway, with a real Keycloak that evaluates policies.

use serde_json::{Value, json};
use testkit::{Keycloak, Origin, Reply, Response, Weir, wait_until};

use crate::support::BINARY;

const SECRET: &str = "s3cret-of-the-client";

/// A gateway in front of an origin that echoes the request head.
struct Stage {
    weir: Weir,
    origin: Origin,
}

impl Stage {
    fn new() -> Stage {
        Stage { weir: Weir::start(BINARY), origin: Origin::echoing() }
    }

    fn route(&self, plugin: &Value) {
        let nodes = json!({self.origin.address().to_string(): 1});
        let route = json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": {"authz-keycloak": plugin}});
        self.weir.put("routes/1", route);
    }

    fn ask(&self, method: &str, path: &str, token: &str) -> Response {
        let value = format!("Bearer {token}");
        self.weir.client().request(method, path, &[("Authorization", &value)], b"")
    }
}

/// A realm with the resource `course` below `/course/`, which students may GET and teachers may GET and
/// DELETE.
fn realm(name: &str) -> (&'static Keycloak, Value) {
    let keycloak = Keycloak::shared();
    let role = |role: &str| json!({"name": format!("is {role}"), "type": "role", "config": {"roles": json!([{"id": role}]).to_string()}});
    let permission = |scope: &str, policies: &[&str]| {
        json!({"name": format!("{scope} course"), "type": "scope", "decisionStrategy": "AFFIRMATIVE", "config": {
            "resources": "[\"course\"]", "scopes": json!([scope]).to_string(), "applyPolicies": json!(policies).to_string(),
        }})
    };
    let mut client = Keycloak::client("gw", SECRET);
    client["authorizationServicesEnabled"] = json!(true);
    client["authorizationSettings"] = json!({
        "policyEnforcementMode": "ENFORCING", "scopes": [{"name": "GET"}, {"name": "DELETE"}],
        "resources": [
            {"name": "course", "uris": ["/course/*"], "scopes": [{"name": "GET"}, {"name": "DELETE"}]},
        ],
        "policies": [
            role("student"), role("teacher"),
            permission("GET", &["is student", "is teacher"]), permission("DELETE", &["is teacher"]),
        ],
    });
    keycloak.add_realm(&json!({
        "realm": name, "enabled": true, "sslRequired": "none", "clients": [client],
        "roles": {"realm": [{"name": "student"}, {"name": "teacher"}]},
        "users": [
            Keycloak::user("sam", "pw", &["student"]), Keycloak::user("tina", "pw", &["teacher"]),
            Keycloak::user("otto", "pw", &[]),
        ],
    }));
    let discovery = format!("{}/.well-known/uma2-configuration", keycloak.realm(name));
    (keycloak, json!({"discovery": discovery, "client_id": "gw", "client_secret": SECRET, "timeout": 20_000}))
}

fn token(keycloak: &Keycloak, realm: &str, user: &str) -> String {
    let form = format!("grant_type=password&client_id=gw&client_secret={SECRET}&username={user}&password=pw");
    keycloak.token(realm, &form)
}

#[test]
#[ignore = "make test-peers: Keycloak"]
fn keycloak_policies_decide_by_path_and_method() {
    let (keycloak, mut plugin) = realm("policies");
    let stage = Stage::new();
    let [student, teacher, other] = ["sam", "tina", "otto"].map(|user| token(keycloak, "policies", user));
    let check = |method: &str, path: &str, expected: [u16; 3]| {
        let statuses = [&student, &teacher, &other].map(|token| stage.ask(method, path, token).status);
        assert_eq!(statuses, expected, "{method} {path}");
    };
    plugin["lazy_load_paths"] = json!(true);
    plugin["http_method_as_scope"] = json!(true);
    stage.route(&plugin);
    check("GET", "/course/1", [200, 200, 403]);
    check("DELETE", "/course/1", [403, 200, 403]);
    // A path without a resource is refused without a question.
    check("GET", "/elsewhere", [403, 403, 403]);
    let refused = stage.ask("GET", "/course/1", &other);
    assert_eq!(refused.json()["error"], "access_denied");
    let bare = stage.weir.client().request("GET", "/course/1", &[("Authorization", &*student)], b"");
    assert_eq!(bare.status, 200, "a token without a scheme counts as a bearer token");

    plugin["lazy_load_paths"] = json!(false);
    plugin["permissions"] = json!(["course"]);
    stage.route(&plugin);
    check("DELETE", "/any", [403, 200, 403]);
    plugin["http_method_as_scope"] = json!(false);
    plugin["permissions"] = json!(["course#GET"]);
    plugin["access_denied_redirect_uri"] = json!("http://app.example/denied");
    stage.route(&plugin);
    check("POST", "/any", [200, 200, 307]);
    assert_eq!(stage.ask("GET", "/any", &other).header("location"), Some("http://app.example/denied"));
    plugin["permissions"] = json!(["unknown"]);
    stage.route(&plugin);
    check("GET", "/any", [400, 400, 400]);
}

#[test]
#[ignore = "make test-peers: Keycloak"]
fn keycloak_refuses_bad_tokens_and_hands_out_good() {
    let (_, mut plugin) = realm("tokens");
    let stage = Stage::new();
    plugin["permissions"] = json!(["course#GET"]);
    plugin["password_grant_token_generation_incoming_uri"] = json!("/api/token");
    stage.route(&plugin);
    let missing = stage.weir.client().get("/course/1");
    assert_eq!(
        (missing.status, missing.json()["message"].as_str()),
        (401, Some("Missing JWT token in request"))
    );
    assert_eq!(stage.ask("GET", "/course/1", "wrong").status, 401);

    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let grant = |body: &str| stage.weir.client().request("POST", "/api/token", &form, body.as_bytes());
    let token = grant("username=sam&password=pw").json()["access_token"].as_str().unwrap().to_owned();
    assert_eq!(stage.ask("GET", "/course/1", &token).status, 200);
    let refused = grant("username=sam&password=wrong");
    assert_eq!(
        (refused.status, refused.json()["message"].as_str()),
        (401, Some("Could not decode JSON from response."))
    );
    assert_eq!((grant("username=sam").status, grant("password=pw").status), (422, 422));
    assert_eq!(grant("username=sam").json()["message"], "password is missing.");
    // Other requests for that path need a token as all do.
    assert_eq!(stage.weir.client().get("/api/token").status, 401);
}

#[test]
fn token_endpoint_that_fails_closes_the_route() {
    let stage = Stage::new();
    let check = |server: &Origin, expected: u16| {
        let plugin = json!({
            "token_endpoint": format!("http://{}/token", server.address()), "client_id": "gw", "permissions": ["a"],
            "timeout": 1_000,
        });
        stage.route(&plugin);
        assert_eq!(stage.ask("GET", "/x", "t").status, expected);
    };
    check(&Origin::answering("<html>a login page</html>"), 503);
    check(&Origin::start(|_| Reply::with(302, &[("Location", "/login")], b"")), 503);
    check(&Origin::start(|_| Reply::status(500, "internals")), 500);
    check(&Origin::answering(r#"{"result":false}"#), 503);
    check(&Origin::answering(r#"{"result":true}"#), 200);
    let nowhere = json!({"token_endpoint": format!("http://{}/token", Origin::nowhere()), "client_id": "gw", "permissions": ["a"]});
    stage.route(&nowhere);
    let answer = stage.ask("GET", "/x", "t");
    assert_eq!((answer.status, answer.body.len()), (503, 0));
    wait_until("the fault is logged", || {
        stage.weir.stderr().iter().any(|line| line.contains("authz-keycloak"))
    });
}

#[test]
fn nothing_to_ask_for_is_refused_when_enforcing() {
    let stage = Stage::new();
    let server = Origin::answering(r#"{"result":true}"#);
    let mut plugin =
        json!({"token_endpoint": format!("http://{}/token", server.address()), "client_id": "gw"});
    stage.route(&plugin);
    let refused = stage.ask("GET", "/x", "t");
    assert_eq!((refused.status, refused.json()["error_description"].as_str()), (403, Some("not_authorized")));
    assert!(server.requests().is_empty());
    plugin["policy_enforcement_mode"] = json!("PERMISSIVE");
    stage.route(&plugin);
    assert_eq!(stage.ask("GET", "/x", "t").status, 200);
    let asked = server.last_request();
    let body = String::from_utf8_lossy(&asked.body).into_owned();
    assert!(body.ends_with("&audience=gw&response_mode=decision"), "{body}");
    assert_eq!(asked.header("authorization"), Some("Bearer t"));
}
