//! Authentication by credentials through the real gateway: consumers and credentials written by the Admin
//! API, good, bad, missing, doubled and expired credentials, and secrets by reference and encrypted in the
//! store. Tokens and signatures were made by PyJWT, and by `hmac` and `hashlib` of Python.

use serde_json::{Value, json};
use testkit::{Client, Origin, Response, Weir, wait_until};

use crate::support::BINARY;

const KEYRING: &str = "edd1c9f0985e76a2";
/// Seconds of clock skew that admit the fixed dates of signatures.
const LONG: u64 = 10_000_000_000;
const DATE: &str = "Wed, 25 Nov 2026 12:00:00 GMT";
/// `foo:bar`
const BASIC: &str = "Basic Zm9vOmJhcg==";

/// A gateway and an origin that echoes the request head.
struct Stage {
    weir: Weir,
    origin: Origin,
}

impl Stage {
    fn new() -> Stage {
        Stage::with(Weir::start(BINARY))
    }

    fn with(weir: Weir) -> Stage {
        Stage { weir, origin: Origin::echoing() }
    }

    /// Puts a route for every path with these plugins.
    fn guard(&self, plugins: Value) {
        let nodes = json!({self.origin.address().to_string(): 1});
        let route = json!({"uri": "/*", "plugins": plugins, "upstream": {"nodes": nodes}});
        self.weir.put("routes/1", route);
    }

    /// Puts a consumer with one credential.
    fn credential(&self, username: &str, id: &str, plugins: Value) {
        self.weir.put("consumers", json!({"username": username}));
        self.weir.put(&format!("consumers/{username}/credentials/{id}"), json!({"plugins": plugins}));
    }

    fn get(&self, headers: &[(&str, &str)]) -> Response {
        self.weir.client().request("GET", "/", headers, b"")
    }

    /// Checks that a request passes as a consumer with a credential; gives the head that the origin received.
    fn passes(&self, headers: &[(&str, &str)], username: &str, credential: &str) -> String {
        let response = self.get(headers);
        let seen = response.text();
        assert_eq!(response.status, 200, "{headers:?}: {seen}");
        for (name, value) in [("Username", username), ("Credential", credential)] {
            let name = if name == "Username" { "X-Consumer-Username" } else { "X-Credential-Identifier" };
            let expected = format!("{name}: {value}\r\n");
            assert_eq!(seen.contains(&expected), !value.is_empty(), "{headers:?}: {seen}");
        }
        seen
    }

    /// Checks that a request is refused with 401, this message and this challenge.
    fn refused(&self, headers: &[(&str, &str)], message: &str, challenge: &str) {
        let response = self.get(headers);
        let got = (response.status, response.text(), response.header("www-authenticate"));
        let body = format!("{{\"message\":\"{message}\"}}\n");
        assert_eq!(got, (401, body, Some(challenge)), "{headers:?}");
    }
}

/// Keys and tokens of every algorithm, made with PyJWT.
fn vectors() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/src/shared/jwt/vectors.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn basic_auth_admits_names_with_passwords() {
    let stage = Stage::with(Weir::builder(BINARY).environment("PASSWORD", "from-environment").start());
    stage.credential("jack", "one", json!({"basic-auth": {"username": "foo", "password": "bar"}}));
    stage.credential(
        "jill",
        "two",
        json!({"basic-auth": {"username": "jill", "password": "$env://PASSWORD"}}),
    );
    stage.credential("joan", "three", json!({"basic-auth": {"username": "joan", "password": "$env://NONE"}}));
    stage.guard(json!({"basic-auth": {"hide_credentials": true}}));
    let seen = stage.passes(&[("Authorization", BASIC), ("X-Consumer-Username", "root")], "jack", "one");
    assert!(!seen.contains("Authorization") && !seen.contains("root"), "{seen}");
    // jill:from-environment
    stage.passes(&[("Authorization", "basic amlsbDpmcm9tLWVudmlyb25tZW50")], "jill", "two");
    let refused = |headers: &[(&str, &str)], message: &str| {
        stage.refused(headers, message, "Basic realm=\"basic\"");
    };
    refused(&[], "Missing authorization in request");
    refused(&[("Authorization", "Bearer x")], "Invalid authorization in request");
    refused(&[("Authorization", "Basic Zm9vOmJheg==")], "Invalid user authorization");
    refused(&[("Authorization", BASIC), ("Authorization", BASIC)], "More than one authorization in request");
    // joan:$env://NONE
    refused(&[("Authorization", "Basic am9hbjokZW52Oi8vTk9ORQ==")], "Invalid user authorization");
    assert_eq!(stage.origin.requests().len(), 2, "a refused request goes no further");
    // A name belongs to one consumer.
    let twice = json!({"username": "zoe", "plugins": {"basic-auth": {"username": "foo", "password": "x"}}});
    let (status, answer) = stage.weir.admin("PUT", "consumers", twice);
    assert!(status == 400 && answer.to_string().contains("jack"), "{status} {answer}");

    stage.weir.put("consumers", json!({"username": "guest"}));
    stage.guard(json!({"basic-auth": {"anonymous_consumer": "guest"}}));
    stage.passes(&[], "guest", "");
    stage.weir.delete("consumers/jack");
    stage.passes(&[("Authorization", BASIC)], "guest", "");
}

#[test]
fn jwt_auth_admits_tokens_of_every_algorithm() {
    let stage = Stage::new();
    let vectors = vectors();
    stage.guard(json!({"jwt-auth": {"hide_credentials": true}}));
    for (algorithm, vector) in vectors["tokens"].as_object().unwrap() {
        let key = vector["key"].as_str().unwrap();
        let config = match key {
            "secret" => json!({"key": "user-key", "algorithm": algorithm, "secret": vectors["secret"]}),
            _ => {
                json!({"key": "user-key", "algorithm": algorithm, "public_key": vectors["keys"][key]["pem"]})
            }
        };
        stage.credential("jack", "one", json!({"jwt-auth": config}));
        let token = vector["token"].as_str().unwrap();
        for _ in 0..2 {
            let seen = stage.passes(&[("Authorization", &format!("Bearer {token}"))], "jack", "one");
            assert!(!seen.contains(token), "{algorithm}: {seen}");
        }
        // Tokens of other algorithms, and with another signature, are refused with the key of this one.
        for (other, vector) in vectors["tokens"].as_object().unwrap() {
            let token = vector["token"].as_str().unwrap();
            if other != algorithm {
                stage.refused(&[("Authorization", token)], "failed to verify jwt", "Bearer realm=\"jwt\"");
            }
        }
        for attack in ["none", "hs256_with_public_key"] {
            let token = vectors["attacks"][attack].as_str().unwrap();
            stage.refused(&[("Authorization", token)], "failed to verify jwt", "Bearer realm=\"jwt\"");
        }
    }
}

#[test]
fn jwt_auth_follows_keys_and_claims() {
    let vectors = vectors();
    let secret = vectors["secret"].as_str().unwrap();
    let stage = Stage::with(Weir::builder(BINARY).environment("SECRET", secret).start());
    let token = vectors["tokens"]["HS256"]["token"].as_str().unwrap();
    stage.credential("jack", "one", json!({"jwt-auth": {"key": "user-key", "secret": "$env://SECRET"}}));
    stage.guard(json!({
        "jwt-auth": {"store_in_ctx": true},
        "proxy-rewrite": {"headers": {"set": {"X-Subject": "$jwt_claim_sub"}}}
    }));
    let seen = stage.passes(&[("Cookie", &format!("a=b; jwt={token}"))], "jack", "one");
    assert!(seen.contains("X-Subject: jack\r\n"), "{seen}");
    assert_eq!(stage.weir.get(&format!("/?jwt={token}")).status, 200);
    let refused = |headers: &[(&str, &str)], message: &str| {
        stage.refused(headers, message, "Bearer realm=\"jwt\"");
    };
    refused(&[], "Missing JWT token in request");
    refused(&[("Authorization", "Bearer x.y")], "JWT token invalid");
    refused(&[("Authorization", token), ("Authorization", token)], "More than one JWT token in request");
    for attack in ["expired", "early"] {
        refused(&[("Authorization", vectors["attacks"][attack].as_str().unwrap())], "failed to verify jwt");
    }
    // A token that was verified is refused as soon as the key is another one.
    stage.credential("jack", "one", json!({"jwt-auth": {"key": "user-key", "secret": "another-secret"}}));
    refused(&[("Authorization", token)], "failed to verify jwt");
    stage.credential("jack", "one", json!({"jwt-auth": {"key": "another-key", "secret": secret}}));
    refused(&[("Authorization", token)], "Invalid user key in JWT token");
    // A key that does not fit is refused when it is written.
    let rsa = vectors["keys"]["rsa"]["pem"].clone();
    let config = json!({"key": "k", "algorithm": "ES256", "public_key": rsa});
    let (status, answer) =
        stage.weir.admin("PUT", "consumers", json!({"username": "jo", "plugins": {"jwt-auth": config}}));
    assert!(status == 400 && answer.to_string().contains("an RSA key is not for ES256"), "{status} {answer}");
}

#[test]
fn unfit_key_of_a_reference_admits_no_request() {
    let vectors = vectors();
    let rsa = vectors["keys"]["rsa"]["pem"].as_str().unwrap();
    let stage = Stage::with(Weir::builder(BINARY).environment("KEY", rsa).start());
    let config = json!({"key": "user-key", "algorithm": "ES256", "public_key": "$env://KEY"});
    stage.credential("jack", "one", json!({"jwt-auth": config}));
    stage.guard(json!({"jwt-auth": {}}));
    let token = vectors["tokens"]["ES256"]["token"].as_str().unwrap();
    stage.refused(&[("Authorization", token)], "Invalid user key in JWT token", "Bearer realm=\"jwt\"");
    let faults = || stage.weir.admin("GET", "weir/status", Value::Null).1["faults"].to_string();
    wait_until("the fault is shown", || faults().contains("public_key: an RSA key is not for ES256"));
}

/// The signed request of [`hmac_auth_admits_signed_requests`], with this body and date.
fn send_order(weir: &Weir, body: &[u8], date: &str, more: &[(&str, &str)]) -> Response {
    let authorization = "Signature keyId=\"jacks-key\",algorithm=\"hmac-sha256\",headers=\"@request-target date digest\",\
        signature=\"cuIMejOQcryN8cXEulGt5PnTqQurzsIHeigx1gn6dL4=\"";
    let digest = "SHA-256=LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=";
    let mut headers = vec![("Authorization", authorization), ("Date", date), ("Digest", digest)];
    headers.extend_from_slice(more);
    weir.client().request("POST", "/orders?x=%31", &headers, body)
}

#[test]
fn hmac_auth_admits_signed_requests() {
    let stage = Stage::new();
    let credential = json!({"hmac-auth": {"key_id": "jacks-key", "secret_key": "a-secret-of-jack"}});
    stage.credential("jack", "one", credential);
    let strict = json!({
        "clock_skew": LONG,
        "signed_headers": ["@request-target", "date", "digest"],
        "validate_request_body": true,
        "max_req_body_size": 10
    });
    // Alone, and as one of several methods: the body is compared in both cases.
    for plugins in [
        json!({"hmac-auth": strict}),
        json!({"multi-auth": {"auth_plugins": [{"key-auth": {}}, {"hmac-auth": strict}]}}),
    ] {
        stage.guard(plugins);
        let before = stage.origin.requests().len();
        let passed = send_order(&stage.weir, b"hello", DATE, &[]);
        assert!(
            passed.status == 200 && passed.text().contains("X-Consumer-Username: jack\r\n"),
            "{}",
            passed.text()
        );
        assert_eq!(stage.origin.last_request().text(), "hello");
        assert_eq!(send_order(&stage.weir, b"hallo", DATE, &[]).status, 401);
        assert_eq!(send_order(&stage.weir, b"", DATE, &[]).status, 401);
        assert_eq!(send_order(&stage.weir, b"hello, hello", DATE, &[]).status, 413);
        assert_eq!(send_order(&stage.weir, b"hello", "Wed, 25 Nov 2026 12:00:01 GMT", &[]).status, 401);
        assert_eq!(send_order(&stage.weir, b"hello", DATE, &[("Date", DATE)]).status, 401);
        assert_eq!(send_order(&stage.weir, b"hello", DATE, &[("Authorization", BASIC)]).status, 401);
        assert_eq!(stage.origin.requests().len(), before + 1, "a refused request goes no further");
    }
    stage.guard(json!({"hmac-auth": {}}));
    assert_eq!(
        send_order(&stage.weir, b"hello", "Sun, 06 Nov 1994 08:49:37 GMT", &[]).status,
        401,
        "long ago"
    );
    let challenge = "hmac realm=\"hmac\"";
    stage.refused(&[], "client request can't be validated: missing Authorization header", challenge);
}

#[test]
fn multi_auth_tries_methods_in_turn() {
    let stage = Stage::new();
    stage.credential("jack", "one", json!({"basic-auth": {"username": "foo", "password": "bar"}}));
    stage.credential("jill", "two", json!({"key-auth": {"key": "jills-key"}}));
    let limit = json!({"count": 1, "time_window": 60, "rejected_code": 429});
    stage.weir.put("consumers", json!({"username": "jill", "plugins": {"limit-count": limit}}));
    let hide = json!({"hide_credentials": true});
    stage.guard(json!({"multi-auth": {"auth_plugins": [{"basic-auth": hide}, {"key-auth": hide}]}}));
    let seen = stage.passes(&[("Authorization", BASIC), ("apikey", "other")], "jack", "one");
    assert!(seen.contains("apikey: other") && !seen.contains("Authorization"), "{seen}");
    let seen = stage.passes(&[("Authorization", "other"), ("apikey", "jills-key")], "jill", "two");
    assert!(seen.contains("Authorization: other") && !seen.contains("apikey"), "{seen}");
    assert_eq!(stage.get(&[("apikey", "jills-key")]).status, 429, "the plugins of the consumer join");
    let refused = stage.get(&[("apikey", "other")]);
    assert_eq!((refused.status, refused.text().as_str()), (401, "{\"message\":\"Authorization Failed\"}\n"));
    assert_eq!(refused.header_all("www-authenticate"), ["Basic realm=\"basic\"", "apikey realm=\"key\""]);
    let unknown = json!({"multi-auth": {"auth_plugins": [{"basic-auth": {}}, {"cors": {}}]}});
    let (status, answer) = stage.weir.admin("PUT", "routes/2", json!({"uri": "/2", "plugins": unknown}));
    assert!(
        status == 400 && answer.to_string().contains("cors plugin is not supported"),
        "{status} {answer}"
    );
    let useless = json!({"multi-auth": {"auth_plugins": [{"basic-auth": {}}, {"key-auth": {}}]}});
    let (status, answer) =
        stage.weir.admin("PUT", "consumers/jack/credentials/two", json!({"plugins": useless}));
    assert!(status == 400 && answer.to_string().contains("only supports auth type"), "{status} {answer}");
    let (_, listed) = stage.weir.admin("GET", "plugins?all=true", Value::Null);
    assert_eq!(listed["multi-auth"]["type"], "auth");
}

#[test]
fn jwe_decrypt_passes_on_the_content() {
    let stage = Stage::new();
    let credential = json!({"key": "user-key", "secret": "12345678901234567890123456789012"});
    stage.credential("jack", "one", json!({"jwe-decrypt": credential}));
    stage.guard(json!({"jwe-decrypt": {"forward_header": "X-Content"}}));
    // Made with jwcrypto.
    let token = "eyJhbGciOiAiZGlyIiwgImVuYyI6ICJBMjU2R0NNIiwgImtpZCI6ICJ1c2VyLWtleSJ9..vG4DfsJa5K5IHMxx.\
        HKJ2M0SvcrDBHQ.9fPkumF1kNlNz3M6KONYkg";
    let passed = stage.get(&[("Authorization", &format!("Bearer {token}")), ("X-Content", "forged")]);
    assert!(
        passed.text().contains("X-Content: hello jack\r\n") && !passed.text().contains("forged"),
        "{}",
        passed.text()
    );
    let refused = |headers: &[(&str, &str)]| {
        let response = stage.get(headers);
        (response.status, response.json()["message"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(refused(&[]), (403, "missing JWE token in request".to_owned()));
    assert_eq!(refused(&[("Authorization", "x")]), (400, "JWE token invalid".to_owned()));
    stage.weir.delete("consumers/jack");
    assert_eq!(refused(&[("Authorization", token)]), (400, "invalid kid in JWE token".to_owned()));
}

#[test]
fn csrf_asks_for_the_token_of_the_cookie() {
    let stage = Stage::new();
    stage.guard(json!({"csrf": {"key": "a-secret", "name": "csrf-token"}}));
    let response = stage.get(&[]);
    let cookie = response.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let token = cookie.strip_prefix("csrf-token=").unwrap();
    let post = |headers: &[(&str, &str)]| {
        let response = stage.weir.client().request("POST", "/", headers, b"x");
        let reason =
            if response.status == 401 { response.json()["error_msg"].to_string() } else { String::new() };
        (response.status, reason)
    };
    assert_eq!(post(&[("csrf-token", token), ("Cookie", &cookie)]), (200, String::new()));
    assert_eq!(post(&[("Cookie", &cookie)]), (401, "\"no csrf token in headers\"".to_owned()));
    assert_eq!(post(&[("csrf-token", token)]), (401, "\"no csrf cookie\"".to_owned()));
    let other = "csrf-token=e30=";
    assert_eq!(
        post(&[("csrf-token", token), ("Cookie", other)]),
        (401, "\"csrf token mismatch\"".to_owned())
    );
    let unsigned = post(&[("csrf-token", "e30="), ("Cookie", other)]);
    assert_eq!(unsigned, (401, "\"Failed to verify the csrf token signature\"".to_owned()));
    assert_eq!(stage.origin.requests().len(), 2);
}

#[test]
fn credentials_are_encrypted_in_the_store() {
    const SECRETS: [&str; 5] = [
        "b4s1c-p4ssw0rd",
        "jwt-s3cr3t-0f-32-byt3s-and-m0re!",
        "hm4c-s3cr3t",
        "jw3-s3cr3t-of-32-byt3s-and-n0m0r",
        "csrf-s3cr3t",
    ];
    let mut weir = Weir::builder(BINARY).environment("WEIR_ENCRYPTION_KEYRING", KEYRING).start();
    let plugins = json!({
        "basic-auth": {"username": "foo", "password": SECRETS[0]},
        "jwt-auth": {"key": "k", "secret": SECRETS[1]},
        "hmac-auth": {"key_id": "k", "secret_key": SECRETS[2]},
        "jwe-decrypt": {"key": "k", "secret": SECRETS[3]}
    });
    weir.put("consumers", json!({"username": "jack", "plugins": plugins}));
    weir.put("services/s", json!({"plugins": {"csrf": {"key": SECRETS[4]}}}));
    weir.kill();
    for file in std::fs::read_dir(weir.data()).unwrap() {
        let path = file.unwrap().path();
        let Ok(bytes) = std::fs::read(&path) else { continue };
        for secret in SECRETS {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{} holds {secret}", path.display());
        }
    }
    let weir = weir.restart();
    let origin = Origin::answering("ok");
    let nodes = json!({origin.address().to_string(): 1});
    weir.put("routes/1", json!({"uri": "/*", "plugins": {"basic-auth": {}}, "upstream": {"nodes": nodes}}));
    // foo:b4s1c-p4ssw0rd
    let authorization = [("Authorization", "Basic Zm9vOmI0czFjLXA0c3N3MHJk")];
    assert_eq!(weir.client().request("GET", "/", &authorization, b"").status, 200, "it opens again");
    let dump = Client::connect(weir.address("control")).get("/v1/consumers").text();
    assert!(SECRETS.iter().all(|secret| !dump.contains(secret)), "{dump}");
}
