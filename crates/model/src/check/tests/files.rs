//! Table: names of files outside of the folders that objects may name.

use super::*;

/// Checks `object` where only files below `/in/` may be named; `expected` are the places of other names.
fn named(kind: ObjectKind, object: &Value, expected: &[&str]) {
    let catalog = catalog().with_file_rule(|path| {
        if path.starts_with("/in/") { Ok(()) } else { Err(format!("{path}: it is not in the folder")) }
    });
    let key = ObjectKey::new(kind, "1").unwrap();
    let faults = |refusal: crate::ObjectRefusal| -> Vec<String> {
        assert!(refusal.contract_message().contains("it is not in the folder"), "{refusal:?}");
        refusal.faults().iter().map(|fault| fault.pointer.clone()).collect()
    };
    let found = check::check_object(&catalog, &key, object).err().map(faults).unwrap_or_default();
    assert_eq!(found, expected, "{object}");
    let found = check::value(&catalog, kind, object).err().map(faults).unwrap_or_default();
    assert_eq!(found, expected, "{object}");
    assert!(check::check_object(&super::catalog(), &key, object).is_ok(), "without a rule: {object}");
}

#[test]
fn files_of_certificates_follow_the_rule() {
    let (inside, outside) = ("$file:///in/a.pem", "$file:///etc/passwd");
    let ssl = |more: Value| merged(json!({"sni": "a.example", "cert": inside, "key": inside}), more);
    named(ObjectKind::Ssl, &ssl(json!({})), &[]);
    named(ObjectKind::Ssl, &ssl(json!({"cert": outside})), &["/cert"]);
    named(ObjectKind::Ssl, &ssl(json!({"cert": outside, "key": outside})), &["/cert", "/key"]);
    named(ObjectKind::Ssl, &ssl(json!({"certs": [outside], "keys": [outside]})), &["/certs/0", "/keys/0"]);
    named(
        ObjectKind::Ssl,
        &ssl(json!({"client": {"ca": outside, "crl": outside}})),
        &["/client/ca", "/client/crl"],
    );
    for name in ["ca_certs", "client_cert", "client_key"] {
        let mut tls = json!({"client_cert": inside, "client_key": inside, "ca_certs": inside});
        tls[name] = outside.into();
        let upstream = json!({"nodes": {"a:1": 1}, "scheme": "https", "tls": tls});
        named(ObjectKind::Upstream, &upstream, &[&format!("/tls/{name}")]);
        let within = [&*format!("/upstream/tls/{name}")];
        named(ObjectKind::Service, &json!({"upstream": upstream}), &within);
        named(ObjectKind::Route, &json!({"uri": "/a", "upstream": upstream}), &within);
        let mut upstream = upstream;
        upstream["scheme"] = "tls".into();
        named(ObjectKind::StreamRoute, &json!({"server_port": 1, "upstream": upstream}), &within);
    }
}
