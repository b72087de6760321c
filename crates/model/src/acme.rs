//! Certificates by ACME as the data plane meets them: answers to challenges, and questions for certificates
//! of names that have none. Control fills both in; this module does not know authorities and sockets.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;

/// The answers that this instance gives to authorities, and its way to ask for certificates. One for the
/// process.
#[derive(Default)]
pub struct Challenges {
    /// Whether `answers` holds any, so that usual requests take no lock.
    has_answers: AtomicBool,
    answers: RwLock<ChallengeAnswers>,
    on_demand: OnceLock<Box<dyn OnDemand>>,
}

/// Answers to the challenges that are open.
#[derive(Debug, Default)]
pub struct ChallengeAnswers {
    /// HTTP-01 (RFC 8555 section 8.3): the key authorization of each token.
    pub tokens: HashMap<Box<str>, Arc<str>>,
    /// TLS-ALPN-01 (RFC 8737): the certificate for each domain, in lower case.
    pub certificates: HashMap<Box<str>, Arc<ChallengeCertificate>>,
}

/// A self-signed certificate that proves control of a domain. It is presented to clients that offer
/// [`ALPN_PROTOCOL`] as their only protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChallengeCertificate {
    /// The certificate, DER.
    pub certificate: Vec<u8>,
    /// Its private key, PKCS#8 DER.
    pub key: Vec<u8>,
}

/// Certificates that are ordered when a client asks for a name.
pub trait OnDemand: Send + Sync {
    /// Asks for a certificate of `name`, in lower case, that no certificate covers. Never blocks. The
    /// handshake that asked fails; a later one finds the certificate among the `ssls` objects.
    fn ask(&self, name: &str) -> CertificateQueryOutcome;
}

/// The outcome of a question for a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateQueryOutcome {
    /// No rule allows the name, or it is no name that a certificate can have.
    NotAllowed,
    /// It is ordered, or will be.
    Noted,
    /// Too many names wait; a later question may be taken.
    Full,
}

impl Challenges {
    /// The key authorization that the path of a request asks for; none for every other path and for unknown
    /// tokens.
    #[inline]
    pub fn key_authorization(&self, path: &[u8]) -> Option<Arc<str>> {
        let token = path.strip_prefix(HTTP_PATH)?;
        if !self.has_answers.load(Ordering::Acquire) {
            return None;
        }
        let token = std::str::from_utf8(token).ok()?;
        self.answers.read().tokens.get(token).cloned()
    }

    /// The certificate that answers the challenge of `domain`, in lower case.
    pub fn certificate(&self, domain: &str) -> Option<Arc<ChallengeCertificate>> {
        if !self.has_answers.load(Ordering::Acquire) {
            return None;
        }
        self.answers.read().certificates.get(domain).cloned()
    }

    /// Asks for a certificate of `name`; see [`OnDemand::ask`]. Not allowed where certificates on demand are
    /// off.
    pub fn ask(&self, name: &str) -> CertificateQueryOutcome {
        self.on_demand.get().map_or(CertificateQueryOutcome::NotAllowed, |on_demand| on_demand.ask(name))
    }

    /// Replaces all answers.
    pub fn set(&self, answers: ChallengeAnswers) {
        let mut current = self.answers.write();
        let has_answers = !answers.tokens.is_empty() || !answers.certificates.is_empty();
        *current = answers;
        self.has_answers.store(has_answers, Ordering::Release);
    }

    /// Lets questions for certificates reach `on_demand`; only the first call counts.
    pub fn serve_on_demand(&self, on_demand: Box<dyn OnDemand>) {
        // A second one could only be a second start of control in one process, which tests make.
        let _ = self.on_demand.set(on_demand);
    }
}

impl fmt::Debug for Challenges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Challenges").field("has_answers", &self.has_answers).finish_non_exhaustive()
    }
}

/// The path of HTTP-01 in front of the token.
pub const HTTP_PATH: &[u8] = b"/.well-known/acme-challenge/";
/// The protocol of TLS-ALPN-01 connections (RFC 8737 section 6.2).
pub const ALPN_PROTOCOL: &[u8] = b"acme-tls/1";

#[cfg(test)]
mod tests {
    use super::*;

    struct Only(&'static str);

    impl OnDemand for Only {
        fn ask(&self, name: &str) -> CertificateQueryOutcome {
            if name == self.0 { CertificateQueryOutcome::Noted } else { CertificateQueryOutcome::NotAllowed }
        }
    }

    #[test]
    fn answers_are_found_until_they_are_replaced() {
        let challenges = Challenges::default();
        let check = |path: &str, expected: Option<&str>| {
            assert_eq!(challenges.key_authorization(path.as_bytes()).as_deref(), expected, "{path}");
        };
        check("/.well-known/acme-challenge/abc", None);
        let certificate = Arc::new(ChallengeCertificate { certificate: vec![1], key: vec![2] });
        challenges.set(ChallengeAnswers {
            tokens: HashMap::from([("abc".into(), "abc.key".into())]),
            certificates: HashMap::from([("a.example".into(), Arc::clone(&certificate))]),
        });
        check("/.well-known/acme-challenge/abc", Some("abc.key"));
        check("/.well-known/acme-challenge/abcd", None);
        check("/.well-known/acme-challenge/", None);
        check("/.well-known/acme-challenge/abc/", None);
        check("/abc", None);
        assert_eq!(challenges.key_authorization(b"/.well-known/acme-challenge/\xff"), None);
        assert_eq!(challenges.certificate("a.example"), Some(certificate));
        assert_eq!(challenges.certificate("b.example"), None);
        challenges.set(ChallengeAnswers::default());
        check("/.well-known/acme-challenge/abc", None);
        assert_eq!(challenges.certificate("a.example"), None);
    }

    #[test]
    fn questions_reach_control_where_it_serves_them() {
        let challenges = Challenges::default();
        assert_eq!(challenges.ask("a.example"), CertificateQueryOutcome::NotAllowed);
        challenges.serve_on_demand(Box::new(Only("a.example")));
        assert_eq!(challenges.ask("a.example"), CertificateQueryOutcome::Noted);
        assert_eq!(challenges.ask("b.example"), CertificateQueryOutcome::NotAllowed);
    }
}
