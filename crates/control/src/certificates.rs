//! The list of certificates that clients and nodes are shown, with the end of their validity, as the control
//! API and the status listener answer it. It does not read certificates.

use bytes::Bytes;
use http::{Response, StatusCode};
use model::report::{CertificateReport, Certificates};
use serde_json::{Value, json};
use stdx::clock::CivilTime;

use crate::serve::respond;

/// Certificates in one answer, those that end first.
const MAX_LISTED: usize = 1000;

/// Answers with the certificates that end first, and the number of all.
pub(crate) fn answer_certificate_status(certificates: &dyn Certificates) -> Response<Bytes> {
    let (list, total) = certificates.certificates(MAX_LISTED);
    let list: Vec<Value> = list.iter().map(describe).collect();
    respond::json(StatusCode::OK, &json!({ "total": total, "list": list }))
}

fn describe(certificate: &CertificateReport) -> Value {
    let mut described = json!({
        "id": &*certificate.id,
        "type": if certificate.is_shown_to_nodes { "client" } else { "server" },
        "names": certificate.names,
        "state": certificate.state.as_str(),
    });
    if let Some(facts) = &certificate.facts {
        described["index"] = json!(facts.index);
        described["not_before"] = json!(shown_time(facts.not_before_s));
        described["not_after"] = json!(shown_time(facts.not_after_s));
        described["subject"] = json!(facts.subject);
        described["issuer"] = json!(facts.issuer);
        described["serial"] = json!(facts.serial);
        described["ocsp_stapled"] = json!(facts.has_staple);
        described["must_staple"] = json!(facts.must_staple);
    }
    described
}

/// A time as RFC 3339 writes it.
pub(crate) fn shown_time(unix_s: i64) -> String {
    let CivilTime { year, month, day, hour, minute, second } =
        CivilTime::at(u64::try_from(unix_s).unwrap_or(0));
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}
