//! Objects as the control API shows them: with the defaults of APISIX's schemas and nodes as a list, as its
//! data plane holds them. Pure, from the stored form; it knows no secrets and no state.

use model::ObjectKind;
use serde_json::{Map, Value, json};

/// The stored form `value` of an object `id` of this kind, as it is in force.
pub(super) fn effective(kind: ObjectKind, id: &str, mut value: Value) -> Value {
    let Some(fields) = value.as_object_mut() else { return value };
    fields.insert("id".to_owned(), Value::from(id));
    match kind {
        ObjectKind::Upstream => fill_upstream(fields),
        ObjectKind::Route => {
            let defaults = [("priority", json!(0)), ("status", json!(1))];
            defaults.into_iter().for_each(|(name, default)| fill(fields, name, default));
        }
        _ => {}
    }
    if let Some(upstream) = fields.get_mut("upstream").and_then(Value::as_object_mut) {
        fill_upstream(upstream);
    }
    value
}

fn fill_upstream(upstream: &mut Map<String, Value>) {
    let defaults = [("type", "roundrobin"), ("hash_on", "vars"), ("scheme", "http"), ("pass_host", "pass")];
    defaults.into_iter().for_each(|(name, default)| fill(upstream, name, Value::from(default)));
    let Some(nodes) = upstream.get_mut("nodes") else { return };
    match nodes {
        Value::Object(by_address) => {
            let list = by_address.iter().map(|(address, weight)| listed(address, weight)).collect();
            *nodes = Value::Array(list);
        }
        Value::Array(list) => {
            list.iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(|node| fill(node, "priority", json!(0)));
        }
        _ => {}
    }
}

/// A node that was written as `"HOST:PORT": WEIGHT`; without a port it has none, because the scheme gives it.
fn listed(address: &str, weight: &Value) -> Value {
    let parts = address.rsplit_once(':').filter(|_| !address.ends_with(']'));
    let parts = parts.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    match parts {
        Some((host, port)) => json!({ "host": host, "port": port, "weight": weight }),
        None => json!({ "host": address, "weight": weight }),
    }
}

fn fill(fields: &mut Map<String, Value>, name: &str, default: Value) {
    fields.entry(name).or_insert(default);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_defaults_and_listed_nodes() {
        let check = |kind: ObjectKind, written: Value, expected: Value| {
            assert_eq!(effective(kind, "7", written.clone()), expected, "{written}");
        };
        let upstream = |nodes: Value| {
            json!({"nodes": nodes, "type": "roundrobin", "hash_on": "vars", "scheme": "http",
                "pass_host": "pass"})
        };
        let with_id = |mut value: Value| {
            value["id"] = json!("7");
            value
        };
        check(
            ObjectKind::Upstream,
            json!({"id": 7, "nodes": {"127.0.0.1:80": 1, "a.example": 2, "[::1]:90": 3, "[::2]": 4}}),
            with_id(upstream(json!([
                {"host": "127.0.0.1", "port": 80, "weight": 1}, {"host": "a.example", "weight": 2},
                {"host": "[::1]", "port": 90, "weight": 3}, {"host": "[::2]", "weight": 4},
            ]))),
        );
        check(
            ObjectKind::Upstream,
            json!({"type": "chash", "hash_on": "header", "nodes": [{"host": "a", "port": 1, "weight": 1}]}),
            json!({"id": "7", "type": "chash", "hash_on": "header", "scheme": "http", "pass_host": "pass",
                "nodes": [{"host": "a", "port": 1, "weight": 1, "priority": 0}]}),
        );
        check(
            ObjectKind::Route,
            json!({"uri": "/", "priority": 3, "upstream": {"nodes": {}}}),
            json!({"id": "7", "uri": "/", "priority": 3, "status": 1, "upstream": upstream(json!([]))}),
        );
        check(ObjectKind::Service, json!({"name": "s"}), json!({"id": "7", "name": "s"}));
    }
}
