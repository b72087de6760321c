//! Certificates from files: read again when they change, and the last good pair while they are broken.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Authority, Origin, Pair, TlsClient, wait_until};

use super::{gateway, settled};

fn write(folder: &Path, pair: &Pair) {
    std::fs::write(folder.join("site.pem"), &pair.certificate).unwrap();
    std::fs::write(folder.join("site.key"), &pair.key).unwrap();
}

#[test]
fn changed_files_are_shown_and_broken_ones_are_not() {
    let origin = Origin::answering("served");
    let kept = tempfile::tempdir().unwrap();
    let folder = kept.path().to_owned();
    let weir = gateway(&origin, &["--certificate-folders", folder.to_str().unwrap()]);
    let authority = Authority::new("known");
    let (first, second) = (authority.pair(&["a.example"]), authority.pair(&["a.example"]));
    write(&folder, &first);
    let reference = |name: &str| format!("$file://{}", folder.join(name).display());
    let object = json!({"sni": "a.example", "cert": reference("site.pem"), "key": reference("site.key")});
    weir.put("ssls/1", object);
    settled(&weir);
    let address = weir.address("proxy-tls");
    let shown = || TlsClient::new(authority.pem(), "a.example").get(address, "a.example", "/").unwrap();
    assert!(shown().was_shown(&first));
    let state = || weir.admin("GET", "weir/verdicts/ssls/1", Value::Null).1;

    // Half of the pair: the certificate and the key do not belong together.
    std::fs::write(folder.join("site.pem"), &second.certificate).unwrap();
    wait_until("the fault is reported", || {
        state().to_string().contains("does not belong to the certificate")
    });
    assert_eq!(state()["state"], "last_good");
    assert!(shown().was_shown(&first), "the last good pair is served");
    std::fs::write(folder.join("site.key"), &second.key).unwrap();
    wait_until("the new pair is shown", || shown().was_shown(&second));
    assert_eq!(state()["state"], "in_force");

    std::fs::remove_file(folder.join("site.key")).unwrap();
    wait_until("the fault is reported", || state().to_string().contains("No such file"));
    assert!(shown().was_shown(&second));
    // A file that is moved into the place of another, as tools do that renew certificates.
    write(&folder, &first);
    wait_until("the first pair is shown again", || shown().was_shown(&first));
}

#[test]
fn missing_file_refuses_handshakes_of_the_name() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &["--certificate-folders", "/nowhere"]);
    let object = |path: &str| json!({"sni": "a.example", "cert": path, "key": "$file:///nowhere/site.key"});
    let (status, answer) = weir.admin("PUT", "ssls/1", object("$file://site.pem"));
    assert_eq!(status, 400, "{answer}");
    assert!(answer["error_msg"].as_str().unwrap().contains("absolute path"), "{answer}");
    weir.put("ssls/1", object("$file:///nowhere/site.pem"));
    settled(&weir);
    let (_, verdict) = weir.admin("GET", "weir/verdicts/ssls/1", Value::Null);
    assert!(verdict.to_string().contains("/nowhere/site.pem: No such file"), "{verdict}");
    let client = TlsClient::new(Authority::new("known").pem(), "a.example");
    let error = client.get(weir.address("proxy-tls"), "a.example", "/").unwrap_err().to_string();
    assert!(error.contains("InternalError"), "{error}");
}

#[test]
fn file_outside_of_the_folders_is_refused() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &["--certificate-folders", "/nowhere"]);
    let pair = Authority::new("known").pair(&["a.example"]);
    let outside = "$file:///etc/passwd";
    let check = |path: &str, object: Value, place: &str| {
        let reason = "not below a folder that the setting certificate_folders names";
        let (status, answer) = weir.admin("PUT", path, object.clone());
        assert!(status == 400 && answer.to_string().contains(reason), "{path}: {status} {answer}");
        let (collection, id) = path.split_once('/').unwrap();
        let mut item = object;
        item["id"] = id.into();
        for whole in ["configs/validate", "weir/plan"] {
            let (status, answer) = weir.admin("POST", whole, json!({collection: [item]}));
            let text = answer.to_string();
            assert!(status == 400 && text.contains(reason), "{whole}: {status} {answer}");
            assert!(whole == "configs/validate" || text.contains(place), "{whole}: {answer}");
        }
    };
    let site = |cert: &str, key: &str| json!({"sni": "a.example", "cert": cert, "key": key});
    check("ssls/1", site(outside, &pair.key), "/cert");
    check("ssls/1", site(&pair.certificate, outside), "/key");
    check("ssls/1", site("$file:///nowhere/../etc/passwd", &pair.key), "/cert");
    let mut object = site(&pair.certificate, &pair.key);
    object["certs"] = json!([outside]);
    object["keys"] = json!([pair.key]);
    check("ssls/1", object, "/certs/0");
    let mut object = site(&pair.certificate, &pair.key);
    object["client"] = json!({"ca": outside});
    check("ssls/1", object.clone(), "/client/ca");
    object["client"] = json!({"ca": pair.certificate, "crl": outside});
    check("ssls/1", object, "/client/crl");
    for tls in [
        json!({"client_cert": outside, "client_key": pair.key}),
        json!({"client_cert": pair.certificate, "client_key": outside}),
        json!({"ca_certs": outside}),
    ] {
        let upstream = json!({"scheme": "https", "nodes": {"127.0.0.1:1": 1}, "tls": tls});
        check("upstreams/1", upstream.clone(), "/tls");
        check("services/1", json!({"upstream": upstream}), "/upstream/tls");
        check("routes/1", json!({"uri": "/a", "upstream": upstream}), "/upstream/tls");
    }
    weir.put("ssls/1", site("$file:///nowhere/site.pem", "$file:///nowhere/site.key"));
}
