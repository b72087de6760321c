//! Checks 11, 12 and 13: field names and values, and the fields that a Connection field may remove.

use super::stand::{Stand, account_text};
use crate::support::everything_to;

// Check 11; HAProxy a8598a2eb (an empty name).
#[test]
fn check_11_a_control_character_in_a_field_is_refused() {
    let stand = Stand::new();
    let request = |line: Vec<u8>| [b"GET / HTTP/1.1\r\nHost: h\r\n", line.as_slice(), b"\r\n\r\n"].concat();
    for byte in (0..0x20u8).chain([0x7f]) {
        for (before, after) in [("", "v"), ("v", "w"), ("v", "")] {
            if byte != b'\t' {
                let line = [b"X-A: ", before.as_bytes(), &[byte], after.as_bytes()].concat();
                stand.refused(request(line), &[400]);
            }
        }
    }
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    for byte in (0..=0xff).filter(|&byte| !is_token(byte)) {
        for (before, after) in [("", "X-A"), ("X", "A"), ("X-A", "")] {
            // A colon ends the name, and the rest is the value.
            if byte != b':' || before.is_empty() {
                let line = [before.as_bytes(), &[byte], after.as_bytes(), b": v"].concat();
                stand.refused(request(line), &[400]);
            }
        }
    }
    for line in
        [":", ": v", ":v", " : v", "X-A", "X-A\r\n: v", "X-A: v\r\n\tw", "X-A: v\r\n w\r\nX-B: 1", "\"X\": v"]
    {
        stand.refused(request(line.as_bytes().to_vec()), &[400]);
    }
    stand.end();
}

// Check 11; HAProxy 3b69886f7: a length in too few bits turns a long name into a short one.
#[test]
fn check_11_a_long_name_stays_long() {
    let stand = Stand::new();
    for length in [65_536, 65_536 + "content-length".len(), 65_536 + 1, 131_072] {
        let name = "a".repeat(length - 14) + "content-length";
        stand.refused(format!("GET / HTTP/1.1\r\nHost: h\r\n{name}: 5\r\n\r\n"), &[431]);
    }
    stand.end();
    let large = ["--max-head-bytes", "1048576"];
    let stand = Stand::of(|origin| everything_to(origin, ""), &large);
    let names = [256, 65_536, 131_072].map(|more| "a".repeat(more) + "content-length");
    for name in &names {
        let request = format!("POST /n HTTP/1.1\r\nHost: h\r\n{name}: 5\r\n\r\n");
        stand.passed(request, &account_text("POST", "/n", "h", ""));
    }
    let requests = stand.end();
    for name in &names {
        assert!(requests.iter().any(|request| request.header(name) == Some("5")), "{} bytes", name.len());
    }
}

// Checks 12 and 13: a nomination in Connection removes hop-by-hop fields, and no field that other parts rely
// on.
#[test]
fn check_12_nomination_keeps_fields_relied_on() {
    let stand = Stand::new();
    let fields = "Cookie: a=1\r\nAuthorization: Basic eA==\r\nContent-Type: text/plain\r\nX-Forwarded-For: 192.0.2.1\r\n\
                  X-Real-IP: 192.0.2.2\r\nX-Forwarded-Proto: https\r\nX-Request-Id: 7\r\napikey: k\r\nVia: 1.0 front\r\n\
                  Cache-Control: no-store\r\ntraceparent: 00-1-2-3\r\nContent-Encoding: identity\r\n";
    let request = |connection: &str| {
        format!("POST /f HTTP/1.1\r\nHost: h\r\n{fields}{connection}Content-Length: 3\r\n\r\nabc")
    };
    let account = account_text("POST", "/f", "h", "abc");
    stand.passed(request(""), &account);
    let names = [
        "Host",
        "Content-Length",
        "Cookie",
        "Authorization",
        "Content-Type",
        "X-Forwarded-For",
        "X-Real-IP",
        "X-Forwarded-Proto",
        "X-Forwarded-Host",
        "X-Forwarded-Port",
        "Via",
        "X-Request-Id",
        "apikey",
        "Cache-Control",
        "traceparent",
        "Content-Encoding",
        "Transfer-Encoding",
        "Trailer",
        "Expect",
    ];
    for name in names {
        stand.passed(request(&format!("Connection: {name}\r\n")), &account);
        stand.passed(
            request(&format!("Connection: keep-alive,, {} ,\r\n", name.to_ascii_uppercase())),
            &account,
        );
    }
    stand.passed(request(&format!("Connection: {}\r\n", names.join(", "))), &account);
    let heads: Vec<_> =
        stand.end().into_iter().filter(|seen| seen.path() == "/f").map(|seen| seen.headers).collect();
    assert!(heads.len() == 2 * names.len() + 2 && heads.iter().all(|head| *head == heads[0]), "{heads:?}");
}

// Check 13.
#[test]
fn check_13_hop_by_hop_fields_stay_in_every_spelling() {
    let stand = Stand::new();
    let own = "KEEP-ALIVE: timeout=5\r\nproxy-connection: keep-alive\r\nProxy-Authorization: x\r\nte: trailers\r\n\
               uPGRADE: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nProxy-Authenticate: x\r\nX-Own: 1\r\nx-own: 2\r\n\
               X-Other: 3\r\n";
    for connection in [
        "Connection: keep-alive, upgrade, http2-settings, te, x-own, x-other\r\n",
        "Connection: X-OWN\r\nConnection: Upgrade\r\nconnection:X-Other , HTTP2-Settings\r\n",
        "Connection: ,, ,x-other,\t, X-Own ,x-own\r\n",
    ] {
        for lines in [format!("{connection}{own}"), format!("{own}{connection}")] {
            let request = format!("GET /h HTTP/1.1\r\nHost: h\r\n{lines}X-Stays: 1\r\n\r\n");
            stand.passed(request, &account_text("GET", "/h", "h", ""));
        }
    }
    // Not a list of tokens, or too many names to look each of them up.
    for value in ["x-own x-other", "\"x-own\"", "x-own;q=1", "x\u{0}y", "(x)", &"close,".repeat(101)] {
        stand.refused(format!("GET / HTTP/1.1\r\nHost: h\r\nConnection: {value}\r\n{own}\r\n"), &[400]);
    }
    for request in stand.end().iter().filter(|request| request.path() == "/h") {
        let theirs = [
            "host",
            "x-stays",
            "x-real-ip",
            "x-forwarded-for",
            "x-forwarded-host",
            "x-forwarded-proto",
            "x-forwarded-port",
            "via",
        ];
        for (name, _) in &request.headers {
            assert!(theirs.contains(&name.to_ascii_lowercase().as_str()), "{name} crossed: {request:?}");
        }
    }
}

// Passed on, because an underscore is valid in a token; but WSGI and CGI read it as a hyphen, so that a
// client could imitate a field that the gateway sets.
#[test]
fn field_with_underscore_passes_if_none_is_set() {
    let stand = Stand::new();
    let request = "GET /p HTTP/1.1\r\nHost: h\r\nX_Real_IP: 192.0.2.1\r\nX_Other: a\r\n\r\n".to_owned();
    stand.passed(request, &account_text("GET", "/p", "h", ""));
    let ended = stand.end();
    let of_path = ended.iter().filter(|request| request.path() == "/p");
    for request in of_path {
        assert_eq!((request.header("x_real_ip"), request.header("x_other")), (None, Some("a")));
    }
}
