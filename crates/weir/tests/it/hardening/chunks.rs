//! Checks 5 and 6: the syntax of chunks, their extensions and trailers. The corpus has more of them.

use super::stand::{Stand, account_text};

const HEAD: &str = "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";

// Check 5.
#[test]
fn check_05_ambiguous_chunk_never_completes_request() {
    let stand = Stand::new();
    for size in [
        "0x5",
        "0X5",
        "+5",
        "-5",
        "5_0",
        "5.",
        "5.0",
        "5xyz",
        "5 5",
        "5,",
        "",
        " 5",
        "5 ",
        "5\t",
        "\t5",
        "5 ;a",
        "00000000000000005",
        "10000000000000005",
        "FFFFFFFFFFFFFFFFF",
        "g",
        "\"5\"",
        "\u{665}",
        "5\u{0}",
        "5\u{b}",
        "5\n",
        "5\r",
        "5\r\r",
        "5;\u{0}",
        "5;a\n",
        "5;a\rb",
        "5;a\nb",
        "5\n;a",
    ] {
        // First in the body, and after a good chunk.
        for before in ["", "3\r\nabc\r\n"] {
            stand.refused(format!("{HEAD}{before}{size}\r\nhello\r\n0\r\n\r\n"), &[400]);
        }
    }
    for body in [
        "5\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r0\r\n\r\n",
        "5\r\nhelloXX0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello\r\n\r\n0\r\n\r\n",
        "6\r\nhello\r\n0\r\n\r\n",
        "4\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\n\r\n",
        "5\r\nhello\r\n0\r\n\n",
        "5\r\nhello\r\n0\r\r\n\r\n",
        "5\r\nhello\r\n0\r\nA: b\n\r\n",
        "5\r\nhello\r\n0\r\nA: b\r\n\n",
        "5\r\nhello\r\n0\r\nA\r\n\r\n",
        "5\r\nhello\r\n0\r\nA : b\r\n\r\n",
        "5\r\nhello\r\n0\r\n A: b\r\n\r\n",
        "5\r\nhello\r\n0\r\nA: b\r\n c\r\n\r\n",
        "5\r\nhello\r\n0\r\nA: \u{0}\r\n\r\n",
        "5\r\nhello\r\n0x0\r\n\r\n",
        "5\r\nhello\r\n-0\r\n\r\n",
    ] {
        stand.refused(format!("{HEAD}{body}"), &[400]);
    }
    for size in ["5", "05", "0000000000000005", "5;a", "5;a=b", "5;a=\"b;c\"", "5;;;", "5; a = b"] {
        let request = format!("{HEAD}{size}\r\nhello\r\n00;x\r\n\r\n");
        stand.passed(request, &account_text("POST", "/c", "h", "hello"));
    }
    stand.end();
}

// Check 6.
#[test]
fn check_06_extensions_and_trailers_are_bounded() {
    let stand = Stand::new();
    let half = "e".repeat(8 * 1024 + 1);
    stand.refused(format!("{HEAD}1;{half}\r\na\r\n1;{half}\r\nb\r\n0\r\n\r\n"), &[400]);
    stand.refused(format!("{HEAD}{}0\r\n\r\n", "1;abc\r\na\r\n".repeat(6 * 1024)), &[400]);
    stand.refused(format!("{HEAD}1\r\na\r\n0;{half}{half}\r\n\r\n"), &[400]);
    stand.refused(format!("{HEAD}0\r\nA: {half}\r\nB: {half}\r\n\r\n"), &[400]);
    stand.refused(format!("{HEAD}0\r\n{}\r\n", "A: b\r\n".repeat(101)), &[400]);
    stand.refused(format!("{HEAD}0\r\n{}: b\r\n\r\n", "a".repeat(17 * 1024)), &[400]);
    // Within the limits they pass, and the extensions are dropped.
    let many = "1;abc\r\na\r\n".repeat(1024);
    let whole = account_text("POST", "/c", "h", &"a".repeat(1024));
    stand.passed(format!("{HEAD}{many}0\r\n{}\r\n", "A: b\r\n".repeat(100)), &whole);
    stand.end();
}

// Check 6.
#[test]
fn check_06_trailer_never_becomes_a_deciding_field() {
    let names = [
        "Content-Length",
        "Transfer-Encoding",
        "Host",
        "Authorization",
        "Cookie",
        "Set-Cookie",
        "Connection",
        "Upgrade",
        "TE",
        "Trailer",
        "Expect",
        "Content-Type",
        "Content-Encoding",
        "Content-Range",
        "Cache-Control",
        "Range",
        "If-Match",
        "If-None-Match",
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Proto",
        "X-Forwarded-Host",
        "X-Forwarded-Port",
        "X-Real-IP",
        "apikey",
        "Via",
        "Proxy-Authorization",
        "Keep-Alive",
        "Location",
    ];
    let stand = Stand::new();
    for name in names {
        for spelling in [name.to_owned(), name.to_ascii_lowercase(), name.to_ascii_uppercase()] {
            let request = format!("{HEAD}1\r\na\r\n0\r\nX-Stays: 1\r\n{spelling}: evil\r\n\r\n");
            stand.passed(request, &account_text("POST", "/c", "h", "a"));
        }
    }
    let requests = stand.end();
    let seen: Vec<_> = requests.iter().filter(|request| request.path() == "/c").collect();
    assert_eq!(seen.len(), names.len() * 3);
    for request in seen {
        assert_eq!(request.trailers, [("X-Stays".to_owned(), "1".to_owned())]);
        assert!(!request.headers.iter().any(|(_, value)| value == "evil"), "{request:?}");
    }
}
