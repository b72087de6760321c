//! XML as a tree for templates, in the shape that xml2lua gives it in APISIX: an element with text alone is a
//! string, an empty one an empty string, any other a table with its children by name (a list where a name
//! repeats), its attributes under `_attr` and its texts from 1. Prefixes of namespaces are left out. Document
//! types are refused, and references to entities of them stay as they are written.

use std::collections::HashMap;

use mlua::{Lua, LuaString, Table, Value};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use lua::wide_bytes::{narrow, widen};
use lua::{DecodingBudget, describe};

/// Elements inside each other.
pub(super) const DEPTH_MAX: usize = 128;
/// Elements, attributes and texts of one document: each takes many times its bytes, however short it is.
pub(super) const NODES_MAX: usize = 200_000;

/// An element that is read.
#[derive(Default)]
struct Element {
    attributes: Vec<(String, String)>,
    children: HashMap<String, Vec<Element>>,
    texts: Vec<String>,
}

/// The elements that are open, the innermost last; the first stands for the document.
struct XmlTreeBuilder {
    open: Vec<(String, Element)>,
    text: String,
    nodes: usize,
}

/// Reads `text` within the limits of `budget`.
///
/// # Errors
/// It is no XML, or exceeds a limit; the texts begin as those of xml2lua do.
pub(super) fn read_xml(lua: &Lua, text: &[u8], budget: &DecodingBudget) -> Result<Table, String> {
    // A text of another encoding passes through as bytes.
    let (text, is_utf8) = widen(text);
    let document = parse(&text, budget)?;
    XmlTableWriter { lua, budget, is_utf8 }.table(document).map_err(|error| describe(&error))
}

fn parse(text: &str, budget: &DecodingBudget) -> Result<Element, String> {
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    reader.config_mut().expand_empty_elements = true;
    let mut tree = XmlTreeBuilder { open: vec![Default::default()], text: String::new(), nodes: 0 };
    loop {
        let event = reader.read_event();
        let at = reader.buffer_position();
        budget.check_time().map_err(|error| describe(&error))?;
        let wrong = |reason: &str| format!("Error Parsing XML at byte {at}: {reason}");
        match event.map_err(|error| wrong(&error.to_string()))? {
            Event::Start(start) => {
                tree.flush().map_err(|reason| wrong(&reason))?;
                tree.begin(&start).map_err(|reason| wrong(&reason))?;
            }
            Event::End(_) => {
                tree.flush().map_err(|reason| wrong(&reason))?;
                tree.end();
            }
            Event::Text(text) => tree.text.push_str(&text),
            Event::GeneralRef(reference) => {
                append_reference(&mut tree.text, &reference).map_err(|reason| wrong(&reason))?;
            }
            Event::CData(data) => {
                tree.flush().map_err(|reason| wrong(&reason))?;
                tree.add_text(data.into_inner().into_owned()).map_err(|reason| wrong(&reason))?;
            }
            Event::DocType(_) => return Err(wrong("a document type is not accepted")),
            Event::Comment(_) | Event::PI(_) | Event::Decl(_) | Event::Empty(_) => {
                tree.flush().map_err(|reason| wrong(&reason))?;
            }
            Event::Eof => break,
        }
    }
    tree.flush()?;
    match tree.open.pop() {
        Some((_, document)) if tree.open.is_empty() => match document.texts.first() {
            None => Ok(document),
            Some(_) => Err("Error Parsing XML: there is text outside of elements".to_owned()),
        },
        _ => Err("Error Parsing XML: Incomplete XML Document".to_owned()),
    }
}

impl XmlTreeBuilder {
    /// Gives the text so far to the innermost element, without the white space around it.
    fn flush(&mut self) -> Result<(), String> {
        let text = self.text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
        if !text.is_empty() {
            let text = text.to_owned();
            self.add_text(text)?;
        }
        self.text.clear();
        Ok(())
    }

    fn add_text(&mut self, text: String) -> Result<(), String> {
        self.count_node()?;
        if let Some((_, element)) = self.open.last_mut() {
            element.texts.push(text);
        }
        Ok(())
    }

    /// Counts a node before memory is taken for it.
    fn count_node(&mut self) -> Result<(), String> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(format!("more than {NODES_MAX} elements, attributes and texts"));
        }
        Ok(())
    }

    fn begin(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        if self.open.len() > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} elements inside each other"));
        }
        self.count_node()?;
        let mut element = Element::default();
        for attribute in start.attributes() {
            self.count_node()?;
            let attribute = attribute.map_err(|error| error.to_string())?;
            element.attributes.push((local_name(attribute.key.as_ref()), unescape(&attribute.value)?));
        }
        self.open.push((local_name(start.name().as_ref()), element));
        Ok(())
    }

    /// Ends the innermost element. The reader has compared the names of the tags.
    fn end(&mut self) {
        if self.open.len() > 1
            && let Some((name, element)) = self.open.pop()
            && let Some((_, parent)) = self.open.last_mut()
        {
            parent.children.entry(name).or_default().push(element);
        }
    }
}

/// A name without the prefix of its namespace.
fn local_name(name: &str) -> String {
    name.rsplit(':').next().unwrap_or(name).to_owned()
}

/// The text of an attribute, with its references resolved.
fn unescape(value: &str) -> Result<String, String> {
    let mut text = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, behind)) = rest.split_once('&') {
        let (name, after) = behind.split_once(';').ok_or("a reference without `;`")?;
        text.push_str(before);
        append_reference(&mut text, name)?;
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

/// Appends the character that the reference `name` stands for: one of the five of XML, or a number. A
/// reference to any other entity, such as `&nbsp;`, is appended as it is written, as xml2lua does: nothing is
/// expanded.
fn append_reference(text: &mut String, name: &str) -> Result<(), String> {
    let number = name.strip_prefix('#').and_then(|number| match number.strip_prefix('x') {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => number.parse().ok(),
    });
    match (name, number) {
        ("lt", _) => text.push('<'),
        ("gt", _) => text.push('>'),
        ("amp", _) => text.push('&'),
        ("quot", _) => text.push('"'),
        ("apos", _) => text.push('\''),
        (_, Some(number)) => {
            let character =
                char::from_u32(number).ok_or_else(|| format!("there is no character {number}"))?;
            text.push(character);
        }
        _ => text.extend(["&", name, ";"]),
    }
    Ok(())
}

/// Makes the values of Lua.
struct XmlTableWriter<'a> {
    lua: &'a Lua,
    budget: &'a DecodingBudget,
    is_utf8: bool,
}

impl XmlTableWriter<'_> {
    fn value(&self, mut element: Element) -> mlua::Result<Value> {
        // xml2lua drops the children of an element with one piece of text between them.
        match (element.texts.as_slice(), element.attributes.is_empty()) {
            ([text], true) => return self.text(text).map(Value::String),
            ([], true) if element.children.is_empty() => return self.text("").map(Value::String),
            _ => {}
        }
        let attributes = std::mem::take(&mut element.attributes);
        let table = self.table(element)?;
        if !attributes.is_empty() {
            let named = self.lua.create_table()?;
            for (name, value) in attributes {
                named.raw_set(self.text(&name)?, self.text(&value)?)?;
            }
            table.raw_set("_attr", named)?;
        }
        Ok(Value::Table(table))
    }

    fn table(&self, element: Element) -> mlua::Result<Table> {
        self.budget.charge()?;
        let table = self.lua.create_table()?;
        for text in &element.texts {
            table.raw_push(self.text(text)?)?;
        }
        for (name, mut same) in element.children {
            let value = match (same.len(), same.pop()) {
                (1, Some(only)) => self.value(only)?,
                (_, last) => {
                    let list = self.lua.create_table()?;
                    for element in same.into_iter().chain(last) {
                        list.raw_push(self.value(element)?)?;
                    }
                    Value::Table(list)
                }
            };
            table.raw_set(self.text(&name)?, value)?;
        }
        Ok(table)
    }

    fn text(&self, text: &str) -> mlua::Result<LuaString> {
        self.budget.charge()?;
        if self.is_utf8 || text.is_ascii() {
            return self.lua.create_string(text);
        }
        self.lua.create_string(narrow(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_and_texts_count_as_nodes() {
        let many = NODES_MAX + 1;
        let attributes: String = (0..many).map(|n| format!(" a{n}=''")).collect();
        let cases = [
            (format!("<a>{}</a>", "<b/>".repeat(many)), "more than 200000 elements"),
            (format!("<a{attributes}/>"), "more than 200000 elements"),
            (format!("<a>{}</a>", "t<?p?>".repeat(many)), "more than 200000 elements, attributes and texts"),
            (format!("<a>{}</a>", "<![CDATA[]]>".repeat(many)), "more than 200000 elements"),
        ];
        for (document, expected) in cases {
            let reason = parse(&document, &DecodingBudget::unlimited()).err().unwrap();
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
