//! One gateway between a client that writes raw bytes and an origin that records every request. What happened is judged
//! from both sides. Knows no rule of HTTP.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::{Client, Origin, Reply, Request, Response, Weir, wait_until};

use crate::support::{builder, everything_to};

/// What hides behind a request under test: it must never be answered, nor reach the origin.
pub(super) const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n";
/// What follows a request that is to be passed on: shows that the connection is in step, and ends it.
pub(super) const LAST: &str = "GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// See the module.
pub(super) struct Stand {
    origin: Origin,
    weir: Weir,
    passed: AtomicUsize,
}

/// All that a client read until its connection ended.
pub(super) struct Heard {
    /// The whole answers.
    pub(super) answers: Vec<Response>,
    /// Bytes behind them that are no whole answer.
    pub(super) rest: Vec<u8>,
}

impl Stand {
    /// Everything goes to the origin.
    pub(super) fn new() -> Stand {
        Stand::of(|origin| everything_to(origin, ""), &[])
    }

    /// With these resources and arguments.
    pub(super) fn of(resources: impl FnOnce(SocketAddr) -> String, arguments: &[&str]) -> Stand {
        let origin = Origin::start(|request| Reply::ok(&account_of(request)));
        let weir = builder(&resources(origin.address())).arguments(arguments).start();
        Stand { origin, weir, passed: AtomicUsize::new(0) }
    }

    /// The gateway.
    pub(super) fn weir(&self) -> &Weir {
        &self.weir
    }

    /// Requests that were passed on from now on must be one more at the end.
    pub(super) fn expect_one_more(&self) {
        self.passed.fetch_add(1, Ordering::SeqCst);
    }

    /// Sends `bytes` on a fresh connection and reads until it ends.
    pub(super) fn exchange(&self, bytes: &[u8]) -> Heard {
        let mut client = self.weir.client();
        // A gateway may refuse and close before it has read everything; what it said is what counts.
        let _ = client.try_send(bytes);
        listen(&mut client)
    }

    /// `request`, with another one behind it, is answered once, with one of `statuses`, and the connection closed.
    pub(super) fn refused(&self, request: impl AsRef<[u8]>, statuses: &[u16]) {
        let request = request.as_ref();
        let heard = self.exchange(&[request, HIDDEN.as_bytes()].concat());
        let shown = shown(request);
        let got: Vec<u16> = heard.answers.iter().map(|answer| answer.status).collect();
        assert!(got.len() == 1 && statuses.contains(&got[0]), "{shown}: {got:?}, not one of {statuses:?}");
        // Version 1.0 closes unless it says otherwise (RFC 9112 section 9.3).
        let is_old = request.windows(b" HTTP/1.0\r\n".len()).any(|window| window == b" HTTP/1.0\r\n");
        let says = heard.answers[0].header("connection");
        assert!(says == Some("close") || (is_old && says.is_none()), "{shown}: Connection: {says:?}");
        assert!(heard.rest.is_empty(), "{shown}: {}", self::shown(&heard.rest));
    }

    /// `request` reaches the origin as `account`, once, and the connection goes on behind it.
    pub(super) fn passed(&self, request: impl AsRef<[u8]>, account: &str) {
        let request = request.as_ref();
        self.expect_one_more();
        self.expect_one_more();
        let heard = self.exchange(&[request, LAST.as_bytes()].concat());
        let got: Vec<String> = heard.answers.iter().map(Response::text).collect();
        assert_eq!(got, [account.to_owned(), account_text("GET", "/last", "h", "")], "{}", shown(request));
        assert!(heard.rest.is_empty(), "{}", shown(request));
    }

    /// Ends the gateway; gives all that the origin saw, once it is certain that nothing else comes. What was passed on is
    /// whole and came once, all else is cut, nothing is malformed, and nothing hidden came out.
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

/// Reads whatever answers come until the connection ends.
pub(super) fn listen(client: &mut Client) -> Heard {
    let mut answers = Vec::new();
    loop {
        match client.read_response(false) {
            Ok(answer) => answers.push(answer),
            Err(broken) => return Heard { answers, rest: broken.received },
        }
    }
}

/// What the origin says it saw.
pub(super) fn account_of(request: &Request) -> String {
    account_text(&request.method, &request.target, request.header("host").unwrap_or("-"), &request.text())
}

/// The same for parts that are known.
pub(super) fn account_text(method: &str, target: &str, host: &str, body: &str) -> String {
    format!("{method} {target} {host} {body:?}")
}

/// Bytes for a message of failure.
pub(super) fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii().to_string()
}

const SHOWN_BYTES: usize = 300;
