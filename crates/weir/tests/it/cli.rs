//! The command line: exit codes, the stream of each output, and errors that name the place.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use crate::command::weir_with;

#[test]
fn a_wrong_command_line_ends_with_2() {
    let check = |arguments: &[&str], expected: &str| {
        let outcome = weir_with(&[], arguments, &[]);
        assert_eq!(outcome.code, 2, "{arguments:?}: {outcome:?}");
        assert!(outcome.stderr.contains(expected), "{arguments:?}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "{arguments:?}");
    };
    check(&[], "Usage: weir");
    check(&["rum"], "a similar subcommand exists: 'run'");
    check(&["run", "--porxy", "x"], "a similar argument exists: '--proxy'");
    check(&["run", "--proxy", "9080"], "--proxy: `9080` is not `IP:PORT`");
    check(&["run", "--proxy-tls", "9443"], "--proxy-tls: `9443` is not `IP:PORT`");
    check(&["check"], "<FILE>");
    check(&["explain", "GET", "nowhere"], "write `http://host/path`");
    check(&["completions", "cmd"], "possible values");
}

#[test]
fn wrong_settings_end_with_78_and_name_their_place() {
    let check = |files: &[(&str, &str)], arguments: &[&str], environment: &[(&str, &str)], expected: &str| {
        let outcome = weir_with(files, arguments, environment);
        assert_eq!(outcome.code, 78, "{outcome:?}");
        assert_eq!(outcome.stderr, expected);
        assert_eq!(outcome.stdout, "");
    };
    let file = [("weir.yaml", "data: d\nworker: 2\nadmin: here\n")];
    let faults = "weir.yaml:2: worker: no such setting; did you mean `workers`?\n\
        weir.yaml:3: admin: `here` is not `IP:PORT`: write `0.0.0.0:PORT` for every address, `127.0.0.1:PORT` for \
        this machine only\n";
    check(&file, &["run", "--config", "weir.yaml"], &[], faults);
    check(&file, &["run"], &[("WEIR_CONFIG", "weir.yaml")], faults);
    check(
        &[],
        &["run", "-c", "gone.yaml"],
        &[],
        "gone.yaml: cannot be read: No such file or directory (os error 2)\n",
    );
    check(
        &[],
        &["run"],
        &[("WEIR_WORKERS", "0"), ("WEIR_CONFIG", "")],
        "WEIR_WORKERS: 0 is not between 1 and 1024; `auto` takes one for each core\n",
    );
}

#[test]
fn check_tells_settings_from_resources() {
    let check = |name: &str, text: &str, code: i32, expected: &str| {
        let outcome = weir_with(&[(name, text)], &["check", name], &[]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (code, ""), "{outcome:?}");
        assert!(outcome.stdout.contains(expected), "{}", outcome.stdout);
    };
    check("weir.yaml", "proxy: 127.0.0.1:0\n", 0, "weir.yaml: ok\n");
    check(
        "weir.yaml",
        "proxy: 127.0.0.1\n",
        1,
        "weir.yaml:1: proxy: `127.0.0.1` is not `IP:PORT`: add a port",
    );
    check("config.yaml", "apisix:\n  node_listen: 9080\n", 0, "config.yaml: ok\n");
    check(
        "config.yaml",
        "apisix:\n  node_listen: here\n",
        1,
        "config.yaml:2: apisix.node_listen: `0.0.0.0:here` is not `IP:PORT`",
    );
    check(
        "routes.yaml",
        "routes:\n  - id: '1'\n    uri: /a\n    upstream: {nodes: {'127.0.0.1:1': 1}}\n",
        0,
        "ok",
    );
    check("routes.yaml", "routes:\n  - id: '1'\n    uri: /a\n    colour: blue\n", 1, "routes.yaml:");
    check(
        "routes.yaml",
        "routes:\n  - id: '1'\n    uri: /a\n    upstream:\n      nodes:\n        '127.0.0.1:1': -1\n",
        1,
        "routes.yaml:6: routes[0].upstream.nodes.127.0.0.1:1: expected -1 to be at least 0; the weight is a whole \
         number from 0 to 4294967295",
    );
    check(
        "routes.yaml",
        "consumers:\n  - {username: ann, plugins: {key-auth: {key: k}}}\n  - {username: bob, plugins: {key-auth: {key: k}}}\n",
        1,
        "routes.yaml:3: consumers[1].plugins.key-auth.key: duplicate key found with consumer: ann",
    );
    check(
        "routes.yaml",
        "routes:\n  - id: '1'\n    uri: /a\n    plugins: {cors: {_meta: {filter: [[uri, '=', /]]}}}\n",
        1,
        "the filter of plugin cors: [0]: invalid operator '='",
    );
    check("weir.yaml", "resources: gone.yaml\n", 1, "gone.yaml");
}

#[test]
fn version_says_what_the_machine_offers() {
    let long = weir_with(&[], &["version"], &[]);
    assert_eq!(long.code, 0);
    assert!(long.stdout.starts_with(&format!("weir {}\n", env!("CARGO_PKG_VERSION"))), "{}", long.stdout);
    for name in ["cores", "kernel", "io_uring", "open files"] {
        assert!(long.stdout.lines().any(|line| line.starts_with(name)), "{name}: {}", long.stdout);
    }
    assert!(!long.stdout.contains('\u{1b}'), "no colour into a pipe");
    assert_eq!(weir_with(&[], &["-V"], &[]).stdout, long.stdout);
}

#[test]
fn completions_are_scripts() {
    for (shell, part) in [("bash", "_weir()"), ("zsh", "#compdef weir"), ("fish", "complete -c weir")] {
        let outcome = weir_with(&[], &["completions", shell], &[]);
        assert_eq!(outcome.code, 0);
        assert!(outcome.stdout.contains(part), "{shell}");
    }
}

#[test]
fn explain_asks_the_node_and_renders_its_record() {
    let record = r#"{"revision": 3, "request": {"host": "a.example", "path": "/b"}, "matched": {"id": "1"},
        "considered": [{"id": "1", "path": "/*", "verdict": "matched"},
                       {"id": "2", "path": "/b", "verdict": "method"}]}"#;
    let (control, asked) = answer_once("200 OK", record);
    let control = control.to_string();
    let arguments =
        ["explain", "GET", "/b", "-H", "Host: a.example", "--remote-addr", "10.0.0.9", "--control", &control];
    let outcome = weir_with(&[], &arguments, &[]);
    let asked = asked.join().unwrap();
    assert!(asked.starts_with("POST /v1/weir/explain HTTP/1.0\r\n"), "{asked}");
    assert!(
        asked.ends_with(
            r#"{"method":"GET","url":"/b","headers":[["Host","a.example"]],"remote_addr":"10.0.0.9"}"#
        ),
        "{asked}"
    );
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{outcome:?}");
    assert!(outcome.stdout.contains("route     1\n"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("lost: its methods do not hold this one"), "{}", outcome.stdout);
}

#[test]
fn explain_says_why_it_cannot() {
    let (control, asked) = answer_once("400 Bad Request", r#"{"error_msg":"the URL has no host"}"#);
    let outcome = weir_with(&[], &["explain", "GET", "/", "--control", &control.to_string()], &[]);
    asked.join().unwrap();
    assert_eq!(outcome.code, 1);
    assert_eq!(outcome.stderr, format!("error: the instance at {control}: the URL has no host\n"));

    let free = testkit::Origin::nowhere();
    let outcome = weir_with(&[], &["explain", "GET", "/", "--control", &free.to_string()], &[]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stderr.starts_with(&format!("error: no instance answers at {free}: ")),
        "{}",
        outcome.stderr
    );
}

/// A control API that answers one request; the thread returns that request.
fn answer_once(status: &str, body: &str) -> (SocketAddr, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = format!("HTTP/1.0 {status}\r\nContent-Type: application/json\r\n\r\n{body}");
    let asked = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        let mut chunk = [0; 4096];
        // The body is JSON without a closing brace inside; its last byte ends the request.
        while !asked.ends_with(b"}") {
            let read = stream.read(&mut chunk).unwrap();
            assert!(read > 0, "the request breaks off");
            asked.extend_from_slice(&chunk[..read]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(asked).unwrap()
    });
    (address, asked)
}
