//! Complete responses in any pieces, and malformed ones.

use proptest::prelude::*;

use super::*;

/// Result of reading bytes in pieces: status, body, whether the connection stays open, and how many bytes
/// belonged to the response.
type Outcome = Result<Option<(u16, Vec<u8>, bool, usize)>, Fault>;

fn read(reading: &mut ResponseParser, pieces: &[&[u8]], closes: bool) -> Outcome {
    let (mut body, mut used) = (Vec::new(), 0);
    for piece in pieces {
        if reading.is_whole() {
            break;
        }
        used += reading.take(piece, |_, part| body.extend_from_slice(part))?;
    }
    let whole = reading.is_whole() || (closes && reading.take_end());
    Ok(whole.then_some((reading.status, body, reading.keeps, used)))
}

fn in_one(bytes: &[u8], closes: bool) -> Outcome {
    read(&mut ResponseParser::default(), &[bytes], closes)
}

/// Checks that the result is the same for every cut: at every byte in two, and byte by byte.
fn check_cuts(bytes: &[u8], closes: bool) {
    let wanted = in_one(bytes, closes);
    let mut reading = ResponseParser::default();
    for cut in 0..=bytes.len() {
        reading.begin();
        let (left, right) = bytes.split_at(cut);
        assert_eq!(read(&mut reading, &[left, right], closes), wanted, "{:?} cut at {cut}", text(bytes));
    }
    reading.begin();
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read(&mut reading, &single, closes), wanted, "{:?} byte by byte", text(bytes));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn answers_end_where_rfc_9112_says() {
    // The response, the bytes after it, its status, its body, and whether the connection stays open.
    let check = |head: &str, rest: &str, after: &str, status: u16, body: &str, keeps: bool| {
        let whole = format!("{head}\r\n\r\n{rest}{after}");
        let used = whole.len() - after.len();
        let wanted = Ok(Some((status, body.as_bytes().to_vec(), keeps, used)));
        assert_eq!(in_one(whole.as_bytes(), true), wanted, "{whole:?}");
        check_cuts(whole.as_bytes(), true);
    };
    check("HTTP/1.1 200 OK\r\nContent-Length: 5", "hello", "", 200, "hello", true);
    check("HTTP/1.1 200 OK\r\nContent-Length: 5", "hello", "more", 200, "hello", true);
    check("HTTP/1.1 200 OK\r\nCONTENT-LENGTH:5\r\nContent-Length: 5", "hello", "", 200, "hello", true);
    check("HTTP/1.1 503\r\nContent-Length: 0", "", "", 503, "", true);
    check("HTTP/1.1 200 \r\nA: b\r\nContent-Length: 1\r\nConnection: close", "x", "", 200, "x", false);
    check("HTTP/1.0 200 OK\r\nContent-Length: 1", "x", "", 200, "x", false);
    check("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: x, Keep-Alive", "x", "", 200, "x", true);
    check("HTTP/1.1 204 No Content\r\nContent-Length: 9", "", "", 204, "", true);
    check("HTTP/1.1 304 Not Modified", "", "", 304, "", true);
    check("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket", "", "\u{1}x", 101, "", true);
    check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1", "x", "", 200, "x", true);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked";
    check(chunked, "0\r\n\r\n", "", 200, "", true);
    check(chunked, "5\r\nhello\r\nA ;a=b\r\n0123456789\r\n000\r\n\r\n", "HTTP", 200, "hello0123456789", true);
    check(chunked, "1;x=\"y\"\r\na\r\n0\r\nX: y\r\nZ: z\r\n\r\n", "", 200, "a", true);
    check("HTTP/1.1 200 OK\r\nA: b", "until it closes", "", 200, "until it closes", false);
}

#[test]
fn a_cut_answer_is_not_whole() {
    let check = |bytes: &str| {
        for cut in 0..bytes.len() {
            assert_eq!(in_one(&bytes.as_bytes()[..cut], true), Ok(None), "{bytes:?} cut at {cut}");
        }
    };
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    assert_eq!(in_one(b"HTTP/1.1 200 OK\r\n\r\nopen", false), Ok(None), "ends with the connection only");
}

#[test]
fn malformed_responses_are_refused() {
    let check = |bytes: &str, reason: &str| {
        match in_one(bytes.as_bytes(), true) {
            Err(Fault(said)) => assert!(said.contains(reason), "{bytes:?}: {said}"),
            other => panic!("{bytes:?}: {other:?}"),
        }
        check_cuts(bytes.as_bytes(), true);
    };
    check("SSH-2.0-OpenSSH\r\n\r\n", "status line");
    check("HTTP/2.0 200 OK\r\n\r\n", "status line");
    check("HTTP/1.1 2000 OK\r\n\r\n", "three digits");
    check("HTTP/1.1 20x OK\r\n\r\n", "three digits");
    check("HTTP/1.1 200 OK\nA: b\n\n", "without CR");
    check("HTTP/1.1 200 OK\r\nContent\r\n\r\n", "colon");
    check("HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n", "no number");
    check("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", "no number");
    check("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "two Content-Lengths");
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "other than chunked");
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", "both");
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(&format!("{chunked}\r\n"), "follow each other");
    check(&format!("{chunked}z\r\n"), "no number");
    check(&format!("{chunked}1\r\nab\r\n"), "follow each other");
    check(&format!("{chunked}1\rx"), "follow each other");
    check(&format!("{chunked}1234567890abcdef0\r\n"), "follow each other");
}

#[test]
fn a_head_has_a_limit() {
    let long = format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(LONGEST_HEAD_BYTES));
    assert_eq!(in_one(long.as_bytes(), true), Err(TOO_LONG));
    let whole = format!("{long}\r\n\r\n");
    assert_eq!(in_one(whole.as_bytes(), true), Err(TOO_LONG));
    let (left, right) = whole.as_bytes().split_at(1000);
    assert_eq!(read(&mut ResponseParser::default(), &[left, right], true), Err(TOO_LONG));
}

proptest! {
    #[test]
    fn garbage_never_panics_and_cuts_change_nothing(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        begins in prop::sample::select(vec![
            "", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ]),
    ) {
        check_cuts(&[begins.as_bytes(), &bytes].concat(), true);
    }

    #[test]
    fn a_body_comes_through_in_any_chunks(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..8),
    ) {
        let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for chunk in &chunks {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        prop_assert_eq!(in_one(&bytes, false), Ok(Some((200, chunks.concat(), true, bytes.len()))));
        check_cuts(&bytes, false);
    }
}
