//! Clients that are slow on purpose, with shorter deadlines: heads, bodies and reads byte by byte, requests
//! without end and without a pause, many connections of one address. Each is cut, logged with its cause and
//! counted; the gateway serves others meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use testkit::{Client, Origin, Reply, Signal, Step, Weir, wait_for, wait_until};

use crate::support::{builder, in_front_of, in_front_of_with};

const BODY_HEAD: &[u8] = b"POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n";

/// A gateway with status and cause in its access log on standard output.
fn logging(origin: &Origin, arguments: &[&str]) -> Weir {
    let log =
        ["--access-log", "stdout", "--access-log-format", "logged $status $weir_cause \"$weir_detail\""];
    in_front_of_with(origin, &[&log, arguments].concat())
}

/// Waits for a line of the access log that begins with `beginning`.
fn wait_for_log(weir: &Weir, beginning: &str) -> String {
    let begins = format!("logged {beginning}");
    wait_for(&begins, || weir.stdout().into_iter().find(|line| line.starts_with(&begins)))
}

/// The value of a counter.
fn counter(weir: &Weir, series: &str) -> u64 {
    let text = Client::connect(weir.address("metrics")).get("/apisix/prometheus/metrics").text();
    let line = text.lines().find(|line| line.starts_with(series));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {series} in {text}"))
}

fn failures(weir: &Weir, code: &str) -> u64 {
    counter(weir, &format!("weir_failures_total{{cause=\"{code}\","))
}

/// Sends a byte after each call of `pause`, until the gateway has answered or closed; returns the response.
fn trickle(client: &mut Client, mut pause: impl FnMut()) -> String {
    client.stream().set_nonblocking(true).unwrap();
    let mut answer = Vec::new();
    wait_until("the gateway has had enough", || {
        pause();
        // A failed send counts as the end, because it is a reset.
        let sent = client.try_send(b"a").is_ok();
        let mut room = [0; 1024];
        loop {
            match client.stream().read(&mut room) {
                Ok(0) => return true,
                Ok(count) => answer.extend_from_slice(&room[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return !sent || !answer.is_empty(),
                Err(_) => return true,
            }
        }
    });
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_head_by_the_byte_ends_at_its_deadline() {
    let origin = Origin::answering("hello");
    let weir = logging(&origin, &["--head-timeout-ms", "300"]);
    let mut slow = weir.client();
    slow.send(b"GET / HTTP/1.1\r\nHost: h\r\nX-Slow: ");
    let mut other = weir.client();
    let answer = trickle(&mut slow, || assert_eq!(other.get("/").status, 200));
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    let line = wait_for_log(&weir, "408 client_head_timeout");
    assert!(line.contains("did not arrive in time"), "{line}");
    assert_eq!(failures(&weir, "client_head_timeout"), 1);
    // A client that stops after its first bytes ends at the same deadline.
    let mut silent = weir.client();
    silent.send(b"GET / HT");
    assert!(silent.read_response(false).unwrap().status == 408);
    assert_eq!(origin.requests().iter().filter(|request| request.path() != "/").count(), 0);
}

#[test]
fn a_head_in_pieces_is_served_like_any_other() {
    let origin = Origin::start(|request| Reply::ok(request.header("x-long").unwrap_or("none")));
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    let long = "v".repeat(20_000);
    for (value, ends) in [("short", false), (&long[..], false), (&long[..], true)] {
        let head = format!("GET / HTTP/1.1\r\nHost: h\r\nX-Long: {value}\r\n\r\n");
        // In pieces; that pieces may be joined in the kernel does not matter.
        for piece in head.as_bytes().chunks(if value.len() > 100 { 999 } else { 1 }) {
            client.send(piece);
        }
        assert_eq!(client.read_response(false).unwrap().text(), value);
        if ends {
            client.send(b"GET / HT");
            client.finish_sending();
            let answer = String::from_utf8(client.read_to_end()).unwrap();
            assert!(
                answer.starts_with("HTTP/1.1 400 ") && answer.contains("inside the request head"),
                "{answer}"
            );
        }
    }
}

#[test]
fn body_by_the_byte_is_refused() {
    let origin = Origin::start(|request| Reply::ok(&request.body_length.to_string()));
    let rate = ["--client-min-body-rate", "20000", "--client-rate-window-ms", "300"];
    let weir = logging(&origin, &rate);
    let mut slow = weir.client();
    slow.send(BODY_HEAD);
    let mut other = weir.client();
    let answer = trickle(&mut slow, || assert_eq!(other.request("POST", "/", &[], b"quick").status, 200));
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    wait_for_log(&weir, "408 client_body_slow \"the request body arrives too slowly\"");
    assert_eq!(failures(&weir, "client_body_slow"), 1);
    assert!(origin.requests().iter().all(|request| request.path() == "/"), "the node saw nothing of it");

    // Over many windows, and well above the rate. Repeated if this machine paused the test, because then the
    // client was not steady.
    wait_until("a client that was steady is served", || steady_body(&weir, &mut other));
}

#[test]
fn slow_body_start_holds_no_upstream_connection() {
    let origin = Origin::start(|request| Reply::ok(&request.text()));
    let weir = logging(&origin, &[]);
    let head = b"POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 6000\r\n\r\n";
    let text: String = (0..6_000).map(|number| char::from(b'a' + (number % 26) as u8)).collect();
    // One client that closes, and one that sends everything in the end.
    let (mut lost, mut late, mut other) = (weir.client(), weir.client(), weir.client());
    lost.send(head);
    late.send(head);
    for piece in text.as_bytes()[..2_000].chunks(10) {
        lost.send(piece);
        late.send(piece);
        assert_eq!(other.request("POST", "/quick", &[], b"quick").text(), "quick");
    }
    assert_eq!(origin.connections(), 1, "the quick one's");
    drop(lost);
    wait_for_log(&weir, "499 client_gone");
    assert!(origin.requests().iter().all(|request| request.path() == "/quick"), "the node saw nothing of it");
    for piece in text.as_bytes()[2_000..].chunks(7) {
        late.send(piece);
    }
    assert_eq!(late.read_response(false).unwrap().text(), text, "all of it, once and in order");
    // The same connection again, with a body after its head, followed by a request.
    late.send(b"PUT /again HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(other.get("/").status, 200);
    late.send(b"allGET /then HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(late.read_response(false).unwrap().text(), "all");
    assert_eq!(late.read_response(false).unwrap().text(), "");
}

#[test]
fn body_is_streamed_from_first_byte_without_prefix() {
    let asked = Signal::new();
    let origin = Origin::on_head({
        let asked = asked.clone();
        move |_| {
            Reply::new()
                .then(Step::Set(asked.clone()))
                .then(Step::ReadBody)
                .send("HTTP/1.1 204 No Content\r\n\r\n")
        }
    });
    let weir = in_front_of_with(&origin, &["--wait-for-body-bytes", "0"]);
    let mut client = weir.client();
    client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n");
    assert!(asked.wait());
    client.send(b"ok");
    assert_eq!(client.read_response(false).unwrap().status, 204);
}

/// Sends a body over several windows without a pause as long as one, with other requests between its pieces;
/// false if there was such a pause.
fn steady_body(weir: &Weir, other: &mut Client) -> bool {
    let mut steady = weir.client();
    steady.send(b"POST /steady HTTP/1.1\r\nHost: h\r\nContent-Length: 2000000\r\n\r\n");
    let mut last = Instant::now();
    for _ in 0..200 {
        let sent = steady.try_send(&[b'a'; 10_000]);
        if last.elapsed() > A_PAUSE {
            return false;
        }
        sent.unwrap();
        last = Instant::now();
        for _ in 0..3 {
            assert_eq!(other.get("/").status, 200);
        }
    }
    let answer = steady.read_response(false);
    if last.elapsed() > A_PAUSE {
        return false;
    }
    assert_eq!(answer.unwrap().text(), "2000000");
    true
}

/// A large part of the window of 300 ms: a client that pauses so long may miss its rate in one window.
const A_PAUSE: Duration = Duration::from_millis(100);

#[test]
fn body_by_the_byte_passes_without_minimum_rate() {
    let origin = Origin::start(|request| Reply::ok(&request.body_length.to_string()));
    let weir =
        in_front_of_with(&origin, &["--client-min-body-rate", "0", "--client-body-timeout-ms", "1500"]);
    let mut slow = weir.client();
    slow.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 300\r\n\r\n");
    let mut other = weir.client();
    for _ in 0..300 {
        slow.send(b"a");
        assert_eq!(other.get("/").status, 200);
    }
    assert_eq!(slow.read_response(false).unwrap().text(), "300");
    slow.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 300\r\n\r\na");
    assert_eq!(slow.read_response(false).unwrap().status, 408, "and not without any byte");
}

/// A client with a small receive buffer that requests a larger response than the kernel holds for it.
fn small_reader(weir: &Weir) -> TcpStream {
    let mut client = weir.client();
    sockopt::set_socket_recv_buffer_size(client.stream(), 4 * 1024).unwrap();
    client.send(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
    client.stream().try_clone().unwrap()
}

fn large_origin() -> Origin {
    Origin::start(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n";
        Reply::raw(head.as_bytes()).then(Step::Repeat(vec![b'x'; 64 * 1024], 1_024))
    })
}

/// Reads a byte after each call of `turn`, until the connection is cut.
fn sip(mut stream: TcpStream, mut turn: impl FnMut() -> bool) {
    let mut byte = [0];
    wait_until("the gateway cuts the reader off or the test has seen enough", || {
        !turn() || !matches!(stream.read(&mut byte), Ok(1))
    });
}

#[test]
fn a_response_read_by_the_byte_is_cut_off() {
    let origin = large_origin();
    let weir = logging(&origin, &["--client-min-send-rate", "100000", "--client-rate-window-ms", "300"]);
    let reader = small_reader(&weir);
    let cut = || weir.stdout().iter().any(|line| line.starts_with("logged 200 client_slow_read"));
    sip(reader, || !cut());
    let line = wait_for_log(&weir, "200 client_slow_read");
    assert!(line.contains("too slowly"), "{line}");
    assert_eq!(failures(&weir, "client_slow_read"), 1);
}

#[test]
fn unread_response_is_cut_off() {
    let origin = large_origin();
    let weir = logging(&origin, &["--client-min-send-rate", "0", "--client-send-timeout-ms", "300"]);
    let _reader = small_reader(&weir);
    let line = wait_for_log(&weir, "200 client_slow_read");
    assert!(line.contains("in time"), "{line}");
}

#[test]
fn request_ends_at_deadline_in_every_wait() {
    let go = Signal::new();
    let origin = Origin::start({
        let go = go.clone();
        move |request| match request.path() {
            "/silent" => Reply::new().wait(&go),
            "/begun" => Reply::raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbeg").wait(&go),
            _ => Reply::ok("quick"),
        }
    });
    let weir = logging(&origin, &["--request-timeout-ms", "300"]);
    let mut client = weir.client();
    let answer = client.get("/silent");
    assert_eq!((answer.status, answer.text().contains("request_timeout")), (504, true), "{}", answer.text());
    let line = wait_for_log(&weir, "504 request_timeout");
    assert!(line.contains("not done within 300 ms, read_timeout"), "{line}");
    assert_eq!(client.get("/quick").text(), "quick", "the next request has its own time");
    assert_eq!(client.get("/begun-not").text(), "quick");
    assert!(client.try_request("GET", "/begun", &[], b"").is_err(), "cut, since it had begun");
    wait_for_log(&weir, "200 request_timeout");
    let mut uploading = weir.client();
    uploading.send(BODY_HEAD);
    let answer = uploading.read_response(false).unwrap();
    assert_eq!(answer.status, 504, "{}", answer.text());
    wait_until("all are counted", || failures(&weir, "request_timeout") == 3);
    go.set();
}

#[test]
fn one_address_has_only_so_many_connections() {
    let origin = Origin::answering("hello");
    let arguments = ["--max-connections-per-address", "3", "--workers", "2"];
    let weir = in_front_of_with(&origin, &arguments);
    let mut held: Vec<Client> = (0..3).map(|_| weir.client()).collect();
    // A connection is counted by the time it gets a response.
    held.iter_mut().for_each(|client| assert_eq!(client.get("/").status, 200));
    // The reset may arrive before `connect` returns, because the kernel accepts before the gateway.
    let is_served = || {
        let asked = Client::try_connect(weir.proxy())
            .and_then(|mut client| client.try_request("GET", "/", &[], b"").map_err(|broken| broken.cause));
        match asked {
            Ok(response) => {
                assert_eq!(response.status, 200);
                true
            }
            Err(error) => {
                // Neither a missing listener nor a timeout.
                let is_closed = matches!(
                    error.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe
                );
                assert!(is_closed, "{error}");
                false
            }
        }
    };
    assert!(!is_served(), "closed at once");
    let refused = "weir_connections_refused_total{limit=\"max_connections_per_address\"}";
    wait_until("the refusal is counted", || counter(&weir, refused) == 1);
    held.iter_mut().for_each(|client| assert_eq!(client.get("/").status, 200));
    held.pop();
    wait_until("there is room again", is_served);

    let weir = in_front_of_with(&origin, &[&arguments[..], &["--trusted-addresses", "127.0.0.0/8"]].concat());
    let mut many: Vec<Client> = (0..10).map(|_| weir.client()).collect();
    many.iter_mut().for_each(|client| assert_eq!(client.get("/").status, 200, "a balancer in front"));
}

#[test]
fn a_line_of_the_log_says_why() {
    let origin = Origin::start(|_| Reply::new().close());
    let weir = in_front_of_with(&origin, &["--access-log", "stdout"]);
    let line = |part: &str| wait_for(part, || weir.stdout().into_iter().find(|line| line.contains(part)));
    let mut client = weir.client();
    assert_eq!(client.get("/why-502").status, 502);
    assert!(
        line("/why-502").ends_with("origin_closed \"it closed without a response\" wait"),
        "{}",
        line("/why-502")
    );
    client.send(b"GET /why-400 HTTP/1.1\r\nHost: h\r\nBad Name: x\r\n\r\n");
    assert_eq!(client.read_response(false).unwrap().status, 400);
    let logged = line(" 400 ");
    assert!(logged.contains("client_bad_request \"") && logged.contains("name"), "{logged}");
    let good = weir.client().request("GET", "/a%5cb", &[], b"");
    assert_eq!(good.status, 400);
    assert!(line("/a%5cb").contains("client_bad_request \"the path holds a backslash"), "{}", line("/a%5cb"));
}

#[test]
fn endless_pipelining_does_not_delay_others() {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    const TURNS: u64 = 50;
    let resources = "routes:\n  - {id: '1', uri: /*, plugins: {mocking: {response_example: a}}}\n";
    let weir = builder(resources).arguments(&["--workers", "1"]).start();
    let mut sending = TcpStream::connect(weir.proxy()).unwrap();
    let mut taking = sending.try_clone().unwrap();
    // Both threads end with the gateway.
    thread::spawn(move || while sending.write_all(&REQUEST.repeat(20_000)).is_ok() {});
    thread::spawn(move || while matches!(taking.read(&mut [0; 1 << 16]), Ok(1..)) {});
    let served = || counter(&weir, "apisix_http_requests_total");
    wait_until("the flood has begun", || served() > 1_000);
    let mut client = weir.client();
    assert_eq!(client.get("/").status, 200);
    let before = served();
    for _ in 0..TURNS {
        assert_eq!(client.get("/").status, 200);
    }
    // A turn is 128 requests; when only reads were counted, a turn was more than 3,500.
    let between = (served() - before) / TURNS;
    assert!(between < 1_500, "{between} requests of one client were served between two of another");
}
