//! Several instances on one etcd: one of them orders, every one answers challenges and serves the
//! certificate, and another one takes over when the first is gone.

use serde_json::{Value, json};
use testkit::{Etcd, Pebble, Weir, wait_for, wait_until};

use super::{object_of, ordering, pebble_for, state_of, wait_for_state};

/// An instance of a cluster that orders from `pebble`, with its proxy on this port.
fn instance(etcd: &Etcd, pebble: &Pebble, port: u16) -> Weir {
    let source = ["--source", "etcd", "--etcd-endpoints", &etcd.endpoints()];
    ordering(pebble, port, "shop.example").arguments(&source).start()
}

fn leads(weir: &Weir) -> bool {
    weir.admin("GET", "weir/status", Value::Null).1["acme"]["leader"] == json!(true)
}

#[test]
fn one_instance_orders_and_the_other_answers() {
    let etcd = Etcd::start(1);
    let (leader_port, other_port) = (Pebble::free_port(), Pebble::free_port());
    // The authority asks the instance that does not order.
    let pebble = pebble_for(other_port);
    let leader = instance(&etcd, &pebble, leader_port);
    wait_until("the first instance leads", || leads(&leader));
    let other = instance(&etcd, &pebble, other_port);
    // The first attempt may have been before the other instance listened.
    let state = wait_for("a certificate is there", || {
        let state = state_of(&leader, "acme-shop.example");
        (state["state"] == "valid" || state["state"] == "failing").then_some(state)
    });
    if state["state"] == "failing" {
        etcd.ctl(&["del", "/weir/apisix/acme/certificates/acme-shop.example"]);
    }
    let state = wait_for_state(&leader, "acme-shop.example", "valid");
    assert_eq!(wait_for_state(&other, "acme-shop.example", "valid")["serial"], state["serial"]);
    assert_eq!(
        object_of(&other, "acme-shop.example")["cert"],
        object_of(&leader, "acme-shop.example")["cert"]
    );
    assert_eq!(state["issued"], 1);
    assert!(leads(&leader) && !leads(&other));
    assert!(etcd.keys("/apisix/").iter().all(|key| !key.contains("acme/")), "only beside the objects");
    assert!(etcd.keys("/weir/apisix/acme/challenges/").is_empty(), "answers are taken back");

    leader.terminate();
    wait_until("the other instance leads", || leads(&other));
    assert_eq!(state_of(&other, "acme-shop.example")["issued"], 1, "and has nothing to order");
}
