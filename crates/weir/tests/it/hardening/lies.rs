//! Checks 27 to 30: origins with invalid, cut or surplus responses. An oracle of its own reads them; a
//! response that it cannot read is refused, or forwarded without any byte that the origin has not written.

use std::io::ErrorKind;
use std::sync::Arc;

use testkit::{Broken, Origin, Reply, Response, Weir};

use super::oracle::{Body, End, Reader, framing};
use super::stand::shown;
use crate::support::in_front_of;

/// Valid responses, to be damaged byte by byte.
const SOUND: [&str; 5] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5;x=y\r\nhello\r\n0\r\nX-T: 1\r\n\r\n",
    "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 404 \r\nContent-Length: 2\r\n\r\nno",
    "HTTP/1.0 200 OK\r\n\r\nhello",
];

/// Bytes that are inserted, or replace another byte.
const DAMAGE: [&[u8]; 13] =
    [b"\0", b"\t", b"\n", b"\x0b", b"\r", b"\r\n", b" ", b",", b"0", b":", b"a", b"\x7f", b"\xff"];

/// The status and body that a client must get from the bytes that an origin wrote before it closed; `None` if
/// they are no response.
fn reading(bytes: &[u8]) -> Option<(u16, Vec<u8>)> {
    let mut reader = Reader { rest: bytes };
    loop {
        let line = String::from_utf8_lossy(reader.line().ok()?).into_owned();
        let (version, rest) = line.split_once(' ')?;
        let (code, reason) = rest.split_at_checked(3)?;
        let is_new = version == "HTTP/1.1";
        let is_clean = reason.is_empty() || reason.starts_with(' ');
        if !(is_new || version == "HTTP/1.0")
            || !is_clean
            || reason.contains(|sign: char| sign != '\t' && sign.is_ascii_control())
        {
            return None;
        }
        let status: u16 = code.bytes().all(|digit| digit.is_ascii_digit()).then(|| code.parse().ok())??;
        let (mut lengths, mut codings) = (Vec::new(), Vec::new());
        while let Some((name, value)) = reader.field().ok()? {
            match name.as_str() {
                "content-length" => lengths.push(value),
                "transfer-encoding" => codings.push(value),
                "connection" if value.contains(|sign: char| sign != '-' && !sign.is_ascii_alphanumeric()) => {
                    // Only lists of tokens are read; the damage changes a list at most by empty elements.
                    let is_list = value.split(',').all(|element| {
                        element.trim().chars().all(|sign| sign == '-' || sign.is_ascii_alphanumeric())
                    });
                    if !is_list {
                        return None;
                    }
                }
                _ => {}
            }
        }
        let body = framing(&lengths, &codings, is_new)?;
        match status {
            0..100 | 101 => return None,
            100..200 => {}
            204 | 304 => return Some((status, Vec::new())),
            _ => {
                return match body {
                    Body::None => Some((status, reader.rest.to_vec())),
                    framed => reader.body(&framed).ok().map(|body| (status, body)),
                };
            }
        }
    }
}

/// A gateway in front of an origin that answers `/N` with the `N`th of `answers` and closes.
fn origin_of(answers: Arc<Vec<Vec<u8>>>, reset: bool) -> (Origin, Weir) {
    let origin = Origin::start(move |request| {
        let number: usize = request.path()[1..].parse().unwrap();
        let reply = Reply::raw(&answers[number]);
        if reset { reply.reset() } else { reply.close() }
    });
    let weir = in_front_of(&origin);
    (origin, weir)
}

fn ask(weir: &Weir, number: usize, version: &str) -> Result<Response, Broken> {
    let mut client = weir.client();
    client.send(format!("GET /{number} HTTP/{version}\r\nHost: h\r\n\r\n").as_bytes());
    client.read_response(false)
}

/// Whether a response that the oracle cannot read was forwarded as nginx reads it: whole, and with a body of
/// nothing but bytes that the origin has written. `connections/lenient_responses.rs` says which ones are
/// read.
fn is_lenient_reading(bytes: &[u8], answer: &Result<Response, Broken>) -> bool {
    answer.as_ref().is_ok_and(|response| {
        let body = &response.body[..];
        body.is_empty() || bytes.windows(body.len()).any(|part| part == body)
    })
}

/// Whether a response is the gateway's own, or was visibly cut.
fn is_failure(answer: &Result<Response, Broken>) -> bool {
    match answer {
        Ok(response) => response.status == 502,
        Err(broken) => matches!(broken.cause.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset),
    }
}

// Check 27.
#[test]
fn check_27_damaged_responses_agree_with_oracle() {
    let mut answers = Vec::new();
    for sound in SOUND.map(str::as_bytes) {
        for at in 0..sound.len() {
            let (before, byte, after) = (&sound[..at], &sound[at..=at], &sound[at + 1..]);
            answers.push([before, after].concat());
            answers.push([before, byte, byte, after].concat());
            for damage in DAMAGE {
                answers.push([before, damage, byte, after].concat());
                answers.push([before, damage, after].concat());
            }
        }
    }
    let answers = Arc::new(answers);
    let (_origin, weir) = origin_of(Arc::clone(&answers), false);
    let mut wrong = Vec::new();
    for (number, bytes) in answers.iter().enumerate() {
        let got = ask(&weir, number, "1.1");
        let fits = match (reading(bytes), &got) {
            (None, _) => is_failure(&got) || is_lenient_reading(bytes, &got),
            (Some((status, body)), Ok(got)) => (got.status, &got.body) == (status, &body),
            (Some(_), Err(_)) => false,
        };
        if !fits {
            wrong.push(format!("{}: {got:?}, where the oracle reads {:?}", shown(bytes), reading(bytes)));
        }
        assert!(wrong.len() < 10, "{}", wrong.join("\n"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(answers.len() > 5_000, "{}", answers.len());
}

// Check 28: at every byte, in every framing, with an orderly close and with a reset, to both versions;
// Pingora CVE-2026-2835.
#[test]
fn check_28_an_answer_cut_at_any_byte_is_never_whole() {
    let mut cuts = Vec::new();
    // The body of the last one ends with the connection: an orderly close in the middle of it looks complete
    // (RFC 9112 section 8).
    for sound in &SOUND[..4] {
        cuts.extend((0..sound.len()).map(|at| sound.as_bytes()[..at].to_vec()));
    }
    let closing = SOUND[4].as_bytes();
    let resets: Vec<Vec<u8>> =
        cuts.iter().cloned().chain((0..=closing.len()).map(|at| closing[..at].to_vec())).collect();
    for (answers, reset) in [(cuts, false), (resets, true)] {
        let answers = Arc::new(answers);
        let (_origin, weir) = origin_of(Arc::clone(&answers), reset);
        for (number, bytes) in answers.iter().enumerate() {
            for version in ["1.1", "1.0"] {
                let got = ask(&weir, number, version);
                assert!(is_failure(&got), "{} to {version}, reset {reset}: {got:?}", shown(bytes));
            }
        }
    }
}

// Check 29: in every framing, and for every response without a body, sent together with the response.
#[test]
fn check_29_bytes_after_a_response_are_dropped() {
    let stray = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray";
    for (method, answer) in [
        ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
        ("GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"),
        ("GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
        ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello"),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        ("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
    ] {
        for stray in [stray, "\r\n", "\0", "x", "HTTP/1.1 100 Continue\r\n\r\n"] {
            let origin = Origin::start(move |request| match request.path() {
                "/first" => Reply::raw(format!("{answer}{stray}").as_bytes()),
                _ => Reply::ok("mine"),
            });
            let weir = in_front_of(&origin);
            let mut client = weir.client();
            assert!(client.request(method, "/first", &[], b"").status < 400, "{answer:?} {stray:?}");
            for _ in 0..2 {
                assert_eq!(client.get("/second").text(), "mine", "{answer:?} {stray:?}");
            }
            assert!(client.surplus().is_empty(), "{answer:?} {stray:?}");
            assert_eq!(origin.connections(), 2, "{answer:?} {stray:?}");
        }
    }
}

// Check 30.
#[test]
fn check_30_unrequested_switch_is_502() {
    for answer in [
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.0 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 199 Unknown\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ] {
        let origin = Origin::start(move |request| match request.path() {
            "/lie" => Reply::raw(answer.as_bytes()).send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray"),
            _ => Reply::ok("mine"),
        });
        let weir = in_front_of(&origin);
        let mut client = weir.client();
        for line in ["", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "Expect: 100-continue\r\n"] {
            client.send(format!("GET /lie HTTP/1.1\r\nHost: h\r\n{line}\r\n").as_bytes());
            assert_eq!(client.read_response(false).unwrap().status, 502, "{answer:?} {line:?}");
            assert_eq!(client.get("/").text(), "mine", "{answer:?} {line:?}");
        }
    }
}

#[test]
fn the_oracle_reads_answers_as_the_standard_says() {
    let check = |bytes: &str, want: Option<(u16, &str)>| {
        let want = want.map(|(status, body)| (status, body.as_bytes().to_vec()));
        assert_eq!(reading(bytes.as_bytes()), want, "{bytes:?}");
    };
    check(SOUND[0], Some((200, "hello")));
    check(SOUND[1], Some((200, "hello")));
    check(SOUND[2], Some((200, "hello")));
    check(SOUND[3], Some((404, "no")));
    check(SOUND[4], Some((200, "hello")));
    check("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", None);
    check("HTTP/1.1 99 x\r\n\r\n", None);
    assert_eq!(Reader { rest: b"a" }.line(), Err(End::Waiting));
}
