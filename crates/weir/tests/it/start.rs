//! The start of an instance: announced listeners, the Admin key, settings from files and variables, and
//! refusals with their reason; then the commands that read an instance or its files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Client, Origin, Weir};

use crate::command::{FREE_PORTS, weir, weir_with};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

#[test]
fn nothing_lies_in_huge_pages() {
    let weir = Weir::start(BINARY);
    let memory = fs::read_to_string(format!("/proc/{}/smaps_rollup", weir.pid())).unwrap();
    let huge = memory.lines().find(|line| line.starts_with("AnonHugePages:")).unwrap();
    assert_eq!(huge.split_ascii_whitespace().collect::<Vec<_>>(), ["AnonHugePages:", "0", "kB"]);
}

#[test]
fn large_copies_are_quick_on_amd() {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap();
    let is_affected =
        cfg!(all(target_arch = "x86_64", target_env = "gnu")) && cpuinfo.contains("AuthenticAMD");
    let threshold = |weir: &Weir| {
        let environment = fs::read_to_string(format!("/proc/{}/environ", weir.pid())).unwrap();
        let tunables = environment.split('\0').find_map(|line| line.strip_prefix("GLIBC_TUNABLES="));
        tunables.and_then(|all| Some(all.split_once("x86_rep_movsb_threshold=")?.1.to_owned()))
    };
    let weir = Weir::start(BINARY);
    assert_eq!(threshold(&weir).as_deref(), is_affected.then_some("1000000000"));
    let chosen = "glibc.cpu.x86_rep_movsb_threshold=4096";
    let weir = Weir::builder(BINARY).environment("GLIBC_TUNABLES", chosen).start();
    assert_eq!(threshold(&weir).as_deref(), Some("4096"), "a threshold of the user stays");
}

#[test]
#[allow(clippy::print_stdout, reason = "a figure to look at, not to assert on a shared machine")]
fn listeners_are_announced_before_ready() {
    let began = Instant::now();
    let weir = Weir::start(BINARY);
    println!("ready on an empty store after {:?} (debug build)", began.elapsed());
    let lines = weir.stdout();
    let names: Vec<&str> =
        lines.iter().filter_map(|line| line.strip_prefix("listening ")?.split(' ').next()).collect();
    assert_eq!(names, ["proxy", "admin", "control", "status", "metrics"]);
    assert_eq!(lines.last().map(String::as_str), Some("ready"));
    for name in names {
        let address = weir.address(name);
        assert!(address.ip().is_loopback() && address.port() != 0, "{name}: {address}");
        Client::connect(address);
    }
}

#[test]
fn listeners_are_several_or_off() {
    let weir = Weir::builder(BINARY)
        .arguments(&["--proxy", "[::1]:0", "--proxy", "127.0.0.1:0"])
        .without("metrics")
        .without("status")
        .start();
    let proxies = weir.stdout().iter().filter(|line| line.starts_with("listening proxy ")).count();
    assert_eq!(proxies, 3);
    assert!(!weir.stdout().iter().any(|line| line.contains("metrics") || line.contains("status")));
    let weir = Weir::builder(BINARY).without("admin").resources("routes: []").start();
    assert_eq!(weir.get("/").status, 404);
    assert!(!weir.data().join("admin-key").exists(), "no Admin API, no key");
}

#[test]
fn admin_key_is_made_once_and_only_path_printed() {
    let running = Weir::builder(BINARY).own_admin_key().start();
    let stderr = running.stderr().join("\n");
    let path = stderr.lines().find_map(|line| line.strip_prefix("Admin key: in ")).expect(&stderr).to_owned();
    let key = fs::read_to_string(&path).unwrap();
    let key = key.trim();
    assert!(key.len() >= 32, "{key}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!stderr.contains(key) && !running.stdout().join("\n").contains(key), "no terminal, no key");
    let asks = |weir: &Weir, key: &str| weir.admin_raw("GET", "routes", &[("X-API-KEY", key)], b"").status;
    assert_eq!((asks(&running, key), asks(&running, ADMIN_KEY)), (200, 401));
    let running = running.restart();
    assert_eq!(asks(&running, key), 200, "the same key after a restart");

    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let data = running.data().to_string_lossy().into_owned();
    let arguments = [&["run", "--data", &data][..], &FREE_PORTS].concat();
    let outcome = weir(running.directory(), &arguments, &[]);
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stderr.contains(&format!("run: chmod 600 {path}")), "{}", outcome.stderr);
}

#[test]
fn core_dumps_follow_the_setting() {
    let limits = |weir: &Weir| {
        let limits = fs::read_to_string(format!("/proc/{}/limits", weir.pid())).unwrap();
        let line =
            limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap().to_owned();
        let words: Vec<String> = line.split_ascii_whitespace().map(str::to_owned).collect();
        (words[0].clone(), words[1].clone())
    };
    let (soft, hard) = limits(&Weir::start(BINARY));
    assert_eq!(soft, "0");
    let allowed = limits(&Weir::builder(BINARY).arguments(&["--core-dumps=true"]).start());
    assert_eq!(allowed, (hard.clone(), hard));
}

#[test]
fn data_folder_that_others_write_is_named() {
    let weir = Weir::start(BINARY);
    let warning = "the data folder can be written by every user of this machine (mode 0777)";
    assert!(!weir.stderr().join("\n").contains("can be written by"));
    fs::set_permissions(weir.data(), fs::Permissions::from_mode(0o777)).unwrap();
    let weir = weir.restart();
    testkit::wait_until("the folder is named", || weir.stderr().join("\n").contains(warning));
}

#[test]
fn five_lines_are_a_working_gateway() {
    let origin = Origin::answering("served");
    let folder = tempfile::tempdir().unwrap();
    let resources = folder.path().join("routes.yaml");
    let text = format!("routes:\n  - {{uri: /a, upstream: {{nodes: {{'{}': 1}}}}}}\n", origin.address());
    fs::write(&resources, text).unwrap();
    let settings = folder.path().join("weir.yaml");
    fs::write(&settings, "resources: routes.yaml\nstrict: true\nrouter_mode: radixtree_uri\nserver_header: five-lines\ngrace: 1\n").unwrap();
    let by_flag = Weir::builder(BINARY).arguments(&["--config", settings.to_str().unwrap()]).start();
    assert_eq!(by_flag.get("/a").text(), "served");
    assert_eq!(by_flag.get("/nothing").header("server"), Some("five-lines"));
    let by_variable = Weir::builder(BINARY)
        .environment("WEIR_CONFIG", settings.to_str().unwrap())
        .environment("WEIR_SERVER_HEADER", "variable")
        .start();
    assert_eq!(
        by_variable.get("/nothing").header("server"),
        Some("variable"),
        "the environment beats the file"
    );
    let by_both = Weir::builder(BINARY)
        .environment("WEIR_SERVER_HEADER", "variable")
        .arguments(&["--server-header", "flag"])
        .start();
    assert_eq!(by_both.get("/nothing").header("server"), Some("flag"), "a flag beats both");
}

#[test]
fn missing_features_are_refused_with_the_reason() {
    let check = |arguments: &[&str], environment: &[(&str, &str)], code: i32, expected: &str| {
        let outcome = weir_with(&[], &[&["run"], arguments].concat(), environment);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (code, ""), "{outcome:?}");
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    };
    check(&["--proxy-tls", "9443"], &[], 2, "--proxy-tls: `9443` is not `IP:PORT`");
    check(&[], &[("WEIR_SSL_PROTOCOLS", "TLSv1.1")], 78, "WEIR_SSL_PROTOCOLS: TLSv1.1 is not supported");
    check(&["--proxy", "127.0.0.1:0", "--workers", "0"], &[], 2, "--workers");
    check(&[], &[("WEIR_ADMIN_KEY", "short")], 78, "WEIR_ADMIN_KEY: is too short to be safe");
    let format = "$remote_addr $remote_adr";
    let outcome = weir_with(&[], &["run", "--access-log-format", format], &[]);
    assert_eq!(outcome.code, 2, "{outcome:?}");
    assert!(outcome.stderr.contains("remote_adr"), "{}", outcome.stderr);
}

#[test]
fn check_names_file_and_line_of_every_fault() {
    let faulty = "routes:\n  - id: '1'\n    uri: /a\n    upstream: {nodes: {'a:1': 1}, scheme: kafka}\n  \
                  - id: '2'\n    uri: /b\n    filter_func: 'function(vars return true end'\n    plugins: {cors: {}}\n  \
                  - id: '4'\n    uri: /d\n    upstream_id: none\n  \
                  - id: '3'\n    uri: /c\n    plugins:\n      ip-restriction:\n        whitelist: [nowhere]\n\
                  colours: []\n";
    let outcome = weir_with(&[("routes.yaml", faulty)], &["check", "routes.yaml"], &[]);
    assert_eq!(outcome.code, 1);
    for expected in [
        "routes.yaml:4: routes[0].upstream.scheme: scheme kafka of an upstream is not supported yet",
        "routes.yaml:7: routes[1].filter_func: failed to load 'filter_func' string",
        "routes.yaml:11: routes[2].upstream_id: ",
        "routes.yaml:16: routes[3].plugins.ip-restriction.whitelist",
        "routes.yaml:17: colours: ",
    ] {
        assert!(outcome.stdout.contains(expected), "{expected} is not in\n{}", outcome.stdout);
    }
    let outcome = weir_with(
        &[("weir.yaml", "data: d\naccess_log_format: '$remote_adr'\n")],
        &["check", "weir.yaml"],
        &[],
    );
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(
        outcome.stdout.contains("weir.yaml:2: access_log_format: ") && outcome.stdout.contains("remote_adr"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn explain_tells_the_same_running_and_offline() {
    let mut running = Weir::start(BINARY);
    let route = |uri: &str, more: Value| {
        let mut route = json!({"uri": uri, "plugins": {"mocking": {"response_example": "x"}}});
        route.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        route
    };
    running.put("routes/everything", route("/*", json!({})));
    running.put("routes/exact", route("/a", json!({"methods": ["POST"]})));
    running.put("routes/hosted", route("/a", json!({"host": "a.example"})));
    let control = running.address("control").to_string();
    let data = running.data().to_string_lossy().into_owned();
    let ask = |folder: &std::path::Path, question: &[&str], place: [&str; 2]| {
        let outcome = weir(folder, &[&["explain"], question, &place[..]].concat(), &[]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{outcome:?}");
        outcome.stdout
    };
    let questions: [(&[&str], &str, &str); 4] = [
        (&["GET", "http://b.example/a"], "everything", "its methods do not hold this one"),
        (&["POST", "http://b.example/a"], "exact", ""),
        (&["GET", "http://a.example/a"], "hosted", ""),
        (&["GET", "/a", "-H", "Host: a.example"], "hosted", ""),
    ];
    let answers: Vec<String> = questions
        .iter()
        .map(|(question, winner, reason)| {
            let answer = ask(running.directory(), question, ["--control", &control]);
            assert!(answer.contains(&format!("route     {winner}\n")) && answer.contains(reason), "{answer}");
            answer
        })
        .collect();
    running.terminate();
    assert!(running.wait_for_exit().success());
    let without_revision = |answer: &str| {
        let lines = answer.lines().filter(|line| !line.starts_with("revision"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for ((question, ..), online) in questions.iter().zip(&answers) {
        let offline = ask(running.directory(), question, ["--data", &data]);
        assert_eq!(without_revision(&offline), without_revision(online), "{question:?}");
    }
}
