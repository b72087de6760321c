//! Exchanges between a client and a server in memory, ten at a time, to count instructions:
//!
//! `valgrind --tool=callgrind target/release/examples/exchanges 6000`, and the same with 1000. The
//! difference, divided by 5,000, is the cost of one exchange with both sides together.
#![allow(clippy::unwrap_used, reason = "a program for measurements")]

use http2::{Config, Connection, Event, FieldSink, RequestTarget};
use message::{FieldSet, Headers, RequestHead, ResponseHead};

const TARGET: RequestTarget<'static> = RequestTarget {
    method: b"GET",
    scheme: "http",
    authority: b"127.0.0.1:9080",
    path: b"/some/path",
    query: None,
    protocol: None,
};
const STREAMS: usize = 10;

fn fields(fields: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.append(name, value.as_bytes()).unwrap();
    }
    headers
}

fn main() {
    let count: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1000);
    let asked =
        fields(&[("User-Agent", "h2load nghttp2/1.52.0"), ("Accept", "*/*"), ("X-Real-IP", "127.0.0.1")]);
    let answered = fields(&[
        ("Server", "weir/0.1.0"),
        ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("Content-Type", "text/plain"),
        ("Content-Length", "21"),
    ]);
    let (mut client, mut server) =
        (Connection::client(Config::default()), Connection::server(Config::default()));
    let (mut request, mut response, mut body) = (RequestHead::new(), ResponseHead::new(), Vec::new());
    for _ in 0..count / STREAMS {
        for _ in 0..STREAMS {
            let mut writer = client.start_request(&TARGET).unwrap();
            writer.fields_except(&asked, FieldSet::EMPTY);
            writer.finish(true);
        }
        pass(&mut client, &mut server);
        while let Some(event) = server.next_event() {
            let Event::Head(key) = event else { continue };
            server.take_request(key, &mut request).unwrap();
            let mut writer = server.start_response(key, 200).unwrap();
            writer.fields_except(&answered, FieldSet::EMPTY);
            writer.finish(false);
            server.write_data(key, b"Hello from the origin", true);
            server.release(key);
        }
        pass(&mut server, &mut client);
        while let Some(event) = client.next_event() {
            match event {
                Event::Head(key) => drop(client.take_response(key, &mut response)),
                Event::End(key) => {
                    let count = client.take_data(key, &mut body);
                    client.consume(key, count);
                    client.release(key);
                }
                _ => {}
            }
        }
    }
    assert_eq!((request.path(), response.status, body.len()), (TARGET.path, 200, 21));
}

/// Moves the output of one side to the other.
fn pass(from: &mut Connection, to: &mut Connection) {
    to.receive(from.output(), 0).unwrap();
    from.advance(from.output().len());
}
