//! Subsets: only nodes with the metadata values that the upstream names, as a text or by variables of the
//! request, are chosen. The values that occur are indexed when the node set changes, so that a request costs
//! one look-up.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use net::nodes::{NodeSet, ResolvedNode};
use router::vars::{Template, VariableSource};

/// The most subsets of one upstream; values of further nodes are treated like values that no node has. Each
/// subset in use takes about 20 bytes per node and worker.
pub const SUBSETS_MAX: usize = 256;
/// Ends each value of a subset's name. No value that a request can name contains it.
const SEPARATOR: u8 = 0;

/// See the module.
pub struct Subsets {
    /// The metadata by which nodes are selected, in order.
    pub keys: Box<[Box<str>]>,
    /// The wanted values, one for each key.
    pub values: Box<[Template]>,
    /// The nodes of a request with values that no node has.
    pub fallback: Fallback,
}

/// The nodes of a request with values that no node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// All of the upstream.
    Any,
    /// None: the request fails.
    None,
    /// Those with this metadata.
    Default(Box<[(Box<str>, Box<str>)]>),
}

/// The nodes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubsetScope {
    /// All of the upstream.
    Whole,
    /// Those of the fallback.
    Default,
    /// Those of the subset with this number.
    Subset(u32),
}

impl Subsets {
    /// Writes the name of the subset that the request or session wants to `name`.
    pub(crate) fn name(&self, source: &impl VariableSource, name: &mut Vec<u8>) {
        for value in &self.values {
            let start = name.len();
            value.render(source, name);
            name[start..].iter_mut().filter(|byte| **byte == SEPARATOR).for_each(|byte| *byte = b'?');
            name.push(SEPARATOR);
        }
    }

    /// The detail of a failure because no node has the wanted values.
    pub(crate) fn none(&self) -> String {
        format!("no node has the wanted metadata values of {}", self.keys.join(", "))
    }

    /// The name of the subset that the node is in, hashed; none if it lacks one of the keys.
    fn name_of(&self, node: &ResolvedNode) -> Option<u64> {
        let metadata = node.metadata.as_ref()?;
        let mut name = Vec::new();
        for key in &self.keys {
            name.extend_from_slice(metadata.get(key)?.as_bytes());
            name.push(SEPARATOR);
        }
        Some(name_hash(&name))
    }

    /// Whether the node is one of the fallback.
    fn is_default(&self, node: &ResolvedNode) -> bool {
        let Fallback::Default(wanted) = &self.fallback else { return false };
        let metadata = node.metadata.as_ref();
        wanted.iter().all(|(key, value)| metadata.and_then(|metadata| metadata.get(key)) == Some(value))
    }
}

/// The name of a subset as it is looked up. A client that finds another name with the same hash chooses a
/// subset that it could have named as well.
pub(crate) fn name_hash(name: &[u8]) -> u64 {
    // With fixed keys, because the hash is made by one thread and looked up by another.
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// The subsets of one node set.
#[derive(Debug, Default)]
pub(crate) struct SubsetIndex {
    /// By the hash of its name, the number of a subset.
    by_name: HashMap<u64, u32>,
    /// Subsets with a node that has a weight; they have the first numbers.
    weighted: u32,
    /// By node, its subset.
    of_node: Vec<Option<u32>>,
    /// By node, whether it is one of the fallback.
    is_default: Vec<bool>,
}

impl SubsetIndex {
    /// The subsets of `set`.
    pub(crate) fn new(subsets: &Subsets, set: &NodeSet) -> SubsetIndex {
        let count = set.nodes.len();
        let is_default = set.nodes.iter().map(|node| subsets.is_default(node)).collect();
        let mut index = SubsetIndex { of_node: vec![None; count], is_default, ..SubsetIndex::default() };
        let (weighted, drained): (Vec<usize>, Vec<usize>) =
            (0..count).partition(|node| set.nodes[*node].weight > 0);
        weighted.into_iter().for_each(|node| index.add(subsets, set, node));
        index.weighted = index.by_name.len() as u32;
        // Nodes without a weight keep the sessions of their subset.
        drained.into_iter().for_each(|node| index.add(subsets, set, node));
        index
    }

    fn add(&mut self, subsets: &Subsets, set: &NodeSet, node: usize) {
        let next = self.by_name.len();
        self.of_node[node] =
            subsets.name_of(&set.nodes[node]).and_then(|name| match self.by_name.get(&name) {
                Some(number) => Some(*number),
                None if next >= SUBSETS_MAX => None,
                None => Some(*self.by_name.entry(name).or_insert(next as u32)),
            });
    }

    /// The number of subsets.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The subset of `node`.
    pub(crate) fn of_node(&self, node: usize) -> Option<u32> {
        self.of_node[node]
    }

    /// Whether `node` is in the subset with the name of this hash, with or without a weight.
    pub(crate) fn is_named(&self, name: u64, node: usize) -> bool {
        self.of_node[node].is_some_and(|number| self.by_name.get(&name) == Some(&number))
    }

    /// The nodes of a request that wants the subset with the name of this hash; none if it must fail.
    pub(crate) fn scope(&self, subsets: &Subsets, name: u64) -> Option<SubsetScope> {
        // A subset without a weight has no node to choose, so that the fallback holds while its last node is
        // drained.
        let number = self.by_name.get(&name).filter(|number| **number < self.weighted);
        match (number, &subsets.fallback) {
            (Some(number), _) => Some(SubsetScope::Subset(*number)),
            (None, Fallback::Any) => Some(SubsetScope::Whole),
            (None, Fallback::None) => None,
            (None, Fallback::Default(_)) => Some(SubsetScope::Default),
        }
    }

    /// Whether `node` is one of `scope`.
    pub(crate) fn is_in(&self, scope: SubsetScope, node: usize) -> bool {
        match scope {
            SubsetScope::Whole => true,
            SubsetScope::Default => self.is_default[node],
            SubsetScope::Subset(number) => self.of_node[node] == Some(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::balance::testing::set;
    use super::*;

    fn marked(nodes: &[&[(&str, &str)]]) -> NodeSet {
        let mut set = set(&vec![1; nodes.len()]);
        for (node, metadata) in set.nodes.iter_mut().zip(nodes) {
            let metadata = metadata.iter().map(|(key, value)| (Box::from(*key), Box::from(*value))).collect();
            node.metadata = Some(Arc::new(metadata));
        }
        set
    }

    fn subsets(fallback: Fallback) -> Subsets {
        let values = ["$http_x_version", "eu"].map(|text| Template::compile(text).unwrap());
        Subsets { keys: ["version".into(), "region".into()].into(), values: values.into(), fallback }
    }

    #[test]
    fn nodes_are_found_by_all_their_values() {
        let set = marked(&[
            &[("version", "1"), ("region", "eu")],
            &[("version", "2"), ("region", "eu")],
            &[("version", "2"), ("region", "us")],
            &[("version", "2")],
        ]);
        let subsets = subsets(Fallback::None);
        let index = SubsetIndex::new(&subsets, &set);
        let nodes = |name: &[u8]| -> Option<Vec<usize>> {
            let scope = index.scope(&subsets, name_hash(name))?;
            Some((0..4).filter(|node| index.is_in(scope, *node)).collect())
        };
        assert_eq!(nodes(b"2\0eu\0"), Some(vec![1]));
        assert_eq!(nodes(b"1\0eu\0"), Some(vec![0]));
        assert_eq!(nodes(b"\0eu\0"), None);
        assert_eq!(nodes(b"3\0eu\0"), None);
    }

    #[test]
    fn unknown_values_go_to_the_fallback() {
        let set = marked(&[&[("version", "1"), ("region", "eu")], &[("version", "2")]]);
        let default = Fallback::Default([("version".into(), "2".into())].into());
        for (fallback, expected) in [(Fallback::Any, vec![0, 1]), (default, vec![1])] {
            let subsets = subsets(fallback);
            let index = SubsetIndex::new(&subsets, &set);
            let scope = index.scope(&subsets, name_hash(b"9\0eu\0")).unwrap();
            assert_eq!((0..2).filter(|node| index.is_in(scope, *node)).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn subset_without_weight_goes_to_the_fallback() {
        let mut set = marked(&[&[("version", "1"), ("region", "eu")], &[("version", "2"), ("region", "eu")]]);
        set.nodes[0].weight = 0;
        for (fallback, expected) in [(Fallback::Any, Some(SubsetScope::Whole)), (Fallback::None, None)] {
            let subsets = subsets(fallback);
            let index = SubsetIndex::new(&subsets, &set);
            assert_eq!(index.scope(&subsets, name_hash(b"1\0eu\0")), expected);
        }
    }

    #[test]
    fn subsets_are_bounded() {
        let values: Vec<String> = (0..SUBSETS_MAX + 10).map(|number| number.to_string()).collect();
        let metadata: Vec<[(&str, &str); 2]> =
            values.iter().map(|value| [("version", value.as_str()), ("region", "eu")]).collect();
        let metadata: Vec<&[(&str, &str)]> = metadata.iter().map(|metadata| &metadata[..]).collect();
        let index = SubsetIndex::new(&subsets(Fallback::Any), &marked(&metadata));
        assert_eq!(index.by_name.len(), SUBSETS_MAX);
        assert_eq!(index.of_node.iter().filter(|subset| subset.is_none()).count(), 10);
    }
}
