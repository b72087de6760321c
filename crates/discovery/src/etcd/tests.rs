//! Tests of the registry etcd: its keys, and a real server.

use outbound::etcd::EtcdError;
use serde_json::json;
use testkit::Etcd;

use super::*;
use crate::followed::Followed;

#[test]
fn keys_name_service_and_instance() {
    let mut catalog = EtcdCatalog::default();
    let mut put = |key: &str, value: Option<&str>| {
        catalog.change(b"/s/", key.as_bytes(), value.map(|value| value.as_bytes().to_vec()))
    };
    assert_eq!(put("/s/a/1", Some("h:1")).as_deref(), Some("a"));
    assert_eq!(put("/s/a b/c/1", Some("h:1")).as_deref(), Some("a b/c"));
    for other in ["/s/a", "/s//1", "/t/a/1", "/s/"] {
        assert_eq!(put(other, Some("h:1")), None, "{other}");
    }
    assert_eq!(put("/s/a/1", None).as_deref(), Some("a"));
    assert_eq!(put("/s/a/1", None), None);
    assert_eq!(catalog.services.len(), 1);
}

#[test]
fn long_values_are_cut() {
    let mut catalog = EtcdCatalog::default();
    catalog.change(b"/s/", b"/s/a/1", Some(vec![b'x'; MAX_VALUE_BYTES + 1]));
    assert_eq!(catalog.services["a"].values().next().unwrap().len(), MAX_VALUE_BYTES);
}

#[test]
fn block_obeys_its_rules() {
    let context = BuildContext::default();
    assert!(build(&json!({"host": ["http://127.0.0.1:1"]}), &context).is_ok());
    let half = json!({"etcd": {"host": ["http://127.0.0.1:1"], "tls": {"cert": "/c"}}});
    let faults = crate::check_discovery_blocks(half.as_object().unwrap());
    assert!(faults[0].pointer.starts_with("/etcd/tls"), "{faults:?}");
    let whole =
        json!({"tls": {"ca": "/a", "cert": "/c", "key": "/k", "sni": "n", "verify": false}, "host": []});
    let tls = EtcdRegistryBlock::deserialize(whole).unwrap().tls;
    assert_eq!((tls.sni.as_deref(), tls.common.verify), (Some("n"), false));
    assert_eq!(tls.common.ca.as_deref(), Some(std::path::Path::new("/a")));
    let usual = EtcdRegistryBlock::deserialize(json!({"host": [], "tls": {}})).unwrap();
    assert!(usual.tls.common.verify);
}

#[test]
fn keys_of_changes_are_bounded() {
    let mut catalog = EtcdCatalog::default();
    for number in 0..=MAX_KEYS {
        assert!(catalog.check().is_ok());
        catalog.change(b"/s/", format!("/s/{number}/1").as_bytes(), Some(b"h:1".to_vec()));
    }
    assert!(catalog.check().is_err());
    catalog.change(b"/s/", b"/s/0/1", Some(b"h:2".to_vec()));
    catalog.change(b"/s/", b"/s/0/1", None);
    catalog.change(b"/s/", b"/s/0/1", None);
    assert_eq!(catalog.count, MAX_KEYS);
    assert!(catalog.check().is_ok());
}

#[tokio::test]
async fn compacted_watch_ends_with_its_reason() {
    let etcd = Etcd::start(1);
    (0..3).for_each(|number| etcd.put("/services/orders/1", &format!("h:8{number}")));
    let block: EtcdRegistryBlock = serde_json::from_value(json!({"host": [etcd.endpoints()]})).unwrap();
    let reader = PlainReader::new(config(block, &BuildContext::default())).unwrap();
    let mut keys = Vec::new();
    let revision = reader.load(|key, value| keys.push((key, value))).await.unwrap();
    assert_eq!(keys, [(b"/services/orders/1".to_vec(), b"h:82".to_vec())]);
    etcd.ctl(&["compaction", &revision.to_string()]);
    // etcd confirms such a watch first.
    let mut compacted = reader.watch(0).await.unwrap();
    assert_eq!(reader.next(&mut compacted).await.err(), Some(EtcdError::Compacted));
    let mut watch = reader.watch(revision).await.unwrap();
    etcd.put("/services/orders/2", "h:90");
    let changes = reader.next(&mut watch).await.unwrap();
    assert_eq!(changes, [(b"/services/orders/2".to_vec(), Some(b"h:90".to_vec()))]);
}

#[tokio::test]
async fn forbidden_watch_is_refused_when_opened() {
    let etcd = Etcd::start(1);
    for arguments in [
        &["user", "add", "root:r"][..],
        &["user", "grant-role", "root", "root"],
        &["user", "add", "weak:w"],
        &["auth", "enable"],
    ] {
        etcd.ctl(arguments);
    }
    let block = json!({"host": [etcd.endpoints()], "user": "weak", "password": "w"});
    let reader =
        PlainReader::new(config(serde_json::from_value(block).unwrap(), &BuildContext::default())).unwrap();
    let refused = reader.watch(1).await.err().unwrap().to_string();
    assert!(refused.contains("permission denied"), "{refused}");
}

#[test]
fn unreadable_certificate_stays_the_shown_reason() {
    let block = json!({"host": ["https://127.0.0.1:1"], "tls": {"ca": "/nowhere/ca.pem"}});
    let orders = Followed::start("etcd", &block, "orders");
    orders.wait_for_failure("/nowhere/ca.pem");
    assert!(!orders.discovery.states().to_string().contains("it ended"));
}

#[test]
fn changes_of_a_real_etcd_are_followed() {
    let mut etcd = Etcd::start(1);
    etcd.put("/services/orders/1", "10.0.0.1:80");
    let block = json!({"host": [etcd.endpoints()]});
    let orders = Followed::start("etcd", &block, "orders");
    orders.wait_for(&["10.0.0.1:80 100"]);
    etcd.put("/services/orders/2", r#"{"host":"10.0.0.2","port":81,"weight":7}"#);
    orders.wait_for(&["10.0.0.1:80 100", "10.0.0.2:81 7"]);
    etcd.ctl(&["del", "/services/orders/1"]);
    orders.wait_for(&["10.0.0.2:81 7"]);
    etcd.kill_all();
    orders.wait_for_failure("cannot be reached");
    assert_eq!(orders.shown(), ["10.0.0.2:81 7"]);
    etcd.restart();
    etcd.put("/services/orders/3", "faulty");
    orders.wait_for_note("an instance is left out");
    etcd.ctl(&["del", "/services/orders/", "--prefix"]);
    orders.wait_for_note("does not know the service orders");
    assert!(orders.shown().is_empty());
}

#[test]
fn forbidden_address_is_not_connected_to() {
    let block = json!({"host": ["http://169.254.169.254:2379"], "timeout": 1});
    let orders = Followed::start("etcd", &block, "orders");
    orders.wait_for_note("the setting outbound_allow lists");
}
