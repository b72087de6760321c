//! Differences: their shape, completeness, and that they contain no secret.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::catalog;

fn change(kind: ObjectKind, before: &Value, after: &Value) -> Option<ObjectChange> {
    let text = |value: &Value| (!value.is_null()).then(|| value.to_string());
    let key = ObjectKey::new(kind, "1").unwrap();
    between(&catalog(), &key, text(before).as_deref(), text(after).as_deref())
}

/// Compares the places, as JSON.
fn check(kind: ObjectKind, before: Value, after: Value, expected: Value) {
    let found = change(kind, &before, &after).map(|change| change.fields);
    assert_eq!(serde_json::to_value(&found).unwrap(), expected, "{before} → {after}");
}

#[test]
fn differing_places_are_listed() {
    check(
        ObjectKind::Route,
        json!({"id": 1, "uri": "/a", "plugins": {"a/b": {"n": 1}}, "create_time": 5}),
        json!({"id": "1", "uri": "/a", "plugins": {"a/b": {"n": 2, "m": null}}, "update_time": 9}),
        json!([
            {"pointer": "/plugins/a~1b/n", "before": 1, "after": 2},
            {"pointer": "/plugins/a~1b/m", "after": null},
        ]),
    );
    check(
        ObjectKind::Route,
        json!({"methods": ["GET", "PUT"], "hosts": ["a"]}),
        json!({"methods": ["GET", "POST"], "hosts": ["a", "b"], "uri": "/"}),
        json!([
            {"pointer": "/methods/1", "before": "PUT", "after": "POST"},
            {"pointer": "/hosts", "before": ["a"], "after": ["a", "b"]},
            {"pointer": "/uri", "after": "/"},
        ]),
    );
    check(ObjectKind::Route, Value::Null, json!({"uri": "/"}), json!([{"pointer": "/uri", "after": "/"}]));
    check(ObjectKind::Route, json!({"uri": "/"}), Value::Null, json!([{"pointer": "/uri", "before": "/"}]));
    check(ObjectKind::Route, json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}), Value::Null);
    check(
        ObjectKind::PluginMetadata,
        json!({"id": 1}),
        json!({"id": 2}),
        json!([{"pointer": "/id", "before": 1, "after": 2}]),
    );
}

#[test]
fn secrets_are_compared_and_hidden() {
    let certificate = |key: &str| json!({"cert": "c", "key": key, "keys": [key, "same"], "snis": ["a"]});
    let changed = change(ObjectKind::Ssl, &certificate("old s3cr3t"), &certificate("new s3cr3t")).unwrap();
    assert_eq!(
        serde_json::to_value(&changed.fields).unwrap(),
        json!([
            {"pointer": "/key", "before": HIDDEN, "after": HIDDEN},
            {"pointer": "/keys/0", "before": HIDDEN, "after": HIDDEN},
        ])
    );
    for (before, after) in [(Value::Null, certificate("s3cr3t")), (certificate("s3cr3t"), Value::Null)] {
        let text = serde_json::to_string(&change(ObjectKind::Ssl, &before, &after)).unwrap();
        assert!(text.contains(HIDDEN) && !text.contains("s3cr3t") && !text.contains("same"), "{text}");
    }
    assert!(change(ObjectKind::Ssl, &certificate("s"), &certificate("s")).is_none());
}

#[test]
fn text_without_json_differs_from_every_other() {
    let key = ObjectKey::new(ObjectKind::Route, "1").unwrap();
    assert!(between(&catalog(), &key, Some("{damaged"), Some("{damaged")).is_none());
    let changed = between(&catalog(), &key, Some("{damaged"), Some("{}")).unwrap();
    assert_eq!(
        (changed.fields[0].pointer.as_str(), &changed.fields[0].before),
        ("", &Some("{damaged".to_owned().into()))
    );
}

#[test]
fn plan_counts_objects_and_is_ordered() {
    let of = |key: &str, action| ObjectChange { key: key.to_owned(), action, fields: Vec::new() };
    let plan = ConfigPlan::new(
        7,
        vec![
            of("routes/2", PlanAction::Delete),
            of("routes/1", PlanAction::Create),
            of("a/1", PlanAction::Create),
        ],
    );
    assert_eq!((plan.create, plan.change, plan.delete, plan.is_empty()), (2, 0, 1, false));
    assert_eq!(
        plan.objects.iter().map(|object| object.key.as_str()).collect::<Vec<_>>(),
        ["a/1", "routes/1", "routes/2"]
    );
    let read: ConfigPlan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
    assert_eq!(read, plan);
}

/// Any JSON of limited depth.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u8..3).prop_map(Value::from),
        "[a-b/~]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-c/~]{1,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Applies the changes of the listed places to `value`.
fn apply(value: &mut Value, fields: &[FieldChange]) {
    for field in fields {
        let Some((parent, name)) = field.pointer.rsplit_once('/') else {
            *value = field.after.clone().unwrap();
            continue;
        };
        let name = name.replace("~1", "/").replace("~0", "~");
        match (value.pointer_mut(parent).unwrap(), &field.after) {
            (Value::Object(object), Some(after)) => drop(object.insert(name, after.clone())),
            (Value::Object(object), None) => drop(object.remove(&name).unwrap()),
            (Value::Array(items), Some(after)) => items[name.parse::<usize>().unwrap()] = after.clone(),
            (other, after) => panic!("{} in {other}: {after:?}", field.pointer),
        }
    }
}

proptest! {
    #[test]
    fn difference_applied_to_old_text_gives_new_text(before in json_value(), after in json_value()) {
        let mut fields = Vec::new();
        compare("", &before, &after, &mut fields);
        prop_assert_eq!(fields.is_empty(), before == after);
        for field in &fields {
            prop_assert_eq!(before.pointer(&field.pointer), field.before.as_ref());
        }
        let mut found = before;
        apply(&mut found, &fields);
        prop_assert_eq!(found, after);
    }
}
