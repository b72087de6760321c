//! Answers of a responder that are stapled or refused, with the reason.

use x509_ocsp::{CertStatus, OcspResponse, RevokedInfo};

use super::testing::{Responder, Signer};
use super::*;
use der::Encode;

const NOW_S: i64 = 1_800_000_000;

fn times(from_s: i64, to_s: i64) -> (u64, u64) {
    (u64::try_from(NOW_S + from_s).unwrap(), u64::try_from(NOW_S + to_s).unwrap())
}

#[test]
fn only_good_and_signed_answers_are_stapled() {
    let responder = Responder::new();
    let subject = responder.subject();
    assert_eq!((subject.url.as_str(), subject.must_staple), ("http://127.0.0.1:1/ocsp", true));
    let request = subject.request().unwrap();
    let now = u64::try_from(now_s()).unwrap();
    let valid = (now - 60, now + 60);
    let check = |status: CertStatus, signer, times: (u64, u64), expected: Result<(), &str>| {
        let answer = responder.answer(&request, status, times, signer);
        match (read_ocsp_response(&answer, &subject, false, now_s()), expected) {
            (Ok(response), Ok(())) => assert_eq!(response.der, answer),
            (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    };
    check(CertStatus::good(), Signer::Issuer, valid, Ok(()));
    check(CertStatus::good(), Signer::Authorized, valid, Ok(()));
    check(CertStatus::good(), Signer::ForOtherUse, valid, Err("not one for OCSP"));
    check(CertStatus::good(), Signer::Stranger, valid, Err("not signed by the issuer"));
    check(CertStatus::unknown(), Signer::Issuer, valid, Err("does not know the certificate"));
    let time = x509_ocsp::OcspGeneralizedTime(
        der::asn1::GeneralizedTime::from_unix_duration(std::time::Duration::from_secs(now)).unwrap(),
    );
    let revoked = RevokedInfo { revocation_time: time, revocation_reason: None };
    check(CertStatus::Revoked(revoked), Signer::Issuer, valid, Err("revoked"));
    check(CertStatus::good(), Signer::Issuer, (now - 60, now), Err("has ended"));
    check(CertStatus::good(), Signer::Issuer, (now + 600, now + 900), Err("begins in the future"));
}

fn now_s() -> i64 {
    crate::ocsp::now_s()
}

#[test]
fn damaged_answers_are_refused() {
    let responder = Responder::new();
    let subject = responder.subject();
    let request = subject.request().unwrap();
    let answer = responder.answer(&request, CertStatus::good(), times(-60, 60), Signer::Issuer);
    assert!(read_ocsp_response(&answer, &subject, false, NOW_S).is_ok());
    for cut in 0..answer.len() {
        assert!(read_ocsp_response(&answer[..cut], &subject, true, NOW_S).is_err(), "cut at {cut}");
    }
    for index in 0..answer.len() {
        let mut damaged = answer.clone();
        damaged[index] ^= 1;
        let read = read_ocsp_response(&damaged, &subject, false, NOW_S);
        // The unused bits in front of the signature are part of no signed text.
        assert!(read.is_err(), "damaged at {index}");
    }
    // Another authority's certificate, and a refusal of the responder.
    let other = Responder::new();
    assert!(
        read_ocsp_response(&answer, &other.subject(), true, NOW_S)
            .unwrap_err()
            .contains("another certificate")
    );
    let refusal = OcspResponse::try_later().to_der().unwrap();
    assert!(read_ocsp_response(&refusal, &subject, false, NOW_S).unwrap_err().contains("refused: TryLater"));
    let long = vec![0; ANSWER_MAX_BYTES + 1];
    assert!(read_ocsp_response(&long, &subject, true, NOW_S).unwrap_err().contains("more than 16384"));
}

#[test]
fn signature_is_not_looked_at_where_told_so() {
    let responder = Responder::new();
    let subject = responder.subject();
    let request = subject.request().unwrap();
    let answer = responder.answer(&request, CertStatus::good(), times(-60, 60), Signer::Stranger);
    assert!(read_ocsp_response(&answer, &subject, true, NOW_S).is_ok());
    // Nor is the verdict; the time of the response counts.
    let unknown = |times| responder.answer(&request, CertStatus::unknown(), times, Signer::Issuer);
    assert!(read_ocsp_response(&unknown(times(-60, 60)), &subject, true, NOW_S).is_ok());
    assert!(
        read_ocsp_response(&unknown(times(-60, 0)), &subject, true, NOW_S).unwrap_err().contains("has ended")
    );
}
