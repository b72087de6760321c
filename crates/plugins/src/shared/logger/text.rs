//! Texts of log plugins in which variables are replaced: labels, identifiers, properties.

use exchange::Exchange;
use router::vars::Template;
use serde_json::Map;
use serde_json::Value;

/// A text with variables. Where none of them is set, it can stay as it was written, as in the contract.
pub(crate) struct LogText {
    written: Box<str>,
    template: Option<Template>,
}

impl LogText {
    /// Compiles the text that stands in the field `place`.
    ///
    /// # Errors
    /// A malformed variable, with the place.
    pub(crate) fn compile(place: &str, written: &str) -> Result<LogText, String> {
        let template = Template::compile(written).map_err(|error| format!("{place}: {error}"))?;
        let template = Some(template).filter(|template| template.as_constant().is_none());
        Ok(LogText { written: written.into(), template })
    }

    /// Compiles the texts of an object that stands in the field `place`, in the order of their names.
    ///
    /// # Errors
    /// As [`LogText::compile`].
    pub(crate) fn compile_all(
        place: &str,
        written: &Map<String, Value>,
    ) -> Result<Vec<(Box<str>, LogText)>, String> {
        let text = |(name, value): (&String, &Value)| {
            let text = LogText::compile(&format!("{place}.{name}"), value.as_str().unwrap_or_default())?;
            Ok((name.as_str().into(), text))
        };
        let mut texts: Vec<(Box<str>, LogText)> = written.iter().map(text).collect::<Result<_, String>>()?;
        texts.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(texts)
    }

    /// The text for this exchange, with nothing in place of an unset variable.
    pub(crate) fn render(&self, exchange: &Exchange) -> String {
        self.rendered(exchange).0
    }

    /// As [`LogText::render`]; if no variable is set, the text as it was written.
    pub(crate) fn render_or_keep(&self, exchange: &Exchange) -> String {
        match self.rendered(exchange) {
            (_, 0) => self.written.to_string(),
            (text, _) => text,
        }
    }

    /// The text, and how many variables were set.
    fn rendered(&self, exchange: &Exchange) -> (String, usize) {
        let Some(template) = &self.template else { return (self.written.to_string(), 0) };
        let mut text = Vec::new();
        let set = template.render(exchange, &mut text);
        (String::from_utf8_lossy(&text).into_owned(), set)
    }
}
