//! Checks that the schema of certificates cannot express, of `ssl` objects and of the certificate that an
//! upstream is shown.

use serde_json::Value;

use super::certificate;
use crate::fault::{CheckStage, Findings, extend_pointer};

/// Every certificate can be read and has its key.
pub(super) fn check_ssl(ssl: &Value, findings: &mut Findings) {
    if let (Some(cert), Some(key)) = (text(ssl, "cert"), text(ssl, "key")) {
        pair(cert, key, ["/cert".to_owned(), "/key".to_owned()], "", findings);
    }
    let list = |name: &str| ssl.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (certs, keys) = (list("certs"), list("keys"));
    if certs.len() != keys.len() {
        findings.add(CheckStage::Upstream, "/keys", "mismatched number of certs and keys");
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
        && let Err(reason) = certificate::check_certificates(ca)
    {
        findings.add(CheckStage::Upstream, "/client/ca", format!("failed to validate client_cert: {reason}"));
    }
    if let Some(crl) = ssl.get("client").and_then(|client| text(client, "crl"))
        && let Err(reason) = certificate::revocation_list(crl)
    {
        findings.add(CheckStage::Upstream, "/client/crl", reason);
    }
    check_versions(ssl, findings);
    check_exemptions(ssl, findings);
}

/// Refuses an object of which every certificate that is written in it ended before `now_s`, in seconds since
/// the Unix epoch.
pub(super) fn check_expiry(ssl: &Value, now_s: i64, findings: &mut Findings) {
    let list = ssl.get("certs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let certificates = text(ssl, "cert").into_iter().chain(list.iter().filter_map(Value::as_str));
    let is_over =
        |cert| certificate::not_after_s(cert).is_ok_and(|end_s| end_s.is_some_and(|end_s| end_s < now_s));
    if certificates.map(is_over).reduce(|one, other| one && other) == Some(true) {
        let reason =
            "the certificate has expired, and the setting ssl_expired_certificates refuses such; renew it";
        findings.add(CheckStage::Upstream, "/cert", reason);
    }
}

/// APISIX takes TLS 1.1; a site that is served without what was asked for would be worse than one that is
/// refused.
fn check_versions(ssl: &Value, findings: &mut Findings) {
    let versions = ssl.get("ssl_protocols").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (index, _) in versions.iter().enumerate().filter(|(_, version)| *version == "TLSv1.1") {
        let reason =
            "TLSv1.1 is not supported because its protection is broken (RFC 8996): write TLSv1.2, TLSv1.3";
        findings.add(CheckStage::Unsupported, format!("/ssl_protocols/{index}"), reason);
    }
}

/// The patterns of paths that need no client certificate.
fn check_exemptions(ssl: &Value, findings: &mut Findings) {
    let patterns = ssl.pointer("/client/skip_mtls_uri_regex").and_then(Value::as_array);
    for (index, pattern) in patterns.into_iter().flatten().enumerate() {
        if let Some(source) = pattern.as_str()
            && let Err(error) = router::vars::Pattern::compile(source, false)
        {
            let place = format!("/client/skip_mtls_uri_regex/{index}");
            findings.add(CheckStage::Upstream, place, format!("it is no regular expression: {error}"));
        }
    }
}

/// The certificate and key of an upstream at `pointer`, which are shown to its nodes.
pub(super) fn check_upstream(upstream: &Value, pointer: &str, findings: &mut Findings) {
    let Some(tls) = upstream.get("tls") else { return };
    if let Some(authorities) = text(tls, "ca_certs")
        && let Err(reason) = certificate::check_certificates(authorities)
    {
        findings.add(
            CheckStage::Upstream,
            extend_pointer(&extend_pointer(pointer, "tls"), "ca_certs"),
            reason,
        );
    }
    if let (Some(cert), Some(key)) = (text(tls, "client_cert"), text(tls, "client_key")) {
        let tls = extend_pointer(pointer, "tls");
        pair(
            cert,
            key,
            [extend_pointer(&tls, "client_cert"), extend_pointer(&tls, "client_key")],
            "",
            findings,
        );
    }
}

fn pair(cert: &str, key: &str, places: [String; 2], prefix: &str, findings: &mut Findings) {
    if let Err(reason) = certificate::check_certificate_pair(cert, key) {
        let [of_cert, of_key] = places;
        let place = if reason.starts_with("failed to parse key") { of_key } else { of_cert };
        findings.add(CheckStage::Upstream, place, format!("{prefix}{reason}"));
    }
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name).and_then(Value::as_str)
}
