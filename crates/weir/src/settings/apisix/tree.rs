//! YAML as a tree in which every value has its line in the file. Knows no key.

use control::source::file::Expanded;
use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};

/// A value and its line.
#[derive(Debug)]
pub(super) struct YamlNode {
    /// The line of its key, or its own in a list; from 1.
    pub(super) line: usize,
    pub(super) content: Content,
}

/// The content of a value.
#[derive(Debug)]
pub(super) enum Content {
    Null,
    /// A number, a switch or a text; `is_text` is true for a YAML string.
    Scalar {
        text: String,
        is_text: bool,
    },
    List(Vec<YamlNode>),
    Map(Vec<(String, YamlNode)>),
}

impl YamlNode {
    /// The text of a plain value.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar { text, .. } => Some(text),
            Content::Null | Content::List(_) | Content::Map(_) => None,
        }
    }

    /// The entry `name` of a map, unless its value is empty.
    pub(super) fn get(&self, name: &str) -> Option<&YamlNode> {
        let Content::Map(entries) = &self.content else { return None };
        let (_, node) = entries.iter().find(|(found, _)| found == name)?;
        (!matches!(node.content, Content::Null)).then_some(node)
    }

    /// The names of a map's entries, with their lines.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, usize)> {
        let entries = if let Content::Map(entries) = &self.content { entries.as_slice() } else { &[] };
        entries.iter().map(|(name, node)| (name.as_str(), node.line))
    }
}

/// The tree of a text after its variables were replaced.
///
/// # Errors
/// The line and the reason: the text is not YAML, has several documents, or is no map.
pub(super) fn parse_yaml_tree(expanded: &Expanded) -> Result<YamlNode, (usize, String)> {
    // An error at the end of the text is reported in the last line.
    let last_line = expanded.text().lines().count().max(1);
    let documents = MarkedYaml::load_from_str(expanded.text()).map_err(|error| {
        let line = error.marker().line().min(last_line);
        (expanded.file_line(line), format!("not YAML: {}", error.info()))
    })?;
    let line = |node: &MarkedYaml<'_>| expanded.file_line(node.span.start.line());
    match documents.as_slice() {
        [] => Ok(YamlNode { line: 1, content: Content::Null }),
        [root] if matches!(root.data, YamlData::Mapping(_)) => Ok(node(1, root, &line)),
        [root] => Err((line(root), "is not a map of keys".to_owned())),
        [_, second, ..] => Err((line(second), "a `config.yaml` is one YAML document".to_owned())),
    }
}

fn node(at: usize, yaml: &MarkedYaml<'_>, line: &dyn Fn(&MarkedYaml<'_>) -> usize) -> YamlNode {
    let content = match &yaml.data {
        YamlData::Sequence(items) => {
            Content::List(items.iter().map(|item| node(line(item), item, line)).collect())
        }
        YamlData::Mapping(entries) => {
            let entry = |(key, value): (&MarkedYaml<'_>, &MarkedYaml<'_>)| {
                // A key that is a list or a map has no name. It gets `?`, so that it is reported as unknown.
                let name = scalar(key).map_or_else(|| "?".to_owned(), |(text, _)| text);
                (name, node(line(key), value, line))
            };
            Content::Map(entries.iter().map(entry).collect())
        }
        _ => match scalar(yaml) {
            Some((text, is_text)) => Content::Scalar { text, is_text },
            None => Content::Null,
        },
    };
    YamlNode { line: at, content }
}

/// A plain value as text, and whether it is a YAML string.
fn scalar(yaml: &MarkedYaml<'_>) -> Option<(String, bool)> {
    match &yaml.data {
        YamlData::Value(Scalar::String(text)) => Some((text.to_string(), true)),
        YamlData::Value(Scalar::Integer(number)) => Some((number.to_string(), false)),
        YamlData::Value(Scalar::Boolean(value)) => Some((value.to_string(), false)),
        YamlData::Value(Scalar::FloatingPoint(number)) => Some((number.to_string(), false)),
        _ => None,
    }
}
