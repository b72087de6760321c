//! Schemas as nested lists: names, types, marks of required properties, constraints and descriptions.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::html::{HtmlWriter, anchor_name};
use super::markdown::write_markdown;

/// Levels of a schema that are shown in place; deeper ones are links to the schemas at the end of the page.
const SCHEMA_DEPTH_MAX: usize = 6;
/// Bytes of one schema on the page.
const SCHEMA_BYTES_MAX: usize = 96 * 1024;
/// Values of an enumeration that are shown.
const ENUM_VALUES_MAX: usize = 40;
/// Constraints that are shown as `name: value`.
const CONSTRAINTS: [(&str, &str); 16] = [
    ("minimum", "≥"),
    ("exclusiveMinimum", ">"),
    ("maximum", "≤"),
    ("exclusiveMaximum", "<"),
    ("multipleOf", "multiple of"),
    ("minLength", "min length"),
    ("maxLength", "max length"),
    ("pattern", "pattern"),
    ("minItems", "min items"),
    ("maxItems", "max items"),
    ("uniqueItems", "unique items:"),
    ("minProperties", "min properties"),
    ("maxProperties", "max properties"),
    ("const", "always"),
    ("default", "default"),
    ("contentMediaType", "media type"),
];

/// Writes one schema.
pub(super) struct PageSchema<'d> {
    document: &'d Value,
    /// References that are open, so that a schema inside itself becomes a link.
    open: Vec<&'d str>,
    /// The length of the page at which this schema ends.
    end: usize,
}

impl<'d> PageSchema<'d> {
    /// Writes a schema with its type, constraints and properties.
    pub(super) fn write(html: &mut HtmlWriter, document: &'d Value, schema: &'d Value) {
        let mut view = PageSchema { document, open: Vec::new(), end: html.len() + SCHEMA_BYTES_MAX };
        html.raw("<div class=\"schema\">");
        view.facts(html, schema);
        view.below(html, schema, 0);
        html.raw("</div>\n");
    }

    /// Writes the type and the constraints of a schema in one line.
    pub(super) fn write_facts(html: &mut HtmlWriter, document: &'d Value, schema: &'d Value) {
        let view = PageSchema { document, open: Vec::new(), end: html.len() + SCHEMA_BYTES_MAX };
        view.facts(html, schema);
    }

    fn facts(&self, html: &mut HtmlWriter, schema: &'d Value) {
        if let Some(name) = component_name(schema) {
            html.raw("<a class=\"type\" href=\"#schema-")
                .raw(&anchor_name(name))
                .raw("\">")
                .text(name)
                .raw("</a>");
        }
        let schema = self.resolved(schema);
        html.raw(" ").element("span", "type", &self.type_text(schema));
        for (field, label) in CONSTRAINTS {
            match schema.get(field) {
                Some(Value::Bool(true)) if field.starts_with("exclusive") => {
                    html.raw(" ").element("span", "rule", field);
                }
                None | Some(Value::Bool(false)) if field != "default" => {}
                None => {}
                Some(value) => {
                    html.raw(" <span class=\"rule\">")
                        .text(label)
                        .raw(" ")
                        .text(&compact(value))
                        .raw("</span>");
                }
            }
        }
        for (field, label) in
            [("readOnly", "read only"), ("writeOnly", "write only"), ("deprecated", "deprecated")]
        {
            if schema.get(field) == Some(&Value::Bool(true)) {
                html.raw(" ").element("span", if field == "deprecated" { "mark old" } else { "mark" }, label);
            }
        }
        let of_items = || schema.get("items").map(|items| self.resolved(items))?.get("enum");
        if let Some(Value::Array(values)) = schema.get("enum").or_else(of_items) {
            html.raw(" <span class=\"values\">");
            for value in values.iter().take(ENUM_VALUES_MAX) {
                html.element("code", "", &compact(value)).raw(" ");
            }
            if values.len() > ENUM_VALUES_MAX {
                html.raw(&format!("and {} more", values.len() - ENUM_VALUES_MAX));
            }
            html.raw("</span>");
        }
    }

    /// The type in words: `string <date>`, `array of integer`, `object | null`.
    fn type_text(&self, schema: &Value) -> String {
        let name = match schema.get("type") {
            Some(Value::String(name)) => name.clone(),
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | ")
            }
            _ if schema.get("properties").is_some() => "object".to_owned(),
            _ if schema.get("items").is_some() => "array".to_owned(),
            _ => {
                let combination =
                    ["allOf", "oneOf", "anyOf"].iter().find(|name| schema.get(**name).is_some());
                combination.map_or("any", |name| match *name {
                    "allOf" => "all of",
                    "oneOf" => "one of",
                    _ => "any of",
                })
            }
            .to_owned(),
        };
        let mut text = name;
        if let Some(items) = schema.get("items").filter(|_| text.starts_with("array")) {
            let item = component_name(items).or(items.get("type").and_then(Value::as_str)).unwrap_or("any");
            text = format!("{text} of {item}");
        }
        if let Some(format) = schema.get("format").and_then(Value::as_str) {
            text = format!("{text} <{format}>");
        }
        if schema.get("nullable") == Some(&Value::Bool(true)) {
            text.push_str(" | null");
        }
        text
    }

    /// Writes the properties, items and branches below a schema. [`SCHEMA_DEPTH_MAX`] bounds the recursion.
    fn below(&mut self, html: &mut HtmlWriter, schema: &'d Value, depth: usize) {
        if html.len() > self.end || depth > SCHEMA_DEPTH_MAX {
            html.element("p", "note", "Further levels are left out here.");
            return;
        }
        let opened = self.open.len();
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            if self.open.contains(&reference) {
                return;
            }
            self.open.push(reference);
        }
        let schema = self.resolved(schema);
        let properties = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|required| required == name));
        if properties.is_some() {
            html.raw("<ul>");
        }
        for (index, (name, property)) in properties.into_iter().flatten().enumerate() {
            if html.len() > self.end {
                let left = properties.map_or(0, Map::len) - index;
                html.element("li", "note", &format!("{left} properties are left out here."));
                break;
            }
            self.entry(html, name, property, is_required(name), depth);
        }
        if properties.is_some() {
            html.raw("</ul>");
        }
        if let Some(items) = schema.get("items").filter(|items| has_more(self.resolved(items))) {
            self.branch(html, "items", items, depth);
        }
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            self.branch(html, "other properties", values, depth);
        }
        for (field, label) in [("allOf", "and"), ("oneOf", "or"), ("anyOf", "or"), ("prefixItems", "item")] {
            for branch in schema.get(field).and_then(Value::as_array).into_iter().flatten() {
                if html.len() > self.end {
                    break;
                }
                self.branch(html, label, branch, depth);
            }
        }
        self.open.truncate(opened);
    }

    fn entry(
        &mut self,
        html: &mut HtmlWriter,
        name: &str,
        schema: &'d Value,
        is_required: bool,
        depth: usize,
    ) {
        html.raw("<li><div class=\"row\">").element("code", "name", name);
        if is_required {
            html.raw("<span class=\"must\" title=\"required\">required</span>");
        }
        html.raw(" ");
        self.facts(html, schema);
        html.raw("</div>");
        if let Some(text) = self.resolved(schema).get("description").and_then(Value::as_str) {
            write_markdown(html, text);
        }
        if has_more(self.resolved(schema)) && !self.is_open(schema) {
            self.nested(html, schema, depth);
        }
        html.raw("</li>");
    }

    /// Writes the levels below in a part that can be closed; only the first one is open.
    fn nested(&mut self, html: &mut HtmlWriter, schema: &'d Value, depth: usize) {
        html.raw(if depth < 1 { "<details open>" } else { "<details>" });
        html.raw("<summary>details</summary>");
        self.below(html, schema, depth + 1);
        html.raw("</details>");
    }

    fn branch(&mut self, html: &mut HtmlWriter, label: &str, schema: &'d Value, depth: usize) {
        html.raw("<div class=\"branch\"><div class=\"row\">").element("span", "mark", label).raw(" ");
        self.facts(html, schema);
        html.raw("</div>");
        if has_more(self.resolved(schema)) {
            self.below(html, schema, depth + 1);
        }
        html.raw("</div>");
    }

    /// Whether a property is the schema that is being written, or a list of such.
    fn is_open(&self, schema: &Value) -> bool {
        let reference = |schema: &Value| schema.get("$ref").and_then(Value::as_str).map(str::to_owned);
        let named = reference(schema).or_else(|| reference(schema.get("items")?));
        named.is_some_and(|named| self.open.contains(&&*named))
    }

    fn resolved(&self, schema: &'d Value) -> &'d Value {
        resolve_reference(self.document, schema)
    }
}

/// Whether a schema has levels below it.
fn has_more(schema: &Value) -> bool {
    let fields = ["properties", "items", "allOf", "oneOf", "anyOf", "prefixItems"];
    let is_deep = |field: &str| {
        schema.get(field).is_some_and(|value| match value.get("type") {
            Some(Value::String(name)) if field == "items" => name == "object" || name == "array",
            _ => true,
        })
    };
    fields.iter().any(|field| is_deep(field))
        || schema.get("additionalProperties").is_some_and(Value::is_object)
}

/// The name of the component that a schema refers to.
pub(super) fn component_name(schema: &Value) -> Option<&str> {
    schema.get("$ref").and_then(Value::as_str)?.strip_prefix("#/components/schemas/")
}

/// The value behind references inside the document; null where there is none.
pub(super) fn resolve_reference<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let mut target = value;
    for _ in 0..16 {
        let Some(reference) = target.get("$ref").and_then(Value::as_str) else { return target };
        let decoded =
            reference.strip_prefix('#').and_then(|text| percent_decode_str(text).decode_utf8().ok());
        target = decoded.and_then(|pointer| document.pointer(&pointer)).unwrap_or(&Value::Null);
    }
    &Value::Null
}

/// A value in one line, shortened.
fn compact(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() <= 120 { text } else { text.chars().take(120).chain("…".chars()).collect() }
}
