//! Reads a regular expression into alternatives of sequences.

/// Characters of a pattern.
const PATTERN_MAX: usize = 2048;
/// Groups inside each other.
const GROUPS_MAX: usize = 16;
/// Characters of a class that are kept as candidates.
const CANDIDATES_MAX: usize = 128;
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const DIGITS: &str = "0123456789";
/// Candidates of classes that exclude characters.
const PRINTABLE: &str =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~!*'();:@&=+$,/?#[] %\"<>^`{|}\\";

/// A part of a pattern.
pub(super) enum PatternNode {
    /// One of these characters.
    OneOf(Vec<char>),
    Group(Vec<Vec<PatternNode>>),
    Repeat {
        node: Box<PatternNode>,
        least: u32,
        most: Option<u32>,
    },
}

/// An alternative of the whole pattern.
pub(super) struct PatternSequence {
    pub(super) nodes: Vec<PatternNode>,
    /// Whether `$` forbids further characters.
    pub(super) is_end_anchored: bool,
}

/// The alternatives of a pattern; nothing where it has a part that is not known.
pub(super) fn parse_pattern(pattern: &str) -> Option<Vec<PatternSequence>> {
    if pattern.len() > PATTERN_MAX {
        return None;
    }
    let mut parser = PatternParser { rest: pattern.chars().collect(), at: 0 };
    let mut alternatives = Vec::new();
    loop {
        parser.take('^');
        let nodes = parser.sequence(0)?;
        let is_end_anchored = parser.take('$');
        alternatives.push(PatternSequence { nodes, is_end_anchored });
        if !parser.take('|') {
            break;
        }
    }
    (parser.at == parser.rest.len()).then_some(alternatives)
}

struct PatternParser {
    rest: Vec<char>,
    at: usize,
}

impl PatternParser {
    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += 1;
        Some(character)
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_next = self.peek() == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    /// Parts up to `|`, `)`, `$` or the end.
    fn sequence(&mut self, depth: usize) -> Option<Vec<PatternNode>> {
        let mut nodes = Vec::new();
        while let Some(character) = self.peek() {
            if matches!(character, '|' | ')' | '$') {
                break;
            }
            let node = self.atom(depth)?;
            nodes.push(self.repeated(node)?);
        }
        Some(nodes)
    }

    fn atom(&mut self, depth: usize) -> Option<PatternNode> {
        Some(PatternNode::OneOf(match self.next()? {
            '(' => return self.group(depth + 1),
            '[' => self.class()?,
            '.' => LETTERS.chars().collect(),
            '\\' => self.escape()?,
            '^' | '*' | '+' | '?' | '{' => return None,
            literal => vec![literal],
        }))
    }

    fn group(&mut self, depth: usize) -> Option<PatternNode> {
        if depth > GROUPS_MAX {
            return None;
        }
        if self.take('?') {
            match self.next()? {
                ':' => {}
                '<' if self.peek().is_some_and(|character| character.is_ascii_alphabetic()) => {
                    while self.next()? != '>' {}
                }
                _ => return None,
            }
        }
        let mut alternatives = Vec::new();
        loop {
            alternatives.push(self.sequence(depth)?);
            match self.next()? {
                '|' => {}
                ')' => return Some(PatternNode::Group(alternatives)),
                _ => return None,
            }
        }
    }

    /// The part with the quantifier behind it.
    fn repeated(&mut self, node: PatternNode) -> Option<PatternNode> {
        let (least, most) = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                self.at += 1;
                let counts: String = std::iter::from_fn(|| self.next().filter(|next| *next != '}')).collect();
                let (least, most) = match counts.split_once(',') {
                    None => (counts.parse().ok()?, Some(counts.parse().ok()?)),
                    Some((least, "")) => (least.parse().ok()?, None),
                    Some((least, most)) => (least.parse().ok()?, Some(most.parse().ok()?)),
                };
                self.at -= 1;
                if self.peek() != Some('}') || most.is_some_and(|most| most < least) {
                    return None;
                }
                (least, most)
            }
            _ => return Some(node),
        };
        self.at += 1;
        // A lazy quantifier matches the same texts.
        self.take('?');
        Some(PatternNode::Repeat { node: Box::new(node), least, most })
    }

    /// The characters of an escape.
    fn escape(&mut self) -> Option<Vec<char>> {
        Some(match self.next()? {
            'd' => DIGITS.chars().collect(),
            'w' => LETTERS.chars().chain(DIGITS.chars()).chain(['_']).collect(),
            's' => vec![' '],
            'D' | 'S' => LETTERS.chars().collect(),
            'W' => vec!['-', ' ', '.'],
            't' => vec!['\t'],
            'n' => vec!['\n'],
            'r' => vec!['\r'],
            'x' => vec![self.code(2)?],
            'u' => vec![self.code(4)?],
            character if character.is_ascii_alphanumeric() => return None,
            literal => vec![literal],
        })
    }

    /// A character by its number in hexadecimal digits.
    fn code(&mut self, digits: usize) -> Option<char> {
        let text: String = self.rest.get(self.at..self.at + digits)?.iter().collect();
        self.at += digits;
        char::from_u32(u32::from_str_radix(&text, 16).ok()?)
    }

    /// The characters of a class in brackets.
    fn class(&mut self) -> Option<Vec<char>> {
        let is_negated = self.take('^');
        let mut ranges: Vec<(char, char)> = Vec::new();
        loop {
            let first = match self.next()? {
                ']' => break,
                '\\' => match self.class_escape()? {
                    ClassPart::Character(character) => character,
                    ClassPart::Set(set) => {
                        ranges.extend(set.into_iter().map(|character| (character, character)));
                        continue;
                    }
                },
                '[' => return None,
                character => character,
            };
            let is_range =
                self.peek() == Some('-') && self.rest.get(self.at + 1).is_some_and(|next| *next != ']');
            let last = if is_range {
                self.at += 1;
                match self.next()? {
                    '\\' => match self.class_escape()? {
                        ClassPart::Character(character) => character,
                        ClassPart::Set(_) => return None,
                    },
                    character => character,
                }
            } else {
                first
            };
            if last < first {
                return None;
            }
            ranges.push((first, last));
        }
        let candidates: Vec<char> = if is_negated {
            let is_named =
                |character: &char| ranges.iter().any(|(first, last)| (*first..=*last).contains(character));
            PRINTABLE.chars().filter(|character| !is_named(character)).collect()
        } else {
            ranges.into_iter().flat_map(|(first, last)| first..=last).take(CANDIDATES_MAX).collect()
        };
        (!candidates.is_empty()).then_some(candidates)
    }

    fn class_escape(&mut self) -> Option<ClassPart> {
        let is_set = matches!(self.peek()?, 'd' | 'w' | 's' | 'D' | 'W' | 'S');
        // Complements inside a class are rare, and a negated class would need all of their characters.
        if matches!(self.peek()?, 'D' | 'W' | 'S') {
            return None;
        }
        let characters = self.escape()?;
        Some(match is_set {
            true => ClassPart::Set(characters),
            false => ClassPart::Character(*characters.first()?),
        })
    }
}

/// An escape inside a class.
enum ClassPart {
    Character(char),
    Set(Vec<char>),
}
