//! A request as text, as its client sent it: `meta_format` `origin`.

use exchange::Exchange;
use router::vars::{BuiltinVariable as Builtin, Variable, VariableSource};

use crate::shared::logger::contents::Contents;

/// The request line, the fields with names in lower case, an empty line, and the logged part of the body.
pub(super) fn render_request_text(exchange: &Exchange, contents: &Contents) -> Vec<u8> {
    let line = Variable::Builtin(Builtin::Request);
    let mut text = exchange.variable(&line).map(|value| value.text().into_owned()).unwrap_or_default();
    text.extend_from_slice(b"\r\n");
    for field in &exchange.request.headers {
        text.extend(field.name.to_ascii_lowercase());
        text.extend_from_slice(b": ");
        text.extend_from_slice(field.value);
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    contents.read_request_body(exchange, |body| text.extend_from_slice(body));
    text
}
