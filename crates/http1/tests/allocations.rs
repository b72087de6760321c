//! A warmed-up head is parsed, edited and encoded without a single allocation.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;

use http1::{RequestWire, ResponseWire, encode, parse_request, parse_response};
use message::{FieldId, HeadLimits, RequestHead, ResponseHead};
use stdx::noting_allocator::NotingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: NotingAllocator =
    NotingAllocator(|allocations, _, _| ALLOCATIONS.set(ALLOCATIONS.get() + allocations));

const REQUEST: &[u8] =
    b"GET /checked-out?a=b HTTP/1.1\r\nHost: localhost:9080\r\nUser-Agent: wrk\r\nAccept: */*\r\n\
    Accept-Encoding: gzip\r\nConnection: x-drop, keep-alive\r\nX-Drop: 1\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
    Content-Type: text/plain\r\nContent-Length: 21\r\nConnection: keep-alive\r\n\r\n";

fn exchange(request: &mut RequestHead, response: &mut ResponseHead, out: &mut Vec<u8>) {
    let limits = HeadLimits::default();
    out.clear();
    parse_request(REQUEST, request, &mut RequestWire::default(), &limits).unwrap();
    request.headers.set_known(FieldId::XForwardedFor, b"127.0.0.1").unwrap();
    request.headers.set_known(FieldId::Host, b"origin").unwrap();
    request.headers.remove("user-agent");
    encode::request_line(out, request.method_text(), request.path(), request.query());
    encode::fields(out, &request.headers);
    out.extend_from_slice(encode::HEAD_END);
    parse_response(RESPONSE, response, &mut ResponseWire::default(), &limits, false).unwrap();
    response.headers.set_known(FieldId::Server, b"weir").unwrap();
    encode::status_line(out, response.status, response.reason_text());
    encode::fields(out, &response.headers);
    encode::chunk_prefix(out, 21);
}

#[test]
fn a_warm_exchange_allocates_nothing() {
    let (mut request, mut response, mut out) = (RequestHead::new(), ResponseHead::new(), Vec::new());
    exchange(&mut request, &mut response, &mut out);
    let before = ALLOCATIONS.get();
    for _ in 0..100 {
        exchange(&mut request, &mut response, &mut out);
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert!(before > 0, "the counter counts");
}
