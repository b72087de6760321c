//! Reads a text of JSON (RFC 8259) as a tree in which numbers keep their text. It accepts what `serde_json`
//! accepts, and numbers that no double holds.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::bounds::{Bounds, ReadError, measure};
use crate::{Number, Object, Value};

/// A text that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Its value. Of members with the same name the last one counts, in the place of the first.
    pub value: Value,
    /// Whether an object has two members with one name, so that another reader may find another value in the
    /// text.
    pub repeats_names: bool,
}

/// Reads a text within bounds.
///
/// # Errors
/// The text is beyond a bound, or no JSON.
pub fn parse(text: &[u8], bounds: Bounds) -> Result<Parsed, ReadError> {
    measure(text, bounds)?;
    let mut reader = Reader { text, at: 0, depth: 0, depth_max: bounds.depth_max, repeats_names: false };
    let value = reader.value()?;
    match reader.peek() {
        None => Ok(Parsed { value, repeats_names: reader.repeats_names }),
        Some(_) => Err(reader.expected("the end")),
    }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    depth: usize,
    depth_max: usize,
    repeats_names: bool,
}

impl Reader<'_> {
    /// The next byte behind white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// Passes `wanted` if it is the next byte behind white space.
    fn take(&mut self, wanted: u8) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn expected(&self, expected: &'static str) -> ReadError {
        ReadError::Malformed { expected, offset: self.at }
    }

    fn value(&mut self) -> Result<Value, ReadError> {
        match self.peek() {
            Some(b'{') => self.inside(Reader::object),
            Some(b'[') => self.inside(Reader::list),
            Some(b'"') => self.string().map(Value::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true", Value::Boolean(true)),
            Some(b'f') => self.word(b"false", Value::Boolean(false)),
            Some(b'n') => self.word(b"null", Value::Null),
            _ => Err(self.expected("a value")),
        }
    }

    /// Reads a list or an object, the bracket of which is next. The pass before has measured the levels of
    /// brackets that are closed in their order only; this count bounds the recursion whatever the text is.
    fn inside(&mut self, read: fn(&mut Self) -> Result<Value, ReadError>) -> Result<Value, ReadError> {
        if self.depth == self.depth_max {
            return Err(ReadError::TooDeep(self.depth_max));
        }
        self.at += 1;
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn list(&mut self) -> Result<Value, ReadError> {
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value()?);
            if self.take(b']') {
                return Ok(Value::List(items));
            }
            if !self.take(b',') {
                return Err(self.expected("`,` or `]`"));
            }
        }
    }

    fn object(&mut self) -> Result<Value, ReadError> {
        let mut members = Vec::new();
        if self.take(b'}') {
            return Ok(Value::Object(Object::default()));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.expected("a name in quotation marks"));
            }
            let name = self.string()?;
            if !self.take(b':') {
                return Err(self.expected("`:`"));
            }
            members.push((name, self.value()?));
            if self.take(b'}') {
                let (object, repeats_names) = distinct(members);
                self.repeats_names |= repeats_names;
                return Ok(Value::Object(object));
            }
            if !self.take(b',') {
                return Err(self.expected("`,` or `}`"));
            }
        }
    }

    fn word(&mut self, word: &[u8], value: Value) -> Result<Value, ReadError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.expected("a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    /// Reads a text, the quotation mark of which is next.
    fn string(&mut self) -> Result<Box<str>, ReadError> {
        let start = self.at;
        let (mut at, mut has_escapes) = (start + 1, false);
        loop {
            match self.text.get(at) {
                None => return Err(self.expected("a text that ends")),
                Some(b'"') => break,
                Some(b'\\') => (at, has_escapes) = (at + 2, true),
                Some(0..0x20) => return Err(self.expected("a text without control characters")),
                Some(_) => at += 1,
            }
        }
        let text = &self.text[start..=at];
        let read = match has_escapes {
            true => serde_json::from_slice::<Box<str>>(text).ok(),
            false => std::str::from_utf8(&text[1..text.len() - 1]).ok().map(Into::into),
        };
        let read = read.ok_or_else(|| self.expected("a text of UTF-8 with escapes of JSON"))?;
        self.at = at + 1;
        Ok(read)
    }

    fn number(&mut self) -> Result<Value, ReadError> {
        let start = self.at;
        self.at += usize::from(self.text[start] == b'-');
        match self.text.get(self.at) {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            self.at += usize::from(matches!(self.text.get(self.at), Some(b'+' | b'-')));
            self.digits()?;
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).expect("digits are ASCII");
        Ok(Value::Number(Number::from_checked(text)))
    }

    /// Passes at least one digit.
    fn digits(&mut self) -> Result<(), ReadError> {
        let count = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { Err(self.expected("a digit")) } else { Ok(()) }
    }
}

/// An object of members, of which the last one with a name counts in the place of the first one, and whether
/// a name is there twice.
pub(crate) fn distinct(members: Vec<(Box<str>, Value)>) -> (Object, bool) {
    if !has_repeated_name(&members) {
        return (Object::from_distinct(members), false);
    }
    let mut places: HashMap<Box<str>, usize> = HashMap::with_capacity(members.len());
    let mut kept: Vec<(Box<str>, Value)> = Vec::with_capacity(members.len());
    for (name, value) in members {
        match places.entry(name) {
            Entry::Occupied(place) => kept[*place.get()].1 = value,
            Entry::Vacant(place) => {
                kept.push((place.key().clone(), value));
                place.insert(kept.len() - 1);
            }
        }
    }
    (Object::from_distinct(kept), true)
}

fn has_repeated_name(members: &[(Box<str>, Value)]) -> bool {
    if members.len() <= COMPARED_ONE_BY_ONE {
        let is_later =
            |index: usize, name: &str| members[index + 1..].iter().any(|(later, _)| **later == *name);
        return members.iter().enumerate().any(|(index, (name, _))| is_later(index, name));
    }
    let mut names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

/// Members of an object that are compared each with each other, which takes no allocation.
const COMPARED_ONE_BY_ONE: usize = 16;

#[cfg(test)]
mod tests;
