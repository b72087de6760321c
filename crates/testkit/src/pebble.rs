//! Pebble, a certificate authority for tests that speaks ACME, with a name server of its own.
//! `lab/install.sh test` installs both.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::foreign::{ATTEMPTS, free_address, go_program, listens};
use crate::process::Process;

/// A running Pebble and its name server; killed when dropped.
#[derive(Debug)]
pub struct Pebble {
    settings: PebbleSettings,
    directory: SocketAddr,
    management: SocketAddr,
    names: SocketAddr,
    names_management: SocketAddr,
    certificates: Certificates,
    folder: TempDir,
    process: Option<Process>,
    _names_process: Process,
}

/// The parameters of a Pebble.
#[derive(Clone, Debug)]
pub struct PebbleSettings {
    /// The port at which it asks for answers to HTTP-01.
    pub http_port: u16,
    /// The port at which it asks for answers to TLS-ALPN-01.
    pub tls_port: u16,
    /// How long its certificates are valid.
    pub validity_seconds: u64,
    /// Id and key (base64url) of the external account that new accounts must be bound to.
    pub external_account: Option<(String, String)>,
    /// Percentage of requests that are refused for their nonce.
    pub nonce_reject: u32,
}

impl Default for PebbleSettings {
    fn default() -> PebbleSettings {
        PebbleSettings {
            http_port: 1,
            tls_port: 1,
            validity_seconds: 7_776_000,
            external_account: None,
            // The client asks three times: 5 %, the default of the program, would fail one run in fifty.
            nonce_reject: 1,
        }
    }
}

impl Pebble {
    /// A port that is free at this moment, for a listener that Pebble has to know before it is there.
    pub fn free_port() -> u16 {
        free_address().port()
    }

    /// Starts it; every name leads to this machine.
    pub fn start(settings: PebbleSettings) -> Pebble {
        for _ in 0..ATTEMPTS {
            if let Some(pebble) = Pebble::try_start(settings.clone()) {
                return pebble;
            }
        }
        panic!("pebble found no free ports in {ATTEMPTS} attempts");
    }

    fn try_start(settings: PebbleSettings) -> Option<Pebble> {
        let [directory, management, names, names_management] = [(); 4].map(|()| free_address());
        let mut command = Command::new(go_program("pebble-challtestsrv"));
        command.args(["-management", &names_management.to_string(), "-dnsserver", &names.to_string()]);
        command.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""]);
        command.args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""]);
        let mut names_process = Process::spawn(&mut command).expect("pebble-challtestsrv can be started");
        if !listens(names_management, &mut names_process) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary directory");
        let certificates = Certificates::make();
        let mut pebble = Pebble {
            settings,
            directory,
            management,
            names,
            names_management,
            certificates,
            folder,
            process: None,
            _names_process: names_process,
        };
        pebble.spawn().then_some(pebble)
    }

    /// Starts it again, without the accounts and orders that it had: it keeps them in memory only.
    pub fn restart(&mut self) {
        self.stop();
        assert!(self.spawn(), "pebble starts again on its ports");
    }

    /// Kills it; its name server goes on.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts it again after [`Pebble::stop`].
    pub fn go_on(&mut self) {
        assert!(self.spawn(), "pebble starts again on its ports");
    }

    fn spawn(&mut self) -> bool {
        let config = self.folder.path().join("pebble.json");
        fs::write(&config, self.config().to_string()).expect("a writable temporary directory");
        let mut command = Command::new(go_program("pebble"));
        command.arg("-config").arg(&config).args(["-dnsserver", &self.names.to_string()]);
        command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_AUTHZREUSE", "0");
        command.env("PEBBLE_WFE_NONCEREJECT", self.settings.nonce_reject.to_string());
        let mut process = Process::spawn(&mut command).expect("pebble can be started");
        let listens = listens(self.directory, &mut process) && listens(self.management, &mut process);
        self.process = Some(process);
        listens
    }

    fn config(&self) -> Value {
        let bound = self.settings.external_account.iter();
        let keys: serde_json::Map<String, Value> =
            bound.map(|(id, key)| (id.clone(), Value::String(key.clone()))).collect();
        json!({ "pebble": {
            "listenAddress": self.directory.to_string(),
            "managementListenAddress": self.management.to_string(),
            "certificate": self.certificates.certificate(),
            "privateKey": self.certificates.key(),
            "httpPort": self.settings.http_port,
            "tlsPort": self.settings.tls_port,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": !keys.is_empty(),
            "externalAccountMACKeys": keys,
            "retryAfter": { "authz": 1, "order": 1 },
            "keyAlgorithm": "ecdsa",
            "profiles": { "default": {
                "description": "for tests",
                "validityPeriod": self.settings.validity_seconds,
            } },
        } })
    }

    /// The URL of its directory.
    pub fn directory(&self) -> String {
        format!("https://{}/dir", self.directory)
    }

    /// The authority (PEM) that has signed the certificate of its API, not those that it issues.
    pub fn api_authority(&self) -> PathBuf {
        self.certificates.authority()
    }

    /// Writes the root (PEM) of the certificates that it issues to a file.
    pub fn root(&self) -> PathBuf {
        let root = self.folder.path().join("root.pem");
        fs::write(&root, self.ask_management("roots/0")).expect("a writable temporary directory");
        root
    }

    /// The errors and requests that it has logged.
    pub fn log(&self) -> String {
        self.process.as_ref().map(|process| process.stdout.text()).unwrap_or_default()
    }

    /// The name server's management API, by which TXT records are set and removed.
    pub fn names_management(&self) -> SocketAddr {
        self.names_management
    }

    fn ask_management(&self, path: &str) -> String {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--fail", "--cacert"]).arg(self.api_authority());
        let output = command.arg(format!("https://{}/{path}", self.management)).output();
        let output = output.expect("curl: `make test` installs it");
        assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
