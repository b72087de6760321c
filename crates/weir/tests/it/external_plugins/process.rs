//! The process of the runner: its start, its output, its end, and its replacement without a lost request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use testkit::{Origin, Weir, plugin_runner, wait_until};

use super::{builder, conf, is_alive, process_of, route, runner, running};
use crate::support::BINARY;

fn gateway() -> (Origin, Weir) {
    let arguments = ["--plugin-runner-environment", "GREETING=good, day", "--grace", "1"];
    let weir = running(builder(&plugin_runner::stand_in()).arguments(&arguments).start());
    let origin = Origin::answering("from upstream");
    weir.put("routes/1", route(&origin, "/*", json!({"ext-plugin-pre-req": conf("slow", "")})));
    (origin, weir)
}

/// Sends requests until `done` returns; each has to succeed.
fn while_requests_succeed(weir: &Weir, done: impl FnOnce()) {
    let over = Arc::new(AtomicBool::new(false));
    let (proxy, is_over) = (weir.proxy(), over.clone());
    let requests = std::thread::spawn(move || {
        let mut statuses = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            statuses.push(testkit::Client::connect(proxy).get("/").status);
        }
        statuses
    });
    done();
    over.store(true, Ordering::Relaxed);
    let statuses = requests.join().unwrap();
    assert!(!statuses.is_empty() && statuses.iter().all(|status| *status == 200), "{statuses:?}");
}

#[test]
fn output_is_logged_and_secrets_are_kept() {
    let (_origin, weir) = gateway();
    for line in ["stand-in listens, good, day", "variables of the gateway: []"] {
        wait_until("the line is logged", || weir.stderr().iter().any(|one| one.contains(line)));
    }
    let shown = runner(&weir);
    assert_eq!(shown["command"], json!(plugin_runner::stand_in()));
    assert!(shown["socket"].as_str().unwrap().ends_with("/runner.sock"), "{shown}");
}

#[test]
fn reload_replaces_runner_without_lost_request() {
    let (_origin, weir) = gateway();
    let before = process_of(&weir);
    while_requests_succeed(&weir, || {
        weir.reload();
        wait_until("another runner takes calls", || process_of(&weir) != before);
        wait_until("the old runner has ended", || !is_alive(before));
    });
}

#[test]
fn runner_ends_with_the_gateway() {
    let (_origin, mut weir) = gateway();
    let process = process_of(&weir);
    let folder = runner(&weir)["socket"].as_str().unwrap().trim_end_matches("/runner.sock").to_owned();
    assert!(is_alive(process) && std::path::Path::new(&folder).is_dir());
    weir.terminate();
    weir.wait_for_exit();
    assert!(!is_alive(process), "it is ended before the gateway");
    assert!(!std::path::Path::new(&folder).exists());
}

#[test]
fn runner_ends_with_a_killed_gateway() {
    let (_origin, mut weir) = gateway();
    let process = process_of(&weir);
    weir.kill();
    wait_until("the runner has ended", || !is_alive(process));
}

#[test]
fn upgrade_gives_the_successor_a_runner_of_its_own() {
    let (_origin, mut weir) = gateway();
    let (before, own) = (process_of(&weir), weir.pid());
    let mut successor = None;
    while_requests_succeed(&weir, || {
        weir.upgrade();
        successor = Some(weir.wait_for_successor(own));
    });
    weir.wait_until_gone();
    wait_until("the old runner has ended", || !is_alive(before));
    assert_eq!(weir.get("/").status, 200);
    assert_ne!(process_of(&weir), before);
    drop(successor);
}

#[test]
fn program_that_cannot_start_is_tried_again() {
    let weir = builder(&["/no/such/program".to_owned()]).start();
    let origin = Origin::answering("from upstream");
    weir.put("routes/1", route(&origin, "/*", json!({"ext-plugin-pre-req": conf("pass", "")})));
    wait_until("it was tried twice", || runner(&weir)["restarts"].as_u64() >= Some(2));
    assert_eq!(weir.get("/").status, 503);
    let said = "the plugin runner /no/such/program cannot be started: No such file or directory";
    wait_until("the log has the reason", || weir.stderr().iter().any(|line| line.contains(said)));
    wait_until("the cause of the request is logged", || {
        weir.stderr()
            .iter()
            .any(|line| line.contains("ext-plugin-pre-req: there is no plugin runner: it has ended"))
    });
}

#[test]
fn runner_follows_changed_settings() {
    let settings = |more: &str| format!("grace: 1\nplugin_runner_timeout_ms: 5000\n{more}");
    let weir = Weir::builder(BINARY).settings(&settings("")).start();
    let origin = Origin::answering("from upstream");
    weir.put("routes/1", route(&origin, "/*", json!({"ext-plugin-pre-req": conf("pass", "")})));
    assert_eq!((weir.get("/").status, &runner(&weir)["state"]), (503, &json!("unmanaged")));
    weir.rewrite_settings(&settings(&format!("plugin_runner: {}\n", json!(plugin_runner::stand_in()))));
    weir.reload();
    let weir = running(weir);
    assert_eq!(weir.get("/").status, 200);
    let process = process_of(&weir);
    // A program that fails does not take the place of one that runs.
    weir.rewrite_settings(&settings("plugin_runner: [/no/such/program]\n"));
    weir.reload();
    wait_until("the failure is logged", || {
        weir.stderr()
            .iter()
            .any(|line| line.contains("the new plugin runner has failed; the one that runs stays"))
    });
    assert_eq!((weir.get("/").status, process_of(&weir)), (200, process));
    weir.rewrite_settings(&settings(""));
    weir.reload();
    wait_until("the runner has ended", || !is_alive(process));
    assert_eq!(weir.get("/").status, 503);
}

#[test]
fn socket_of_a_foreign_runner_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("x.sock");
    let command = plugin_runner::stand_in();
    let start = || {
        let mut runner = std::process::Command::new(&command[0]);
        runner.arg(&command[1]).env("APISIX_LISTEN_ADDRESS", format!("unix:{}", socket.display()));
        let runner = runner.spawn().unwrap();
        wait_until("the runner listens", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        runner
    };
    let end = |mut runner: std::process::Child| {
        runner.kill().unwrap();
        runner.wait().unwrap();
    };
    let weir = Weir::builder(BINARY).arguments(&["--plugin-runner-socket", socket.to_str().unwrap()]).start();
    let origin = Origin::answering("from upstream");
    let plugin = |name: &str| json!({"ext-plugin-pre-req": conf(name, "")});
    weir.put("routes/1", route(&origin, "/*", plugin("pass")));
    assert_eq!(weir.get("/").status, 503, "nothing listens yet");
    let first = start();
    assert_eq!(weir.get("/").status, 200);
    end(first);
    // In the new process, the number of the old token belongs to a configuration that refuses.
    let second = start();
    weir.put("routes/2", route(&origin, "/echo", plugin("echo")));
    assert_eq!(weir.get("/echo").header("x-seen"), Some("1"));
    assert_eq!(weir.get("/").text(), "from upstream");
    end(second);
}

#[test]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn runner_has_another_user_than_root() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can start a runner as another user");
        return;
    }
    let weir = builder(&plugin_runner::stand_in()).arguments(&["--plugin-runner-user", "nobody"]).start();
    let weir = running(weir);
    let status = std::fs::read_to_string(format!("/proc/{}/status", process_of(&weir))).unwrap();
    let users = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    assert!(users.split_whitespace().skip(1).all(|user| user == "65534"), "{users}");
    let origin = Origin::answering("from upstream");
    weir.put("routes/1", route(&origin, "/*", json!({"ext-plugin-pre-req": conf("pass", "")})));
    assert_eq!(weir.get("/").status, 200);
}
