//! Lists of labels, and how the values of labels are read. It knows no configuration and no request.

use exchange::exchange::Consumer;
use jsonx::Bounds;
use router::vars::GaveUp;
use serde_json::{Map, Value};

use crate::shared::attributes::Attribute;
use crate::shared::substitution::{Matcher, PatternOptions};

/// Names of labels, each with the values that count.
pub(super) struct LabelMatcher(Vec<(Box<str>, Vec<Box<str>>)>);

/// How a value of a label is written.
pub(super) enum Parser {
    /// A text with a separator between labels.
    Segmented(Box<Matcher>),
    /// A text that is a JSON list.
    Json,
    /// A list.
    Table,
}

impl Parser {
    /// A text with labels between matches of `separator` and the white space around it.
    ///
    /// # Errors
    /// The separator is no regular expression.
    pub(super) fn segmented(separator: &str) -> Result<Parser, String> {
        let options = PatternOptions::default();
        // Checked alone, because brackets of the written expression could close those around it.
        Matcher::compile(separator, options)?;
        let matcher = Matcher::compile(&format!(r"\s*(?:{separator})\s*"), options)?;
        Ok(Parser::Segmented(Box::new(matcher)))
    }
}

impl LabelMatcher {
    /// Reads lists by name.
    ///
    /// # Errors
    /// A value is no list of texts.
    pub(super) fn read(written: Map<String, Value>) -> Result<LabelMatcher, String> {
        let read = |(name, values): (String, Value)| {
            let values = Vec::read(values).map_err(|reason| format!("{name}: {reason}"))?;
            Ok((name.into(), values))
        };
        written.into_iter().map(read).collect::<Result<_, String>>().map(LabelMatcher)
    }

    /// Whether a label of the consumer has one of the values.
    pub(super) fn match_consumer(&self, consumer: &Consumer) -> bool {
        self.0.iter().any(|(name, wanted)| {
            let label = consumer.labels.iter().find(|(label, _)| label == name);
            label.is_some_and(|(_, text)| text_has(text, wanted))
        })
    }

    /// Whether one of the values of the label `name` is among those wanted.
    ///
    /// # Errors
    /// A search for the separator was given up.
    pub(super) fn match_values(
        &self,
        name: &str,
        values: &[&Value],
        parser: Option<&Parser>,
    ) -> Result<bool, GaveUp> {
        let Some((_, wanted)) = self.0.iter().find(|(label, _)| **label == *name) else { return Ok(false) };
        for value in values {
            // Of several values, one that is a list is taken as it is; a single one is the parser's.
            let parser = parser.filter(|_| values.len() == 1 || value.is_string());
            if has(value, parser, wanted)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn has(value: &Value, parser: Option<&Parser>, wanted: &[Box<str>]) -> Result<bool, GaveUp> {
    Ok(match (parser, value) {
        (Some(Parser::Segmented(separator)), Value::String(text)) => segments_have(separator, text, wanted)?,
        (Some(Parser::Json), Value::String(text)) => json_has(text, wanted),
        (None | Some(Parser::Table), Value::Array(items)) => items_have(items, wanted),
        (None, Value::String(text)) => text_has(text, wanted),
        _ => false,
    })
}

/// A text of which the form is not said: a JSON list, a list with commas, or one value.
fn text_has(text: &str, wanted: &[Box<str>]) -> bool {
    if text.starts_with('[') {
        return json_has(text, wanted);
    }
    let last = text.split(',').count() - 1;
    text.split(',').enumerate().any(|(index, value)| {
        // White space belongs to the commas, not to the ends of the text.
        let value = if index > 0 { value.trim_ascii_start() } else { value };
        let value = if index < last { value.trim_ascii_end() } else { value };
        is_wanted(value, wanted)
    })
}

fn json_has(text: &str, wanted: &[Box<str>]) -> bool {
    jsonx::read::<Vec<Value>>(text.as_bytes(), Bounds::DEFAULT).is_ok_and(|items| items_have(&items, wanted))
}

fn items_have(items: &[Value], wanted: &[Box<str>]) -> bool {
    items.iter().filter_map(Value::as_str).any(|item| is_wanted(item, wanted))
}

fn segments_have(separator: &Matcher, text: &str, wanted: &[Box<str>]) -> Result<bool, GaveUp> {
    let (mut start, mut from) = (0, 0);
    let is_listed = |segment: &[u8]| wanted.iter().any(|wanted| wanted.as_bytes() == segment);
    while from <= text.len() {
        let Some(found) = separator.find(text.as_bytes(), from)? else { break };
        let (begin, end) = found.whole();
        if end == begin {
            // An empty match separates nothing.
            from = end + 1;
            continue;
        }
        if is_listed(&text.as_bytes()[start..begin]) {
            return Ok(true);
        }
        (start, from) = (end, end);
    }
    Ok(is_listed(&text.as_bytes()[start..]))
}

fn is_wanted(value: &str, wanted: &[Box<str>]) -> bool {
    wanted.iter().any(|wanted| **wanted == *value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_by_their_parser() {
        let check = |parser: Option<Parser>, values: &[Value], expected: &[&str]| {
            let found: Vec<&str> = ["a", "b", " a", "c ", "a,b", "a|b"]
                .into_iter()
                .filter(|wanted| {
                    let labels = LabelMatcher(vec![("team".into(), vec![(*wanted).into()])]);
                    let values: Vec<&Value> = values.iter().collect();
                    assert_eq!(labels.match_values("org", &values, parser.as_ref()), Ok(false));
                    labels.match_values("team", &values, parser.as_ref()).unwrap()
                })
                .collect();
            assert_eq!(found, expected, "{values:?}");
        };
        let bar = || Some(Parser::segmented(r"\|").unwrap());
        check(None, &[], &[]);
        check(None, &[json!("a")], &["a"]);
        check(None, &[json!(" a , b,c ")], &["b", " a", "c "]);
        check(None, &[json!("[\"a\",1, \"a|b\"]")], &["a", "a|b"]);
        check(None, &[json!("[a,b")], &[]);
        check(None, &[json!(["a", 1])], &["a"]);
        check(None, &[json!(7)], &[]);
        check(None, &[json!("a,b"), json!(["a|b"])], &["a", "b", "a|b"]);
        check(bar(), &[json!("a | b")], &["a", "b"]);
        check(bar(), &[json!(["a"])], &[]);
        check(bar(), &[json!("a|x"), json!(["b"])], &["a", "b"]);
        check(Some(Parser::segmented("|").unwrap()), &[json!("a|b")], &["a|b"]);
        check(Some(Parser::Json), &[json!("[\"a\"]")], &["a"]);
        check(Some(Parser::Json), &[json!("a")], &[]);
        check(Some(Parser::Json), &[json!(["a"])], &[]);
        check(Some(Parser::Table), &[json!(["a"])], &["a"]);
        check(Some(Parser::Table), &[json!("a")], &[]);
        assert!(Parser::segmented("a)|(b").is_err());
    }
}
