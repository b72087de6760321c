//! Keys of session tickets that two instances share through etcd.

use serde_json::json;
use testkit::{Authority, Etcd, Origin, TlsClient, Weir, wait_until};

use super::put_ssl;
use crate::support::BINARY;

fn instance(etcd: &Etcd) -> Weir {
    let endpoints = etcd.endpoints();
    let source = ["--source", "etcd", "--etcd-endpoints", &endpoints, "--proxy-tls", "127.0.0.1:0"];
    Weir::builder(BINARY)
        .arguments(&source)
        .environment("WEIR_ENCRYPTION_KEYRING", "edd1c9f0985e76a2")
        .start()
}

#[test]
fn session_of_one_instance_is_resumed_by_another() {
    let (mut etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let (one, other) = (instance(&etcd), instance(&etcd));
    let authority = Authority::new("known");
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    one.put("routes/1", json!({"uri": "/*", "upstream": upstream}));
    put_ssl(&one, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let resumes = |from: &Weir, to: &Weir, is_13: bool| {
        let client = TlsClient::of_version(authority.pem(), "a.example", is_13);
        let get = |weir: &Weir| client.get(weir.address("proxy-tls"), "a.example", "/");
        get(from).is_ok_and(|answer| answer.status() == 200) && get(to).is_ok_and(|answer| answer.is_resumed)
    };
    for is_13 in [true, false] {
        wait_until("the other instance resumes the session", || resumes(&one, &other, is_13));
        wait_until("and the other way round", || resumes(&other, &one, is_13));
    }
    let kept = etcd.get("/weir/apisix/tls/ticket_keys");
    assert!(kept.starts_with("sealed:"), "encrypted as secrets are: {kept}");
    let revision = etcd.revision();
    // A third instance takes the keys up and writes none.
    let third = instance(&etcd);
    wait_until("a third instance resumes the session", || resumes(&one, &third, true));
    assert_eq!((etcd.revision(), etcd.get("/weir/apisix/tls/ticket_keys")), (revision, kept));
    etcd.kill_all();
    assert!(resumes(&one, &other, true), "without etcd the known keys go on");
}
