//! The check of the `discovery` block of the settings against the schemas of the registries. It starts none.

use std::fmt;

use model::validate::Validator;
use serde_json::{Map, Value};
use stdx::nearest::nearest;

use super::{ALL, BuildContext, auto_routes};

/// A fault of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockFault {
    /// The JSON pointer into the blocks.
    pub pointer: String,
    /// The reason, a sentence.
    pub reason: String,
}

impl fmt::Display for BlockFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.pointer, self.reason)
    }
}

/// All faults of the blocks of registries.
#[must_use]
pub fn check_discovery_blocks(blocks: &Map<String, Value>) -> Vec<BlockFault> {
    blocks.iter().flat_map(|(name, block)| faults_of(name, block)).collect()
}

fn faults_of(name: &str, block: &Value) -> Vec<BlockFault> {
    let Some(kind) = ALL.iter().find(|kind| kind.name == name) else {
        let near = nearest(name, ALL.iter().map(|kind| kind.name));
        let known: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
        let reason = match near {
            Some(near) => format!("there is no such registry; did you mean `{near}`?"),
            None => format!("there is no such registry; known are {}", known.join(", ")),
        };
        return vec![BlockFault { pointer: format!("/{name}"), reason }];
    };
    let faults = schema_faults(name, (kind.schema)(), block);
    if !faults.is_empty() {
        return faults;
    }
    if let Some(block) = block.get(auto_routes::FIELD)
        && let Err(reason) = auto_routes::RouteTemplate::read(kind.name, block)
    {
        return vec![BlockFault { pointer: format!("/{name}/{}", auto_routes::FIELD), reason }];
    }
    match (kind.build)(block, &BuildContext::default()) {
        Ok(_) => Vec::new(),
        Err(reason) => vec![BlockFault { pointer: format!("/{name}"), reason }],
    }
}

/// The faults of the block called `name` against its schema.
pub(super) fn schema_faults(name: &str, schema: Value, block: &Value) -> Vec<BlockFault> {
    let fault = |fault: model::validate::SchemaFault| BlockFault {
        reason: without_value(&fault.reason, block.pointer(&fault.pointer)),
        pointer: format!("/{name}{}", fault.pointer),
    };
    Validator::new(schema).faults(block).into_iter().map(fault).collect()
}

/// The reason of a fault without the value, because a server's URL may hold a password.
fn without_value(reason: &str, value: Option<&Value>) -> String {
    if let Some(rest) = reason.strip_prefix("failed to match pattern ") {
        // Both texts are quoted with escapes, so that neither of them holds this separator.
        let pattern = rest.split_once("\" with \"").map_or("", |(pattern, _)| pattern.trim_matches('"'));
        return format!("its text does not match the pattern {pattern}");
    }
    match value {
        Some(Value::String(text)) if text.contains('@') && reason.contains(text.as_str()) => {
            "its text is not allowed there".to_owned()
        }
        _ => reason.to_owned(),
    }
}
