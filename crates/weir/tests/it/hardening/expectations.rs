//! Checks 8 and 16: expectations, and pipelined requests.

use super::stand::{HIDDEN, LAST, Stand, account_text, listen};

// Check 8.
#[test]
fn check_08_expectation_never_smuggles() {
    let stand = Stand::new();
    let length = HIDDEN.len();
    let framings = [
        (format!("Content-Length: {length}"), HIDDEN.to_owned()),
        ("Transfer-Encoding: chunked".to_owned(), format!("{length:x}\r\n{HIDDEN}\r\n0\r\n\r\n")),
    ];
    for (framing, body) in &framings {
        for expect in ["100-continue", "100-Continue", " 100-continue \t"] {
            let head = format!("POST /e HTTP/1.1\r\nHost: h\r\nExpect:{expect}\r\n{framing}\r\n\r\n");
            stand.passed(format!("{head}{body}"), &account_text("POST", "/e", "h", HIDDEN));
        }
        for expect in [
            "",
            "100",
            "100-continu",
            "100-continuee",
            "100 continue",
            "100-continue, 100-continue",
            "100-continue;q=1",
            "y 100-continue",
            "\"100-continue\"",
            "x",
            "200-ok",
            "100-continue,",
            "100-continue\r\nExpect: 100-continue",
            "100-continue\r\nExpect: x",
        ] {
            let head = format!("POST /e HTTP/1.1\r\nHost: h\r\nExpect: {expect}\r\n{framing}\r\n\r\n");
            stand.refused(format!("{head}{body}"), &[417]);
        }
        for line in [
            "Expect : 100-continue",
            " Expect: 100-continue",
            "Expect: 100-continue\u{0}",
            "Expect:\r\n 100-continue",
        ] {
            let head = format!("POST /e HTTP/1.1\r\nHost: h\r\n{line}\r\n{framing}\r\n\r\n");
            stand.refused(format!("{head}{body}"), &[400]);
        }
    }
    for request in stand.end() {
        assert_eq!(request.header("expect"), None);
    }
}

// Check 8: RFC 9110 section 15.2.
#[test]
fn check_08_no_interim_answer_goes_to_version_1_0() {
    let stand = Stand::new();
    stand.expect_one_more();
    let mut client = stand.weir().client();
    client.send(b"POST /e HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhe");
    client.send(b"llo");
    let heard = listen(&mut client);
    assert_eq!(heard.answers.len(), 1);
    assert_eq!((heard.answers[0].status, heard.answers[0].interim.len()), (200, 0));
    stand.end();
}

// Check 16.
#[test]
fn check_16_nothing_is_read_behind_a_refused_request() {
    let bad = [
        "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n\r\n",
        "GET /a%00 HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nA b: c\r\n\r\n",
        "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    ];
    let good = |number: usize| match number % 3 {
        0 => format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n"),
        1 => format!("POST /{number} HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n{}", number % 10),
        _ => format!(
            "POST /{number} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nz\r\n0\r\n\r\n"
        ),
    };
    let stand = Stand::new();
    for bad in bad {
        for before in [0, 1, 2, 7, 40] {
            let requests: String = (0..before).map(good).collect();
            for _ in 0..before {
                stand.expect_one_more();
            }
            let heard = stand.exchange(format!("{requests}{bad}{HIDDEN}{HIDDEN}{LAST}").as_bytes());
            assert_eq!(heard.answers.len(), before + 1, "{bad:?} behind {before}");
            for (number, answer) in heard.answers[..before].iter().enumerate() {
                assert_eq!(answer.status, 200, "{bad:?} behind {before}");
                assert!(answer.text().contains(&format!(" /{number} ")), "in order: {}", answer.text());
            }
            assert!((400..500).contains(&heard.answers[before].status), "{bad:?} behind {before}");
            assert_eq!(heard.answers[before].header("connection"), Some("close"));
            assert!(heard.rest.is_empty(), "{bad:?} behind {before}");
        }
    }
    stand.end();
}
