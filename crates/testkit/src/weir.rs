//! The real binary as a child process on free ports; knows its command line and its output, nothing of its insides.

mod builder;
mod successor;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

pub use builder::{Exited, WeirBuilder};
pub use successor::Successor;

use crate::client::{Client, Response};
use crate::process::Process;

/// A running gateway with its own data directory; killed when dropped, and its log shown when the test failed.
#[derive(Debug)]
pub struct Weir {
    builder: WeirBuilder,
    directory: Arc<TempDir>,
    addresses: HashMap<String, SocketAddr>,
    process: Process,
}

impl Weir {
    /// Starts `binary` (a test passes `env!("CARGO_BIN_EXE_weir")`) with one worker on its embedded store.
    pub fn start(binary: &str) -> Weir {
        Weir::builder(binary).start()
    }

    /// A start with other arguments, environment or files.
    pub fn builder(binary: &str) -> WeirBuilder {
        WeirBuilder::new(binary)
    }

    /// Where the listener of this name (`proxy`, `admin`, `control`, `status`, `metrics`) is; panics when it is off.
    pub fn address(&self, name: &str) -> SocketAddr {
        *self.addresses.get(name).unwrap_or_else(|| panic!("no listener {name} among {:?}", self.addresses))
    }

    /// Where the proxy listens.
    pub fn proxy(&self) -> SocketAddr {
        self.address("proxy")
    }

    /// A fresh connection to the proxy.
    pub fn client(&self) -> Client {
        Client::connect(self.proxy())
    }

    /// `GET path` through the proxy on a fresh connection.
    pub fn get(&self, path: &str) -> Response {
        self.client().get(path)
    }

    /// One Admin API request with the key: the status and the JSON answer (`Value::Null` when it has no body).
    /// `path` is beneath `/apisix/admin/` unless it starts with a slash; a `Value::Null` body sends none.
    pub fn admin(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = self.admin_raw(method, path, &[("X-API-KEY", ADMIN_KEY)], body.as_bytes());
        let json = if response.body.is_empty() { Value::Null } else { response.json() };
        (response.status, json)
    }

    /// One Admin API request with these fields and no others, on a fresh connection.
    pub fn admin_raw(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/apisix/admin/{path}") };
        Client::connect(self.address("admin")).request(method, &path, headers, body)
    }

    /// Puts an object through the Admin API; panics with the answer unless it is 200 or 201.
    pub fn put(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.admin("PUT", path, body);
        assert!(matches!(status, 200 | 201), "PUT {path}: {status} {answer}");
        answer
    }

    /// Removes an object through the Admin API; panics with the answer unless it is 200.
    pub fn delete(&self, path: &str) {
        let (status, answer) = self.admin("DELETE", path, Value::Null);
        assert_eq!(status, 200, "DELETE {path}: {answer}");
    }

    /// The directory of this gateway's files; its store is in `data` beneath it.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        builder::data_directory(self.directory())
    }

    /// Replaces the resources file that it was started with, in one step as an editor does.
    pub fn rewrite_resources(&self, text: &str) {
        builder::write_resources(self.directory(), text);
    }

    /// Replaces the settings file that it was started with, in one step as an editor does.
    pub fn rewrite_settings(&self, text: &str) {
        builder::write_settings(self.directory(), text);
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// What it wrote to standard output so far, by line.
    pub fn stdout(&self) -> Vec<String> {
        self.process.stdout.all()
    }

    /// What it wrote to standard error so far, by line.
    pub fn stderr(&self) -> Vec<String> {
        self.process.stderr.all()
    }

    /// Begins to read a standard error that was not read until now.
    pub fn read_stderr(&mut self) {
        self.process.read_stderr();
    }

    /// Asks it to reload its files (HUP).
    pub fn reload(&self) {
        self.signal(Signal::HUP);
    }

    /// Asks it to drain and stop (TERM).
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Asks it to stop at once (INT).
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Asks it to open its log files again (USR1).
    pub fn reopen_logs(&self) {
        self.signal(Signal::USR1);
    }

    /// Ends it without a chance to tidy up (KILL), and waits until it is gone.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.process.wait();
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.process.ended().is_none()
    }

    /// Waits for its end.
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        self.process.wait()
    }

    /// Starts it again on the same data directory, on new ports. The old one is killed if it still runs.
    pub fn restart(mut self) -> Weir {
        if self.is_running() {
            self.kill();
        }
        let (builder, directory) = (self.builder.clone(), Arc::clone(&self.directory));
        drop(self);
        builder.start_in(directory).unwrap_or_else(|exited| panic!("{exited}"))
    }

    fn signal(&self, signal: Signal) {
        assert!(self.process.signal(signal), "the gateway is gone:\n{}", self.process.stderr.text());
    }
}

impl Drop for Weir {
    #[allow(clippy::print_stderr, reason = "the log of a failed test belongs beside its panic message")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the gateway's standard error ---\n{}\n---", self.process.stderr.text());
        }
    }
}

/// The Admin key that every gateway under test gets in its environment.
pub const ADMIN_KEY: &str = "weir-test-admin-key-0123456789abcdef";
