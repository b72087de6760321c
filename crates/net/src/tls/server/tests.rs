//! Handshakes and bytes between this crate's server and client, over sockets of the kernel.

mod scene;

use std::net::SocketAddr;

use rcgen::{KeyPair, PKCS_RSA_SHA256};
use scene::{Authority, Scene, parts, read, write_all};

use super::client_policy::ClientPolicyParts;
use super::site::{PairParts, SiteKeys};
use super::*;
use crate::env;
use crate::transport::Transport;

#[test]
fn sites_are_found_by_name_wildcard_or_fallback() {
    let settings = ServerSettings { fallback_sni: Some("a.example".to_owned()), ..Default::default() };
    let mut scene = Scene::new(settings);
    scene.site("exact", &["a.example"], None);
    scene.site("wild", &["*.a.example"], None);
    scene.site("deep", &["*.b.a.example"], None);
    scene.site("part", &["*shop.example"], None);
    let later = scene.site("later", &["A.example."], None);
    for (name, expected) in [
        ("a.example", "exact"),
        ("x.a.example", "wild"),
        ("x.b.a.example", "deep"),
        ("b.a.example", "wild"),
        ("y.x.a.example", "exact"),
        ("myshop.example", "part"),
        ("shop.example", "exact"),
        ("x.myshop.example", "exact"),
        ("other.example", "exact"),
    ] {
        let found = scene.table.find(Some(name), scene.tls.fallback_name());
        assert_eq!(&*found.unwrap().id, expected, "{name}");
    }
    assert!(scene.table.find(Some("other.example"), None).is_none());
    let exact = scene.table.find(Some("a.example"), None).unwrap().clone();
    scene.table.remove(&exact);
    assert_eq!(&*scene.table.find(Some("a.example"), None).unwrap().id, "later");
    scene.table.remove(&later);
    assert!(scene.table.find(Some("a.example"), None).is_none());
    scene.site("any", &["*"], None);
    assert_eq!(&*scene.table.find(Some("other.example"), None).unwrap().id, "any");
}

#[test]
fn client_rules_reach_as_deep_as_routes() {
    let mut scene = Scene::new(ServerSettings::default());
    let authority = Authority::new("clients");
    let rules = ClientPolicyParts { authorities: &authority.pem, revoked: "", depth: 1, is_mandatory: true };
    scene.site("open", &["pub.test", "*.pub.test", "*.b.sec.test", "o.sec.test"], None);
    scene.site("rules", &["*.sec.test", "one.test", "x.pub.test"], Some(rules));
    scene.table.insert(&Arc::new(Site::faulty("faulty", &["*.bad.test"])));
    let check = |scene: &Scene, rows: &[(&str, &str, &str)]| {
        for (host, pattern, expected) in rows {
            let pattern = Some(*pattern).filter(|pattern| !pattern.is_empty());
            let found = scene.table.restricting(host, pattern).map_or("-", |site| &*site.id);
            assert_eq!(found, *expected, "{host} by {pattern:?}");
        }
    };
    check(
        &scene,
        &[
            // By the host alone.
            ("a.sec.test", "", "rules"),
            ("a.b.c.sec.test", "", "rules"),
            (".sec.test", "", "rules"),
            ("\u{fffd}.sec.test", "", "rules"),
            ("sec.test", "", "-"),
            ("asec.test", "", "-"),
            ("one.test", "", "rules"),
            ("x.one.test", "", "-"),
            ("x.pub.test", "", "rules"),
            ("y.x.pub.test", "", "-"),
            ("a.y.bad.test", "", "faulty"),
            ("", "", "-"),
            // A more precise site decides for its hosts, and opens no route of the wildcard.
            ("a.b.sec.test", "", "-"),
            ("a.b.sec.test", "*", "-"),
            ("a.b.sec.test", "*.test", "-"),
            ("a.b.sec.test", "*.b.sec.test", "-"),
            ("a.b.sec.test", "a.b.sec.test", "-"),
            ("a.b.sec.test", "*.sec.test", "rules"),
            ("o.sec.test", "*.sec.test", "rules"),
            ("o.sec.test", "o.sec.test", "-"),
            ("pub.test", "pub.test", "-"),
        ],
    );
    scene.site("part", &["*shop.test"], Some(rules));
    scene.site("any", &["*"], Some(rules));
    check(
        &scene,
        &[
            ("shop.test", "", "part"),
            ("a.myshop.test", "", "part"),
            ("other.example", "", "any"),
            ("a.b.sec.test", "", "-"),
            ("pub.test", "*", "-"),
        ],
    );
}

#[test]
fn object_without_rules_takes_none_away() {
    let authority = Authority::new("clients");
    let rules = ClientPolicyParts { authorities: &authority.pem, revoked: "", depth: 1, is_mandatory: true };
    for (first, second) in [(None, Some(rules)), (Some(rules), None)] {
        let mut scene = Scene::new(ServerSettings::default());
        scene.site("1", &["a.test"], first);
        scene.site("2", &["a.test"], second);
        assert!(scene.table.find(Some("a.test"), None).unwrap().client.is_some(), "it serves");
        assert!(scene.table.restricting("a.test", None).is_some());
    }
}

#[test]
fn handshake_agrees_and_bytes_pass_both_ways() {
    let mut scene = Scene::new(ServerSettings::default());
    scene.site("1", &["a.example"], None);
    env::block_on(async {
        let client = scene.client(None);
        let (server, client) = scene.handshake("a.example", &client).await;
        let (server, client) = (server.unwrap(), client.unwrap());
        assert_eq!((server.facts.version, server.facts.alpn.as_deref()), ("TLSv1.3", Some("http/1.1")));
        assert_eq!(server.facts.server_name.as_deref(), Some("a.example"));
        assert_eq!(client.facts().cipher, server.facts.cipher);
        let (mut server, mut client) = (Transport::from(server.stream), Transport::from(client));
        let body: Vec<u8> = (0..1_000_000_u32).map(|index| (index / 7) as u8).collect();
        for turn in 0..2 {
            let (from, to) = if turn == 0 { (&mut server, &mut client) } else { (&mut client, &mut server) };
            let receive = async {
                let (mut got, mut room) = (Vec::new(), vec![0; 64 * 1024]);
                while got.len() < body.len() {
                    // Every second piece is looked at first.
                    let count = poll_fn(|cx| to.poll_peek(cx, &mut room)).await.unwrap();
                    if got.len() % 2 == 0 {
                        assert!(to.drop_seen(&mut room[..count], false) == count);
                        got.extend_from_slice(&room[..count]);
                    }
                    let count = read(to, &mut room[..10_001]).await.unwrap();
                    got.extend_from_slice(&room[..count]);
                }
                got
            };
            let ((), got) = tokio::join!(write_all(from, &body), receive);
            assert!(got == body, "turn {turn}");
        }
    })
    .unwrap();
}

#[test]
fn end_without_close_notify_is_told_from_one_with() {
    let mut scene = Scene::new(ServerSettings::default());
    scene.site("1", &["a.example"], None);
    env::block_on(async {
        for is_orderly in [true, false] {
            let client = scene.client(None);
            let (server, client) = scene.handshake("a.example", &client).await;
            let (mut server, mut client) =
                (Transport::from(server.unwrap().stream), Transport::from(client.unwrap()));
            write_all(&mut server, b"whole").await;
            if is_orderly {
                poll_fn(|cx| server.poll_shutdown(cx)).await.unwrap();
            } else {
                // As a socket that is closed under TLS: the flag keeps close_notify away, and is taken back
                // beneath.
                server.reset_on_close();
                server.socket().end_on_close();
                drop(server);
            }
            let mut room = [0; 100];
            assert_eq!(read(&mut client, &mut room).await.unwrap(), 5);
            match read(&mut client, &mut room).await {
                Ok(count) => assert!(is_orderly && count == 0),
                Err(error) => assert!(!is_orderly && error.kind() == io::ErrorKind::UnexpectedEof),
            }
        }
    })
    .unwrap();
}

#[test]
fn blocked_write_is_counted_once_over_smaller_retries() {
    let mut scene = Scene::new(ServerSettings::default());
    scene.site("1", &["a.example"], None);
    env::block_on(async {
        let client = scene.client(None);
        let (server, client) = scene.handshake("a.example", &client).await;
        let (mut server, mut client) =
            (Transport::from(server.unwrap().stream), Transport::from(client.unwrap()));
        let body: Vec<u8> = (0..40_000_000_u32).map(|index| (index / 11) as u8).collect();
        let mut sent = 0;
        // Until the socket takes no more.
        while let Poll::Ready(count) = poll_fn(|cx| Poll::Ready(server.poll_write(cx, &body[sent..]))).await {
            sent += count.unwrap();
        }
        let total = sent + 300_000;
        let send = async {
            poll_fn(|cx| server.poll_third_free(cx)).await.unwrap();
            while sent < total {
                // Smaller pieces than the one that was refused.
                let piece = &body[sent..(sent + 1_000).min(total)];
                sent += poll_fn(|cx| server.poll_write(cx, piece)).await.unwrap();
            }
        };
        let receive = async {
            let (mut got, mut room) = (Vec::new(), vec![0; 64 * 1024]);
            while got.len() < total {
                let count = read(&mut client, &mut room).await.unwrap();
                got.extend_from_slice(&room[..count]);
            }
            got
        };
        let ((), got) = tokio::join!(send, receive);
        assert!(got == body[..total]);
    })
    .unwrap();
}

#[test]
fn key_is_chosen_by_what_the_client_verifies() {
    let scene = Scene::new(ServerSettings::default());
    let rsa = scene.authority.signs(&["a.example"], &KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap());
    let ecdsa = scene.authority.pair(&["a.example"]);
    let pair = |(chain, key)| PairParts { chain, key, is_checked: false };
    let pairs = [&rsa, &ecdsa].map(|(chain, key)| pair((chain.as_str(), key.as_str()))).to_vec();
    let site = Site::new(parts("1", &["a.example"], pairs), &scene.tls).unwrap();
    let keys = SiteKeys(site.keys(scene.tls.provider()).unwrap());
    let algorithm = |offered: &[rustls::SignatureScheme]| {
        let found = keys.0.iter().find(|key| key.key.choose_scheme(offered).is_some());
        found.map(|key| key.key.algorithm())
    };
    use rustls::{SignatureAlgorithm, SignatureScheme};
    let (ecdsa, rsa) = (SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::RSA_PSS_SHA256);
    assert_eq!(algorithm(&[rsa, ecdsa]), Some(SignatureAlgorithm::ECDSA));
    assert_eq!(algorithm(&[rsa]), Some(SignatureAlgorithm::RSA));
    assert_eq!(algorithm(&[SignatureScheme::ED25519]), None);
}

/// Reads until the tickets that the server has sent are with the client.
async fn take_tickets(server: Accepted, client: TlsStream) {
    let (mut server, mut client) = (Transport::from(server.stream), Transport::from(client));
    write_all(&mut server, b"x").await;
    read(&mut client, &mut [0; 10]).await.unwrap();
}

#[test]
fn session_is_resumed_under_its_name_and_policy_only() {
    let mut scene = Scene::new(ServerSettings::default());
    let plain = scene.site("1", &["a.example", "b.example"], None);
    env::block_on(async {
        let client = scene.client(None);
        for (turn, expected) in [false, true].into_iter().enumerate() {
            let (server, stream) = scene.handshake("a.example", &client).await;
            let server = server.unwrap();
            assert_eq!(server.facts.is_resumed, expected, "turn {turn}");
            take_tickets(server, stream.unwrap()).await;
        }
        // The same site, which now asks for certificates: the old session has none.
        scene.table.remove(&plain);
        let authorities = scene.authority.pem.clone();
        let policy =
            ClientPolicyParts { authorities: &authorities, revoked: "", depth: 1, is_mandatory: false };
        scene.site("1", &["a.example", "b.example"], Some(policy));
        let (server, stream) = scene.handshake("a.example", &client).await;
        let server = server.unwrap();
        assert!(!server.facts.is_resumed);
        assert_eq!(server.facts.client, ClientVerdict::None);
        take_tickets(server, stream.unwrap()).await;
        let (server, _) = scene.handshake("a.example", &client).await;
        assert!(server.unwrap().facts.is_resumed);
    })
    .unwrap();
}

#[test]
fn client_certificates_are_judged_by_the_policy() {
    let mut scene = Scene::new(ServerSettings::default());
    let stranger = Authority::new("stranger");
    let authorities = scene.authority.pem.clone();
    for (id, is_mandatory) in [("must.example", true), ("may.example", false)] {
        let policy = ClientPolicyParts { authorities: &authorities, revoked: "", depth: 1, is_mandatory };
        scene.site(id, &[id], Some(policy));
    }
    let (right, wrong) = (scene.authority.pair(&["me"]), stranger.pair(&["me"]));
    env::block_on(async {
        for (certificate, must, may) in [
            (Some(&right), true, ClientVerdict::Verified),
            (None, false, ClientVerdict::None),
            (Some(&wrong), false, ClientVerdict::Failed("unable to get local issuer certificate".into())),
        ] {
            let client = scene.client(certificate.map(|(chain, key)| (chain.as_str(), key.as_str())));
            let (server, _) = scene.handshake("must.example", &client).await;
            assert_eq!(server.is_ok(), must, "{may:?}");
            for turn in 0..2 {
                let (server, stream) = scene.handshake("may.example", &client).await;
                let server = server.unwrap();
                assert_eq!((&server.facts.client, server.facts.is_resumed), (&may, turn > 0));
                take_tickets(server, stream.unwrap()).await;
            }
        }
    })
    .unwrap();
}

#[test]
fn broken_hellos_are_refused_with_the_kind() {
    let mut scene = Scene::new(ServerSettings::default());
    scene.site("1", &["a.example"], None);
    let record = |body: &[u8]| {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&[22, 3, 1, length[0], length[1]], body].concat()
    };
    // A ClientHello that says to be 60,000 bytes long.
    let endless: Vec<u8> = {
        let mut hello = vec![1, 0, 0xea, 0x60];
        hello.resize(10_000, 0);
        (0..6).flat_map(|_| record(&hello)).collect()
    };
    for (bytes, expected) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "text"),
        (vec![0x80, 0x2e, 1, 0, 2], "no text"),
        (vec![], "gone"),
        (vec![22, 3, 1], "gone"),
        (record(&[0xff; 100]), "refused"),
        (vec![22, 9, 9, 0xff, 0xff, 1, 2, 3], "refused"),
        (endless, "refused: the ClientHello is longer than 16384 bytes"),
    ] {
        let found = env::block_on(async {
            let listener = env::bind("127.0.0.1:0".parse::<SocketAddr>().unwrap(), false).unwrap();
            let address = listener.local_addr().unwrap();
            let listener = env::Listener::attach(listener).unwrap();
            let server = async {
                let (stream, _) = listener.accept().await.unwrap();
                accept_tls(stream, &scene.tls, || Arc::new(scene.table.clone()), Alpn::Http1).await
            };
            let client = async {
                let mut stream = env::connect(address).await.unwrap();
                let _ = poll_fn(|cx| stream.poll_write(cx, &bytes)).await;
                let _ = poll_fn(|cx| stream.poll_shutdown(cx)).await;
                stream
            };
            tokio::join!(server, client).0
        });
        let found = match found.unwrap() {
            Ok(_) => "accepted".to_owned(),
            Err(AcceptFault::NotTls { is_text: true, .. }) => "text".to_owned(),
            Err(AcceptFault::NotTls { .. }) => "no text".to_owned(),
            Err(AcceptFault::Gone) => "gone".to_owned(),
            Err(AcceptFault::ChallengeAnswered) => "challenge".to_owned(),
            Err(AcceptFault::Refused(reason)) => format!("refused: {reason}"),
        };
        assert!(found.starts_with(expected), "{found:?} instead of {expected:?}");
    }
}

#[test]
fn faulty_site_refuses_withheld_site_is_skipped() {
    let mut scene = Scene::new(ServerSettings::default());
    let wild = scene.site("wild", &["*.example"], None);
    let faulty = Arc::new(Site::faulty("a-faulty", &["A.example"]));
    scene.table.insert(&faulty);
    let found =
        |scene: &Scene, name: &str| scene.table.find(Some(name), None).map(|site| site.id.to_string());
    assert_eq!(found(&scene, "a.example").as_deref(), Some("a-faulty"));
    assert!(scene.table.restricts_requests());
    // A good site of the same name serves, whatever its id.
    let good = scene.site("z-good", &["a.example"], None);
    assert_eq!(found(&scene, "a.example").as_deref(), Some("z-good"));
    scene.table.remove(&good);
    scene.table.remove(&faulty);
    assert!(!scene.table.restricts_requests());
    let end_s = good.certificates()[0].not_after_s;
    let withheld = Arc::new(good.without_expired(end_s + 1));
    assert_eq!(withheld.state, SiteState::Withheld);
    scene.table.insert(&withheld);
    assert_eq!(found(&scene, "a.example").as_deref(), Some(&*wild.id));
    // Its rules for requests still hold.
    assert_eq!(&*scene.table.ruling("a.example").unwrap().id, "z-good");
    assert_eq!(good.without_expired(end_s).state, SiteState::Serving);
    env::block_on(async {
        scene.table.insert(&faulty);
        let (server, client) = scene.handshake("a.example", &scene.client(None)).await;
        assert!(matches!(server, Err(AcceptFault::Refused(reason)) if reason.contains("a-faulty is faulty")));
        assert!(client.unwrap_err().to_string().contains("InternalError"));
    })
    .unwrap();
}

#[test]
fn ten_thousand_sites_load_no_key_before_use() {
    let mut scene = Scene::new(ServerSettings::default());
    let (chain, key) = scene.authority.pair(&["*.a.example"]);
    for number in 0..10_000 {
        let (id, name) = (number.to_string(), format!("{number}.a.example"));
        let pairs = vec![PairParts { chain: &chain, key: &key, is_checked: true }];
        scene.table.insert(&Arc::new(Site::new(parts(&id, &[&name], pairs), &scene.tls).unwrap()));
    }
    let loaded = |scene: &Scene| scene.table.iter().filter(|site| site.has_loaded_keys()).count();
    assert_eq!((scene.table.iter().count(), loaded(&scene)), (10_000, 0));
    env::block_on(async {
        let (server, client) = scene.handshake("77.a.example", &scene.client(None)).await;
        assert!(server.is_ok() && client.is_ok());
    })
    .unwrap();
    assert_eq!(loaded(&scene), 1);
}

#[test]
fn key_of_another_certificate_is_refused() {
    let scene = Scene::new(ServerSettings::default());
    let ((chain, _), (_, key)) = (scene.authority.pair(&["a.example"]), scene.authority.pair(&["a.example"]));
    let pairs = vec![PairParts { chain: &chain, key: &key, is_checked: false }];
    let refused = Site::new(parts("1", &["a.example"], pairs), &scene.tls);
    assert_eq!(refused.err().as_deref(), Some("the key does not belong to the certificate"));
}
