//! A text that matches a regular expression of the usual kind: literals, classes, groups, alternatives,
//! repetitions, and anchors at its ends.
//!
//! Look-around, back references, word boundaries, Unicode classes, flags and anchors in the middle are not
//! known; such a pattern has no example.

mod parse;

use parse::{PatternNode, PatternSequence, parse_pattern};

/// Characters of an example.
const LENGTH_MAX: usize = 8 * 1024;

/// A text that matches the pattern and has `least` to `most` characters; `pick` selects among them.
pub(super) fn pattern_example(pattern: &str, least: usize, most: usize, pick: u64) -> Option<String> {
    let alternatives = parse_pattern(pattern)?;
    let count = alternatives.len() as u64;
    (0..count).find_map(|offset| {
        let index = usize::try_from((pick % count + offset) % count).ok()?;
        sequence_example(&alternatives[index], least, most, pick)
    })
}

fn sequence_example(sequence: &PatternSequence, least: usize, most: usize, pick: u64) -> Option<String> {
    for usual in [1, 0] {
        let mut extra = 0;
        loop {
            let mut writer = PatternWriter { text: String::new(), length: 0, usual, extra_left: extra, pick };
            writer.sequence(&sequence.nodes)?;
            let (length, is_stretched) = (writer.length, writer.extra_left == 0);
            let mut text = writer.text;
            if length < least {
                if is_stretched && extra < LENGTH_MAX {
                    extra += least - length;
                    continue;
                }
                if sequence.is_end_anchored {
                    break;
                }
                text.extend(std::iter::repeat_n('a', least - length));
            }
            if length <= most {
                return Some(text);
            }
            break;
        }
    }
    None
}

struct PatternWriter {
    text: String,
    length: usize,
    /// Repetitions of a part that may be missing.
    usual: u32,
    /// Repetitions to add wherever they are allowed.
    extra_left: usize,
    pick: u64,
}

impl PatternWriter {
    fn sequence(&mut self, nodes: &[PatternNode]) -> Option<()> {
        nodes.iter().try_for_each(|node| self.node(node))
    }

    /// Writes one part. The parser bounds the depth of this recursion.
    fn node(&mut self, node: &PatternNode) -> Option<()> {
        match node {
            PatternNode::OneOf(characters) => {
                let index = self.pick % characters.len().max(1) as u64;
                self.text.push(*characters.get(usize::try_from(index).ok()?)?);
                self.length += 1;
                (self.length <= LENGTH_MAX).then_some(())
            }
            PatternNode::Group(alternatives) => {
                let index = self.pick % alternatives.len().max(1) as u64;
                self.sequence(alternatives.get(usize::try_from(index).ok()?)?)
            }
            PatternNode::Repeat { node, least, most } => {
                let most = most.unwrap_or(u32::MAX);
                let mut count = (*least).max(self.usual.min(most));
                let added = u32::try_from(self.extra_left).unwrap_or(u32::MAX).min(most - count);
                self.extra_left -= added as usize;
                count += added;
                for _ in 0..count {
                    let before = self.length;
                    self.node(node)?;
                    // Repeating an empty part would loop without effect.
                    if self.length == before {
                        break;
                    }
                }
                Some(())
            }
        }
    }
}
