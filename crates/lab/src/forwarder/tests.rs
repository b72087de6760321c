//! Tests of every form of the forwarder in front of an origin over real sockets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);
const LARGE_BYTES: usize = 26_650;
const UPLOAD_BYTES: usize = 1_000_000;

/// Calls `check` with every form, in front of this origin.
fn with_every_form(origin: SocketAddr, layers: &[Layer], check: impl Fn(SocketAddr, ForwarderSettings)) {
    for &layer in layers {
        for model in [Model::SameLoop, Model::SharedPool, Model::SeparatePools] {
            for buffers in [Buffers::Pooled, Buffers::Fresh] {
                let listen = "127.0.0.1:0".parse().unwrap();
                let settings = ForwarderSettings { layer, model, workers: 2, listen, origin, buffers };
                check(start_forwarder(settings).unwrap().address, settings);
            }
        }
    }
}

const BOTH: &[Layer] = &[Layer::Four, Layer::Seven];

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 % 251) as u8).collect()
}

#[test]
fn answers_arrive_as_they_were_sent() {
    with_every_form(origin(), BOTH, |address, form| {
        let mut client = Client::new(address);
        for (path, expected) in [
            ("/small", pattern(21)),
            ("/large", pattern(LARGE_BYTES)),
            ("/chunked", pattern(LARGE_BYTES)),
            ("/small", pattern(21)),
        ] {
            let answer = client.ask("GET", path, "", b"");
            assert_eq!((answer.status, answer.body == expected), (200, true), "{path} of {form:?}");
        }
    });
}

#[test]
fn bodies_arrive_as_they_were_sent() {
    let body = pattern(UPLOAD_BYTES);
    let mut chunked = Vec::new();
    for chunk in body.chunks(70_000) {
        write!(chunked, "{:x}\r\n", chunk.len()).unwrap();
        chunked.extend_from_slice(chunk);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    with_every_form(origin(), BOTH, |address, form| {
        let mut client = Client::new(address);
        let length = format!("Content-Length: {UPLOAD_BYTES}\r\n");
        for (fields, sent) in [(&*length, &body), ("Transfer-Encoding: chunked\r\n", &chunked)] {
            let answer = client.ask("POST", "/echo", fields, sent);
            assert_eq!((answer.status, answer.body == body), (200, true), "{fields} of {form:?}");
        }
    });
}

#[test]
fn many_connections_get_their_own_answers() {
    with_every_form(origin(), BOTH, |address, form| {
        let clients = (0..20_usize).map(|number| {
            thread::spawn(move || {
                let mut client = Client::new(address);
                for turn in 0..10 {
                    let body = format!("client {number}, turn {turn}");
                    let fields = format!("Content-Length: {}\r\n", body.len());
                    assert_eq!(client.ask("POST", "/echo", &fields, body.as_bytes()).body, body.as_bytes());
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            assert!(client.join().is_ok(), "{form:?}");
        }
    });
}

#[test]
fn missing_origin_is_502_or_close() {
    let nowhere = testkit::Origin::nowhere();
    with_every_form(nowhere, BOTH, |address, form| {
        let answer = whole(address, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", false);
        match form.layer {
            Layer::Four => assert_eq!(answer, b"", "{form:?}"),
            Layer::Seven => assert!(answer.starts_with(b"HTTP/1.1 502 "), "{form:?}"),
        }
    });
}

#[test]
fn cut_response_does_not_look_whole() {
    with_every_form(origin(), BOTH, |address, form| {
        let answer = whole(address, b"GET /cut HTTP/1.1\r\nHost: a\r\n\r\n", false);
        assert!(answer.ends_with(b"\r\n\r\n0123456789"), "{form:?}: {}", String::from_utf8_lossy(&answer));
    });
}

#[test]
fn half_closed_client_gets_its_response() {
    with_every_form(origin(), BOTH, |address, form| {
        let answer = whole(address, b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n", true);
        assert!(answer.ends_with(&pattern(21)), "{form:?}");
    });
}

#[test]
fn leaving_client_harms_no_other_client() {
    with_every_form(origin(), BOTH, |address, form| {
        for half in [&b"GET /sma"[..], b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf"] {
            let mut left = TcpStream::connect(address).unwrap();
            left.write_all(half).unwrap();
        }
        assert_eq!(Client::new(address).ask("GET", "/small", "", b"").body, pattern(21), "{form:?}");
    });
}

#[test]
fn http_1_0_client_gets_no_chunks_or_interim() {
    with_every_form(origin(), &[Layer::Seven], |address, form| {
        let answer = whole(address, b"GET /chunked HTTP/1.0\r\n\r\n", false);
        assert!(answer.ends_with(&pattern(LARGE_BYTES)), "{form:?}");
        let kept = b"GET /small HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /until-close HTTP/1.0\r\n\r\n";
        let answers = whole(address, kept, false);
        assert!(answers.ends_with(b"until the end"), "{form:?}: {}", String::from_utf8_lossy(&answers));
        assert!(String::from_utf8_lossy(&answers).contains("Connection: keep-alive\r\n"), "{form:?}");
    });
}

#[test]
fn heads_are_those_of_a_proxy() {
    with_every_form(origin(), &[Layer::Seven], |address, form| {
        let fields = "X-Forwarded-For: 192.0.2.1\r\nConnection: x-mine\r\nX-Mine: 1\r\nX-Other: 2\r\n";
        let answer = Client::new(address).ask("GET", "/sodik/head?a=b", fields, b"");
        let head = String::from_utf8(answer.body).unwrap();
        for line in
            ["GET /head?a=b HTTP/1.1", "X-Forwarded-For: 192.0.2.1, 127.0.0.1", "X-Other: 2", "Host: a"]
        {
            assert!(head.lines().any(|there| there == line), "{form:?}: no {line} in {head}");
        }
        assert!(!head.contains("X-Mine"), "{form:?}: {head}");
        assert!(whole(address, b"no request\r\n\r\n", false).starts_with(b"HTTP/1.1 400 "), "{form:?}");
    });
}

/// Sends bytes, ends the sending direction if `ends`, and reads to the end.
fn whole(address: SocketAddr, bytes: &[u8], ends: bool) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    if ends {
        stream.shutdown(Shutdown::Write).unwrap();
    }
    let mut answer = Vec::new();
    // A connection may be reset if the response was cut; the bytes before that count.
    let _ = stream.read_to_end(&mut answer);
    answer
}

struct Message {
    first: String,
    head: String,
    status: u16,
    body: Vec<u8>,
}

/// Reads a head and its body; `None` at the end.
fn read_message(reader: &mut BufReader<TcpStream>) -> Option<Message> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let field = |name: &str| {
        let value = |line: &str| line.to_lowercase().strip_prefix(name).map(|rest| rest.trim().to_owned());
        head.lines().find_map(value)
    };
    let mut body = Vec::new();
    if field("transfer-encoding:").is_some() {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let mut chunk = vec![0; usize::from_str_radix(line.trim(), 16).ok()? + 2];
            reader.read_exact(&mut chunk).ok()?;
            chunk.truncate(chunk.len() - 2);
            if chunk.is_empty() {
                break;
            }
            body.append(&mut chunk);
        }
    } else if let Some(length) = field("content-length:") {
        body.resize(length.parse().ok()?, 0);
        reader.read_exact(&mut body).ok()?;
    }
    let first = head.lines().next()?.to_owned();
    let status = first.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
    Some(Message { first, head, status, body })
}

struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    fn ask(&mut self, method: &str, path: &str, fields: &str, body: &[u8]) -> Message {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes();
        request.extend_from_slice(body);
        // An origin that echoes may answer while the request is still being sent.
        let mut writer = self.reader.get_ref().try_clone().unwrap();
        let sending = thread::spawn(move || writer.write_all(&request));
        let answer = read_message(&mut self.reader).expect("a whole answer");
        sending.join().unwrap().unwrap();
        answer
    }
}

/// An origin that runs as long as the tests.
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
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(request) = read_message(&mut reader) {
        let path = request.first.split(' ').nth(1).unwrap_or_default();
        let (head, body) = match path {
            "/small" => (None, pattern(21)),
            "/large" => (None, pattern(LARGE_BYTES)),
            "/echo" => (None, request.body),
            "/head?a=b" => (None, request.head.into_bytes()),
            "/cut" => (Some("Content-Length: 100"), b"0123456789".to_vec()),
            "/until-close" => (Some("X-Length: unknown"), b"until the end".to_vec()),
            "/chunked" => (Some("Transfer-Encoding: chunked"), chunks()),
            _ => (None, b"unknown".to_vec()),
        };
        let length = format!("Content-Length: {}", body.len());
        let mut answer = format!("HTTP/1.1 200 OK\r\n{}\r\n\r\n", head.unwrap_or(&length)).into_bytes();
        answer.extend_from_slice(&body);
        if stream.write_all(&answer).is_err() || ["/cut", "/until-close"].contains(&path) {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

fn chunks() -> Vec<u8> {
    let mut text = Vec::new();
    for chunk in pattern(LARGE_BYTES).chunks(7_000) {
        write!(text, "{:x}\r\n", chunk.len()).unwrap();
        text.extend_from_slice(chunk);
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"0\r\n\r\n");
    text
}
