//! The real binary as a child process on free ports. It uses only the command line, the output and sockets.

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

/// A running gateway with its own data directory; killed when dropped. Its log is printed if the test failed.
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

    /// A builder for other arguments, environment variables or files.
    pub fn builder(binary: &str) -> WeirBuilder {
        WeirBuilder::new(binary)
    }

    /// The address of a listener (`proxy`, `admin`, `control`, `status`, `metrics`); panics if it is off.
    pub fn address(&self, name: &str) -> SocketAddr {
        *self.addresses.get(name).unwrap_or_else(|| panic!("no listener {name} among {:?}", self.addresses))
    }

    /// The address of the proxy listener.
    pub fn proxy(&self) -> SocketAddr {
        self.address("proxy")
    }

    /// A new connection to the proxy.
    pub fn client(&self) -> Client {
        Client::connect(self.proxy())
    }

    /// Sends `GET path` to the proxy on a new connection.
    pub fn get(&self, path: &str) -> Response {
        self.client().get(path)
    }

    /// Sends an Admin API request with the key; returns the status and the JSON answer (`Value::Null` without
    /// a body). `path` is below `/apisix/admin/` unless it starts with a slash; with `Value::Null` no body is
    /// sent.
    pub fn admin(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = self.admin_raw(method, path, &[("X-API-KEY", ADMIN_KEY)], body.as_bytes());
        let json = if response.body.is_empty() { Value::Null } else { response.json() };
        (response.status, json)
    }

    /// Sends an Admin API request with only these header fields, on a new connection.
    pub fn admin_raw(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/apisix/admin/{path}") };
        Client::connect(self.address("admin")).request(method, &path, headers, body)
    }

    /// Puts an object with the Admin API; panics with the answer unless the status is 200 or 201.
    pub fn put(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.admin("PUT", path, body);
        assert!(matches!(status, 200 | 201), "PUT {path}: {status} {answer}");
        answer
    }

    /// Deletes an object with the Admin API; panics with the answer unless the status is 200.
    pub fn delete(&self, path: &str) {
        let (status, answer) = self.admin("DELETE", path, Value::Null);
        assert_eq!(status, 200, "DELETE {path}: {answer}");
    }

    /// The directory of the files of this gateway; the store is in `data` below it.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        builder::data_directory(self.directory())
    }

    /// Replaces its resource file atomically, as an editor does.
    pub fn rewrite_resources(&self, text: &str) {
        builder::write_resources(self.directory(), text);
    }

    /// Replaces its settings file atomically, as an editor does.
    pub fn rewrite_settings(&self, text: &str) {
        builder::write_settings(self.directory(), text);
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The lines of its standard output so far.
    pub fn stdout(&self) -> Vec<String> {
        self.process.stdout.all()
    }

    /// The lines of its standard error so far.
    pub fn stderr(&self) -> Vec<String> {
        self.process.stderr.all()
    }

    /// Begins to read its standard error.
    pub fn read_stderr(&mut self) {
        self.process.read_stderr();
    }

    /// Sends HUP: reload the files.
    pub fn reload(&self) {
        self.signal(Signal::HUP);
    }

    /// Sends TERM: drain and stop.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends INT: stop at once.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Sends USR1: open the log files again.
    pub fn reopen_logs(&self) {
        self.signal(Signal::USR1);
    }

    /// Sends KILL, and waits until the process has ended.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.process.wait();
    }

    /// Whether the process still runs.
    pub fn is_running(&mut self) -> bool {
        self.process.ended().is_none()
    }

    /// Waits until the process ends.
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        self.process.wait()
    }

    /// Starts the binary again on the same data directory and new ports. A running process is killed first.
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

/// The Admin key in the environment of every gateway under test.
pub const ADMIN_KEY: &str = "weir-test-admin-key-0123456789abcdef";
