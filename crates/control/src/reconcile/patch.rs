//! The two forms of PATCH (contract 2.1): merging a part into an object, and replacing the value at a
//! sub-path.

use serde_json::{Map, Value};

/// Merges `part` into `value`: `null` deletes a field, objects merge, other values (arrays too) are replaced.
pub(crate) fn merge(value: &mut Map<String, Value>, part: Map<String, Value>) {
    for (name, part) in part {
        match part {
            Value::Null => {
                value.shift_remove(&name);
            }
            Value::Object(part) => match value.get_mut(&name) {
                Some(Value::Object(inner)) => merge(inner, part),
                _ => {
                    // `null` in a part must not be stored, so the part is merged into an empty object.
                    let mut inner = Map::new();
                    merge(&mut inner, part);
                    value.insert(name, Value::Object(inner));
                }
            },
            other => {
                value.insert(name, other);
            }
        }
    }
}

/// Sets the value at `path` to `part` and creates missing objects above it; `null` deletes the value.
///
/// # Errors
/// The contract's text, if a value above it is not an object.
pub(crate) fn replace_at(value: &mut Map<String, Value>, path: &[String], part: Value) -> Result<(), String> {
    let (last, parents) = path.split_last().expect("a sub-path has at least one segment");
    let mut inner = value;
    for (depth, name) in parents.iter().enumerate() {
        let next = inner.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(object) = next else {
            // The direct parent may be an array: then `last` is the index of an item.
            if let (Value::Array(items), true) = (next, depth + 1 == parents.len()) {
                return replace_item(items, last, part).ok_or_else(|| invalid(path));
            }
            return Err(invalid(&path[..=depth]));
        };
        inner = object;
    }
    match part {
        Value::Null => {
            inner.shift_remove(last);
        }
        part => {
            inner.insert(last.clone(), part);
        }
    }
    Ok(())
}

fn replace_item(items: &mut [Value], index: &str, part: Value) -> Option<()> {
    let item = items.get_mut(index.parse::<usize>().ok()?)?;
    *item = part;
    Some(())
}

fn invalid(path: &[String]) -> String {
    format!("invalid sub-path: /{}", path.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(object) => object,
            other => panic!("{other} is no object"),
        }
    }

    #[test]
    fn part_is_merged_and_null_deletes() {
        let check = |value: Value, part: Value, expected: Value| {
            let mut merged = object(value);
            merge(&mut merged, object(part));
            assert_eq!(Value::Object(merged), expected);
        };
        check(json!({"a": 1, "b": 2}), json!({"b": 3, "c": 4}), json!({"a": 1, "b": 3, "c": 4}));
        check(
            json!({"a": {"x": 1, "y": 2}}),
            json!({"a": {"x": null, "z": 3}}),
            json!({"a": {"y": 2, "z": 3}}),
        );
        check(json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]}));
        check(json!({"a": [1, 2]}), json!({"a": {"x": 1}}), json!({"a": {"x": 1}}));
        check(json!({"a": 1}), json!({"a": {"x": null, "y": 1}}), json!({"a": {"y": 1}}));
        check(json!({"a": 1}), json!({"a": null, "b": null}), json!({}));
    }

    #[test]
    fn value_at_sub_path_is_replaced() {
        let check = |value: Value, path: &str, part: Value, expected: Result<Value, &str>| {
            let mut patched = object(value);
            let path: Vec<String> = path.split('/').map(str::to_owned).collect();
            match replace_at(&mut patched, &path, part) {
                Ok(()) => assert_eq!(Ok(Value::Object(patched)), expected),
                Err(reason) => {
                    assert_eq!(Err(reason.as_str()), expected.as_ref().map_err(|text| *text).map(|_| ()))
                }
            }
        };
        check(json!({"a": 1}), "methods", json!(["GET"]), Ok(json!({"a": 1, "methods": ["GET"]})));
        check(
            json!({"u": {"nodes": {"x:1": 1}}}),
            "u/nodes",
            json!({"y:1": 2}),
            Ok(json!({"u": {"nodes": {"y:1": 2}}})),
        );
        check(json!({}), "u/nodes/x:1", json!(5), Ok(json!({"u": {"nodes": {"x:1": 5}}})));
        check(json!({"a": {"b": 1}}), "a/b", json!(null), Ok(json!({"a": {}})));
        check(json!({"a": 1}), "a/b", json!(1), Err("invalid sub-path: /a"));
        check(json!({"a": {"b": "x"}}), "a/b/c/d", json!(1), Err("invalid sub-path: /a/b"));
        check(json!({"a": [1, 2]}), "a/1", json!(9), Ok(json!({"a": [1, 9]})));
        check(json!({"a": [1, 2]}), "a/2", json!(9), Err("invalid sub-path: /a/2"));
    }
}
