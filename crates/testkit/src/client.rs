//! A blocking HTTP/1 client over one connection that exposes every byte. It has no retries and follows no
//! redirects.

use std::fmt;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use peer::body::Body;
use serde_json::Value;

use crate::wait::WAIT_LIMIT;
use crate::wire::{Wire, bad, header};

/// One connection to a server. Reads time out after [`WAIT_LIMIT`].
#[derive(Debug)]
pub struct Client {
    wire: Wire,
    host: String,
}

/// One complete response.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: String,
    /// The status code.
    pub status: u16,
    /// The reason phrase, possibly empty.
    pub reason: String,
    /// The header fields, in the order and case of the response.
    pub headers: Vec<(String, String)>,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// The trailers of a chunked body.
    pub trailers: Vec<(String, String)>,
    /// The start line and fields, byte for byte.
    pub raw_head: Vec<u8>,
    /// The 1xx responses before this one.
    pub interim: Vec<Response>,
}

/// An incomplete response: the received bytes and the error.
#[derive(Debug)]
pub struct Broken {
    /// The received bytes of the response (the first 64 KiB).
    pub received: Vec<u8>,
    /// The error; `UnexpectedEof` if the peer closed too early.
    pub cause: io::Error,
}

/// Sends `bytes` and reads until the server closes or resets the connection. Panics if it does neither within
/// [`WAIT_LIMIT`].
pub fn raw_exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut client = Client::connect(address);
    // A write error is ignored, because a server may answer and close before it has read the whole request.
    let _ = client.try_send(bytes);
    client.read_to_end()
}

impl Client {
    /// Connects, or panics with the address.
    pub fn connect(address: SocketAddr) -> Client {
        Client::try_connect(address).unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"))
    }

    /// Connects within [`WAIT_LIMIT`].
    pub fn try_connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, WAIT_LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(WAIT_LIMIT))?;
        stream.set_write_timeout(Some(WAIT_LIMIT))?;
        Ok(Client { wire: Wire::new(stream), host: address.to_string() })
    }

    /// Sets the timeout of reads.
    pub fn set_read_timeout(&mut self, limit: Duration) {
        self.wire.stream.set_read_timeout(Some(limit)).expect("a read timeout above zero");
    }

    /// Sends `GET path`; panics if the response is incomplete.
    pub fn get(&mut self, path: &str) -> Response {
        self.request("GET", path, &[], b"")
    }

    /// Sends one request and reads its response; panics if it is incomplete.
    pub fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.try_request(method, path, headers, body)
            .unwrap_or_else(|broken| panic!("{method} {path}: {broken}"))
    }

    /// Sends one request and reads its response. `Host` and, with a body, `Content-Length` are added unless
    /// `headers` has them.
    pub fn try_request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Response, Broken> {
        let mut bytes = self.head(method, path, headers, body.len());
        bytes.extend_from_slice(body);
        self.try_send(&bytes).map_err(|cause| Broken { received: Vec::new(), cause })?;
        self.read_response(method == "HEAD")
    }

    /// Writes bytes unchanged; panics on an error.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).unwrap_or_else(|error| panic!("cannot send {} bytes: {error}", bytes.len()));
    }

    /// Writes bytes unchanged.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.wire.stream.write_all(bytes)
    }

    /// Reads one response and the 1xx responses before it; `to_head` says that the request was a HEAD. After
    /// a 101 the bytes of the new protocol are read with [`Client::read_bytes`].
    pub fn read_response(&mut self, to_head: bool) -> Result<Response, Broken> {
        self.wire.start_record();
        self.read_whole(to_head).map_err(|cause| Broken { received: self.wire.received(), cause })
    }

    /// Reads exactly `length` bytes.
    pub fn read_bytes(&mut self, length: usize) -> Vec<u8> {
        self.wire.start_record();
        match self.wire.read_body(Body::of_length(length as u64), usize::MAX) {
            Ok(body) => body.kept,
            Err(error) => panic!("{}", Broken { received: self.wire.received(), cause: error }),
        }
    }

    /// Reads until the peer closes or resets the connection; panics if it does neither within [`WAIT_LIMIT`].
    pub fn read_to_end(&mut self) -> Vec<u8> {
        loop {
            match self.wire.fill() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!("no close yet, {error}; so far {}", text(self.wire.ahead())),
            }
        }
        let length = self.wire.ahead().len();
        self.wire.take(length)
    }

    /// Waits until the peer closes; returns whether it sent no further byte.
    pub fn closes_cleanly(&mut self) -> bool {
        self.read_to_end().is_empty()
    }

    /// Bytes that were read together with the last response but come after it.
    pub fn surplus(&self) -> &[u8] {
        self.wire.ahead()
    }

    /// Shuts down the sending side; reading stays possible.
    pub fn finish_sending(&mut self) {
        self.wire.stream.shutdown(Shutdown::Write).expect("an open connection");
    }

    /// The socket itself, for half-closing, timeouts and partial writes.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.wire.stream
    }

    fn head(&self, method: &str, path: &str, headers: &[(&str, &str)], body_bytes: usize) -> Vec<u8> {
        let has = |wanted: &str| headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !has("host") {
            head += &format!("Host: {}\r\n", self.host);
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if body_bytes > 0 && !has("content-length") && !has("transfer-encoding") {
            head += &format!("Content-Length: {body_bytes}\r\n");
        }
        (head + "\r\n").into_bytes()
    }

    fn read_whole(&mut self, to_head: bool) -> io::Result<Response> {
        let mut interim = Vec::new();
        loop {
            let Some(head) = self.wire.read_head()? else {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed before an answer"));
            };
            let mut response = status_line(&head.start_line)?;
            let announced = head.announced()?;
            response.headers = head.headers;
            response.raw_head = head.raw;
            if (100..200).contains(&response.status) && response.status != 101 {
                interim.push(response);
                continue;
            }
            let bodiless = to_head || matches!(response.status, 101 | 204 | 304);
            let body = if bodiless { Body::WHOLE } else { announced.unwrap_or(Body::UNTIL_CLOSED) };
            let content = self.wire.read_body(body, usize::MAX)?;
            return Ok(Response { body: content.kept, trailers: content.trailers, interim, ..response });
        }
    }
}

impl Response {
    /// The first value of a header field; the name is case-insensitive.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// All values of a header field, in order.
    pub fn header_all(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }

    /// The body as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; panics with the body if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("status {}, not JSON ({error}): {}", self.status, self.text()))
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "broken answer: {}; received {}", self.cause, text(&self.received))
    }
}

impl std::error::Error for Broken {}

fn status_line(line: &str) -> io::Result<Response> {
    let mut parts = line.splitn(3, ' ');
    let version = parts.next().unwrap_or_default().to_owned();
    let status = parts.next().and_then(|code| code.parse().ok());
    match status {
        Some(status) if version == "HTTP/1.1" || version == "HTTP/1.0" => {
            let reason = parts.next().unwrap_or_default().to_owned();
            Ok(Response { version, status, reason, ..Response::default() })
        }
        _ => Err(bad(&format!("status line {line:?}"))),
    }
}

fn text(bytes: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]);
    format!("{} bytes: {shown:?}", bytes.len())
}

/// Bytes of an incomplete response in a failure message.
const SHOWN_BYTES: usize = 600;
