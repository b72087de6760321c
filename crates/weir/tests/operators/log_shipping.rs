//! The page on log collectors: a gateway with its settings writes lines with the fields that the collectors
//! name.

use std::collections::BTreeSet;

use serde_json::Value;
use testkit::{Origin, Weir, wait_for};

use crate::support::{BINARY, read};

/// The code of the first block of a language behind a heading of the page.
fn block(heading: &str, language: &str) -> String {
    let page = read("docs/guide/log-shipping.md");
    let section = page.split(heading).nth(1).unwrap_or_else(|| panic!("no {heading}"));
    let code = section.split(&format!("```{language}\n")).nth(1).unwrap_or_else(|| panic!("no {language}"));
    code.split("```").next().unwrap().to_owned()
}

/// The words of the text between each `begin` and `end`, such as names of fields.
fn between(text: &str, begin: &str, end: &str) -> BTreeSet<String> {
    let found = text.split(begin).skip(1).filter_map(|rest| rest.split(end).next());
    found.map(|name| name.trim().to_owned()).collect()
}

/// The names of fields that each collector reads from a line.
fn used() -> Vec<(&'static str, BTreeSet<String>)> {
    let alloy = block("## Grafana Alloy", "alloy");
    let expressions = alloy.split("expressions = {").nth(1).unwrap().split('}').next().unwrap();
    let alloy = expressions.split(',').map(|pair| pair.split('"').nth(3).unwrap().to_owned()).collect();
    let vector = block("## Vector", "toml");
    let mut of_vector = between(&vector, "to_float!(.", ")");
    of_vector.extend(between(&vector, "del(.", ")"));
    of_vector.extend(between(&vector, "\"{{", "}}\""));
    let filebeat = block("## Filebeat", "yaml foreign");
    let mut of_filebeat = between(&filebeat, "from: weir.", ",");
    of_filebeat.extend(between(&filebeat, "field: weir.", ","));
    let logstash = block("## Logstash", "text");
    let mut of_logstash = between(&logstash, "match => [\"[", "]\"");
    of_logstash.extend(between(&logstash, "rename => { \"[", "]\""));
    let loki = block("Questions for Loki", "logql");
    let mut of_loki = between(&loki, "{{.", "}}");
    of_loki.extend(between(&loki, "unwrap ", " ["));
    vec![
        ("Alloy", alloy),
        ("Vector", of_vector),
        ("Filebeat", of_filebeat),
        ("Logstash", of_logstash),
        ("Loki", of_loki),
    ]
}

#[test]
fn lines_have_the_fields_that_collectors_name() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let settings =
        block("The settings", "yaml settings").replace("/var/log/weir/access.log", log.to_str().unwrap());
    let weir = Weir::builder(BINARY).settings(&settings).start();
    let origin = Origin::answering("hello");
    let nodes = serde_json::json!({origin.address().to_string(): 1});
    weir.put("routes/a", serde_json::json!({"uri": "/a", "upstream": {"nodes": nodes}}));
    let agent = [("User-Agent", "a \"quoted\" agent\u{1F600}")];
    assert_eq!(weir.client().request("GET", "/a?q=1", &agent, b"").status, 200);
    assert_eq!(weir.get("/none").status, 404);
    let lines = wait_for("two lines", || {
        let text = std::fs::read_to_string(&log).ok()?;
        (text.lines().count() == 2 && text.ends_with('\n')).then_some(text)
    });
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (good, missing) = (&lines[0], &lines[1]);
    let time = good["time"].as_str().unwrap();
    assert!(time.len() == 25 && time.as_bytes()[10] == b'T', "the layout of Filebeat's processor: {time}");
    assert!(good["msec"].as_f64().unwrap() > 1.7e9, "seconds with a fraction: {good}");
    for (name, value) in [("method", "GET"), ("uri", "/a"), ("route", "a"), ("cause", "")] {
        assert_eq!(good[name], value, "{good}");
    }
    for name in ["status", "bytes_in", "bytes_out", "seconds", "upstream_seconds"] {
        assert!(good[name].is_number(), "{name} in {good}");
    }
    assert_eq!(missing["cause"], "route_not_found", "{missing}");
    for (collector, names) in used() {
        assert!(names.len() >= 2, "{collector}: {names:?}");
        for name in names {
            assert!(!good[&name].is_null(), "{collector} reads {name}, which is not in {good}");
        }
    }
}
