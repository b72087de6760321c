//! The answer of a responder: whether it can be shown to clients, and for how long.

use der::Decode;
use der::oid::AssociatedOid;
use x509_ocsp::{BasicOcspResponse, CertStatus, OcspGeneralizedTime, OcspResponse, OcspResponseStatus};

use super::request::OcspSubject;
use super::verify;

/// Limit of an answer in bytes. Answers with a responder's certificate have some 2 KiB, and each handshake
/// carries one.
const ANSWER_MAX_BYTES: usize = 16 * 1024;
/// How far the clock of a responder may be ahead, in seconds.
const CLOCK_SKEW_S: i64 = 300;

/// An answer that can be stapled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Response {
    /// The whole answer, DER.
    pub(super) der: Vec<u8>,
    /// The time at which it ends, in seconds since the Unix epoch; none: the responder always has newer ones.
    pub(super) next_update_s: Option<i64>,
}

/// Reads an answer about `subject`.
///
/// # Errors
/// The reason why it cannot be stapled, a sentence.
pub(super) fn read_ocsp_response(
    der: &[u8],
    subject: &OcspSubject,
    skip_verify: bool,
    now_s: i64,
) -> Result<Response, String> {
    if der.len() > ANSWER_MAX_BYTES {
        return Err(format!("the answer has {} bytes, more than {ANSWER_MAX_BYTES}", der.len()));
    }
    let malformed = |error: der::Error| format!("the answer is no OCSP response: {error}");
    let outer = OcspResponse::from_der(der).map_err(malformed)?;
    if outer.response_status != OcspResponseStatus::Successful {
        return Err(format!("the responder refused: {:?}", outer.response_status));
    }
    let bytes = outer.response_bytes.ok_or("the answer has no response")?;
    if bytes.response_type != BasicOcspResponse::OID {
        return Err("the answer has an unknown type of response".to_owned());
    }
    let basic = BasicOcspResponse::from_der(bytes.response.as_bytes()).map_err(malformed)?;
    let mut singles = basic.tbs_response_data.responses.iter();
    let single = singles.find(|single| subject.is_meant_by(&single.cert_id));
    let single = single.ok_or("the response is about another certificate")?;
    if seconds(&single.this_update) > now_s + CLOCK_SKEW_S {
        return Err("the response begins in the future; are the clocks right?".to_owned());
    }
    let next_update_s = single.next_update.as_ref().map(seconds);
    if next_update_s.is_some_and(|end_s| end_s <= now_s) {
        return Err("the response has ended".to_owned());
    }
    let response = Response { der: der.to_vec(), next_update_s };
    if skip_verify {
        // As in APISIX: clients are shown whatever the responder says, `revoked` included.
        return Ok(response);
    }
    verify::verify_ocsp_signature(&basic, &subject.issuer, now_s)?;
    match single.cert_status {
        CertStatus::Good(_) => Ok(response),
        CertStatus::Revoked(_) => Err("the certificate is revoked; replace it".to_owned()),
        CertStatus::Unknown(_) => Err("the responder does not know the certificate".to_owned()),
    }
}

fn seconds(time: &OcspGeneralizedTime) -> i64 {
    i64::try_from(time.0.to_unix_duration().as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
