//! The load generator against servers on loopback without or with one fault.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;

use super::*;
use crate::result::Failures;

mod crowd;
mod http3;
mod layer4;
mod messages;
mod secure;

/// Serves connections, each in a thread of its own, with `serve`, which receives the number of the
/// connection.
fn server(serve: impl Fn(u64, &mut TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (serve, mut stream) = (Arc::clone(&serve), stream.unwrap());
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || serve(number as u64, &mut stream));
        }
    });
    address
}

/// Reads one request with its body; `None` when the client is gone.
fn request(stream: &mut TcpStream) -> Option<String> {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    Some(head + &String::from_utf8(body).unwrap())
}

/// Answers every request with the text that `answer` returns for its number, counted over all connections; an
/// empty text is no response. Closes if the request says so.
fn answering(answer: impl Fn(u64) -> String + Send + Sync + 'static) -> SocketAddr {
    let count = AtomicU64::new(0);
    server(move |_, stream| {
        while let Some(request) = request(stream) {
            let text = answer(count.fetch_add(1, Ordering::SeqCst));
            if stream.write_all(text.as_bytes()).is_err() || request.contains("Connection: close") {
                return;
            }
        }
    })
}

fn good(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn plan(address: SocketAddr) -> LoadPlan {
    LoadPlan {
        target: LoadTarget {
            address,
            host: address.to_string(),
            path: "/x".to_owned(),
            is_tls: false,
            transport: LoadTransport::Http,
        },
        manner: LoadMode::Http,
        connections: 3,
        threads: 1,
        seconds: None,
        requests: Some(60),
        rate: None,
        ramp_up: Duration::ZERO,
        per_connection: None,
        body_bytes: 0,
        // As long as a busy machine may take, for tests without a stall.
        timeout: Duration::from_secs(60),
        tls: Tls::default(),
        expect: Expectation {
            status: 200,
            bytes: None,
            failing_one_in: 0,
            check: ResponseCheck::Bytes,
            body: None,
        },
    }
}

fn go(plan: &LoadPlan) -> LoadOutcome {
    generate_load(plan, &AtomicBool::new(false), || {}).unwrap()
}

#[test]
fn every_answer_is_asked_for_and_counted() {
    let address = answering(|_| good("hello"));
    let usual = plan(address);
    let check = |plan: LoadPlan, wanted: u64| {
        let outcome = go(&plan);
        let had = (outcome.requests, outcome.failures, outcome.unsent);
        assert_eq!(had, (wanted, Failures::default(), 0), "{plan:?}: {:?}", outcome.notes);
        assert!(outcome.latency.p50_ms.is_some() && outcome.cpu_us_per_request > 0.0);
    };
    check(usual.clone(), 60);
    check(LoadPlan { threads: 3, requests: Some(61), ..usual.clone() }, 61);
    check(LoadPlan { connections: 1, ..usual.clone() }, 60);
    check(LoadPlan { per_connection: Some(1), ..usual.clone() }, 60);
    check(LoadPlan { per_connection: Some(7), threads: 2, ..usual.clone() }, 60);
    check(LoadPlan { rate: Some(10_000.0), threads: 2, ..usual.clone() }, 60);
    check(LoadPlan { rate: Some(10_000.0), per_connection: Some(1), ..usual.clone() }, 60);
    check(LoadPlan { body_bytes: 300_000, requests: Some(9), ..usual }, 9);
}

#[test]
fn every_shape_of_answer_is_understood() {
    let check = |answer: &'static str| {
        let outcome = go(&plan(answering(move |_| answer.to_owned())));
        assert_eq!((outcome.requests, outcome.failures.all()), (60, 0), "{answer:?}: {:?}", outcome.notes);
    };
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n");
    check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

#[test]
fn a_server_may_close_between_requests() {
    // Each connection serves one request, says so or not, and is closed.
    let check = |answer: &'static str| {
        let address = server(move |_, stream| {
            request(stream);
            let _ = stream.write_all(answer.as_bytes());
        });
        let outcome = go(&plan(address));
        assert_eq!((outcome.requests, outcome.failures.all()), (60, 0), "{answer:?}: {:?}", outcome.notes);
    };
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
    check("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    check("HTTP/1.1 200 OK\r\n\r\nhello");
}

#[test]
fn each_failure_is_counted_under_its_kind() {
    // Every tenth response is a wrong one.
    let check = |bad: &'static str, kind: fn(&Failures) -> u64, note: &str| {
        let address = answering(move |number| if number % 10 == 9 { bad.to_owned() } else { good("hello") });
        let outcome = go(&LoadPlan { connections: 1, ..plan(address) });
        let failures = outcome.failures;
        assert_eq!((kind(&failures), failures.all()), (6, 6), "{bad:?}: {failures:?} {:?}", outcome.notes);
        assert!(outcome.notes.iter().any(|said| said.contains(note)), "{bad:?}: {:?}", outcome.notes);
    };
    let (status, content) = (|failures: &Failures| failures.status, |failures: &Failures| failures.content);
    check("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", status, "status 500");
    check("HTTP/1.1 204 No Content\r\n\r\n", status, "status 204");
    check("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell", content, "4 bytes instead of 5");
    check("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", content, "0 bytes instead of 5");
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhallo", content, "other bytes");
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!!", content, "belong to no request");
    check("HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", content, "no HTTP");
}

#[test]
fn a_cut_answer_is_a_broken_connection() {
    let address = server(|number, stream| {
        while request(stream).is_some() {
            let text = if number % 2 == 0 { good("hello") } else { good("hello")[..40].to_owned() };
            let _ = stream.write_all(text.as_bytes());
            if number % 2 == 1 || stream.peer_addr().is_err() {
                return;
            }
        }
    });
    let outcome = go(&LoadPlan { connections: 2, requests: Some(20), ..plan(address) });
    assert_eq!(outcome.requests + outcome.failures.broken, 20);
    assert!(outcome.failures.broken > 0 && outcome.failures.broken == outcome.failures.all(), "{outcome:?}");
    assert!(outcome.notes.concat().contains("in the middle of an answer"), "{:?}", outcome.notes);
}

#[test]
fn immediate_hangup_is_a_broken_connection() {
    let outcome = go(&LoadPlan { requests: Some(6), ..plan(server(|_, stream| drop(request(stream)))) });
    let broken = Failures { broken: 6, ..Failures::default() };
    assert_eq!((outcome.requests, outcome.failures), (0, broken), "{:?}", outcome.notes);
    assert!(outcome.notes.concat().contains("without an answer"), "{:?}", outcome.notes);
}

#[test]
fn closed_port_is_a_failure_to_connect() {
    let address = testkit::Origin::nowhere();
    let outcome = go(&LoadPlan { connections: 2, requests: Some(4), ..plan(address) });
    assert_eq!(outcome.requests, 0);
    // Two are tried before the run, four with a request each.
    assert_eq!(outcome.failures, Failures { connect: 6, ..Failures::default() }, "{:?}", outcome.notes);
    assert!(outcome.notes.concat().contains("nobody listens there"), "{:?}", outcome.notes);
}

#[test]
fn a_stalled_server_is_a_timeout() {
    let address = answering(|number| if number < 3 { good("hello") } else { String::new() });
    let stalled = LoadPlan { requests: Some(6), timeout: Duration::from_millis(300), ..plan(address) };
    let outcome = go(&stalled);
    let three = Failures { timeout: 3, ..Failures::default() };
    assert_eq!((outcome.requests, outcome.failures), (3, three), "{:?}", outcome.notes);
    // In an open loop every due request is answered, timed out, or unsent.
    let address = answering(|number| if number < 3 { good("hello") } else { String::new() });
    let due = LoadPlan { requests: None, seconds: Some(0.2), rate: Some(500.0), ..stalled };
    let outcome = go(&LoadPlan { target: plan(address).target, ..due });
    assert_eq!(outcome.requests + outcome.failures.all() + outcome.unsent, 100, "{outcome:?}");
    assert!(outcome.unsent > 0 && outcome.failures.timeout > 0 && outcome.latency.from_due_time);
}

#[test]
fn intended_500s_are_no_failure() {
    let failing = "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\nfail";
    let address = answering(move |number| if number % 10 == 9 { failing.to_owned() } else { good("hello") });
    let expect = Expectation { failing_one_in: 10, ..plan(address).expect };
    let outcome = go(&LoadPlan { expect, ..plan(address) });
    assert_eq!((outcome.requests, outcome.failures.all()), (60, 0), "{:?}", outcome.notes);
    let expect = Expectation { failing_one_in: 1000, ..plan(address).expect };
    let outcome = go(&LoadPlan { expect, ..plan(address) });
    assert_eq!(outcome.failures, Failures { status: 4, ..Failures::default() }, "6 of 60, and 2 are allowed");
}

#[test]
fn bodies_arrive_as_they_were_sent() {
    let seen = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&seen);
    let address = server(move |_, stream| {
        while let Some(text) = request(stream) {
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("POST /x HTTP/1.1\r\n"), "{head}");
            if body.as_bytes() == pattern(100_000) {
                count.fetch_add(1, Ordering::SeqCst);
            }
            let _ = stream.write_all(good("hello").as_bytes());
        }
    });
    let outcome = go(&LoadPlan { body_bytes: 100_000, requests: Some(12), ..plan(address) });
    assert_eq!((outcome.requests, outcome.failures.all(), seen.load(Ordering::SeqCst)), (12, 0, 12));
}

#[test]
fn a_plan_that_cannot_be_is_refused() {
    let usual = plan("127.0.0.1:9".parse().unwrap());
    let check = |plan: LoadPlan, reason: &str| {
        let error = format!("{:#}", generate_load(&plan, &AtomicBool::new(true), || {}).unwrap_err());
        assert!(error.contains(reason), "{error}");
    };
    check(LoadPlan { connections: 0, ..usual.clone() }, "at least 1");
    check(LoadPlan { threads: 4, ..usual.clone() }, "no more than connections");
    check(LoadPlan { seconds: Some(0.0), ..usual.clone() }, "seconds are more than 0");
    check(LoadPlan { seconds: Some(f64::NAN), ..usual.clone() }, "seconds are more than 0");
    check(LoadPlan { rate: Some(-1.0), ..usual.clone() }, "rate is more than 0");
    check(LoadPlan { ramp_up: Duration::from_secs(1), ..usual.clone() }, "leave out the ramp");
    check(LoadPlan { requests: Some(0), ..usual.clone() }, "at least 1");
    check(LoadPlan { timeout: Duration::ZERO, ..usual.clone() }, "timeout");
    check(LoadPlan { manner: LoadMode::Websocket, per_connection: Some(1), ..usual.clone() }, "are kept");
    check(LoadPlan { manner: LoadMode::Crowd(Habit::Idle), ..usual.clone() }, "pace of their own");
    let every = Duration::from_secs(1);
    let bodies = LoadMode::Crowd(Habit::Bodies { every });
    check(LoadPlan { manner: bodies, requests: None, ..usual.clone() }, "--body-bytes");
    check(LoadPlan { connections: u32::MAX, ..usual }, "ulimit");
}

#[test]
fn reference_is_fetched_whole_or_fails() {
    let check = |answer: &'static str, wanted: Result<(u16, &str), &str>| {
        let address = server(move |_, stream| {
            request(stream);
            let _ = stream.write_all(answer.as_bytes());
        });
        match (fetch(&plan(address).target, Duration::from_secs(60)), wanted) {
            (Ok((status, body)), Ok(wanted)) => {
                assert_eq!((status, body.as_slice()), (wanted.0, wanted.1.as_bytes()))
            }
            (Err(error), Err(reason)) => assert!(format!("{error:#}").contains(reason), "{error:#}"),
            (had, _) => panic!("{answer:?}: {had:?}"),
        }
    };
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Ok((200, "hello")));
    check("HTTP/1.1 404 Not Found\r\n\r\nuntil the end", Ok((404, "until the end")));
    check("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", Err("in the middle"));
    check("SSH-2.0\r\n", Err("no HTTP/1"));
}

#[test]
fn every_due_request_is_in_one_period() {
    let ends = [Duration::from_millis(200), Duration::from_millis(500)];
    let go = |plan: &LoadPlan| run_in_periods(plan, &ends, &AtomicBool::new(false), |_| {}).unwrap();
    let usual = |address| LoadPlan {
        requests: None,
        rate: Some(200.0),
        seconds: Some(0.5),
        connections: 2,
        ..plan(address)
    };
    let (periods, outcome) = go(&usual(answering(|_| good("hello"))));
    let counts: Vec<u64> = periods.iter().map(|period| period.requests).collect();
    assert_eq!((counts, outcome.failures.all()), (vec![40, 60], 0));
    // A server that never answers: two requests are sent, the others wait for a connection; all are given up.
    let silent = server(|_, stream| {
        request(stream);
        let _ = stream.read(&mut [0]);
    });
    let (periods, outcome) = go(&LoadPlan { timeout: Duration::from_millis(300), ..usual(silent) });
    let timeouts: Vec<u64> = periods.iter().map(|period| period.failures.timeout).collect();
    assert_eq!((timeouts, outcome.unsent), (vec![40, 60], 0), "{:?}", outcome.notes);
}
