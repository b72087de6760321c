//! Reads the text of a filter, with the place of the first fault and what could stand there.

use stdx::nearest::nearest;

use super::text::TextPattern;
use super::{
    FILTER_BYTES_MAX, FieldType, FilterError, FilterField, FilterFields, Quantity, SearchFilter, TERMS_MAX,
    Term, Test, VALUES_MAX, ValueComparison,
};

/// Reads a filter.
pub(super) fn filter(text: &str, fields: &FilterFields) -> Result<SearchFilter, FilterError> {
    if text.len() > FILTER_BYTES_MAX {
        let at = text.floor_char_boundary(FILTER_BYTES_MAX);
        let reason = format!("a filter has at most {FILTER_BYTES_MAX} bytes");
        return Err(FilterError { at: text[..at].chars().count(), expected: Vec::new(), reason });
    }
    let mut reader = FilterReader { text, at: 0, fields, values: 0 };
    let mut terms = Vec::new();
    loop {
        reader.skip_space();
        if reader.rest().is_empty() {
            return Ok(SearchFilter { terms });
        }
        if terms.len() == TERMS_MAX {
            return Err(reader.fault(
                reader.at,
                Vec::new(),
                format!("a filter has at most {TERMS_MAX} terms"),
            ));
        }
        terms.push(reader.term()?);
    }
}

/// A place in the text.
struct FilterReader<'t> {
    text: &'t str,
    /// In bytes.
    at: usize,
    fields: &'t FilterFields,
    /// Values read so far.
    values: usize,
}

/// One value as it was written.
enum WrittenValue {
    /// In quotes; without them here.
    Quoted(String),
    /// Without quotes.
    Bare(String),
}

impl FilterReader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn fault(&self, at: usize, expected: Vec<&'static str>, reason: impl Into<String>) -> FilterError {
        FilterError { at: self.text[..at].chars().count(), expected, reason: reason.into() }
    }

    fn term(&mut self) -> Result<Term, FilterError> {
        let negated =
            self.rest().strip_prefix('-').filter(|rest| !rest.is_empty() && !rest.starts_with(is_end));
        let is_negated = negated.is_some();
        self.at += usize::from(is_negated);
        let field = self.field()?;
        let mut values = Vec::new();
        loop {
            values.push(self.value(field)?);
            if self.peek() != Some(',') {
                return Ok(Term { is_negated, field, values });
            }
            self.at += 1;
        }
    }

    /// The field before a colon; none where the term is a word.
    fn field(&mut self) -> Result<Option<&'static FilterField>, FilterError> {
        let rest = self.rest();
        let length = rest.find(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
        let Some((name, behind)) = length.map(|length| rest.split_at(length)) else { return Ok(None) };
        let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic());
        if !is_name || !behind.starts_with(':') {
            return Ok(None);
        }
        let Some(field) = self.fields.get(name) else {
            if behind.starts_with("://") {
                return Ok(None);
            }
            let names = self.fields.names();
            let quotes = "text with a colon is written in quotes";
            let reason = match nearest(&name.to_ascii_lowercase(), names.iter().copied()) {
                Some(near) => format!("there is no field `{name}`; did you mean `{near}`? A {quotes}"),
                None => format!("there is no field `{name}`; a {quotes}"),
            };
            return Err(self.fault(self.at, names, reason));
        };
        self.at += name.len() + 1;
        Ok(Some(field))
    }

    fn value(&mut self, field: Option<&'static FilterField>) -> Result<Test, FilterError> {
        let begin = self.at;
        if self.values == VALUES_MAX {
            return Err(self.fault(begin, Vec::new(), format!("a filter has at most {VALUES_MAX} values")));
        }
        self.values += 1;
        let written = self.written()?;
        let Some(field) = field else { return self.word(begin, &written) };
        let (text, is_bare) = match &written {
            WrittenValue::Quoted(text) => (text, false),
            WrittenValue::Bare(text) => (text, true),
        };
        if is_bare && text.is_empty() {
            let reason = format!("a value of `{}` is missing here", field.name);
            return Err(self.fault(begin, expected(field), reason));
        }
        match field.of {
            FieldType::Text => self.text_value(field, begin, text, is_bare),
            _ => self.number_value(field, begin, text),
        }
    }

    fn word(&self, begin: usize, written: &WrittenValue) -> Result<Test, FilterError> {
        match written {
            WrittenValue::Bare(text) if text.is_empty() => {
                Err(self.fault(begin, Vec::new(), "a text is missing here"))
            }
            WrittenValue::Bare(text) => Ok(Test::Text(TextPattern::with_stars(text))),
            WrittenValue::Quoted(text) => Ok(Test::Text(TextPattern::literal(text))),
        }
    }

    fn text_value(
        &self,
        field: &'static FilterField,
        begin: usize,
        text: &str,
        is_bare: bool,
    ) -> Result<Test, FilterError> {
        if is_bare && ValueComparison::SIGNS.iter().any(|(sign, _)| text.starts_with(sign)) {
            let reason =
                format!("`{}` is a text and has no order; write it in quotes to find this sign", field.name);
            return Err(self.fault(begin, expected(field), reason));
        }
        let pattern = if is_bare { TextPattern::with_stars(text) } else { TextPattern::literal(text) };
        let is_unknown =
            pattern.plain().is_some_and(|plain| !field.values.is_empty() && !field.values.contains(&plain));
        if is_unknown {
            let reason = format!("`{}` is one of {}", field.name, field.values.join(", "));
            return Err(self.fault(begin, field.values.to_vec(), reason));
        }
        Ok(Test::Text(pattern))
    }

    fn number_value(
        &self,
        field: &'static FilterField,
        begin: usize,
        text: &str,
    ) -> Result<Test, FilterError> {
        let sign = ValueComparison::SIGNS.iter().find(|(sign, _)| text.starts_with(sign));
        let (sign, comparison) = sign.copied().unwrap_or(("", ValueComparison::Equal));
        let number = &text[sign.len()..];
        if field.of == FieldType::Status && comparison == ValueComparison::Equal {
            if let Some(class) = class(number) {
                return Ok(Test::Class(class));
            }
            if number.contains('*') && number.chars().all(|digit| digit.is_ascii_digit() || digit == '*') {
                return Ok(Test::Text(TextPattern::with_stars(number)));
            }
        }
        let value = match field.of {
            FieldType::Duration => duration_us(number),
            _ => plain_number(number),
        };
        match value {
            Some(value) => Ok(Test::Number(comparison, Quantity { value, written: number.to_owned() })),
            None => Err(self.fault(begin + sign.len(), expected(field), number_fault(field, number))),
        }
    }

    /// Reads up to a space, a comma or the end; a quoted text up to its quote.
    fn written(&mut self) -> Result<WrittenValue, FilterError> {
        if self.peek() != Some('"') {
            let rest = self.rest();
            let length =
                rest.find(|character: char| is_end(character) || character == ',').unwrap_or(rest.len());
            let text = rest[..length].to_owned();
            self.at += length;
            return Ok(WrittenValue::Bare(text));
        }
        let begin = self.at;
        let mut text = String::new();
        let mut characters = self.rest().char_indices().skip(1);
        let mut length = None;
        while let Some((index, character)) = characters.next() {
            match character {
                '"' => {
                    length = Some(index + 1);
                    break;
                }
                '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
                other => text.push(other),
            }
        }
        let Some(length) = length else {
            return Err(self.fault(begin, vec!["\""], "this quote is not closed"));
        };
        self.at += length;
        match self.peek() {
            Some(character) if !is_end(character) && character != ',' => {
                let reason = "behind the closing quote stands a space, a comma or nothing";
                Err(self.fault(self.at, vec![" ", ","], reason))
            }
            _ => Ok(WrittenValue::Quoted(text)),
        }
    }
}

fn is_end(character: char) -> bool {
    character.is_whitespace()
}

/// Names and signs that can stand at the begin of a value of the field.
fn expected(field: &'static FilterField) -> Vec<&'static str> {
    match field.of {
        FieldType::Text => field.values.to_vec(),
        FieldType::Number => vec![">=", "<=", ">", "<", "number"],
        FieldType::Status => vec![">=", "<=", ">", "<", "number", "2xx", "3xx", "4xx", "5xx"],
        FieldType::Duration => vec![">=", "<=", ">", "<", "us", "ms", "s", "m", "h", "d", "w"],
    }
}

fn number_fault(field: &FilterField, number: &str) -> String {
    let name = field.name;
    match field.of {
        FieldType::Duration if plain_number(number).is_some() => {
            format!("the time needs its unit: {name}:>{number}ms, or us, s, m, h, d, w")
        }
        FieldType::Duration => format!("`{name}` takes a time, such as {name}:>200ms or {name}:<7d"),
        FieldType::Status => {
            format!("`{name}` takes a status or a class, such as {name}:>=500 or {name}:5xx")
        }
        _ => format!("`{name}` takes a number, such as {name}:>=10"),
    }
}

/// 5 of `5xx`.
fn class(text: &str) -> Option<u8> {
    match text.as_bytes() {
        [digit @ b'1'..=b'5', b'x' | b'X', b'x' | b'X'] => Some(digit - b'0'),
        _ => None,
    }
}

/// A decimal number without exponent, and what is behind it.
fn split_number(text: &str) -> Option<(f64, &str)> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let digits = unsigned.find(|character: char| !(character.is_ascii_digit() || character == '.'));
    let length = text.len() - unsigned.len() + digits.unwrap_or(unsigned.len());
    let number: f64 = text[..length].parse().ok()?;
    number.is_finite().then_some((number, &text[length..]))
}

fn plain_number(text: &str) -> Option<f64> {
    let (number, unit) = split_number(text)?;
    let factor = match unit {
        "" | "%" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some(number * factor)
}

fn duration_us(text: &str) -> Option<f64> {
    let (number, unit) = split_number(text)?;
    let factor = match unit {
        // Zero is the same in every unit.
        "" if number == 0.0 => 1.0,
        "us" | "µs" | "μs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" | "min" => 60e6,
        "h" => 3_600e6,
        "d" => 86_400e6,
        "w" => 604_800e6,
        _ => return None,
    };
    Some(number * factor)
}
