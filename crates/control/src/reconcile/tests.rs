//! The reconciling thread: order, one transaction for many writes, expiry, and files of which only the good
//! part is taken over.

use std::path::Path;

use serde_json::{Value, json};

use super::HandOver;
use super::versions::VersionFilter;
use crate::source::store::{ConfigStore, DirectoryLock};
use crate::testing::{Rig, block_on};

fn upstream() -> Value {
    json!({"nodes": {"127.0.0.1:8080": 1}, "type": "roundrobin"})
}

#[test]
fn writes_are_published_again_after_restart() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::store(directory.path());
    rig.json("PUT", "/apisix/admin/upstreams/1", &upstream());
    rig.json("PUT", "/apisix/admin/routes/1", &json!({"uri": "/", "upstream_id": "1"}));
    assert_eq!(
        *rig.published.0.lock(),
        [(0, vec![]), (1, vec!["/upstreams/1".into()]), (2, vec!["/routes/1".into()])]
    );
    let (_, before) = rig.json("GET", "/apisix/admin/routes/1", &Value::Null);
    drop(rig);
    let rig = Rig::store(directory.path());
    assert_eq!(*rig.published.0.lock(), [(2, vec!["/upstreams/1".into(), "/routes/1".into()])]);
    assert_eq!(rig.json("GET", "/apisix/admin/routes/1", &Value::Null), (200, before));
}

/// Panics after a change is stored, and before it is in force.
fn panic_in_a_change(control: &mut super::ControlLoop) {
    control.reconciler.snapshot = model::Snapshot::default();
    panic!("the test wants it");
}

#[test]
fn thread_goes_on_after_a_panic_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::store(directory.path());
    rig.json("PUT", "/apisix/admin/routes/1", &json!({"uri": "/", "upstream": upstream()}));
    rig.reconcile.life.panicked();
    let (status, answer) = rig.json("PUT", "/apisix/admin/upstreams/1", &upstream());
    rig.reconcile.life.restarted();
    let message = answer["error_msg"].as_str().unwrap_or_default();
    assert!(
        status == 503 && message.contains("has panicked") && message.contains("nothing was written"),
        "{answer}"
    );
    assert_eq!(block_on(rig.reconcile.run(panic_in_a_change)), None);
    testkit::wait_until("the thread runs again", || {
        rig.json("PUT", "/apisix/admin/upstreams/1", &upstream()).0 == 201
    });
    let last = rig.published.0.lock().iter().rev().nth(1).cloned();
    assert_eq!(last, Some((1, vec!["/routes/1".into()])), "it is read again and in force");
    assert_eq!(rig.reconcile.life.panics(), 2);
}

#[test]
fn stored_text_is_read_byte_for_byte() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::store(directory.path());
    let (_, written) = rig.ask(
        "PUT",
        "/apisix/admin/routes/1",
        r#"{"uri":"/ä","upstream":{"nodes":{"b:1":1,"a:1":1},"type":"roundrobin"}}"#,
    );
    drop(rig);
    let mut store = crate::source::store::ConfigStore::open(directory.path()).unwrap();
    let (key, record) = store.load().unwrap().remove(0);
    assert_eq!(key, "routes/1");
    assert!(written.contains(&record.text), "{written} {}", record.text);
}

#[test]
fn admin_write_is_checked_once() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::store(directory.path());
    let checks = || crate::testing::CHECKS.load(std::sync::atomic::Ordering::Relaxed);
    let mut expected = 0;
    let mut check = |method: &str, body: Value| {
        let (status, answer) = rig.json(method, "/apisix/admin/services/1", &body);
        assert!(status == 200 || status == 201, "{status} {answer}");
        expected += 1;
        assert_eq!(checks(), expected, "{method} {body}");
    };
    let plugins = json!({"count": {"count": 1, "password": crate::testing::COUNTED_PASSWORD}});
    check("PUT", json!({"plugins": plugins}));
    check("PUT", json!({"plugins": plugins, "desc": "replaced"}));
    check("PATCH", json!({"desc": "patched"}));
    let snapshot = rig.view.load().snapshot.clone();
    let key = model::ObjectKey::new(model::ObjectKind::Service, "1").unwrap();
    assert_eq!(snapshot.get(&key).unwrap().resource.plugins().len(), 1);
}

#[test]
fn concurrent_writes_get_distinct_revisions() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::store(directory.path());
    const WRITERS: usize = 8;
    const WRITES: usize = 20;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let rig = &rig;
            scope.spawn(move || {
                for number in 0..WRITES {
                    let (status, _) =
                        rig.json("PUT", &format!("/apisix/admin/upstreams/{writer}-{number}"), &upstream());
                    assert_eq!(status, 201);
                }
            });
        }
    });
    let view = rig.view.load();
    assert_eq!(view.revision(), (WRITERS * WRITES) as u64);
    let mut indexes: Vec<u64> =
        view.all_written(model::ObjectKind::Upstream).iter().map(|written| written.modified_index).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, (1..=(WRITERS * WRITES) as u64).collect::<Vec<_>>());
    let revisions: Vec<u64> = rig.published.0.lock().iter().map(|(revision, _)| *revision).collect();
    assert!(revisions.is_sorted(), "{revisions:?}");
}

#[test]
fn objects_are_removed_when_they_expire() {
    let directory = tempfile::tempdir().unwrap();
    let source = crate::testing::embedded(ConfigStore::open(directory.path()).unwrap());
    let reconciler = super::Reconciler {
        facts: source.facts(),
        parts: super::ReconcileParts {
            catalog: crate::testing::catalog(),
            publisher: Box::new(crate::testing::Recorder::default()),
            clock: std::sync::Arc::new(crate::testing::HandClock::default()),
            beside_file: Vec::new(),
            auto_routes: None,
            view: crate::view::SharedView::default(),
            sealer: crate::testing::sealer(&[]),
            secrets: crate::testing::secrets(),
            ocsp: std::sync::Arc::default(),
            data: None,
        },
        snapshot: model::Snapshot::default(),
        automatic: super::automatic::Automatic::default(),
        good: super::good::GoodForms::default(),
        start_faults: super::start_faults::StartFaults::default(),
        faults: Vec::new(),
        document_faults: Vec::new(),
        compile_faults: Vec::new(),
        reference_faults: Vec::new(),
        fault_log: super::fault_log::FaultLog::default(),
        secrets_awaited: true,
        configs: std::sync::Arc::default(),
        changed: None,
        etcd: None,
        write_failure: None,
    };
    let inbox = std::sync::mpsc::sync_channel(1).1;
    let mut control = super::ControlLoop { source, reconciler, inbox };
    let clock = std::sync::Arc::new(crate::testing::HandClock::default());
    control.reconciler.parts.clock = std::sync::Arc::clone(&clock) as std::sync::Arc<dyn crate::clock::Clock>;
    let put = |id: &str, ttl_s| {
        let key = model::ObjectKey::new(model::ObjectKind::Upstream, id).unwrap();
        let body = upstream().as_object().unwrap().clone();
        let write = super::Write::Put { key, body, ttl_s };
        super::Signed { write, author: "tester".into(), condition: super::WriteCondition::default() }
    };
    let results = control.write(vec![put("short", Some(1.5)), put("long", Some(10.0)), put("kept", None)]);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let ids = |control: &super::ControlLoop| -> Vec<String> {
        let view = control.reconciler.parts.view.load();
        view.all_written(model::ObjectKind::Upstream)
            .iter()
            .map(|written| written.key.id.to_string())
            .collect()
    };
    let revision = |control: &super::ControlLoop| control.reconciler.parts.view.load().revision();
    clock.advance(1499);
    control.tick();
    assert_eq!(ids(&control), ["kept", "long", "short"]);
    clock.advance(1);
    control.tick();
    assert_eq!((ids(&control), revision(&control)), (vec!["kept".to_owned(), "long".to_owned()], 4));
    // A write without a time to live removes the expiry.
    assert!(control.write(vec![put("long", None)])[0].is_ok());
    clock.advance(1_000_000);
    control.tick();
    assert_eq!((ids(&control), revision(&control)), (vec!["kept".to_owned(), "long".to_owned()], 5));
    let kept = control.versions(u64::MAX, 2, &VersionFilter::default()).unwrap().versions;
    let by: Vec<_> = kept.iter().map(|version| (version.label.source, &*version.label.by)).collect();
    use crate::source::store::VersionSource;
    assert_eq!(by, [(VersionSource::Admin, "tester"), (VersionSource::Expiry, "weir")]);
}

/// A publisher that cannot compile one of two revisions, and panics at the other.
struct Clumsy;

impl super::Publisher for Clumsy {
    fn publish(&mut self, applied: &model::Applied) -> Vec<model::ConfigFault> {
        match applied.snapshot.revision() {
            1 => vec![model::ConfigFault::general("cannot be compiled")],
            2 => panic!("a mistake in compiling"),
            _ => Vec::new(),
        }
    }
}

#[test]
fn compile_fault_is_reported_and_thread_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let view = crate::view::SharedView::default();
    let (reconcile, thread) = super::Reconcile::start(
        crate::testing::embedded(ConfigStore::open(directory.path()).unwrap()),
        super::ReconcileParts {
            catalog: crate::testing::catalog(),
            publisher: Box::new(Clumsy),
            clock: std::sync::Arc::new(crate::testing::HandClock::default()),
            beside_file: Vec::new(),
            auto_routes: None,
            view: view.clone(),
            sealer: crate::testing::sealer(&[]),
            secrets: crate::testing::secrets(),
            ocsp: std::sync::Arc::default(),
            data: None,
        },
    )
    .unwrap();
    for revision in 1..=3 {
        let put = super::Write::Put {
            key: model::ObjectKey::new(model::ObjectKind::Upstream, "u").unwrap(),
            body: upstream().as_object().unwrap().clone(),
            ttl_s: None,
        };
        assert!(block_on(reconcile.write(put, "somebody".into())).is_ok());
        let faults: Vec<String> =
            view.load().compile_faults.iter().map(|fault| fault.reason.clone()).collect();
        match revision {
            1 => assert_eq!(faults, ["cannot be compiled"]),
            2 => assert!(faults.last().unwrap().contains("revision 2 cannot be compiled"), "{faults:?}"),
            _ => assert_eq!(view.load().revision(), 3),
        }
    }
    reconcile.stop();
    thread.join().unwrap();
}

/// A file that is rewritten and reloaded, step by step.
struct File {
    directory: tempfile::TempDir,
    rig: Option<Rig>,
    strict: bool,
}

impl File {
    fn new(strict: bool) -> File {
        File { directory: tempfile::tempdir().unwrap(), rig: None, strict }
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("weir.yaml")
    }

    /// Takes over `text`; expects these faults (parts of them) and then these URIs in force.
    #[track_caller]
    fn check(&mut self, text: &str, faults: &[&str], uris: &[&str]) {
        std::fs::write(self.path(), text).unwrap();
        let found = match &self.rig {
            Some(rig) => block_on(rig.reconcile.reload()),
            None => {
                let rig = Rig::file(&self.path(), self.strict).unwrap();
                let faults = rig.view.load().faults.clone();
                self.rig = Some(rig);
                faults
            }
        };
        assert_eq!(found.len(), faults.len(), "{found:#?}");
        for (fault, part) in found.iter().zip(faults) {
            assert!(fault.contains(part), "{fault} lacks {part}");
        }
        let view = self.rig.as_ref().unwrap().view.load();
        let mut routes: Vec<String> = view
            .snapshot
            .iter(model::ObjectKind::Route)
            .map(|route| {
                serde_json::from_str::<Value>(&route.written.text).unwrap()["uri"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        routes.sort();
        assert_eq!(routes, uris);
    }
}

const GOOD: &str = "routes:\n- {id: a, uri: /a, upstream: {nodes: {\"h:1\": 1}, type: roundrobin}}\n";

#[test]
fn good_objects_of_a_faulty_file_apply() {
    let mut file = File::new(false);
    file.check(GOOD, &[], &["/a"]);
    file.check("routes: [", &["weir.yaml:1: "], &["/a"]);
    let more = format!("{GOOD}- {{id: b, uri: /b, upstream_id: u}}\n");
    file.check(&more, &["weir.yaml:3: routes[1].upstream_id: upstream \"u\" does not exist"], &["/a"]);
    file.check(
        &format!("{more}upstreams:\n- {{id: u, nodes: {{\"h:1\": 1}}, type: roundrobin}}\n"),
        &[],
        &["/a", "/b"],
    );
    let bad = GOOD.replace("uri: /a", "uri: 5");
    file.check(&bad, &["weir.yaml:2: routes[0].uri: "], &["/a"]);
    file.check("routes: 1\n", &["weir.yaml:1: routes: `routes` must be a list"], &["/a"]);
    file.check("routes:\n- 7\n", &["weir.yaml:2: routes[0]: a route must be a mapping"], &["/a"]);
    file.check("routes: []\n#END\n", &[], &[]);
}

#[test]
fn unchanged_object_keeps_its_revision() {
    let mut file = File::new(false);
    file.check(GOOD, &[], &["/a"]);
    file.check(&format!("# a comment\n{GOOD}"), &[], &["/a"]);
    let published = file.rig.as_ref().unwrap().published.0.lock().clone();
    assert_eq!(published, [(1, vec!["/routes/a".to_owned()])], "the second version changed nothing");
    file.check(
        &format!("{GOOD}- {{id: b, uri: /b, upstream: {{nodes: {{\"h:1\": 1}}, type: roundrobin}}}}\n"),
        &[],
        &["/a", "/b"],
    );
    let view = file.rig.as_ref().unwrap().view.load();
    let indexes: Vec<_> = view
        .all_written(model::ObjectKind::Route)
        .iter()
        .map(|written| (written.created_index, written.modified_index))
        .collect();
    assert_eq!(indexes, [(1, 1), (2, 2)]);
}

#[test]
fn strict_file_applies_whole_or_not_at_all() {
    let mut file = File::new(true);
    file.check(GOOD, &[], &["/a"]);
    let half = format!("{}- {{id: b, uri: /b, upstream_id: none}}\n", GOOD.replace("/a", "/other"));
    file.check(&half, &["weir.yaml:3: "], &["/a"]);
    file.check(&format!("x: 1\n{}", GOOD.replace("/a", "/other")), &["weir.yaml:1: "], &["/a"]);
    file.check(&GOOD.replace("/a", "/other"), &[], &["/other"]);
}

#[test]
fn unusable_file_prevents_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weir.yaml");
    let check = |text: Option<&str>, strict: bool, expected: Option<&str>| {
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        let refusal = Rig::file(&path, strict).err().map(|fault| fault.to_string());
        assert_eq!(refusal.is_some(), expected.is_some(), "{text:?} {refusal:?}");
        assert!(refusal.unwrap_or_default().contains(expected.unwrap_or_default()), "{text:?}");
    };
    let half = format!("{GOOD}- {{id: b, uri: /b, upstream_id: none}}\n");
    check(None, false, Some("weir.yaml:1: cannot be read"));
    check(Some("routes: ["), false, Some("weir.yaml:1: "));
    check(Some(""), false, None);
    check(Some(&half), false, None);
    check(Some(&half), true, Some("weir.yaml:3: routes[1].upstream_id: "));
}

#[test]
fn admin_api_reads_file_source_but_refuses_writes() {
    let mut file = File::new(false);
    file.check(GOOD, &[], &["/a"]);
    let rig = file.rig.as_ref().unwrap();
    assert_eq!(rig.json("GET", "/apisix/admin/routes/a", &Value::Null).0, 200);
    for (method, target) in
        [("PUT", "routes/b"), ("PATCH", "routes/a"), ("DELETE", "routes/a"), ("POST", "routes")]
    {
        let (status, body) = rig.json(method, &format!("/apisix/admin/{target}"), &json!({"uri": "/"}));
        let message = body["error_msg"].as_str().unwrap().to_owned();
        assert!(
            status == 405 && message.contains("weir.yaml; change it there"),
            "{method} {status} {message}"
        );
    }
}

#[test]
fn check_finds_the_faults_of_a_start() {
    let directory = tempfile::tempdir().unwrap();
    let check = |text: &str, faults: &[&str]| {
        let path: &Path = &directory.path().join("weir.yaml");
        std::fs::write(path, text).unwrap();
        let found = crate::source::file::check_resource_file(path, &crate::testing::catalog()).faults;
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), faults.len(), "{found:#?}");
        for (fault, part) in found.iter().zip(faults) {
            assert!(fault.contains(part), "{fault} lacks {part}");
        }
    };
    check(GOOD, &[]);
    check(
        "routes:\n- id: a\n  uri: /a\n  plugins:\n    count:\n      count: 0\n  desc: 5\n",
        &["weir.yaml:6: routes[0].plugins.count.count: ", "weir.yaml:7: routes[0].desc: "],
    );
    check("consumers:\n- username: j\n  plugins: {none: {}}\nx: 1\n", &["weir.yaml:3: ", "weir.yaml:4: x: "]);
}

fn hand_over(rig: &Rig) -> HandOver {
    HandOver::new(rig.reconcile.clone(), tokio::sync::watch::Sender::new(false))
}

#[test]
fn returned_store_has_writes_made_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let lock = DirectoryLock::take(directory.path()).unwrap();
    let rig = Rig::locked_store(lock.try_clone().unwrap());
    rig.json("PUT", "/apisix/admin/upstreams/kept", &upstream());
    rig.json("PUT", "/apisix/admin/upstreams/removed", &upstream());
    let released = hand_over(&rig).release(None).unwrap();
    let (status, _) = rig.json("GET", "/apisix/admin/upstreams/kept", &Value::Null);
    assert_eq!(status, 200, "reading goes on");
    let other = Rig::locked_store(lock.try_clone().unwrap());
    assert_eq!(other.json("PUT", "/apisix/admin/upstreams/new", &upstream()).0, 201);
    assert_eq!(other.json("DELETE", "/apisix/admin/upstreams/removed", &Value::Null).0, 200);
    std::thread::scope(|scope| {
        // A write that arrives in the meantime waits, and is done on top of the changes of the other process.
        let waiting = scope.spawn(|| rig.json("PUT", "/apisix/admin/upstreams/late", &upstream()).0);
        drop(other);
        drop(released);
        assert_eq!(waiting.join().unwrap(), 201);
    });
    assert_eq!(rig.view.load().revision(), 5);
    let status = |id: &str| rig.json("GET", &format!("/apisix/admin/upstreams/{id}"), &Value::Null).0;
    assert_eq!(["kept", "removed", "new", "late"].map(status), [200, 404, 200, 200]);
}

#[test]
fn released_store_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let lock = DirectoryLock::take(directory.path()).unwrap();
    let rig = Rig::locked_store(lock.try_clone().unwrap());
    let released = hand_over(&rig).release(None).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| rig.json("PUT", "/apisix/admin/upstreams/late", &upstream()));
        released.for_good();
        let (status, answer) = waiting.join().unwrap();
        assert_eq!(status, 503, "{answer}");
    });
    let heir = Rig::locked_store(lock);
    assert_eq!(heir.json("GET", "/apisix/admin/upstreams/late", &Value::Null).0, 404);
}

#[test]
fn secrets_are_encrypted_in_the_store_only() {
    let directory = tempfile::tempdir().unwrap();
    let records = || ConfigStore::open(directory.path()).unwrap().load().unwrap();
    let text_of = |records: &[(String, crate::source::store::StoredRecord)], path: &str| {
        records.iter().find(|(key, _)| key == path).unwrap().1.text.clone()
    };
    let key = |rig: &Rig, name: &str| {
        let (status, body) = rig.json("GET", &format!("/apisix/admin/consumers/{name}"), &Value::Null);
        (status, body["value"]["plugins"]["auth"]["key"].clone())
    };
    let consumer = |name: &str, key: &str| json!({"username": name, "plugins": {"auth": {"key": key}}});
    // Written before there was a keyring; one of them looks encrypted.
    let before = Rig::store(directory.path());
    for (name, key) in [("old", "old-s3cr3t"), ("like", "AAECAwQFBgcICQoLDA0ODw==")] {
        assert_eq!(before.json("PUT", "/apisix/admin/consumers", &consumer(name, key)).0, 201);
    }
    drop(before);
    let rig = Rig::sealed_store(directory.path(), &["edd1c9f0985e76a2"]);
    assert_eq!(key(&rig, "old"), (200, json!("old-s3cr3t")));
    assert_eq!(key(&rig, "like"), (200, json!("AAECAwQFBgcICQoLDA0ODw==")));
    let (status, answer) = rig.json("PUT", "/apisix/admin/consumers", &consumer("new", "new-s3cr3t"));
    let shown = answer["value"]["plugins"]["auth"]["key"].as_str().unwrap_or_default();
    assert!(status == 201 && !shown.is_empty() && shown != "new-s3cr3t", "shown as it is stored: {answer}");
    assert_eq!(key(&rig, "new"), (200, json!("new-s3cr3t")));
    drop(rig);
    let stored = records();
    assert!(text_of(&stored, "consumers/old").contains("old-s3cr3t"));
    assert!(!text_of(&stored, "consumers/new").contains("new-s3cr3t"));

    // A new key in front; the old one still decrypts.
    let rig = Rig::sealed_store(directory.path(), &["0123456789abcdef0123456789abcdef", "edd1c9f0985e76a2"]);
    assert_eq!(key(&rig, "new"), (200, json!("new-s3cr3t")));
    assert_eq!(rig.json("PUT", "/apisix/admin/consumers", &consumer("old", "old-s3cr3t")).0, 200);
    drop(rig);
    assert!(!text_of(&records(), "consumers/old").contains("old-s3cr3t"));

    // Without the right key the object is faulty: it is not in force, the reason is reported, and it can be
    // written again.
    let rig = Rig::sealed_store(directory.path(), &["edd1c9f0985e76a2"]);
    let view = rig.view.load();
    let faults: Vec<String> = view.snapshot.faults().iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with("consumers/old: /plugins/auth/key cannot be decrypted"), "{faults:?}");
    assert_eq!(key(&rig, "new"), (200, json!("new-s3cr3t")));
    let (_, shown) = rig.ask("GET", "/apisix/admin/consumers/old", "");
    assert!(shown.contains("cannot be decrypted") && !shown.contains("sealed:"), "{shown}");
    assert_eq!(rig.json("PUT", "/apisix/admin/consumers", &consumer("old", "other")).0, 200);
    assert!(rig.view.load().snapshot.faults().is_empty());
    drop((view, rig));
    let rig = Rig::store(directory.path());
    assert_eq!(rig.view.load().snapshot.faults().len(), 2, "without a keyring both stay closed");
}

/// The attention lines about writes, and `write_failure` of the status.
fn shown_failure(rig: &Rig) -> (Vec<Value>, Value) {
    let view = rig.view.load();
    let (_, status) = rig.json("GET", "/apisix/admin/weir/status", &Value::Null);
    let failure = view.write_failure.as_ref().map(|failure| json!(failure.reason));
    assert_eq!(failure.unwrap_or_default(), status["write_failure"]["reason"]);
    let (_, overview) = rig.json("GET", "/apisix/admin/weir/overview", &Value::Null);
    let lines = overview["attention"].as_array().cloned().unwrap_or_default();
    (
        lines.into_iter().filter(|line| line["what"] == "writes_fail").collect(),
        status["write_failure"].clone(),
    )
}

#[test]
fn failed_writes_are_shown_until_one_succeeds() {
    let directory = tempfile::tempdir().unwrap();
    let mut rig = Rig::store(directory.path());
    assert_eq!(rig.json("PUT", "/apisix/admin/upstreams/1", &upstream()).0, 201);
    // Another holder of the file makes every write fail, as a full disk does.
    let file = directory.path().join("store.redb");
    let hold = move |control: &mut super::ControlLoop| {
        control.source.release();
        redb::Database::open(file).unwrap()
    };
    let holder = block_on(rig.reconcile.run(hold)).unwrap();
    let since_ms = crate::clock::Clock::unix_ms(&*rig.clock);
    assert_eq!(rig.json("PUT", "/apisix/admin/upstreams/2", &upstream()).0, 503);
    rig.clock.advance(60_000);
    assert_eq!(rig.json("POST", "/apisix/admin/weir/apply", &json!({"upstreams": []})).0, 503);
    let (lines, failure) = shown_failure(&rig);
    assert_eq!((&failure["since_ms"], lines.len()), (&json!(since_ms), 1), "{failure} {lines:?}");
    assert!(lines[0]["detail"].as_str().unwrap().contains("; since 00:00:00 UTC"), "{lines:?}");
    drop(holder);
    assert_eq!(rig.json("PUT", "/apisix/admin/upstreams/2", &upstream()).0, 201);
    rig.measure(Vec::new());
    assert_eq!(shown_failure(&rig), (Vec::new(), Value::Null));
}
