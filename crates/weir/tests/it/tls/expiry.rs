//! Certificates that have expired: served with a warning, or refused, and the list of all with their ends.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Authority, Client, Origin, TlsClient, Weir, wait_until};

use super::{gateway, put_ssl};

/// The certificate of that object, as the control API lists it.
fn listed(weir: &Weir, id: &str) -> Value {
    let list = Client::connect(weir.address("control")).get("/v1/weir/certificates").json();
    list["list"].as_array().unwrap().iter().find(|one| one["id"] == id).cloned().unwrap_or_default()
}

/// Why a client that asks for `name` is not served.
fn refusal(weir: &Weir, authority: &Authority, name: &str) -> String {
    let client = TlsClient::new(authority.pem(), name);
    client
        .get(weir.address("proxy-tls"), name, "/")
        .map_or_else(|error| error.to_string(), |answer| answer.text)
}

#[test]
fn expired_certificate_is_served_with_one_warning() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &[]);
    let authority = Authority::new("known");
    let pair = authority.expired_pair(&["a.example"]);
    put_ssl(&weir, "old", &pair, json!({"sni": "a.example"}));
    put_ssl(&weir, "old", &pair, json!({"sni": "a.example", "desc": "written again"}));
    put_ssl(&weir, "new", &authority.pair(&["b.example"]), json!({"sni": "b.example"}));
    assert!(refusal(&weir, &authority, "a.example").contains("expired"), "the client refuses it");
    let warnings = || {
        let lines = weir.stderr();
        lines.iter().filter(|line| line.contains("an expired certificate is served")).count()
    };
    wait_until("the warning is logged", || warnings() == 1);
    let old = listed(&weir, "old");
    assert_eq!(
        (&old["state"], &old["not_after"]),
        (&json!("expired"), &json!("2001-01-01T00:00:00Z")),
        "{old}"
    );
    assert_eq!((&old["names"], &old["subject"]), (&json!(["a.example"]), &json!("CN=a.example")), "{old}");
    assert_eq!(listed(&weir, "new")["state"], "valid");
    let of_client = authority.expired_pair(&["client"]);
    weir.put("ssls/nodes", json!({"type": "client", "cert": of_client.certificate, "key": of_client.key}));
    wait_until("the one for nodes is reported", || {
        weir.stderr().iter().any(|line| line.contains("an expired certificate is shown to nodes"))
    });
    assert_eq!(
        (&listed(&weir, "nodes")["type"], &listed(&weir, "nodes")["state"]),
        (&json!("client"), &json!("expired"))
    );
    let status = Client::connect(weir.address("status")).get("/status/certificates").json();
    assert_eq!(
        (&status["total"], &status["list"][2]["id"]),
        (&json!(3), &json!("new")),
        "the last to end is last"
    );
    assert_eq!(warnings(), 1, "one line for one certificate");
}

#[test]
fn refused_certificate_leaves_its_name_to_others() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &["--ssl-expired-certificates", "refuse"]);
    let authority = Authority::new("known");
    let old = authority.expired_pair(&["a.shop.example"]);
    let body = json!({"cert": old.certificate, "key": old.key, "sni": "a.shop.example"});
    let (status, answer) = weir.admin("PUT", "ssls/old", body);
    assert_eq!(status, 400, "{answer}");
    assert!(answer["error_msg"].as_str().unwrap().contains("the certificate has expired"), "{answer}");

    let set =
        json!({"ssls": [{"id": "old", "cert": old.certificate, "key": old.key, "sni": "a.shop.example"}]});
    let answer = weir.admin_raw(
        "POST",
        "weir/apply?keep_others=true",
        &[("X-API-KEY", testkit::ADMIN_KEY)],
        set.to_string().as_bytes(),
    );
    assert!(
        answer.status == 400 && answer.text().contains("the certificate has expired"),
        "{}",
        answer.text()
    );

    let wild = authority.pair(&["*.shop.example"]);
    put_ssl(&weir, "wild", &wild, json!({"sni": "*.shop.example"}));
    // Long enough for the write and the first handshake on a machine under load.
    let ending = authority.ending_pair(&["a.shop.example"], Duration::from_secs(8));
    put_ssl(&weir, "ending", &ending, json!({"sni": "a.shop.example"}));
    let shown = || {
        TlsClient::new(authority.pem(), "a.shop.example").get(
            weir.address("proxy-tls"),
            "a.shop.example",
            "/",
        )
    };
    assert!(shown().unwrap().was_shown(&ending));
    wait_until("the wildcard serves the name", || shown().is_ok_and(|answer| answer.was_shown(&wild)));
    assert_eq!(listed(&weir, "ending")["state"], "refused");
    // Handshakes read the clock themselves; the verdict comes with the next look of the control thread.
    wait_until("the verdict says so", || {
        let (_, verdict) = weir.admin("GET", "weir/verdicts/ssls/ending", Value::Null);
        verdict.to_string().contains("every certificate has expired")
    });
    put_ssl(&weir, "ending", &authority.pair(&["a.shop.example"]), json!({"sni": "a.shop.example"}));
    assert!(!shown().unwrap().was_shown(&wild), "a new certificate serves it again");
    assert_eq!(listed(&weir, "ending")["state"], "valid");
}
