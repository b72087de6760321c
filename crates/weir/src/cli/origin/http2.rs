//! HTTP/2 in clear text, by prior knowledge: calls of gRPC, and the pages that measurements ask for. It knows
//! no routes besides. Unlike the rest of the origin it is driven by the gateway's own crate `http2`, because
//! an origin has to cost less than the gateway in front of it; that crate is compared with the `h2` crate and
//! with grpc-go by tests.
//!
//! | request | response |
//! |---|---|
//! | `/lab.Echo/Unary` | the message of the call |
//! | `/lab.Echo/StreamN` | the message of the call N times, at most [`MOST_MESSAGES`] |
//! | another call of gRPC | `grpc-status` 12, UNIMPLEMENTED |
//! | `/checked-out`, `/sample.html`, `/bytes/N` | as with HTTP/1.1 |
//! | anything else | 404 |

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::time::Instant;

use http2::{BodyState, Config, Connection, ErrorCode, Event, FieldSink, StreamKey};
use message::{Headers, RequestHead};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::answer;

/// The start of a connection of HTTP/2; the rest of the preface may be on its way.
pub(super) const START: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

/// Serves one connection until the client closes it or breaks a rule. `begun` are the bytes that were read
/// from it.
pub(super) async fn serve(stream: &mut TcpStream, begun: &[u8]) -> io::Result<()> {
    let mut server = OriginHttp2Connection {
        connection: Connection::server(Config {
            max_streams: MOST_STREAMS,
            stream_window_bytes: MESSAGE_BYTES as u32,
            connection_window_bytes: CONNECTION_WINDOW_BYTES,
            ..Config::default()
        }),
        head: RequestHead::default(),
        buffer: Vec::new(),
        unwritten: HashMap::new(),
        began: Instant::now(),
    };
    let mut input = vec![0; INPUT_BYTES];
    let mut is_sound = server.receive(begun);
    loop {
        while !server.connection.output().is_empty() {
            let written = stream.write(server.connection.output()).await?;
            server.connection.advance(written);
            // Written bytes make room for streams that wait.
            server.work();
        }
        if !is_sound {
            return stream.shutdown().await;
        }
        match stream.read(&mut input).await? {
            0 => return Ok(()),
            bytes => is_sound = server.receive(&input[..bytes]),
        }
    }
}

/// One connection.
struct OriginHttp2Connection {
    connection: Connection,
    head: RequestHead,
    /// The message of the present call.
    buffer: Vec<u8>,
    unwritten: HashMap<StreamKey, PendingBody>,
    began: Instant,
}

/// A response body that is not written yet, as far as windows and output allow.
struct PendingBody {
    /// The body is this piece, repeated and cut. Each is a DATA frame of its own, as messages of gRPC
    /// commonly are.
    piece: Cow<'static, [u8]>,
    written: u64,
    bytes: u64,
    /// Whether trailers with the status of the call follow.
    is_grpc: bool,
}

/// The answer to a request, chosen by its path.
enum OriginHttp2Reply {
    Page(PendingBody),
    Call(PendingBody),
    /// A call that fails with this `grpc-status`.
    Failed(&'static [u8]),
    NotFound,
}

impl OriginHttp2Connection {
    /// Takes bytes of the client and answers complete requests. False if the client broke a rule: the output
    /// tells it so.
    fn receive(&mut self, input: &[u8]) -> bool {
        let now_ms = self.began.elapsed().as_millis() as u64;
        let is_sound = self.connection.receive(input, now_ms).is_ok();
        self.work();
        is_sound
    }

    /// Handles all events. The connection keeps heads and messages until a request is complete.
    fn work(&mut self) {
        while let Some(event) = self.connection.next_event() {
            match event {
                Event::End(key) => self.answer(key),
                // A request without a body ends with its head, and no other event follows.
                Event::Head(key) if matches!(self.connection.body_state(key), BodyState::End { .. }) => {
                    self.answer(key);
                }
                Event::Data(key) => self.limit(key),
                Event::Writable(key) => self.go_on(key),
                Event::HeadTooLarge(key) | Event::Reset(key, _) => {
                    self.unwritten.remove(&key);
                    self.connection.release(key);
                }
                Event::Head(_)
                | Event::SettingsChanged
                | Event::GoAway(_)
                | Event::Pong(_)
                | Event::Drained => {}
            }
        }
    }

    /// Refuses a message that is longer than a stream's window, because its end would never come.
    fn limit(&mut self, key: StreamKey) {
        if matches!(self.connection.body_state(key), BodyState::Data(bytes) if bytes >= MESSAGE_BYTES) {
            self.fail(key, RESOURCE_EXHAUSTED);
        }
    }

    fn answer(&mut self, key: StreamKey) {
        // An End without a head to take is that of a stream that was answered early.
        if self.connection.take_request(key, &mut self.head).is_none() {
            return;
        }
        self.buffer.clear();
        if let BodyState::Data(_) = self.connection.body_state(key) {
            let bytes = self.connection.take_data(key, &mut self.buffer);
            self.connection.consume(key, bytes);
        }
        let body = match reply(self.head.path(), &self.buffer) {
            OriginHttp2Reply::Failed(status) => return self.fail(key, status),
            OriginHttp2Reply::NotFound => {
                if let Some(writer) = self.connection.start_response(key, 404) {
                    writer.finish(true);
                }
                return self.connection.release(key);
            }
            OriginHttp2Reply::Page(body) | OriginHttp2Reply::Call(body) => body,
        };
        if let Some(mut writer) = self.connection.start_response(key, 200) {
            if body.is_grpc {
                writer.field("content-type", b"application/grpc");
            } else {
                writer.field("content-type", b"text/plain");
                writer.field("content-length", body.bytes.to_string().as_bytes());
            }
            writer.finish(false);
        }
        self.unwritten.insert(key, body);
        self.go_on(key);
    }

    /// Writes as much of a body as its windows allow, and ends the stream behind its last byte.
    fn go_on(&mut self, key: StreamKey) {
        let Some(body) = self.unwritten.get_mut(&key) else { return };
        while body.written < body.bytes {
            let at = (body.written % body.piece.len() as u64) as usize;
            let end =
                body.piece.len().min(at + usize::try_from(body.bytes - body.written).unwrap_or(usize::MAX));
            let rest = &body.piece[at..end];
            let is_last = !body.is_grpc && body.written + rest.len() as u64 == body.bytes;
            let count = self.connection.write_data(key, rest, is_last);
            body.written += count as u64;
            if count < end - at {
                return;
            }
        }
        let is_grpc = body.is_grpc;
        self.unwritten.remove(&key);
        if is_grpc {
            self.connection.finish(key, Some(&trailers(OK)));
        } else {
            self.connection.finish(key, None);
        }
        self.connection.release(key);
    }

    /// Ends a call with trailers only.
    fn fail(&mut self, key: StreamKey, status: &[u8]) {
        if let Some(mut writer) = self.connection.start_response(key, 200) {
            writer.field("content-type", b"application/grpc");
            writer.field("grpc-status", status);
            writer.finish(true);
        }
        self.connection.reset(key, ErrorCode::NO_ERROR);
        self.connection.release(key);
    }
}

/// Chooses the answer. `message` is the body of the request: a message of gRPC with its prefix.
fn reply(path: &[u8], message: &[u8]) -> OriginHttp2Reply {
    let page = |piece: Cow<'static, [u8]>, bytes| {
        OriginHttp2Reply::Page(PendingBody { piece, written: 0, bytes, is_grpc: false })
    };
    if let Some(method) = path.strip_prefix(b"/lab.Echo/") {
        let times = match method.strip_prefix(b"Stream") {
            None if method == b"Unary" => Some(1),
            None => None,
            Some(number) => answer::parse_decimal(number).filter(|times| (1..=MOST_MESSAGES).contains(times)),
        };
        let Some(times) = times else { return OriginHttp2Reply::Failed(UNIMPLEMENTED) };
        if !is_message(message) {
            return OriginHttp2Reply::Failed(INTERNAL);
        }
        let bytes = times * message.len() as u64;
        return OriginHttp2Reply::Call(PendingBody {
            piece: message.to_vec().into(),
            written: 0,
            bytes,
            is_grpc: true,
        });
    }
    if path == b"/checked-out" {
        return page(answer::SMALL_BODY.into(), answer::SMALL_BODY.len() as u64);
    }
    if path == b"/sample.html" {
        let body = answer::large_body();
        return page(body.into(), body.len() as u64);
    }
    match path.strip_prefix(b"/bytes/").and_then(answer::parse_decimal) {
        Some(0) => page(b"x".as_slice().into(), 0),
        Some(bytes) => page(BLOCK.into(), bytes),
        None => OriginHttp2Reply::NotFound,
    }
}

/// Whether these bytes are one message: a byte that says that it is not compressed, its length in four bytes,
/// the message.
fn is_message(bytes: &[u8]) -> bool {
    match bytes {
        [0, a, b, c, d, rest @ ..] => u32::from_be_bytes([*a, *b, *c, *d]) as usize == rest.len(),
        _ => false,
    }
}

fn trailers(status: &[u8]) -> Headers {
    let mut trailers = Headers::default();
    trailers.push_raw(b"grpc-status", status);
    trailers
}

const OK: &[u8] = b"0";
const RESOURCE_EXHAUSTED: &[u8] = b"8";
const UNIMPLEMENTED: &[u8] = b"12";
const INTERNAL: &[u8] = b"13";
/// Longest message, with its prefix.
const MESSAGE_BYTES: usize = 1024 * 1024;
/// Most messages of a streaming call.
const MOST_MESSAGES: u64 = 1_000_000;
/// More than a gateway opens on one connection.
const MOST_STREAMS: u32 = 4096;
/// Messages of many calls at once; a gateway in front should never wait for the origin's window.
const CONNECTION_WINDOW_BYTES: u32 = 64 * 1024 * 1024;
const INPUT_BYTES: usize = 64 * 1024;
/// A frame of HTTP/2, and a block of `/bytes/N`.
static BLOCK: &[u8] = &[b'x'; 16 * 1024];

#[cfg(test)]
mod tests;
