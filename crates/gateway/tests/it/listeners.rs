//! Listeners of an engine, with sockets of the real kernel and without routes: a client that receives 404 was
//! served.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use gateway::engine::{Engine, EngineConfig};
use gateway::testing;
use net::listener::{Listener, ListenerChanges, Protocols, WantedListener};
use net::quic::QuicProcess;

fn engine(workers: usize) -> Engine {
    let (options, runtime) = testing::without_routes();
    let services = Arc::new(exchange::testing::services());
    Engine::start(EngineConfig {
        options,
        workers,
        runtime,
        access_log: None,
        session_log: None,
        services,
        quic: QuicProcess::first().unwrap(),
    })
    .unwrap()
}

fn loopback(port: u16) -> WantedListener {
    WantedListener { address: SocketAddr::from(([127, 0, 0, 1], port)), protocols: Protocols::HTTP1 }
}

/// One request on a connection of its own.
fn is_served(address: SocketAddr) -> bool {
    let mut answer = String::new();
    let talk = TcpStream::connect(address).and_then(|mut stream| {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")?;
        stream.read_to_string(&mut answer)
    });
    talk.is_ok() && answer.starts_with("HTTP/1.1 404 ")
}

/// Opens enough connections that the kernel chooses the socket of every worker.
fn is_served_by_all(address: SocketAddr) -> bool {
    (0..60).all(|_| is_served(address))
}

fn refuses(address: SocketAddr) {
    testkit::wait_until("connections are refused", || TcpStream::connect(address).is_err());
}

fn addresses(engine: &Engine) -> Vec<SocketAddr> {
    engine.listeners().iter().map(|listener| listener.address()).collect()
}

#[test]
fn port_is_shared_by_workers_only() {
    let listener = Listener::bind(loopback(0), 3).unwrap();
    let address = listener.address();
    assert!(address.port() != 0 && listener.wanted().address.port() == 0);
    for worker in 0..3 {
        let sockets = listener.of_worker(worker).unwrap();
        assert_eq!((sockets.len(), sockets[0].local_addr().unwrap()), (1, address));
    }
    let error = Listener::bind(loopback(address.port()), 1).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    drop(listener);
    Listener::bind(loopback(address.port()), 1).unwrap();
}

#[test]
fn adopted_sockets_are_spread_over_workers() {
    let check = |bound: usize, workers: usize, adopted: &[usize], completed: &[usize]| {
        let old = Listener::bind(loopback(0), bound).unwrap();
        let new = Listener::adopt(loopback(0), old.descriptors().unwrap(), Vec::new(), workers).unwrap();
        assert_eq!(new.address(), old.address());
        let counts = |listener: &Listener| -> Vec<usize> {
            (0..workers).map(|worker| listener.of_worker(worker).unwrap().len()).collect()
        };
        assert_eq!(counts(&new), adopted, "{bound} sockets, {workers} workers");
        new.complete().unwrap();
        assert_eq!(counts(&new), completed, "{bound} sockets, {workers} workers");
    };
    check(2, 2, &[1, 1], &[1, 1]);
    check(5, 2, &[3, 2], &[3, 2]);
    check(1, 3, &[1, 0, 0], &[1, 1, 1]);
}

#[test]
fn mismatched_sockets_are_not_adopted() {
    let two = [Listener::bind(loopback(0), 1).unwrap(), Listener::bind(loopback(0), 1).unwrap()];
    let mixed = two.iter().flat_map(|listener| listener.descriptors().unwrap()).collect();
    Listener::adopt(loopback(0), mixed, Vec::new(), 2).unwrap_err();
    Listener::adopt(loopback(0), Vec::new(), Vec::new(), 2).unwrap_err();
}

#[test]
fn unchanged_listeners_are_kept() {
    type Pick = fn(u16, u16) -> Vec<WantedListener>;
    // The ports of `a` and `b`, both requested as 0; which of them are kept, how many are new, which are
    // removed.
    let check = |wanted: Pick, kept: &[usize], added: usize, removed: &[usize]| {
        let engine = engine(1);
        engine.listen(&[loopback(0), loopback(0)]).unwrap();
        let before = engine.listeners();
        let all = addresses(&engine);
        let wanted = wanted(all[0].port(), all[1].port());
        let change = engine.listen(&wanted).unwrap();
        let of = |indices: &[usize]| indices.iter().map(|index| all[*index]).collect::<Vec<_>>();
        assert_eq!((change.added.len(), change.removed), (added, of(removed)), "{wanted:?}");
        let after = engine.listeners();
        let stayed = after.iter().filter(|one| before.iter().any(|other| Arc::ptr_eq(one, other)));
        assert_eq!(stayed.map(|one| one.address()).collect::<Vec<_>>(), of(kept), "{wanted:?}");
        assert_eq!(after.len(), wanted.len());
        engine.stop();
    };
    check(|_, _| vec![loopback(0), loopback(0)], &[0, 1], 0, &[]);
    check(|a, b| vec![loopback(b), loopback(a)], &[1, 0], 0, &[]);
    check(|_, _| vec![loopback(0), loopback(0), loopback(0)], &[0, 1], 1, &[]);
    check(|_, _| vec![loopback(0)], &[0], 0, &[1]);
    check(|_, b| vec![loopback(b)], &[1], 0, &[0]);
    check(|a, _| vec![loopback(0), loopback(a)], &[1, 0], 0, &[]);
    check(|_, _| vec![], &[], 0, &[0, 1]);
}

#[test]
fn failed_bind_changes_nothing() {
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = stranger.local_addr().unwrap();
    let engine = engine(2);
    let ours = engine.listen(&[loopback(0)]).unwrap().added[0];
    let refused = engine.listen(&[loopback(0), loopback(0), loopback(taken.port())]).unwrap_err();
    assert_eq!((refused.address, refused.in_the_way), (taken, None));
    assert!(refused.to_string().starts_with(&format!("cannot listen on {taken}: ")), "{refused}");
    let mut all = loopback(ours.port());
    all.address.set_ip(std::net::Ipv4Addr::UNSPECIFIED.into());
    let refused = engine.listen(&[all]).unwrap_err();
    assert_eq!(refused.in_the_way, Some(ours));
    assert!(refused.to_string().contains(&format!("; {ours} overlaps with it")), "{refused}");
    assert_eq!(addresses(&engine), [ours]);
    assert!(is_served_by_all(ours));
    engine.stop();
}

#[test]
fn changed_listener_leaves_others_untouched() {
    let engine = engine(2);
    let first = engine.listen(&[loopback(0)]).unwrap().added[0];
    assert!(is_served_by_all(first));
    let second = engine.listen(&[loopback(0), loopback(0)]).unwrap().added[0];
    assert!(is_served_by_all(first) && is_served_by_all(second));
    let change = engine.listen(&[loopback(second.port())]).unwrap();
    assert_eq!(change, ListenerChanges { removed: vec![first], ..ListenerChanges::default() });
    refuses(first);
    assert!(is_served_by_all(second));
    engine.stop();
}

#[test]
fn restarted_worker_has_current_listeners() {
    let engine = engine(3);
    let first = engine.listen(&[loopback(0)]).unwrap().added[0];
    let second = engine.listen(&[loopback(0), loopback(0)]).unwrap().added[0];
    engine.listen(&[loopback(second.port())]).unwrap();
    let third = engine.listen(&[loopback(second.port()), loopback(0)]).unwrap().added[0];
    // Connections are spread evenly: each worker has some of these, and they end when it panics.
    let held: Vec<_> = (0..60).map(|_| TcpStream::connect(second).unwrap()).collect();
    testkit::wait_until("all connections are counted", || engine.connections() == held.len());
    engine.break_workers();
    testkit::wait_until("all workers have broken", || engine.connections() == 0);
    testkit::wait_until("the restart of each worker is counted", || {
        let mut text = String::new();
        engine.write_metrics(&mut text);
        (0..3).all(|worker| text.contains(&format!("weir_worker_restarts_total{{worker=\"{worker}\"}} 1\n")))
    });
    assert!(is_served_by_all(second) && is_served_by_all(third));
    refuses(first);
    engine.stop();
}

#[test]
fn ended_engine_opens_no_listener() {
    let engine = engine(1);
    let address = engine.listen(&[loopback(0)]).unwrap().added[0];
    assert!(engine.drain(Duration::from_secs(20), &|| false));
    assert!(TcpStream::connect(address).is_err());
    assert_eq!(engine.listen(&[loopback(0)]).unwrap(), ListenerChanges::default());
    assert!(engine.listeners().iter().all(|one| one.descriptors().unwrap().is_empty()));
}

#[test]
fn inherited_sockets_are_served_by_the_successor() {
    let (old, new) = (engine(3), engine(2));
    let address = old.listen(&[loopback(0)]).unwrap().added[0];
    let sockets = old.listeners()[0].descriptors().unwrap();
    let adopted = Listener::adopt(loopback(address.port()), sockets, Vec::new(), 2).unwrap();
    new.open(vec![Arc::new(adopted)]);
    assert!(old.hand_over(Duration::from_secs(20), &|| false));
    assert!(is_served_by_all(address), "three sockets, two workers, and no connection is lost");
    new.stop();
}
