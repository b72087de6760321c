//! Deep texts in configurations: no parser of a text that a user writes overflows a stack. Every text of the
//! example of every plugin is replaced by a deep one of each syntax, on a thread with a stack that is a
//! quarter of the smallest of the gateway. Each is accepted or refused; a stack that overflows would end the
//! process.

use std::time::Instant;

use exchange::plugin::PluginKind;
use exchange::testing::know;
use model::catalog::{PluginCatalog, SchemaType};
use model::check::UnknownFields;
use serde_json::{Value, json};

use crate::ALL;
use crate::tests::nth_example;

/// A quarter of the stack of workers and of the side thread. Debug builds use several times more than
/// released ones.
const STACK_BYTES: usize = 512 * 1024;
/// Repetitions in the texts for every field: a stack of that size holds no more than some thousand calls.
const DEEP: usize = 10_000;
/// Repetitions in the texts for the fields that are known to be parsed.
const DEEPER: usize = 100_000;
/// The longest time that the check of one text takes, in milliseconds.
const CHECK_MS_MAX: u128 = 5_000;

/// Openings and closings of the syntaxes that plugins read, with the text between them.
const SYNTAXES: [(&str, &str, &str); 14] = [
    ("(", "a", ")"),
    ("[", "1", "]"),
    ("{\"a\":", "1", "}"),
    ("{a", "", "}"),
    ("query{a(b:[", "1", "])}"),
    ("${", "a", "}"),
    ("{{", "a", "}}"),
    ("!", "a", ""),
    ("a.", "b", ""),
    ("a && ", "b", ""),
    ("$[?@", "==1", "]"),
    ("(?=", "a", ")"),
    ("<a>", "", "</a>"),
    ("return function() ", "", " end"),
];

fn deep((open, middle, close): (&str, &str, &str), levels: usize) -> String {
    format!("{}{middle}{}", open.repeat(levels), close.repeat(levels))
}

/// Does the work on a thread with a small stack.
fn on_small_stack(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work).unwrap().join().unwrap();
}

/// The pointers of all texts in a value.
fn texts(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(pointer.to_owned()),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                texts(item, &format!("{pointer}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                texts(value, &format!("{pointer}/{}", name.replace('/', "~1")), found);
            }
        }
        _ => {}
    }
}

#[test]
fn no_text_of_a_plugin_overflows_a_stack() {
    know(ALL);
    let catalog = PluginCatalog::new(ALL.iter().map(|kind| kind.info()).collect()).unwrap();
    on_small_stack(move || {
        for kind in ALL {
            let plugin = catalog.get(kind.name).unwrap();
            let example = nth_example(kind, 0);
            let mut pointers = Vec::new();
            texts(&example, "", &mut pointers);
            for pointer in pointers {
                for syntax in SYNTAXES {
                    let mut config = example.clone();
                    *config.pointer_mut(&pointer).unwrap() = deep(syntax, DEEP).into();
                    let started = Instant::now();
                    drop(plugin.check(SchemaType::Plugin, &config, UnknownFields::Refuse));
                    let took = started.elapsed().as_millis();
                    assert!(took < CHECK_MS_MAX, "{} {pointer} {}: {took} ms", kind.name, syntax.0);
                }
            }
        }
    });
}

fn kind(name: &str) -> &'static PluginKind {
    ALL.iter().find(|kind| kind.name == name).unwrap()
}

#[test]
fn deep_texts_are_refused_where_they_are_parsed() {
    know(ALL);
    let casbin = |matcher: String, policy: String| {
        let model = "[request_definition]\nr = sub, obj, act\n[policy_definition]\np = sub, obj, act\n\
            [policy_effect]\ne = some(where (p.eft == allow))\n[matchers]\nm = ";
        json!({"model": format!("{model}{matcher}"), "policy": policy, "username": "user"})
    };
    let evaluated = |value: String| {
        casbin(
            "eval(p.sub) && r.act == p.act".to_owned(),
            format!("p, r.obj == \"/\", /, GET\np, {value}, /, GET"),
        )
    };
    let pattern = |pattern: String| json!({"body_schema": {"properties": {"a": {"pattern": pattern}}}});
    let references = |link: fn(String) -> Value| {
        let part = |index: usize| (format!("d{index}"), link(format!("#/definitions/d{}", index + 1)));
        let definitions: serde_json::Map<String, Value> =
            (0..9_000).map(part).chain([("d9000".to_owned(), json!({}))]).collect();
        json!({"body_schema": {"$ref": "#/definitions/d0", "definitions": definitions}})
    };
    let masked = |path: String| json!({"request": [{"type": "body", "body_format": "json", "name": path, "action": "remove"}]});
    let nested = |open: &str, middle: &str, close: &str| deep((open, middle, close), DEEPER);
    let mut rows: Vec<(&str, Value)> = vec![
        ("request-validation", pattern(nested("(", "a", ")"))),
        ("request-validation", pattern(nested("(?=", "a", ")"))),
        ("request-validation", pattern(nested("[", "a", "]"))),
        ("request-validation", references(|next| json!({"$ref": next}))),
        ("request-validation", references(|next| json!({"allOf": [{"$ref": next}]}))),
        ("oas-validator", json!({"spec": nested("[", "", "]")})),
        ("oas-validator", json!({"spec": nested("{\"openapi\":", "1", "}")})),
        ("data-mask", masked(nested("$[?", "@.a", "]"))),
        ("data-mask", masked(nested("$[?(", "@.a", ")]"))),
        ("data-mask", masked(format!("$[?{}", nested("(", "@.a", ")")))),
        ("data-mask", masked(format!("$[?{}", nested("!", "@.a", "")))),
        ("uri-blocker", json!({"block_rules": [nested("(", "a", ")")]})),
        ("uri-blocker", json!({"block_rules": [nested("(?!", "a", ")")]})),
        ("uri-blocker", json!({"block_rules": [nested("(?:a|", "b", ")*")]})),
        ("proxy-rewrite", json!({"regex_uri": [nested("(", "a", ")"), "/"]})),
        ("redirect", json!({"regex_uri": [nested("(?=", "a", ")"), "/"]})),
        ("cors", json!({"allow_origins_by_regex": [nested("(", "a", ")")]})),
        ("degraphql", json!({"query": nested("{a", "", "}")})),
        ("degraphql", json!({"query": nested("{a(b:[", "1", "])}")})),
        ("response-rewrite", json!({"vars": [["status", "~~", nested("(", "a", ")")]]})),
        ("response-rewrite", json!({"filters": [{"regex": nested("(", "a", ")"), "replace": "b"}]})),
    ];
    if cfg!(feature = "casbin") {
        rows.extend([
            ("authz-casbin", casbin(nested("(", "true", ")"), String::new())),
            ("authz-casbin", casbin(nested("!", "true", ""), String::new())),
            ("authz-casbin", casbin(nested("! ", "true", ""), String::new())),
            ("authz-casbin", casbin(nested("[", "", "]"), String::new())),
            ("authz-casbin", casbin(nested("true && ", "true", ""), String::new())),
            ("authz-casbin", casbin(nested("1 + ", "1 == 1", ""), String::new())),
            ("authz-casbin", casbin(nested("if true {", "true", "} else {false}"), String::new())),
            ("authz-casbin", casbin(nested("eval(", "p.sub", ")"), String::new())),
            ("authz-casbin", casbin("Fn(\"ev\" + \"al\").call(p.sub)".to_owned(), String::new())),
            ("authz-casbin", casbin("eval(p.sub + p.obj)".to_owned(), String::new())),
            ("authz-casbin", casbin("eval(r.obj)".to_owned(), String::new())),
            ("authz-casbin", evaluated(nested("(", "true", ")"))),
            ("authz-casbin", evaluated(nested("!", "true", ""))),
            ("authz-casbin", evaluated(nested("true && ", "true", ""))),
            ("authz-casbin", evaluated("eval(\"true\")".to_owned())),
        ]);
    }
    if cfg!(feature = "lua") {
        let function = |source: String| json!({"functions": [source]});
        rows.extend([
            ("serverless-pre-function", function(format!("return {}", nested("(", "1", ")")))),
            ("serverless-pre-function", function(format!("return {}", nested("{", "1", "}")))),
            ("serverless-pre-function", function(format!("return {}", nested("not ", "1", "")))),
            ("serverless-pre-function", function(nested("return function() ", "", " end"))),
            ("serverless-pre-function", function(format!("return {}", nested("1 .. ", "1", "")))),
            ("exit-transformer", function(format!("return {}", nested("(", "1", ")")))),
            (
                "body-transformer",
                json!({"request": {"template": format!("{{{{{}}}}}", nested("(", "1", ")"))}}),
            ),
            (
                "body-transformer",
                json!({"request": {"template": nested("{% if true then %}", "", "{% end %}")}}),
            ),
        ]);
    }
    let catalog = PluginCatalog::new(ALL.iter().map(|kind| kind.info()).collect()).unwrap();
    on_small_stack(move || {
        for (name, config) in rows {
            let checked = catalog.get(kind(name).name).unwrap().check(
                SchemaType::Plugin,
                &config,
                UnknownFields::Refuse,
            );
            assert!(!checked.faults.is_empty(), "{name} accepts {:.200}", config.to_string());
        }
    });
}
