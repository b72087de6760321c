//! Endpoints on real sockets: a panic of the library ends one of them, and its socket serves on with the
//! next.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use testkit::Authority;

use super::*;
use crate::env;
use crate::tls::server::site::{PairParts, Site, SiteParts};
use crate::tls::server::{QuicTls, ServerSettings, ServerTls, SiteTable};

/// A server's parts, and what a client of it needs.
struct Scene {
    tls: QuicTls,
    sites: Arc<SiteTable>,
    process: QuicProcess,
    client: quinn::ClientConfig,
}

fn scene() -> Scene {
    let authority = Authority::new("known");
    let pair = authority.pair(&["a.example"]);
    let tls = Arc::new(ServerTls::new(&ServerSettings::default()).unwrap());
    let parts = SiteParts {
        id: "1",
        names: vec!["a.example"],
        pairs: vec![PairParts { chain: &pair.certificate, key: &pair.key, is_checked: false }],
        versions: None,
        client: None,
        exemption: None,
        staples: None,
    };
    let mut sites = SiteTable::default();
    sites.insert(&Arc::new(Site::new(parts, &tls).unwrap()));
    let mut client = testkit::TlsClient::new(authority.pem(), "a.example").config();
    client.alpn_protocols = vec![b"h3".to_vec()];
    Scene {
        tls: QuicTls::new(&tls).unwrap(),
        sites: Arc::new(sites),
        process: QuicProcess::first().unwrap(),
        client: quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(client).unwrap())),
    }
}

fn open(scene: &Scene, socket: &std::net::UdpSocket) -> QuicEndpoint {
    QuicEndpoint::open(EndpointParts {
        socket: socket.try_clone().unwrap(),
        number: 0,
        steering: &scene.process.steering(socket.local_addr().unwrap(), 1),
        secret: &scene.process.secret,
        limits: QuicLimits {
            streams: 4,
            uni_streams: 4,
            stream_window_bytes: 65_536,
            connection_window_bytes: 65_536,
        },
        tls: scene.tls.clone(),
        counts: Arc::default(),
    })
    .unwrap()
}

/// Connects to `address` in a task of its own.
fn connect(scene: &Scene, address: SocketAddr) {
    let config = scene.client.clone();
    env::spawn(async move {
        let endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let connecting = endpoint.connect_with(config, address, "a.example").unwrap();
        let _ = tokio::time::timeout(Duration::from_secs(20), connecting).await;
    });
}

#[test]
fn endpoint_is_opened_again_after_a_panic() {
    let scene = scene();
    let socket = bind_quic_socket((Ipv4Addr::LOCALHOST, 0).into(), true).unwrap();
    let address = socket.local_addr().unwrap();
    env::block_on(async {
        let first = open(&scene, &socket);
        connect(&scene, address);
        first
            .accept_each(async |mut incoming: Guarded<quinn::Incoming>| {
                let panic =
                    catch_unwind(AssertUnwindSafe(|| incoming.call(|_| panic!("a fault of the library"))));
                assert!(panic.is_err());
            })
            .await;
        assert!(first.health().has_failed());
        drop(first);

        let second = open(&scene, &socket);
        connect(&scene, address);
        let begun = Cell::new(false);
        let accepting = second.accept_each(async |incoming: Guarded<quinn::Incoming>| {
            let mut connecting = second.begin(incoming, &scene.sites).unwrap();
            let connected = std::future::poll_fn(|cx| {
                connecting.call(|connecting| std::pin::Pin::new(connecting).poll(cx)).unwrap()
            });
            begun.set(connected.await.is_ok());
            second.leave_socket();
        });
        tokio::select! {
            () = accepting => unreachable!("the endpoint is healthy"),
            () = async { while !begun.get() { tokio::task::yield_now().await } } => {}
        }
        assert!(!second.health().has_failed());
    })
    .unwrap();
}
