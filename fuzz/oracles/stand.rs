//! How a request is written down for comparison, in the place where the reading of requests looks for it.

/// A request in words, the body's bytes escaped.
pub(super) fn account_text(method: &str, target: &str, host: &str, body: &str) -> String {
    format!("{method} {target} {host} {body:?}")
}
