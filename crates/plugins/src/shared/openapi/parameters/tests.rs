//! Tests of the parameters.

use serde_json::json;

use super::*;
use crate::shared::openapi::schemas::Schemas;

fn parameter(place: ParameterLocation, style: Style, schema: Value) -> Parameter {
    let document = json!({});
    let schema: &Value = Box::leak(Box::new(schema));
    let mut schemas = Schemas::new(Box::leak(Box::new(document)), true);
    let schema = Some(schemas.compile(schema, "/x").unwrap());
    Parameter { name: "p".into(), place, is_required: true, style, schema }
}

fn check(parameter: &Parameter, input: &str, expected: Option<&str>) {
    let query = decoded_arguments(input.as_bytes());
    let mut headers = Headers::new();
    for line in input.lines().filter(|_| parameter.place != ParameterLocation::Query) {
        let (name, value) = line.split_once(": ").unwrap_or(("p", line));
        headers.append(name, value.as_bytes()).unwrap();
    }
    let path = [("p", input)];
    let steps = RefCell::new(SchemaSteps::on_worker());
    let parts = ParameterSources { path: &path, query: &query, headers: &headers, parameters: &[], steps };
    let fault = parameter.fault(&parts);
    match expected {
        None => assert_eq!(fault, None, "{input}"),
        Some(part) => {
            assert!(fault.as_ref().is_some_and(|fault| fault.contains(part)), "{input}: {fault:?}")
        }
    }
}

#[test]
fn texts_become_values_by_their_schema() {
    let id = parameter(ParameterLocation::Path, Style::Commas, json!({"type": "integer", "minimum": 1}));
    check(&id, "7", None);
    check(&id, "0", Some("path parameter p: "));
    check(&id, "seven", Some("wrong type: expected integer"));
    check(&id, "07", Some("wrong type"));
    check(&id, "1.5", Some("wrong type"));
    let flag = parameter(ParameterLocation::Query, Style::Repeated, json!({"type": "boolean"}));
    check(&flag, "p=true", None);
    check(&flag, "p=1", Some("query parameter p: "));
    check(&flag, "", Some("query parameter p is required"));
    check(&flag, "p=true&p=false", Some("more than once"));
    let code = parameter(
        ParameterLocation::Query,
        Style::Repeated,
        json!({"type": "string", "pattern": "^[0-9]+$"}),
    );
    check(&code, "p=12", None);
    let either = parameter(ParameterLocation::Query, Style::Repeated, json!({"enum": [1, "one"]}));
    check(&either, "p=1", None);
    check(&either, "p=one", None);
    check(&either, "p=2", Some("enum"));
    let header = parameter(ParameterLocation::Header, Style::Commas, json!({"type": "integer"}));
    check(&header, "P: 5", None);
    check(&header, "P: five", Some("header p: "));
    check(&header, "P: 5\nP: five", Some("more than once"));
    let cookie = parameter(ParameterLocation::Cookie, Style::Repeated, json!({"type": "integer"}));
    check(&cookie, "Cookie: a=x; p=5", None);
    check(&cookie, "Cookie: a=5", Some("cookie p is required"));
}

#[test]
fn lists_and_objects_are_read_by_their_style() {
    let list = json!({"type": "array", "maxItems": 3, "items": {"type": "integer"}});
    let of = |style: Style| parameter(ParameterLocation::Query, style, list.clone());
    check(&of(Style::Repeated), "p=1&p=2", None);
    check(&of(Style::Repeated), "p%5B%5D=1&p%5B%5D=2", None);
    check(&of(Style::Repeated), "p=1,2", Some("wrong type"));
    check(&of(Style::Commas), "p=1,2", None);
    check(&of(Style::Commas), "p=1,2,3,4", Some("query parameter p: "));
    check(&of(Style::Spaces), "p=1%202", None);
    check(&of(Style::Pipes), "p=1%7Cx", Some("wrong type"));
    check(&of(Style::Commas), &format!("p={}", "1,".repeat(ITEMS_MAX + 1)), Some("more than 10000 values"));
    let object = json!({"type": "object", "required": ["a"], "additionalProperties": false,
        "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}}}});
    let of = |style: Style| parameter(ParameterLocation::Query, style, object.clone());
    check(&of(Style::Deep), "p[a]=1&p[b]=x&p[b]=y&other=1", None);
    check(&of(Style::Deep), "p[b]=x", Some("property \"a\" is required"));
    check(&of(Style::Deep), "p[a]=1&p[c]=1", Some("additional"));
    check(&of(Style::Repeated), "a=1&z=2", None);
    check(&of(Style::Repeated), "a=x", Some("wrong type"));
    check(&of(Style::Commas), "p=a,1", None);
    check(&of(Style::Json), "p=%7B%22a%22:1%7D", None);
    check(&of(Style::Json), "p=%7B", Some("it is not JSON"));
    check(&of(Style::Json), "p=%7B%22a%22:1%7D&p=x", Some("more than once"));
    check(&of(Style::Commas), "p=a,1&p=a,x", Some("more than once"));
    check(&of(Style::Commas), "p=a,x,a,1", Some("property \"a\" is there more than once"));
    check(&of(Style::Repeated), "a=x&a=1", Some("property \"a\" is there more than once"));
    check(&of(Style::Repeated), "a=1&b=x&b=y", None);
    check(&of(Style::Deep), "p[a]=x&p[a]=1", Some("property \"a\" is there more than once"));
    let open = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let open = parameter(ParameterLocation::Query, Style::Repeated, open);
    check(&open, "x=1&y=2", None);
    check(&open, "x=one", Some("wrong type"));
    check(&open, "x=1&x=2", Some("more than once"));
    check(&open, "", Some("query parameter p is required"));
}
