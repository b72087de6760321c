//! The text form of a request for comparison, under the path that the reader of requests imports.

/// A request as text, with the bytes of the body escaped.
pub(super) fn account_text(method: &str, target: &str, host: &str, body: &str) -> String {
    format!("{method} {target} {host} {body:?}")
}
