//! The parts of the page: navigation, head, operations by tag, schemas.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::PageOptions;
use super::html::{HtmlWriter, anchor_name};
use super::markdown::{write_link, write_markdown};
use super::operation::{OperationView, write_operation};
use super::schema::PageSchema;

/// The methods of OpenAPI 3.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
/// Entries of the navigation.
const NAVIGATION_MAX: usize = 5000;
/// The group of operations without a tag.
const UNTAGGED: &str = "Other operations";

/// Operations with the same first tag.
struct TagGroup<'d> {
    name: &'d str,
    description: Option<&'d str>,
    operations: Vec<OperationView<'d>>,
}

/// The parts of the page of one document.
pub(super) struct PageSections<'d> {
    document: &'d Value,
    options: &'d PageOptions,
    groups: Vec<TagGroup<'d>>,
}

impl<'d> PageSections<'d> {
    pub(super) fn new(document: &'d Value, options: &'d PageOptions) -> PageSections<'d> {
        let mut groups: Vec<TagGroup<'d>> = Vec::new();
        let mut index: HashMap<&str, usize> = HashMap::new();
        for tag in document.get("tags").and_then(Value::as_array).into_iter().flatten() {
            let Some(name) = tag.get("name").and_then(Value::as_str) else { continue };
            index.entry(name).or_insert_with(|| {
                let description = tag.get("description").and_then(Value::as_str);
                groups.push(TagGroup { name, description, operations: Vec::new() });
                groups.len() - 1
            });
        }
        let mut anchors: HashMap<String, usize> = HashMap::new();
        for (path, item) in document.get("paths").and_then(Value::as_object).into_iter().flatten() {
            for (method, value) in item.as_object().into_iter().flatten() {
                if !METHODS.contains(&&**method) || !value.is_object() {
                    continue;
                }
                let id = value.get("operationId").and_then(Value::as_str);
                let anchor = anchor_name(&id.map_or_else(|| format!("{method}{path}"), str::to_owned));
                let seen = anchors.entry(anchor.clone()).or_default();
                *seen += 1;
                let anchor = if *seen == 1 { anchor } else { format!("{anchor}.{seen}") };
                let tag = value.pointer("/tags/0").and_then(Value::as_str).unwrap_or(UNTAGGED);
                let group = *index.entry(tag).or_insert_with(|| {
                    groups.push(TagGroup { name: tag, description: None, operations: Vec::new() });
                    groups.len() - 1
                });
                groups[group].operations.push(OperationView { method, path, item, value, anchor });
            }
        }
        groups.retain(|group| !group.operations.is_empty());
        PageSections { document, options, groups }
    }

    /// The list of operations, with the box that filters them. The box does nothing without JavaScript, and
    /// the script shows it.
    pub(super) fn write_navigation(&self, html: &mut HtmlWriter, title: &str) {
        html.raw("<nav><details id=\"menu\" open><summary>").text(title).raw("</summary>\n");
        html.raw("<input id=\"filter\" type=\"search\" placeholder=\"Filter operations\" ");
        html.raw("aria-label=\"Filter operations\" hidden>\n");
        let mut left = NAVIGATION_MAX;
        for group in &self.groups {
            html.raw("<section class=\"group\">").element("h2", "", group.name).raw("<ul>");
            for operation in group.operations.iter().take(left) {
                html.raw("<li").attribute("data-find", &operation.search_text()).raw("><a href=\"#");
                html.raw(&operation.anchor).raw("\">");
                operation.write_method(html);
                let summary = operation.text("summary").unwrap_or(operation.path);
                html.element("span", if operation.is_deprecated() { "old" } else { "" }, summary)
                    .raw("</a></li>\n");
            }
            html.raw("</ul></section>\n");
            left = left.saturating_sub(group.operations.len());
        }
        if self.document.pointer("/components/schemas").is_some() {
            html.raw("<p><a href=\"#schemas\">Schemas</a></p>");
        }
        html.raw("</details></nav>\n");
    }

    /// Title, version, description, address and links.
    pub(super) fn write_header(&self, html: &mut HtmlWriter, info: &Value, title: &str) {
        let text = |field: &str| info.get(field).and_then(Value::as_str);
        html.raw("<header><h1>").text(title);
        if let Some(version) = text("version") {
            html.raw(" ").element("span", "version", version);
        }
        html.raw("</h1>\n");
        html.raw("<p class=\"facts\">Base path ");
        let base = if self.options.base_path.is_empty() { "/" } else { &self.options.base_path };
        html.element("code", "", base);
        if let Some(path) = self.options.document_path.as_deref().filter(|path| is_own_path(path)) {
            html.raw(" · <a").attribute("href", path).raw(">OpenAPI document</a>");
        }
        for (pointer, label) in [("/license", "License"), ("/contact", "Contact")] {
            let Some(entry) = info.pointer(pointer) else { continue };
            let name = entry.get("name").and_then(Value::as_str).unwrap_or(label);
            html.raw(" · ").raw(label).raw(": ");
            match entry.get("url").and_then(Value::as_str) {
                Some(address) => write_link(html, name, address),
                None => drop(html.text(name)),
            }
        }
        html.raw("</p>\n");
        if let Some(description) = text("description") {
            write_markdown(html, description);
        }
        html.raw("</header>\n");
    }

    /// All operations, as long as the page has capacity for them.
    pub(super) fn write_operations(&self, html: &mut HtmlWriter) {
        let mut left_out = 0;
        for group in &self.groups {
            html.raw("<section class=\"group\">").element("h2", "", group.name).raw("\n");
            if let Some(description) = group.description {
                write_markdown(html, description);
            }
            for operation in &group.operations {
                if html.is_full() {
                    left_out += 1;
                } else {
                    write_operation(html, self.document, self.options, operation);
                }
            }
            html.raw("</section>\n");
        }
        if left_out > 0 {
            let text = format!("{left_out} operations are left out, because the page would be too large.");
            html.element("p", "note", &text);
        }
    }

    /// The schemas that operations refer to.
    pub(super) fn write_schemas(&self, html: &mut HtmlWriter) {
        let none = Map::new();
        let schemas =
            self.document.pointer("/components/schemas").and_then(Value::as_object).unwrap_or(&none);
        if schemas.is_empty() {
            return;
        }
        html.raw("<section id=\"schemas\"><h2>Schemas</h2>\n");
        for (index, (name, schema)) in schemas.iter().enumerate() {
            if html.is_full() {
                let text = format!(
                    "{} schemas are left out, because the page would be too large.",
                    schemas.len() - index
                );
                html.element("p", "note", &text);
                break;
            }
            html.raw("<details class=\"component\"><summary>")
                .element("code", "name", name)
                .raw("</summary>");
            html.raw("<div class=\"body\" id=\"schema-").raw(&anchor_name(name)).raw("\">");
            if let Some(description) = schema.get("description").and_then(Value::as_str) {
                write_markdown(html, description);
            }
            PageSchema::write(html, self.document, schema);
            html.raw("</div></details>\n");
        }
        html.raw("</section>\n");
    }
}

/// Whether a link stays at the gateway: a path, not `//host` and no scheme.
fn is_own_path(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("//") && !path.contains('\\')
}
