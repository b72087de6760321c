//! References to the environment, which need no secret manager.

use std::time::Duration;

use model::outbound::OutboundPolicy;

use super::*;

fn secrets() -> Secrets {
    let second = Duration::from_secs(1);
    let policy = OutboundPolicy::default();
    let options = SecretOptions {
        refresh: second,
        stale: second,
        timeout: second,
        policy,
        ca: None,
        files: FilePolicy::All,
    };
    Secrets::new(options, |name| match name {
        "KEY" => Some("secret".to_owned()),
        "EMPTY" => Some(String::new()),
        "JSON" => Some(r#"{"a": "one", "b": 2, "c": {}, "d": ""}"#.to_owned()),
        _ => None,
    })
}

#[test]
fn environment_references_are_resolved_in_place() {
    let check = |reference: &str, expected: Result<&str, &str>| match (secrets().value(reference), expected) {
        (Ok(value), Ok(expected)) => assert_eq!(value, expected),
        (Err(reason), Err(expected)) => assert!(reason.contains(expected), "{reference}: {reason}"),
        (got, _) => panic!("{reference}: {got:?}"),
    };
    check("$ENV://KEY", Ok("secret"));
    check("$env://JSON/a", Ok("one"));
    check("$env://JSON/b", Ok("2"));
    check("$env://GONE", Err("no such environment variable"));
    check("$env://EMPTY", Err("no such text"));
    for key in ["c", "d", "e"] {
        check(&format!("$env://JSON/{key}"), Err("no such text"));
    }
    check("$env://KEY/a", Err("holds no JSON"));
    check("$secret://vault/1/a/b", Err("was not asked"));
    check("$secret://vault/1", Err("not written as"));
    check("plain", Err("not written as"));
}

#[test]
fn without_reference_no_manager_runs() {
    let secrets = secrets();
    let applied =
        model::Snapshot::empty().apply(&crate::testing::catalog(), &[], 1, model::FaultPolicy::Lenient);
    secrets.follow(&applied);
    assert!(secrets.thread.lock().is_none());
    let mut text = String::new();
    secrets.write_metrics(&mut text);
    assert_eq!(text, "");
}
