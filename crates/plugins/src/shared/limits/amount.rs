//! A whole number of a limit, as users write it: a number, or a text with variables that yields one for each
//! request.

use router::vars::{Template, VariableSource, to_number};
use serde_json::{Value, json};

use crate::shared::attributes::Attribute;

/// The largest number: numbers up to here are exact in every JSON reader (2^53 - 1).
pub(crate) const NUMBER_MAX: u64 = 9_007_199_254_740_991;

/// The form of an amount that is a text: any other text could never come out as a number.
const AMOUNT_TEXT: &str = "a whole number or a text with variables, such as ${http_x_quota}";

/// A compiled number.
pub(crate) enum Amount {
    Fixed(u64),
    Rendered {
        text: Template,
        /// The smallest number that is accepted, 0 or 1.
        least: u64,
    },
}

/// A number from 1 up, as written.
pub(crate) struct WrittenAmount(AmountLiteral);

/// A number from 0 up, as written.
pub(crate) struct WrittenAmountOrZero(AmountLiteral);

enum AmountLiteral {
    Number(f64),
    Text(String),
}

impl AmountLiteral {
    fn read(written: Value) -> Result<AmountLiteral, String> {
        match written {
            Value::String(text) => Ok(AmountLiteral::Text(text)),
            other => other.as_f64().map(AmountLiteral::Number).ok_or_else(|| format!("{other} is no number")),
        }
    }

    fn write(&self) -> Value {
        match self {
            AmountLiteral::Number(number) => json!(number),
            AmountLiteral::Text(text) => json!(text),
        }
    }

    fn compile(&self, attribute: &str, least: u64) -> Result<Amount, String> {
        match self {
            AmountLiteral::Number(number) => whole(*number, least)
                .map(Amount::Fixed)
                .ok_or_else(|| format!("{attribute} must be a whole number from {least} to {NUMBER_MAX}")),
            AmountLiteral::Text(text) if !text.contains('$') => {
                match text.parse().ok().and_then(|number| whole(number, least)) {
                    Some(number) => Ok(Amount::Fixed(number)),
                    None => Err(format!(
                        "{attribute} must be a whole number from {least} to {NUMBER_MAX}, or a text with variables"
                    )),
                }
            }
            AmountLiteral::Text(text) => {
                let text = Template::compile(text).map_err(|error| format!("{attribute}: {error}"))?;
                Ok(Amount::Rendered { text, least })
            }
        }
    }
}

fn schema_of(number: Value) -> Value {
    json!({ "oneOf": [
        number,
        { "type": "string", "pattern": "^[0-9]+$|\\$", "$comment": AMOUNT_TEXT },
    ] })
}

impl Attribute for WrittenAmount {
    fn schema() -> Value {
        schema_of(json!({ "type": "integer", "exclusiveMinimum": 0 }))
    }

    fn read(written: Value) -> Result<Self, String> {
        AmountLiteral::read(written).map(WrittenAmount)
    }

    fn write(&self) -> Value {
        self.0.write()
    }
}

impl Attribute for WrittenAmountOrZero {
    fn schema() -> Value {
        schema_of(json!({ "type": "integer", "minimum": 0 }))
    }

    fn read(written: Value) -> Result<Self, String> {
        AmountLiteral::read(written).map(WrittenAmountOrZero)
    }

    fn write(&self) -> Value {
        self.0.write()
    }
}

impl WrittenAmount {
    /// Compiles the number of the attribute with this name.
    ///
    /// # Errors
    /// It is no whole number from 1 up, or the text is no template; a sentence that names the attribute.
    pub(crate) fn compile(&self, attribute: &str) -> Result<Amount, String> {
        self.0.compile(attribute, 1)
    }
}

impl WrittenAmountOrZero {
    /// As [`WrittenAmount::compile`], from 0 up.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn compile(&self, attribute: &str) -> Result<Amount, String> {
        self.0.compile(attribute, 0)
    }
}

fn whole(number: f64, least: u64) -> Option<u64> {
    (number >= least as f64 && number <= NUMBER_MAX as f64 && number.fract() == 0.0).then_some(number as u64)
}

impl Amount {
    /// The number for this request or session; `None` if the text yields no whole number that is large
    /// enough.
    pub(crate) fn of(&self, source: &impl VariableSource) -> Option<u64> {
        match self {
            Amount::Fixed(number) => Some(*number),
            Amount::Rendered { text: template, least } => {
                let mut text = Vec::new();
                template.render(source, &mut text);
                whole(to_number(&text)?, *least)
            }
        }
    }
}
