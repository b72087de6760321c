//! Tables of what is read leniently in responses of upstreams, what stays refused there, and that a request
//! with the same forms is refused.
#![allow(clippy::unwrap_used)]

use http1::chunked::{ChunkError, Decoder, Piece};
use http1::{
    HeadError, HeadStatus, RequestWire, ResponseFraming, ResponseWire, parse_request, parse_response,
    parse_upstream_response,
};
use message::{HeadLimits, RequestHead, ResponseHead};

fn read(input: &[u8]) -> Result<(HeadStatus, ResponseHead, ResponseWire), HeadError> {
    let (mut head, mut wire) = (ResponseHead::new(), ResponseWire::default());
    let limits = HeadLimits { max_fields: usize::MAX, ..HeadLimits::default() };
    let status = parse_upstream_response(input, &mut head, &mut wire, &limits, false)?;
    Ok((status, head, wire))
}

/// The start line and the fields as they are forwarded, and the framing; the connection must not be used
/// again.
fn check(input: &str, forwarded: &str, framing: ResponseFraming) {
    let (status, head, wire) = read(input.as_bytes()).unwrap_or_else(|error| panic!("{input:?}: {error}"));
    assert_eq!(status, HeadStatus::Complete { head_bytes: input.len() }, "{input:?}");
    let mut out = Vec::new();
    http1::encode::status_line(&mut out, head.status, head.reason_text());
    http1::encode::fields(&mut out, &head.headers);
    let text = String::from_utf8_lossy(&out).replace("\r\n", "|");
    assert_eq!((&text[..], wire.framing, wire.keep_alive), (forwarded, framing, false), "{input:?}");
    let (mut strict, mut strict_wire) = (ResponseHead::new(), ResponseWire::default());
    let strictly = |bytes: &[u8], head: &mut ResponseHead, wire: &mut ResponseWire| {
        parse_response(bytes, head, wire, &HeadLimits::default(), false)
    };
    assert!(strictly(input.as_bytes(), &mut strict, &mut strict_wire).is_err(), "strict: {input:?}");
    out.extend_from_slice(b"\r\n");
    let again = strictly(&out, &mut strict, &mut strict_wire);
    assert_eq!(again, Ok(HeadStatus::Complete { head_bytes: out.len() }), "written anew: {text}");
    for cut in 0..input.len() {
        let partial = read(&input.as_bytes()[..cut]).map(|(status, ..)| status);
        assert_eq!(partial, Ok(HeadStatus::Partial), "{input:?} cut at {cut}");
    }
}

#[test]
fn upstream_heads_read_leniently() {
    use ResponseFraming::{Chunked, Length, UntilClose};
    let ok = "HTTP/1.1 200 OK|";
    let two = "HTTP/1.1 200 OK|Content-Length: 2|";
    // The lines behind `HTTP/1.1 200 OK`.
    let table: &[(&str, &str, ResponseFraming)] = &[
        ("Content-Length: 2\r\nContent-Length: 2\r\n", two, Length(2)),
        ("Content-Length: 2, 2\r\n", two, Length(2)),
        ("Content-Length: 2,\r\nContent-Length: 02\r\n", two, Length(2)),
        ("Content-Length:\r\n", ok, UntilClose),
        ("Content-Length : 2\r\n", two, Length(2)),
        ("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", ok, Chunked),
        ("Transfer-Encoding: chunked\r\nContent-Length: x\r\n", ok, Chunked),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: Chunked\r\n", ok, Chunked),
        ("Transfer-Encoding: chunked, chunked\r\n", ok, Chunked),
        ("Transfer-Encoding : chunked\r\n", ok, Chunked),
        ("Transfer-Encoding:\r\n\tchunked\r\n", ok, Chunked),
        ("Transfer-Encoding: identity\r\nContent-Length: 2\r\n", two, Length(2)),
        ("Transfer-Encoding: identity\r\n", ok, UntilClose),
        ("Transfer-Encoding: identity, chunked\r\n", ok, Chunked),
        ("Transfer-Encoding:\r\nContent-Length: 2\r\n", two, Length(2)),
        ("Connection: close;\r\nContent-Length: 2\r\n", two, Length(2)),
        ("Connection: keep-alive; timeout=5, (x)\r\nContent-Length: 2\r\n", two, Length(2)),
        ("Connection: x;y\r\nX: 1\r\nContent-Length: 2\r\n", two, Length(2)),
        ("no colon\r\nContent-Length: 2\r\n", two, Length(2)),
        ("no colon\r\n but folded\r\nContent-Length: 2\r\n", two, Length(2)),
        ("X(a): b\r\nContent-Length: 2\r\n", two, Length(2)),
        ("X a: b\r\n: c\r\nX\u{e9}: d\r\nContent-Length: 2\r\n", two, Length(2)),
        (
            "A: \u{1}b\u{7f}c\u{1b}\r\nContent-Length: 2\r\n",
            "HTTP/1.1 200 OK|A: b c|Content-Length: 2|",
            Length(2),
        ),
        ("A : b\r\nB\t: c\r\n", "HTTP/1.1 200 OK|A: b|B: c|", UntilClose),
        ("A: b\r\n  c\r\n\t\r\n d\r\nB:\r\n e\r\n", "HTTP/1.1 200 OK|A: b c d|B: e|", UntilClose),
        (" first\r\nA: b\r\n", "HTTP/1.1 200 OK|A: b|", UntilClose),
        ("A: b\nContent-Length: 2\n", "HTTP/1.1 200 OK|A: b|Content-Length: 2|", Length(2)),
    ];
    for (lines, forwarded, framing) in table {
        check(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n"), forwarded, *framing);
    }
    let table = [
        ("HTTP/1.1 200 OK\n\n", ok),
        ("HTTP/1.1 200 OK\nA: b\n\r\n", "HTTP/1.1 200 OK|A: b|"),
        ("HTTP/1.2 200 OK\r\n\r\n", ok),
        ("HTTP/2.0 200 OK\r\n\r\n", ok),
        ("HTTP/1.1  200 OK\r\n\r\n", ok),
        ("HTTP/1.1\t200\tOK\r\n\r\n", ok),
        ("HTTP/1.1 404.5 x\r\n\r\n", "HTTP/1.1 404 |"),
        ("HTTP/1.1 200 O\u{1}K\r\n\r\n", "HTTP/1.1 200 O K|"),
    ];
    for (input, forwarded) in table {
        check(input, forwarded, UntilClose);
    }
    check("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ok, Chunked);
}

#[test]
fn upstream_heads_still_refused() {
    let table: &[(&str, HeadError)] = &[
        ("Content-Length: 2\r\nContent-Length: 3\r\n", HeadError::ContentLength),
        ("Content-Length: 2, 3\r\n", HeadError::ContentLength),
        ("Content-Length: -2\r\n", HeadError::ContentLength),
        ("Content-Length: 1\r\n 2\r\n", HeadError::ContentLength),
        ("Transfer-Encoding: gzip\r\n", HeadError::TransferCodingUnknown),
        ("Transfer-Encoding: gzip, chunked\r\n", HeadError::TransferCodingUnknown),
        ("Transfer-Encoding: chunked;q=1\r\n", HeadError::TransferEncoding),
        ("A: b\rc\r\n", HeadError::LineEnd),
        ("A: b\r\r\n", HeadError::LineEnd),
        ("A: b\0\r\n", HeadError::FieldValue),
        ("A\0: b\r\n", HeadError::FieldValue),
    ];
    for (lines, expected) in table {
        let input = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
        assert_eq!(read(input.as_bytes()).err(), Some(*expected), "{lines:?}");
    }
    for start in [
        "HTTP/0.9 200 OK",
        "http/1.1 200 OK",
        "ICY 200 OK",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000",
        "HTTP/1.1 200OK",
        "HTTP/1.1 099 x",
        "HTTP/1.1",
        "HTTP/1 200 OK",
        "HTTP/1.1 200 O\0K",
        "HTTP/1.1 200 O\rK",
        "\r\nHTTP/1.1 200 OK",
        "HTTP/1.1200 OK",
    ] {
        assert!(read(format!("{start}\r\nContent-Length: 0\r\n\r\n").as_bytes()).is_err(), "{start:?}");
    }
    let options = format!("HTTP/1.1 200 OK\r\nConnection: {}close;\r\n\r\n", "a,".repeat(101));
    assert_eq!(read(options.as_bytes()).err(), Some(HeadError::Connection));
}

#[test]
fn many_upstream_fields_are_bounded_by_bytes() {
    let fields = |count: usize| "Set-Cookie: a=b\r\n".repeat(count);
    for count in [99, 100, 256, 257, 3_000] {
        let input = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{}\r\n", fields(count));
        let (_, head, wire) = read(input.as_bytes()).unwrap();
        assert_eq!((head.headers.len(), wire.keep_alive), (count + 1, true), "{count}");
        assert_eq!(wire.framing, ResponseFraming::Length(2));
    }
    let input = format!("HTTP/1.1 200 OK\r\n{}\r\n", fields(5_000));
    assert_eq!(read(input.as_bytes()).err(), Some(HeadError::HeadTooLarge));
}

#[test]
fn requests_stay_strict() {
    for lines in [
        "Host: h\r\nContent-Length: 2\r\nContent-Length: 2\r\n",
        "Host: h\r\nContent-Length: 2, 2\r\n",
        "Host: h\r\nContent-Length:\r\n",
        "Host: h\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Host: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Host: h\r\nTransfer-Encoding: identity\r\n",
        "Host: h\r\nConnection: close;\r\n",
        "Host: h\r\nno colon\r\n",
        "Host: h\r\nX(a): b\r\n",
        "Host: h\r\nA: \u{1}\r\n",
        "Host: h\r\nA : b\r\n",
        "Host: h\r\nA: b\r\n c\r\n",
        "Host: h\nA: b\r\n",
    ] {
        let input = format!("POST / HTTP/1.1\r\n{lines}\r\n");
        let limits = HeadLimits::default();
        let read =
            parse_request(input.as_bytes(), &mut RequestHead::new(), &mut RequestWire::default(), &limits);
        assert!(read.is_err(), "{lines:?}");
    }
}

type Decoded = (String, String, bool);

/// Data, trailers, and whether the body is ambiguous; the same however the input is cut.
fn decode(mut decoder: Decoder, input: &str, piece_bytes: usize) -> Result<Option<Decoded>, ChunkError> {
    let (mut data, mut at) = (Vec::new(), 0);
    let input = input.as_bytes();
    for end in (piece_bytes..input.len()).step_by(piece_bytes).chain([input.len()]) {
        loop {
            let step = decoder.decode(&input[at..end])?;
            at += step.consumed;
            match step.piece {
                Piece::Data(length) => {
                    data.extend_from_slice(&input[at..at + length]);
                    at += length;
                    decoder.took(length);
                }
                Piece::More => break,
                Piece::End => {
                    let line = |field: message::FieldRef<'_>| {
                        format!(
                            "{}={}|",
                            String::from_utf8_lossy(field.name),
                            String::from_utf8_lossy(field.value)
                        )
                    };
                    let trailers = decoder.trailers().iter().map(line).collect();
                    return Ok(Some((String::from_utf8(data).unwrap(), trailers, decoder.is_ambiguous())));
                }
            }
        }
    }
    Ok(None)
}

#[test]
fn upstream_chunks_read_leniently() {
    // Body, data, trailers, ambiguous.
    let table = [
        ("2   \r\nok\r\n0\r\n\r\n", "ok", "", false),
        ("2\t\r\nok\r\n0 \r\n\r\n", "ok", "", false),
        ("2 ;a=b\r\nok\r\n0;c\r\n\r\n", "ok", "", false),
        ("2;a\u{1}\r\nok\r\n0\r\n\r\n", "ok", "", true),
        ("2\nok\n0\n\n", "ok", "", true),
        ("2 \nok\r\n0\r\n\n", "ok", "", true),
        ("2;a\nok\r\n0\r\n\r\n", "ok", "", true),
        ("2\r\nok\r\n0\r\nA: b\r\n\r\n", "ok", "A=b|", false),
        (
            "2\r\nok\r\n0\r\nA : b\r\n c\r\nno colon\r\nX(: d\r\nB: \u{1}e\r\nHost: h\r\n\r\n",
            "ok",
            "A=b c|B=e|",
            true,
        ),
        ("0\nA: b\n\n", "", "A=b|", true),
    ];
    for (input, data, trailers, is_ambiguous) in table {
        for piece_bytes in [1, 2, 3, 7, 1_000] {
            let decoded = decode(Decoder::lenient(), input, piece_bytes);
            let expected = Ok(Some((data.to_owned(), trailers.to_owned(), is_ambiguous)));
            assert_eq!(decoded, expected, "{input:?} in pieces of {piece_bytes}");
        }
    }
    for input in [
        "5 5\r\nhello\r\n",
        " 5\r\nhello\r\n",
        "0x5\r\n",
        "5\rhello",
        "5\r\nhello0\r\n",
        "\r\n",
        "5 ;a\0\r\n",
        "0\r\nA: b\0\r\n\r\n",
        "0\r\nA: b\rc\r\n\r\n",
    ] {
        assert!(decode(Decoder::lenient(), input, 1).is_err(), "{input:?}");
    }
    let long = format!("2{}\r\nok\r\n0\r\n\r\n", " ".repeat(17_000));
    assert_eq!(decode(Decoder::lenient(), &long, 1_000), Err(ChunkError::ExtensionsTooLarge));
}

#[test]
fn lenient_decoder_starts_again() {
    let mut decoder = Decoder::lenient();
    for _ in 0..2 {
        assert_eq!(decoder.decode(b"0 \nA: b\n\n").unwrap().piece, Piece::End);
        assert!(decoder.is_ambiguous() && decoder.trailers().len() == 1);
        decoder.reset();
        assert!(!decoder.is_ambiguous() && !decoder.is_done());
    }
}
