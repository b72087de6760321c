//! The check of the `discovery` block of the settings against the schemas of the registries. It starts none.

use std::fmt;

use model::validate::Validator;
use serde_json::{Map, Value};
use stdx::nearest::nearest;

use super::{ALL, BuildContext};

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
pub fn check(blocks: &Map<String, Value>) -> Vec<BlockFault> {
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
    let faults = Validator::new((kind.schema)()).faults(block);
    if !faults.is_empty() {
        let fault = |fault: model::validate::SchemaFault| BlockFault {
            pointer: format!("/{name}{}", fault.pointer),
            reason: fault.reason,
        };
        return faults.into_iter().map(fault).collect();
    }
    match (kind.build)(block, &BuildContext::default()) {
        Ok(_) => Vec::new(),
        Err(reason) => vec![BlockFault { pointer: format!("/{name}"), reason }],
    }
}
