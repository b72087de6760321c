//! Check 15: the limits of a head, and the memory for a head that never ends.

use testkit::{Client, Origin, Reply, Step};

use super::stand::{Stand, account_text};
use crate::support::{everything_to, in_front_of, memory_of};

// Check 15.
#[test]
fn check_15_head_one_byte_over_limit_is_refused() {
    let sized = |more: usize| {
        let head = "GET /s HTTP/1.1\r\nHost: h\r\n";
        let filler = 64 * 1024 - head.len() - "\r\n".len() + more;
        let line = |bytes: usize| format!("A: {}\r\n", "a".repeat(bytes - "A: \r\n".len()));
        format!(
            "{head}{}{}\r\n",
            line(8 * 1024).repeat(filler / (8 * 1024) - 1),
            line(filler % (8 * 1024) + 8 * 1024)
        )
    };
    let line = |more: usize| {
        let path = 8 * 1024 - "GET / HTTP/1.1".len() + more;
        (format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "a".repeat(path)), format!("/{}", "a".repeat(path)))
    };
    // Host does not count.
    let fields = |count: usize| format!("GET /s HTTP/1.1\r\nHost: h\r\n{}\r\n", "A: b\r\n".repeat(count));
    let stand = Stand::new();
    stand.passed(sized(0), &account_text("GET", "/s", "h", ""));
    stand.refused(sized(1), &[431]);
    stand.passed(line(0).0, &account_text("GET", &line(0).1, "h", ""));
    stand.refused(line(1).0, &[414]);
    stand.passed(fields(100), &account_text("GET", "/s", "h", ""));
    stand.refused(fields(101), &[431]);
    // Far over the limit: the gateway answers while the client still writes.
    for (request, status) in [
        (format!("GET /{}", "a".repeat(1024 * 1024)), 414),
        (format!("{} / HTTP/1.1", "A".repeat(1024 * 1024)), 414),
        (format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}", "a".repeat(1024 * 1024)), 431),
        (format!("GET / HTTP/1.1\r\nHost: h\r\n{}", "a".repeat(1024 * 1024)), 431),
        (format!("GET / HTTP/1.1\r\nHost: h\r\n{}", "A: b\r\n".repeat(200_000)), 431),
        (format!("GET / HTTP/1.1\r\nHost: {}\r\n", "h".repeat(1024 * 1024)), 431),
    ] {
        stand.refused(request, &[status]);
    }
    stand.end();
}

// Check 15.
#[test]
fn check_15_endless_heads_cost_their_limit() {
    // A long timeout, so that no head times out on a busy machine.
    let stand = Stand::of(|origin| everything_to(origin, ""), &["--head-timeout-ms", "120000"]);
    stand.passed("GET /s HTTP/1.1\r\nHost: h\r\n\r\n", &account_text("GET", "/s", "h", ""));
    let before = memory_of(stand.weir().pid());
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = stand.weir().client();
        // Just below the limit: accepted so far, and held until more bytes arrive.
        client.send(format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}", "a".repeat(64 * 1024 - 64)).as_bytes());
        clients.push(client);
    }
    // Sent after all of them, so that its response shows that they were read.
    assert_eq!(stand.weir().get("/after").status, 200);
    stand.expect_one_more();
    let grown = memory_of(stand.weir().pid()).saturating_sub(before);
    assert!(grown < CLIENTS as u64 * 192 * 1024, "{grown} bytes for {CLIENTS} heads");
    for mut client in clients {
        let _ = client.try_send("a".repeat(1024 * 1024).as_bytes());
        assert!(client.read_to_end().starts_with(b"HTTP/1.1 431 "));
    }
    stand.end();
}

// Checks 15 and 30: the gateway stops reading an origin's head that never ends, and answers 502.
#[test]
fn check_27_an_origins_head_without_end_is_a_502() {
    let piece = "A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n";
    for start in
        ["HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 ", "HTTP/1.1 200 OK\r\nA: ", "HTTP/1.1 103 Early Hints\r\n", ""]
    {
        let piece = if start.ends_with('\n') {
            piece
        } else {
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        };
        let origin = Origin::start(move |request| match request.path() {
            "/endless" => {
                Reply::raw(start.as_bytes()).then(Step::Repeat(piece.as_bytes().to_vec(), ENDLESS_PIECES))
            }
            _ => Reply::ok("fine"),
        });
        let weir = in_front_of(&origin);
        let mut client = Client::connect(weir.proxy());
        assert_eq!(client.get("/endless").status, 502, "{start:?}");
        assert_eq!(client.get("/").text(), "fine", "{start:?}");
        origin.wait_for_closed(1);
        let written = origin.bytes_written();
        assert!(written < (ENDLESS_PIECES * piece.len() / 2) as u64, "{start:?}: {written} bytes were taken");
    }
}

/// Clients at once.
const CLIENTS: usize = 64;
/// About 60 MiB, more than socket buffers hold.
const ENDLESS_PIECES: usize = 1_000_000;
