//! The protocol `redis` in front of a real server: delayed commands, a log of slow ones, metrics, and bytes
//! that are no commands.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Redis, wait_until};

use super::{PATIENCE, Stage, weights};

/// A gateway in front of a server, with these settings of the protocol.
fn stage(redis: &Redis, more: Value) -> Stage {
    let stage = Stage::start();
    let mut protocol = json!({"name": "redis"});
    protocol.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let upstream = json!({"nodes": weights(&[redis.address()])});
    stage.weir.put("stream_routes/1", json!({"upstream": upstream, "protocol": protocol}));
    stage
}

fn connect(stage: &Stage) -> TcpStream {
    let stream = TcpStream::connect(stage.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn command(words: &[&str]) -> String {
    let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{words}", words.matches('$').count())
}

/// Sends commands at once; the replies, which are as long as `expected`.
fn ask(stream: &mut TcpStream, commands: &[&[&str]], expected: &str) -> Duration {
    let began = Instant::now();
    let bytes: String = commands.iter().map(|words| command(words)).collect();
    stream.write_all(bytes.as_bytes()).unwrap();
    let mut replies = vec![0; expected.len()];
    stream.read_exact(&mut replies).unwrap();
    assert_eq!(str::from_utf8(&replies).unwrap(), expected);
    began.elapsed()
}

#[test]
fn faulty_protocol_is_refused_by_the_admin_api() {
    let stage = Stage::start();
    let upstream = json!({"nodes": {"127.0.0.1:6379": 1}});
    let put = |id: &str, protocol: Value| {
        let route = json!({"upstream": upstream, "protocol": protocol});
        let (status, body) = stage.weir.admin("PUT", &format!("stream_routes/{id}"), route);
        (status, body["error_msg"].as_str().unwrap_or_default().to_owned())
    };
    let refused = |id: &str, protocol: Value, reason: &str| {
        let (status, message) = put(id, protocol);
        assert!(status == 400 && message.starts_with(reason), "{status} {message}");
    };
    let with = |fault: Value| json!({"name": "redis", "conf": {"faults": [fault]}});
    refused("1", with(json!({"commands": [], "delay": 1})), "protocol.conf: faults[0]: commands: ");
    refused("1", with(json!({"commands": ["get"], "delay": -1})), "protocol.conf: faults[0]: delay: ");
    refused("1", json!({"name": "redis", "conf": {"fault": []}}), "protocol.conf: unknown field `fault`");
    let logger = |filter: Value| json!({"name": "syslog", "conf": {"host": "127.0.0.1", "port": 514}, "filter": filter});
    let logged = |filter: Value| json!({"name": "redis", "logger": [logger(filter)]});
    refused("1", logged(json!([["rpc_time", "?", 1]])), "failed to validate the 'filter' expression: ");
    assert_eq!(put("1", logged(json!([["rpc_time", ">", 1]]))).0, 201);
    refused(
        "2",
        json!({"name": "redis", "superior_id": "7"}),
        "failed to fetch stream routes[7], response code: 404",
    );
    assert_eq!(put("2", json!({"name": "redis", "superior_id": "1"})).0, 201);
    assert_eq!(put("3", json!({"name": "http"})).0, 201);
    refused(
        "4",
        json!({"name": "redis", "superior_id": "3"}),
        "protocol mismatch: subordinate protocol [redis]",
    );
    let (status, body) = stage.weir.admin("DELETE", "stream_routes/1", Value::Null);
    let reason =
        "can not delete this stream route directly, stream route [2] is still using it as superior_id";
    assert_eq!((status, &body["error_msg"]), (400, &json!(reason)));
    let mut limit = json!({"conn": 1, "burst": 0, "default_conn_delay": 1, "key": "remote_addr"});
    limit["policy"] = json!("redis");
    limit["redis_host"] = json!("127.0.0.1");
    let route = json!({"upstream": upstream, "plugins": {"limit-conn": limit}});
    let (status, body) = stage.weir.admin("PUT", "stream_routes/5", route);
    let reason = body["error_msg"].as_str().unwrap_or_default();
    assert!(
        status == 400 && reason.contains("policy: sessions are counted by this process alone"),
        "{reason}"
    );
}

#[test]
fn status_shows_listeners_with_open_sessions() {
    let stage = Stage::start();
    stage.route(&[super::greeter("a")], json!({}));
    let (open, _) = stage.greeted().unwrap();
    let status = || stage.weir.admin("GET", "weir/status", Value::Null).1["layer_4"].clone();
    let listener = json!({"name": "stream-tcp", "address": stage.address().to_string()});
    let expected = |tcp: u64| json!({"listeners": [listener], "sessions": {"tcp": tcp, "udp": 0}});
    wait_until("one session is open", || status() == expected(1));
    let admin = stage.weir.address("admin").to_string();
    let environment = [("WEIR_ADMIN_KEY", ADMIN_KEY)];
    let arguments = ["status", "--admin", &admin];
    let outcome = crate::command::weir(stage.weir.directory(), &arguments, &environment);
    let line = format!("layer 4: 1 sessions over TCP, 0 over UDP\n  stream-tcp: {}", stage.address());
    assert!(outcome.stdout.contains(&line), "{outcome:?}");
    drop(open);
    wait_until("it has ended", || status() == expected(0));
}

#[test]
fn commands_pass_and_are_delayed_by_rules() {
    let redis = Redis::start();
    let faults = json!([{"commands": ["GET"], "key": "slow", "delay": 0.3}]);
    let stage = stage(&redis, json!({"conf": {"faults": faults}}));
    let mut stream = connect(&stage);
    ask(&mut stream, &[&["SET", "slow", "1"], &["SET", "quick", "2"]], "+OK\r\n+OK\r\n");
    let late = ask(&mut stream, &[&["get", "slow"]], "$1\r\n1\r\n");
    assert!(late >= Duration::from_millis(300), "{late:?}");
    ask(
        &mut stream,
        &[&["get", "quick"], &["mget", "slow", "quick"]],
        "$1\r\n2\r\n*2\r\n$1\r\n1\r\n$1\r\n2\r\n",
    );
    // A large value passes in many reads.
    let large = "x".repeat(1_000_000);
    ask(&mut stream, &[&["set", "large", &large]], "+OK\r\n");
    ask(&mut stream, &[&["get", "large"]], &format!("$1000000\r\n{large}\r\n"));
    drop(stream);
    wait_until("the session is counted", || {
        stage.metric("weir_stream_session_ends_total{cause=\"closed\"}") == 1
            || stage.metric("weir_stream_session_ends_total{cause=\"client_reset\"}") == 1
    });
}

#[test]
fn slow_commands_are_logged_and_all_are_counted() {
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    let file = folder.path().join("slow.log");
    let logger = json!({
        "name": "file-logger",
        "filter": [["rpc_time", ">=", 0.2], ["redis_cmd", "~=", "ping"]],
        "conf": {"path": file, "log_format": {"line": "$redis_cmd_line", "route": "$route_id"}},
    });
    let faults = json!([{"commands": ["mget"], "key": "slow", "delay": 0.2}]);
    let more = json!({"conf": {"faults": faults}, "logger": [logger], "metric": {"enable": true}});
    let stage = stage(&redis, more);
    let mut stream = connect(&stage);
    ask(&mut stream, &[&["MGET", "slow"]], "*1\r\n$-1\r\n");
    ask(&mut stream, &[&["ping"]], "+PONG\r\n");
    ask(&mut stream, &[&["mget", "a", "slow"]], "*2\r\n$-1\r\n$-1\r\n");
    let lines = ["mget slow", "mget a slow"]
        .map(|line| format!("{{\"line\":\"{line}\",\"route\":\"1\",\"route_id\":\"1\"}}\n"));
    wait_until("the lines are written", || {
        fs::read_to_string(&file).is_ok_and(|text| text == lines.concat())
    });
    assert_eq!(stage.metric("apisix_redis_commands_total{route=\"1\",command=\"mget\"}"), 2);
    assert_eq!(stage.metric("apisix_redis_commands_total{route=\"1\",command=\"ping\"}"), 1);
    let buckets = "apisix_redis_commands_latency_seconds_bucket{route=\"1\",command=\"mget\",le=";
    assert_eq!(stage.metric(&format!("{buckets}\"0.1\"}}")), 0);
    assert_eq!(stage.metric(&format!("{buckets}\"+Inf\"}}")), 2);
}

#[test]
fn bytes_that_are_no_commands_end_the_session() {
    let redis = Redis::start();
    let stage = stage(&redis, json!({}));
    let mut stream = connect(&stage);
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let closed = stream.read(&mut [0; 16]);
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    let ended = "weir_stream_session_ends_total{cause=\"protocol_fault\"}";
    wait_until("the session is counted", || stage.metric(ended) == 1);
}

#[test]
fn faulty_rules_and_loggers_are_refused() {
    let stage = Stage::start();
    let put = |protocol: Value| {
        let upstream = json!({"nodes": {"127.0.0.1:1": 1}});
        stage.weir.admin("PUT", "stream_routes/1", json!({"upstream": upstream, "protocol": protocol}))
    };
    let (status, answer) = put(json!({"name": "redis", "logger": [{"name": "key-auth", "conf": {}}]}));
    assert!(status == 400 && answer.to_string().contains("HTTP only"), "{answer}");
    let (status, answer) = put(json!({"name": "redis", "metric": {"enabled": true}}));
    assert!(status == 400 && answer.to_string().contains("metric"), "{answer}");
}
