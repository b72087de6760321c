//! References to secrets, a vault that works, fails or is hostile, and the secrets on the disk: with the real
//! binary and a stand-in for the vault's HTTP API.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use testkit::{Certificates, Client, Nginx, Origin, Reply, Request, Weir, WeirBuilder, wait_until};

use crate::support::BINARY;

const TOKEN: &str = "t0k3n-0f-v4ult";
const KEYRING: &str = "edd1c9f0985e76a2";

/// The stand-in's response to a request with the right token and name space.
type Behaviour = dyn Fn(&Request) -> Reply + Send + Sync;

/// A stand-in for a vault with a behaviour that tests replace.
struct Vault {
    origin: Origin,
    behaviour: Arc<Mutex<Box<Behaviour>>>,
}

impl Vault {
    fn start() -> Vault {
        let behaviour: Arc<Mutex<Box<Behaviour>>> =
            Arc::new(Mutex::new(Box::new(|_| Reply::status(404, ""))));
        let current = Arc::clone(&behaviour);
        let origin = Origin::start(move |request| {
            if request.header("x-vault-token") != Some(TOKEN)
                || request.header("x-vault-namespace") != Some("team")
            {
                return Reply::status(403, r#"{"errors":["permission denied"]}"#);
            }
            current.lock().unwrap_or_else(PoisonError::into_inner)(request)
        });
        Vault { origin, behaviour }
    }

    fn answers(&self, behaviour: impl Fn(&Request) -> Reply + Send + Sync + 'static) {
        *self.behaviour.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(behaviour);
    }

    /// Answers `fields` at `path`, in the format of version 1 of the engine, and 404 elsewhere.
    fn holds(&self, path: &'static str, fields: Value) {
        let body = json!({"request_id": "1", "data": fields}).to_string();
        self.answers(move |request| {
            if request.path() == path { Reply::ok(&body) } else { Reply::status(404, r#"{"errors":[]}"#) }
        });
    }

    fn manager(&self, prefix: &str) -> Value {
        let uri = format!("http://{}", self.origin.address());
        json!({"uri": uri, "prefix": prefix, "token": "$ENV://VAULT_TOKEN", "namespace": "team"})
    }
}

/// A gateway that refreshes secrets every 100 ms and keeps a value for `stale_ms`.
fn builder(stale_ms: &str) -> WeirBuilder {
    Weir::builder(BINARY)
        .arguments(&[
            "--secret-refresh-ms",
            "100",
            "--secret-stale-ms",
            stale_ms,
            "--secret-timeout-ms",
            "1000",
        ])
        .environment("VAULT_TOKEN", TOKEN)
}

/// A route with key-auth, and a consumer with a reference to a key in the vault.
fn protect(weir: &Weir, origin: &Origin, reference: &str) {
    let nodes = json!({origin.address().to_string(): 1});
    weir.put("routes/1", json!({"uri": "/*", "plugins": {"key-auth": {}}, "upstream": {"nodes": nodes}}));
    weir.put("consumers", json!({"username": "jack", "plugins": {"key-auth": {"key": reference}}}));
}

fn status_with(weir: &Weir, key: &str) -> u16 {
    weir.client().request("GET", "/", &[("apikey", key)], b"").status
}

fn await_status(weir: &Weir, key: &str, status: u16) {
    wait_until(&format!("{key} is answered with {status}"), || status_with(weir, key) == status);
}

fn metrics(weir: &Weir) -> String {
    Client::connect(weir.address("metrics")).get("/apisix/prometheus/metrics").text()
}

const REFERENCE: &str = "$secret://vault/1/jack/auth/key";
const PATH: &str = "/v1/kv/apisix/jack/auth";

#[test]
fn vault_key_rotation_applies_without_write() {
    let (vault, origin) = (Vault::start(), Origin::answering("ok"));
    vault.holds(PATH, json!({"key": "first-key", "unused": 1}));
    let weir = builder("60000").start();
    weir.put("secrets/vault/1", vault.manager("kv/apisix"));
    protect(&weir, &origin, REFERENCE);
    await_status(&weir, "first-key", 200);
    assert_eq!(status_with(&weir, REFERENCE), 401, "its text opens nothing");
    assert!(metrics(&weir).contains("weir_secret_references{state=\"fresh\"} 1\n"));
    let (_, before) = weir.admin("GET", "consumers/jack", Value::Null);
    assert_eq!(before["value"]["plugins"]["key-auth"]["key"], REFERENCE, "what was written is kept");

    vault.holds(PATH, json!({"key": "second-key"}));
    await_status(&weir, "second-key", 200);
    assert_eq!(status_with(&weir, "first-key"), 401);
    let (_, after) = weir.admin("GET", "consumers/jack", Value::Null);
    assert_eq!(before["modifiedIndex"], after["modifiedIndex"]);

    // Deleted from the vault: the key is refused at once.
    vault.answers(|_| Reply::status(404, r#"{"errors":[]}"#));
    await_status(&weir, "second-key", 401);
    assert_eq!(status_with(&weir, REFERENCE), 401);

    // Version 2 of the engine answers in another format, under another prefix.
    let body = json!({"data": {"data": {"key": "third-key"}, "metadata": {"version": 4}}}).to_string();
    vault.answers(move |request| {
        let right = request.path() == "/v1/secret/data/jack/auth";
        if right { Reply::ok(&body) } else { Reply::status(404, "") }
    });
    weir.put("secrets/vault/1", vault.manager("secret/data"));
    await_status(&weir, "third-key", 200);
    // Without its manager, the reference has no value.
    weir.delete("secrets/vault/1");
    await_status(&weir, "third-key", 401);
    assert!(metrics(&weir).contains("weir_secret_references{state=\"unresolved\"} 1\n"));
}

#[test]
fn vault_holds_passwords_and_token_secrets() {
    let (vault, origin) = (Vault::start(), Origin::answering("ok"));
    // The secret of a token from https://www.rfc-editor.org/rfc/rfc7515#appendix-A.1 is binary, so it is
    // base64.
    let secret = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ+EstJQLr/T+1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow==";
    let token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6\
        Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    vault.holds(PATH, json!({"password": "from-vault", "secret": secret}));
    let weir = builder("60000").start();
    weir.put("secrets/vault/1", vault.manager("kv/apisix"));
    let reference = |field: &str| format!("$secret://vault/1/jack/auth/{field}");
    let plugins = json!({
        "basic-auth": {"username": "jack", "password": reference("password")},
        "jwt-auth": {
            "key": "joe", "secret": reference("secret"), "base64_secret": true, "lifetime_grace_period": 3_000_000_000_u64
        }
    });
    weir.put("consumers", json!({"username": "jack", "plugins": plugins}));
    let nodes = json!({origin.address().to_string(): 1});
    for (id, plugin) in
        [("basic", json!({"basic-auth": {}})), ("jwt", json!({"jwt-auth": {"key_claim_name": "iss"}}))]
    {
        weir.put(
            &format!("routes/{id}"),
            json!({"uri": format!("/{id}"), "plugins": plugin, "upstream": {"nodes": nodes}}),
        );
    }
    let status = |path: &str, authorization: &str| {
        weir.client().request("GET", path, &[("Authorization", authorization)], b"").status
    };
    // jack:from-vault
    wait_until("the password is known", || status("/basic", "Basic amFjazpmcm9tLXZhdWx0") == 200);
    assert_eq!(status("/jwt", &format!("Bearer {token}")), 200);
    vault.answers(|_| Reply::status(404, ""));
    wait_until("the password is gone", || status("/basic", "Basic amFjazpmcm9tLXZhdWx0") == 401);
    wait_until("the secret is gone", || status("/jwt", &format!("Bearer {token}")) == 401);
}

#[test]
fn a_start_waits_for_the_vault_and_goes_on_without_it() {
    let (vault, origin) = (Vault::start(), Origin::answering("ok"));
    vault.holds(PATH, json!({"key": "first-key"}));
    let weir = builder("60000").start();
    weir.put("secrets/vault/1", vault.manager("kv/apisix"));
    protect(&weir, &origin, REFERENCE);
    await_status(&weir, "first-key", 200);
    let weir = weir.restart();
    assert_eq!(status_with(&weir, "first-key"), 200, "the first request after the start");
    vault.answers(|_| Reply::status(503, "sealed"));
    let weir = weir.restart();
    assert_eq!(status_with(&weir, "first-key"), 401, "closed as long as nobody knows the key");
    vault.holds(PATH, json!({"key": "first-key"}));
    await_status(&weir, "first-key", 200);
}

#[test]
fn unresolved_secret_closes_its_route() {
    let (vault, origin) = (Vault::start(), Origin::answering("ok"));
    let nodes = json!({origin.address().to_string(): 1});
    let weir = builder("60000")
        .environment("SET_SECRET", "a-secret-of-the-environment")
        .environment("SHORT_SECRET", "short")
        .start();
    let session = |secret: &str| {
        json!({"openid-connect": {
            "client_id": "gw", "client_secret": "s", "discovery": "http://127.0.0.1:1/d", "unauth_action": "pass",
            "session": {"secret": secret},
        }})
    };
    let check = |plugins: Value, status: u16| {
        weir.put("routes/1", json!({"uri": "/*", "plugins": plugins, "upstream": {"nodes": nodes}}));
        assert_eq!(weir.client().get("/").status, status, "{plugins}");
    };
    check(json!({"csrf": {"key": "$env://SET_SECRET"}}), 200);
    check(json!({"csrf": {"key": "$env://UNSET_SECRET"}}), 503);
    check(session("$env://SET_SECRET"), 200);
    check(session("$env://UNSET_SECRET"), 503);
    check(session("$ENV://SHORT_SECRET"), 503);
    // The route opens when its secret is there.
    vault.answers(|_| Reply::status(404, r#"{"errors":[]}"#));
    weir.put("secrets/vault/1", vault.manager("kv/apisix"));
    check(json!({"csrf": {"key": REFERENCE}}), 503);
    vault.holds(PATH, json!({"key": "a-secret-of-the-vault"}));
    wait_until("the route is open", || weir.client().get("/").status == 200);
}

#[test]
fn vault_outage_keeps_last_key_then_none() {
    let (vault, origin) = (Vault::start(), Origin::answering("ok"));
    vault.holds(PATH, json!({"key": "first-key"}));
    let weir = builder("3000").start();
    weir.put("secrets/vault/1", vault.manager("kv/apisix"));
    protect(&weir, &origin, REFERENCE);
    await_status(&weir, "first-key", 200);
    vault.answers(|_| Reply::status(503, "sealed"));
    wait_until("the value is an old one", || {
        metrics(&weir).contains("weir_secret_references{state=\"stale\"} 1\n")
    });
    assert_eq!(status_with(&weir, "first-key"), 200);
    await_status(&weir, "first-key", 401);
    wait_until("it is told", || {
        weir.stderr().iter().any(|line| line.contains("vault answers with status 503"))
    });
    vault.holds(PATH, json!({"key": "first-key"}));
    await_status(&weir, "first-key", 200);
}

#[test]
fn hostile_vault_opens_nothing_and_delays_nothing() {
    let (vault, origin) = (Vault::start(), Origin::answering("ok"));
    let elsewhere = Origin::answering(r#"{"data": {"key": "evil-key"}}"#);
    let weir = builder("60000").start();
    weir.put("secrets/vault/1", vault.manager("kv/apisix"));
    protect(&weir, &origin, REFERENCE);
    let check = |what: &str, reason: &str, behaviour: Box<Behaviour>| {
        let seen = vault.origin.requests().len();
        vault.answers(behaviour);
        vault.origin.wait_for_requests(seen + 2);
        wait_until(what, || weir.stderr().iter().any(|line| line.contains(reason)));
        for key in ["evil-key", REFERENCE, ""] {
            assert_eq!(status_with(&weir, key), 401, "{what}: {key}");
        }
        // A slow vault does not delay a write.
        weir.put(
            "routes/2",
            json!({"uri": format!("/{}", seen), "plugins": {"mocking": {"response_example": "x"}}}),
        );
    };
    let target = format!("http://{}/v1/kv/apisix/jack/auth", elsewhere.address());
    check("a redirect", "redirect (307)", Box::new(move |_| Reply::with(307, &[("Location", &target)], b"")));
    check("garbage", "is not JSON", Box::new(|_| Reply::ok("<html>evil-key</html>")));
    check("no HTTP", "no answer", Box::new(|_| Reply::raw(b"SSH-2.0-OpenSSH_9.9\r\n").close()));
    check("a text for data", "has no data", Box::new(|_| Reply::ok(r#"{"data": "evil-key"}"#)));
    let huge = format!(r#"{{"data": {{"key": "evil-key", "x": "{}"}}}}"#, "x".repeat(2 * 1024 * 1024));
    check("a huge answer", "is longer than", Box::new(move |_| Reply::ok(&huge)));
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{";
    let never = testkit::Signal::new();
    let release = never.clone();
    check(
        "an answer that never ends",
        "no whole answer within 1000 ms",
        Box::new(move |_| Reply::new().send(head).wait(&never)),
    );
    release.set();
    assert_eq!(elsewhere.requests().len(), 0, "no redirect is followed");
    // A wrong token is reported, and never shown.
    let mut manager = vault.manager("kv/apisix");
    manager["token"] = json!("wr0ng-t0k3n");
    weir.put("secrets/vault/1", manager);
    wait_until("the token is refused", || {
        weir.stderr().iter().any(|line| line.contains("refuses the token (403)"))
    });
    assert!(!weir.stderr().iter().any(|line| line.contains("wr0ng-t0k3n") || line.contains(TOKEN)));
    // An address out of bounds, or an unsupported scheme: reported without a request.
    for (manager, reason) in [
        (json!({"uri": "http://169.254.169.254", "prefix": "kv", "token": "t"}), "link-local"),
        (json!({"uri": "ftp://vault", "prefix": "kv", "token": "t"}), "scheme ftp"),
    ] {
        weir.put("secrets/vault/1", manager);
        wait_until(reason, || weir.stderr().iter().any(|line| line.contains(reason)));
    }
    vault.holds(PATH, json!({"key": "good-key"}));
    weir.put("secrets/vault/1", vault.manager("kv/apisix"));
    await_status(&weir, "good-key", 200);
}

#[test]
fn vault_over_tls_needs_good_certificate() {
    let (vault, origin) = (Vault::start(), Origin::answering("ok"));
    vault.holds(PATH, json!({"key": "first-key"}));
    let certificates = Certificates::make();
    let tls = Nginx::start_with_tls(
        &certificates,
        &format!("location / {{ proxy_pass http://{}; }}", vault.origin.address()),
    );
    let mut manager = vault.manager("kv/apisix");
    // The system does not trust the certificate's issuer, so that the gateway sends no request to the vault.
    manager["uri"] = json!(format!("https://localhost:{}", tls.address().port()));
    let weir = builder("60000").start();
    weir.put("secrets/vault/1", manager.clone());
    protect(&weir, &origin, REFERENCE);
    wait_until("the certificate is refused", || {
        weir.stderr().iter().any(|line| line.contains("no TLS with it") && line.contains("secret_ca"))
    });
    assert_eq!((status_with(&weir, "first-key"), vault.origin.requests().len()), (401, 0));
    drop(weir);
    let authority = certificates.authority();
    let weir = builder("60000").arguments(&["--secret-ca", authority.to_str().unwrap()]).start();
    weir.put("secrets/vault/1", manager.clone());
    protect(&weir, &origin, REFERENCE);
    await_status(&weir, "first-key", 200);
    // The same by its IP address, which the certificate has as well.
    vault.holds(PATH, json!({"key": "second-key"}));
    manager["uri"] = json!(format!("https://{}", tls.address()));
    weir.put("secrets/vault/1", manager);
    await_status(&weir, "second-key", 200);
}

#[test]
fn unsupported_managers_are_reported() {
    let origin = Origin::answering("ok");
    let weir = builder("60000").start();
    weir.put("secrets/aws/1", json!({"access_key_id": "a", "secret_access_key": "b"}));
    protect(&weir, &origin, "$secret://aws/1/jack/key");
    wait_until("it is told", || {
        weir.stderr().iter().any(|line| line.contains("secret manager aws are not supported yet"))
    });
    assert_eq!(status_with(&weir, "$secret://aws/1/jack/key"), 401);
    // The fault belongs to the object, and is shown as long as the object exists.
    let faults = || weir.admin("GET", "weir/status", Value::Null).1["faults"].to_string();
    wait_until("it can be read", || {
        faults().contains(
            "$secret://aws/1/jack/key leads nowhere: references to the secret manager aws are not supported",
        )
    });
    weir.put("consumers", json!({"username": "jack", "plugins": {"key-auth": {"key": "a-plain-key"}}}));
    assert_eq!(faults(), "[]");
}

#[test]
fn a_service_gets_a_new_value_and_its_routes_with_it() {
    let (vault, origin) = (Vault::start(), Origin::echoing());
    vault.holds(PATH, json!({"key": "one"}));
    let weir = builder("60000").start();
    weir.put("secrets/vault/1", vault.manager("kv/apisix"));
    let nodes = json!({origin.address().to_string(): 1});
    let rewrite = json!({"headers": {"set": {"X-Token": REFERENCE}}});
    weir.put("services/s", json!({"plugins": {"proxy-rewrite": rewrite}, "upstream": {"nodes": nodes}}));
    for route in ["a", "b"] {
        weir.put(&format!("routes/{route}"), json!({"uri": format!("/{route}"), "service_id": "s"}));
    }
    for value in ["one", "two"] {
        vault.holds(PATH, json!({"key": value}));
        for route in ["/a", "/b"] {
            wait_until("the value is in force", || {
                weir.get(route).text().contains(&format!("X-Token: {value}\r\n"))
            });
        }
    }
    // As with APISIX, an ordinary field keeps the text of a reference without a value. This plugin reads that
    // text as a template.
    vault.answers(|_| Reply::status(404, ""));
    wait_until("the text is what is left", || {
        weir.get("/a").text().contains("X-Token: ://vault/1/jack/auth/key\r\n")
    });
}

#[test]
fn two_references_to_one_key_are_the_first_consumers() {
    let origin = Origin::echoing();
    let weir = builder("60000").environment("ONE", "same-key").environment("TWO", "same-key").start();
    protect(&weir, &origin, "$env://ONE");
    weir.put("consumers", json!({"username": "zoe", "plugins": {"key-auth": {"key": "$env://TWO"}}}));
    let served = || weir.client().request("GET", "/", &[("apikey", "same-key")], b"").text();
    assert!(served().contains("X-Consumer-Username: jack\r\n"), "{}", served());
    wait_until("it is told", || {
        weir.stderr().iter().any(|line| line.contains("its key is that of consumer jack"))
    });
    weir.put("consumers", json!({"username": "jack", "plugins": {"key-auth": {"key": "another-key"}}}));
    assert!(served().contains("X-Consumer-Username: zoe\r\n"), "{}", served());
}

#[test]
fn keyring_keeps_secrets_off_the_disk() {
    const SECRETS: [&str; 2] = ["c0nsum3r-s3cr3t", "h34d3r-s3cr3t"];
    let origin = Origin::answering("ok");
    let mut weir = Weir::builder(BINARY).environment("WEIR_ENCRYPTION_KEYRING", KEYRING).start();
    protect(&weir, &origin, SECRETS[0]);
    let log = json!({"uri": "http://127.0.0.1:1/", "auth_header": SECRETS[1]});
    weir.put("services/s", json!({"plugins": {"http-logger": log}}));
    let made = Certificates::make();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    let (certificate, key) = (read(made.certificate()), read(made.key()));
    let middle_of_key = key.lines().nth(1).unwrap();
    weir.put("ssls/1", json!({"sni": "a.test", "cert": certificate, "key": key}));
    assert_eq!(status_with(&weir, SECRETS[0]), 200);
    weir.kill();
    for file in std::fs::read_dir(weir.data()).unwrap() {
        let path = file.unwrap().path();
        let Ok(bytes) = std::fs::read(&path) else { continue };
        for secret in SECRETS.into_iter().chain([KEYRING, middle_of_key]) {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{} holds {secret}", path.display());
        }
    }
    let weir = weir.restart();
    assert_eq!(status_with(&weir, SECRETS[0]), 200, "and it opens again");
    let (_, service) = weir.admin("GET", "services/s", Value::Null);
    assert_eq!(service["value"]["plugins"]["http-logger"]["auth_header"], SECRETS[1]);
    let dump = Client::connect(weir.address("control")).get("/v1/services").text();
    assert!(dump.contains("\"auth_header\":\"***\"") && !dump.contains(SECRETS[1]), "{dump}");
}

#[test]
fn certificates_and_keys_are_checked_when_written() {
    let weir = Weir::start(BINARY);
    let made = [Certificates::make(), Certificates::make()];
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    let (cert, key, other_key) = (read(made[0].certificate()), read(made[0].key()), read(made[1].key()));
    let put = |cert: &str, key: &str| {
        let (status, answer) =
            weir.admin("PUT", "ssls/1", json!({"snis": ["a.example"], "cert": cert, "key": key}));
        (status, answer["error_msg"].as_str().unwrap_or_default().to_owned())
    };
    let refused = |cert: &str, key: &str, expected: &str| {
        let (status, message) = put(cert, key);
        assert!(status == 400 && message.starts_with(expected), "{status} {message}");
    };
    refused(&"x".repeat(200), &"y".repeat(200), "failed to parse cert: ");
    refused(&cert, &"y".repeat(200), "failed to parse key: ");
    let framed = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", "AAAA".repeat(32));
    refused(&cert, &framed, "failed to parse key: ");
    refused(&cert, &other_key, "failed to parse key: it does not belong to the certificate");
    assert_eq!(put(&cert, &key), (201, String::new()));
    let (_, shown) = weir.admin("GET", "ssls/1", Value::Null);
    assert_eq!(shown["value"].get("key"), None);
    assert_eq!(put("$env://CERT", "$secret://vault/1/tls/key"), (200, String::new()));
    let (_, shown) = weir.admin("GET", "ssls/1", Value::Null);
    let expected = (&json!("$env://CERT"), &json!("$secret://vault/1/tls/key"));
    assert_eq!((&shown["value"]["cert"], &shown["value"]["key"]), expected);
}
