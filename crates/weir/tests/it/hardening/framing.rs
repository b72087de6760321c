//! Checks 1 to 4: lengths and codings that two parsers could read differently. The corpus has them in every
//! combination; these are the forms of known attacks.

use super::stand::{HIDDEN, Stand, account_text};

/// Forms of the coding that some parsers recognise and others do not.
const OBFUSCATED: [&str; 19] = [
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding:\u{b}chunked",
    "Transfer-Encoding: \u{c}chunked",
    "Transfer-Encoding: chunked\u{0}",
    "Transfer-Encoding: \"chunked\"",
    "Transfer-Encoding: 'chunked'",
    "Transfer-Encoding: chunked;foo=bar",
    "Transfer-Encoding: identity, chunked",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
    "Transfer-Encoding: x\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding:\r\n chunked",
    "Transfer-Encoding\r\n : chunked",
    " Transfer-Encoding: chunked",
    "X: X\nTransfer-Encoding: chunked",
    "X: X\rTransfer-Encoding: chunked",
    "Transfer-Encoding\u{0}: chunked",
    "Transfer-Encoding: ch\u{fc}nked",
];

// Check 1.
#[test]
fn check_01_length_beside_coding_is_refused() {
    let stand = Stand::new();
    let mut codings =
        vec!["Transfer-Encoding: chunked", "transfer-encoding:chunked", "TRANSFER-ENCODING: Chunked"];
    codings.extend(OBFUSCATED);
    for coding in codings {
        for (length, body) in
            [("6", "0\r\n\r\nG"), ("0", "0\r\n\r\n"), ("4", "5c\r\nGPOST / HTTP/1.1\r\n\r\n0\r\n\r\n")]
        {
            for lines in [
                format!("Content-Length: {length}\r\n{coding}"),
                format!("{coding}\r\nContent-Length: {length}"),
                format!("{coding}\r\nX-Between: 1\r\nContent-Length: {length}"),
            ] {
                let request = format!("POST / HTTP/1.1\r\nHost: h\r\n{lines}\r\n\r\n{body}");
                stand.refused(request, &[400, 501]);
            }
        }
    }
    stand.end();
}

// Check 2.
#[test]
fn check_02_malformed_length_is_refused() {
    let stand = Stand::new();
    for value in [
        "",
        "+5",
        "-5",
        "-0",
        "0x5",
        "0b101",
        "5.0",
        "5e0",
        "5,5",
        "5, 5",
        "5,6",
        ",5",
        "5,",
        "5;",
        "5 5",
        "5_0",
        "\"5\"",
        "5\u{0}",
        "5\u{b}",
        "\u{a0}5",
        "\u{665}",
        "\u{ff15}",
        "18446744073709551616",
        // The lower 64 bits of these numbers are 5.
        "18446744073709551621",
        "340282366920938463463374607431768211461",
        "NaN",
        "five",
    ] {
        stand.refused(format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {value}\r\n\r\nhello"), &[400]);
    }
    for pair in [
        "5\r\nContent-Length: 6",
        "6\r\nContent-Length: 5",
        "5\r\ncontent-length: 5",
        "5\r\nX: 1\r\nContent-Length: 5",
    ] {
        stand.refused(format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {pair}\r\n\r\nhello"), &[400]);
    }
    // A valid number in an unusual form is accepted; the origin gets the usual form.
    for value in ["5", " \t5 \t", "005", &format!("{:>400}", 5)] {
        let request = format!("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length:{value}\r\n\r\nhello");
        stand.passed(request, &account_text("POST", "/a", "h", "hello"));
    }
    for request in stand.end().iter().filter(|request| request.path() == "/a") {
        assert_eq!(request.header("content-length"), Some("5"));
    }
}

// Check 3.
#[test]
fn check_03_coding_other_than_chunked_is_refused() {
    let stand = Stand::new();
    let mut codings = OBFUSCATED.to_vec();
    codings.extend([
        "Transfer-Encoding:",
        "Transfer-Encoding: ,",
        "Transfer-Encoding: chunked,",
        "Transfer-Encoding: ,chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: chunked chunked",
        "Transfer-Encoding: chunke",
        "Transfer-Encoding: cow, chunked",
    ]);
    for coding in codings {
        stand.refused(
            format!("POST / HTTP/1.1\r\nHost: h\r\n{coding}\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
            &[400, 501],
        );
    }
    for connection in ["", "Connection: keep-alive\r\n"] {
        let head = format!("POST / HTTP/1.0\r\nHost: h\r\n{connection}Transfer-Encoding: chunked\r\n\r\n");
        stand.refused(format!("{head}5\r\nhello\r\n0\r\n\r\n"), &[400]);
    }
    stand.end();
}

// Check 4: only one parser sees the length, and for the other the body is a request.
#[test]
fn check_04_hidden_length_never_smuggles() {
    let stand = Stand::new();
    let length = HIDDEN.len();
    for line in [
        format!("Content-Length : {length}"),
        format!("Content-Length\t: {length}"),
        format!(" Content-Length: {length}"),
        format!("X: 1\r\n Content-Length: {length}"),
        format!("Content-Length\u{b}: {length}"),
        format!("Content-Length\u{0}: {length}"),
        format!("Content\u{0}-Length: {length}"),
        format!("\u{85}Content-Length: {length}"),
        format!("Content-Length\u{a0}: {length}"),
        format!("Content-Length\r\n : {length}"),
        format!("Content-Length:\r\n {length}"),
        format!("Content-Length\r: {length}"),
        format!("X: 1\rContent-Length: {length}"),
        format!("X: 1\nContent-Length: {length}"),
        format!(": {length}"),
        format!("Content-Length {length}"),
        format!("(Content-Length): {length}"),
    ] {
        stand.refused(format!("GET / HTTP/1.1\r\nHost: h\r\n{line}\r\n\r\n{HIDDEN}"), &[400]);
    }
    // A body stays a body, whatever the method and the content.
    for method in ["GET", "DELETE", "OPTIONS", "POST", "PROPFIND"] {
        let head = format!("{method} /a HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n");
        stand.passed(format!("{head}{HIDDEN}"), &account_text(method, "/a", "h", HIDDEN));
    }
    stand.end();
}
