//! One operation on the page.

use serde_json::{Map, Value};

use super::PageOptions;
use super::html::HtmlWriter;
use super::markdown::write_markdown;
use super::schema::{PageSchema, resolve_reference};
use super::try_it::write_try_it;
use crate::example::example_of;

/// Bytes of an example on the page.
const EXAMPLE_BYTES_MAX: usize = 16 * 1024;

/// An operation with its place in the document.
pub(super) struct OperationView<'d> {
    pub(super) method: &'d str,
    pub(super) path: &'d str,
    pub(super) item: &'d Value,
    pub(super) value: &'d Value,
    /// The `id` on the page.
    pub(super) anchor: String,
}

impl<'d> OperationView<'d> {
    pub(super) fn text(&self, field: &str) -> Option<&'d str> {
        self.value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    pub(super) fn is_deprecated(&self) -> bool {
        self.value.get("deprecated") == Some(&Value::Bool(true))
    }

    /// The text that the filter of the page searches.
    pub(super) fn search_text(&self) -> String {
        let parts = [Some(self.method), Some(self.path), self.text("operationId"), self.text("summary")];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ").to_lowercase()
    }

    /// Writes the method; it is one of the known ones and part of a class.
    pub(super) fn write_method(&self, html: &mut HtmlWriter) {
        html.raw("<b class=\"method ")
            .raw(self.method)
            .raw("\">")
            .raw(&self.method.to_uppercase())
            .raw("</b> ");
    }

    /// The parameters of the path and the operation; those of the operation replace others of the same name.
    pub(super) fn parameters(&self, document: &'d Value) -> Vec<&'d Value> {
        let mut list: Vec<&'d Value> = Vec::new();
        for source in [self.item, self.value] {
            for written in source.get("parameters").and_then(Value::as_array).into_iter().flatten() {
                let parameter = resolve_reference(document, written);
                let is_same = |other: &&Value| {
                    ["name", "in"].iter().all(|field| other.get(field) == parameter.get(field))
                };
                match list.iter().position(is_same) {
                    Some(index) => list[index] = parameter,
                    None => list.push(parameter),
                }
            }
        }
        list
    }

    /// The alternatives of security schemes; empty where none is needed.
    pub(super) fn security(&self, document: &'d Value) -> Vec<Vec<&'d str>> {
        let written = self.value.get("security").or_else(|| document.get("security"));
        let alternatives = written.and_then(Value::as_array).into_iter().flatten();
        alternatives
            .map(|entry| entry.as_object().into_iter().flatten().map(|(name, _)| &**name).collect())
            .collect()
    }
}

/// Writes an operation in a part that can be closed.
pub(super) fn write_operation(
    html: &mut HtmlWriter,
    document: &Value,
    options: &PageOptions,
    operation: &OperationView<'_>,
) {
    html.raw("<details class=\"operation\"")
        .attribute("data-find", &operation.search_text())
        .raw("><summary>");
    operation.write_method(html);
    html.element("code", if operation.is_deprecated() { "path old" } else { "path" }, operation.path)
        .raw(" ");
    if let Some(summary) = operation.text("summary") {
        html.element("span", "summary", summary);
    }
    if operation.is_deprecated() {
        html.raw(" <span class=\"mark old\">deprecated</span>");
    }
    html.raw("</summary>\n<div class=\"body\" id=\"").raw(&operation.anchor).raw("\">\n");
    html.raw("<p class=\"facts\"><a href=\"#").raw(&operation.anchor).raw("\">Link</a>");
    if let Some(id) = operation.text("operationId") {
        html.raw(" · ").element("code", "", id);
    }
    write_security(html, document, operation);
    html.raw("</p>\n");
    if let Some(description) = operation.text("description") {
        write_markdown(html, description);
    }
    write_parameters(html, document, operation);
    if let Some(body) = operation.value.get("requestBody") {
        let body = resolve_reference(document, body);
        html.raw("<h3>Request body");
        if body.get("required") == Some(&Value::Bool(true)) {
            html.raw(" <span class=\"must\">required</span>");
        }
        html.raw("</h3>\n");
        write_description(html, body);
        write_content(html, document, body);
    }
    write_responses(html, document, operation);
    if options.has_try_it {
        write_try_it(html, document, options, operation);
    }
    html.raw("</div></details>\n");
}

fn write_security(html: &mut HtmlWriter, document: &Value, operation: &OperationView<'_>) {
    let alternatives = operation.security(document);
    if alternatives.is_empty() {
        return;
    }
    html.raw(" · Security: ");
    for (index, alternative) in alternatives.iter().enumerate() {
        if index > 0 {
            html.raw(" or ");
        }
        if alternative.is_empty() {
            html.raw("none");
        }
        for (position, name) in alternative.iter().enumerate() {
            html.raw(if position > 0 { " and " } else { "" }).element("code", "", name);
            let schemes =
                document.pointer("/components/securitySchemes").and_then(|schemes| schemes.get(name));
            if let Some(kind) = schemes.and_then(|scheme| scheme.get("type")).and_then(Value::as_str) {
                html.raw(" (").text(kind).raw(")");
            }
        }
    }
}

fn write_parameters(html: &mut HtmlWriter, document: &Value, operation: &OperationView<'_>) {
    let parameters = operation.parameters(document);
    if parameters.is_empty() {
        return;
    }
    html.raw("<h3>Parameters</h3>\n<div class=\"wide\"><table><thead><tr><th>Name</th><th>In</th>");
    html.raw("<th>Type</th><th>Description</th></tr></thead><tbody>\n");
    for parameter in parameters {
        let text = |field: &str| parameter.get(field).and_then(Value::as_str).unwrap_or_default();
        html.raw("<tr><td>").element("code", "name", text("name"));
        if parameter.get("required") == Some(&Value::Bool(true)) {
            html.raw(" <span class=\"must\">required</span>");
        }
        if parameter.get("deprecated") == Some(&Value::Bool(true)) {
            html.raw(" <span class=\"mark old\">deprecated</span>");
        }
        html.raw("</td><td>").text(text("in")).raw("</td><td>");
        PageSchema::write_facts(html, document, parameter.get("schema").unwrap_or(&Value::Null));
        html.raw("</td><td>");
        write_description(html, parameter);
        html.raw("</td></tr>\n");
    }
    html.raw("</tbody></table></div>\n");
}

fn write_responses(html: &mut HtmlWriter, document: &Value, operation: &OperationView<'_>) {
    let none = Map::new();
    html.raw("<h3>Responses</h3>\n");
    for (code, response) in operation.value.get("responses").and_then(Value::as_object).unwrap_or(&none) {
        if code.starts_with("x-") {
            continue;
        }
        let response = resolve_reference(document, response);
        let class = match code.as_bytes().first() {
            Some(b'2') => "code good",
            Some(b'4' | b'5') => "code bad",
            _ => "code",
        };
        html.raw("<div class=\"response\"><div class=\"row\">").element("b", class, code).raw("</div>");
        write_description(html, response);
        if let Some(headers) = response.get("headers").and_then(Value::as_object) {
            html.raw("<ul class=\"headers\">");
            for (name, header) in headers {
                let header = resolve_reference(document, header);
                html.raw("<li>").element("code", "name", name).raw(" ");
                PageSchema::write_facts(html, document, header.get("schema").unwrap_or(&Value::Null));
                write_description(html, header);
                html.raw("</li>");
            }
            html.raw("</ul>");
        }
        write_content(html, document, response);
        html.raw("</div>\n");
    }
}

fn write_description(html: &mut HtmlWriter, object: &Value) {
    if let Some(text) = object.get("description").and_then(Value::as_str).filter(|text| !text.is_empty()) {
        write_markdown(html, text);
    }
}

/// Writes the schema and the example of each media type.
fn write_content(html: &mut HtmlWriter, document: &Value, object: &Value) {
    for (media_type, entry) in object.get("content").and_then(Value::as_object).into_iter().flatten() {
        html.raw("<div class=\"content\">").element("code", "media", media_type).raw("\n");
        if let Some(schema) = entry.get("schema") {
            PageSchema::write(html, document, schema);
        }
        if let Some(text) = example_text(document, entry) {
            html.raw("<details><summary>Example</summary><pre>").text(&text).raw("</pre></details>");
        }
        html.raw("</div>\n");
    }
}

/// The example of a media type as text: the one that is written, or one of the schema.
pub(super) fn example_text(document: &Value, entry: &Value) -> Option<String> {
    let named =
        entry.get("examples").and_then(Value::as_object).and_then(|examples| examples.values().next());
    let named = named.and_then(|example| resolve_reference(document, example).get("value"));
    let value = match entry.get("example").or(named) {
        Some(value) => value.clone(),
        None => example_of(document, entry.get("schema")?),
    };
    let text = match value {
        Value::String(text) => text,
        Value::Null => return None,
        value => serde_json::to_string_pretty(&value).ok()?,
    };
    (text.len() <= EXAMPLE_BYTES_MAX).then_some(text)
}
