//! Log plugins on stream routes: an entry for each session, at the server or in the file.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, UdpSocket};

use serde_json::{Value, json};
use testkit::{Origin, Rsyslog, wait_for, wait_until};

use super::{PATIENCE, Stage, echo, greeter};

/// The fields of entries in these tests, and an entry of a session that has sent 5 bytes.
fn format() -> Value {
    json!({"ip": "$remote_addr", "got": "$bytes_received", "sent": "$bytes_sent", "end": "$weir_cause"})
}

const ENTRY: &str = r#"{"ip":"127.0.0.1","got":"5","sent":7,"end":"closed","route_id":"1"}"#;

/// Serves one session with this logger.
fn serve(stage: &Stage, name: &str, more: Value) {
    let mut config = json!({"batch_max_size": 1, "log_format": format()});
    if name == "file-logger" {
        config = json!({"log_format": format()});
    }
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    stage.route(&[greeter("a")], json!({name: config}));
    echo(stage.greeted().unwrap().0, "hello");
}

#[test]
fn session_is_a_line_of_syslog() {
    let (stage, rsyslog) = (Stage::start(), Rsyslog::start());
    for (count, sock_type) in [(1, "tcp"), (2, "udp")] {
        let place = json!({"host": "127.0.0.1", "port": rsyslog.address().port(), "sock_type": sock_type});
        serve(&stage, "syslog", place);
        wait_until("the line has arrived", || rsyslog.messages().len() == count);
    }
    let pid = stage.weir.pid();
    for message in rsyslog.messages() {
        assert!(message.starts_with("46|1|") && message.contains(&format!("|apisix|{pid}|-|")), "{message}");
        assert!(message.ends_with(ENTRY), "{message}");
    }
}

#[test]
fn session_is_an_entry_over_tcp_and_udp() {
    let stage = Stage::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    serve(&stage, "tcp-logger", json!({"host": "127.0.0.1", "port": port}));
    let mut text = String::new();
    listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
    assert_eq!(text, ENTRY);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = socket.local_addr().unwrap().port();
    serve(&stage, "udp-logger", json!({"host": "127.0.0.1", "port": port}));
    let mut room = [0; 2_048];
    let length = socket.recv(&mut room).unwrap();
    assert_eq!(str::from_utf8(&room[..length]).unwrap(), ENTRY);
}

#[test]
fn session_is_an_entry_over_http_and_in_a_file() {
    let (stage, server) = (Stage::start(), Origin::answering("ok"));
    serve(&stage, "http-logger", json!({"uri": format!("http://{}/logs", server.address())}));
    let body = wait_for("the entry has arrived", || server.requests().first().map(|one| one.body.clone()));
    assert_eq!(str::from_utf8(&body).unwrap(), ENTRY);
    let path = stage.weir.directory().join("sessions.log");
    serve(&stage, "file-logger", json!({"path": path, "match": [[["bytes_received", ">", 4]]]}));
    wait_until("the line is written", || {
        fs::read_to_string(&path).is_ok_and(|text| text == format!("{ENTRY}\n"))
    });
}

#[test]
fn whole_entry_of_a_refused_session_has_the_reason() {
    let (stage, node) = (Stage::start(), greeter("a"));
    let path = stage.weir.directory().join("refused.log");
    let plugins = json!({
        "ip-restriction": {"blacklist": ["127.0.0.1"], "message": "not from here"},
        "file-logger": {"path": path},
    });
    stage.route(&[node], plugins);
    assert!(stage.greeted().is_none());
    let line = wait_for("the line is written", || {
        fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))
    });
    let entry: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&entry["end"], &entry["reason"]), (&json!("rejected"), &json!("not from here")));
    assert_eq!((&entry["status"], &entry["bytes_sent"]), (&json!(403), &json!(0)));
    assert_eq!((&entry["protocol"], entry.get("upstream")), (&json!("TCP"), None));
}
