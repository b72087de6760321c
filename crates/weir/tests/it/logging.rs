//! The error log through the real binary: it never blocks the gateway, it reports failed attempts at an
//! endpoint and refused callers without flooding, and a line may be JSON.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use serde_json::{Value, json};
use testkit::{Client, Origin, Weir, wait_for, wait_until};

use crate::support::BINARY;

/// Shortest time between two lines about the same subject, in seconds.
const INTERVAL_SECONDS: u64 = 10;

/// An address at which nothing listens.
fn dead_address() -> String {
    testkit::Origin::nowhere().to_string()
}

fn get(weir: &Weir, listener: &str, path: &str) -> u16 {
    Client::connect(weir.address(listener)).get(path).status
}

fn put_route(weir: &Weir, id: &str, path: &str, node: &str) {
    weir.put(&format!("routes/{id}"), json!({"uri": path, "upstream": {"nodes": {node: 1}}}));
}

/// The lines of standard error that contain `part`.
fn lines_with(weir: &Weir, part: &str) -> Vec<String> {
    weir.stderr().into_iter().filter(|line| line.contains(part)).collect()
}

/// The number after `name=` in a line.
fn number(line: &str, name: &str) -> u64 {
    let (_, rest) = line.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("no {name} in {line}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn unread_stderr_stops_nothing() {
    let origin = Origin::answering("hello");
    let mut weir = Weir::builder(BINARY).unread_stderr().arguments(&["--workers", "2"]).start();
    put_route(&weir, "good", "/good", &origin.address().to_string());
    put_route(&weir, "dead", "/dead", &dead_address());
    // Each of these requests is logged: by the control side, by both workers, and by a plugin.
    for _ in 0..600 {
        let refused = weir.admin_raw("GET", "routes", &[("X-API-KEY", "wrong")], b"");
        assert_eq!(refused.status, 401);
    }
    weir.put(
        "routes/asking",
        json!({"uri": "/asking", "plugins": {"forward-auth": {"uri": format!("http://{}/", dead_address())}}, "upstream": {"nodes": {dead_address(): 1}}}),
    );
    for _ in 0..20 {
        assert_eq!(weir.get("/dead").status, 502);
        assert_eq!(weir.get("/asking").status, 403);
    }
    for _ in 0..20 {
        assert_eq!(weir.get("/good").status, 200);
    }
    assert_eq!(weir.admin("GET", "routes/good", Value::Null).0, 200);
    assert_eq!(get(&weir, "status", "/status/ready"), 200);
    assert_eq!(get(&weir, "control", "/v1/routes"), 200);

    weir.read_stderr();
    wait_until("the messages come once they are read", || {
        ["failed to check token", "upstream attempt failed", "forward-auth got no answer"]
            .iter()
            .all(|part| !lines_with(&weir, part).is_empty())
    });
    weir.terminate();
    assert!(weir.wait_for_exit().success());
}

#[test]
fn unread_stderr_does_not_keep_it_from_ending() {
    let mut weir = Weir::builder(BINARY).unread_stderr().own_admin_key().start();
    weir.terminate();
    assert!(weir.wait_for_exit().success());
    let mut weir = Weir::builder(BINARY).unread_stderr().start();
    weir.interrupt();
    assert_eq!(weir.wait_for_exit().code(), Some(130));
    // The message of a failed start is written without waiting for its reader.
    let refused = Weir::builder(BINARY).unread_stderr().arguments(&["--resources", "gone.yaml"]).try_start();
    assert_eq!(refused.unwrap_err().status.code(), Some(1));
}

#[test]
fn lost_lines_are_counted_and_reported() {
    let mut weir = Weir::builder(BINARY).unread_stderr().start();
    // Each change of the level is a message with the levels before and after.
    let level = |part: u32| {
        let parts: Vec<String> = (0..2_000).map(|number| format!("part{part}x{number}=info")).collect();
        format!("info,{}", parts.join(","))
    };
    let mut control = Client::connect(weir.address("control"));
    for round in 0..40 {
        let body = json!({"level": level(round)}).to_string();
        assert_eq!(control.request("PUT", "/v1/weir/log_level", &[], body.as_bytes()).status, 200);
    }
    let lost = || {
        let text = Client::connect(weir.address("metrics")).get("/apisix/prometheus/metrics").text();
        let line = text.lines().find(|line| line.starts_with("weir_error_log_dropped_lines_total ")).unwrap();
        line.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = lost();
    assert!(before > 0, "1 MiB of messages is kept");
    weir.read_stderr();
    let line = wait_for("the lost lines are told of", || lines_with(&weir, "lines of a log were lost").pop());
    assert!(line.contains("error log") && number(&line, "lines") == before, "{line}");
    assert!(lines_with(&weir, "the log level was changed").len() as u64 >= 40 - before);
}

#[test]
fn failed_attempt_leaves_one_line_per_endpoint() {
    let weir = Weir::builder(BINARY).arguments(&["--workers", "2"]).start();
    let (one, other) = (dead_address(), dead_address());
    put_route(&weir, "shop", "/shop", &one);
    put_route(&weir, "cart", "/cart", &other);
    let begin = Instant::now();
    for _ in 0..30 {
        assert_eq!(weir.get("/shop").status, 502);
        assert_eq!(weir.get("/cart").status, 502);
    }
    wait_until("the warnings have come", || lines_with(&weir, "upstream attempt failed").len() >= 2);
    for (endpoint, route) in [(&one, "shop"), (&other, "cart")] {
        let lines = lines_with(&weir, &format!("endpoint={endpoint} "));
        let most = 1 + begin.elapsed().as_secs() / INTERVAL_SECONDS;
        assert!((1..=most).contains(&(lines.len() as u64)), "{lines:?}");
        let expected = format!(
            "upstream attempt failed endpoint={endpoint} route={route} upstream=routes/{route} cause=connect_failed \
             reason=\"Connection refused (os error 111)\" count=1"
        );
        assert!(lines[0].contains(" WARN ") && lines[0].ends_with(&expected), "{}", lines[0]);
    }
    let counted = || lines_with(&weir, "route=shop").iter().map(|line| number(line, "count")).sum::<u64>();
    wait_until("the other failures are told of as well", || counted() == 30);
}

#[test]
fn retried_and_good_attempts_are_distinguished() {
    let origin = Origin::answering("hello");
    let weir = Weir::start(BINARY);
    let dead = dead_address();
    let nodes = json!({origin.address().to_string(): 1, dead.as_str(): 1});
    weir.put("routes/both", json!({"uri": "/both", "upstream": {"nodes": nodes, "retries": 1}}));
    for _ in 0..4 {
        assert_eq!(weir.get("/both").status, 200);
    }
    wait_until("the failed attempt is told of", || {
        !lines_with(&weir, &format!("endpoint={dead} ")).is_empty()
    });
    assert_eq!(lines_with(&weir, &format!("endpoint={} ", origin.address())), [""; 0]);
}

#[test]
fn refused_callers_cannot_flood_the_log() {
    let weir = Weir::start(BINARY);
    let begin = Instant::now();
    let mut client = Client::connect(weir.address("admin"));
    let mut refuse = |key: &str| {
        for _ in 0..300 {
            assert_eq!(client.request("GET", "/apisix/admin/routes", &[("X-API-KEY", key)], b"").status, 401);
            client = Client::connect(weir.address("admin"));
        }
    };
    refuse("wrong");
    wait_until("the first is told of at once", || !lines_with(&weir, "failed to check token").is_empty());
    let lines = lines_with(&weir, "failed to check token");
    let most = 1 + begin.elapsed().as_secs() / INTERVAL_SECONDS;
    assert!(lines.len() as u64 <= most, "{lines:?}");
    assert!(lines[0].contains("description=\"wrong apikey\" count=1"), "{}", lines[0]);
    let counted = || {
        let lines = lines_with(&weir, "failed to check token");
        lines.iter().map(|line| number(line, "count")).sum::<u64>()
    };
    wait_until("the others are told of in one line", || counted() == 300);
}

#[test]
fn error_log_can_be_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("error.log");
    let arguments = ["--error-log", path.to_str().unwrap(), "--error-log-format", "json"];
    let mut weir = Weir::builder(BINARY).arguments(&arguments).start();
    let dead = dead_address();
    put_route(&weir, "shop", "/shop", &dead);
    assert_eq!(weir.get("/shop").status, 502);
    weir.terminate();
    assert!(weir.wait_for_exit().success());
    // Messages from before the end are written at the end.
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = lines.iter().find(|line| line["message"] == "upstream attempt failed").unwrap();
    assert_eq!((&line["level"], &line["fields"]["count"]), (&json!("warn"), &json!(1)));
    assert_eq!(
        (&line["fields"]["endpoint"], &line["fields"]["cause"]),
        (&json!(dead), &json!("connect_failed"))
    );
    assert!(line["time"].is_string() && line["target"].as_str().unwrap().starts_with("gateway"), "{line}");
    assert!(lines.iter().any(|line| line["message"].as_str().unwrap().starts_with("draining")), "{text}");
    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode & 0o037, 0, "{mode:o}");
}

#[test]
fn logs_are_rotated_packed_and_pruned() {
    let origin = Origin::answering("hello");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let weir = Weir::builder(BINARY)
        .arguments(&["--access-log", &path("access.log"), "--error-log", &path("error.log")])
        .settings("log_rotate: true\nlog_rotate_interval: 1\nlog_rotate_max_kept: 4\nlog_rotate_compression: true\n")
        .start();
    put_route(&weir, "1", "/", &origin.address().to_string());
    let names = || -> Vec<String> {
        let entries = fs::read_dir(folder.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let packed = |log: &str| {
        let end = format!("__{log}.tar.gz");
        let mut packed: Vec<String> = names().into_iter().filter(|name| name.ends_with(&end)).collect();
        packed.sort();
        packed
    };
    let first = wait_for("the access log is packed", || {
        assert_eq!(get(&weir, "proxy", "/"), 200);
        packed("access.log").first().cloned()
    });
    // A file is packed a second after its rotation, so that the newest of the four are not.
    wait_until("the first one is removed, some of each log are kept", || {
        assert_eq!(get(&weir, "proxy", "/"), 200);
        let logs = ["access.log", "error.log"].map(packed);
        logs.iter().all(|packed| (2..=4).contains(&packed.len())) && !logs[0].contains(&first)
    });
    wait_until("new logs are written", || {
        assert_eq!(get(&weir, "proxy", "/"), 200);
        fs::read_to_string(path("access.log")).is_ok_and(|text| text.contains("GET / "))
    });
}
