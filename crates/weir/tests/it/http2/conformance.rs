//! Programs of other projects: h2spec, curl and h2load, where `lab/install.sh test` has installed them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;
use testkit::{Authority, Origin, Weir};

use crate::support::BINARY;

/// A gateway with a TLS listener and a certificate for `localhost`.
fn gateway(origin: &Origin) -> Weir {
    let weir = Weir::builder(BINARY).arguments(&["--proxy-tls", "127.0.0.1:0"]).start();
    let pair = Authority::new("known").pair(&["localhost"]);
    weir.put("ssls/1", json!({"cert": pair.certificate, "key": pair.key, "sni": "localhost"}));
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("routes/1", json!({"uri": "/*", "upstream": upstream}));
    weir
}

/// The output of a program that `lab/install.sh test` installs.
fn output(program: PathBuf, arguments: &[&str]) -> String {
    let output = Command::new(&program).args(arguments).output();
    let output =
        output.unwrap_or_else(|error| panic!("{}, {error}: run lab/install.sh test", program.display()));
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// A program that is built for the tests.
fn tool(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/test-go/bin").join(name)
}

fn port(address: SocketAddr) -> String {
    address.port().to_string()
}

#[test]
fn h2spec_passes_over_tls() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin);
    let port = port(weir.address("proxy-tls"));
    let arguments = ["-h", "localhost", "-p", &port, "-t", "-k", "--strict", "-o", "5"];
    let text = output(tool("h2spec"), &arguments);
    assert!(text.contains("146 tests, 146 passed, 0 skipped, 0 failed"), "{text}");
}

#[test]
fn h2spec_passes_on_cleartext_but_for_http_1() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin);
    let port = port(weir.proxy());
    let text = output(tool("h2spec"), &["-h", "127.0.0.1", "-p", &port, "--strict", "-o", "5"]);
    // The port serves HTTP/1 too, so that an invalid preface is answered 400 there, and is no frame.
    let failures = text.split("Failures:").nth(1).unwrap_or_default();
    assert!(text.contains("146 tests, 145 passed, 0 skipped, 1 failed"), "{text}");
    assert!(failures.contains("Sends invalid connection preface"), "{text}");
}

#[test]
fn curl_is_served_by_both_ways_in() {
    let origin = Origin::start(|request| testkit::Reply::with(200, &[], &request.body));
    let weir = gateway(&origin);
    let tls = port(weir.address("proxy-tls"));
    let resolve = format!("localhost:{tls}:127.0.0.1");
    let (clear, secure) = (format!("http://{}/", weir.proxy()), format!("https://localhost:{tls}/"));
    let common = ["-s", "-m", "20", "-w", "|%{http_version}|%{http_code}", "-d", "hello"];
    for (arguments, expected) in [
        (vec!["--http2-prior-knowledge", clear.as_str()], "hello|2|200"),
        (vec!["--http1.1", clear.as_str()], "hello|1.1|200"),
        // An upgrade from HTTP/1.1 is not served (RFC 9113 section 3.1 has taken it out).
        (vec!["--http2", clear.as_str()], "hello|1.1|200"),
        (vec!["-k", "--http2", "--resolve", &resolve, &secure], "hello|2|200"),
        (vec!["-k", "--http1.1", "--resolve", &resolve, &secure], "hello|1.1|200"),
    ] {
        let text = output("curl".into(), &[&common[..], &arguments].concat());
        assert_eq!(text, expected, "{arguments:?}");
    }
}

#[test]
fn h2load_loses_no_request() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin);
    let clear = format!("http://{}/", weir.proxy());
    let secure = format!("https://localhost:{}/", port(weir.address("proxy-tls")));
    for (connections, streams, window, url) in [
        ("8", "10", "30", &clear),
        ("4", "100", "16", &clear),
        ("16", "1", "16", &clear),
        ("4", "20", "16", &secure),
    ] {
        let arguments = ["-n", "1000", "-c", connections, "-m", streams, "-w", window, "-W", window, url];
        let text = output("h2load".into(), &arguments);
        assert!(text.contains("1000 succeeded, 0 failed, 0 errored, 0 timeout"), "{arguments:?}: {text}");
    }
}
