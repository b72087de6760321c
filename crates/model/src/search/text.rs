//! Texts of filters: a pattern with `*`, compared without case, and the quotes around texts that would mean
//! something else.

use std::borrow::Cow;
use std::fmt;

/// A text with any characters in places. The parts are in lower case; between two of them anything may stand.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TextPattern {
    /// The pieces between the stars, in order; the first and the last are empty where a star begins or ends
    /// the text.
    parts: Vec<String>,
    is_ascii: bool,
}

impl TextPattern {
    /// A text in which nothing has a meaning.
    pub(super) fn literal(text: &str) -> TextPattern {
        TextPattern::of(vec![text.to_lowercase()])
    }

    /// A text in which `*` stands for any characters.
    pub(super) fn with_stars(text: &str) -> TextPattern {
        let mut parts: Vec<String> = text.split('*').map(str::to_lowercase).collect();
        let last = parts.len() - 1;
        let mut index = 0;
        // Stars in a row mean the same as one.
        parts.retain(|part| {
            index += 1;
            index == 1 || index - 1 == last || !part.is_empty()
        });
        TextPattern::of(parts)
    }

    fn of(parts: Vec<String>) -> TextPattern {
        let is_ascii = parts.iter().all(|part| part.is_ascii());
        TextPattern { parts, is_ascii }
    }

    /// The text, if it has no star.
    pub(super) fn plain(&self) -> Option<&str> {
        if let [text] = &*self.parts { Some(text) } else { None }
    }

    /// Whether it is the whole text.
    pub(super) fn is_all_of(&self, text: &str) -> bool {
        self.compare(text, true)
    }

    /// Whether it is a part of the text.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.compare(text, false)
    }

    fn compare(&self, text: &str, is_whole: bool) -> bool {
        // Letters outside ASCII change their length with their case, so such texts are converted whole.
        if self.is_ascii && text.is_ascii() {
            self.find(text.as_bytes(), is_whole)
        } else {
            self.find(text.to_lowercase().as_bytes(), is_whole)
        }
    }

    /// Takes each part at its first place behind the one before, which finds a match if there is one.
    fn find(&self, text: &[u8], is_whole: bool) -> bool {
        let last = self.parts.len() - 1;
        let mut from = 0;
        for (index, part) in self.parts.iter().enumerate() {
            let (part, rest) = (part.as_bytes(), &text[from..]);
            let place = match (is_whole && index == 0, is_whole && index == last) {
                (true, true) => return rest.eq_ignore_ascii_case(part),
                (true, false) => starts(rest, part).then_some(0),
                (false, true) => {
                    return rest.len() >= part.len() && starts(&rest[rest.len() - part.len()..], part);
                }
                (false, false) => position(rest, part),
            };
            match place {
                Some(place) => from += place + part.len(),
                None => return false,
            }
        }
        true
    }
}

fn starts(text: &[u8], part: &[u8]) -> bool {
    text.get(..part.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(part))
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    let Some(first) = part.first() else { return Some(0) };
    let last = text.len().checked_sub(part.len())?;
    (0..=last).find(|&at| text[at].eq_ignore_ascii_case(first) && starts(&text[at..], part))
}

impl fmt::Display for TextPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.plain() {
            Some(text) => formatter.write_str(&quote(text)),
            None => formatter.write_str(&self.parts.join("*")),
        }
    }
}

/// The text as a word or value of a filter, in quotes where it would mean something else without.
#[must_use]
pub fn quote(text: &str) -> Cow<'_, str> {
    let is_plain = |character: char| {
        character.is_alphanumeric()
            || matches!(character, '-' | '_' | '.' | '/' | '@' | '~' | '%' | '=' | '?' | '&')
    };
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    Cow::Owned(quoted)
}
