//! Writes under conditions and the history of an object with etcd, where another instance may write at the
//! same time.

use std::thread;

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Etcd, Origin, Response, Weir, wait_until};

use super::{node, route};

fn put(node: &Weir, tag: &str, author: &str, body: &Value) -> Response {
    let fields = [("X-API-KEY", ADMIN_KEY), ("If-Match", tag), ("X-Weir-Author", author)];
    node.admin_raw("PUT", "routes/a", &fields, body.to_string().as_bytes())
}

fn tag(node: &Weir) -> String {
    let read = node.admin_raw("GET", "routes/a", &[("X-API-KEY", ADMIN_KEY)], b"");
    read.header("etag").unwrap().to_owned()
}

#[test]
fn one_of_two_instances_gets_the_conflict() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let (one, other) = (node(&etcd), node(&etcd));
    one.put("routes/a", route("a", &origin));
    // The tag of the newest write is known here before the other instance may have heard of that write.
    for round in 0..ROUNDS {
        let read = tag(&one);
        let mut body = route("a", &origin);
        body["desc"] = json!(round.to_string());
        let [ana, ben] = thread::scope(|scope| {
            let writers = [(&one, "ana"), (&other, "ben")]
                .map(|(node, author)| scope.spawn(|| put(node, &read, author, &body)));
            writers.map(|writer| writer.join().unwrap())
        });
        let mut statuses = [ana.status, ben.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412], "{} {}", ana.text(), ben.text());
        let (won, lost) = if ana.status == 200 { (ana, ben) } else { (ben, ana) };
        assert_eq!(lost.header("etag"), won.header("etag"), "{}", lost.text());
        assert_eq!(lost.json()["modifiedIndex"].to_string(), won.header("etag").unwrap().replace('"', ""));
        wait_until("the first instance has the write", || Some(tag(&one).as_str()) == won.header("etag"));
    }
}

#[test]
fn object_has_a_history_in_etcd() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let node = node(&etcd);
    let first = put(&node, "*", "ana", &route("a", &origin));
    assert_eq!(first.status, 412, "it does not exist");
    node.put("routes/a", route("a", &origin));
    node.put("routes/b", route("b", &origin));
    let mut changed = route("a", &origin);
    changed["desc"] = json!("d");
    assert_eq!(put(&node, &tag(&node), "ben", &changed).status, 200);
    let get = |target: &str| node.admin("GET", &format!("weir/versions{target}"), Value::Null).1;
    let of_object = get("?key=routes/a");
    let versions: Vec<u64> = of_object["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["version"].as_u64().unwrap())
        .collect();
    let [newest, oldest] = versions[..] else { panic!("{of_object}") };
    assert_eq!(get("?by=ben")["versions"].as_array().unwrap().len(), 1);
    assert_eq!(get(&format!("/{newest}/objects/routes/a"))["value"]["desc"], "d");
    assert_eq!(get(&format!("/{oldest}/objects/routes/a"))["value"]["desc"], Value::Null);
    assert_eq!(get(&format!("/{oldest}/objects/routes/b"))["value"], Value::Null);
    let (status, plan) = node.admin("POST", &format!("weir/plan?from={oldest}&to={newest}"), Value::Null);
    assert_eq!((status, &plan["create"], &plan["change"]), (200, &json!(1), &json!(1)), "{plan}");
}

/// Pairs of writers at the same time.
const ROUNDS: usize = 10;
