//! Warmed-up connections of both roles carry requests, responses and content without a single allocation.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;

use http3::{Config, Connection, FieldSink, RequestEvent, RequestReader, RequestTarget, writer};
use message::{FieldId, FieldSet, Headers, RequestHead, ResponseHead};
use stdx::noting_allocator::NotingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: NotingAllocator =
    NotingAllocator(|allocations, _, _| ALLOCATIONS.set(ALLOCATIONS.get() + allocations));

/// Both sides with the memory that a driver keeps.
struct Pair {
    client: Connection,
    server: Connection,
    request: RequestHead,
    response: ResponseHead,
    trailers: Headers,
    upload: Vec<u8>,
    answer: Vec<u8>,
    next_id: u64,
}

/// Reads a stream in two parts, so that sections are kept inside; the number of bytes of content.
fn read(
    reader: &mut RequestReader,
    connection: &mut Connection,
    bytes: &[u8],
    mut on_head: impl FnMut(&mut RequestReader),
) -> usize {
    let mut content = 0;
    for part in [&bytes[..20], &bytes[20..]] {
        let mut rest = part;
        while !rest.is_empty() {
            let step = reader.read(connection, rest).unwrap();
            match step.event {
                Some(RequestEvent::Head) => on_head(reader),
                Some(RequestEvent::Data(range)) => content += range.len(),
                Some(RequestEvent::HeadTooLarge) => panic!("the head is small"),
                None => {}
            }
            rest = &rest[step.consumed..];
        }
    }
    reader.finish(connection).unwrap();
    content
}

impl Pair {
    fn exchange(&mut self) {
        let target = RequestTarget {
            method: b"POST",
            scheme: "https",
            authority: b"h.example",
            path: b"/a",
            query: Some(b"b=c"),
            protocol: None,
        };
        let id = self.next_id;
        self.next_id += 4;
        let mut asking = self.client.start_request(id, &target).unwrap();
        self.upload.clear();
        let mut head = writer::request(&mut self.upload, &target);
        head.field("Content-Length", b"5000");
        head.field("Cookie", b"a=b");
        head.begin("X-Parts");
        head.part(b"one value");
        head.end();
        head.finish();
        writer::data(&mut self.upload, &[7; 5000]);

        let mut serving = self.server.open_request(id).unwrap();
        let request = &mut self.request;
        let content = read(&mut serving, &mut self.server, &self.upload, |reader| {
            reader.take_request(request).unwrap();
        });
        assert_eq!(content, 5000);
        self.server.request_completed();
        self.answer.clear();
        let mut head = writer::response(&mut self.answer, 200);
        head.fields_except(&self.request.headers, FieldSet::of(&[FieldId::Host]));
        head.field("Server", b"weir");
        head.finish();
        writer::data(&mut self.answer, &[8; 5000]);
        assert!(writer::trailers(&mut self.answer, &self.trailers));

        let response = &mut self.response;
        let content = read(&mut asking, &mut self.client, &self.answer, |reader| {
            reader.take_response(response).unwrap();
        });
        assert_eq!((content, asking.trailers().unwrap().len()), (5000, 1));
    }
}

#[test]
fn warm_exchanges_allocate_nothing() {
    let mut trailers = Headers::new();
    trailers.append("X-Sum", b"1").unwrap();
    let mut pair = Pair {
        client: Connection::client(Config::default()),
        server: Connection::server(Config::default()),
        request: RequestHead::new(),
        response: ResponseHead::new(),
        trailers,
        upload: Vec::new(),
        answer: Vec::new(),
        next_id: 0,
    };
    (0..20).for_each(|_| pair.exchange());
    let before = ALLOCATIONS.get();
    (0..100).for_each(|_| pair.exchange());
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
