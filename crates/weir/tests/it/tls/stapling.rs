//! OCSP stapling, with openssl as the responder and as the client.

use std::fmt::Write;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use testkit::{Authority, Client, Origin, Reply, TlsClient, Weir, wait_until};

use super::openssl::s_client;
use super::{gateway, put_ssl};

/// The serial numbers of a good and of a revoked certificate.
const GOOD: u64 = 0x1001;
const REVOKED: u64 = 0x1002;

/// A responder for the certificates of `authority`: openssl signs its answers, unless it is switched off.
fn responder(authority: &Authority, is_up: &Arc<AtomicBool>) -> Origin {
    let (folder, is_up) = (tempfile::tempdir().unwrap(), Arc::clone(is_up));
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("ca.pem"), authority.pem()).unwrap();
    std::fs::write(at("ca.key"), authority.key_pem()).unwrap();
    let index = format!(
        "V\t991231235959Z\t\t{GOOD:X}\tunknown\t/CN=a.example\nR\t991231235959Z\t250101000000Z\t{REVOKED:X}\tunknown\t/CN=b.example\n"
    );
    std::fs::write(at("index.txt"), index).unwrap();
    Origin::start(move |request| {
        if !is_up.load(Ordering::Relaxed) {
            return Reply::raw(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
        }
        let number =
            request.body.iter().fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add((*byte).into()));
        let (asked, answer) =
            (folder.path().join(format!("{number}.req")), folder.path().join(format!("{number}.resp")));
        std::fs::write(&asked, &request.body).unwrap();
        let made = Command::new("openssl")
            .current_dir(folder.path())
            .args(["ocsp", "-index", "index.txt", "-CA", "ca.pem", "-rsigner", "ca.pem", "-rkey", "ca.key"])
            .args(["-ndays", "1", "-reqin"])
            .arg(&asked)
            .arg("-respout")
            .arg(&answer)
            .output()
            .expect("openssl, which lab/install.sh installs");
        assert!(made.status.success(), "{made:?}");
        let body = std::fs::read(answer).unwrap();
        let mut head = "HTTP/1.1 200 OK\r\nContent-Type: application/ocsp-response\r\n".to_owned();
        write!(head, "Content-Length: {}\r\n\r\n", body.len()).unwrap();
        Reply::raw(&[head.as_bytes(), &body].concat())
    })
}

fn status_of(weir: &Weir, name: &str) -> String {
    s_client(weir.address("proxy-tls"), &["-status", "-servername", name])
}

/// Puts an object for `name` that asks for stapling, with a certificate that names the responder at `url`.
fn put_stapled(weir: &Weir, authority: &Authority, name: &str, serial: u64, url: &str) {
    let mut pair = authority.stapled_pair(&[name], serial, url);
    pair.certificate.push_str(authority.pem());
    put_ssl(weir, name, &pair, json!({"sni": name, "ocsp_stapling": {"enabled": true}}));
}

#[test]
fn only_good_response_is_stapled() {
    let is_up = Arc::new(AtomicBool::new(false));
    let authority = Authority::new("known");
    let (origin, responder) = (Origin::answering("served"), responder(&authority, &is_up));
    let weir = gateway(&origin, &[]);
    let url = format!("http://{}/ocsp", responder.address());
    put_stapled(&weir, &authority, "a.example", GOOD, &url);
    put_stapled(&weir, &authority, "b.example", REVOKED, &url);
    let logged = |part: &str| weir.stderr().iter().any(|line| line.contains(part));
    wait_until("the responder's failure is logged", || logged("it answered with the status 503"));
    let client = TlsClient::new(authority.pem(), "a.example");
    assert_eq!(client.get(weir.address("proxy-tls"), "a.example", "/").unwrap().status(), 200);
    assert!(status_of(&weir, "a.example").contains("OCSP response: no response sent"));

    is_up.store(true, Ordering::Relaxed);
    wait_until("the response is stapled", || status_of(&weir, "a.example").contains("Cert Status: good"));
    let metrics = || Client::connect(weir.address("metrics")).get("/metrics").text();
    wait_until("it is counted", || metrics().contains("weir_ocsp_responses{state=\"valid\"} 1\n"));
    let list = Client::connect(weir.address("control")).get("/v1/weir/certificates").json();
    let stapled = |id: &str| {
        let mut list = list["list"].as_array().unwrap().iter();
        list.find(|one| one["id"] == id).map(|one| one["ocsp_stapled"].clone())
    };
    assert_eq!(
        (stapled("a.example"), stapled("b.example")),
        (Some(json!(true)), Some(json!(false))),
        "{list}"
    );
    wait_until("the revoked one is reported", || {
        // The reason of a later failure is not logged again, but that of a first one is.
        logged("the certificate is revoked")
            || metrics().contains("weir_ocsp_responses{state=\"missing\"} 1\n")
    });
    assert!(status_of(&weir, "b.example").contains("OCSP response: no response sent"));
    assert!(responder.requests().iter().all(|request| request.path() == "/ocsp"));
}
