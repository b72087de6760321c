//! A real OpenID provider that starts within two seconds: npm's oidc-provider. `lab/install.sh test` installs
//! it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::Process;
use crate::wait::wait_for;

/// A running provider; killed when dropped. Every user has the name as password, or any other.
#[derive(Debug)]
pub struct OpenidProvider {
    issuer: String,
    process: Process,
    _folder: TempDir,
}

impl OpenidProvider {
    /// Starts it with these clients, in the form of its documentation.
    pub fn start(clients: Value) -> OpenidProvider {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let script = folder.path().join("provider.mjs");
        fs::write(&script, include_str!("openid_provider.mjs")).expect("a writable temporary directory");
        let settings = serde_json::json!({ "clients": clients });
        let mut command = Command::new(installed("node"));
        command.arg(script).arg(installed("node_modules")).arg(settings.to_string());
        let mut process = Process::spawn(&mut command).expect("node can be started");
        let issuer = wait_for("the OpenID provider serves", || {
            let issuer =
                process.stdout.all().iter().find_map(|line| Some(line.strip_prefix("issuer ")?.to_owned()));
            assert!(issuer.is_some() || process.ended().is_none(), "it ended: {}", process.stderr.text());
            issuer
        });
        OpenidProvider { issuer, process, _folder: folder }
    }

    /// Its issuer, which its URLs begin with.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The URL of its discovery document.
    pub fn discovery(&self) -> String {
        format!("{}/.well-known/openid-configuration", self.issuer)
    }

    /// The private key, in PEM, of its clients that authenticate with it; its identifier is `client-key`.
    pub fn client_key(&self) -> String {
        let key =
            self.process.stdout.all().iter().find_map(|line| Some(line.strip_prefix("key ")?.to_owned()));
        serde_json::from_str(&key.expect("it is written before the issuer")).expect("a text in JSON")
    }

    /// The errors that it has written.
    pub fn log(&self) -> String {
        self.process.stderr.text()
    }
}

/// A file that `lab/install.sh test` installs.
pub(crate) fn installed(name: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-node").join(name);
    assert!(file.exists(), "{} is not there; run lab/install.sh test", file.display());
    file
}
