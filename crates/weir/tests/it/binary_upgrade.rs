//! Binary upgrades under traffic: a new process takes over sockets and store, no connection is refused, no
//! acknowledged write is lost, and a failed upgrade leaves everything as it was.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Client, Origin, Reply, Signal, Successor, Weir, wait_for, wait_until};

use crate::command::Outcome;
use crate::load::Load;
use crate::support::{TUNNEL, lasting_origin};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// A gateway on its store, with `settings` as the text of its settings file.
fn gateway(settings: &str, arguments: &[&str]) -> Weir {
    Weir::builder(BINARY).settings(settings).arguments(arguments).start()
}

fn route_to(weir: &Weir, origin: &Origin) {
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("routes/1", json!({"uri": "/*", "enable_websocket": true, "upstream": upstream}));
}

fn run_upgrade(weir: &Weir) -> Outcome {
    let data = weir.data().to_string_lossy().into_owned();
    crate::command::weir(weir.directory(), &["upgrade", "--data", &data], &[])
}

fn revision(weir: &Weir, id: &str) -> u64 {
    let (status, answer) = weir.admin("GET", &format!("routes/{id}"), Value::Null);
    assert_eq!(status, 200, "{answer}");
    answer["modifiedIndex"].as_u64().unwrap()
}

#[test]
fn upgrades_with_other_worker_counts_fail_nothing() {
    let origin = Origin::answering("served");
    let mut weir = gateway("workers: 2\n", &["--upgrade-grace", "10"]);
    route_to(&weir, &origin);
    let load = Load::start(weir.proxy(), "/");
    let mut heirs: Vec<Successor> = Vec::new();
    let mut before = revision(&weir, "1");
    for workers in ["4", "1", "3"] {
        weir.rewrite_settings(&format!("workers: {workers}\n"));
        let old = match heirs.last() {
            Some(heir) => {
                heir.upgrade();
                heir.pid()
            }
            None => {
                weir.upgrade();
                weir.pid()
            }
        };
        heirs.push(weir.wait_for_successor(old));
        load.goes_on();
        weir.put(
            "routes/other",
            json!({"uri": "/other", "desc": workers, "upstream": {"nodes": {"127.0.0.1:1": 1}}}),
        );
        let now = revision(&weir, "other");
        assert!(now > before, "{now} after {before}");
        before = now;
        match heirs.len() {
            1 => assert!(weir.wait_until_gone().success()),
            number => heirs[number - 2].wait_until_gone(),
        }
        let status = Client::connect(weir.address("control")).get("/v1/weir/listeners");
        assert_eq!(status.json().as_array().unwrap().len(), 5);
        assert_eq!(Client::connect(weir.address("status")).get("/status/ready").status, 200);
        let metrics = Client::connect(weir.address("metrics")).get("/apisix/prometheus/metrics").text();
        let running = metrics.lines().filter(|line| line.starts_with("weir_config_revision{")).count();
        assert_eq!(running.to_string(), workers, "{metrics}");
        load.goes_on();
    }
    assert!(load.stop() > 0);
    let readies = weir.stdout().iter().filter(|line| *line == "ready").count();
    assert_eq!(readies, 4, "each told that it serves");
    let heir = heirs.pop().unwrap();
    heir.terminate();
    heir.wait_until_gone();
    assert_eq!(weir.holder(), None);
}

#[test]
fn acknowledged_writes_stay_and_revisions_grow() {
    let weir = gateway("workers: 1\n", &["--upgrade-grace", "1"]);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (admin, stop) = (weir.address("admin"), stop.clone());
        move || {
            let mut acknowledged: Vec<(usize, u64)> = Vec::new();
            let mut number = 0;
            while !stop.load(Ordering::SeqCst) {
                number += 1;
                let body = json!({"uri": format!("/{number}"), "upstream": {"nodes": {"127.0.0.1:1": 1}}});
                let mut client = Client::connect(admin);
                let key = [("X-API-KEY", ADMIN_KEY)];
                let path = format!("/apisix/admin/routes/{number}");
                match client.try_request("PUT", &path, &key, body.to_string().as_bytes()) {
                    Ok(answer) if answer.status == 201 => {
                        let revision = answer.header("x-weir-revision").unwrap().parse().unwrap();
                        acknowledged.push((number, revision));
                    }
                    // Not done, or its outcome is unknown: the write was not acknowledged.
                    Ok(answer) => assert_eq!(answer.status, 503, "{}", answer.text()),
                    Err(_) => {}
                }
            }
            acknowledged
        }
    });
    let mut heirs: Vec<Successor> = Vec::new();
    for _ in 0..3 {
        let old = heirs.last().map_or(weir.pid(), Successor::pid);
        heirs.last().map_or_else(|| weir.upgrade(), Successor::upgrade);
        heirs.push(weir.wait_for_successor(old));
    }
    stop.store(true, Ordering::SeqCst);
    let acknowledged = writer.join().unwrap();
    assert!(!acknowledged.is_empty());
    assert!(acknowledged.is_sorted_by(|one, next| one.1 < next.1), "{acknowledged:?}");
    for (number, at) in acknowledged {
        assert_eq!(revision(&weir, &number.to_string()), at, "route {number}");
    }
}

#[test]
fn write_on_new_connection_survives_the_upgrade() {
    let weir = gateway("workers: 1\n", &["--upgrade-grace", "1"]);
    let body = json!({"uri": "/a", "upstream": {"nodes": {"127.0.0.1:1": 1}}});
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|number| {
            let (admin, stop, body) = (weir.address("admin"), stop.clone(), body.to_string());
            std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let path = format!("/apisix/admin/routes/{number}");
                    let key = [("X-API-KEY", ADMIN_KEY)];
                    let answer = Client::connect(admin).request("PUT", &path, &key, body.as_bytes());
                    assert!(matches!(answer.status, 200 | 201), "{}: {}", answer.status, answer.text());
                }
            })
        })
        .collect();
    let mut heirs: Vec<Successor> = Vec::new();
    for _ in 0..3 {
        let old = heirs.last().map_or(weir.pid(), Successor::pid);
        // The second signal arrives while the first upgrade is in progress.
        for _ in 0..2 {
            heirs.last().map_or_else(|| weir.upgrade(), Successor::upgrade);
        }
        heirs.push(weir.wait_for_successor(old));
        let readies = heirs.len() + 1;
        wait_until("the successor obeys signals", || {
            weir.stdout().iter().filter(|line| *line == "ready").count() == readies
        });
    }
    stop.store(true, Ordering::SeqCst);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

#[test]
fn upgrade_command_prints_the_outcome() {
    let mut weir = gateway("workers: 1\n", &["--upgrade-grace", "1"]);
    let outcome = run_upgrade(&weir);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{outcome:?}");
    let heir = weir.wait_for_successor(weir.pid());
    let expected = format!(
        "process {} has taken over from process {}: weir {}\n",
        heir.pid(),
        weir.pid(),
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(outcome.stdout, expected);
    assert!(weir.wait_until_gone().success());
    heir.terminate();
    heir.wait_until_gone();
    let outcome = run_upgrade(&weir);
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("no node runs on the data folder"), "{outcome:?}");
}

/// The binary in a folder of its own, where a test can replace it.
fn own_binary(folder: &Path) -> PathBuf {
    let path = folder.join("weir");
    if fs::hard_link(BINARY, &path).is_err() {
        fs::copy(BINARY, &path).unwrap();
    }
    path
}

/// Replaces the binary by another file, as a package manager does.
fn replace(binary: &Path, text: &str, mode: u32) {
    let beside = binary.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::set_permissions(&beside, fs::Permissions::from_mode(mode)).unwrap();
    fs::rename(&beside, binary).unwrap();
}

#[test]
fn failed_upgrade_leaves_old_process_serving() {
    let origin = Origin::answering("served");
    let folder = tempfile::tempdir().unwrap();
    let binary = own_binary(folder.path());
    let weir = Weir::builder(binary.to_str().unwrap())
        .settings("workers: 2\nadmin: 127.0.0.1:0\n")
        .arguments(&["--upgrade-timeout", "2", "--upgrade-grace", "1"])
        .start();
    route_to(&weir, &origin);
    let load = Load::start(weir.proxy(), "/");
    let check = |reason: &str| {
        let before = revision(&weir, "1");
        let outcome = run_upgrade(&weir);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""), "{outcome:?}");
        let expected = format!("process {} goes on serving: ", weir.pid());
        assert!(outcome.stderr.contains(&expected) && outcome.stderr.contains(reason), "{outcome:?}");
        assert_eq!(weir.holder(), Some(weir.pid()));
        route_to(&weir, &origin);
        assert!(revision(&weir, "1") > before, "the Admin API writes as before");
        load.goes_on();
    };
    replace(&binary, "#!/bin/sh\nexit 3\n", 0o755);
    check("the new process ended (exit status: 3) before it was ready");
    replace(&binary, "no program", 0o644);
    check(&format!("cannot start {}: Permission denied", binary.display()));
    replace(&binary, "#!/bin/sh\nexec sleep 600\n", 0o755);
    check("the new process was not ready within 2 seconds");
    fs::remove_file(&binary).unwrap();
    check(&format!("cannot start {}: No such file", binary.display()));
    own_binary(folder.path());
    weir.rewrite_settings("workers: none\nadmin: 127.0.0.1:0\n");
    check("weir.yaml:1: workers: `none`");
    // An address that another process has taken.
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = stranger.local_addr().unwrap();
    weir.rewrite_settings(&format!("workers: 2\nadmin: {taken}\n"));
    check(&format!("cannot listen on {taken}"));
    // Once the cause is removed, the upgrade succeeds.
    weir.rewrite_settings("workers: 2\nadmin: 127.0.0.1:0\n");
    assert_eq!(run_upgrade(&weir).code, 0);
    let _heir = weir.wait_for_successor(weir.pid());
    load.goes_on();
    assert!(load.stop() > 0);
}

#[test]
fn stop_cancels_upgrade_in_progress() {
    let folder = tempfile::tempdir().unwrap();
    let binary = own_binary(folder.path());
    let mut weir = Weir::builder(binary.to_str().unwrap()).start();
    let started = folder.path().join("started");
    replace(&binary, &format!("#!/bin/sh\necho $$ > {}\nexec sleep 600\n", started.display()), 0o755);
    weir.upgrade();
    let child: u32 =
        wait_for("the new process runs", || fs::read_to_string(&started).ok()?.trim().parse().ok());
    weir.terminate();
    assert_eq!(weir.wait_for_exit().code(), Some(0));
    assert!(!Path::new(&format!("/proc/{child}")).exists(), "the new process was ended with it");
    assert!(weir.stderr().iter().any(|line| line.contains("the node was told to end")));
}

#[test]
fn old_process_ends_within_its_upgrade_grace() {
    let (asked, go) = (Signal::new(), Signal::new());
    let origin = lasting_origin(&asked, &go);
    let mut weir = gateway("workers: 1\n", &["--upgrade-grace", "3"]);
    route_to(&weir, &origin);
    let (mut tunnel, mut busy, mut idle, mut probe) =
        (weir.client(), weir.client(), weir.client(), weir.client());
    assert_eq!(tunnel.request("GET", "/chat", &TUNNEL, b"").status, 101);
    for client in [&mut idle, &mut probe] {
        assert_eq!(client.get("/").status, 200);
    }
    busy.send(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(asked.wait());
    weir.upgrade();
    let heir = weir.wait_for_successor(weir.pid());
    assert_eq!(weir.get("/").text(), "served");
    tunnel.send(b"still here");
    assert_eq!(tunnel.read_bytes(10), b"still here");
    // The new process serves for a moment before the old one learns of it.
    wait_until("the old process ends its connections", || {
        let answer = probe.try_request("GET", "/", &[], b"");
        answer.map_or(true, |response| response.header("connection") == Some("close"))
    });
    // The old process may begin to drain a moment after the new one serves; the closed idle connection shows
    // that it has.
    assert!(idle.closes_cleanly(), "an idle connection of the old process ends");
    go.set();
    let response = busy.read_response(false).unwrap();
    assert_eq!((response.text(), response.header("connection")), ("done".to_owned(), Some("close")));
    assert!(weir.wait_until_gone().success(), "the tunnel does not keep the old process for ever");
    assert!(tunnel.read_to_end().is_empty());
    assert_eq!(weir.get("/").text(), "served");
    heir.terminate();
    heir.wait_until_gone();
}

#[test]
fn old_tunnel_does_not_keep_data_and_ports() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::KILL] {
        let origin = lasting_origin(&Signal::new(), &Signal::new());
        let mut weir = gateway("workers: 1\n", &["--grace", "5"]);
        route_to(&weir, &origin);
        let mut tunnel = weir.client();
        assert_eq!(tunnel.request("GET", "/chat", &TUNNEL, b"").status, 101);
        weir.upgrade();
        let heir = weir.wait_for_successor(weir.pid());
        // The Admin API answers a write only when the old process begins no further request.
        route_to(&weir, &origin);
        let pid = rustix::process::Pid::from_raw(heir.pid().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        heir.wait_until_gone();
        assert_eq!(weir.holder(), None, "after {signal:?} the old process holds the data folder");
        let listeners = ["proxy", "admin", "control", "status", "metrics"]
            .map(|name| format!("{name}: '{}'\n", weir.address(name)));
        let data = weir.data().to_string_lossy().into_owned();
        let third = gateway(&listeners.concat(), &["--data", &data]);
        for _ in 0..20 {
            assert_eq!(third.get("/").text(), "served");
            assert_eq!(revision(&third, "1"), revision(&weir, "1"), "at the same address");
        }
        assert!(weir.is_running());
        tunnel.send(b"still here");
        assert_eq!(tunnel.read_bytes(10), b"still here");
    }
}

#[test]
fn upgrade_keeps_live_listeners_and_new_settings() {
    let mut weir = Weir::builder(BINARY)
        .settings("proxy: 127.0.0.1:0\nworkers: 2\n")
        .arguments(&["--grace", "1"])
        .start();
    let first = weir.proxy();
    weir.rewrite_settings("proxy: [127.0.0.1:0, 127.0.0.1:0]\nworkers: 2\nserver_header: second\n");
    weir.reload();
    let lines = || {
        weir.stdout()
            .iter()
            .filter_map(|line| line.strip_prefix("listening proxy ")?.parse().ok())
            .collect::<Vec<std::net::SocketAddr>>()
    };
    let second = wait_for("the second listener", || lines().get(1).copied());
    assert_ne!(Client::connect(second).get("/").header("server"), Some("second"));
    weir.upgrade();
    let heir = weir.wait_for_successor(weir.pid());
    assert!(weir.wait_until_gone().success());
    for address in [first, second] {
        assert_eq!(Client::connect(address).get("/").header("server"), Some("second"), "{address}");
    }
    // The successor applies further changes of the list.
    weir.rewrite_settings(&format!("proxy: '{second}'\nworkers: 2\nserver_header: second\n"));
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(heir.pid()).unwrap()).unwrap(),
        rustix::process::Signal::HUP,
    )
    .unwrap();
    wait_until("the first is closed", || std::net::TcpStream::connect(first).is_err());
    assert_eq!(Client::connect(second).get("/").status, 404);
}

/// The parent of a process.
fn parent_of(process: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    parent.trim().parse().unwrap()
}

#[test]
fn service_manager_gets_the_main_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(testkit::WAIT_LIMIT)).unwrap();
    let notice = || {
        let mut room = [0; 64];
        let length = manager.recv(&mut room).unwrap();
        String::from_utf8_lossy(&room[..length]).into_owned()
    };
    // An open request keeps the old process running until the test ends it.
    let answer = Signal::new();
    let may = answer.clone();
    let origin =
        Origin::start(move |_| Reply::new().wait(&may).send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    let mut weir = Weir::builder(BINARY)
        .arguments(&["--grace", "30"])
        .environment("NOTIFY_SOCKET", path.to_str().unwrap())
        .start();
    assert_eq!(notice(), "READY=1");
    route_to(&weir, &origin);
    let mut client = Client::connect(weir.proxy());
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(1);
    weir.upgrade();
    let heir = weir.wait_for_successor(weir.pid());
    assert_eq!(notice(), format!("MAINPID={}", heir.pid()));
    // Checked, because a service manager watches only its own children.
    let parent = parent_of(heir.pid());
    assert_ne!(parent, weir.pid(), "{} is the old process's child", heir.pid());
    assert!(Path::new(&format!("/proc/{}", weir.pid())).exists(), "the old process has not ended yet");
    answer.set();
    assert_eq!(client.read_response(false).unwrap().status, 200);
    assert!(weir.wait_until_gone().success());
    heir.terminate();
    // systemd accepts messages of the main process only: the successor has sent none before, and its
    // predecessor none since.
    assert_eq!(notice(), "STOPPING=1\nEXTEND_TIMEOUT_USEC=40000000", "the time of `grace` and some more");
    heir.wait_until_gone();
}

#[test]
fn declarative_instance_is_upgraded() {
    let origin = Origin::answering("served");
    let resources = crate::support::everything_to(origin.address(), "");
    let mut weir =
        Weir::builder(BINARY).resources(&resources).own_admin_key().arguments(&["--grace", "1"]).start();
    assert_eq!(weir.holder(), Some(weir.pid()), "the Admin key's folder is there, so it is locked");
    weir.upgrade();
    let heir = weir.wait_for_successor(weir.pid());
    assert!(weir.wait_until_gone().success());
    assert_eq!(weir.get("/").text(), "served");
    heir.terminate();
    heir.wait_until_gone();
}
