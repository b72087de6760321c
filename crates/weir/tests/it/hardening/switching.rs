//! Checks 7 and 10: bytes sent before a switch, tunnels, and targets that a gateway never serves.

use testkit::{Origin, Reply, Step};

use super::stand::{HIDDEN, LAST, Stand, account_text, listen};
use crate::support::{gateway, route, upstream};

// Check 7; CVE-2026-2833, CVE-2026-73548, CVE-2026-58055.
#[test]
fn check_07_bytes_after_upgrade_never_smuggle() {
    // An origin that accepts every upgrade, and then echoes every byte.
    for (allowed, protocol) in [
        (true, "websocket"),
        (true, "WebSocket"),
        (true, "h2c"),
        (true, "TLS/1.0"),
        (true, "foo"),
        (true, "websocket, h2c"),
        (false, "websocket"),
        (false, "h2c"),
    ] {
        let origin = Origin::start(|request| match request.header("upgrade") {
            Some(protocol) => {
                let fields = [("Connection", "Upgrade"), ("Upgrade", protocol)];
                Reply::with(101, &fields, b"").then(Step::Echo).close()
            }
            None => Reply::ok(request.path()),
        });
        let fields = if allowed { "uri: /*, enable_websocket: true" } else { "uri: /*" };
        let weir = gateway(&route(fields, &upstream(&[origin.address()], "")));
        let head = format!(
            "GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        let mut client = weir.client();
        client.send(format!("{head}{HIDDEN}{LAST}").as_bytes());
        let heard = listen(&mut client);
        let texts: Vec<(u16, String)> =
            heard.answers.iter().map(|answer| (answer.status, answer.text())).collect();
        let asked = origin.requests();
        if asked[0].header("upgrade").is_some() {
            // Refused after the origin accepted, because the protocol of the early bytes is unknown.
            assert_eq!((texts.len(), texts[0].0), (1, 400), "{allowed} {protocol}: {texts:?}");
            assert_eq!(asked.len(), 1, "{allowed} {protocol}: {asked:?}");
        } else {
            let plain = ["/chat", "/hidden", "/last"].map(|path| (200, path.to_owned()));
            assert_eq!(texts, plain, "{allowed} {protocol}");
            assert!(asked.iter().all(|request| request.header("x-real-ip").is_some()), "{asked:?}");
        }
        assert!(heard.rest.is_empty(), "{allowed} {protocol}");
    }
}

// Check 7; CVE-2026-58055.
#[test]
fn check_07_a_body_beside_an_upgrade_is_a_body() {
    let stand = Stand::of(|origin| route("uri: /*, enable_websocket: true", &upstream(&[origin], "")), &[]);
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket";
    let length = HIDDEN.len();
    let chunked = format!("{length:x}\r\n{HIDDEN}\r\n0\r\n\r\n");
    for method in ["GET", "POST"] {
        for (framing, body) in [
            (format!("Content-Length: {length}"), HIDDEN.to_owned()),
            ("Transfer-Encoding: chunked".to_owned(), chunked.clone()),
        ] {
            for lines in [format!("{upgrade}\r\n{framing}"), format!("{framing}\r\n{upgrade}")] {
                let request = format!("{method} /u HTTP/1.1\r\nHost: h\r\n{lines}\r\n\r\n{body}");
                stand.passed(request, &account_text(method, "/u", "h", HIDDEN));
            }
        }
    }
    for request in stand.end() {
        assert_eq!((request.header("upgrade"), request.header("connection")), (None, None));
    }
}

// Checks 7 and 10; CVE-2025-64763.
#[test]
fn check_10_no_form_of_a_target_makes_a_tunnel() {
    let stand = Stand::new();
    for request in [
        "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n",
        "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: h\r\n\r\n",
        "CONNECT [::1]:22 HTTP/1.1\r\nHost: h\r\n\r\n",
        "CONNECT 169.254.169.254:80 HTTP/1.0\r\n\r\n",
        "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\nContent-Length: 5\r\n\r\nhello",
        "TRACE /a HTTP/1.1\r\nHost: h\r\nCookie: secret\r\n\r\n",
        "TRACE http://h/a HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\n\r\n",
    ] {
        stand.refused(request, &[405]);
    }
    for request in [
        "CONNECT / HTTP/1.1\r\nHost: h\r\n\r\n",
        "CONNECT h HTTP/1.1\r\nHost: h\r\n\r\n",
        "CONNECT http://h:80/ HTTP/1.1\r\nHost: h\r\n\r\n",
        "CONNECT u@h:80 HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET h:80 HTTP/1.1\r\nHost: h\r\n\r\n",
        "connect h:80 HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: h\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /* HTTP/1.1\r\n*: h\r\n\r\n",
        "GET ? HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET hidden HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET @evil:80/ HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET http:h/ HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET http:/h/ HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET httpx://h/ HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET file:///etc/passwd HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET gopher://h/ HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET ws://h/ HTTP/1.1\r\nHost: h\r\n\r\n",
    ] {
        stand.refused(request, &[400]);
    }
    // The preface itself begins HTTP/2.
    stand.refused("PRI * HTTP/2.0\r\nHost: h\r\n\r\n", &[505]);
    stand.refused("PRI * HTTP/1.1\r\nHost: h\r\n\r\n", &[400]);
    // A method in another case is an ordinary name (RFC 9110 section 9.1).
    stand.passed("trace /t HTTP/1.1\r\nHost: h\r\n\r\n", &account_text("trace", "/t", "h", ""));
    stand.end();
}
