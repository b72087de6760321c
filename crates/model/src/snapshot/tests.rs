//! Applying changes: dependencies, policies, kept forms, and that the order of arrival does not matter.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::catalog::{PluginCatalog, PluginInfo};

fn catalog() -> PluginCatalog {
    let mut auth = PluginInfo::new("auth", 1, json!({"type": "object"}));
    auth.is_auth = true;
    auth.consumer_key = &["key"];
    let mut sink = PluginInfo::new("sink", 3, json!({"type": "object"}));
    sink.check_with_metadata = |config, metadata| {
        let is_there =
            [Some(config), metadata].into_iter().flatten().any(|place| place.get("path").is_some());
        if is_there { Ok(()) } else { Err("a path is needed".to_owned()) }
    };
    PluginCatalog::new(vec![auth, PluginInfo::new("split", 2, json!({"type": "object"})), sink]).unwrap()
}

fn key(path: &str) -> ObjectKey {
    let (collection, id) = path.split_once('/').unwrap();
    ObjectKey::new(ObjectKind::from_collection(collection).unwrap(), id).unwrap()
}

fn put(path: &str, object: Value) -> SnapshotChange {
    let key = key(path);
    let text = object.to_string().into();
    SnapshotChange {
        key: key.clone(),
        written: Some(WrittenObject { key, text, created_index: 1, modified_index: 1 }),
    }
}

fn delete(path: &str) -> SnapshotChange {
    SnapshotChange { key: key(path), written: None }
}

fn upstream(id: &str) -> SnapshotChange {
    put(&format!("upstreams/{id}"), json!({"nodes": {"127.0.0.1:80": 1}}))
}

fn route(id: &str, upstream: &str) -> SnapshotChange {
    put(&format!("routes/{id}"), json!({"uri": format!("/{id}"), "upstream_id": upstream}))
}

fn apply(snapshot: &Snapshot, changes: &[SnapshotChange]) -> Applied {
    snapshot.apply(&catalog(), changes, snapshot.revision() + 1, FaultPolicy::Lenient)
}

/// The objects in force, the faulty ones and the differences, each as words.
fn check(applied: &Applied, in_force: &str, faulty: &str, differs: &str) {
    let snapshot = &applied.snapshot;
    let mut keys: Vec<ObjectKey> = ObjectKind::ALL
        .into_iter()
        .flat_map(|kind| snapshot.iter(kind))
        .map(|object| object.key().clone())
        .collect();
    keys.sort();
    let words = |keys: &mut dyn Iterator<Item = ObjectKey>| {
        keys.map(|key| key.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(words(&mut keys.into_iter()), in_force, "in force");
    let mut faults: Vec<ObjectKey> = snapshot.faulty().map(|faulty| faulty.written.key.clone()).collect();
    faults.sort();
    assert_eq!(words(&mut faults.into_iter()), faulty, "faulty");
    assert_eq!(words(&mut applied.diff.iter().map(|difference| difference.key.clone())), differs, "differs");
}

fn consumer(name: &str, secret: &str) -> SnapshotChange {
    put(&format!("consumers/{name}"), json!({"username": name, "plugins": {"auth": {"key": secret}}}))
}

#[test]
fn second_consumer_with_same_key_waits() {
    let both = apply(&Snapshot::empty(), &[consumer("jack", "k"), consumer("jill", "k")]);
    check(&both, "consumers/jack", "consumers/jill", "consumers/jack");
    let fault = &both.faults[0];
    assert_eq!(
        (&*fault.pointer, &*fault.reason),
        ("/plugins/auth/key", "duplicate key found with consumer: jack")
    );
    // The consumer that holds the key keeps it, whichever consumer is written again.
    let again = apply(&both.snapshot, &[consumer("jill", "k")]);
    check(&again, "consumers/jack", "consumers/jill", "");
    let again = apply(&again.snapshot, &[consumer("jack", "k")]);
    check(&again, "consumers/jack", "consumers/jill", "consumers/jack");
    let moved = apply(&again.snapshot, &[consumer("jack", "other")]);
    check(&moved, "consumers/jack consumers/jill", "", "consumers/jack consumers/jill");
    let gone = apply(&both.snapshot, &[delete("consumers/jack")]);
    check(&gone, "consumers/jill", "", "consumers/jack consumers/jill");
}

#[test]
fn consumers_may_exchange_their_keys() {
    let before = apply(&Snapshot::empty(), &[consumer("jack", "a"), consumer("jill", "b")]);
    let after = apply(&before.snapshot, &[consumer("jack", "b"), consumer("jill", "a")]);
    check(&after, "consumers/jack consumers/jill", "", "consumers/jack consumers/jill");
}

#[test]
fn a_credential_counts_as_its_consumer() {
    let credential = |name: &str| {
        let path = format!("credentials/{name}/credentials/c");
        put(&path, json!({"plugins": {"auth": {"key": "k"}}}))
    };
    let jack = [consumer("jack", "k"), credential("jack")];
    check(
        &apply(&Snapshot::empty(), &jack),
        "consumers/jack credentials/jack/credentials/c",
        "",
        "consumers/jack credentials/jack/credentials/c",
    );
    let jill = [consumer("jack", "k"), consumer("jill", "j"), credential("jill")];
    let applied = apply(&Snapshot::empty(), &jill);
    assert_eq!(applied.faults.len(), 1);
    assert_eq!(applied.faults[0].reason, "duplicate key found with consumer: jack");
}

#[test]
fn a_route_waits_for_its_upstream() {
    let applied = apply(&Snapshot::empty(), &[route("1", "u")]);
    check(&applied, "", "routes/1", "routes/1");
    let fault = &applied.faults[0];
    assert_eq!(fault.reason, "upstream \"u\" does not exist");
    assert_eq!((fault.pointer.as_str(), fault.kept), ("/upstream_id", false));
    let applied = apply(&applied.snapshot, &[upstream("u")]);
    check(&applied, "upstreams/u routes/1", "", "upstreams/u routes/1");
    assert!(applied.faults.is_empty());
    assert_eq!(applied.snapshot.revision(), 2);
}

#[test]
fn closed_form_gives_way_to_a_good_one() {
    let key = ObjectKey::new(ObjectKind::Route, "1").unwrap();
    let faulty = |text: &str| put("routes/1", serde_json::from_str(text).unwrap());
    let is_closed = |applied: &Applied| applied.snapshot.closed(&key).is_some();
    let applied = apply(&Snapshot::empty(), &[upstream("u"), faulty(r#"{"urri": "/a"}"#)]);
    check(&applied, "upstreams/u", "routes/1", "upstreams/u");
    assert!(!is_closed(&applied));
    assert_eq!(applied.snapshot.unplaced().len(), 1);
    let applied = apply(&applied.snapshot, &[faulty(r#"{"uri": "/a", "colour": 1}"#)]);
    check(&applied, "upstreams/u", "routes/1", "routes/1");
    assert!(is_closed(&applied) && applied.snapshot.unplaced().is_empty());
    let applied = apply(&applied.snapshot, &[route("1", "u")]);
    check(&applied, "upstreams/u routes/1", "", "routes/1");
    assert!(!is_closed(&applied));
    // A later text that is harder to read does not give up the place that is held.
    let held = apply(&Snapshot::empty(), &[faulty(r#"{"uri": "/a", "colour": 1}"#)]);
    assert!(is_closed(&apply(&held.snapshot, &[faulty(r#"{"uri": 7}"#)])));
    // The match of a route is known even if its secrets cannot be decrypted.
    let mut sealed = faulty("{}");
    let written = sealed.written.as_mut().unwrap();
    written.text = WrittenObject::unreadable_json("no key", r#"{"uri": "/a", "plugins": {}}"#);
    let sealed = apply(&Snapshot::empty(), &[sealed]);
    assert!(is_closed(&sealed));
    assert_eq!(sealed.faults[0].reason, "no key");
    // From now on there is a good form.
    let applied = apply(&applied.snapshot, &[faulty(r#"{"uri": "/a", "colour": 1}"#)]);
    check(&applied, "upstreams/u routes/1", "routes/1", "");
    assert!(!is_closed(&applied) && applied.snapshot.unplaced().is_empty());
}

#[test]
fn batch_order_is_free_and_waits_are_transitive() {
    let service = put("services/s", json!({"upstream_id": "u"}));
    let route = put("routes/1", json!({"uri": "/", "service_id": "s"}));
    let applied = apply(&Snapshot::empty(), &[route.clone(), service.clone(), upstream("u")]);
    check(&applied, "upstreams/u services/s routes/1", "", "upstreams/u services/s routes/1");
    let waiting = apply(&Snapshot::empty(), &[route, service]);
    check(&waiting, "", "services/s routes/1", "services/s routes/1");
    check(
        &apply(&waiting.snapshot, &[upstream("u")]),
        "upstreams/u services/s routes/1",
        "",
        "upstreams/u services/s routes/1",
    );
}

#[test]
fn faulty_write_keeps_last_good_form() {
    let good = apply(&Snapshot::empty(), &[upstream("u"), route("1", "u")]);
    let bad = apply(&good.snapshot, &[put("routes/1", json!({"uri": "/x", "colour": "red"}))]);
    check(&bad, "upstreams/u routes/1", "routes/1", "");
    assert!(bad.faults.iter().all(|fault| fault.kept));
    assert_eq!(
        bad.snapshot.get(&key("routes/1")).unwrap().written.text,
        good.snapshot.get(&key("routes/1")).unwrap().written.text
    );
    let other = apply(&bad.snapshot, &[upstream("v")]);
    assert!(other.faults.is_empty(), "what did not change is not reported again");
    assert_eq!(other.snapshot.faults().len(), 2, "but remembered: the unknown field, and nothing to do");
    check(&apply(&other.snapshot, &[route("1", "v")]), "upstreams/u upstreams/v routes/1", "", "routes/1");
    check(&apply(&other.snapshot, &[delete("routes/1")]), "upstreams/u upstreams/v", "", "routes/1");
}

#[test]
fn what_is_left_dangling_stays_and_is_reported() {
    let good = apply(&Snapshot::empty(), &[upstream("u"), route("1", "u"), route("2", "u")]);
    let gone = apply(&good.snapshot, &[delete("upstreams/u")]);
    check(&gone, "routes/1 routes/2", "routes/1 routes/2", "upstreams/u routes/1 routes/2");
    assert!(gone.faults.iter().all(|fault| fault.kept));
    let same = &gone.diff[1];
    assert!(Arc::ptr_eq(same.before.as_ref().unwrap(), same.after.as_ref().unwrap()));
    check(
        &apply(&gone.snapshot, &[upstream("u")]),
        "upstreams/u routes/1 routes/2",
        "",
        "upstreams/u routes/1 routes/2",
    );
}

#[test]
fn a_credential_never_outlives_its_consumer() {
    let consumer = put("consumers/jack", json!({"username": "jack"}));
    let credential = put("credentials/jack/credentials/c1", json!({"plugins": {"auth": {}}}));
    let good = apply(&Snapshot::empty(), &[credential, consumer.clone()]);
    check(
        &good,
        "consumers/jack credentials/jack/credentials/c1",
        "",
        "consumers/jack credentials/jack/credentials/c1",
    );
    let gone = apply(&good.snapshot, &[delete("consumers/jack")]);
    check(&gone, "", "credentials/jack/credentials/c1", "consumers/jack credentials/jack/credentials/c1");
    check(
        &apply(&gone.snapshot, &[consumer]),
        "consumers/jack credentials/jack/credentials/c1",
        "",
        "consumers/jack credentials/jack/credentials/c1",
    );
}

#[test]
fn faulty_credential_keeps_form_with_its_consumer() {
    let consumer = put("consumers/jack", json!({"username": "jack"}));
    let credential = put("credentials/jack/credentials/c1", json!({"plugins": {"auth": {}}}));
    let good = apply(&Snapshot::empty(), &[credential, consumer]);
    let faulty = put("credentials/jack/credentials/c1", json!({"plugins": {"nope": {}}}));
    let kept = apply(&good.snapshot, std::slice::from_ref(&faulty));
    check(&kept, "consumers/jack credentials/jack/credentials/c1", "credentials/jack/credentials/c1", "");
    let gone = apply(&good.snapshot, &[faulty, delete("consumers/jack")]);
    let key = "credentials/jack/credentials/c1";
    check(&gone, "", key, "consumers/jack credentials/jack/credentials/c1");
    check(
        &apply(&kept.snapshot, &[delete("consumers/jack")]),
        "",
        key,
        "consumers/jack credentials/jack/credentials/c1",
    );
}

#[test]
fn a_changed_upstream_touches_nothing_else() {
    let many: Vec<SnapshotChange> =
        std::iter::once(upstream("u")).chain((0..200).map(|id| route(&id.to_string(), "u"))).collect();
    let good = apply(&Snapshot::empty(), &many);
    let changed = apply(&good.snapshot, &[put("upstreams/u", json!({"nodes": {"127.0.0.1:81": 1}}))]);
    assert_eq!(changed.diff.len(), 1);
    assert_eq!(good.snapshot.dependents(&key("upstreams/u")).len(), 200);
}

#[test]
fn concurrent_changes_read_as_if_in_order() {
    // Every tenth refers to nothing, every eleventh is faulty in itself, every twelfth is written twice,
    // and every thirteenth is deleted again.
    let mut many = vec![upstream("u")];
    for id in 0..2500 {
        let name = format!("r{id}");
        many.push(match id {
            _ if id % 10 == 0 => route(&name, "nobody"),
            _ if id % 11 == 0 => put(&format!("routes/{name}"), json!({"uri": 7})),
            _ => route(&name, "u"),
        });
        if id % 12 == 0 {
            many.push(put(&format!("routes/{name}"), json!({"uri": "/twice", "upstream_id": "u"})));
        }
        if id % 13 == 0 {
            many.push(delete(&format!("routes/{name}")));
        }
    }
    let at_once = apply(&Snapshot::empty(), &many);
    let mut one_by_one = Snapshot::empty();
    for part in many.chunks(100) {
        one_by_one = apply(&one_by_one, part).snapshot;
    }
    assert!(at_once.snapshot.len(ObjectKind::Route) > 1900 && at_once.snapshot.faults().len() > 300);
    assert_eq!(seen(&at_once.snapshot), seen(&one_by_one));
    assert!(at_once.diff.is_sorted_by(|left, right| left.key < right.key));
}

#[test]
fn strict_is_all_or_nothing() {
    let good = apply(&Snapshot::empty(), &[upstream("u")]);
    let changes = [route("1", "u"), route("2", "nowhere")];
    let refused = good.snapshot.apply(&catalog(), &changes, 9, FaultPolicy::Strict);
    check(&refused, "upstreams/u", "", "");
    assert_eq!((refused.faults.len(), refused.snapshot.revision()), (1, 1));
    let accepted = good.snapshot.apply(&catalog(), &changes[..1], 9, FaultPolicy::Strict);
    check(&accepted, "upstreams/u routes/1", "", "routes/1");
}

#[test]
fn the_last_change_of_a_key_counts() {
    let applied =
        apply(&Snapshot::empty(), &[upstream("u"), delete("upstreams/u"), upstream("v"), upstream("v")]);
    check(&applied, "upstreams/v", "", "upstreams/v");
}

#[test]
fn a_text_that_is_not_json_is_a_fault() {
    let mut change = upstream("u");
    change.written.as_mut().unwrap().text = "{".into();
    let applied = apply(&Snapshot::empty(), &[change]);
    assert!(applied.faults[0].reason.starts_with("the text is not JSON"));
}

/// The contract's line against deleting, empty when nothing uses it.
fn used(snapshot: &Snapshot, path: &str, expected: &str) {
    assert_eq!(snapshot.still_used(&key(path)).unwrap_or_default(), expected, "{path}");
}

#[test]
fn what_is_used_must_not_be_deleted() {
    let changes = [
        upstream("u"),
        upstream("v"),
        upstream("w"),
        upstream("x"),
        upstream("free"),
        put("services/s", json!({"upstream_id": "v"})),
        put("plugin_configs/p", json!({"id": "p", "plugins": {}})),
        put("consumer_groups/g", json!({"id": "g", "plugins": {}})),
        put("consumers/jack", json!({"username": "jack", "group_id": "g"})),
        put("credentials/jack/credentials/c1", json!({"plugins": {"auth": {}}})),
        put("protos/1", json!({"content": "x"})),
        put(
            "routes/1",
            json!({"uri": "/", "upstream_id": "u", "service_id": "s", "plugin_config_id": "p",
            "plugins": {"split": {"rules": [{"upstream_id": "w"}], "proto_id": 1}}}),
        ),
        put("stream_routes/a", json!({"upstream_id": "x", "protocol": {"name": "redis"}})),
        put("stream_routes/b", json!({"service_id": "s", "protocol": {"name": "redis", "superior_id": "a"}})),
    ];
    let applied = apply(&Snapshot::empty(), &changes);
    assert_eq!(applied.faults, []);
    let snapshot = &applied.snapshot;
    used(snapshot, "upstreams/u", "can not delete this upstream, route [1] is still using it now");
    used(snapshot, "upstreams/v", "can not delete this upstream, service [s] is still using it now");
    used(snapshot, "upstreams/w", "can not delete this upstream, plugin in route [1] is still using it now");
    used(snapshot, "upstreams/x", "can not delete this upstream, stream_route [a] is still using it now");
    used(snapshot, "upstreams/free", "");
    used(snapshot, "services/s", "can not delete this service directly, route [1] is still using it now");
    used(snapshot, "plugin_configs/p", "can not delete this plugin config, route [1] is still using it now");
    used(
        snapshot,
        "consumer_groups/g",
        "can not delete this consumer group, consumer [jack] is still using it now",
    );
    used(snapshot, "consumers/jack", "");
    used(snapshot, "protos/1", "can not delete this proto, route [1] is still using it now");
    used(
        snapshot,
        "stream_routes/a",
        "can not delete this stream route directly, stream route [b] is still using it as superior_id",
    );
}

#[test]
fn admission_looks_at_the_others_too() {
    let changes = [
        put("global_rules/1", json!({"id": "1", "plugins": {"split": {}}})),
        put("consumers/jack", json!({"username": "jack", "plugins": {"auth": {"key": "k"}}})),
        put("stream_routes/redis", json!({"upstream": {"nodes": {"a:1": 1}}, "protocol": {"name": "redis"}})),
        put("stream_routes/raw", json!({"upstream": {"nodes": {"a:1": 1}}})),
        put("stream_routes/web", json!({"protocol": {"name": "http"}})),
        put("ssls/server", json!({"sni": "a.example", "cert": "$env://C", "key": "$env://K"})),
        put("ssls/client", json!({"type": "client", "cert": "$env://C", "key": "$env://K"})),
    ];
    let snapshot = apply(&Snapshot::empty(), &changes).snapshot;
    let admit = |path: &str, object: Value, expected: &str| {
        let refusal = snapshot.admit(&catalog(), &key(path), &object).err();
        let message = refusal.map(|refusal| refusal.contract_message().to_owned()).unwrap_or_default();
        assert_eq!(message, expected, "{path} {object}");
    };
    let missing = |kind: &str, field: &str| {
        format!("failed to fetch {kind} info by {kind} id [{field}], response code: 404")
    };
    for (field, kind) in
        [("upstream_id", "upstream"), ("service_id", "service"), ("plugin_config_id", "plugin config")]
    {
        admit("routes/1", json!({"uri": "/", "plugins": {}, field: 9}), &missing(kind, "9"));
    }
    admit("consumers/a", json!({"username": "a", "group_id": "g"}), &missing("consumer group", "g"));
    let below = |id: &str, protocol: &str| json!({"upstream": {"nodes": {"a:1": 1}}, "protocol": {"name": protocol, "superior_id": id}});
    admit("stream_routes/9", below("redis", "redis"), "");
    admit("stream_routes/9", below("raw", "redis"), "");
    admit("stream_routes/9", below("no", "redis"), "failed to fetch stream routes[no], response code: 404");
    admit(
        "stream_routes/9",
        below("web", "redis"),
        "protocol mismatch: subordinate protocol [redis] does not match superior protocol [http]",
    );
    admit("global_rules/1", json!({"id": "1", "plugins": {"split": {}}}), "");
    let shown = |id: &str| json!({"scheme": "https", "nodes": {"a:1": 1}, "tls": {"client_cert_id": id}});
    admit("upstreams/1", shown("client"), "");
    admit("upstreams/1", shown("server"), "failed to fetch ssl info by ssl id [server], wrong ssl type");
    let inside = json!({"uri": "/", "upstream": shown("server")});
    admit("routes/2", inside, "failed to fetch ssl info by ssl id [server], wrong ssl type");
    let sink = |config: Value| json!({"uri": "/", "plugins": {"sink": config}});
    admit("routes/2", sink(json!({"path": "a"})), "");
    let without = "failed to check the configuration of plugin sink err: a path is needed";
    admit("routes/2", sink(json!({})), without);
    let with_metadata = apply(&snapshot, &[put("plugin_metadata/sink", json!({"path": "b"}))]).snapshot;
    assert!(with_metadata.admit(&catalog(), &key("routes/2"), &sink(json!({}))).is_ok());
    admit(
        "global_rules/2",
        json!({"id": "2", "plugins": {"split": {}}}),
        "plugin 'split' already exists in global rule with id '1'",
    );
    let auth = json!({"plugins": {"auth": {"key": "k"}}});
    admit("credentials/jill/credentials/c", auth.clone(), "duplicate key found with consumer: jack");
    admit("credentials/jack/credentials/c", auth, "");
    admit("credentials/nobody/credentials/c", json!({"plugins": {"auth": {"key": "z"}}}), "");
}

#[test]
fn admitted_write_applies_as_its_text_does() {
    let (mut by_value, mut by_text) = (Snapshot::empty(), Snapshot::empty());
    for change in objects() {
        let written = change.written.clone().unwrap();
        let value: Value = serde_json::from_str(&written.text).unwrap();
        let Ok(admitted) = by_value.admit(&catalog(), &change.key, &value) else { continue };
        let revision = by_value.revision() + 1;
        let (put, read) = (
            by_value.put(&catalog(), admitted, written, revision),
            by_text.apply(&catalog(), &[change], revision, FaultPolicy::Lenient),
        );
        assert_eq!(put.diff.len(), read.diff.len());
        (by_value, by_text) = (put.snapshot, read.snapshot);
        assert_eq!(seen(&by_value), seen(&by_text));
    }
    assert!(by_value.len(ObjectKind::Route) > 0);
}

/// The share of the 1.5 KB a route that an object of it takes by itself, without its texts.
const OBJECT_BYTES_MAX: usize = 160;

#[test]
fn an_object_is_small() {
    assert!(size_of::<SnapshotObject>() <= OBJECT_BYTES_MAX, "{}", size_of::<SnapshotObject>());
}

/// Objects that refer to each other, some faulty, some dangling.
fn objects() -> Vec<SnapshotChange> {
    let mut changes: Vec<SnapshotChange> = (0..4).map(|id| upstream(&id.to_string())).collect();
    changes.extend((0..3).map(|id| put(&format!("services/{id}"), json!({"upstream_id": id + 2}))));
    changes.extend((0..6).map(|id| route(&format!("u{id}"), &id.to_string())));
    changes.extend((0..4).map(|id| put(&format!("routes/s{id}"), json!({"uri": "/", "service_id": id}))));
    changes.push(put("routes/bad", json!({"uri": "/"})));
    changes.push(put("consumers/jack", json!({"username": "jack", "group_id": "g"})));
    changes.push(put("consumer_groups/g", json!({"id": "g", "plugins": {}})));
    changes.push(put("credentials/jack/credentials/c", json!({"plugins": {"auth": {}}})));
    changes.push(put("credentials/jill/credentials/c", json!({"plugins": {"auth": {}}})));
    changes.push(put("stream_routes/a", json!({"protocol": {"name": "redis", "superior_id": "b"}})));
    changes.push(put("stream_routes/b", json!({"protocol": {"name": "redis"}})));
    changes
}

/// The visible state of a snapshot.
fn seen(snapshot: &Snapshot) -> impl PartialEq + std::fmt::Debug + use<> {
    let mut in_force: Vec<(String, Arc<str>)> = ObjectKind::ALL
        .into_iter()
        .flat_map(|kind| snapshot.iter(kind))
        .map(|object| (object.key().to_string(), Arc::clone(&object.written.text)))
        .collect();
    in_force.sort();
    let dependents: Vec<Vec<ObjectKey>> =
        objects().iter().map(|change| snapshot.dependents(&change.key)).collect();
    (in_force, snapshot.faults(), dependents)
}

proptest! {
    #[test]
    fn the_order_of_arrival_does_not_matter(
        order in Just(objects()).prop_shuffle(),
        batch in 1_usize..8,
    ) {
        let whole = apply(&Snapshot::empty(), &objects()).snapshot;
        let mut snapshot = Snapshot::empty();
        for changes in order.chunks(batch) {
            snapshot = apply(&snapshot, changes).snapshot;
        }
        prop_assert_eq!(seen(&snapshot), seen(&whole));
    }

    #[test]
    fn the_differences_lead_from_one_snapshot_to_the_next(
        steps in prop::collection::vec(prop::sample::subsequence(objects(), 0..8), 1..6),
        deleted in prop::collection::vec(any::<bool>(), 8),
    ) {
        let mut snapshot = Snapshot::empty();
        for (step, changes) in steps.into_iter().enumerate() {
            let changes: Vec<SnapshotChange> = changes
                .into_iter()
                .zip(deleted.iter().cycle().skip(step))
                .map(|(change, deleted)| SnapshotChange { written: change.written.filter(|_| !deleted), ..change })
                .collect();
            let applied = apply(&snapshot, &changes);
            for change in objects() {
                let (before, after) = (snapshot.get(&change.key), applied.snapshot.get(&change.key));
                let same = match (before, after) {
                    (Some(before), Some(after)) => Arc::ptr_eq(before, after),
                    (None, None) => true,
                    _ => false,
                };
                let listed = applied.diff.iter().find(|difference| difference.key == change.key);
                prop_assert!(same || listed.is_some(), "{} is missing in the differences", change.key);
                if let Some(listed) = listed {
                    prop_assert_eq!(listed.after.as_ref().map(Arc::as_ptr), after.map(Arc::as_ptr));
                    prop_assert_eq!(listed.before.as_ref().map(Arc::as_ptr), before.map(Arc::as_ptr));
                }
            }
            snapshot = applied.snapshot;
        }
    }
}

#[test]
fn secret_users_are_known_while_they_refer() {
    let with = |value: &str| {
        let plugins = json!({"split": {"a": value, "b": [value]}});
        put("services/s", json!({"plugins": plugins}))
    };
    let first = apply(&Snapshot::empty(), &[with("$secret://vault/1/a/b"), route("r", "gone")]).snapshot;
    let users = |snapshot: &Snapshot, text: &str| {
        let keys = snapshot.referring_to_secret(&text.into());
        keys.iter().map(ObjectKey::to_string).collect::<Vec<_>>()
    };
    assert_eq!(users(&first, "$secret://vault/1/a/b"), ["services/s"]);
    let second = apply(&first, &[with("$env://A")]).snapshot;
    assert_eq!(users(&second, "$secret://vault/1/a/b"), [""; 0]);
    assert_eq!(users(&second, "$env://A"), ["services/s"]);
    let third = apply(&second, &[delete("services/s")]).snapshot;
    assert_eq!(users(&third, "$env://A"), [""; 0]);
}
