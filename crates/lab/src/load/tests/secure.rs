//! The load generator over TLS, against a server of rustls with one certificate that is made for the test.

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;
use crate::result::Handshakes;
use crate::scenario::TlsVersion;

/// Settings of a server; with tickets its sessions can be resumed.
pub(super) fn settings(has_tickets: bool) -> Arc<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = CertificateDer::from(made.cert.der().to_vec());
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let mut settings = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    if has_tickets {
        settings.ticketer = aws_lc_rs::Ticketer::new().unwrap();
    } else {
        settings.session_storage = Arc::new(NoServerSessionStorage {});
        settings.send_tls13_tickets = 0;
    }
    Arc::new(settings)
}

/// Answers every request over TLS with the text of its number; closes if the request says so.
fn secure(has_tickets: bool, answer: impl Fn(u64) -> String + Send + Sync + 'static) -> SocketAddr {
    let (settings, count) = (settings(has_tickets), AtomicU64::new(0));
    server(move |_, stream| {
        let connection = ServerConnection::new(Arc::clone(&settings)).unwrap();
        let mut stream = StreamOwned::new(connection, stream.try_clone().unwrap());
        let mut head = Vec::new();
        loop {
            let mut buffer = [0; 4096];
            let Ok(bytes @ 1..) = stream.read(&mut buffer) else { return };
            head.extend_from_slice(&buffer[..bytes]);
            if !head.ends_with(b"\r\n\r\n") {
                continue;
            }
            let text = answer(count.fetch_add(1, Ordering::SeqCst));
            if stream.write_all(text.as_bytes()).is_err() {
                return;
            }
            if head.windows(5).any(|part| part == b"close") {
                stream.conn.send_close_notify();
                let _ = stream.flush();
                return;
            }
            head.clear();
        }
    })
}

fn secure_plan(address: SocketAddr) -> LoadPlan {
    let usual = plan(address);
    LoadPlan { target: LoadTarget { is_tls: true, ..usual.target.clone() }, ..usual }
}

#[test]
fn kept_connections_shake_hands_once() {
    // Longer than a record of TLS, and than the buffer of the load generator.
    let body = "x".repeat(200_000);
    let outcome = go(&secure_plan(secure(true, move |_| good(&body))));
    assert_eq!((outcome.requests, outcome.failures.all()), (60, 0), "{:?}", outcome.notes);
    assert_eq!(outcome.handshakes, Some(Handshakes { full: 3, resumed: 0 }));
}

#[test]
fn new_connections_shake_hands_as_asked() {
    let check = |resume: bool, version: TlsVersion, wanted: Handshakes| {
        let tls = Tls { resume, version: Some(version) };
        let plan = LoadPlan { per_connection: Some(1), tls, ..secure_plan(secure(true, |_| good("hello"))) };
        let outcome = go(&plan);
        assert_eq!((outcome.requests, outcome.failures.all()), (60, 0), "{tls:?} {:?}", outcome.notes);
        assert_eq!(outcome.handshakes, Some(wanted), "{tls:?}");
    };
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        check(false, version, Handshakes { full: 60, resumed: 0 });
        // The first connection of each of three clients has nothing to resume.
        check(true, version, Handshakes { full: 3, resumed: 57 });
    }
}

#[test]
fn full_handshake_in_place_of_resumed_one_fails() {
    let tls = Tls { resume: true, version: Some(TlsVersion::V1_3) };
    let plan = LoadPlan { per_connection: Some(1), tls, ..secure_plan(secure(false, |_| good("hello"))) };
    let outcome = go(&plan);
    assert_eq!(outcome.handshakes, Some(Handshakes { full: 60, resumed: 0 }));
    assert_eq!((outcome.requests, outcome.failures.connect), (60, 57), "{:?}", outcome.notes);
    assert!(outcome.notes.concat().contains("there was a session to resume"), "{:?}", outcome.notes);
}

#[test]
fn tls_bodies_are_compared() {
    let answer = |number| good(if number % 10 == 9 { "hallo" } else { "hello" });
    let outcome = go(&LoadPlan { connections: 1, ..secure_plan(secure(true, answer)) });
    assert_eq!((outcome.requests, outcome.failures.content, outcome.failures.all()), (60, 6, 6));
}

#[test]
fn large_request_body_crosses_tls() {
    let seen = Arc::new(AtomicU64::new(0));
    let (count, settings) = (Arc::clone(&seen), settings(true));
    let address = server(move |_, stream| {
        let connection = ServerConnection::new(Arc::clone(&settings)).unwrap();
        let mut stream = StreamOwned::new(connection, stream.try_clone().unwrap());
        let mut all = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
            all.extend_from_slice(&buffer[..bytes]);
            let body = pattern(300_000);
            if all.ends_with(&body) {
                count.fetch_add(1, Ordering::SeqCst);
                all.clear();
                stream.write_all(good("hello").as_bytes()).unwrap();
            }
        }
    });
    let outcome = go(&LoadPlan { body_bytes: 300_000, requests: Some(6), ..secure_plan(address) });
    assert_eq!((outcome.requests, outcome.failures.all()), (6, 0), "{:?}", outcome.notes);
    assert_eq!(seen.load(Ordering::SeqCst), 6);
}

#[test]
fn server_without_tls_is_a_failure() {
    let address = server(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = stream.read(&mut [0; 1024]);
    });
    let outcome = go(&LoadPlan { requests: Some(6), ..secure_plan(address) });
    assert_eq!(outcome.requests, 0);
    assert!(outcome.failures.broken > 0, "{outcome:?}");
    assert_eq!(outcome.handshakes, None);
}

#[test]
fn tls_choices_need_a_url_with_https() {
    let usual = plan("127.0.0.1:9".parse().unwrap());
    let secure = secure_plan("127.0.0.1:9".parse().unwrap());
    let check = |plan: LoadPlan, reason: &str| {
        let error = format!("{:#}", generate_load(&plan, &AtomicBool::new(true), || {}).unwrap_err());
        assert!(error.contains(reason), "{error}");
    };
    let tls = Tls { resume: true, version: None };
    check(LoadPlan { tls, ..usual }, "need a URL with https");
    check(LoadPlan { manner: LoadMode::Websocket, ..secure.clone() }, "clear text");
    check(LoadPlan { manner: LoadMode::Crowd(Habit::Idle), requests: None, ..secure }, "clear text");
}
