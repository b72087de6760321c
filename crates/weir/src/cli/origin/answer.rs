//! The responses of the echo origin by path. Knows nothing of connections.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};

use peer::head::split_field;

use super::frames::{self, Handshake};
use super::request::OriginRequestHead;

/// The rest of a response, after its beginning was written to the output buffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OriginResponse {
    /// Nothing: the output buffer has all of it.
    Written,
    /// These bytes are the response.
    Static(&'static [u8]),
    /// Nothing, but the output buffer is sent after a pause.
    After(Duration),
    /// A WebSocket is accepted; frames follow.
    Frames,
    /// A body made of one block, repeated.
    Repeat { block: Vec<u8>, times: u64, end: Vec<u8> },
}

/// Writes the response to a request, or its beginning, to `output`. `body_bytes` is the length of the
/// request's body.
pub(super) fn choose_response(
    head: &OriginRequestHead<'_>,
    body_bytes: u64,
    output: &mut Vec<u8>,
) -> OriginResponse {
    let mut reply = OriginResponseWriter { head, output };
    if head.target == b"/checked-out" {
        return reply.known(&SMALL, SMALL_BODY);
    }
    if head.target == b"/sample.html" {
        return reply.known(&LARGE, LARGE_BODY.as_bytes());
    }
    if head.target == b"/sample.json" {
        reply.whole(200, "application/json", JSON_BODY.as_bytes());
        return OriginResponse::Written;
    }
    let path = head.target.split(|&byte| byte == b'?').next().unwrap_or_default();
    let mut parts = path.split(|&byte| byte == b'/').skip(1);
    let (first, number) = (parts.next().unwrap_or_default(), parts.next().and_then(parse_decimal));
    match (first, number) {
        (b"status", Some(status @ 200..=599)) => {
            reply.text(status as u16, &format!("status {status}\n"));
            OriginResponse::Written
        }
        (b"delay", Some(milliseconds)) => {
            let pause = Duration::from_millis(milliseconds.min(LONGEST_DELAY_MILLISECONDS));
            reply.text(200, &format!("waited {} ms\n", pause.as_millis()));
            OriginResponse::After(pause)
        }
        (b"bytes", Some(length)) => reply.bytes(length),
        (b"flaky", Some(every @ 1..)) => reply.flaky(every),
        (b"echo-frames", None) => reply.frames(),
        (b"chunked", Some(chunks)) => reply.chunks(chunks),
        _ => {
            let text = echo(head, body_bytes);
            reply.whole(200, "application/json", text.as_bytes());
            OriginResponse::Written
        }
    }
}

/// The body of `/sample.html`.
pub(super) fn large_body() -> &'static [u8] {
    LARGE_BODY.as_bytes()
}

/// Writes the response to an invalid request. The connection has to be closed after it.
pub(super) fn refuse(status: u16, output: &mut Vec<u8>) {
    let text = format!("HTTP/1.1 {status} Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    output.extend_from_slice(text.as_bytes());
}
/// A response that is being written.
struct OriginResponseWriter<'a> {
    head: &'a OriginRequestHead<'a>,
    output: &'a mut Vec<u8>,
}

impl OriginResponseWriter<'_> {
    /// A page that is kept as a whole response for the usual request: a GET of HTTP/1.1 that keeps its
    /// connection.
    fn known(mut self, kept: &'static [u8], body: &[u8]) -> OriginResponse {
        if !(self.head.is_1_1 && self.head.keep_alive && self.head.method == b"GET") {
            self.whole(200, "text/plain", body);
        } else if kept.len() > COPIED_BYTES {
            return OriginResponse::Static(kept);
        } else {
            self.output.extend_from_slice(kept);
        }
        OriginResponse::Written
    }

    fn text(mut self, status: u16, text: &str) {
        self.whole(status, "text/plain", text.as_bytes());
    }

    fn whole(&mut self, status: u16, content_type: &str, body: &[u8]) {
        self.head(status, content_type, &format!("Content-Length: {}", body.len()));
        if self.has_body(status) {
            self.output.extend_from_slice(body);
        }
    }

    fn bytes(mut self, length: u64) -> OriginResponse {
        self.head(200, "application/octet-stream", &format!("Content-Length: {length}"));
        let block = vec![b'x'; BLOCK_BYTES];
        let end = vec![b'x'; (length % BLOCK_BYTES as u64) as usize];
        self.repeat(block, length / BLOCK_BYTES as u64, end)
    }

    /// Every `every`-th request to these paths fails, counted over all clients.
    fn flaky(mut self, every: u64) -> OriginResponse {
        if (ASKED_FLAKY.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(every) {
            self.whole(500, "text/plain", FAILED_BODY);
            return OriginResponse::Written;
        }
        self.known(&SMALL, SMALL_BODY)
    }

    fn frames(self) -> OriginResponse {
        match frames::handshake(self.head) {
            Handshake::Accepted(proof) => {
                let text = format!(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                     Sec-WebSocket-Accept: {proof}\r\n\r\n"
                );
                self.output.extend_from_slice(text.as_bytes());
                OriginResponse::Frames
            }
            Handshake::Refused(status, reason) => {
                self.text(status, reason);
                OriginResponse::Written
            }
        }
    }

    fn chunks(mut self, chunks: u64) -> OriginResponse {
        if !self.head.is_1_1 {
            self.whole(505, "text/plain", b"chunks need HTTP/1.1\n");
            return OriginResponse::Written;
        }
        self.head(200, "text/plain", "Transfer-Encoding: chunked");
        self.repeat(b"8\r\na chunk\n\r\n".to_vec(), chunks, b"0\r\n\r\n".to_vec())
    }

    fn repeat(&self, block: Vec<u8>, times: u64, end: Vec<u8>) -> OriginResponse {
        if self.has_body(200) {
            OriginResponse::Repeat { block, times, end }
        } else {
            OriginResponse::Written
        }
    }

    fn head(&mut self, status: u16, content_type: &str, framing: &str) {
        let connection = match (self.head.is_1_1, self.head.keep_alive) {
            (true, true) | (false, false) => "",
            (true, false) => "Connection: close\r\n",
            (false, true) => "Connection: keep-alive\r\n",
        };
        let framing = if matches!(status, 204 | 304) { String::new() } else { format!("{framing}\r\n") };
        let text = format!(
            "HTTP/1.1 {status} {}\r\nServer: weir-origin\r\nContent-Type: {content_type}\r\n{framing}{connection}\r\n",
            reason(status)
        );
        self.output.extend_from_slice(text.as_bytes());
    }

    fn has_body(&self, status: u16) -> bool {
        self.head.method != b"HEAD" && !matches!(status, 204 | 304)
    }
}

/// The request as JSON, indented.
fn echo(head: &OriginRequestHead<'_>, body_bytes: u64) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut fields = Map::new();
    for line in head.fields.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii) {
        let Some((name, value)) = split_field(line) else { continue };
        let value = match fields.get(&text(name)).and_then(Value::as_str) {
            Some(before) => format!("{before}, {}", text(value)),
            None => text(value),
        };
        fields.insert(text(name), Value::String(value));
    }
    let seen = json!({
        "method": text(head.method),
        "path": text(head.target),
        "headers": fields,
        "body_bytes": body_bytes,
    });
    format!("{seen:#}\n")
}

/// A decimal number.
pub(super) fn parse_decimal(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        404 => "Not Found",
        426 => "Upgrade Required",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        // A reason phrase may be empty, but the space before it may not be missing (RFC 9112 4).
        _ => "",
    }
}

fn kept(content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\nServer: weir-origin\r\n";
    format!("{head}Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// The whole response to `/checked-out`.
static SMALL: LazyLock<Vec<u8>> = LazyLock::new(|| kept("text/plain", "checked-out response."));
/// The whole response to `/sample.html`.
static LARGE: LazyLock<Vec<u8>> = LazyLock::new(|| kept("text/plain", &LARGE_BODY));
/// Numbered lines, cut at the size, so that the text compresses about as well as real pages do.
static LARGE_BODY: LazyLock<String> = LazyLock::new(|| {
    let mut text: String =
        (1..1000).map(|line| format!("line {line:06} of the big page of the origin\n")).collect();
    text.truncate(LARGE_BYTES);
    text
});

/// Objects as an API lists them, with identifiers, names, times and amounts that are all different, so that
/// the text compresses as a list of a database does: about eight to one.
static JSON_BODY: LazyLock<String> = LazyLock::new(|| {
    let order = |number: u64| {
        let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!(
            "{{\"id\":\"{:012x}\",\"customer\":\"customer {}\",\"created\":\"2026-11-{:02}T{:02}:{:02}:00Z\",\
             \"total\":{}.{:02},\"paid\":{}}}",
            scattered >> 16,
            scattered % 997,
            1 + scattered % 28,
            scattered % 24,
            scattered / 24 % 60,
            scattered / 60 % 10_000,
            scattered / 7 % 100,
            !scattered.is_multiple_of(3),
        )
    };
    let orders: Vec<String> = (1..=JSON_ORDERS).map(order).collect();
    format!("[{}]", orders.join(","))
});

pub(super) const SMALL_BODY: &[u8] = b"checked-out response.";
/// As long as [`SMALL_BODY`], so that tools that compare lengths report only the status.
const FAILED_BODY: &[u8] = b"failed, by intention.";
/// Requests to `/flaky/N` since the start of the process.
static ASKED_FLAKY: AtomicU64 = AtomicU64::new(0);
/// The size of the larger page that gateways are compared with.
const LARGE_BYTES: usize = 26_650;
/// Objects of `/sample.json`, which has some 26 KB then.
const JSON_ORDERS: u64 = 243;
/// Longest response that is copied into the output buffer, so that several go out in one write.
const COPIED_BYTES: usize = 4096;
/// Bytes per write of `/bytes/N`.
const BLOCK_BYTES: usize = 16 * 1024;
/// Longest delay of `/delay/MS`, in milliseconds.
const LONGEST_DELAY_MILLISECONDS: u64 = 600_000;

#[cfg(test)]
mod tests {
    use super::super::request::parse_head;
    use super::*;

    fn answer(request: &str) -> (String, OriginResponse) {
        let head = parse_head(request.as_bytes()).unwrap().unwrap();
        let mut output = Vec::new();
        let answer = choose_response(&head, 7, &mut output);
        (String::from_utf8(output).unwrap(), answer)
    }

    #[test]
    fn pages_for_measurements() {
        let (small, left) = answer("GET /checked-out HTTP/1.1\r\n\r\n");
        assert!(
            small.ends_with("Content-Length: 21\r\n\r\nchecked-out response.")
                && left == OriginResponse::Written
        );
        let (json, _) = answer("GET /sample.json HTTP/1.1\r\n\r\n");
        let (_, json) = json.split_once("\r\n\r\n").unwrap();
        assert!((26_000..27_500).contains(&json.len()), "{}", json.len());
        assert!(serde_json::from_str::<Value>(json).is_ok_and(|orders| orders.as_array().is_some()));
        let OriginResponse::Static(large) = answer("GET /sample.html HTTP/1.1\r\n\r\n").1 else {
            panic!("not kept")
        };
        assert!(large.ends_with(LARGE_BODY.as_bytes()) && LARGE_BODY.len() == LARGE_BYTES);
        let (old, _) = answer("GET /checked-out HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert!(old.contains("Connection: keep-alive\r\n"), "{old}");
        let (head, _) = answer("HEAD /checked-out HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 21\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn pages_by_path_and_method() {
        let check = |target: &str, beginning: &str, part: &str| {
            let (text, _) = answer(&format!("GET {target} HTTP/1.1\r\nA: b\r\nA: c\r\n\r\n"));
            assert!(text.starts_with(beginning) && text.contains(part), "{target}: {text}");
        };
        check("/status/503", "HTTP/1.1 503 Service Unavailable\r\n", "status 503\n");
        check("/status/204", "HTTP/1.1 204 No Content\r\n", "text/plain\r\n\r\n");
        check("/delay/5", "HTTP/1.1 200", "waited 5 ms\n");
        check("/bytes/40000", "HTTP/1.1 200", "Content-Length: 40000\r\n");
        check("/chunked/3", "HTTP/1.1 200", "Transfer-Encoding: chunked\r\n");
        check("/echo-frames", "HTTP/1.1 426 Upgrade Required", "speaks WebSocket\n");
        check("/flaky/0", "HTTP/1.1 200", "\"path\": \"/flaky/0\"");
        check("/x?y", "HTTP/1.1 200", "\"path\": \"/x?y\"");
        check("/x", "HTTP/1.1 200", "\"A\": \"b, c\"");
        check("/x", "HTTP/1.1 200", "\"body_bytes\": 7");
    }

    #[test]
    fn flaky_path_fails_every_nth_request() {
        let answers: Vec<String> = (0..9).map(|_| answer("GET /flaky/3 HTTP/1.1\r\n\r\n").0).collect();
        let failed = |text: &&String| text.starts_with("HTTP/1.1 500 Internal Server Error\r\n");
        for three in answers.chunks(3) {
            assert_eq!(three.iter().filter(failed).count(), 1, "{answers:?}");
        }
        assert!(answers.iter().all(|text| text.contains("Content-Length: 21\r\n")), "{answers:?}");
        assert_eq!(FAILED_BODY.len(), SMALL_BODY.len());
    }

    #[test]
    fn a_websocket_is_accepted() {
        let (text, left) = answer(
            "GET /echo-frames HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        );
        assert!(
            text.starts_with("HTTP/1.1 101 Switching Protocols\r\n") && left == OriginResponse::Frames,
            "{text}"
        );
        assert!(text.ends_with("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"), "{text}");
    }
}
