//! The one grammar of filters, for lists of objects, for live traffic and for commands. It parses a text
//! against a list of fields and tests values; it knows no kind of object and no request.
//!
//! ```text
//! filter    = [ term *( space term ) ]                  every term must hold
//! term      = [ "-" ] ( word / field ":" values )       "-" negates
//! word      = value *( "," value )                      a part of a name, id, host or path; one of them is enough
//! values    = value *( "," value )                      one of them is enough
//! value     = text with "*" for any characters, or a quoted text, or a comparison
//! compared  = ( ">=" / "<=" / ">" / "<" ) number        of numbers, times and statuses
//! ```
//! Texts are compared without case. `"a \"b\""` is one value with a space and quotes in it; nothing in quotes
//! has a meaning. A word with a colon is a word if no field can be meant: `http://a`, `10.0.0.1:80`.

mod fields;
mod parse;
mod text;

use std::fmt;

pub use fields::{CERTIFICATE_FIELDS, FieldType, FilterField, FilterFields, OBJECT_FIELDS, TRAFFIC_FIELDS};
pub use text::quote;

use text::TextPattern;

/// The longest filter, in bytes: a line that fits an address bar. Matching costs at most this for each byte
/// of a text.
pub const FILTER_BYTES_MAX: usize = 1024;
/// The most terms of a filter. A person writes five.
pub const TERMS_MAX: usize = 32;
/// The most values over all terms of a filter, so that a list of commas costs no more than a list of terms.
pub const VALUES_MAX: usize = 64;

/// A value that a filter can be asked about.
pub trait Searchable {
    /// Calls `test` with each text that a word may be a part of, until one passes; returns whether one did.
    fn any_word(&self, test: &mut dyn FnMut(&str) -> bool) -> bool;

    /// Calls `test` with each text of `field`, until one passes; returns whether one did. False for an
    /// unknown field.
    fn any_text(&self, field: &str, test: &mut dyn FnMut(&str) -> bool) -> bool;

    /// The number in `field`: of a duration its microseconds. None where it is not known, and for an unknown
    /// field.
    fn number(&self, field: &str) -> Option<f64>;
}

/// A filter that was read. The empty filter matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchFilter {
    terms: Vec<Term>,
}

/// A text that is no filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// The place of the fault, in characters from 0.
    pub at: usize,
    /// Names or signs that can stand there; empty where anything else could.
    pub expected: Vec<&'static str>,
    /// The fault as a sentence, with the text to write instead.
    pub reason: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)
    }
}

impl std::error::Error for FilterError {}

/// One condition.
#[derive(Clone, Debug, PartialEq)]
struct Term {
    is_negated: bool,
    /// None: a word.
    field: Option<&'static FilterField>,
    /// One of them is enough.
    values: Vec<Test>,
}

/// The test of one value.
#[derive(Clone, Debug, PartialEq)]
enum Test {
    /// A text, or a number as it is written.
    Text(TextPattern),
    /// A number.
    Number(ValueComparison, Quantity),
    /// A class of statuses: 5 for `5xx`.
    Class(u8),
}

/// A number as it was written, and its value: of a duration in microseconds.
#[derive(Clone, Debug, PartialEq)]
struct Quantity {
    value: f64,
    written: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueComparison {
    AtLeast,
    AtMost,
    Above,
    Below,
    Equal,
}

impl ValueComparison {
    /// The signs, longer ones first, so that `>=` is not read as `>`.
    const SIGNS: [(&'static str, ValueComparison); 4] = [
        (">=", ValueComparison::AtLeast),
        ("<=", ValueComparison::AtMost),
        (">", ValueComparison::Above),
        ("<", ValueComparison::Below),
    ];

    const fn sign(self) -> &'static str {
        match self {
            ValueComparison::AtLeast => ">=",
            ValueComparison::AtMost => "<=",
            ValueComparison::Above => ">",
            ValueComparison::Below => "<",
            ValueComparison::Equal => "",
        }
    }

    #[allow(clippy::float_cmp)] // Equality of numbers as they were written is meant.
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            ValueComparison::AtLeast => left >= right,
            ValueComparison::AtMost => left <= right,
            ValueComparison::Above => left > right,
            ValueComparison::Below => left < right,
            ValueComparison::Equal => left == right,
        }
    }
}

impl SearchFilter {
    /// Reads a filter over `fields`.
    ///
    /// # Errors
    /// The first place that cannot be read, with the names and signs that could stand there. A text over a
    /// limit is one, too.
    pub fn parse(text: &str, fields: &FilterFields) -> Result<SearchFilter, FilterError> {
        parse::filter(text, fields)
    }

    /// Whether every term holds for `value`.
    pub fn matches(&self, value: &impl Searchable) -> bool {
        self.terms.iter().all(|term| term.holds(value))
    }

    /// Whether it has no term, and so matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether a term asks for the field of that name.
    #[must_use]
    pub fn asks_for(&self, name: &str) -> bool {
        self.terms.iter().any(|term| term.field.is_some_and(|field| field.name == name))
    }
}

impl Term {
    fn holds(&self, value: &impl Searchable) -> bool {
        self.values.iter().any(|test| self.passes(test, value)) != self.is_negated
    }

    fn passes(&self, test: &Test, value: &impl Searchable) -> bool {
        match (self.field, test) {
            (None, Test::Text(pattern)) => value.any_word(&mut |text| pattern.is_in(text)),
            (Some(field), Test::Text(pattern)) if field.of == FieldType::Text => {
                value.any_text(field.name, &mut |text| pattern.is_all_of(text))
            }
            (Some(field), Test::Text(pattern)) => {
                value.number(field.name).is_some_and(|number| pattern.is_all_of(&number.to_string()))
            }
            (Some(field), Test::Number(comparison, wanted)) => {
                value.number(field.name).is_some_and(|number| comparison.holds(number, wanted.value))
            }
            (Some(field), Test::Class(class)) => {
                let begin = f64::from(*class) * 100.0;
                value.number(field.name).is_some_and(|number| number >= begin && number < begin + 100.0)
            }
            (None, _) => false,
        }
    }
}

/// The filter in its shortest form; it reads back as an equal filter.
impl fmt::Display for SearchFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            formatter.write_str(if index == 0 { "" } else { " " })?;
            formatter.write_str(if term.is_negated { "-" } else { "" })?;
            if let Some(field) = term.field {
                write!(formatter, "{}:", field.name)?;
            }
            for (index, test) in term.values.iter().enumerate() {
                formatter.write_str(if index == 0 { "" } else { "," })?;
                match test {
                    Test::Text(pattern) => write!(formatter, "{pattern}")?,
                    Test::Number(comparison, quantity) => {
                        write!(formatter, "{}{}", comparison.sign(), quantity.written)?;
                    }
                    Test::Class(class) => write!(formatter, "{class}xx")?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
