//! `weir plan`, `apply`, `history` and `rollback` as users run them: their output and exit codes, and that a
//! set is in force whole or not at all, also after a kill in the middle.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Certificates, Client, Weir, wait_until};

use crate::command::{Outcome, weir as run_in};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// A user with a working folder, and an instance.
struct User {
    folder: tempfile::TempDir,
    admin: SocketAddr,
}

impl User {
    fn of(weir: &Weir) -> User {
        User { folder: tempfile::tempdir().unwrap(), admin: weir.address("admin") }
    }

    fn write(&self, text: &str) {
        std::fs::write(self.folder.path().join("weir.yaml"), text).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        let admin = self.admin.to_string();
        let arguments = [arguments, &["--admin", &admin]].concat();
        let environment = [("WEIR_ADMIN_KEY", ADMIN_KEY), ("USER", "ann"), ("PATH_A", "/a")];
        run_in(self.folder.path(), &arguments, &environment)
    }

    #[track_caller]
    fn check(&self, arguments: &[&str], code: i32, stdout: &str, stderr: &str) {
        let outcome = self.run(arguments);
        let found = (outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str());
        assert_eq!(found, (code, stdout, stderr), "{arguments:?}");
    }
}

/// A route that answers `text`, as a line of a file.
fn route(id: &str, uri: &str, text: &str) -> String {
    format!(
        "- {{id: {id}, uri: \"{uri}\", plugins: {{mocking: {{response_example: \"{text}\", content_type: text/plain}}}}}}\n"
    )
}

#[test]
fn file_is_planned_applied_and_rolled_back() {
    let weir = Weir::start(BINARY);
    let user = User::of(&weir);
    weir.put("upstreams/old", json!({"nodes": {"127.0.0.1:1": 1}, "type": "roundrobin"}));
    user.write(&format!("routes:\n{}{}#END\n", route("a", "${{PATH_A}}", "one"), route("b", "/b", "one")));
    let plan = "  + routes/a\n      uri: \"/a\"\n      \
        plugins: {\"mocking\":{\"response_example\":\"one\",\"content_type\":\"text/plain\"}}\n  + routes/b\n      \
        uri: \"/b\"\n      plugins: {\"mocking\":{\"response_example\":\"one\",\"content_type\":\"text/plain\"}}\n";
    let gone = "  - upstreams/old\n      nodes: {\"127.0.0.1:1\":1}\n      type: \"roundrobin\"\n";
    user.check(&["plan", "weir.yaml"], 3, &format!("{plan}{gone}\n2 to create, 1 to delete\n"), "");
    user.check(&["plan", "weir.yaml", "--keep-others"], 3, &format!("{plan}\n2 to create\n"), "");
    assert_eq!(weir.get("/a").status, 404, "a plan changes nothing");
    let done = "applied as version 2; to go back: weir rollback 1\n";
    user.check(&["apply", "weir.yaml"], 0, &format!("{plan}{gone}\n2 to create, 1 to delete\n{done}"), "");
    assert_eq!(weir.get("/a").text(), "one");
    user.check(&["plan", "weir.yaml"], 0, "no difference\n", "");
    user.check(&["apply", "weir.yaml"], 0, "no difference\n", "");
    user.write(&format!("routes:\n{}", route("a", "/a", "two")));
    let change = "  ~ routes/a\n      plugins.mocking.response_example: \"one\" → \"two\"\n";
    user.check(
        &["apply", "weir.yaml", "--keep-others", "--expect", "2"],
        0,
        &format!("{change}\n1 to change\napplied as version 3; to go back: weir rollback 2\n"),
        "",
    );
    assert_eq!((weir.get("/a").text(), weir.get("/b").text()), ("two".to_owned(), "one".to_owned()));
    let back = "  ~ routes/a\n      plugins.mocking.response_example: \"two\" → \"one\"\n";
    user.check(&["rollback", "2", "--dry-run"], 0, &format!("{back}\n1 to change\n"), "");
    let done = "version 2 is in force again, as version 4; to go back: weir rollback 3\n";
    user.check(&["rollback", "2"], 0, &format!("{back}\n1 to change\n{done}"), "");
    assert_eq!(weir.get("/a").text(), "one");
    let history = user.run(&["history", "--limit", "3"]);
    let lines: Vec<Vec<&str>> =
        history.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let columns = |line: &[&'static str]| line.to_vec();
    assert_eq!(lines[0], columns(&["VERSION", "WHEN", "SOURCE", "OBJECTS", "BY"]));
    let of =
        |line: &[&str]| (line[0].to_owned(), line[6].to_owned(), line[7].to_owned(), line[8..].join(" "));
    let expected = |version: &str, source: &str, objects: &str| {
        (version.to_owned(), source.to_owned(), objects.to_owned(), "ann (127.0.0.1)".to_owned())
    };
    assert_eq!(of(&lines[1]), expected("4", "rollback", "1"));
    assert_eq!(of(&lines[2]), expected("3", "apply", "1"));
    assert_eq!(of(&lines[3]), expected("2", "apply", "3"));
    assert_eq!(history.stdout.lines().last(), Some("in force: 4; the oldest to go back to: 0"));
    let shown = user.run(&["history", "3"]);
    assert!(shown.code == 0 && shown.stdout.ends_with(change), "{shown:?}");
    let weir = weir.restart();
    assert_eq!(weir.get("/a").text(), "one");
    let user = User { admin: weir.address("admin"), ..user };
    user.check(&["rollback", "4"], 0, "no difference\n", "");
    let json: Value = serde_json::from_str(&user.run(&["rollback", "3", "--json"]).stdout).unwrap();
    assert_eq!((&json["revision"], &json["objects"][0]["key"]), (&json!(5), &json!("routes/a")));
}

#[test]
fn unusable_settings_are_reported_by_line() {
    let weir = Weir::start(BINARY);
    let user = User::of(&weir);
    weir.put("upstreams/u", json!({"nodes": {"127.0.0.1:1": 1}}));
    for command in ["plan", "apply"] {
        let check = |text: &str, expected: &str| {
            user.write(text);
            user.check(&[command, "weir.yaml"], 1, "", expected);
        };
        check(
            "routes:\n- id: b\n  uri: /b\n  colour: blue\n  plugins: {cors: {}}\n- {id: a, uri: /a, upstream_id: none}\n",
            "weir.yaml:4: routes[0].colour: additional properties forbidden, found colour\n\
             weir.yaml:6: routes[1].upstream_id: upstream \"none\" does not exist\n",
        );
        check(
            "things: []\n",
            "weir.yaml:1: things: `things` is no kind of object; known are extensions, upstreams, plugin_configs, consumer_groups, global_rules, plugin_metadata, ssls, protos, secrets, services, consumers, routes, contracts, stream_routes\n",
        );
        check("# nothing\n", "weir.yaml:1: the file is empty; for no objects, write `routes: []` or #END\n");
        check(
            "routes: [{id: a, uri: \"${{UNSET}}\"}]\n",
            "weir.yaml:1: the environment variable UNSET is not set; set it or give a default: ${{UNSET:=value}}\n",
        );
    }
    user.write("routes: []\n");
    let moved = "error: the configuration is at revision 1, not at 7: it was changed in the meantime; make a \
        new plan with `weir plan`\n";
    user.check(&["apply", "weir.yaml", "--expect", "7"], 1, "", moved);
    user.check(&["rollback", "9"], 1, "", "error: revision 9 is not kept; the oldest one is 0\n");
    assert_eq!(weir.admin("GET", "upstreams/u", Value::Null).0, 200);
    assert_eq!(user.run(&["plan", "gone.yaml"]).code, 1);
}

#[test]
fn exported_configuration_has_no_difference() {
    let weir = Weir::start(BINARY);
    let user = User::of(&weir);
    weir.put("upstreams/u", json!({"nodes": {"127.0.0.1:1": 1}}));
    weir.put(
        "routes/a",
        json!({"uri": "/a*", "upstream_id": "u", "desc": "yes: #1", "labels": {"on": "off"}}),
    );
    weir.put("consumers", json!({"username": "jack", "plugins": {"key-auth": {"key": "k"}}}));
    weir.put("consumers/jack/credentials/c", json!({"plugins": {"key-auth": {"key": "c"}}}));
    weir.put("plugin_metadata/http-logger", json!({"log_format": {"a": "$host"}}));
    weir.put("secrets/vault/v", json!({"uri": "http://127.0.0.1:8200", "prefix": "kv", "token": "t"}));
    let headers = [("X-API-KEY", ADMIN_KEY), ("Accept", "application/yaml")];
    let set = weir.admin_raw("GET", "configs", &headers, b"").text();
    let is_object = |line: &&str| !line.contains("_conf_version:") && !line.starts_with("X-");
    user.write(&set.lines().filter(is_object).collect::<Vec<_>>().join("\n"));
    user.check(&["plan", "weir.yaml"], 0, "no difference\n", "");
}

#[test]
fn a_secret_is_in_no_plan() {
    let weir = Weir::start(BINARY);
    let user = User::of(&weir);
    let made = Certificates::make();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    let (certificate, key) = (read(made.certificate()), read(made.key()));
    let set = json!({"ssls": [{"id": "s", "snis": ["a.example"], "cert": certificate, "key": key}]});
    user.write(&set.to_string());
    for arguments in [
        &["plan", "weir.yaml"][..],
        &["plan", "weir.yaml", "--json"],
        &["apply", "weir.yaml"],
        &["history", "1"],
    ] {
        let outcome = user.run(arguments);
        assert!(
            outcome.stdout.contains("(hidden)") && !outcome.stdout.contains("PRIVATE KEY"),
            "{arguments:?} {outcome:?}"
        );
    }
}

#[test]
fn without_instance_or_key_it_reads_the_folder() {
    let mut weir = Weir::builder(BINARY).own_admin_key().start();
    let user = User::of(&weir);
    let admin = user.admin.to_string();
    let data = weir.data();
    let data = data.to_str().unwrap();
    user.write(&format!("routes:\n{}", route("a", "/a", "one")));
    let as_user =
        |arguments: &[&str], environment: &[(&str, &str)]| run_in(user.folder.path(), arguments, environment);
    let outcome = as_user(&["apply", "weir.yaml", "--admin", &admin], &[]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("missing apikey") && outcome.stderr.contains("--data"), "{outcome:?}");
    let outcome = as_user(&["apply", "weir.yaml", "--data", data], &[("WEIR_ADMIN", &admin)]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "the key is found in the data folder");
    weir.terminate();
    assert!(weir.wait_for_exit().success());
    user.write(&format!("routes:\n{}", route("a", "/a", "two")));
    let free = testkit::Origin::nowhere().to_string();
    let offline = [("WEIR_ADMIN", free.as_str())];
    let outcome = as_user(&["plan", "weir.yaml", "--data", data], &offline);
    assert_eq!(
        (outcome.code, outcome.stderr.as_str()),
        (3, "no instance runs here; comparing with what lies in its data folder\n")
    );
    assert!(outcome.stdout.contains("\"one\" → \"two\""), "{outcome:?}");
    let outcome = as_user(&["history", "--data", data], &offline);
    assert!(
        outcome.code == 0 && outcome.stdout.contains("in force: 1; the oldest to go back to: 0"),
        "{outcome:?}"
    );
    let outcome = as_user(&["history", "1", "--data", data], &offline);
    assert!(outcome.code == 0 && outcome.stdout.contains("+ routes/a"), "{outcome:?}");
    let outcome = as_user(&["apply", "weir.yaml", "--data", data], &offline);
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains(&format!(" or at {free}; start it")), "{outcome:?}");
    let outcome = as_user(&["plan", "weir.yaml", "--admin", &free, "--data", data], &[]);
    assert!(outcome.code == 1 && outcome.stderr.contains("no instance answers at"), "{outcome:?}");
}

/// A set in which every object has the same number.
fn generation(number: u64) -> String {
    let mut text = "routes:\n".to_owned();
    for index in 0..ROUTES {
        text.push_str(&route(&format!("r{index}"), &format!("/r{index}"), &number.to_string()));
    }
    // Some objects are only in every second set, so that each apply creates or deletes some.
    if number.is_multiple_of(2) {
        writeln!(text, "upstreams:\n- {{id: even, nodes: {{\"127.0.0.1:1\": 1}}, desc: \"{number}\"}}")
            .unwrap();
    }
    text
}

/// Applies one generation after the other until the instance is killed; returns the generation without a
/// response.
fn apply_until_broken(admin: SocketAddr, first: u64, applied: &AtomicU64) -> u64 {
    let mut client = Client::connect(admin);
    for number in first.. {
        let set = generation(number);
        match client.try_request(
            "POST",
            "/apisix/admin/weir/apply",
            &[("X-API-KEY", ADMIN_KEY)],
            set.as_bytes(),
        ) {
            Ok(response) => {
                assert_eq!(response.status, 200, "{}", response.text());
                applied.store(number, Ordering::Release);
            }
            Err(_) => return number,
        }
    }
    unreachable!("numbers do not end")
}

/// The generation of the stored routes; fails if they have different ones.
fn stored(weir: &Weir) -> u64 {
    let (_, listed) = weir.admin("GET", "routes", Value::Null);
    let number = |entry: &Value| -> u64 {
        entry["value"]["plugins"]["mocking"]["response_example"].as_str().unwrap().parse().unwrap()
    };
    let numbers: Vec<u64> = listed["list"].as_array().unwrap().iter().map(number).collect();
    assert_eq!(numbers.len(), ROUTES);
    assert!(
        numbers.iter().all(|number| *number == numbers[0]),
        "half of one and half of another: {numbers:?}"
    );
    numbers[0]
}

#[test]
fn kill_during_apply_leaves_old_or_new_set() {
    let mut weir = Weir::start(BINARY);
    let mut next = 1;
    for round in 0..ROUNDS {
        let applied = AtomicU64::new(0);
        let admin = weir.address("admin");
        let open = thread::scope(|scope| {
            let applying = scope.spawn(|| apply_until_broken(admin, next, &applied));
            wait_until("some sets are applied", || applied.load(Ordering::Acquire) >= next + 2 + round);
            // A moment in the middle of an apply, a later one in each round: that many reads of the list
            // after the last response.
            for _ in 0..3 * round {
                stored(&weir);
            }
            weir.kill();
            applying.join().unwrap()
        });
        weir = weir.restart();
        let (found, answered) = (stored(&weir), applied.load(Ordering::Acquire));
        assert!(found == answered || found == open, "{found} is neither {answered} nor {open}");
        let (status, _) = weir.admin("GET", "upstreams/even", Value::Null);
        assert_eq!(status == 200, found.is_multiple_of(2), "generation {found}");
        assert_eq!(weir.get("/r0").text(), found.to_string());
        // The history is whole as well: a rollback gives the generation before.
        let (_, status_now) = weir.admin("GET", "weir/status", Value::Null);
        let revision = status_now["revision"].as_u64().unwrap();
        let (code, back) = weir.admin("POST", &format!("weir/rollback?to={}", revision - 1), Value::Null);
        assert_eq!((code, stored(&weir)), (200, found - 1), "{back}");
        next = open + 1;
    }
}

#[test]
fn no_reader_sees_half_a_set() {
    let weir = Weir::start(BINARY);
    let applied = AtomicU64::new(0);
    let admin = weir.address("admin");
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = Client::connect(admin);
            for number in 1..=SETS {
                let set = generation(number);
                let headers = [("X-API-KEY", ADMIN_KEY)];
                let answer = client.request("POST", "/apisix/admin/weir/apply", &headers, set.as_bytes());
                assert_eq!(answer.status, 200, "{}", answer.text());
                applied.store(number, Ordering::Release);
            }
        });
        wait_until("the first set is applied", || applied.load(Ordering::Acquire) >= 1);
        let mut client = weir.client();
        let mut last = 0;
        while !writer.is_finished() {
            stored(&weir);
            for index in [0, ROUTES / 2, ROUTES - 1] {
                let answer = client.get(&format!("/r{index}"));
                let number: u64 = answer.text().parse().unwrap();
                assert!(number >= last, "/r{index} is of {number} after {last}");
                last = number;
            }
        }
    });
    assert_eq!(stored(&weir), SETS);
}

/// Routes of a set: enough for a kill in the middle of them.
const ROUTES: usize = 150;
/// Number of kills.
const ROUNDS: u64 = 4;
/// Sets applied while readers compare.
const SETS: u64 = 12;
