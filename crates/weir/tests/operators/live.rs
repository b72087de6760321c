//! Dashboards and rules in a real Prometheus that reads a gateway under traffic: each expression has data, or
//! is listed with the reason why it has none there.

use serde_json::{Value, json};
use testkit::{wait_for, wait_until};

use crate::dashboards::{dashboards, panels};
use crate::stage::Stage;

/// Metrics without a value on this stage, and why. An entry that no expression needs any more is a fault.
const EMPTY: &[(&str, &str)] = &[
    ("apisix_etcd_", "the source is the store"),
    ("weir_etcd_", "the source is the store"),
    ("weir_acme_", "no certificate is ordered"),
    ("weir_ocsp_", "no certificate asks for stapling"),
    ("weir_secret_references", "no object refers to a secret manager"),
    ("weir_registration_", "the instance registers nowhere"),
    ("weir_auto_routes", "no routes are made of services"),
    ("weir_grpc_calls_total", "no gRPC call is made"),
    ("weir_cache_disk_failures_total", "no zone on disk is used"),
];

/// The expressions of a dashboard with the places where they are: panels, annotations and variables.
fn expressions(dashboard: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for panel in panels(dashboard) {
        for target in panel["targets"].as_array().unwrap() {
            found.push((panel["title"].to_string(), target["expr"].as_str().unwrap().to_owned()));
        }
    }
    for annotation in dashboard["annotations"]["list"].as_array().unwrap() {
        if let Some(expression) = annotation["expr"].as_str() {
            found.push((annotation["name"].to_string(), expression.to_owned()));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let Some(query) = variable["definition"].as_str() else { continue };
        let inner = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).unwrap();
        let (series, label) = inner.rsplit_once(", ").unwrap();
        found.push((variable["name"].to_string(), format!("group by ({label}) ({series})")));
    }
    found
}

/// An expression as Grafana would send it, with all values chosen and a window that fits the scrapes of a
/// test.
fn filled(expression: &str) -> String {
    let mut text = expression.to_owned();
    for name in ["job", "instance", "route", "service", "consumer", "upstream"] {
        text = text.replace(&format!("\"${name}\""), "\".*\"");
    }
    let text = text.replace("$__rate_interval", "15s");
    assert!(!text.replace("${1}", "").contains('$'), "an unknown variable in {text}");
    text
}

fn is_empty_here(expression: &str) -> bool {
    EMPTY.iter().any(|(metric, _)| expression.contains(metric))
}

#[test]
fn expressions_have_data_under_traffic() {
    let stage = Stage::start();
    wait_until("Prometheus has read the gateway", || {
        stage.prometheus.ask("weir_config_revision").is_ok_and(|result| !result.is_empty())
    });
    // For the marks of changed configurations.
    stage.weir.put("upstreams/later", json!({"nodes": {"127.0.0.1:1": 1}}));
    let mut faults = Vec::new();
    let mut asked = 0;
    for (name, dashboard) in dashboards() {
        for (place, expression) in expressions(&dashboard) {
            asked += 1;
            let text = filled(&expression);
            let ask = || stage.prometheus.ask(&text);
            if is_empty_here(&expression) {
                match ask() {
                    Ok(result) if result.is_empty() => {}
                    other => faults.push(format!("{name}: {place}: listed as empty: {text}: {other:?}")),
                }
                continue;
            }
            // The first expressions wait for the first scrapes; the traffic goes on meanwhile.
            let outcome = wait_for(&format!("{place} has data: {text}"), || match ask() {
                Ok(result) if result.is_empty() => None,
                other => Some(other),
            });
            faults.extend(outcome.err().map(|error| format!("{name}: {place}: {text}: {error}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(asked > 110, "{asked} expressions were asked");
    for (metric, reason) in EMPTY {
        let is_used = dashboards().iter().any(|(_, one)| one.to_string().contains(metric));
        assert!(is_used, "{metric} ({reason}) is in no dashboard");
    }
    rules_are_evaluated(&stage);
}

/// Rules without an error, and alerts that are due on this stage.
fn rules_are_evaluated(stage: &Stage) {
    let rules = || -> Vec<Value> {
        let groups = stage.prometheus.api("rules");
        let groups = groups["groups"].as_array().cloned().unwrap_or_default();
        groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect()
    };
    wait_until("all rules were evaluated without an error", || {
        let rules = rules();
        rules.len() > 40 && rules.iter().all(|rule| rule["health"] == "ok")
    });
    for alert in ["WeirEndpointUnhealthy", "WeirUpstreamDown", "WeirRouteFails", "WeirErrorBudgetBurnsFast"] {
        wait_until(&format!("{alert} is pending or fires"), || {
            rules().iter().any(|rule| rule["name"] == alert && rule["state"] != "inactive")
        });
    }
    for alert in [
        "WeirInstanceDown",
        "WeirMemoryNearLimit",
        "WeirStoreFails",
        "WeirWorkerRestarted",
        "WeirFilesNearLimit",
    ] {
        assert!(
            rules().iter().any(|rule| rule["name"] == alert && rule["state"] == "inactive"),
            "{alert} is no rule, or is active without a fault"
        );
    }
}
