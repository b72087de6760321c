//! Settings as a whole: the precedence of sources, the text of faults, and secrets that no output may show.

use std::ffi::OsString;
use std::path::Path;

use clap::{Args, FromArgMatches};

use super::*;

/// The setting `name` from a file text, environment variables and flags.
fn in_force(name: &str, file: &str, environment: &[(&str, &str)], flags: &[&str]) -> String {
    let settings = load(file, environment, flags).unwrap();
    settings.in_force().into_iter().find(|(found, _)| *found == name).unwrap().1
}

fn load(file: &str, environment: &[(&str, &str)], flags: &[&str]) -> Result<Settings, Faults> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weir.yaml");
    std::fs::write(&path, file).unwrap();
    let environment = environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let command = SettingsArguments::augment_args(clap::Command::new("weir").no_binary_name(true));
    let matches = command.try_get_matches_from(flags).unwrap();
    let flags = SettingsArguments::from_arg_matches(&matches).unwrap();
    Settings::load(Some(&path), environment, flags.written).map(|loaded| loaded.settings)
}

#[test]
fn later_sources_win() {
    let check = |name: &str, file: &str, environment: &[(&str, &str)], flags: &[&str], expected: &str| {
        assert_eq!(
            in_force(name, file, environment, flags),
            expected,
            "{name} of {file:?} {environment:?} {flags:?}"
        );
    };
    check("control", "", &[], &[], "Some(127.0.0.1:9090)");
    check("control", "control: 127.0.0.1:1", &[], &[], "Some(127.0.0.1:1)");
    check("control", "control: 127.0.0.1:1", &[("WEIR_CONTROL", "127.0.0.1:2")], &[], "Some(127.0.0.1:2)");
    check(
        "control",
        "control: 127.0.0.1:1",
        &[("WEIR_CONTROL", "off")],
        &["--control", "127.0.0.1:3"],
        "Some(127.0.0.1:3)",
    );
    check("control", "", &[("WEIR_CONTROL", "")], &[], "Some(127.0.0.1:9090)");
    check("control", "", &[], &["--control=off"], "None");

    check("proxy", "proxy: [127.0.0.1:1, '[::1]:2']", &[], &[], "[127.0.0.1:1, [::1]:2]");
    check(
        "proxy",
        "proxy: 127.0.0.1:1",
        &[],
        &["--proxy", "127.0.0.1:3", "--proxy", "127.0.0.1:4"],
        "[127.0.0.1:3, 127.0.0.1:4]",
    );
    check("proxy", "", &[("WEIR_PROXY", "127.0.0.1:1, localhost:0")], &[], "[127.0.0.1:1, 127.0.0.1:0]");
    check("proxy", "proxy: off", &[], &[], "[]");

    check("grace_seconds", "grace: 5", &[], &[], "5");
    check("grace_seconds", "grace_seconds: 6", &[("WEIR_GRACE", "7")], &[], "7");
    check("grace_seconds", "", &[("WEIR_GRACE_SECONDS", "8")], &[], "8");
    check("grace_seconds", "", &[], &["--grace", "9"], "9");
    check("grace_seconds", "", &[], &["--grace-seconds=10"], "10");

    check("strict", "strict: true", &[], &[], "true");
    check("strict", "strict: true", &[], &["--strict=false"], "false");
    check("strict", "", &[], &["--strict"], "true");
    check("workers", "workers: 3", &[], &[], "3");
    check("router_mode", "router_mode: radixtree_uri", &[], &[], "RadixtreeUri");
    check("server_header", "server_header: off", &[], &[], "None");
    check("admin_allow", "admin_allow: [10.0.0.0/8, '::1']", &[], &[], "[10.0.0.0/8, ::1/128]");
    check("trusted_addresses", "trusted_addresses: []", &[], &[], "[]");
    check("outbound_allow", "outbound_allow: [169.254.0.0/16]", &[], &[], "[169.254.0.0/16]");
    check("trusted_certificates", "", &[], &[], r#"["system"]"#);
    check(
        "trusted_certificates",
        "trusted_certificates: [system, /etc/ca.pem]",
        &[],
        &[],
        r#"["system", "/etc/ca.pem"]"#,
    );
    check("tls_verify_all", "", &[], &["--tls-verify-all"], "true");
    check("upstream_health_checks", "upstream_health_checks: false", &[], &[], "false");
    check("secret_ca", "secret_ca: /etc/ca.pem", &[], &[], "Some(\"/etc/ca.pem\")");
    check("log_level", "", &[], &["--log-level", "warn, control=debug"], "\"warn,control=debug\"");
    check("access_log", "", &[], &["--access-log", "stdout"], "Stdout");
    check("error_log_format", "error_log_format: json", &[], &[], "Json");
    check("max_body_bytes", "max_body_bytes: 1_048_576", &[], &[], "1048576");
    check(
        "access_log_format",
        "access_log_format: {status: $status, uri: $uri}",
        &[],
        &[],
        r#"Json([("status", "$status"), ("uri", "$uri")])"#,
    );
    check(
        "access_log_format",
        "",
        &[("WEIR_ACCESS_LOG_FORMAT", "$host, $status")],
        &[],
        r#"Template("$host, $status")"#,
    );
}

#[test]
fn relative_paths_of_a_file_start_at_it() {
    let check = |file: &str, expected: &str| {
        let settings = Settings::from_file_text(Path::new("/etc/weir/weir.yaml"), file).unwrap().settings;
        assert_eq!(settings.resources.unwrap(), Path::new(expected));
    };
    check("resources: routes.yaml", "/etc/weir/routes.yaml");
    check("resources: /srv/routes.yaml", "/srv/routes.yaml");
    assert_eq!(in_force("resources", "", &[], &["--resources", "routes.yaml"]), "Some(\"routes.yaml\")");
}

#[test]
fn every_fault_of_a_file_has_its_line() {
    let check = |file: &str, expected: &[&str]| {
        let faults = Settings::from_file_text(Path::new("weir.yaml"), file).unwrap_err();
        let lines: Vec<String> = faults.0.iter().map(ToString::to_string).collect();
        assert_eq!(lines, expected, "{file}");
    };
    check(
        "# mine\nporxy: 127.0.0.1:1\nadmin: 9180\n\nworkers: lots\n",
        &[
            "weir.yaml:2: porxy: no such setting; did you mean `proxy`?",
            "weir.yaml:3: admin: `9180` is not `IP:PORT`: write `0.0.0.0:PORT` for every address, `127.0.0.1:PORT` for this machine only",
            "weir.yaml:5: workers: `lots` is not a whole number between 1 and 1024, without a unit; `auto` takes one for each core",
        ],
    );
    check(
        "admin-allow: 10.0.0.0/8",
        &["weir.yaml:1: admin-allow: no such setting; did you mean `admin_allow`?"],
    );
    check("colour: blue", &["weir.yaml:1: colour: no such setting; `weir run --help` lists them"]);
    check(
        "ssl_protocols: TLSv1.1",
        &[
            "weir.yaml:1: ssl_protocols: TLSv1.1 is not supported because its protection is broken (RFC 8996): write TLSv1.2, TLSv1.3",
        ],
    );
    check(
        "admin_key: abc",
        &[
            "weir.yaml:1: admin_key: is a secret and does not belong in a file; set the environment variable WEIR_ADMIN_KEY",
        ],
    );
    check(
        "routes:\n  - id: 1",
        &[
            "weir.yaml:1: routes: is a resource, not a setting; put it in a file of its own and name that file with `resources: FILE`",
        ],
    );
    check("- proxy", &["weir.yaml:1: not a map of settings; write lines such as `proxy: 0.0.0.0:9080`"]);
    check("data:", &["weir.yaml:1: data: has no value; write one, or leave the line out"]);
    check("data: {a: b}", &["weir.yaml:1: data: takes a plain value, not a map"]);
    check("data: [a, b]", &["weir.yaml:1: data: takes one value, 2 were given"]);
    check("strict: maybe", &["weir.yaml:1: strict: `maybe` is neither `true` nor `false`"]);
    check(
        "a: b\n---\nc: d",
        &[
            "weir.yaml:3: a settings file is one YAML document",
            "weir.yaml:1: a: no such setting; `weir run --help` lists them",
        ],
    );
    check(
        "max_head_bytes: 2048",
        &[
            "weir.yaml:1: max_head_bytes: max_header_line_bytes is more than max_head_bytes; lower it or raise that",
        ],
    );
    check(
        "admin: 127.0.0.1:9080",
        &["weir.yaml:1: admin: `proxy` and `admin` both take 127.0.0.1:9080; give each its own port"],
    );
    check(
        "proxy: 127.0.0.1:1\nhttp1_only: [127.0.0.1:1, 127.0.0.1:2]",
        &["weir.yaml:2: http1_only: 127.0.0.1:2 is in none of `proxy`, `proxy_tls`, `proxy_tls_http3`, \
             `proxy_protocol`, `proxy_protocol_tls`; write it as it is there"],
    );
}

#[test]
fn text_that_is_not_yaml_has_a_faulty_line() {
    let check = |file: &str, line: &str| {
        let fault = Settings::from_file_text(Path::new("weir.yaml"), file).unwrap_err().to_string();
        assert!(fault.starts_with(&format!("weir.yaml:{line}: not YAML: ")), "{fault}");
    };
    check("data: a\nproxy: [1, 2\n", "3");
    check("data: a\ndata: b\n", "2");
}

#[test]
fn faults_of_environment_and_flags_name_source() {
    let check = |environment: &[(&str, &str)], flags: &[&str], expected: &[&str]| {
        let faults = load("", environment, flags).unwrap_err();
        let lines: Vec<String> = faults.0.iter().map(ToString::to_string).collect();
        assert_eq!(lines, expected);
        assert_eq!(faults.blames_flags(), !flags.is_empty());
    };
    check(&[("WEIR_ADMIM", "off")], &[], &["WEIR_ADMIM: no such setting; did you mean `WEIR_ADMIN`?"]);
    check(
        &[("WEIR_ADMIN_PORT", "9180")],
        &[],
        &["WEIR_ADMIN_PORT: no such setting; did you mean `WEIR_ADMIN_CORS`?"],
    );
    check(
        &[("WEIR_GRACE", "soon")],
        &[],
        &["WEIR_GRACE: `soon` is not a whole number between 0 and 86400, without a unit"],
    );
    check(
        &[("WEIR_ADMIN_KEY", "short")],
        &[],
        &["WEIR_ADMIN_KEY: is too short to be safe; use at least 16 characters"],
    );
    check(
        &[],
        &["--ssl-curves", "P-521"],
        &["--ssl-curves: P-521 is no curve that can be used: X25519MLKEM768, X25519, prime256v1, secp384r1"],
    );
    check(&[], &["--admin", "off", "--admin", "off"], &["--admin: takes one value, 2 were given"]);
}

#[test]
fn foreign_variables_are_ignored() {
    let others = [
        ("WEIR_SERVICE_HOST", "10.0.0.1"),
        ("WEIR_PORT", "tcp://10.0.0.1:9080"),
        ("WEIR_PORT_9080_TCP_ADDR", "10.0.0.1"),
        // From the Services `weir-admin` and `weir-etcd`; the names are near `WEIR_ADMIN_CORS` and
        // `WEIR_ETCD_CERT`.
        ("WEIR_ADMIN_PORT", "tcp://10.96.0.12:9180"),
        ("WEIR_ADMIN_SERVICE_PORT", "9180"),
        ("WEIR_ETCD_PORT", "tcp://10.96.0.13:2379"),
        ("WEIR_CONFIG", "weir.yaml"),
        ("PATH", "/bin"),
    ];
    load("", &others, &[]).unwrap();
}

#[test]
fn the_admin_key_is_never_printed() {
    let settings = load("", &[("WEIR_ADMIN_KEY", "0123456789abcdef")], &[]).unwrap();
    assert_eq!(settings.admin_key.as_ref().unwrap().reveal(), "0123456789abcdef");
    assert!(!format!("{settings:?} {:?}", settings.in_force()).contains("0123456789abcdef"));
    let command = SettingsArguments::augment_args(clap::Command::new("weir"));
    assert!(command.get_arguments().all(|argument| argument.get_id() != "admin_key"));
}

#[test]
fn sample_settings_file_is_usable() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/weir.yaml");
    let sample = std::fs::read_to_string(path).unwrap();
    // Checked as it is, and with the commented lines, but with only one source.
    let with = |left_out: &[&str]| -> String {
        let uncommented = |line: &str| {
            let rest = line
                .strip_prefix('#')
                .filter(|rest| rest.starts_with(|first: char| first.is_ascii_lowercase()));
            let is_left_out = left_out.iter().any(|name| rest.is_some_and(|rest| rest.starts_with(name)));
            rest.filter(|_| !is_left_out).unwrap_or(line).to_owned() + "\n"
        };
        sample.lines().map(uncommented).collect()
    };
    let with_etcd = with(&["resources:"]);
    let with_file = with(&["source:", "etcd_endpoints:"]);
    assert!(with_etcd.contains("\nsource: etcd\n") && with_file.contains("\nresources: shop.yaml\n"));
    for text in [&sample, &with_etcd, &with_file] {
        let loaded = Settings::from_file_text(Path::new("weir.yaml"), text);
        assert!(loaded.is_ok(), "{:?}", loaded.err());
    }
}

#[test]
fn names_are_unique_and_flags_are_theirs() {
    let mut names: Vec<&str> =
        SETTINGS.iter().flat_map(|setting| [Some(setting.name), setting.short_name]).flatten().collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    for setting in SETTINGS {
        assert!(
            setting
                .name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
            "{}",
            setting.name
        );
        assert!(setting.documentation.trim_end().ends_with('.'), "{} ends without a full stop", setting.name);
    }
}

#[test]
fn file_kinds_are_recognised_by_content() {
    let check = |text: &str, expected: FileKind| assert_eq!(kind_of(text), expected, "{text}");
    check("", FileKind::Settings);
    check("proxy: 127.0.0.1:1\n", FileKind::Settings);
    check("routes:\n  - uri: /a\n#END\n", FileKind::Resources);
    check(r#"{"upstreams": []}"#, FileKind::Resources);
    check("upstreams:\n  - nodes: {${{HOST}}: 1}\n bad", FileKind::Resources);
    check("{\n\"routes\": [}", FileKind::Resources);
    check("deployment:\n  role: data_plane\n", FileKind::ApisixConfig);
    check("# routes: are elsewhere\ndata: x\n", FileKind::Settings);
}

proptest::proptest! {
    #[test]
    fn any_text_is_settings_or_faults_with_reasons(text in "(\\PC|\n|: |- |\\{|\\}|proxy: |off){0,60}") {
        let _ = kind_of(&text);
        if let Err(Faults(faults)) = Settings::from_file_text(Path::new("weir.yaml"), &text) {
            proptest::prop_assert!(!faults.is_empty());
            proptest::prop_assert!(faults.iter().all(|fault| !fault.reason.is_empty()));
        }
    }

    #[test]
    fn any_address_is_taken_as_it_is_printed(ip: std::net::IpAddr, port: u16) {
        let address = SocketAddr::new(ip, port);
        let file = format!("proxy: off\nadmin: '{address}'\ncontrol: off\nstatus: off\nmetrics: off\n");
        let settings = Settings::from_file_text(Path::new("weir.yaml"), &file).unwrap().settings;
        proptest::prop_assert_eq!(settings.admin, Some(address));
    }
}

#[test]
fn sources_and_what_they_need() {
    let check = |file: &str, environment: &[(&str, &str)], expected: Result<ResourceSource, &str>| match (
        load(file, environment, &[]),
        expected,
    ) {
        (Ok(settings), Ok(expected)) => assert_eq!(settings.source(), expected, "{file}"),
        (Err(faults), Err(part)) => assert!(faults.to_string().contains(part), "{file}: {faults}"),
        (found, _) => panic!("{file}: {:?}", found.map(|settings| settings.source())),
    };
    check("", &[], Ok(ResourceSource::Store));
    check("resources: a.yaml", &[], Ok(ResourceSource::File));
    check("source: etcd", &[], Ok(ResourceSource::Etcd));
    check("source: file\nresources: a.yaml", &[], Ok(ResourceSource::File));
    check("source: consul", &[], Err("weir.yaml:1: source: `consul` is no source"));
    check("source: file", &[], Err("weir.yaml:1: source: `source: file` needs"));
    check("source: etcd\nresources: a.yaml", &[], Err("weir.yaml:2: resources: `resources` names a file"));
    check("etcd_endpoints: [http://a:1, https://b:1]", &[], Err("all of a cluster"));
    check("etcd_endpoints: a:2379", &[], Err("`a:2379` is not `http://"));
    check("etcd_prefix: apisix", &[], Err("is not a prefix"));
    check("etcd_prefix: /apisix/", &[], Err("is not a prefix"));
    check("etcd_cert: c.pem", &[], Err("weir.yaml:1: etcd_cert: a certificate and its private key"));
    check("etcd_username: root", &[], Err("weir.yaml:1: etcd_username: a user name and a password"));
    check("etcd_username: root", &[("WEIR_ETCD_PASSWORD", "p")], Ok(ResourceSource::Store));
    check("etcd_password: p", &[], Err("is a secret"));
    let alone = Settings::from_file_text(Path::new("weir.yaml"), "source: etcd\netcd_username: root");
    assert!(alone.is_ok(), "the password is in the environment of the service: {alone:?}");
    let with_password = [("WEIR_ETCD_PASSWORD", "geheim"), ("WEIR_ETCD_USERNAME", "root")];
    assert_eq!(in_force("etcd_password", "", &with_password, &[]), "Some((set))");
}
