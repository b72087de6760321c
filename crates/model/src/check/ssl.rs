//! What the schema of certificates cannot say.

use serde_json::Value;

use crate::fault::{Findings, Stage};

/// Every further certificate has its key.
pub(super) fn check(ssl: &Value, findings: &mut Findings) {
    let count = |name: &str| ssl.get(name).and_then(Value::as_array).map_or(0, Vec::len);
    if count("certs") != count("keys") {
        findings.add(Stage::Upstream, "/keys", "mismatched number of certs and keys");
    }
}
