//! The setting `discovery`: the blocks of service registries, written as a map in a settings file or as JSON
//! elsewhere. The registries' own schemas check them.

use std::fmt;

use saphyr::{MarkedYaml, Scalar, YamlData};
use serde_json::{Map, Value};

use super::written::SettingTexts;

/// The blocks of registries, by name. They may hold tokens, so that their values are not shown.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Registries(pub(crate) Map<String, Value>);

impl fmt::Debug for Registries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.keys()).finish()
    }
}

/// The blocks, as one JSON object; nothing is none.
pub(super) fn parse_discovery(given: &SettingTexts) -> Result<Registries, String> {
    let Some(text) = given.values.first().filter(|text| !text.is_empty()) else {
        return Ok(Registries::default());
    };
    let Ok(Value::Object(blocks)) = serde_json::from_str(text) else {
        return Err(
            "is no JSON object; write `{\"consul\": {\"servers\": [\"http://127.0.0.1:8500\"]}}`".to_owned()
        );
    };
    match ::discovery::check_discovery_blocks(&blocks).first() {
        Some(fault) => Err(fault.to_string()),
        None => Ok(Registries(blocks)),
    }
}

/// A value of a settings file as JSON.
pub(super) fn yaml_to_json(node: &MarkedYaml<'_>) -> Value {
    match &node.data {
        YamlData::Sequence(items) => items.iter().map(yaml_to_json).collect(),
        YamlData::Mapping(entries) => {
            let entry =
                |(key, value): (&MarkedYaml<'_>, &MarkedYaml<'_>)| (name_of(key), yaml_to_json(value));
            Value::Object(entries.iter().map(entry).collect())
        }
        YamlData::Value(Scalar::String(text)) => Value::from(&**text),
        YamlData::Value(Scalar::Integer(number)) => Value::from(*number),
        YamlData::Value(Scalar::Boolean(value)) => Value::from(*value),
        YamlData::Value(Scalar::FloatingPoint(number)) => Value::from(**number),
        _ => Value::Null,
    }
}

/// The line of the value at `pointer`, or of the nearest one above it.
pub(super) fn find_pointer_line(node: &MarkedYaml<'_>, pointer: &str, mut line: usize) -> usize {
    let mut current = node;
    for step in pointer.split('/').skip(1) {
        let below = match &current.data {
            YamlData::Sequence(items) => {
                step.parse().ok().and_then(|at: usize| items.get(at)).map(|item| (item, item))
            }
            YamlData::Mapping(entries) => entries.iter().find(|(key, _)| name_of(key) == step),
            _ => None,
        };
        let Some((key, value)) = below else { break };
        line = key.span.start.line();
        current = value;
    }
    line
}

fn name_of(key: &MarkedYaml<'_>) -> String {
    match yaml_to_json(key) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
