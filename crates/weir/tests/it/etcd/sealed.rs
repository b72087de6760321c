//! Encrypted fields in etcd in APISIX's format: read and written alike by every instance, and unreadable
//! without the key.

use serde_json::{Value, json};
use testkit::{Etcd, Origin, Weir, wait_until};

use super::{etcd_status, node_at, route, serves};

/// `openssl enc -aes-128-cbc` of `auth-one`, key and vector the bytes of that key, base64.
const KEY: &str = "edd1c9f0985e76a2";
const SEALED: &str = "RjeV6km+KxQJN2rfu8Y7aA==";

fn sealing(etcd: &Etcd, keyring: &str) -> Weir {
    node_at(&etcd.endpoints()).environment("WEIR_ENCRYPTION_KEYRING", keyring).start()
}

fn consumer(name: &str, key: &str) -> Value {
    json!({"username": name, "plugins": {"key-auth": {"key": key}}})
}

fn status_with(node: &Weir, key: &str) -> u16 {
    node.client().request("GET", "/a", &[("apikey", key)], b"").status
}

#[test]
fn encryption_is_compatible_with_apisix() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    etcd.put("/apisix/consumers/jack", &consumer("jack", SEALED).to_string());
    let (one, other) = (sealing(&etcd, KEY), sealing(&etcd, KEY));
    let mut protected = route("a", &origin);
    protected["plugins"] = json!({"key-auth": {}});
    one.put("routes/a", protected);
    serves(&other, "/a", 401);
    assert_eq!(status_with(&one, "auth-one"), 200);
    assert_eq!(status_with(&one, SEALED), 401);
    let (_, shown) = other.admin("GET", "consumers/jack", Value::Null);
    assert_eq!(shown["value"]["plugins"]["key-auth"]["key"], "auth-one");

    other.delete("consumers/jack");
    let answer = other.put("consumers", consumer("jill", "auth-one"));
    assert_eq!(answer["value"]["plugins"]["key-auth"]["key"], SEALED, "a write answers what is stored");
    let stored: Value = serde_json::from_str(&etcd.get("/apisix/consumers/jill")).unwrap();
    assert_eq!(stored["plugins"]["key-auth"]["key"], SEALED, "byte for byte as APISIX writes it");
    wait_until("the other node has it", || status_with(&one, "auth-one") == 200);
    // The value is encrypted on both disks, because the copy holds the bytes of etcd.
    for node in [&one, &other] {
        for file in std::fs::read_dir(node.data()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap_or_default();
            assert!(!bytes.windows(8).any(|window| window == b"auth-one"));
        }
    }
    assert_eq!(etcd_status(&one)["state"], "following");
}

#[test]
fn undecryptable_object_keeps_last_good_form() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let node = sealing(&etcd, "qeddd145sfvddff3");
    let mut protected = route("a", &origin);
    protected["plugins"] = json!({"key-auth": {}});
    node.put("routes/a", protected);
    node.put("consumers", consumer("jack", "auth-zero"));
    for name in ["jack", "jill"] {
        etcd.put(&format!("/apisix/consumers/{name}"), &consumer(name, SEALED).to_string());
    }
    let faults = || node.admin("GET", "weir/status", Value::Null).1["faults"].clone();
    wait_until("both are told", || faults().as_array().is_some_and(|faults| faults.len() == 2));
    let text = faults().to_string();
    assert!(text.contains("/plugins/key-auth/key cannot be decrypted") && !text.contains(SEALED), "{text}");
    assert_eq!(status_with(&node, "auth-zero"), 200, "jack has what he had");
    for key in ["auth-one", SEALED] {
        assert_eq!(status_with(&node, key), 401, "{key}");
    }
    node.put("consumers", consumer("jill", "auth-two"));
    assert_eq!(status_with(&node, "auth-two"), 200);
}
