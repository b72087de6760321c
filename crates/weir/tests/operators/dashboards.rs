//! The form of Grafana's dashboards: fields that an import needs, panels that do not overlap, queries with a
//! data source, texts, units, and a page that lists them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{read, run};

/// The dashboards by the names of their files.
pub(crate) fn dashboards() -> Vec<(&'static str, Value)> {
    ["weir-overview", "weir-routes", "weir-instance"]
        .into_iter()
        .map(|name| {
            let text = read(&format!("packaging/grafana/{name}.json"));
            (name, serde_json::from_str(&text).unwrap())
        })
        .collect()
}

/// The panels of a dashboard that are no rows.
pub(crate) fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row")
}

/// Place and size of a panel on the grid.
fn place(panel: &Value) -> [u64; 4] {
    ["x", "y", "w", "h"].map(|name| panel["gridPos"][name].as_u64().unwrap())
}

/// The pairs of panels that overlap or leave the grid.
fn overlaps(panels: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    for (index, panel) in panels.iter().enumerate() {
        let [x, y, w, h] = place(panel);
        if w == 0 || h == 0 || x + w > 24 {
            found.push(format!("{} leaves the grid", panel["title"]));
        }
        for other in &panels[..index] {
            let [ox, oy, ow, oh] = place(other);
            if x < ox + ow && ox < x + w && y < oy + oh && oy < y + h {
                found.push(format!("{} overlaps {}", panel["title"], other["title"]));
            }
        }
    }
    found
}

#[test]
fn files_are_those_of_their_source() {
    run("/usr/bin/python3", &["packaging/grafana/dashboards.py", "--check"], ".").text();
}

#[test]
fn dashboards_have_what_an_import_needs() {
    for (name, dashboard) in dashboards() {
        assert_eq!(dashboard["uid"], name);
        assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 36, "{name}");
        assert_eq!(dashboard.get("id"), None, "{name}: Grafana gives the number");
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        assert_eq!(
            (&variables[0]["name"], &variables[0]["type"]),
            (&"datasource".into(), &"datasource".into())
        );
        let names: BTreeSet<&str> = variables.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert!(names.contains("job") && names.contains("instance"), "{name}: {names:?}");
        let ids: BTreeSet<u64> = dashboard["panels"]
            .as_array()
            .unwrap()
            .iter()
            .map(|panel| panel["id"].as_u64().unwrap())
            .collect();
        assert_eq!(
            ids.len(),
            dashboard["panels"].as_array().unwrap().len(),
            "{name}: a number is there twice"
        );
        assert!(dashboard["annotations"]["list"].as_array().unwrap().len() == 3, "{name}");
    }
}

#[test]
fn panels_have_places_units_and_descriptions() {
    for (name, dashboard) in dashboards() {
        assert_eq!(overlaps(dashboard["panels"].as_array().unwrap()), Vec::<String>::new(), "{name}");
        assert!(panels(&dashboard).count() > 20, "{name}");
        for panel in panels(&dashboard) {
            let title = &panel["title"];
            assert!(panel["description"].as_str().is_some_and(|text| text.ends_with('.')), "{name}: {title}");
            let defaults = &panel["fieldConfig"]["defaults"];
            assert!(defaults["unit"].is_string(), "{name}: {title} has no unit");
            let steps = defaults["thresholds"]["steps"].as_array().unwrap();
            assert!(steps[0]["value"].is_null(), "{name}: {title}");
            let targets = panel["targets"].as_array().unwrap();
            let references: BTreeSet<&str> =
                targets.iter().map(|target| target["refId"].as_str().unwrap()).collect();
            assert!(!targets.is_empty() && references.len() == targets.len(), "{name}: {title}");
            for target in targets {
                assert_eq!(target["datasource"]["uid"], "${datasource}", "{name}: {title}");
                let expression = target["expr"].as_str().unwrap();
                assert!(expression.contains("$job") && expression.contains("$instance"), "{name}: {title}");
            }
        }
    }
}

#[test]
fn overlapping_panels_are_found() {
    let panel = |title: &str, x: u64, y: u64| serde_json::json!({"title": title, "gridPos": {"x": x, "y": y, "w": 12, "h": 8}});
    assert_eq!(overlaps(&[panel("a", 0, 0), panel("b", 12, 0), panel("c", 0, 8)]), Vec::<String>::new());
    assert_eq!(overlaps(&[panel("a", 0, 0), panel("b", 11, 7)]), ["\"b\" overlaps \"a\""]);
    assert_eq!(overlaps(&[panel("a", 13, 0)]), ["\"a\" leaves the grid"]);
}

#[test]
fn guide_lists_all_panels() {
    let page = read("docs/guide/grafana.md");
    for (_, dashboard) in dashboards() {
        let title = dashboard["title"].as_str().unwrap();
        let section = page.split(&format!("### {title}\n")).nth(1).expect(title);
        let section = section.split("\n#").next().unwrap();
        for panel in panels(&dashboard) {
            let title = panel["title"].as_str().unwrap();
            assert!(section.contains(title), "docs/guide/grafana.md lacks the panel {title}");
        }
    }
}
