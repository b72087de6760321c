//! The authorities that nodes are verified against: those of an upstream, and those of the process, read
//! again at HUP; and the counts of handshakes.

use serde_json::{Value, json};
use testkit::{Authority, Client, Weir, wait_until};

use super::{ask, front, gateway, https, node, set};
use crate::support::BINARY;

#[test]
fn upstream_trusts_its_own_authorities() {
    let (process, own) = (Authority::new("process"), Authority::new("own"));
    let (of_process, of_own) = (front(&process.pair(&["a.example"])), front(&own.pair(&["a.example"])));
    let folder = tempfile::tempdir().unwrap();
    let weir = gateway(&process, &["--certificate-folders", folder.path().to_str().unwrap()]);
    let check = |id: &str, front: &testkit::TlsFront, tls: Value, expected: u16| {
        set(&weir, id, https(&node(front), json!({"tls": tls})));
        assert_eq!(ask(&weir, id, "a.example").status, expected, "{id}");
    };
    check("process", &of_own.1, json!({"verify": true}), 502);
    check("own", &of_own.1, json!({"verify": true, "ca_certs": own.pem()}), 200);
    check("implied", &of_process.1, json!({"ca_certs": own.pem()}), 502);
    let file = folder.path().join("own.pem");
    std::fs::write(&file, own.pem()).unwrap();
    check("file", &of_own.1, json!({"ca_certs": format!("$file://{}", file.display())}), 200);
    let upstream = https(&node(&of_own.1), json!({"tls": {"ca_certs": "x".repeat(200)}}));
    let (status, answer) = weir.admin("PUT", "routes/bad", json!({"uri": "/bad", "upstream": upstream}));
    assert_eq!(status, 400, "{answer}");
}

#[test]
fn trusted_certificates_are_read_again_at_hup() {
    let (before, after) = (Authority::new("before"), Authority::new("after"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authority.pem");
    std::fs::write(&file, before.pem()).unwrap();
    let weir = Weir::builder(BINARY)
        .arguments(&["--trusted-certificates", file.to_str().unwrap(), "--workers", "1"])
        .start();
    let verified = |front: &testkit::TlsFront| https(&node(front), json!({"tls": {"verify": true}}));
    let (old, new, late) = (
        front(&before.pair(&["a.example"])),
        front(&after.pair(&["a.example"])),
        front(&before.pair(&["a.example"])),
    );
    set(&weir, "old", verified(&old.1));
    set(&weir, "new", verified(&new.1));
    set(&weir, "late", verified(&late.1));
    assert_eq!((ask(&weir, "old", "a.example").status, ask(&weir, "new", "a.example").status), (200, 502));
    std::fs::write(&file, after.pem()).unwrap();
    weir.reload();
    wait_until("the new authority is trusted", || ask(&weir, "new", "a.example").status == 200);
    assert_eq!(ask(&weir, "late", "a.example").status, 502, "the former one is not");
    // A broken file changes nothing.
    std::fs::write(&file, "no certificate").unwrap();
    weir.reload();
    wait_until("the fault is logged", || {
        weir.stderr().iter().any(|line| line.contains("the trusted certificates in force stay"))
    });
    assert_eq!(ask(&weir, "late", "a.example").status, 502);
}

#[test]
fn handshakes_with_nodes_are_counted_and_named() {
    let authority = Authority::new("trusted");
    let weir = gateway(&authority, &[]);
    let (good, bad) =
        (front(&authority.pair(&["a.example"])), front(&Authority::new("other").pair(&["a.example"])));
    let plugins = json!({"response-rewrite": {"headers": {"set": {"X-Scheme": "$upstream_scheme"}}}});
    let upstream = https(&node(&good.1), json!({"tls": {"verify": true}}));
    weir.put("routes/good", json!({"uri": "/good", "plugins": plugins, "upstream": upstream}));
    set(&weir, "bad", https(&node(&bad.1), json!({"tls": {"verify": true}})));
    let response = ask(&weir, "good", "a.example");
    assert_eq!((response.status, response.header("x-scheme")), (200, Some("https")));
    assert_eq!(ask(&weir, "bad", "a.example").status, 502);
    let metrics = Client::connect(weir.address("metrics")).get("/metrics").text();
    let count = |labels: &str| {
        let name = format!("weir_upstream_tls_handshakes_total{{{labels}}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&name)).and_then(|count| count.parse::<u64>().ok())
    };
    assert_eq!(count("result=\"full\",reason=\"\""), Some(1), "{metrics}");
    assert!(count("result=\"failed\",reason=\"certificate\"") >= Some(1), "{metrics}");
    assert_eq!(count("result=\"failed\",reason=\"closed\""), Some(0));
}
