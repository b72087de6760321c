//! The rules of Prometheus: `promtool` accepts them, each alert fires for faulty series and only for those,
//! uses metrics that exist and has a section in the guide.

use std::collections::BTreeSet;

use crate::support::{read, run};

const FOLDER: &str = "packaging/prometheus";

/// The names of the alerts, in order.
fn alerts() -> Vec<String> {
    let text = read("packaging/prometheus/weir-alerts.yml");
    let names = text.lines().filter_map(|line| line.trim_start().strip_prefix("- alert: "));
    let names: Vec<String> = names.map(str::to_owned).collect();
    assert!(names.len() > 30, "{names:?}");
    names
}

#[test]
fn rules_and_scrape_configuration_are_valid() {
    run("promtool", &["check", "rules", "--lint-fatal", "weir-rules.yml", "weir-alerts.yml"], FOLDER).text();
    run("promtool", &["check", "config", "prometheus.yml"], FOLDER).text();
}

#[test]
fn each_alert_fires_for_its_fault_only() {
    let tests = read("packaging/prometheus/weir-alerts-test.yml");
    for alert in alerts() {
        assert!(tests.contains(&format!("  - name: {alert}\n")), "{alert} has no unit test");
    }
    let report = run("promtool", &["test", "rules", "weir-alerts-test.yml"], FOLDER).text();
    assert!(report.contains("SUCCESS"), "{report}");
}

#[test]
fn wrong_threshold_fails_the_unit_tests() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["weir-rules.yml", "weir-alerts.yml"] {
        let text = read(&format!("{FOLDER}/{name}")).replace("> 0.85", "> 0.95");
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    // Only the group of this alert, because all of them take seconds.
    let tests = read("packaging/prometheus/weir-alerts-test.yml");
    let (head, _) = tests.split_once("  - name: ").unwrap();
    let begin = tests.find("  - name: WeirMemoryNearLimit\n").unwrap();
    let end = tests[begin + 4..].find("  - name: ").map_or(tests.len(), |length| begin + 4 + length);
    std::fs::write(folder.path().join("test.yml"), format!("{head}{}", &tests[begin..end])).unwrap();
    let ended = run("promtool", &["test", "rules", "test.yml"], folder.path().to_str().unwrap());
    assert!(
        !ended.is_good && ended.stderr.contains("WeirMemoryNearLimit"),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
}

#[test]
fn each_alert_has_texts_and_a_runbook_section() {
    let (rules, guide) = (read("packaging/prometheus/weir-alerts.yml"), read("docs/guide/alerts.md"));
    let sections: BTreeSet<&str> = guide.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    for rule in rules.split("      - alert: ").skip(1) {
        let (alert, rest) = rule.split_once('\n').unwrap();
        assert!(sections.contains(alert), "docs/guide/alerts.md has no section {alert}");
        let runbook = format!("runbook: docs/guide/alerts.md#{}\n", alert.to_lowercase());
        for part in ["labels: {severity: ", "summary: '", "description: >-\n", &runbook] {
            assert!(rest.contains(part), "{alert} has no {part}");
        }
    }
    let known: BTreeSet<String> = alerts().into_iter().collect();
    for section in sections {
        assert!(
            known.contains(section),
            "docs/guide/alerts.md has a section on {section}, which is no alert"
        );
    }
    let overview = read("docs/guide/grafana.md");
    for alert in known {
        assert!(overview.contains(&format!("[{alert}](alerts.md#")), "docs/guide/grafana.md lacks {alert}");
    }
}

#[test]
fn rules_use_metrics_that_are_documented() {
    let page = read("docs/guide/observability.md");
    let documented: BTreeSet<&str> = page.split('`').collect();
    let mut used = BTreeSet::new();
    for name in ["weir-rules.yml", "weir-alerts.yml"] {
        let text = read(&format!("{FOLDER}/{name}"));
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        // Texts of annotations name metrics too, and those have to exist as well.
        for word in lines
            .flat_map(|line| line.split(|sign: char| !sign.is_ascii_alphanumeric() && !"_:".contains(sign)))
        {
            if ["weir_", "apisix_", "process_"].iter().any(|prefix| word.starts_with(prefix)) {
                used.insert(word.to_owned());
            }
        }
    }
    assert!(used.len() > 25, "{used:?}");
    for metric in used {
        assert!(documented.contains(&*metric), "{metric} is not in docs/guide/observability.md");
    }
}
