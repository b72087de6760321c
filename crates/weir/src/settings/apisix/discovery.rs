//! `discovery` of a `config.yaml`: the blocks of registries, which have APISIX's shape here. Starts no
//! registry.

use serde_json::{Map, Value};

use super::draft::{Draft, Spot};
use super::tree::{Content, YamlNode};

/// `discovery`: each block that a registry of this gateway accepts.
pub(super) fn blocks(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let Content::Map(entries) = &spot.node.content else {
        return draft.fault(spot.key, spot.node.line, "is a map of registries".to_owned());
    };
    let mut blocks = Map::new();
    for (name, node) in entries {
        let key = format!("discovery.{name}");
        if !::discovery::kinds().any(|known| known == name) {
            let reason = "there is no such registry yet; upstreams with this `discovery_type` are refused";
            draft.remark(&key, node.line, reason.to_owned());
            continue;
        }
        let block = match tree_to_json(node) {
            Value::Null => Value::Object(Map::new()),
            block => block,
        };
        let one = Map::from_iter([(name.clone(), block.clone())]);
        let faults = ::discovery::check_discovery_blocks(&one);
        for fault in &faults {
            let below = fault.pointer.strip_prefix(&format!("/{name}")).unwrap_or_default();
            let at = format!("{key}{}", below.replace('/', "."));
            draft.fault(&at, line_at(node, below), fault.reason.clone());
        }
        if faults.is_empty() {
            blocks.insert(name.clone(), block);
        }
    }
    draft.set_one(&spot.at(), "discovery", Value::Object(blocks).to_string());
}

/// A value as JSON.
pub(super) fn tree_to_json(node: &YamlNode) -> Value {
    match &node.content {
        Content::Null => Value::Null,
        Content::Scalar { text, is_text: false } => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()))
        }
        Content::Scalar { text, is_text: true } => Value::from(text.as_str()),
        Content::List(items) => items.iter().map(tree_to_json).collect(),
        Content::Map(entries) => {
            Value::Object(entries.iter().map(|(name, node)| (name.clone(), tree_to_json(node))).collect())
        }
    }
}

/// The line of the value at `pointer`, or of the nearest one above it.
fn line_at(node: &YamlNode, pointer: &str) -> usize {
    let mut current = node;
    for step in pointer.split('/').skip(1) {
        let below = match &current.content {
            Content::Map(entries) => entries.iter().find(|(name, _)| name == step).map(|(_, node)| node),
            Content::List(items) => step.parse::<usize>().ok().and_then(|at| items.get(at)),
            _ => None,
        };
        let Some(below) = below else { break };
        current = below;
    }
    current.line
}
