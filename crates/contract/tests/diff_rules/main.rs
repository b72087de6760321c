//! Tables of small pairs of documents with the changes that must be listed, and tests of order, limits and
//! bad input. The tables were checked against oasdiff 1.38.0. Rows about a limit that moved between the
//! inclusive and the exclusive keyword, null in both versions of OpenAPI or in `anyOf`, undeclared
//! properties, and the serialization of parameters differ from it on purpose.
#![allow(clippy::unwrap_used)]

mod operations;
mod robustness;
mod schemas;
mod settings;

use contract::diff::{ChangeLevel, ContractChange, DiffOptions, diff_documents};
use serde_json::{Value, json};

/// Days since 1970-01-01 of the date that the tests take for today: 2026-11-30.
const TODAY: i64 = 20_787;

/// The place of the two fragments of a row in otherwise equal documents.
#[derive(Debug, Clone, Copy)]
enum FragmentPlace {
    /// Schema of a JSON request body.
    Request,
    /// Schema of a JSON response body of status 200.
    Response,
    /// Schema of an optional query parameter.
    Parameter,
    /// Schema of an optional response header.
    Header,
    /// Members of the only operation.
    Operation,
    /// Members of the document.
    Document,
}

/// One row: place, old and new fragment as JSON, and the expected changes as `E`, `W` or `I` with the rule.
type ChangeRow = (FragmentPlace, &'static str, &'static str, &'static [&'static str]);

fn document(place: FragmentPlace, fragment: &str) -> Value {
    let fragment: Value = serde_json::from_str(fragment).unwrap();
    let mut operation = json!({ "responses": { "200": { "description": "ok" } } });
    match place {
        FragmentPlace::Document => {
            let mut document = json!({ "openapi": "3.0.3", "info": { "version": "1" }, "paths": {} });
            merge(&mut document, fragment);
            return document;
        }
        FragmentPlace::Operation => merge(&mut operation, fragment),
        FragmentPlace::Request => {
            operation["requestBody"] = json!({ "content": { "application/json": { "schema": fragment } } });
        }
        FragmentPlace::Response => {
            operation["responses"]["200"]["content"] = json!({ "application/json": { "schema": fragment } });
        }
        FragmentPlace::Parameter => {
            operation["parameters"] = json!([{ "name": "q", "in": "query", "schema": fragment }]);
        }
        FragmentPlace::Header => {
            operation["responses"]["200"]["headers"] = json!({ "X-Rate": { "schema": fragment } });
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": { "version": "1" },
        "paths": { "/pets": { "post": operation } },
        "components": { "schemas": {
            "Pet": { "type": "object" },
            "Cat": { "type": "object", "minProperties": 1 },
        } },
    })
}

fn merge(target: &mut Value, fragment: Value) {
    for (name, value) in fragment.as_object().unwrap() {
        target[name] = value.clone();
    }
}

fn options() -> DiffOptions {
    DiffOptions { today: Some(TODAY), ..DiffOptions::default() }
}

fn changes(old: &Value, new: &Value) -> Vec<ContractChange> {
    diff_documents(old, new, &options()).unwrap()
}

/// The changes as they are written in the tables, without repetitions.
fn rule_lines(changes: &[ContractChange]) -> Vec<String> {
    let letter = |level| match level {
        ChangeLevel::Breaking => "E",
        ChangeLevel::Warning => "W",
        ChangeLevel::Info => "I",
    };
    let mut lines: Vec<String> =
        changes.iter().map(|change| format!("{} {}", letter(change.level), change.rule)).collect();
    lines.sort();
    lines.dedup();
    lines
}

fn check_rows(rows: &[ChangeRow]) {
    let mut failures = Vec::new();
    for (place, old, new, expected) in rows {
        let found = rule_lines(&changes(&document(*place, old), &document(*place, new)));
        let mut expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
        expected.sort();
        if found != expected {
            failures.push(format!("{place:?} {old} -> {new}: found {found:?}, expected {expected:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
