//! Memory of idle connections: no buffers, and little else.

use super::wire::*;
use http2::{Config, Connection, FieldSink};
use message::RequestHead;

/// The most that an idle connection may take, its own value included.
const IDLE_BYTES: usize = 3 * 1024;

fn total(connection: &Connection) -> usize {
    size_of::<Connection>() + connection.memory()
}

/// The most that a peer can make an idle connection take by filling the decoder's table.
const HOSTILE_BYTES: usize = 16 * 1024;

/// A request as a browser sends it: its fields are inserted into the table, or are there since the first
/// request.
fn browser_request(id: u32, is_first: bool) -> Vec<u8> {
    let fields = [
        ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
        ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
        ("accept-language", "en-US,en;q=0.5"),
        ("accept-encoding", "gzip, deflate, br, zstd"),
    ];
    let mut payload = block(&GET);
    for (name, value) in fields {
        let at = payload.len();
        if !is_first {
            payload.push(0xBE + (at - block(&GET).len()) as u8);
            continue;
        }
        payload.extend_from_slice(&block(&[(name, value)]));
        payload[at] = 0x40;
    }
    frame(HEADERS, END_HEADERS | END_STREAM, id, &payload)
}

fn exchange(server: &mut Connection, id: u32, is_first: bool) {
    let key = accepted(server, &browser_request(id, is_first));
    let mut head = RequestHead::new();
    server.take_request(key, &mut head).unwrap();
    let mut writer = server.start_response(key, 200).unwrap();
    for (name, value) in
        [("Content-Type", "text/plain"), ("Server", "weir/0.1.0"), ("Date", "now"), ("Via", "2 weir")]
    {
        writer.field(name, value.as_bytes());
    }
    writer.finish(false);
    server.write_data(key, b"hello", true);
    server.release(key);
    sent(server);
}

#[test]
fn idle_connections_take_three_kib() {
    for connection in [server(Config::default()), client(Config::default())] {
        assert!(total(&connection) < IDLE_BYTES / 2, "without a request {}", total(&connection));
    }
    let mut server = server(Config::default());
    for id in 0..20 {
        exchange(&mut server, 2 * id + 1, id == 0);
        events(&mut server);
        assert!(total(&server) <= IDLE_BYTES, "after request {id}: {}", total(&server));
    }
}

#[test]
fn filled_tables_are_bounded() {
    let mut server = server(Config::default());
    for id in 0..100 {
        exchange(&mut server, 2 * id + 1, true);
        events(&mut server);
        assert!(total(&server) <= HOSTILE_BYTES, "after request {id}: {}", total(&server));
    }
}

#[test]
fn burst_of_streams_leaves_no_memory_behind() {
    let mut server = server(Config::default());
    let input: Vec<u8> = (0..100).flat_map(|count| get(2 * count + 1)).collect();
    feed(&mut server, &input);
    let keys: Vec<_> = events(&mut server).into_iter().filter_map(|event| event.stream()).collect();
    assert_eq!(keys.len(), 100);
    for key in keys {
        server.start_response(key, 200).unwrap().finish(false);
        server.write_data(key, &[0; 2000], true);
        server.release(key);
    }
    sent(&mut server);
    events(&mut server);
    assert!(total(&server) <= IDLE_BYTES, "{}", total(&server));
}

#[test]
fn partial_frames_hold_one_buffer() {
    let mut server = server(Config::default());
    let request = get(1);
    feed(&mut server, &request[..20]);
    assert!(server.memory() > 0);
    feed(&mut server, &request[20..]);
    let key = head(&mut server);
    server.start_response(key, 204).unwrap().finish(true);
    server.release(key);
    sent(&mut server);
    assert!(total(&server) <= IDLE_BYTES);
}
