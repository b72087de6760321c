//! A contract as one HTML page for readers: its operations, schemas and examples, and a form that calls an
//! operation through the gateway.
//!
//! The page has no parts of third parties and loads nothing. It can be read without JavaScript. Contracts
//! come from services and are not trusted: each text of the document is escaped, links lead to `http` and
//! `https` only, and [`PAGE_POLICY`] lets the browser run the one script of the page and no other.

mod html;
mod markdown;
mod operation;
mod schema;
mod sections;
#[cfg(test)]
mod tests;
mod try_it;

use serde_json::Value;

use html::HtmlWriter;
use sections::PageSections;

/// The style sheet inside the page.
pub const PAGE_STYLE: &str = include_str!("page/page.css");
/// The script inside the page.
pub const PAGE_SCRIPT: &str = include_str!("page/page.js");
/// The value of `Content-Security-Policy` for the page: the hashes of [`PAGE_STYLE`] and [`PAGE_SCRIPT`], and
/// calls to the gateway itself. Without the field the page works as well.
pub const PAGE_POLICY: &str = concat!(
    "default-src 'none'; style-src 'sha256-",
    include_str!("page/style.sha256"),
    "'; script-src 'sha256-",
    include_str!("page/script.sha256"),
    "'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
);
/// Bytes of a page. Operations and schemas that do not fit are left out, and the page says how many.
pub const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The way in which a contract is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageOptions {
    /// The path at which the gateway has the operations, in place of the servers of the document.
    pub base_path: String,
    /// The path of the document itself, for a link; none without it.
    pub document_path: Option<String>,
    /// Whether operations have a form that calls them.
    pub has_try_it: bool,
}

/// The page of an OpenAPI 3 document.
#[must_use]
pub fn html_page(document: &Value, options: &PageOptions) -> String {
    let mut html = HtmlWriter::new(PAGE_BYTES_MAX);
    let sections = PageSections::new(document, options);
    let info = document.get("info").unwrap_or(&Value::Null);
    let title = info.get("title").and_then(Value::as_str).unwrap_or("API");
    html.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    html.raw("<meta name=\"referrer\" content=\"no-referrer\">\n");
    html.element("title", "", title);
    html.raw("\n<style>").raw(PAGE_STYLE).raw("</style>\n</head>\n<body>\n");
    sections.write_navigation(&mut html, title);
    html.raw("<main>\n");
    sections.write_header(&mut html, info, title);
    sections.write_operations(&mut html);
    sections.write_schemas(&mut html);
    html.raw("</main>\n<script>").raw(PAGE_SCRIPT).raw("</script>\n</body>\n</html>\n");
    html.finish()
}
