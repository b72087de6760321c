//! A root in which the package is installed, and how its service is asked.

use std::fs;
use std::net::SocketAddr;

use serde_json::{Value, json};
use testkit::{Client, Response, wait_until};

use crate::clean_root::CleanRoot;
use crate::host;

/// The proxy's default address in the package.
pub(crate) const PROXY: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9080);
/// The Admin API's.
pub(crate) const ADMIN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9180);
/// The address of the echo origin in the root.
pub(crate) const ORIGIN: &str = "127.0.0.1:8080";
/// The settings of the service.
pub(crate) const SETTINGS: &str = "/etc/weir/weir.yaml";

/// Answers that conffiles are kept, as unattended upgrades do.
const KEEP: &str = "-o Dpkg::Options::=--force-confold";

/// A booted root with the package of [`host::OLDER`]; none where this machine cannot boot one.
pub(crate) fn boot() -> Option<CleanRoot> {
    let root = CleanRoot::boot()?;
    root.install(host::older_package());
    Some(root)
}

impl CleanRoot {
    /// Installs a package file by apt, without a network; returns the output.
    pub(crate) fn install(&self, package: &std::path::Path) -> String {
        let file = self.take(package);
        self.must(&format!("apt-get install --yes {KEEP} {file}"))
    }

    /// Starts the echo origin of the installed program as a service of its own.
    pub(crate) fn start_origin(&self) {
        self.must(&format!("systemd-run --quiet --unit=origin /usr/bin/weir origin --listen {ORIGIN}"));
        self.in_network(|| {
            wait_until("the origin listens", || Client::try_connect(ORIGIN.parse().unwrap()).is_ok())
        });
    }

    /// The Admin key, where the page of the installation says that it is.
    pub(crate) fn admin_key(&self) -> String {
        self.must("cat /var/lib/weir/admin.key").trim().to_owned()
    }

    /// Makes a route of every path to the echo origin.
    pub(crate) fn put_route(&self) {
        let route = json!({"uri": "/*", "upstream": {"nodes": {ORIGIN: 1}}});
        let (status, answer) = self.admin("PUT", "routes/1", &route);
        assert!(matches!(status, 200 | 201), "{status} {answer}");
        self.in_network(|| {
            wait_until("the route is in force", || Client::connect(PROXY).get("/a").status == 200)
        });
    }

    /// Asks the Admin API.
    pub(crate) fn admin(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let key = self.admin_key();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let path = format!("/apisix/admin/{path}");
        let answer = self.in_network(|| {
            Client::connect(ADMIN).request(method, &path, &[("X-API-KEY", &key)], body.as_bytes())
        });
        (answer.status, serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
    }

    /// One request through the proxy on a connection of its own.
    pub(crate) fn get(&self, path: &str) -> Response {
        self.in_network(|| Client::connect(PROXY).get(path))
    }

    /// A property of the unit of the package.
    pub(crate) fn property(&self, name: &str) -> String {
        self.property_of("weir", name)
    }

    /// A property of any service.
    pub(crate) fn property_of(&self, service: &str, name: &str) -> String {
        self.must(&format!("systemctl show --value --property={name} {service}.service")).trim().to_owned()
    }

    /// The messages of the unit so far.
    pub(crate) fn journal(&self) -> String {
        self.must("journalctl --sync; journalctl --quiet --no-pager --output=cat --unit=weir.service")
    }

    /// Waits until the journal has a text; panics with the journal.
    pub(crate) fn wait_for_journal(&self, text: &str) {
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until(text, || self.journal().contains(text));
        }));
        assert!(found.is_ok(), "`{text}` is not in the journal:\n{}", self.journal());
    }

    /// Replaces a text of the settings file, which must have it.
    pub(crate) fn change_settings(&self, from: &str, to: &str) {
        let path = self.path(SETTINGS);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replacen(from, to, 1)).unwrap();
    }
}
