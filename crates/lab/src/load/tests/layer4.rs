//! Bytes and datagrams: the generator against the origin of this crate, and against servers with one fault.

use std::net::UdpSocket;

use super::*;
use crate::echo;
use crate::echo::language;

fn plan_to(address: SocketAddr, transport: LoadTransport, manner: LoadMode) -> LoadPlan {
    let usual = plan(address);
    let body_bytes = if manner == LoadMode::Tcp(Talk::Messages) { 100 } else { 0 };
    LoadPlan { target: LoadTarget { transport, ..usual.target.clone() }, manner, body_bytes, ..usual }
}

fn bytes(address: SocketAddr, talk: Talk) -> LoadPlan {
    plan_to(address, LoadTransport::Tcp, LoadMode::Tcp(talk))
}

fn datagrams(address: SocketAddr) -> LoadPlan {
    let plan = plan_to(address, LoadTransport::Udp, LoadMode::Udp { at_once: 2 });
    LoadPlan { body_bytes: 64, ..plan }
}

#[test]
fn everything_comes_back_from_the_origin() {
    let address = echo::start_echo("127.0.0.1:0".parse().unwrap()).unwrap().address;
    let named = LoadPlan {
        target: LoadTarget { host: "one.lab.example".to_owned(), ..bytes(address, Talk::Hello).target },
        ..bytes(address, Talk::Hello)
    };
    let rows = [
        bytes(address, Talk::Messages),
        LoadPlan { body_bytes: 300_000, ..bytes(address, Talk::Messages) },
        LoadPlan { threads: 3, ..bytes(address, Talk::Messages) },
        LoadPlan { per_connection: Some(1), ..bytes(address, Talk::Messages) },
        named,
        datagrams(address),
        LoadPlan { connections: 100, threads: 2, ..datagrams(address) },
    ];
    for plan in rows {
        let outcome = go(&plan);
        assert_eq!((outcome.requests, outcome.failures.all()), (60, 0), "{plan:?}: {:?}", outcome.notes);
    }
    // Several blocks may end in one read.
    let outcome = go(&bytes(address, Talk::Bulk));
    assert!(outcome.requests >= 60 && outcome.failures.all() == 0, "{:?}", outcome.notes);
}

#[test]
fn wrong_bytes_are_failures_of_content() {
    let echo = |change: fn(&mut [u8]) -> usize| {
        server(move |_, stream| {
            let mut buffer = [0; 300];
            while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                buffer[bytes..].fill(b'x');
                let bytes = change(&mut buffer[..bytes + 1]);
                if stream.write_all(&buffer[..bytes]).is_err() {
                    return;
                }
            }
        })
    };
    let changed = echo(|bytes| {
        bytes[50] ^= 1;
        bytes.len() - 1
    });
    let longer = echo(|bytes| bytes.len());
    for address in [changed, longer] {
        let plan = LoadPlan { connections: 1, requests: Some(3), ..bytes(address, Talk::Messages) };
        let outcome = go(&plan);
        assert_eq!(outcome.failures.content, 3, "{outcome:?}");
    }
    let other_block = server(|_, stream| {
        let mut block = language::block().to_vec();
        block[999_999] ^= 1;
        while stream.write_all(&block).is_ok() {}
    });
    let outcome = go(&LoadPlan { connections: 1, requests: Some(3), ..bytes(other_block, Talk::Bulk) });
    assert!(outcome.requests >= 3 && outcome.failures.content == outcome.requests, "{outcome:?}");
}

#[test]
fn connection_that_ends_early_is_broken() {
    let address = server(|_, stream| {
        let mut buffer = [0; 40];
        let _ = stream.read(&mut buffer);
        let _ = stream.write_all(&buffer);
    });
    for plan in [
        bytes(address, Talk::Messages),
        LoadPlan { per_connection: Some(1), ..bytes(address, Talk::Messages) },
    ] {
        let outcome = go(&LoadPlan { connections: 1, requests: Some(2), ..plan });
        assert_eq!((outcome.requests, outcome.failures.broken), (0, 2), "{outcome:?}");
    }
}

#[test]
fn connection_that_does_not_end_is_a_timeout() {
    let address = server(|_, stream| {
        let mut buffer = [0; 1000];
        while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
            let _ = stream.write_all(&buffer[..bytes]);
        }
    });
    let plan = bytes(address, Talk::Messages);
    let timeout = Duration::from_millis(200);
    let outcome =
        go(&LoadPlan { connections: 1, requests: Some(1), per_connection: Some(1), timeout, ..plan });
    assert_eq!((outcome.requests, outcome.failures.timeout), (0, 1), "{outcome:?}");
    assert!(outcome.notes[0].contains("did not end in time"), "{:?}", outcome.notes);
}

#[test]
fn lost_and_changed_datagrams_are_failures() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut datagram = [0; 100];
        for number in 0.. {
            let (bytes, source) = socket.recv_from(&mut datagram).unwrap();
            match number % 4 {
                0 => continue,
                1 => datagram[20] ^= 1,
                _ => {}
            }
            socket.send_to(&datagram[..bytes], source).unwrap();
        }
    });
    let timeout = Duration::from_millis(200);
    let plan = LoadPlan { requests: Some(20), timeout, ..datagrams(address) };
    let outcome = go(&plan);
    let failures = outcome.failures;
    assert_eq!((outcome.requests, failures.timeout, failures.content), (15, 5, 5), "{outcome:?}");
}

#[test]
fn impossible_plans_of_layer_4_are_refused() {
    let address = "127.0.0.1:9".parse().unwrap();
    let check = |plan: LoadPlan, reason: &str| {
        let error = generate_load(&plan, &AtomicBool::new(false), || {}).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    };
    let messages = bytes(address, Talk::Messages);
    check(LoadPlan { body_bytes: 0, ..messages.clone() }, "from 1 to");
    check(LoadPlan { body_bytes: 19, per_connection: Some(1), ..messages.clone() }, "from 20 to 32768");
    check(LoadPlan { rate: Some(5.0), ..messages.clone() }, "leave out rate");
    check(LoadPlan { per_connection: Some(2), ..messages.clone() }, "ends after one message");
    check(LoadPlan { manner: LoadMode::Http, ..messages }, "need a URL with tcp://");
    check(LoadPlan { body_bytes: 7, ..datagrams(address) }, "from 8 to 65507");
    let many = LoadMode::Udp { at_once: 4 };
    check(LoadPlan { manner: many, ..datagrams(address) }, "no more than the sources");
}
