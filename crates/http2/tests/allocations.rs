//! Warmed-up connections of both roles carry requests, responses and bodies without a single allocation.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;

use http2::{Config, Connection, Event, FieldSink, RequestTarget, StreamKey};
use message::{FieldSet, Headers, RequestHead, ResponseHead};
use stdx::noting_allocator::NotingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: NotingAllocator =
    NotingAllocator(|allocations, _, _| ALLOCATIONS.set(ALLOCATIONS.get() + allocations));

/// A client and a server with the heads and buffers that a gateway reuses.
struct Pair {
    client: Connection,
    server: Connection,
    fields: Headers,
    request: RequestHead,
    response: ResponseHead,
    body: Vec<u8>,
    now_ms: u64,
}

impl Pair {
    fn new() -> Self {
        let mut fields = Headers::new();
        for (name, value) in [
            ("Accept", "*/*"),
            ("User-Agent", "h2load"),
            ("X-Real-IP", "127.0.0.1"),
            ("Date", "now"),
            ("Server", "weir"),
        ] {
            fields.append(name, value.as_bytes()).unwrap();
        }
        Self {
            client: Connection::client(Config::default()),
            server: Connection::server(Config::default()),
            fields,
            request: RequestHead::new(),
            response: ResponseHead::new(),
            body: Vec::new(),
            now_ms: 0,
        }
    }

    /// Moves the outputs to the other side.
    fn exchange_outputs(&mut self) {
        self.server.receive(self.client.output(), self.now_ms).unwrap();
        self.client.advance(self.client.output().len());
        self.client.receive(self.server.output(), self.now_ms).unwrap();
        self.server.advance(self.server.output().len());
    }

    /// Ten requests at a time with bodies of some KiB.
    fn round(&mut self) {
        const TARGET: RequestTarget<'static> = RequestTarget {
            method: b"POST",
            scheme: "http",
            authority: b"localhost:9080",
            path: b"/some/path",
            query: Some(b"a=b"),
            protocol: None,
        };
        for _ in 0..10 {
            let mut writer = self.client.start_request(&TARGET).unwrap();
            writer.fields_except(&self.fields, FieldSet::EMPTY);
            let key = writer.finish(false);
            self.client.write_data(key, &[7; 3000], true);
        }
        self.exchange_outputs();
        while let Some(event) = self.server.next_event() {
            if let Event::Head(key) = event {
                self.answer(key);
            }
        }
        self.exchange_outputs();
        let mut complete = 0;
        while let Some(event) = self.client.next_event() {
            match event {
                Event::Head(key) => drop(self.client.take_response(key, &mut self.response)),
                Event::End(key) => {
                    assert_eq!(self.client.take_data(key, &mut self.body), 3000);
                    self.client.consume(key, 3000);
                    self.client.release(key);
                    complete += 1;
                }
                _ => {}
            }
        }
        assert_eq!(complete, 10);
        self.now_ms += 1;
    }

    fn answer(&mut self, key: StreamKey) {
        self.server.take_request(key, &mut self.request).unwrap();
        let count = self.server.take_data(key, &mut self.body);
        self.server.consume(key, count);
        let mut writer = self.server.start_response(key, 200).unwrap();
        writer.fields_except(&self.fields, FieldSet::EMPTY);
        writer.begin("Via");
        writer.part(b"2 ");
        writer.part(b"weir");
        writer.end();
        writer.finish(false);
        assert_eq!(self.server.write_data(key, &self.body, true), 3000);
        self.server.release(key);
    }
}

#[test]
fn warm_connections_allocate_nothing() {
    let mut pair = Pair::new();
    // Pooled vectors change hands until each is large enough for every use.
    (0..100).for_each(|_| pair.round());
    let before = ALLOCATIONS.get();
    (0..100).for_each(|_| pair.round());
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert!(before > 0, "the counter counts");
}
