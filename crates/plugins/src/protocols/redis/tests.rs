//! Sessions from commands to replies, without sockets.

use exchange::plugin::state::StateRegistry;
use exchange::plugin::stream::protocol::ProtocolCall;
use serde_json::{Value, json};

use super::*;

/// A session that logs its commands.
fn open(conf: &Value) -> Box<dyn ProtocolSession> {
    let (states, services) = (StateRegistry::default(), exchange::testing::services());
    let build = exchange::testing::build("/stream_routes/1", None, &states, &services);
    let settings = ProtocolSettings { conf: Some(conf), has_metrics: true };
    let protocol = (KIND.build)(&build, &settings).unwrap();
    let mut session = StreamSession::new("10.0.0.1:1".parse().unwrap(), "127.0.0.1:9100".parse().unwrap(), 1);
    session.route_id = Some("1".into());
    protocol.open(&session, true)
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    words.iter().for_each(|word| bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes()));
    bytes
}

/// The texts of the commands that end with the bytes of the node.
fn replied(session: &mut dyn ProtocolSession, bytes: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    session.node_sent(bytes, &mut |call| lines.push(line(&call))).unwrap();
    lines
}

fn line(call: &ProtocolCall) -> String {
    let (_, text) = call.variables.iter().find(|(name, _)| *name == "redis_cmd_line").unwrap();
    text.to_string()
}

#[test]
fn commands_end_in_their_order() {
    let mut session = open(&json!({}));
    let long = "x".repeat(200);
    let pipeline = [command(&["SET", "a", &long]), command(&["Get", "a"]), command(&["PING"])].concat();
    assert_eq!(session.client_sent(&pipeline), Ok(0));
    let set = format!("set a {}...(200 bytes)", "x".repeat(128));
    assert_eq!(replied(&mut *session, b"+OK\r\n$1\r"), [set]);
    assert_eq!(replied(&mut *session, b"\nx\r\n"), ["get a"]);
    let mut open = Vec::new();
    session.close(&mut |call| open.push(line(&call)));
    assert_eq!(open, ["ping"], "the end of the session ends the rest");
}

#[test]
fn delays_follow_command_and_key() {
    let mut session = open(&json!({"faults": [
        {"commands": ["get", "mget"], "key": "slow", "delay": 0.5},
        {"commands": ["ping"], "delay": 0.1},
    ]}));
    let cases: [(&[&str], u64); 7] = [
        (&["GET", "slow"], 500),
        (&["get", "quick"], 0),
        (&["mget", "quick", "slow"], 500),
        (&["set", "slow", "1"], 0),
        (&["PING"], 100),
        (&["get", "quick", "slow"], 0),
        (&["mget"], 0),
    ];
    for (words, delay_ms) in cases {
        assert_eq!(session.client_sent(&command(words)), Ok(delay_ms), "{words:?}");
    }
    let two = [command(&["ping"]), command(&["get", "slow"])].concat();
    assert_eq!(session.client_sent(&two), Ok(600));
    let whole = command(&["get", "slow"]);
    let (first, last) = whole.split_at(whole.len() - 1);
    assert_eq!(
        (session.client_sent(first), session.client_sent(last)),
        (Ok(0), Ok(500)),
        "the last byte waits"
    );
}

#[test]
fn messages_of_subscriptions_end_no_command() {
    let mut session = open(&json!({}));
    session.client_sent(&command(&["SUBSCRIBE", "a", "b"])).unwrap();
    let subscribed = b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n";
    assert_eq!(replied(&mut *session, subscribed), ["subscribe a b"]);
    session.client_sent(&command(&["ping"])).unwrap();
    let message = b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n";
    assert_eq!(replied(&mut *session, message), [""; 0]);
    assert_eq!(replied(&mut *session, b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"), ["ping"]);
    session.client_sent(&command(&["unsubscribe"])).unwrap();
    let left = b"*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n";
    assert_eq!(replied(&mut *session, left), ["unsubscribe"]);
    session.client_sent(&command(&["lrange", "l", "0", "2"])).unwrap();
    assert_eq!(replied(&mut *session, message), ["lrange l 0 2"], "a list that looks like a message");
}

#[test]
fn malformed_bytes_end_the_session() {
    let mut session = open(&json!({}));
    assert!(session.client_sent(b"PING\r\n").unwrap_err().contains("no array"));
    let mut session = open(&json!({}));
    assert!(session.node_sent(b"HTTP/1.1", &mut |_| ()).unwrap_err().contains("unknown type"));
}

#[test]
fn commands_without_replies_are_limited() {
    let mut session = open(&json!({}));
    let batch = command(&["ping"]).repeat(1_000);
    let refused = (0..20).find_map(|_| session.client_sent(&batch).err()).unwrap();
    assert!(refused.contains("more than 10000 commands"), "{refused}");
}
