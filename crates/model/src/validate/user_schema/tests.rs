//! Tests of the schemas of users: their words, and their limits.

use serde_json::json;

use super::*;

#[test]
fn draft_is_the_one_that_the_schema_names() {
    let fault = |schema: Value, value: Value| self::fault(&UserSchema::compile(&schema).unwrap(), &value);
    let tuple = |draft: &str, keyword: &str| json!({"$schema": draft, "type": "array", keyword: [{"type": "integer"}]});
    let newest = "https://json-schema.org/draft/2020-12/schema";
    assert!(fault(tuple(newest, "prefixItems"), json!(["a"])).is_some());
    let seventh = "http://json-schema.org/draft-07/schema#";
    assert!(fault(tuple(seventh, "items"), json!(["a"])).is_some());
    assert_eq!(fault(tuple(seventh, "prefixItems"), json!(["a"])), None, "draft 7 has no prefixItems");
    let fourth = json!({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1,
        "exclusiveMinimum": true});
    assert!(fault(fourth, json!(1)).is_some());
    assert!(fault(json!({"minimum": 1, "exclusiveMinimum": true}), json!(1)).is_some(), "unnamed draft 4");
    assert!(fault(json!({"exclusiveMinimum": 1}), json!(1)).is_some(), "unnamed draft 7");
}

#[test]
fn faulty_or_remote_schema_is_refused() {
    let refused = |schema: Value, part: &str| {
        let reason = UserSchema::compile(&schema).err().unwrap_or_else(|| panic!("accepted: {schema}"));
        assert!(reason.contains(part), "{schema}: {reason}");
    };
    refused(json!({"type": "test"}), "/type: ");
    refused(json!({"properties": {"a": {"enum": "b"}}}), "/properties/a/enum: ");
    refused(json!({"$ref": "https://example.com/s.json"}), "https://example.com/s.json");
    refused(json!({"$ref": "file:///etc/passwd"}), "file:///etc/passwd");
}

#[test]
fn fault_has_the_words_of_apisix() {
    let schema = json!({
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "age": {"$ref": "#/definitions/age"}},
        "definitions": {"age": {"type": "integer", "minimum": 0}}
    });
    let schema = UserSchema::compile(&schema).unwrap();
    let cases = [
        (json!({"name": "a", "age": 1}), None),
        (json!({}), Some("property \"name\" is required")),
        (json!([]), Some("wrong type: expected object, got table")),
        (
            json!({"name": 1}),
            Some("property \"name\" validation failed: wrong type: expected string, got number"),
        ),
        (
            json!({"name": "a", "age": "old"}),
            Some("property \"age\" validation failed: wrong type: expected integer, got string"),
        ),
    ];
    for (value, expected) in cases {
        assert_eq!(fault(&schema, &value).as_deref(), expected, "{value}");
    }
}

/// A search on the backtracking engine takes at most 2 MiB walked: 7 ms, in a debug build some times more.
#[test]
fn pattern_that_walks_too_long_is_a_fault() {
    let text = json!(format!("{}!", "a".repeat(4_000)));
    let object = json!({"a".repeat(4_000): 1, "b": [{"c".repeat(60): 1}]});
    for pattern in
        ["(?<!q)[a-z]+Z$", "(?=.*a)(?=.*b)[a-z]+Z", "([a-z]+)+\\1Z", "(?<=a)[a-z]*[a-z]*Z$", "(?!x)(a|aa)+$"]
    {
        let schema = UserSchema::compile(&json!({"pattern": pattern})).unwrap();
        let mut steps = SchemaSteps::on_worker();
        assert_eq!(schema.fault(&text, &mut steps).as_deref(), Some(TOO_MANY_STEPS), "{pattern}");
        // Neither the pattern nor its negation holds.
        let not = UserSchema::compile(&json!({"not": {"pattern": pattern}})).unwrap();
        assert_eq!(fault(&not, &text).as_deref(), Some(TOO_MANY_STEPS), "{pattern}");
        for keyword in
            [json!({"patternProperties": {pattern: true}}), json!({"propertyNames": {"pattern": pattern}})]
        {
            let schema = UserSchema::compile(&keyword).unwrap();
            assert!(fault(&schema, &object).is_some(), "{keyword}");
        }
        assert!(steps.used() <= WORKER_STEPS, "{pattern}");
    }
}

#[test]
fn usual_patterns_with_look_around_keep_working() {
    let check = |schema: Value, value: Value, expected: bool| {
        let compiled = UserSchema::compile(&schema).unwrap();
        assert_eq!(fault(&compiled, &value).is_none(), expected, "{schema} {value}");
    };
    let password = || json!({"pattern": "^(?=.*[A-Z])(?=.*[0-9]).{8,64}$"});
    check(password(), json!("Secret123"), true);
    check(password(), json!("secret123"), false);
    check(password(), json!("S1é".repeat(10)), true);
    check(json!({"pattern": "^(?=.{3}$)"}), json!("éàè"), true);
    check(json!({"pattern": "(?=.*a)(?=.*b)[a-z]+Z"}), json!("xxabZ"), true);
    check(json!({"pattern": "^(\\w)\\1$"}), json!("aa"), true);
    let names =
        || json!({"patternProperties": {"^(?!x-)": {"type": "integer"}}, "additionalProperties": false});
    check(names(), json!({"a": 1}), true);
    check(names(), json!({"a": "1"}), false);
    check(names(), json!({"x-a": 1}), false);
    check(json!({"enum": [{"pattern": "(?=a)b"}]}), json!({"pattern": "(?=a)b"}), true);
    check(json!({"properties": {"pattern": {"type": "string"}}}), json!({"pattern": 1}), false);
}

#[test]
fn counted_pattern_keeps_the_words_of_apisix() {
    let schema = json!({"properties": {"a": {"items": {"$ref": "#/definitions/p"}}},
        "definitions": {"p": {"pattern": "(?=a)ab"}}});
    let schema = UserSchema::compile(&schema).unwrap();
    assert_eq!(
        fault(&schema, &json!({"a": ["ab", "b"]})).as_deref(),
        Some(
            "property \"a\" validation failed: failed to validate item 2: \
             failed to match pattern \"(?=a)ab\" with \"b\""
        )
    );
}

#[test]
fn large_or_malformed_pattern_is_refused() {
    let refused = |schema: Value, part: &str| {
        let reason = UserSchema::compile(&schema).err().unwrap_or_else(|| panic!("accepted: {schema}"));
        assert!(reason.contains(part), "{reason}");
    };
    refused(json!({"properties": {"a": {"pattern": "("}}}), "/properties/a/pattern: `(` is not a usable");
    refused(json!({"pattern": "(a{1000}){1000}"}), "not a usable");
    refused(json!({"pattern": "a".repeat(20_000)}), "more than 16384 bytes");
    refused(json!({"pattern": "\\s".repeat(1_000)}), "too many classes");
    refused(json!({"patternProperties": {"(?<=": true}}), "patternProperties: `(?<=`");
    refused(json!({"pattern": "(".repeat(10_000)}), "not a usable");
    let many: Vec<Value> = (0..3_000).map(|index| json!({"pattern": format!("{index}")})).collect();
    refused(json!({"items": {"anyOf": many}}), "more than 2000 patterns");
    let large: Vec<Value> =
        (0..20).map(|index| json!({"pattern": format!("(a{{90}}){{90}}{index}")})).collect();
    refused(json!({"items": {"anyOf": large}}), "too large together");
}

/// Keywords that multiply: each check ends within the steps of a worker.
#[test]
fn work_of_one_value_has_a_limit() {
    let definitions = |part: Value| json!({"$ref": "#/definitions/t", "definitions": {"t": part}});
    let once = json!({"properties": {"a": {"$ref": "#/definitions/t"}}});
    let twice = json!([once, once]);
    let deep = (0..60).fold(json!(1), |inner, _| json!({"a": inner}));
    let wide = json!((0..3_000).map(|index| json!(vec![index; 3])).collect::<Vec<_>>());
    let trees = {
        let mut trees = vec![json!([])];
        for index in 0..4_000_usize {
            trees.push(json!([trees[index / 2].clone(), trees[index / 3].clone()]));
        }
        json!(trees)
    };
    let any: Vec<Value> = (0..500).map(|index| json!({"enum": [[index]]})).collect();
    let rows = [
        (definitions(json!({"oneOf": twice.clone()})), deep.clone(), true),
        (definitions(json!({"allOf": twice})), deep, false),
        (json!({"uniqueItems": true}), trees.clone(), true),
        (json!({"items": {"anyOf": any.clone()}}), wide.clone(), true),
        (json!({"contains": {"anyOf": any}}), wide, true),
        (
            json!({"items": {"enum": [trees.clone()]}, "uniqueItems": true}),
            json!([trees.clone(), trees]),
            true,
        ),
    ];
    for (schema, value, is_fault) in rows {
        let compiled = UserSchema::compile(&schema).unwrap();
        let mut steps = SchemaSteps::on_worker();
        let fault = compiled.fault(&value, &mut steps);
        assert_eq!(fault.is_some(), is_fault, "{:.200}: {fault:?}", schema.to_string());
        assert!(steps.used() <= WORKER_STEPS + ERROR_STEPS, "{:.200}", schema.to_string());
    }
}

#[test]
fn steps_are_shared_by_all_checks_of_a_request() {
    let schema = UserSchema::compile(&json!({"items": {"type": "integer"}})).unwrap();
    let value = json!(vec![1; 20_000]);
    let mut steps = SchemaSteps::on_worker();
    let passed = (0..200).take_while(|_| schema.fault(&value, &mut steps).is_none()).count();
    assert!((5..60).contains(&passed), "{passed}");
    assert!(steps.used() <= WORKER_STEPS);
}

#[test]
fn formats_of_client_texts_have_limits() {
    let regex = UserSchema::compile(&json!({"format": "regex"})).unwrap();
    assert_eq!(fault(&regex, &json!("^(?<a>b)$")), None);
    assert!(fault(&regex, &json!("(")).is_some());
    assert!(fault(&regex, &json!("(?<a>b)".repeat(1_000))).is_some());
    let content = UserSchema::compile(&json!({"contentMediaType": "application/json"})).unwrap();
    assert_eq!(fault(&content, &json!("[1]")), None);
    assert!(fault(&content, &json!("[1")).is_some());
    assert!(fault(&content, &json!("[".repeat(100_000))).is_some());
}

fn fault(schema: &UserSchema, value: &Value) -> Option<String> {
    schema.fault(value, &mut SchemaSteps::on_worker())
}
