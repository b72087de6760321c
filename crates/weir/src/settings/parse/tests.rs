//! The values that each parser accepts, and the messages about the others.

use super::*;
use crate::settings::SettingLocation;
use crate::settings::values::AccessLogFormat;

fn given(text: &str) -> SettingTexts {
    SettingTexts { values: vec![text.to_owned()], place: SettingLocation::Flag }
}

#[test]
fn addresses() {
    let check = |text: &str, expected: Result<&str, &str>| match (listener(&given(text)), expected) {
        (Ok(found), Ok(expected)) => {
            assert_eq!(found.map_or("off".to_owned(), |address| address.to_string()), expected, "{text}");
        }
        (Err(reason), Err(part)) => assert!(reason.contains(part), "{text}: {reason}"),
        (found, expected) => panic!("{text}: {found:?}, not {expected:?}"),
    };
    check("127.0.0.1:9080", Ok("127.0.0.1:9080"));
    check("[::]:0", Ok("[::]:0"));
    check(" 0.0.0.0:80 ", Ok("0.0.0.0:80"));
    check("localhost:1", Ok("127.0.0.1:1"));
    check("off", Ok("off"));
    check("", Err("is not `IP:PORT`"));
    check("9080", Err("0.0.0.0:PORT"));
    check(":9080", Err("0.0.0.0:PORT"));
    check("*:9080", Err("0.0.0.0:PORT"));
    check("::1", Err("brackets"));
    check("127.0.0.1", Err("add a port"));
    check("127.0.0.1:65536", Err("up to 65535"));
    check("localhost:http", Err("up to 65535"));
    check("example.com:80", Err("not a name"));
    check("http://127.0.0.1:80", Err("scheme"));
}

#[test]
fn amounts_of_memory() {
    let check = |text: &str, expected: Result<MemoryLimit, &str>| match (
        parse_memory_limit(&given(text)),
        expected,
    ) {
        (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
        (Err(reason), Err(part)) => assert!(reason.contains(part), "{text}: {reason}"),
        (found, expected) => panic!("{text}: {found:?}, not {expected:?}"),
    };
    check("off", Ok(MemoryLimit::Off));
    check("auto", Ok(MemoryLimit::Auto));
    check("536_870_912", Ok(MemoryLimit::Bytes(512 << 20)));
    check("512MiB", Ok(MemoryLimit::Bytes(512 << 20)));
    check("2 GiB", Ok(MemoryLimit::Bytes(2 << 30)));
    check("0", Err("too little"));
    check("512", Err("at least 48MiB"));
    check("512MB", Err("no amount of memory"));
    check("-1GiB", Err("no amount of memory"));
    check("99999999999999GiB", Err("no amount of memory"));
    check("", Err("no amount of memory"));
}

#[test]
fn keys_with_roles() {
    let at = |place: SettingLocation, values: &[&str]| {
        let values = values.iter().map(|&text| text.to_owned()).collect();
        let keys = parse_admin_keys(&SettingTexts { values, place })?;
        Ok(keys
            .iter()
            .map(|key| format!("{:?} {}", key.role, key.key.reveal()))
            .collect::<Vec<_>>()
            .join("; "))
    };
    let check = |place: SettingLocation, values: &[&str], expected: Result<&str, &str>| match (
        at(place, values),
        expected,
    ) {
        (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{values:?}"),
        (Err::<String, String>(reason), Err(part)) => {
            assert!(reason.contains(part), "{values:?}: {reason}")
        }
        (found, expected) => panic!("{values:?}: {found:?}, not {expected:?}"),
    };
    let file = || SettingLocation::File { path: "config.yaml".into(), line: 3 };
    check(SettingLocation::Default, &[], Ok(""));
    check(
        SettingLocation::Environment,
        &["admin:0123456789abcdef, viewer:fedcba9876543210"],
        Ok("Admin 0123456789abcdef; Viewer fedcba9876543210"),
    );
    check(file(), &["admin:a,b", "viewer:short"], Ok("Admin a,b; Viewer short"));
    check(SettingLocation::Environment, &["admin:short"], Err("at least 16 characters"));
    check(SettingLocation::Environment, &["0123456789abcdef"], Err("`admin:KEY` or `viewer:KEY`"));
    check(SettingLocation::Environment, &["boss:0123456789abcdef"], Err("`boss` is no role"));
    check(file(), &["admin:"], Err("a key is empty"));
    check(file(), &["viewer:a b"], Err("holds a space"));
}

#[test]
fn versions_and_plugins() {
    let check = |text: &str, expected: Option<&str>| {
        assert_eq!(parse_version(&given(text)).ok().flatten().as_deref(), expected, "{text}");
    };
    check("3.18.0", Some("3.18.0"));
    check(" 2.15.3 ", Some("2.15.3"));
    assert_eq!(parse_version(&given("off")), Ok(None));
    for text in ["", "3.14", "3.14.", "v3.14.0", "3.14.0\r\nX: y", "3.1.4.1", "on"] {
        assert!(parse_version(&given(text)).is_err(), "{text}");
    }
    assert_eq!(parse_enabled_plugins(&given("all")), Ok(None));
    assert_eq!(
        parse_enabled_plugins(&given("cors, key-auth")),
        Ok(Some(vec!["cors".to_owned(), "key-auth".to_owned()]))
    );
    assert_eq!(
        parse_enabled_plugins(&SettingTexts { values: Vec::new(), place: SettingLocation::Flag }),
        Ok(Some(Vec::new()))
    );
    assert_eq!(
        parse_enabled_plugins(&given("cors,key-outh")),
        Err("there is no plugin `key-outh`; did you mean `key-auth`?".to_owned())
    );
}

#[test]
fn lists_refuse_one_bad_entry() {
    assert!(parse_listeners(&given("127.0.0.1:1,off")).is_err());
    assert!(parse_listeners(&given(" , ")).is_err());
    assert!(networks(&given("10.0.0.0/8,10.0.0.0/33")).unwrap_err().contains("10.0.0.0/33"));
    assert!(networks(&given("10.0.0.0/8,010.0.0.0/8")).unwrap_err().contains("010.0.0.0/8"));
}

#[test]
fn numbers_keep_their_bounds() {
    let check = |text: &str, expected: Option<u64>| {
        assert_eq!(parse_number::<1, 10>(&given(text)).ok(), expected, "{text}");
    };
    check("1", Some(1));
    check("10", Some(10));
    check("1_0", Some(10));
    check("0", None);
    check("11", None);
    check("-1", None);
    check("1s", None);
    check("1.5", None);
    check("99999999999999999999", None);
}

#[test]
fn header_texts_cannot_break_a_line() {
    assert_eq!(server_header(&given("edge 1.0")).unwrap().unwrap(), "edge 1.0");
    assert!(server_header(&given("a\r\nb: c")).is_err());
    assert!(server_header(&given("")).is_err());
}

#[test]
fn log_formats() {
    let check = |text: &str, is_good: bool| {
        assert_eq!(parse_access_log_format(&given(text)).is_ok(), is_good, "{text}");
    };
    check("$status", true);
    check("json", true);
    check(r#"{"status": "$status"}"#, true);
    check(r#"{"status": 1}"#, false);
    check(r#"{"status": $status, "a": "\"$host"}"#, true);
    check(r#"{"status": $status $host}"#, false);
    check(r#"{"status": ${status"#, false);
    check(r#"{"status": $statuss}"#, false);
    // A script may set a variable of any name that is not nearly a known one.
    check("$tier $status", true);
    check(r#"{"tier": $tier}"#, true);
    check("$remote_adr", false);
    check("{$status}", false);
    check("a\nb", false);
    check("", false);
}

#[test]
fn json_variables_need_no_quotes() {
    let text = r#"{"status": $status, "seconds":${request_time}, "text": "a \" $host"}"#;
    let expected = [("status", "$status"), ("seconds", "${request_time}"), ("text", "a \" $host")];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(parse_access_log_format(&given(text)), Ok(AccessLogFormat::Json(expected.to_vec())));
}

#[test]
fn levels() {
    let check = |text: &str, is_good: bool| assert_eq!(log_filter(text).is_ok(), is_good, "{text}");
    check("info", true);
    check("WARN", true);
    check("warn,control=debug,gateway=off", true);
    check("", false);
    check("loud", false);
    check("warn,control=loud", false);
    check("warn,,info", false);
}
