//! Checks that the schema of certificates cannot express, of `ssl` objects and of the certificate that an upstream is shown.

use serde_json::Value;

use super::certificate;
use crate::fault::{Findings, Stage, below};

/// Every certificate can be read and has its key.
pub(super) fn check(ssl: &Value, findings: &mut Findings) {
    if let (Some(cert), Some(key)) = (text(ssl, "cert"), text(ssl, "key")) {
        pair(cert, key, ["/cert".to_owned(), "/key".to_owned()], "", findings);
    }
    let list = |name: &str| ssl.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (certs, keys) = (list("certs"), list("keys"));
    if certs.len() != keys.len() {
        findings.add(Stage::Upstream, "/keys", "mismatched number of certs and keys");
    }
    for (index, (cert, key)) in certs.iter().zip(keys).enumerate() {
        if let (Some(cert), Some(key)) = (cert.as_str(), key.as_str()) {
            let places = [format!("/certs/{index}"), format!("/keys/{index}")];
            // The contract counts from 1.
            let prefix = format!("failed to handle cert-key pair[{}]: ", index + 1);
            pair(cert, key, places, &prefix, findings);
        }
    }
    if let Some(ca) = ssl.get("client").and_then(|client| text(client, "ca"))
        && let Err(reason) = certificate::alone(ca)
    {
        findings.add(Stage::Upstream, "/client/ca", format!("failed to validate client_cert: {reason}"));
    }
}

/// The certificate and key of an upstream at `pointer`, which are shown to its nodes.
pub(super) fn check_upstream(upstream: &Value, pointer: &str, findings: &mut Findings) {
    let Some(tls) = upstream.get("tls") else { return };
    if let (Some(cert), Some(key)) = (text(tls, "client_cert"), text(tls, "client_key")) {
        let tls = below(pointer, "tls");
        pair(cert, key, [below(&tls, "client_cert"), below(&tls, "client_key")], "", findings);
    }
}

fn pair(cert: &str, key: &str, places: [String; 2], prefix: &str, findings: &mut Findings) {
    if let Err(reason) = certificate::pair(cert, key) {
        let [of_cert, of_key] = places;
        let place = if reason.starts_with("failed to parse key") { of_key } else { of_cert };
        findings.add(Stage::Upstream, place, format!("{prefix}{reason}"));
    }
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name).and_then(Value::as_str)
}
