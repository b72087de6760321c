//! One gateway between a client that writes raw bytes and an origin that records every request. Tests judge
//! both sides. Knows no rule of HTTP.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::{Client, Origin, Reply, Request, Response, Weir, wait_until};

use crate::support::{builder, everything_to};

/// The request hidden after a request under test: it must never be answered, nor reach the origin.
pub(super) const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n";
/// The request after one that has to be passed on: its response shows that the connection is in step, and
/// ends the connection.
pub(super) const LAST: &str = "GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// The gateway, its origin, and the number of requests that have to reach the origin.
pub(super) struct Stand {
    origin: Origin,
    weir: Weir,
    passed: AtomicUsize,
}

/// All bytes that a client read until its connection ended.
pub(super) struct Heard {
    /// The whole responses.
    pub(super) answers: Vec<Response>,
    /// The bytes after them, which are no whole response.
    pub(super) rest: Vec<u8>,
}

impl Stand {
    /// A gateway that passes every request on.
    pub(super) fn new() -> Stand {
        Stand::of(|origin| everything_to(origin, ""), &[])
    }

    /// A gateway with these resources and arguments.
    pub(super) fn of(resources: impl FnOnce(SocketAddr) -> String, arguments: &[&str]) -> Stand {
        let origin = Origin::start(|request| Reply::ok(&account_of(request)));
        let weir = builder(&resources(origin.address())).arguments(arguments).start();
        Stand { origin, weir, passed: AtomicUsize::new(0) }
    }

    pub(super) fn weir(&self) -> &Weir {
        &self.weir
    }

    /// Adds one to the number of requests that have to reach the origin by the end.
    pub(super) fn expect_one_more(&self) {
        self.passed.fetch_add(1, Ordering::SeqCst);
    }

    /// Sends `bytes` on a fresh connection and reads until the connection ends.
    pub(super) fn exchange(&self, bytes: &[u8]) -> Heard {
        let mut client = self.weir.client();
        // Ignored, because a gateway may refuse and close before it has read everything; only the response
        // counts.
        let _ = client.try_send(bytes);
        listen(&mut client)
    }

    /// Checks that `request`, followed by [`HIDDEN`], is answered once, with one of `statuses`, and the
    /// connection closed.
    pub(super) fn refused(&self, request: impl AsRef<[u8]>, statuses: &[u16]) {
        let request = request.as_ref();
        let heard = self.exchange(&[request, HIDDEN.as_bytes()].concat());
        let shown = shown(request);
        let got: Vec<u16> = heard.answers.iter().map(|answer| answer.status).collect();
        assert!(got.len() == 1 && statuses.contains(&got[0]), "{shown}: {got:?}, not one of {statuses:?}");
        // HTTP/1.0 closes by default (RFC 9112 section 9.3).
        let is_old = request.windows(b" HTTP/1.0\r\n".len()).any(|window| window == b" HTTP/1.0\r\n");
        let says = heard.answers[0].header("connection");
        assert!(says == Some("close") || (is_old && says.is_none()), "{shown}: Connection: {says:?}");
        assert!(heard.rest.is_empty(), "{shown}: {}", self::shown(&heard.rest));
    }

    /// Checks that `request` reaches the origin as `account`, once, and that the connection serves a request
    /// after it.
    pub(super) fn passed(&self, request: impl AsRef<[u8]>, account: &str) {
        let request = request.as_ref();
        self.expect_one_more();
        self.expect_one_more();
        let heard = self.exchange(&[request, LAST.as_bytes()].concat());
        let got: Vec<String> = heard.answers.iter().map(Response::text).collect();
        assert_eq!(got, [account.to_owned(), account_text("GET", "/last", "h", "")], "{}", shown(request));
        assert!(heard.rest.is_empty(), "{}", shown(request));
    }

    /// Ends the gateway; returns all requests at the origin, after its last connection ended. Checks that
    /// each expected request came whole and once, that all others are cut, that none is malformed, and that
    /// no hidden request arrived.
    pub(super) fn end(self) -> Vec<Request> {
        let Stand { origin, weir, passed } = self;
        drop(weir);
        wait_until("the origin has seen the end of every connection", || {
            origin.closed_connections() >= origin.connections()
        });
        let requests = origin.requests();
        for request in &requests {
            let error = request.body_error.as_deref().unwrap_or_default();
            assert!(!error.starts_with("not a "), "{error}: {}", shown(&request.raw_head));
            assert!(request.path() != "/hidden", "a hidden request came out: {request:?}");
        }
        let whole = requests.iter().filter(|request| request.body_error.is_none()).count();
        assert_eq!(whole, passed.into_inner(), "whole requests at the origin");
        requests
    }
}

/// Reads all responses until the connection ends.
pub(super) fn listen(client: &mut Client) -> Heard {
    let mut answers = Vec::new();
    loop {
        match client.read_response(false) {
            Ok(answer) => answers.push(answer),
            Err(broken) => return Heard { answers, rest: broken.received },
        }
    }
}

/// The origin's text about a request.
pub(super) fn account_of(request: &Request) -> String {
    account_text(&request.method, &request.target, request.header("host").unwrap_or("-"), &request.text())
}

/// The same text from its parts.
pub(super) fn account_text(method: &str, target: &str, host: &str, body: &str) -> String {
    format!("{method} {target} {host} {body:?}")
}

/// Bytes for the message of a failed test.
pub(super) fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii().to_string()
}

const SHOWN_BYTES: usize = 300;
