//! The form that calls an operation. The script of the page sends it with `fetch`, to the gateway only, and
//! shows the response as text.

use serde_json::Value;

use super::PageOptions;
use super::html::HtmlWriter;
use super::operation::{OperationView, example_text};
use super::schema::resolve_reference;

/// Writes the form, hidden until the script shows it.
pub(super) fn write_try_it(
    html: &mut HtmlWriter,
    document: &Value,
    options: &PageOptions,
    operation: &OperationView<'_>,
) {
    html.raw("<form class=\"try\" hidden").attribute("data-method", &operation.method.to_uppercase());
    html.attribute("data-path", &format!("{}{}", options.base_path, operation.path));
    html.raw("><h3>Try it</h3>\n");
    for parameter in operation.parameters(document) {
        let text = |field: &str| parameter.get(field).and_then(Value::as_str).unwrap_or_default();
        // A script cannot set the field `Cookie`.
        if matches!(text("in"), "path" | "query" | "header") {
            let schema = resolve_reference(document, parameter.get("schema").unwrap_or(&Value::Null));
            let is_list = schema.get("type").is_some_and(|name| name == "array");
            let is_repeated =
                is_list && text("in") == "query" && parameter.get("explode") != Some(&Value::Bool(false));
            let is_required = parameter.get("required") == Some(&Value::Bool(true));
            let hint = if is_list { "a,b,c" } else { "" };
            write_field(html, text("in"), text("name"), hint, is_required, is_repeated);
        }
    }
    for (side, name, hint) in credentials(document, operation) {
        write_field(html, side, name, hint, false, false);
    }
    write_body(html, document, operation);
    html.raw("<button type=\"submit\">Send</button>\n<div class=\"result\" hidden>");
    html.raw(
        "<p class=\"status\" role=\"status\"></p><pre class=\"fields\"></pre><pre class=\"answer\"></pre>",
    );
    html.raw("</div></form>\n");
}

fn write_field(
    html: &mut HtmlWriter,
    side: &str,
    name: &str,
    hint: &str,
    is_required: bool,
    is_repeated: bool,
) {
    html.raw("<label><span>").text(name).raw(if is_required { " *" } else { "" }).raw(" <small>");
    html.text(side).raw("</small></span><input autocomplete=\"off\"").attribute("data-in", side);
    html.attribute("data-name", name).attribute("placeholder", hint);
    html.raw(if is_repeated { " data-repeat=\"1\"" } else { "" });
    html.raw(if is_required { " required>" } else { ">" }).raw("</label>\n");
}

/// The media types and the body.
fn write_body(html: &mut HtmlWriter, document: &Value, operation: &OperationView<'_>) {
    let body = operation.value.get("requestBody").map(|body| resolve_reference(document, body));
    let Some(content) = body.and_then(|body| body.get("content")).and_then(Value::as_object) else { return };
    html.raw("<label><span>Content-Type</span><select class=\"media\">");
    for media_type in content.keys() {
        html.raw("<option>").text(media_type).raw("</option>");
    }
    html.raw("</select></label>\n<label class=\"tall\"><span>Body</span><textarea rows=\"8\" spellcheck=\"false\">\n");
    if let Some(text) = content.values().next().and_then(|entry| example_text(document, entry)) {
        html.text(&text);
    }
    html.raw("</textarea></label>\n");
}

/// Fields for the credentials of the operation: place, name and hint.
fn credentials<'d>(
    document: &'d Value,
    operation: &OperationView<'d>,
) -> Vec<(&'d str, &'d str, &'static str)> {
    let mut fields: Vec<(&str, &str, &str)> = Vec::new();
    for name in operation.security(document).into_iter().flatten() {
        let schemes = document.pointer("/components/securitySchemes");
        let Some(scheme) = schemes.and_then(|schemes| schemes.get(name)) else { continue };
        let scheme = resolve_reference(document, scheme);
        let text = |field: &str| scheme.get(field).and_then(Value::as_str).unwrap_or_default();
        let field = match (text("type"), text("in")) {
            ("apiKey", "query") => ("query", text("name"), ""),
            ("apiKey", "header") => ("header", text("name"), ""),
            ("http", _) if text("scheme").eq_ignore_ascii_case("basic") => {
                ("header", "Authorization", "Basic …")
            }
            ("http" | "oauth2" | "openIdConnect", _) => ("header", "Authorization", "Bearer …"),
            _ => continue,
        };
        if !fields.iter().any(|(side, name, _)| (*side, *name) == (field.0, field.1)) {
            fields.push(field);
        }
    }
    fields
}
