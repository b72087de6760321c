//! A contender of Debian as the laboratory starts it, and its answers and changes over HTTP/1.1.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{FOLDER, said};

/// Time for a whole start of a gateway on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether a program of Debian is installed.
pub(super) fn is_installed(name: &str) -> bool {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    folders.iter().any(|folder| Path::new(folder).join(name).exists())
}

#[test]
fn nginx_forwards_and_takes_a_change() {
    forwards_and_takes_a_change("nginx");
}

#[test]
fn haproxy_forwards_and_takes_a_change() {
    forwards_and_takes_a_change("haproxy");
}

#[test]
fn nginx_and_haproxy_forward_to_several_endpoints() {
    for (name, protection) in ["nginx", "haproxy"]
        .iter()
        .flat_map(|name| ["default", "recommended"].map(|protection| (*name, protection)))
    {
        if !is_installed(name) {
            continue;
        }
        let mut gateway = Gateway::protected(name, protection);
        for (path, wanted) in [("/1", "first GET /1"), ("/2", "second GET /2")] {
            gateway.wait_for(path, wanted, |answer| answer.ends_with(wanted));
        }
    }
}

fn forwards_and_takes_a_change(name: &str) {
    if !is_installed(name) {
        return;
    }
    let mut gateway = Gateway::start(name, "http");
    gateway.wait_for("/any/path", "HTTP/1.1 200", |answer| answer.ends_with("GET /any/path"));
    gateway.wait_for("/sodik/any/path", "the path without its prefix", |answer| {
        answer.ends_with("GET /any/path")
    });
    gateway.wait_for("/service-000001/items/7", "a further route", |answer| {
        answer.ends_with("GET /service-000001/items/7")
    });
    for number in ["1", "2"] {
        let output = gateway.command("change").arg(number).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let line = format!("x-configuration: {number}\r\n");
        gateway.wait_for("/change", &line, |answer| answer.to_lowercase().contains(&line));
    }
}

/// A started contender, and an origin behind it; both are ended with it.
pub(super) struct Gateway {
    name: String,
    protocol: &'static str,
    directory: TempDir,
    pub(super) address: SocketAddr,
    origin: SocketAddr,
    /// Further variables of the script.
    more: Vec<(&'static str, String)>,
    child: Option<Child>,
}

impl Gateway {
    /// Starts a contender for clients of this protocol.
    pub(super) fn start(name: &str, protocol: &'static str) -> Self {
        Self::start_with(name, protocol, Vec::new())
    }

    /// Starts a contender in front of two endpoints, with these settings for failing ones.
    fn protected(name: &str, protection: &str) -> Self {
        let endpoints = format!("{} {}", origin("first "), origin("second "));
        Self::start_with(name, "http", vec![("ENDPOINTS", endpoints), ("PROTECTION", protection.to_owned())])
    }

    pub(super) fn start_with(name: &str, protocol: &'static str, more: Vec<(&'static str, String)>) -> Self {
        let directory = TempDir::new().unwrap();
        let address = testkit::free_address();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(directory.path().join("site.pem"), made.cert.pem()).unwrap();
        fs::write(directory.path().join("site-key.pem"), made.signing_key.serialize_pem()).unwrap();
        let mut gateway =
            Self { name: name.into(), protocol, directory, address, origin: origin(""), more, child: None };
        let errors = fs::File::create(gateway.directory.path().join("errors")).unwrap();
        gateway.child = Some(gateway.command("run").process_group(0).stderr(errors).spawn().unwrap());
        gateway
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(Path::new(FOLDER).join(&self.name).join("start.sh"));
        command.arg(verb).stdin(Stdio::null()).stdout(Stdio::null());
        command.env("CACHE", self.directory.path().join("cache")).env("DIRECTORY", self.directory.path());
        command.env("LISTEN", self.address.to_string()).env("ORIGIN", self.origin.to_string());
        command.env("ROUTES", "10").env("CONNECTIONS", "100").env("PROTOCOL", self.protocol);
        command.envs(self.more.iter().map(|(name, value)| (name, value)));
        for (variable, file) in [("CERTIFICATE", "site.pem"), ("KEY", "site-key.pem")] {
            command.env(variable, self.directory.path().join(file));
        }
        command
    }

    /// Sends requests of HTTP/1.1 until the response is right; `what` is for the message if it never is.
    fn wait_for(&mut self, path: &str, what: &str, right: impl Fn(&str) -> bool) {
        let address = self.address;
        self.wait_until(|| ask(address, path).unwrap_or_default(), what, right);
    }

    /// Asks until the answer is right; `what` is for the message if it never is.
    pub(super) fn wait_until(&mut self, ask: impl Fn() -> String, what: &str, right: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut answer = String::new();
        while Instant::now() < deadline {
            answer = ask();
            if right(&answer) {
                return;
            }
            assert!(
                self.child.as_mut().unwrap().try_wait().unwrap().is_none(),
                "it ended: {}",
                self.errors()
            );
            thread::yield_now();
        }
        panic!("{} of {}: no {what}, but {answer:?}; it says: {}", self.protocol, self.name, self.errors());
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.directory.path().join("errors")).unwrap_or_default()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // The master of such a gateway ends its workers if it gets the time; the process group is killed
            // in any case.
            let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status();
            let _ = child.wait();
        }
    }
}

fn ask(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Answers each request with a prefix, its method and its target; runs as long as the test's process.
fn origin(prefix: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_all(stream, prefix));
        }
    });
    address
}

fn answer_all(mut stream: TcpStream, prefix: &str) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    while let Some(Ok(first)) = lines.next() {
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let body = format!("{prefix}{}", first.rsplit_once(' ').unwrap_or_default().0);
        if write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).is_err() {
            return;
        }
    }
}
