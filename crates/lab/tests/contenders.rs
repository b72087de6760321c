//! Compares the contenders' folders with each other and with the interface of `lab/contenders/lib.sh`. It installs and
//! measures nothing; nginx and HAProxy are started if they are installed.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lab::contender::Definition;
use lab::scenario::Protocol;
use tempfile::TempDir;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/contenders");
/// Time for a whole start of a gateway on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn definitions() -> BTreeMap<String, Definition> {
    let folders =
        fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(path.join("contender.yaml")).unwrap();
        (name.clone(), Definition::parse(&name, &text).unwrap())
    };
    folders.map(read).collect()
}

/// The start scripts, by folder.
fn scripts() -> BTreeMap<String, PathBuf> {
    let script = |name: String| (name.clone(), Path::new(FOLDER).join(name).join("start.sh"));
    definitions().into_keys().map(script).filter(|(_, path)| path.exists()).collect()
}

fn call(script: &Path, words: &[&str], cache: &Path) -> Output {
    Command::new(script).args(words).env("CACHE", cache).env("WEIR", "/nowhere/weir").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_mentioned_contender_has_a_folder() {
    let names: BTreeSet<String> = definitions().into_keys().collect();
    let wanted = [
        "direct",
        "nginx",
        "haproxy",
        "envoy",
        "traefik",
        "caddy",
        "h2o",
        "pingora",
        "zuul1",
        "zuul2",
        "scg",
        "edgeservice",
        "netty-l4",
        "netty-l7",
        "ngx-lua-empty",
        "weir",
        "weir-five-plugins",
        "weir-ten-plugins",
        "weir-10000-routes",
    ];
    for name in wanted {
        assert!(names.contains(name), "there is no {name}");
    }
}

#[test]
fn contender_folder_has_program_or_is_variant() {
    let scripts = scripts();
    for (name, definition) in definitions() {
        let of = definition.variant_of.as_deref().unwrap_or(&name);
        assert_eq!(scripts.contains_key(&name), of == name, "{name}");
        assert!(scripts.contains_key(of), "{name} is a variant of {of}, which has no start.sh");
        assert!(!definition.title.is_empty() && !definition.about.is_empty(), "{name}");
    }
}

#[test]
fn script_runs_and_refuses_unknown_arguments() {
    let cache = TempDir::new().unwrap();
    for (name, script) in scripts() {
        assert_ne!(fs::metadata(&script).unwrap().permissions().mode() & 0o111, 0, "{name}");
        assert!(Command::new("bash").arg("-n").arg(&script).status().unwrap().success(), "{name}");
        for words in [&[][..], &["stop"], &["change"], &["change", "x"]] {
            let output = call(&script, words, cache.path());
            assert_eq!(output.status.code(), Some(2), "{name} {words:?}: {}", said(&output));
            assert!(said(&output).contains("usage: "), "{name} {words:?}: {}", said(&output));
        }
    }
}

#[test]
fn a_script_says_which_variable_it_misses() {
    for (name, script) in scripts() {
        let output = Command::new(&script).arg("install").env_remove("CACHE").output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(said(&output).contains("$CACHE is not set"), "{name}: {}", said(&output));
    }
}

#[test]
fn changeable_contenders_declare_it() {
    let definitions = definitions();
    for (name, script) in scripts() {
        let can = fs::read_to_string(script).unwrap().contains("\ncontender_reload()");
        assert_eq!(definitions[&name].changes, can, "{name}");
        for variant in definitions.values().filter(|each| each.variant_of.as_ref() == Some(&name)) {
            assert_eq!(variant.changes, can, "{}", variant.name);
            let wanted: BTreeSet<Protocol> = definitions[&name].protocols.iter().copied().collect();
            assert_eq!(
                variant.protocols.iter().copied().collect::<BTreeSet<_>>(),
                wanted,
                "{}",
                variant.name
            );
        }
    }
}

#[test]
fn nginx_forwards_and_takes_a_change() {
    forwards_and_takes_a_change("nginx");
}

#[test]
fn haproxy_forwards_and_takes_a_change() {
    forwards_and_takes_a_change("haproxy");
}

fn forwards_and_takes_a_change(name: &str) {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    if !folders.iter().any(|folder| Path::new(folder).join(name).exists()) {
        return;
    }
    let mut gateway = Gateway::start(name);
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
struct Gateway {
    name: String,
    directory: TempDir,
    address: SocketAddr,
    origin: SocketAddr,
    child: Option<Child>,
}

impl Gateway {
    fn start(name: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut gateway = Self { name: name.into(), directory, address, origin: origin(), child: None };
        let errors = fs::File::create(gateway.directory.path().join("errors")).unwrap();
        gateway.child = Some(gateway.command("run").process_group(0).stderr(errors).spawn().unwrap());
        gateway
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(Path::new(FOLDER).join(&self.name).join("start.sh"));
        command.arg(verb).stdin(Stdio::null()).stdout(Stdio::null());
        command.env("CACHE", self.directory.path().join("cache")).env("DIRECTORY", self.directory.path());
        command.env("LISTEN", self.address.to_string()).env("ORIGIN", self.origin.to_string());
        command.env("ROUTES", "10").env("CONNECTIONS", "100");
        command
    }

    /// Sends requests until the response is right; `what` is for the message if it never is.
    fn wait_for(&mut self, path: &str, what: &str, right: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut answer = String::new();
        while Instant::now() < deadline {
            answer = ask(self.address, path).unwrap_or_default();
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
        panic!("{path} of {}: no {what}, but {answer:?}; it says: {}", self.name, self.errors());
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.directory.path().join("errors")).unwrap_or_default()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // The master of such a gateway ends its workers if it gets the time; the process group is killed in any
            // case.
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

/// Answers each request with its method and target; runs as long as the test's process.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_all(stream));
        }
    });
    address
}

fn answer_all(mut stream: TcpStream) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    while let Some(Ok(first)) = lines.next() {
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let body = first.rsplit_once(' ').unwrap_or_default().0;
        if write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).is_err() {
            return;
        }
    }
}
