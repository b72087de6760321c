//! A real Keycloak, started once for all tests of a process because it takes half a minute.
//! `lab/install.sh peers` installs it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, Response};
use crate::foreign::free_address;

/// A running Keycloak.
#[derive(Debug)]
pub struct Keycloak {
    address: SocketAddr,
    management: SocketAddr,
    /// Its shell ends Keycloak when the standard input is closed, and that happens when this process ends.
    shell: Child,
}

/// The longest start: half a minute on an idle machine with two cores, and minutes on one that compiles at
/// the same time.
const START_MAX: Duration = Duration::from_secs(400);
/// Between two looks whether it is ready.
const START_POLL: Duration = Duration::from_millis(200);

/// Runs the arguments until the standard input ends.
pub(crate) const SHELL: &str = "set -m; \"$@\" >/dev/null 2>&1 & read -r _; kill -KILL -- -$!";

impl Keycloak {
    /// The one of this process, started at the first call.
    pub fn shared() -> &'static Keycloak {
        static SHARED: OnceLock<Keycloak> = OnceLock::new();
        SHARED.get_or_init(Keycloak::start)
    }

    fn start() -> Keycloak {
        let (address, management) = (free_address(), free_address());
        let mut command = Command::new("bash");
        command.args(["-c", SHELL, "keycloak"]).arg(installed().join("bin/kc.sh"));
        // The database in memory and the health endpoints are part of the build that the installation has
        // made.
        command.args([
            "start",
            "--optimized",
            "--cache=local",
            "--http-enabled=true",
            "--hostname-strict=false",
        ]);
        command.arg("--http-host=127.0.0.1").arg(format!("--http-port={}", address.port()));
        command.arg(format!("--http-management-port={}", management.port()));
        command.env("KC_BOOTSTRAP_ADMIN_USERNAME", ADMIN).env("KC_BOOTSTRAP_ADMIN_PASSWORD", ADMIN);
        command.env("JAVA_OPTS_KC_HEAP", "-Xms64m -Xmx400m");
        let shell = command.stdin(Stdio::piped()).spawn().expect("bash can be started");
        let keycloak = Keycloak { address, management, shell };
        keycloak.wait_until_ready();
        keycloak
    }

    fn wait_until_ready(&self) {
        let deadline = Instant::now() + START_MAX;
        loop {
            let asked = Client::try_connect(self.management).ok();
            let answer =
                asked.and_then(|mut client| client.try_request("GET", "/health/ready", &[], b"").ok());
            if answer.is_some_and(|answer| answer.status == 200) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "Keycloak ({}) is not ready after {START_MAX:?}",
                self.shell.id()
            );
            thread::sleep(START_POLL);
        }
    }

    /// Makes a realm, which holds clients, roles and users.
    pub fn add_realm(&self, realm: &Value) {
        let body = format!("grant_type=password&client_id=admin-cli&username={ADMIN}&password={ADMIN}");
        let token = self.token("master", &body);
        let bearer = format!("Bearer {token}");
        let fields = [("Authorization", &*bearer), ("Content-Type", "application/json")];
        let body = realm.to_string();
        let made = Client::connect(self.address).request("POST", "/admin/realms", &fields, body.as_bytes());
        assert_eq!(made.status, 201, "{}", made.text());
    }

    /// The access token that a realm hands out for this form.
    pub fn token(&self, realm: &str, form: &str) -> String {
        let answer = self.tokens(realm, form);
        let token = answer.json()["access_token"].as_str().map(str::to_owned);
        token.unwrap_or_else(|| panic!("{realm}: {}", answer.text()))
    }

    /// The answer of the token endpoint of a realm to this form.
    pub fn tokens(&self, realm: &str, form: &str) -> Response {
        let path = format!("/realms/{realm}/protocol/openid-connect/token");
        let fields = [("Content-Type", "application/x-www-form-urlencoded")];
        Client::connect(self.address).request("POST", &path, &fields, form.as_bytes())
    }

    /// The URL of a realm, which its issuer is.
    pub fn realm(&self, name: &str) -> String {
        format!("http://{}/realms/{name}", self.address)
    }

    /// A client with a secret that may do everything, in the form of Keycloak's exports.
    pub fn client(id: &str, secret: &str) -> Value {
        json!({
            "clientId": id, "secret": secret, "enabled": true, "publicClient": false, "standardFlowEnabled": true,
            "directAccessGrantsEnabled": true, "serviceAccountsEnabled": true, "redirectUris": ["*"],
            "attributes": {"post.logout.redirect.uris": "*"},
        })
    }

    /// A user with a password, in the form of Keycloak's exports.
    pub fn user(name: &str, password: &str, roles: &[&str]) -> Value {
        json!({
            "username": name, "enabled": true, "email": format!("{name}@example.test"), "emailVerified": true,
            "firstName": name, "lastName": "Test", "realmRoles": roles,
            "credentials": [{"type": "password", "value": password, "temporary": false}],
        })
    }
}

/// Name and password of the administrator.
const ADMIN: &str = "admin";

fn installed() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-java/keycloak");
    assert!(folder.exists(), "{} is not there; run lab/install.sh peers", folder.display());
    folder
}
