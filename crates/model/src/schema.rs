//! The JSON Schemas of the kinds, written by hand as JSON files beside this one. Knows how they are put
//! together.
//!
//! A file may refer to a shared piece as `{"$ref": "common#/NAME"}`; the reference is replaced by the piece
//! when the schemas are loaded, so that users of the schema endpoints see each schema whole. The names of
//! balancing methods are a piece too, made from their table.

use std::sync::{LazyLock, OnceLock};

use serde_json::Value;

use crate::ObjectKind;
use crate::resource::BalanceMethod;
use crate::validate::Validator;

/// The schema of a kind, whole, as `GET /apisix/admin/schema/KIND` shows it. A plugin's metadata has the
/// plugin's own schema and a secret that of its manager; here stand the ones that accept any object.
#[must_use]
pub fn find_object_schema(kind: ObjectKind) -> &'static Value {
    loaded(kind.singular()).schema()
}

/// The validator of a kind.
#[must_use]
pub fn validator(kind: ObjectKind) -> &'static Validator {
    loaded(kind.singular())
}

/// The schema and validator of a secret manager; none when there is no such manager.
#[must_use]
pub fn secret_manager(manager: &str) -> Option<(&'static Value, &'static Validator)> {
    let name = SECRET_MANAGERS.iter().find(|(name, _)| *name == manager)?.1;
    let validator = loaded(name);
    Some((validator.schema(), validator))
}

/// The managers a secret may name.
pub fn secret_managers() -> impl Iterator<Item = &'static str> {
    SECRET_MANAGERS.iter().map(|(name, _)| *name)
}

/// The schema of `_meta`, which every plugin object may have.
pub(crate) fn meta() -> &'static Value {
    loaded("meta").schema()
}

/// The validator of the key of consistent hashing on a variable, and the one on a header or cookie.
pub(crate) fn hash_key_validator(name: &str) -> &'static Validator {
    loaded(name)
}

/// Each manager with the name of its schema.
const SECRET_MANAGERS: [(&str, &str); 3] =
    [("vault", "secret_vault"), ("aws", "secret_aws"), ("gcp", "secret_gcp")];

/// Every schema by name.
const TEXTS: [(&str, &str); 21] = [
    ("consumer", include_str!("schema/consumer.json")),
    ("consumer_group", include_str!("schema/consumer_group.json")),
    ("contract", include_str!("schema/contract.json")),
    ("credential", include_str!("schema/credential.json")),
    ("extension", include_str!("schema/extension.json")),
    ("global_rule", include_str!("schema/global_rule.json")),
    ("hash_header", include_str!("schema/hash_header.json")),
    ("hash_vars", include_str!("schema/hash_vars.json")),
    ("meta", include_str!("schema/meta.json")),
    ("plugin_config", include_str!("schema/plugin_config.json")),
    ("plugin_metadata", include_str!("schema/plugin_metadata.json")),
    ("proto", include_str!("schema/proto.json")),
    ("route", include_str!("schema/route.json")),
    ("secret", include_str!("schema/secret.json")),
    ("secret_aws", include_str!("schema/secret_aws.json")),
    ("secret_gcp", include_str!("schema/secret_gcp.json")),
    ("secret_vault", include_str!("schema/secret_vault.json")),
    ("service", include_str!("schema/service.json")),
    ("ssl", include_str!("schema/ssl.json")),
    ("stream_route", include_str!("schema/stream_route.json")),
    ("upstream", include_str!("schema/upstream.json")),
];

/// Drops the compiled forms that were not used since the last call.
pub fn release_unused() {
    ALL.iter().filter_map(OnceLock::get).for_each(Validator::release_unused);
}

static ALL: [OnceLock<Validator>; TEXTS.len()] = [const { OnceLock::new() }; TEXTS.len()];

/// The schema of that name, read when it is first asked for.
fn loaded(name: &str) -> &'static Validator {
    let index = TEXTS.iter().position(|(known, _)| *known == name);
    let index = index.expect("every schema that is asked for is in TEXTS");
    ALL[index].get_or_init(|| {
        static PIECES: LazyLock<Pieces> = LazyLock::new(Pieces::read);
        Validator::new(inlined(&parse(TEXTS[index].1), &|name| PIECES.get(name)))
    })
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("embedded schemas are JSON")
}

/// The definitions that a schema file may refer to.
struct Pieces {
    common: Value,
    upstream: Value,
}

impl Pieces {
    fn read() -> Pieces {
        let common = parse(include_str!("schema/common.json"));
        let pieces = Pieces { common, upstream: Value::Null };
        let upstream = inlined(&parse(include_str!("schema/upstream.json")), &|name| pieces.get(name));
        Pieces { upstream, ..pieces }
    }

    fn get(&self, name: &str) -> Option<Value> {
        match name {
            "upstream" => Some(self.upstream.clone()),
            "balance_methods" => Some(BalanceMethod::ALL.iter().map(|method| method.name()).collect()),
            other => self.common.get(other).map(|piece| inlined(piece, &|name| self.get(name))),
        }
    }
}

/// A copy with every `{"$ref": "common#/NAME"}` replaced by that piece.
fn inlined(schema: &Value, piece: &dyn Fn(&str) -> Option<Value>) -> Value {
    match schema {
        Value::Object(fields) => {
            if let Some(name) = fields.get("$ref").and_then(Value::as_str) {
                let name = name.strip_prefix("common#/").unwrap_or(name);
                return piece(name).expect("embedded schemas refer to pieces that exist");
            }
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), inlined(value, piece))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| inlined(item, piece)).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_described_schema() {
        for kind in ObjectKind::ALL {
            let schema = find_object_schema(kind);
            assert!(schema["title"].is_string() && schema["description"].is_string(), "{kind}");
            assert!(!schema.to_string().contains("$ref"), "{kind}");
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                assert!(property["description"].is_string(), "{kind}.{name} has no description");
            }
        }
        for manager in secret_managers() {
            assert!(secret_manager(manager).is_some());
        }
        for (name, _) in TEXTS {
            assert_eq!(loaded(name).compile(), Ok(()), "{name}");
        }
    }

    #[test]
    fn the_folder_and_the_list_agree() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schema");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap().replace(".json", ""))
            .filter(|name| name != "common")
            .collect();
        files.sort();
        assert_eq!(files, TEXTS.map(|(name, _)| name.to_owned()));
    }
}
