//! Tests of the registry etcd: its keys, and a real server.

use serde_json::json;
use testkit::Etcd;

use super::*;
use crate::discovery::followed::Followed;

#[test]
fn keys_name_service_and_instance() {
    let mut catalog = Catalog::default();
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
    let mut catalog = Catalog::default();
    catalog.change(b"/s/", b"/s/a/1", Some(vec![b'x'; MAX_VALUE_BYTES + 1]));
    assert_eq!(catalog.services["a"].values().next().unwrap().len(), MAX_VALUE_BYTES);
}

#[test]
fn block_obeys_its_rules() {
    let context = BuildContext::default();
    assert!(build(&json!({"host": ["http://127.0.0.1:1"]}), &context).is_ok());
    let half = json!({"host": ["http://127.0.0.1:1"], "tls": {"cert": "/c"}});
    assert_eq!(build(&half, &context).err().as_deref(), Some("tls.cert and tls.key belong together"));
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
