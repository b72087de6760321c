//! The memory limit: in floods of data that the gateway has to hold, the resident set stays below the limit
//! and shrinks again. Responses are checked only as far as they show that.

use std::io::Read;
use std::time::Duration;
use std::{fs, io};

use testkit::{Client, Origin, Reply, Step, Weir, wait_for, wait_until};

use super::{accepted, let_open_nothing, metric, metrics};
use crate::support::{builder, in_front_of_with, upstream};

fn resident_bytes(weir: &Weir) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", weir.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// The limit in the floods of uploads.
const LIMIT: u64 = 128 << 20;
/// Size of one upload of a flood.
const UPLOAD_BYTES: usize = 1_000_000;

/// A gateway with [`LIMIT`] that holds the bodies sent to `/held`, which a flood uses to fill the memory.
fn holding(origin: &Origin) -> Weir {
    let all = upstream(&[origin.address()], "");
    // A variable in the body makes the gateway hold the body.
    let resources = format!(
        "routes:\n  - {{id: held, uri: /held, vars: [[post_arg_x, '==', '1']], upstream: {all}}}\n  \
         - {{id: plain, uri: /*, labels: {{weir.priority: critical}}, upstream: {all}}}\n"
    );
    let limit = LIMIT.to_string();
    builder(&resources).arguments(&["--memory-limit", &limit, "--grace", "1"]).start()
}

/// Sends an upload without its last byte, as far as the gateway takes it, so that the gateway holds it until
/// it rejects it.
fn upload(client: &mut Client) {
    let head = format!(
        "POST /held HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n"
    );
    client.stream().set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    if client.try_send(head.as_bytes()).is_ok() {
        let _ = client.try_send(&vec![b'a'; UPLOAD_BYTES - 1]);
    }
}

#[test]
fn memory_stays_under_limit_in_a_flood() {
    let origin = Origin::answering("hello");
    let weir = holding(&origin);
    let mut idle = weir.client();
    assert_eq!(idle.get("/").status, 200);
    let mut flood: Vec<Client> = Vec::new();
    let mut press = || {
        // Connections are refused too when memory is nearly used up.
        if let Ok(mut client) = Client::try_connect(weir.proxy()) {
            upload(&mut client);
            flood.push(client);
        }
        assert!(resident_bytes(&weir) < LIMIT, "{} bytes", resident_bytes(&weir));
    };
    wait_until("idle connections are closed", || {
        press();
        has_ended(&mut idle)
    });
    wait_until("requests are refused", || {
        press();
        metric(&mut metrics(&weir), "weir_failures_total{cause=\"memory_limit\",") > 0
    });
    let said = wait_for("who comes is told to go", || {
        press();
        let mut client = Client::try_connect(weir.proxy()).ok()?;
        client.try_send(b"GET /none HTTP/1.1\r\nHost: h\r\n\r\n").ok()?;
        client.read_response(false).ok().filter(|answer| answer.header("connection") == Some("close"))
    });
    assert!(matches!(said.status, 200 | 503), "{}", said.text());
    drop(flood);
    wait_until("it has recovered", || {
        let answer =
            Client::try_connect(weir.proxy()).map(|mut client| client.try_request("GET", "/", &[], b""));
        answer.is_ok_and(|answer| {
            answer.is_ok_and(|answer| answer.status == 200 && answer.header("connection").is_none())
        })
    });
}

/// The initial window of streams that a new HTTP/2 connection announces; none if it is refused.
fn initial_window(weir: &Weir) -> Option<u32> {
    /// The preface and an empty SETTINGS frame.
    const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let mut client = Client::try_connect(weir.proxy()).ok()?;
    client.try_send(HELLO).ok()?;
    let mut header = [0; 9];
    client.stream().read_exact(&mut header).ok()?;
    let mut settings = vec![0; usize::from(header[2])];
    client.stream().read_exact(&mut settings).ok()?;
    // SETTINGS_INITIAL_WINDOW_SIZE is 4.
    let value = settings.chunks_exact(6).find(|setting| setting[..2] == [0, 4])?;
    Some(u32::from_be_bytes(value[2..].try_into().unwrap()))
}

#[test]
fn http2_windows_are_small_while_memory_is_short() {
    let origin = Origin::answering("hello");
    let weir = holding(&origin);
    assert_eq!(initial_window(&weir), Some(128 << 10));
    let mut flood: Vec<Client> = Vec::new();
    wait_until("the windows are small", || {
        if let Ok(mut client) = Client::try_connect(weir.proxy()) {
            upload(&mut client);
            flood.push(client);
        }
        initial_window(&weir) == Some(16 << 10)
    });
    drop(flood);
    wait_until("the windows have their size again", || initial_window(&weir) == Some(128 << 10));
}

/// Whether a byte for the client has arrived; does not block.
fn has_an_answer(client: &mut Client) -> bool {
    peek(client).is_ok_and(|bytes| bytes == 1)
}

/// Whether the connection was closed without a further byte; does not block.
fn has_ended(client: &mut Client) -> bool {
    peek(client).is_ok_and(|bytes| bytes == 0)
}

/// Whether the client has a response, or its connection has ended in any way.
fn has_heard(client: &mut Client) -> bool {
    !peek(client).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// Peeks at one byte; does not block.
fn peek(client: &mut Client) -> io::Result<usize> {
    let stream = client.stream();
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    peeked
}

/// Checks the memory until all clients are answered except as many as the limit has room for at `held_bytes`
/// each: the others are rejected for lack of memory.
fn expect_refusals(weir: &Weir, clients: &mut [Client], held_bytes: u64) {
    let refused = clients.len() - usize::try_from(LIMIT / held_bytes).unwrap();
    wait_until("whoever finds no room is refused", || {
        assert!(resident_bytes(weir) < LIMIT, "{} bytes", resident_bytes(weir));
        // A reset may have destroyed the response, because the rest of the upload came after it.
        clients.iter_mut().map(has_heard).filter(|heard| *heard).count() >= refused
    });
    let answered = clients.iter_mut().position(has_an_answer).expect("one whose answer was not reset");
    let answer = clients[answered].read_response(false).unwrap();
    assert_eq!((answer.status, answer.text().contains("memory_limit")), (503, true), "{}", answer.text());
}

#[test]
fn memory_limit_holds_without_descriptors() {
    const CLIENTS: u64 = 300;
    let origin = Origin::answering("hello");
    let weir = holding(&origin);
    let mut metrics = metrics(&weir);
    let before = accepted(&mut metrics);
    let mut flood: Vec<Client> = (0..CLIENTS).map(|_| weir.client()).collect();
    wait_until("all are accepted", || accepted(&mut metrics) == before + CLIENTS);
    let_open_nothing(&weir);
    flood.iter_mut().for_each(upload);
    expect_refusals(&weir, &mut flood, UPLOAD_BYTES as u64 - 1);
}

#[test]
fn held_back_responses_stay_under_the_limit() {
    const PIECE_BYTES: usize = 64 << 10;
    const PIECES: usize = 64;
    // Each response lacks its end, so that the gateway holds it for the filter until it rejects the request.
    let origin = Origin::start(|_| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", PIECES * PIECE_BYTES);
        let most = Step::Repeat(vec![b'x'; PIECE_BYTES], PIECES - 1);
        Reply::raw(head.as_bytes()).then(most).then(Step::AwaitClose)
    });
    let resources = format!(
        "routes: [{{id: '1', uri: /*, plugins: {{response-rewrite: {{filters: [{{regex: q, replace: z}}]}}}}, upstream: {}}}]",
        upstream(&[origin.address()], "")
    );
    let limit = LIMIT.to_string();
    let weir = builder(&resources).arguments(&["--memory-limit", &limit]).start();
    // All requests are sent before memory runs short.
    let mut flood: Vec<Client> = (0..100).map(|_| weir.client()).collect();
    flood.iter_mut().for_each(|client| client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    expect_refusals(&weir, &mut flood, ((PIECES - 1) * PIECE_BYTES) as u64);
}

#[test]
fn slow_readers_do_not_take_more_memory_than_there_is() {
    const LIMIT: u64 = 96 << 20;
    let origin = Origin::start(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 16777216\r\n\r\n";
        Reply::raw(head.as_bytes()).then(Step::Repeat(vec![b'x'; 64 << 10], 256))
    });
    let limit = LIMIT.to_string();
    let weir = in_front_of_with(&origin, &["--memory-limit", &limit]);
    let readers: Vec<Client> = (0..300)
        .filter_map(|_| {
            let mut client = Client::try_connect(weir.proxy()).ok()?;
            client.try_send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").ok()?;
            assert!(resident_bytes(&weir) < LIMIT, "{} bytes", resident_bytes(&weir));
            Some(client)
        })
        .collect();
    assert!(readers.len() > 100, "{}", readers.len());
    assert!(resident_bytes(&weir) < LIMIT);
    drop(readers);
    wait_until("it serves", || {
        let answer =
            Client::try_connect(weir.proxy()).map(|mut client| client.try_request("GET", "/", &[], b""));
        answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.status == 200))
    });
}
