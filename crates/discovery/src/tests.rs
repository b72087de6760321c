//! Tests of the frame: the table, the thread, the copies on disk, and the list of registries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use model::discovery::{ServiceDirectory, ServiceInstance, ServiceKey, ServiceNodes};
use model::outbound::OutboundPolicy;
use serde_json::{Value, json};

use super::table::DiscoveryShared;
use super::{ALL, DiscoveryConfig, ServiceDiscovery, Services, check_discovery_blocks};

/// Modules of the folder that are no registry.
const OTHERS: [&str; 17] = [
    "auto_routes",
    "blocks",
    "check",
    "copy",
    "each",
    "element",
    "followed",
    "http",
    "limits",
    "parts",
    "poll",
    "publish",
    "registration",
    "services",
    "show",
    "table",
    "thread",
];

fn shared() -> Arc<DiscoveryShared> {
    Arc::new(DiscoveryShared::new([("file", Value::Null)].into_iter(), None, OutboundPolicy::default()))
}

fn instance(host: &str) -> ServiceInstance {
    ServiceInstance { host: host.into(), port: 80, weight: 1, ..ServiceInstance::default() }
}

fn seen(shared: &Arc<DiscoveryShared>, key: &ServiceKey) -> (u64, Receiver<ServiceNodes>) {
    let (sender, receiver) = channel();
    let sender = parking_lot::Mutex::new(sender);
    let follow = move |nodes: &ServiceNodes| drop(sender.lock().send(nodes.clone()));
    (shared.follow(key, Box::new(follow)), receiver)
}

fn note(nodes: &ServiceNodes) -> String {
    nodes.note.as_deref().unwrap_or_default().to_owned()
}

#[test]
fn list_and_folder_agree() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let stem = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()
    };
    let mut found: Vec<String> = std::fs::read_dir(folder).unwrap().map(stem).collect();
    found.retain(|name| name != "tests" && name != "lib" && !OTHERS.contains(&name.as_str()));
    found.sort();
    found.dedup();
    let listed: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
    assert_eq!(found, listed);
}

#[test]
fn schemas_compile_and_describe_all_fields() {
    for kind in ALL {
        let schema = (kind.schema)();
        model::validate::Validator::new(schema.clone()).compile().unwrap();
        for (name, field) in schema["properties"].as_object().unwrap() {
            let has_text = field["description"].is_string() || field["properties"].is_object();
            assert!(has_text, "{}: {name}", kind.name);
        }
    }
}

#[test]
fn faulty_blocks_are_refused_with_pointer() {
    let faults = |blocks: Value| {
        let faults = check_discovery_blocks(blocks.as_object().unwrap());
        faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(faults(json!({"consul": {"servers": ["http://127.0.0.1:8500"]}})), "");
    assert!(
        faults(json!({"consol": {}})).contains("/consol: there is no such registry; did you mean `consul`")
    );
    assert!(faults(json!({"consul": {"servers": 3}})).starts_with("/consul/servers: "));
    assert!(faults(json!({"consul": {"servers": ["tcp://h"]}})).contains("scheme"));
    assert!(faults(json!({"dns": {}})).starts_with("/dns"));
}

#[test]
fn faults_do_not_show_passwords() {
    for server in ["http://u:secret@h:1/a/b", "tcp://u:secret@h:1", "http://u:se\"cret@h/x\" with \"y"] {
        for blocks in [
            json!({"eureka": {"host": [server]}}),
            json!({"nacos": {"host": [server]}}),
            json!({"etcd": {"host": [server]}}),
            json!({"zookeeper": {"host": [server]}}),
        ] {
            let faults = check_discovery_blocks(blocks.as_object().unwrap());
            let shown: String = faults.iter().map(ToString::to_string).collect();
            assert!(shown.contains("/host/0: its text does not match the pattern ^"), "{shown}");
            assert!(!shown.contains("cret"), "{shown}");
        }
    }
}

#[test]
fn last_good_answer_outlives_failure() {
    let shared = shared();
    let services = Services::new(Arc::clone(&shared), "file");
    let key = ServiceKey::new("file", "web");
    let (_, seen) = seen(&shared, &key);
    let first = seen.recv().unwrap();
    assert!(first.is_pending && note(&first).contains("has not answered for web yet"));
    services.answer(&key, vec![instance("a"), instance("b")]);
    assert_eq!(seen.recv().unwrap().instances.len(), 2);
    services.failed(Some(&key), "no route");
    services.failed(None, "down");
    services.answer(&key, vec![instance("a b")]);
    let kept = seen.try_iter().last().unwrap();
    assert_eq!((kept.instances.len(), note(&kept)), (2, String::new()));
    services.answer(&key, Vec::new());
    let empty = seen.try_iter().last().unwrap();
    assert_eq!(note(&empty), "the registry file knows no instance of web");
    services.unknown(&key);
    assert!(note(&seen.try_iter().last().unwrap()).contains("does not know the service web"));
    services.failed(None, "down\n!");
    assert!(note(&seen.try_iter().last().unwrap()).ends_with("it fails: down !"));
}

#[test]
fn following_again_begins_with_last_good() {
    let shared = shared();
    let services = Services::new(Arc::clone(&shared), "file");
    let key = ServiceKey::new("file", "web");
    let (number, _seen) = seen(&shared, &key);
    services.answer(&key, vec![instance("a")]);
    drop(super::Unfollow { shared: Arc::clone(&shared), key: key.clone(), number });
    let (number, again) = seen(&shared, &key);
    let first = again.recv().unwrap();
    assert_eq!((first.instances.len(), first.is_pending), (1, false));
    services.unknown(&key);
    drop(super::Unfollow { shared: Arc::clone(&shared), key: key.clone(), number });
    let (_, last) = seen(&shared, &key);
    assert!(last.recv().unwrap().is_pending, "a service that is gone leaves nothing");
}

#[test]
fn services_are_told_apart_by_arguments() {
    let shared = shared();
    let services = Services::new(Arc::clone(&shared), "file");
    let key = |tag: &str| {
        let mut key = ServiceKey::new("file", "web");
        key.args.insert("tag".into(), tag.into());
        key
    };
    let (_, _one) = seen(&shared, &key("one"));
    let (_, _two) = seen(&shared, &key("two"));
    services.answer(&key("one"), vec![instance("a")]);
    services.failed(Some(&key("two")), "no route");
    let dump = super::show::dump(&shared, "file").unwrap();
    assert_eq!(dump["services"]["web (tag=one)"][0]["host"], "a");
    assert_eq!(dump["services"]["web (tag=two)"], json!([]));
    let states = super::show::states(&shared);
    assert_eq!(states["file"]["failing_services"], json!({"web (tag=two)": "no route"}));
}

#[test]
fn silent_registry_is_waited_for_once() {
    let shared = shared();
    let services = Services::new(Arc::clone(&shared), "file");
    let (silent, other) = (ServiceKey::new("file", "silent"), ServiceKey::new("file", "other"));
    let (_, _seen) = seen(&shared, &silent);
    assert!(!shared.settle(Duration::ZERO), "it has not answered");
    // Without an end to the wait, a second one for the same service would not return.
    assert!(shared.settle(Duration::from_secs(3_600)));
    let (_, _seen) = seen(&shared, &other);
    services.answer(&other, vec![instance("a")]);
    assert!(shared.settle(Duration::from_secs(3_600)), "only the new service counts");
}

#[test]
fn equal_answer_calls_nothing() {
    let shared = shared();
    let services = Services::new(Arc::clone(&shared), "file");
    let key = ServiceKey::new("file", "web");
    let (number, seen) = seen(&shared, &key);
    services.answer(&key, vec![instance("b"), instance("a")]);
    assert_eq!(seen.try_iter().count(), 2);
    services.answer(&key, vec![instance("a"), instance("b"), instance("a")]);
    assert_eq!(seen.try_iter().count(), 0);
    drop(super::Unfollow { shared: Arc::clone(&shared), key: key.clone(), number });
    assert!(services.wanted().is_empty());
    services.answer(&key, vec![instance("c")]);
    assert_eq!(seen.try_iter().count(), 0);
}

#[test]
fn whole_answer_tells_unknown_services() {
    let shared = shared();
    let services = Services::new(Arc::clone(&shared), "file");
    let key = |name: &str| ServiceKey::new("file", name);
    let (_, web) = seen(&shared, &key("web"));
    services
        .replace_all(BTreeMap::from([(key("web"), vec![instance("a")]), (key("api"), vec![instance("b")])]));
    assert_eq!(web.try_iter().last().unwrap().instances.len(), 1);
    let (_, api) = seen(&shared, &key("api"));
    assert_eq!(api.recv().unwrap().instances.len(), 1);
    let (_, none) = seen(&shared, &key("none"));
    assert!(note(&none.recv().unwrap()).contains("does not know the service none"));
    services.set_default(Some(instance("default")));
    services.replace_all(BTreeMap::new());
    let after = web.try_iter().last().unwrap();
    assert_eq!(&*after.instances[0].host, "default");
}

#[test]
fn ten_thousand_instances_load_quickly() {
    let shared = shared();
    let services = Services::new(Arc::clone(&shared), "file");
    let all = || -> BTreeMap<ServiceKey, Vec<ServiceInstance>> {
        let of = |n: usize| (0..10).map(|i| instance(&format!("10.{}.{}.{i}", n / 250, n % 250))).collect();
        (0..1000).map(|n| (ServiceKey::new("file", &format!("service-{n}")), of(n))).collect()
    };
    let started = Instant::now();
    services.replace_all(all());
    assert!(started.elapsed() < Duration::from_secs(2));
    let too_many = (0..200_000).map(|n| (ServiceKey::new("file", &n.to_string()), Vec::new())).collect();
    services.replace_all(too_many);
    let (_, kept) = seen(&shared, &ServiceKey::new("file", "service-7"));
    assert_eq!(kept.recv().unwrap().instances.len(), 10);
}

#[test]
fn restart_serves_copy_while_registry_is_down() {
    let folder = tempfile::tempdir().unwrap();
    let targets = folder.path().join("web.json");
    std::fs::write(&targets, r#"[{"targets": ["10.0.0.1:80"], "labels": {"zone": "a"}}]"#).unwrap();
    let start = || {
        let blocks = json!({"file": {"files": [targets], "interval_ms": 10}});
        ServiceDiscovery::start(DiscoveryConfig {
            blocks: blocks.as_object().unwrap().clone(),
            directory: Some(folder.path().join("discovery")),
            settle: Duration::from_secs(20),
            ..DiscoveryConfig::default()
        })
        .unwrap()
    };
    let key = ServiceKey::new("file", "web");
    let follow = |discovery: &ServiceDiscovery| {
        let (sender, receiver) = channel();
        let sender = parking_lot::Mutex::new(sender);
        let guard = discovery.follow(&key, Box::new(move |nodes| drop(sender.lock().send(nodes.clone()))));
        discovery.settle();
        (guard, receiver)
    };
    let first = start();
    let (_guard, seen) = follow(&first);
    assert_eq!(&*seen.try_iter().last().unwrap().instances[0].host, "10.0.0.1");
    first.stop();
    assert!(first.dump_file("file").unwrap().unwrap().contains("10.0.0.1"));
    assert_eq!(first.dump("file").unwrap()["services"]["web"][0]["metadata"]["zone"], "a");
    assert!(first.dump("consul").is_none());
    std::fs::remove_file(&targets).unwrap();
    let second = start();
    let (_guard, seen) = follow(&second);
    assert_eq!(&*seen.recv().unwrap().instances[0].host, "10.0.0.1");
    let mut text = String::new();
    second.write_metrics(&mut text);
    assert!(text.contains("weir_discovery_instances{registry=\"file\"} 1"), "{text}");
}

#[test]
fn secrets_of_blocks_are_masked() {
    let block =
        json!({"token": "t", "token_file": "/t", "a": [{"password": "p"}], "servers": ["http://u:p@h:1"]});
    let masked = super::show::masked(block);
    assert_eq!(
        masked,
        json!({"token": "***", "token_file": "/t", "a": [{"password": "***"}], "servers": ["http://***@h:1"]})
    );
}

#[test]
fn keys_of_apisix_pass_the_check() {
    let timeout = json!({"connect": 2000, "send": 2000, "read": 5000});
    let consul = json!({
        "servers": ["http://127.0.0.1:8500"], "token": "", "fetch_interval": 3, "keepalive": true, "weight": 1,
        "timeout": {"connect": 2000, "read": 2000, "wait": 60}, "shared_size": "64m",
        "dump": {"path": "logs/consul.dump", "load_on_init": true, "expire": 2592000},
        "default_service": {"host": "127.0.0.1", "port": 20999,
            "metadata": {"fail_timeout": 1, "weight": 1, "max_fails": 1}}
    });
    let mut blocks = json!({
        "consul": consul, "consul_kv": consul,
        "nacos": {"host": ["http://127.0.0.1:8848"], "prefix": "/nacos/v1/", "fetch_interval": 30, "weight": 100,
            "timeout": timeout, "access_key": "", "secret_key": ""},
        "eureka": {"host": ["http://127.0.0.1:8761"], "prefix": "/eureka/", "fetch_interval": 30, "weight": 100,
            "timeout": timeout},
        "dns": {"servers": ["127.0.0.1:53"], "order": ["last", "SRV", "A", "AAAA", "CNAME"]}
    });
    blocks["consul"]["skip_services"] = json!(["service_d"]);
    blocks["consul_kv"]["skip_keys"] = json!(["upstreams/unused_api/"]);
    blocks["consul_kv"]["prefix"] = json!("upstreams");
    for sort_type in ["origin", "host_sort", "port_sort", "combine_sort"] {
        blocks["consul"]["sort_type"] = json!(sort_type);
        assert_eq!(check_discovery_blocks(blocks.as_object().unwrap()), []);
    }
    blocks["consul"]["sort_type"] = json!("random");
    assert_eq!(check_discovery_blocks(blocks.as_object().unwrap()).len(), 1);
}
