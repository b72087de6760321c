//! Client certificates: which ones are valid, which requests need one, and that neither a session nor a Host
//! leads around the question.

use serde_json::{Value, json};
use testkit::{Authority, Origin, Pair, TlsClient, Weir};

use super::{gateway, put_ssl, settled};

/// A gateway that shows its certificate for `must.example` and `may.example`; clients need one of `clients`,
/// for the second name except at `/open`.
fn with_sites(origin: &Origin, authority: &Authority, clients: &Authority) -> Weir {
    let weir = gateway(origin, &[]);
    let must = json!({"sni": "must.example", "client": {"ca": clients.pem()}});
    put_ssl(&weir, "must", &authority.pair(&["must.example"]), must);
    let client = json!({"ca": clients.pem(), "skip_mtls_uri_regex": ["^/open"]});
    put_ssl(&weir, "may", &authority.pair(&["may.example"]), json!({"sni": "may.example", "client": client}));
    put_ssl(&weir, "open", &authority.pair(&["open.example"]), json!({"sni": "open.example"}));
    weir
}

fn client(authority: &Authority, name: &str, pair: Option<&Pair>) -> TlsClient {
    match pair {
        Some(pair) => TlsClient::with_certificate(authority.pem(), name, pair),
        None => TlsClient::new(authority.pem(), name),
    }
}

#[test]
fn client_without_valid_certificate_is_refused() {
    let origin = Origin::answering("served");
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    let weir = with_sites(&origin, &authority, &clients);
    let address = weir.address("proxy-tls");
    let (right, expired) = (clients.pair(&["me"]), clients.expired_pair(&["me"]));
    let wrong = Authority::new("strangers").pair(&["me"]);
    for (pair, must, may) in [
        (Some(&right), Ok(200), (200, "served")),
        (None, Err("CertificateRequired"), (400, "client certificate was not present")),
        (Some(&wrong), Err("UnknownCA"), (400, "unable to get local issuer certificate")),
        (Some(&expired), Err("CertificateExpired"), (400, "certificate has expired")),
    ] {
        let found = client(&authority, "must.example", pair).get(address, "must.example", "/");
        match (found, must) {
            (Ok(answer), Ok(status)) => assert_eq!(answer.status(), status),
            (Err(error), Err(alert)) => assert!(error.to_string().contains(alert), "{error}"),
            (found, _) => panic!("{found:?} instead of {must:?}"),
        }
        let optional = client(&authority, "may.example", pair);
        for _ in 0..2 {
            let answer = optional.get(address, "may.example", "/").unwrap();
            assert!(answer.status() == may.0 && answer.text.contains(may.1), "{}", answer.text);
        }
        assert_eq!(optional.get(address, "may.example", "/open/a").unwrap().status(), 200);
        assert_eq!(optional.get(address, "may.example", "/x/../open").unwrap().status(), 200);
    }
}

#[test]
fn host_of_another_site_needs_its_own_connection() {
    let origin = Origin::answering("served");
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    let weir = with_sites(&origin, &authority, &clients);
    let address = weir.address("proxy-tls");
    let right = clients.pair(&["me"]);
    for (server_name, host, status) in [
        ("must.example", "must.example", 200),
        ("must.example", "must.example:443", 200),
        ("must.example", "MUST.example", 200),
        ("must.example", "open.example", 200),
        ("must.example", "unknown.example", 200),
        ("open.example", "must.example", 421),
        ("open.example", "must.example.", 421),
        ("may.example", "must.example", 421),
        ("open.example", "open.example", 200),
    ] {
        let found = client(&authority, server_name, Some(&right)).get(address, host, "/").unwrap();
        assert_eq!(found.status(), status, "{server_name} {host}: {}", found.text);
    }
    // A Host without a site leads around nothing.
    let without = client(&authority, "may.example", None);
    assert_eq!(without.get(address, "unknown.example", "/").unwrap().status(), 400);
}

/// Objects with and without rules for clients below `sec.test`, and a fallback without; routes by host, one
/// for each tier.
fn with_wildcards(origin: &Origin, authority: &Authority, clients: &Authority, arguments: &[&str]) -> Weir {
    let weir = gateway(origin, &[&["--fallback-sni", "pub.test"], arguments].concat());
    let nodes = json!({"nodes": {origin.address().to_string(): 1}});
    for (id, host) in [("wild", "*.sec.test"), ("deep", "*.own.sec.test"), ("open", "pub.test")] {
        weir.put(&format!("routes/{id}"), json!({"uri": "/*", "host": host, "upstream": nodes}));
    }
    let lead = json!({"redirect": {"http_to_https": true}});
    weir.put(
        "routes/lead",
        json!({"uri": "/lead", "host": "*.sec.test", "plugins": lead, "upstream": nodes}),
    );
    weir.put("routes/1", json!({"uri": "/any", "upstream": nodes}));
    let pair =
        authority.pair(&["pub.test", "*.b.sec.test", "*.own.sec.test", "o.sec.test", "c.b.a.sec.test"]);
    put_ssl(
        &weir,
        "a-open",
        &pair,
        json!({"snis": ["pub.test", "*.b.sec.test", "*.own.sec.test", "o.sec.test"]}),
    );
    let client = json!({"ca": clients.pem(), "skip_mtls_uri_regex": ["^/health"]});
    put_ssl(
        &weir,
        "z-rules",
        &authority.pair(&["*.sec.test"]),
        json!({"sni": "*.sec.test", "client": client}),
    );
    weir
}

#[test]
fn no_name_leads_around_a_wildcards_policy() {
    let origin = Origin::answering("served");
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    let weir = with_wildcards(&origin, &authority, &clients, &[]);
    let address = weir.address("proxy-tls");
    let right = clients.pair(&["me"]);
    for (with_certificate, server_name, host, path, status) in [
        (true, "a.sec.test", "a.sec.test", "/", 200),
        (true, "A.SEC.TEST", "a.sec.test:443", "/", 200),
        (false, "a.sec.test", "a.sec.test", "/", 400),
        (false, "a.sec.test", "a.sec.test", "/health", 200),
        // A deeper name, by the certificate of the fallback or of another object.
        (false, "pub.test", "c.b.a.sec.test", "/", 421),
        (true, "pub.test", "c.b.a.sec.test", "/", 421),
        (false, "c.b.a.sec.test", "c.b.a.sec.test", "/", 421),
        (false, "c.b.a.sec.test", "C.B.A.SEC.TEST.:8443", "/", 421),
        (false, "c.b.a.sec.test", "c.b.a.sec.test", "/health", 200),
        (false, "x.b.sec.test", "x.b.sec.test", "/", 421),
        (false, "o.sec.test", "o.sec.test", "/", 421),
        (false, "o.sec.test", "o.sec.test", "/lead", 421),
        // Names of their own open their own routes, and those for every host.
        (false, "x.own.sec.test", "x.own.sec.test", "/", 200),
        (false, "x.b.sec.test", "x.b.sec.test", "/any", 421),
        (false, "pub.test", "pub.test", "/", 200),
        (false, "pub.test", "other.test", "/any", 200),
    ] {
        let certificate = with_certificate.then_some(&right);
        let found = client(&authority, server_name, certificate).get(address, host, path);
        let found = found.unwrap_or_else(|error| panic!("{server_name} {host} {path}: {error}"));
        assert_eq!(found.status(), status, "{server_name} {host} {path}: {}", found.text);
    }
    let line = "GET https://c.b.a.sec.test/ HTTP/1.1\r\nHost: pub.test\r\nConnection: close\r\n\r\n";
    let absolute = client(&authority, "pub.test", None).exchange(address, line).unwrap();
    assert_eq!(absolute.status(), 421, "{}", absolute.text);
}

#[test]
fn listener_without_tls_refuses_hosts_with_rules() {
    let origin = Origin::answering("served");
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    for (arguments, refused) in [(&[][..], 421), (&["--mutual-tls-over-http"][..], 200)] {
        let weir = with_wildcards(&origin, &authority, &clients, arguments);
        for (host, path, status) in [
            ("a.sec.test", "/", refused),
            ("A.b.c.Sec.Test.:80", "/", refused),
            ("x.b.sec.test", "/", refused),
            ("a.sec.test", "/health", 200),
            ("a.sec.test", "/lead", 301),
            ("x.own.sec.test", "/", 200),
            ("pub.test", "/", 200),
        ] {
            let mut plain = testkit::Client::connect(weir.address("proxy"));
            let answer = plain.request("GET", path, &[("Host", host)], b"");
            assert_eq!(answer.status, status, "{arguments:?} {host} {path}");
        }
    }
}

#[test]
fn no_session_leads_around_a_new_policy() {
    let origin = Origin::answering("served");
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    let weir = gateway(&origin, &[]);
    let pair = authority.pair(&["a.example"]);
    put_ssl(&weir, "1", &pair, json!({"sni": "a.example"}));
    let address = weir.address("proxy-tls");
    for is_13 in [false, true] {
        put_ssl(&weir, "1", &pair, json!({"sni": "a.example"}));
        let stranger = TlsClient::of_version(authority.pem(), "a.example", is_13);
        assert_eq!(stranger.get(address, "a.example", "/").unwrap().status(), 200);
        assert!(stranger.get(address, "a.example", "/").unwrap().is_resumed);
        let mut kept = stranger.connect(address);
        let host = [("Host", "a.example")];
        assert_eq!(kept.request("GET", "/", &host, b"").status, 200);
        let client = json!({"ca": clients.pem()});
        put_ssl(&weir, "1", &pair, json!({"sni": "a.example", "client": client}));
        assert!(stranger.get(address, "a.example", "/").is_err(), "1.3: {is_13}");
        let answer = kept.request("GET", "/", &host, b"");
        assert_eq!(answer.status, 421, "the kept connection was made before");
    }
}

#[test]
fn depth_and_revocation_are_obeyed() {
    let origin = Origin::answering("served");
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    let weir = gateway(&origin, &[]);
    let server = authority.pair(&["a.example"]);
    let address = weir.address("proxy-tls");
    let between = clients.intermediate("between");
    let mut long = between.pair(&["me"]);
    long.certificate += between.pem();
    let (good, bad) = (clients.numbered_pair(&["me"], 7), clients.numbered_pair(&["me"], 8));
    let put = |more: Value| {
        let mut client = json!({"ca": clients.pem(), "skip_mtls_uri_regex": ["^/open"]});
        client.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        put_ssl(&weir, "1", &server, json!({"sni": "a.example", "client": client}));
    };
    let ask = |pair: &Pair| {
        let found = client(&authority, "a.example", Some(pair)).get(address, "a.example", "/").unwrap();
        (found.status(), found.text)
    };
    put(json!({"depth": 1}));
    assert_eq!(ask(&long).0, 200);
    put(json!({"depth": 0}));
    let (status, text) = ask(&long);
    assert!(status == 400 && text.contains("the certificate chain is too long"), "{text}");
    put(json!({"crl": clients.revocation_list(&[8])}));
    assert_eq!(ask(&good).0, 200);
    let (status, text) = ask(&bad);
    assert!(status == 400 && text.contains("certificate revoked"), "{text}");
}

#[test]
fn verified_identity_is_passed_on_as_variables() {
    let origin = Origin::echoing();
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    let weir = with_sites(&origin, &authority, &clients);
    let set = json!({
        "X-Verify": "$ssl_client_verify", "X-Subject": "$ssl_client_s_dn", "X-Issuer": "$ssl_client_i_dn",
        "X-Serial": "$ssl_client_serial", "X-Days": "$ssl_client_v_remain",
        "X-Fingerprint": "$ssl_client_fingerprint", "X-Cert": "$ssl_client_escaped_cert",
    });
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    let plugins = json!({"proxy-rewrite": {"headers": {"set": set}}});
    weir.put("routes/1", json!({"uri": "/*", "plugins": plugins, "upstream": upstream}));
    settled(&weir);
    let pair = clients.numbered_pair(&["me"], 0x0abc);
    let answer = client(&authority, "must.example", Some(&pair));
    let answer = answer.get(weir.address("proxy-tls"), "must.example", "/").unwrap();
    for line in [
        "X-Verify: SUCCESS\r\n",
        "X-Subject: CN=me\r\n",
        "X-Issuer: CN=clients",
        "X-Serial: 0ABC\r\n",
        "X-Cert: -----BEGIN%20CERTIFICATE-----%0A",
    ] {
        assert!(answer.text.contains(line), "{line:?} is not in {}", answer.text);
    }
}
