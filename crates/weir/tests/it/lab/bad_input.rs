//! Failures of a run: the message names the fault, its place and the remedy, no child process is left, and
//! measurements are kept.

use std::fs::File;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::stand_ins::{Laboratory, SCENARIO, StandIn, somebody_runs};

#[test]
fn an_unknown_key_of_a_scenario() {
    let text = "title: a\nabout: b\nload:\n  tool: weir\n  conections: 3\n";
    let laboratory = Laboratory::new(&[("mistake", text)], &[("one", StandIn::default())]);
    let outcome = laboratory.run(&[]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stderr.contains("mistake.yaml:5: unknown key `conections`; did you mean `connections`?"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_misspelt_name() {
    let laboratory = Laboratory::new(&[("short", SCENARIO)], &[("one", StandIn::default())]);
    let outcome = laboratory.run(&["--scenario", "shrot"]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("unknown scenario `shrot`; did you mean `short`?"), "{}", outcome.stderr);
}

#[test]
fn a_port_that_is_taken() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port().to_string();
    let laboratory = Laboratory::new(&[("short", SCENARIO)], &[("one", StandIn::default())]);
    let outcome = laboratory.run(&["--port", &port]);
    assert_eq!(outcome.code, 1, "nothing was measured");
    let text = format!("port {port} is taken");
    assert!(outcome.stderr.contains(&text), "{}", outcome.stderr);
    let report = laboratory.report();
    assert!(report.scenarios[0].contenders[0].absent.as_ref().unwrap().contains(&text));
}

#[test]
fn a_tool_that_is_missing_is_named_with_its_package() {
    let text = "title: a\nabout: b\nload: { tool: h2load, connections: 2, path: /checked-out }\n";
    let laboratory = Laboratory::new(&[("short", text)], &[("one", StandIn::default())]);
    // A folder with the programs that scripts need, without load generators.
    let folder = tempfile::tempdir().unwrap();
    for name in ["bash", "curl", "echo", "true"] {
        if let Some(found) = ["/usr/bin", "/bin"]
            .iter()
            .map(|place| format!("{place}/{name}"))
            .find(|file| std::path::Path::new(file).exists())
        {
            std::os::unix::fs::symlink(found, folder.path().join(name)).unwrap();
        }
    }
    let cache = laboratory.work.path().join("cache");
    let environment = [("PATH", folder.path().to_str().unwrap()), ("WEIR_LAB_DIR", cache.to_str().unwrap())];
    let words = laboratory.words(&["--no-install"]);
    let outcome = crate::command::weir(laboratory.work.path(), &words, &environment);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stderr.contains("h2load is missing; it is in Debian's package nghttp2-client"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn ctrl_c_ends_children_and_keeps_measurements() {
    let (short, long) = (format!("{SCENARIO}rounds: 1\nseconds: 0.3\n"), format!("{SCENARIO}seconds: 600\n"));
    let scenarios = [("a-first", short.as_str()), ("b-second", long.as_str())];
    let laboratory = Laboratory::new(&scenarios, &[("one", StandIn::default())]);
    let mut child = start(&laboratory);
    // The first result is written while the second scenario runs.
    testkit::wait_until("a result is kept", || laboratory.result().exists());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = testkit::wait_for("it has ended", || child.try_wait().unwrap());
    let report = laboratory.report();
    assert_eq!((status.code(), report.interrupted), (Some(130), true));
    assert_eq!(report.scenarios[0].scenario.name, "a-first");
    assert!(!report.scenarios[0].contenders[0].runs.is_empty());
    let folder = laboratory.files.path().to_str().unwrap();
    assert!(!somebody_runs(&format!("{folder}/contenders")));
}

#[test]
fn nothing_outlives_a_laboratory_that_is_killed() {
    let long = format!("{SCENARIO}seconds: 600\n");
    let one = StandIn { run: RUN, ..StandIn::default() };
    let laboratory = Laboratory::new(&[("long", &long)], &[("one", one)]);
    let mut child = start(&laboratory);
    let up = laboratory.files.path().join("up");
    let listen = testkit::wait_for("the contender starts", || {
        std::fs::read_to_string(&up).ok().filter(|text| text.ends_with('\n'))
    });
    let word = listen.trim();
    testkit::wait_until("the contender runs", || somebody_runs(word));
    child.kill().unwrap();
    child.wait().unwrap();
    testkit::wait_until("all of it is gone", || !somebody_runs(word));
}

/// Writes its address to a file, so that a test finds the process.
const RUN: &str = r#"echo "$LISTEN" >"$(dirname "$0")/../../up"; exec "$WEIR" origin --listen "$LISTEN""#;

fn start(laboratory: &Laboratory) -> std::process::Child {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(laboratory.plain_words())
        .current_dir(laboratory.work.path())
        .env("WEIR_LAB_DIR", laboratory.work.path().join("cache"))
        .stdin(Stdio::null())
        .stdout(File::create(laboratory.work.path().join("stdout")).unwrap())
        .stderr(File::create(laboratory.work.path().join("stderr")).unwrap())
        .spawn()
        .unwrap()
}
