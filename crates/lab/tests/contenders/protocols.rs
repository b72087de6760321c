//! Contenders over TLS and HTTP/2: each speaks the protocols that its description lists. curl is the client.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use lab::scenario::ScenarioProtocol;

use crate::gateway::{Gateway, is_installed};
use crate::{definitions, scripts};

#[test]
fn nginx_speaks_tls_and_http2() {
    speaks_tls_and_http2("nginx");
}

#[test]
fn haproxy_speaks_tls_and_http2() {
    speaks_tls_and_http2("haproxy");
}

#[test]
fn h2o_speaks_tls_and_http2() {
    speaks_tls_and_http2("h2o");
}

fn speaks_tls_and_http2(name: &str) {
    if !is_installed(name) {
        return;
    }
    let rows = [
        ("https", "https", "--http1.1", "1.1"),
        ("http2", "https", "--http2", "2"),
        ("h2c", "http", "--http2-prior-knowledge", "2"),
    ];
    for (protocol, scheme, option, version) in rows {
        let mut gateway = Gateway::start(name, protocol);
        let address = gateway.address;
        let wanted = format!("GET /any/path over {version}");
        gateway.wait_until(|| curl(address, scheme, option), &wanted, |answer| answer == wanted);
    }
}

/// The body of the response and the version of HTTP; empty if there is none.
fn curl(address: SocketAddr, scheme: &str, option: &str) -> String {
    let output = Command::new("curl")
        .args(["--silent", "--insecure", "--noproxy", "*", "--max-time", "5", option])
        .args(["--write-out", " over %{http_version}", &format!("{scheme}://{address}/any/path")])
        .stdin(Stdio::null())
        .output()
        .expect("curl is installed; lab/install.sh test installs it");
    if output.status.success() { String::from_utf8(output.stdout).unwrap() } else { String::new() }
}

#[test]
fn encrypted_contender_tells_its_tls_library() {
    let scripts = scripts();
    for (name, definition) in definitions() {
        let is_debian = ["nginx", "haproxy", "h2o"].contains(&name.as_str()) && is_installed(&name);
        if !is_debian {
            continue;
        }
        assert!(definition.protocols.contains(&ScenarioProtocol::Https), "{name}");
        let cache = tempfile::tempdir().unwrap();
        let output =
            Command::new(&scripts[&name]).arg("version").env("CACHE", cache.path()).output().unwrap();
        let version = String::from_utf8(output.stdout).unwrap();
        let (program, library) = version.trim().rsplit_once(", ").unwrap();
        assert!(program.contains(&name) && library.starts_with("OpenSSL "), "{name}: {version}");
    }
}
