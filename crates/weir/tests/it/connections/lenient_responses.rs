//! Responses of nodes that bend the grammar as servers in use do: they are read, written anew and forwarded
//! over HTTP/1 and HTTP/2, and the connection of such a node carries no second request. Broken ones are a 502
//! to both.

use std::sync::Arc;

use testkit::{Origin, Reply, Weir, raw_exchange};

use crate::http2;
use crate::support::in_front_of;

/// Lines of a head behind `HTTP/1.1 200 OK`, and a body that follows it.
type Form = (&'static str, &'static str);

const READ: [Form; 31] = [
    ("Content-Length: 2\r\nContent-Length: 2\r\n", "ok"),
    ("Content-Length: 2, 2\r\n", "ok"),
    ("Content-Length:\r\n", "ok"),
    ("Content-Length : 2\r\n", "ok"),
    ("Content-Length: 9\r\nTransfer-Encoding: chunked\r\n", "2\r\nok\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "2\r\nok\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked, chunked\r\n", "2\r\nok\r\n0\r\n\r\n"),
    ("Transfer-Encoding: identity\r\nContent-Length: 2\r\n", "ok"),
    ("Transfer-Encoding: identity\r\n", "ok"),
    ("Connection: close;\r\nContent-Length: 2\r\n", "ok"),
    ("Connection: keep-alive; timeout=5\r\nContent-Length: 2\r\n", "ok"),
    ("no colon\r\nContent-Length: 2\r\n", "ok"),
    ("X(a): b\r\nContent-Length: 2\r\n", "ok"),
    ("A b: c\r\n: d\r\nContent-Length: 2\r\n", "ok"),
    ("A : b\r\nContent-Length: 2\r\n", "ok"),
    ("A: b\r\n folded\r\nContent-Length: 2\r\n", "ok"),
    (" folded: first\r\nContent-Length: 2\r\n", "ok"),
    ("Set-Cookie: a=\u{1}b\r\nContent-Length: 2\r\n", "ok"),
    ("X-A: \u{b}\u{7f}\r\nContent-Length: 2\r\n", "ok"),
    ("A: b\nContent-Length: 2\r\n", "ok"),
    ("Transfer-Encoding: chunked\r\n", "2   \r\nok\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", "2\t\r\nok\r\n0 \r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", "2 ; a=b\r\nok\r\n0;c\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", "2\nok\n0\n\n"),
    ("Transfer-Encoding: chunked\r\n", "2\r\nok\r\n0\r\nA : b\r\nno colon\r\n\r\n"),
    ("@HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n", "2\r\nok\r\n0\r\n\r\n"),
    ("@HTTP/1.2 200 OK\r\nContent-Length: 2\r\n", "ok"),
    ("@HTTP/2.0 200 OK\r\nContent-Length: 2\r\n", "ok"),
    ("@HTTP/1.1  200 OK\r\nContent-Length: 2\r\n", "ok"),
    ("@HTTP/1.1 200 O\u{1}K\r\nContent-Length: 2\r\n", "ok"),
    ("@HTTP/1.1 200 OK\nContent-Length: 2\n", "ok"),
];

/// Forms behind which a connection cannot be read on, or that no reader may guess.
const REFUSED: [Form; 11] = [
    ("Content-Length: 2\r\nContent-Length: 3\r\n", "ok"),
    ("Content-Length: x\r\n", "ok"),
    ("Transfer-Encoding: gzip, chunked\r\n", "2\r\nok\r\n0\r\n\r\n"),
    ("A: b\rc\r\nContent-Length: 2\r\n", "ok"),
    ("A: b\0c\r\nContent-Length: 2\r\n", "ok"),
    ("Transfer-Encoding: chunked\r\n", "x\r\nok\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", " 2\r\nok\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", "2 2\r\nok\r\n0\r\n\r\n"),
    ("@HTTP/0.9 200 OK\r\n", "ok"),
    ("@ICY 200 OK\r\n", "ok"),
    ("@HTTP/1.1 200OK\r\nContent-Length: 2\r\n", "ok"),
];

fn bytes_of(form: Form) -> String {
    let (lines, body) = form;
    let start = if lines.starts_with('@') { "" } else { "HTTP/1.1 200 OK\r\n" };
    format!("{start}{}\r\n{body}", lines.trim_start_matches('@'))
}

/// A gateway in front of a node that answers `/N` with the `N`th form and closes; other paths with `fine`.
fn in_front_of_forms(forms: &'static [Form]) -> (Origin, Weir) {
    let answers: Arc<Vec<String>> = Arc::new(forms.iter().map(|form| bytes_of(*form)).collect());
    let origin = Origin::start(move |request| match request.path()[1..].parse::<usize>() {
        Ok(number) => Reply::raw(answers[number].as_bytes()).close(),
        Err(_) => Reply::ok("fine"),
    });
    let weir = in_front_of(&origin);
    (origin, weir)
}

#[test]
fn odd_responses_are_read_and_written_anew() {
    let (_origin, weir) = in_front_of_forms(&READ);
    let mut http2 = http2::client::Client::connect(weir.proxy());
    for (number, form) in READ.iter().enumerate() {
        let path = format!("/{number}");
        let response = weir.client().get(&path);
        assert_eq!((response.status, response.text()), (200, "ok".to_owned()), "{form:?}");
        for (name, value) in &response.headers {
            assert!(message::syntax::is_token(name.as_bytes()), "{form:?}: {name:?}");
            assert!(message::syntax::is_field_value(value.as_bytes()), "{form:?}: {value:?}");
        }
        let answer = http2.get(&path);
        assert_eq!((answer.status, answer.text()), (200, "ok".to_owned()), "{form:?} over HTTP/2");
    }
    let folded = weir.client().get("/15");
    assert_eq!(folded.header("a"), Some("b folded"));
    assert_eq!(weir.client().get("/14").header("a"), Some("b"));
}

#[test]
fn unreadable_responses_are_a_502() {
    let (_origin, weir) = in_front_of_forms(&REFUSED);
    let mut http2 = http2::client::Client::connect(weir.proxy());
    let mut client = weir.client();
    for (number, form) in REFUSED.iter().enumerate() {
        let path = format!("/{number}");
        assert_eq!(client.get(&path).status, 502, "{form:?}");
        assert_eq!(client.get("/fine").text(), "fine", "{form:?}: the client's connection goes on");
        assert_eq!(http2.get(&path).status, 502, "{form:?} over HTTP/2");
    }
}

#[test]
fn connection_of_an_odd_response_is_not_reused() {
    for (number, reused) in
        [(0, false), (4, false), (15, false), (19, false), (23, false), (20, true), (22, true)]
    {
        let answer = bytes_of(READ[number]);
        let origin = Origin::start(move |_| Reply::raw(answer.as_bytes()));
        let weir = in_front_of(&origin);
        let mut client = weir.client();
        for _ in 0..2 {
            assert_eq!(client.get("/").text(), "ok", "{:?}", READ[number]);
        }
        assert_eq!(origin.connections(), if reused { 1 } else { 2 }, "{:?}", READ[number]);
    }
}

#[test]
fn response_cut_before_it_was_sent_is_a_502() {
    // Nothing was forwarded when the cut is read, or the head and the bytes before it were.
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello";
    let origin = Origin::start(move |_| Reply::raw(cut).close());
    let weir = in_front_of(&origin);
    for _ in 0..50 {
        let answer = raw_exchange(weir.proxy(), b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let is_failure = answer.starts_with("HTTP/1.1 502 ");
        let is_shown = answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("hello");
        assert!(is_failure || is_shown, "{answer:?}");
    }
}

#[test]
fn fields_of_responses_are_bounded_by_bytes() {
    for count in [99, 100, 101, 300, 1_000] {
        let head = "Set-Cookie: a=b\r\n".repeat(count);
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{head}\r\nok");
        let origin = Origin::start(move |_| Reply::raw(answer.as_bytes()));
        let weir = in_front_of(&origin);
        let response = weir.get("/");
        assert_eq!((response.status, response.header_all("set-cookie").len()), (200, count), "{count}");
        assert_eq!(weir.get("/").status, 200);
        assert_eq!(origin.connections(), 1, "{count}: the connection is reused");
    }
}
