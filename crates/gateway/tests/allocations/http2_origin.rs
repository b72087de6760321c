//! The same for HTTP/2 on both sides: requests that share one connection to the endpoint allocate nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use ::http2::{BodyState, Config, Connection, Event, StreamKey};
use http2::FieldSink;
use message::RequestHead;

use super::http2::Client;
use super::{BODY, KIB, WARM_UP, assert_allocations_end, engine_with_version, node};

/// Requests at the same time.
const STREAMS: usize = 8;

/// An endpoint that answers each request over HTTP/2 with [`BODY`].
fn origin() -> SocketAddr {
    node(|mut stream| {
        stream.set_nodelay(true).unwrap();
        let mut engine = Connection::server(Config::default());
        let (mut room, mut data, mut head) = (vec![0; 64 * KIB], Vec::new(), RequestHead::default());
        while let Ok(count @ 1..) = stream.read(&mut room) {
            engine.receive(&room[..count], 0).unwrap();
            while let Some(event) = engine.next_event() {
                let key = match event {
                    // A request without a body has no event of its end.
                    Event::Head(key) if !engine.take_request(key, &mut head).unwrap().is_end => continue,
                    Event::Head(key) | Event::End(key) => key,
                    _ => continue,
                };
                if let BodyState::Data(_) = engine.body_state(key) {
                    let taken = engine.take_data(key, &mut data);
                    engine.consume(key, taken);
                }
                answer(&mut engine, key);
            }
            flush(&mut engine, &mut stream);
        }
    })
}

fn answer(engine: &mut Connection, key: StreamKey) {
    let mut writer = engine.start_response(key, 200).unwrap();
    writer.field("content-type", b"text/plain");
    writer.field("content-length", BODY.len().to_string().as_bytes());
    writer.finish(false);
    assert_eq!(engine.write_data(key, BODY, true), BODY.len());
    engine.release(key);
}

fn flush(engine: &mut Connection, stream: &mut TcpStream) {
    while !engine.output().is_empty() {
        let count = stream.write(engine.output()).unwrap();
        engine.advance(count);
    }
}

pub(crate) fn check_warm_requests() {
    let (engine, proxy) = engine_with_version(origin(), "2");
    let mut client = Client::connect(proxy);
    for (method, body, at_once) in
        [(&b"GET"[..], &b""[..], 1), (b"POST", BODY, 1), (b"GET", b"", STREAMS), (b"POST", BODY, STREAMS)]
    {
        let mut ask =
            |times: usize| (0..times / at_once).for_each(|_| client.exchange(method, body, at_once));
        ask(10 * WARM_UP);
        assert_allocations_end(&format!("{at_once} at a time over HTTP/2"), ask);
    }
    drop(client);
    engine.stop();
}
