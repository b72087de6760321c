//! A plugin that answers with stored responses, before the upstream is asked, in place of its response and in
//! place of its failure; and one that copies a body on its way.

use std::sync::Mutex;

use bytes::Bytes;
use exchange::plugin::{BodyTap, ReplyStream, StoredBody, StoredReply};

use super::*;

/// Has one response, and sends it at the time that its configuration says.
struct Keeper {
    at: &'static str,
    streams: bool,
}

/// A body in two pieces.
struct Halves(Vec<&'static str>);

impl ReplyStream for Halves {
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, String>>> {
        Poll::Ready(self.0.pop().map(|piece| Ok(piece.as_bytes().to_vec())))
    }
}

impl Keeper {
    fn stored(&self, exchange: &mut Exchange) -> Box<StoredReply> {
        exchange.response.clear();
        exchange.response.status = 200;
        let body = if self.streams {
            StoredBody::Stream(Box::new(Halves(vec!["red", "sto"])))
        } else {
            StoredBody::Whole(Bytes::from_static(b"stored"))
        };
        Box::new(StoredReply { length: 6, body })
    }
}

impl Plugin for Keeper {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        if self.at == "access" { Flow::Stored(self.stored(exchange)) } else { Flow::Continue }
    }

    fn upstream_response(
        &self,
        exchange: &mut Exchange,
        failure: Option<&ExchangeFailure>,
    ) -> Option<Box<StoredReply>> {
        let now = if failure.is_some() { "failure" } else { "response" };
        (self.at == now).then(|| self.stored(exchange))
    }
}

pub(super) const KEEPER: PluginKind = PluginKind {
    name: "keeper",
    priority: 8,
    phases: &[PluginPhase::Access, PluginPhase::UpstreamResponse],
    build: |_, config| {
        let at =
            ["access", "response", "failure"].into_iter().find(|at| config["at"] == *at).unwrap_or("never");
        Ok(Arc::new(Keeper { at, streams: config["streams"] == true }))
    },
    ..TRAILER_MARK
};

#[test]
fn stored_response_takes_the_place_of_another() {
    let origin = Origin::answering("from upstream");
    let nowhere = Origin::start(|_| Reply::new().close());
    let check = |plugins: Value, origin: &Origin, request: &str, calls: &str, answer: &str| {
        let got = exchange_through(plugins.clone(), origin, request, scripted(&[], BodyLength::None));
        assert_eq!(got, (calls.to_owned(), answer.to_owned()), "{plugins} {request}");
    };
    let known = "start:200:Known(6) finish:0";
    for streams in [false, true] {
        let keeper = |at: &str| json!({"keeper": {"at": at, "streams": streams}});
        check(keeper("access"), &origin, "GET /here", known, "stored");
        check(keeper("access"), &origin, "HEAD /here", "start:200:None finish:0", "");
        check(keeper("response"), &origin, "GET /here", known, "stored");
        check(keeper("failure"), &origin, "GET /here", "start:200:Known(13) finish:0", "from upstream");
        check(keeper("failure"), &nowhere, "GET /here", known, "stored");
        let whole = json!({"keeper": {"at": "access", "streams": streams}, "patient": {}});
        check(whole, &origin, "GET /here", "start:200:Known(12) finish:0", "storedwaited");
    }
    let edited = json!({"keeper": {"at": "access", "streams": true}, "shouter": {}});
    check(edited, &origin, "GET /here", "start:200:Unknown finish:0", "STORED");
    assert_eq!(origin.requests().len(), 4, "two for each of the last kinds");
}

/// The copies that were made, each with whether it is complete.
static COPIES: Mutex<Vec<(String, bool)>> = Mutex::new(Vec::new());

/// Copies the body of every response of an upstream.
struct Tapper;

struct Copy {
    bytes: Vec<u8>,
    is_whole: bool,
}

impl BodyTap for Copy {
    fn piece(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        true
    }

    fn end(mut self: Box<Self>) {
        self.is_whole = true;
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        COPIES.lock().unwrap().push((text, self.is_whole));
    }
}

impl Plugin for Tapper {
    fn upstream_response(
        &self,
        exchange: &mut Exchange,
        _: Option<&ExchangeFailure>,
    ) -> Option<Box<StoredReply>> {
        exchange.tap_response(Box::new(Copy { bytes: Vec::new(), is_whole: false }));
        None
    }
}

pub(super) const TAPPER: PluginKind = PluginKind {
    name: "tapper",
    phases: &[PluginPhase::UpstreamResponse],
    build: |_, _| Ok(Arc::new(Tapper)),
    ..TRAILER_MARK
};

#[test]
fn copy_is_unedited_and_complete_only_if_whole() {
    let whole = Origin::start(|_| Reply::chunked(&["who", "le"], &[("X-Sum", "1")]));
    let cut = Origin::start(|_| Reply::raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").close());
    let check = |plugins: Value, origin: &Origin, copy: &str, is_whole: bool| {
        COPIES.lock().unwrap().clear();
        exchange_through(plugins.clone(), origin, "GET /here", scripted(&[], BodyLength::None));
        let copies = std::mem::take(&mut *COPIES.lock().unwrap());
        assert_eq!(copies.first(), Some(&(copy.to_owned(), is_whole)), "{plugins}");
    };
    check(json!({"tapper": {}}), &whole, "whole", true);
    check(json!({"tapper": {}, "shouter": {}}), &whole, "whole", true);
    check(json!({"tapper": {}, "patient": {}}), &whole, "whole", true);
    check(json!({"tapper": {}}), &cut, "half", false);
}
