//! The dashboard: its built files are those of the sources, its own tests pass, and users walk through it in
//! Chromium, with fixed data (`web/tests/e2e`) and with the real binary (`web/tests/real`).

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use testkit::{ADMIN_KEY, Weir};

use crate::support::BINARY;

/// A second key, which may read.
const VIEWER_KEY: &str = "weir-test-viewer-key-0123456789abcdef";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs Node in the folder of the sources; panics with what it printed when it fails.
fn node(arguments: &[&str], environment: &[(&str, String)]) {
    let web = root().join("web");
    assert!(web.join("node_modules").exists(), "web/node_modules is not there; run lab/install.sh test");
    let mut command = Command::new(root().join("target/test-node/node"));
    command.current_dir(web).args(arguments);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let run = command.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "node {}:\n{said}", arguments.join(" "));
}

/// The echo origin of the binary, on a free port; it ends when this is dropped.
struct EchoOrigin {
    program: Child,
    address: String,
}

impl EchoOrigin {
    fn start() -> EchoOrigin {
        let mut program = Command::new(BINARY)
            .args(["origin", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let address = first.trim().strip_prefix("listening origin ").unwrap().to_owned();
        EchoOrigin { program, address }
    }
}

impl Drop for EchoOrigin {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Runs one file of walks with an instance and an echo origin of its own.
fn walk(file: &str) {
    let keys = format!("admin:{ADMIN_KEY},viewer:{VIEWER_KEY}");
    let weir = Weir::builder(BINARY).own_admin_key().environment("WEIR_ADMIN_KEYS", &keys).start();
    let origin = EchoOrigin::start();
    let environment = [
        ("WEIR_URL", format!("http://{}", weir.address("admin"))),
        ("WEIR_KEY", ADMIN_KEY.to_owned()),
        ("WEIR_VIEWER_KEY", VIEWER_KEY.to_owned()),
        ("WEIR_PROXY", weir.proxy().to_string()),
        ("WEIR_ORIGIN", origin.address.clone()),
    ];
    node(&["--test", &format!("tests/real/{file}.test.mjs")], &environment);
}

#[test]
fn built_files_are_those_of_the_sources() {
    node(&["scripts/fresh.mjs"], &[]);
    node(&["scripts/size.mjs"], &[]);
}

#[test]
fn sources_pass_their_own_checks() {
    node(&["node_modules/typescript/bin/tsc", "--noEmit"], &[]);
    node(&["node_modules/vitest/vitest.mjs", "run"], &[]);
}

#[test]
fn pages_are_walked_with_fixed_data() {
    node(&["--test", "--test-concurrency=2", "tests/e2e/*.test.mjs"], &[]);
}

#[test]
fn newcomer_makes_a_route_and_finds_its_request() {
    walk("newcomer");
}

#[test]
fn every_kind_is_made_changed_and_deleted() {
    walk("kinds");
}

#[test]
fn objects_are_edited_on_a_real_instance() {
    walk("objects");
    walk("editing");
}

#[test]
fn endpoints_show_their_state() {
    walk("endpoints");
}

#[test]
fn roles_and_hostile_names_are_kept_apart() {
    walk("roles");
    walk("hostile");
}

#[test]
fn pages_with_real_data_are_accessible() {
    for pages in ["live", "lists", "objects", "phone"] {
        walk(&format!("axe-{pages}"));
    }
}

#[test]
fn traffic_shows_requests_and_failures() {
    walk("traffic");
}

#[test]
fn revisions_are_compared_applied_and_rolled_back() {
    walk("changes");
}

#[test]
fn ten_thousand_routes_are_listed() {
    walk("list");
}

#[test]
fn plugins_have_pages_and_forms() {
    walk("plugins");
    walk("plugins2");
}

#[test]
fn rich_objects_are_saved_unchanged() {
    walk("rich");
}
