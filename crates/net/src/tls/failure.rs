//! Why a TLS handshake with a server failed, or a connection broke by an alert: the kind of fault, and a
//! sentence that names the certificate, the name or the time. It decides nothing about retries.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};
use rustls_pki_types::UnixTime;
use stdx::clock::HttpDate;

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFault {
    /// The server's certificate was refused here.
    Certificate,
    /// The server refused the handshake, or it broke the protocol.
    Handshake,
    /// The connection ended or broke before the handshake was complete.
    Closed,
}

/// The fault behind an error of [`super::client::run_client_handshake`], and a sentence about it.
pub fn of_handshake(error: &io::Error) -> (TlsFault, String) {
    match rustls_error(error) {
        Some(Error::InvalidCertificate(reason)) => (TlsFault::Certificate, certificate(reason)),
        Some(reason) => (TlsFault::Handshake, handshake(reason)),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            (TlsFault::Closed, "it closed the connection during the TLS handshake".to_owned())
        }
        None => (TlsFault::Closed, format!("the connection broke during the TLS handshake: {error}")),
    }
}

/// A sentence about an error behind the handshake, where it is one of TLS. In TLS 1.3 a server refuses a
/// client certificate after the client has finished its handshake, so that the refusal arrives with the first
/// read.
pub fn of_stream(error: &io::Error) -> Option<String> {
    rustls_error(error).map(handshake)
}

fn rustls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref::<Error>()
}

fn handshake(error: &Error) -> String {
    let Error::AlertReceived(alert) = error else {
        return match error {
            Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => {
                format!("it does not speak TLS as it should ({error}); is the port one of TLS?")
            }
            Error::PeerIncompatible(_) => format!("it has no TLS version or cipher suite in common: {error}"),
            error => format!("the TLS handshake failed: {error}"),
        };
    };
    let said = format!("{alert:?}");
    match alert {
        AlertDescription::CertificateRequired => {
            format!("it asks for a client certificate, and the upstream has none (alert {said})")
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied => format!("it refused the client certificate (alert {said})"),
        AlertDescription::UnrecognisedName => format!("it does not know the server name (alert {said})"),
        AlertDescription::NoApplicationProtocol => {
            format!("it speaks none of the protocols that were offered (alert {said})")
        }
        AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion => {
            format!("it refused the handshake: no version, suite or certificate in common (alert {said})")
        }
        _ => format!("it ended TLS with the alert {said}"),
    }
}

fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<&str> = presented.iter().take(NAMES_SHOWN).map(|name| name_in(name)).collect();
            let more = if presented.len() > NAMES_SHOWN { ", …" } else { "" };
            let valid_for = if names.is_empty() { "it names no host".to_owned() } else { format!("it names {}{more}", names.join(", ")) };
            format!("its certificate is not valid for {}: {valid_for}", expected.to_str())
        }
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("its certificate has expired, on {}", date(*not_after))
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("its certificate is not valid before {}", date(*not_before))
        }
        CertificateError::UnknownIssuer => {
            "its certificate is signed by no authority that is trusted (see the setting `trusted_certificates`)".to_owned()
        }
        CertificateError::BadSignature => "its certificate has a wrong signature".to_owned(),
        CertificateError::Revoked => "its certificate has been revoked".to_owned(),
        error => format!("its certificate is refused: {error}"),
    }
}

/// Names of a certificate that a message lists; a certificate of a hosting provider has a hundred.
const NAMES_SHOWN: usize = 5;

/// rustls writes a name as `DnsName("a.example")`.
fn name_in(presented: &str) -> &str {
    presented.split('"').nth(1).unwrap_or(presented)
}

/// The time as HTTP writes it.
fn date(time: UnixTime) -> String {
    String::from_utf8_lossy(HttpDate::new().at(time.as_secs())).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls_pki_types::ServerName;
    use std::time::Duration;

    #[test]
    fn faults_name_what_is_wrong() {
        let check = |error: Error, fault: TlsFault, expected: &str| {
            let found = of_handshake(&io::Error::new(io::ErrorKind::InvalidData, error));
            assert_eq!(found.0, fault, "{}", found.1);
            assert!(found.1.contains(expected), "{}", found.1);
        };
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let name = CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("a.example").unwrap(),
            presented: vec!["DnsName(\"b.example\")".to_owned()],
        };
        check(name.into(), TlsFault::Certificate, "not valid for a.example: it names b.example");
        let none = CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("a.example").unwrap(),
            presented: Vec::new(),
        };
        check(none.into(), TlsFault::Certificate, "it names no host");
        let expired =
            CertificateError::ExpiredContext { time: at(2_000_000_000), not_after: at(1_000_000_000) };
        check(expired.into(), TlsFault::Certificate, "has expired, on Sun, 09 Sep 2001");
        check(CertificateError::UnknownIssuer.into(), TlsFault::Certificate, "trusted_certificates");
        check(
            Error::AlertReceived(AlertDescription::CertificateRequired),
            TlsFault::Handshake,
            "asks for a client certificate",
        );
        let (fault, text) = of_handshake(&io::ErrorKind::UnexpectedEof.into());
        assert_eq!((fault, text.contains("closed")), (TlsFault::Closed, true));
        assert_eq!(of_handshake(&io::ErrorKind::ConnectionReset.into()).0, TlsFault::Closed);
        assert_eq!(of_stream(&io::ErrorKind::ConnectionReset.into()), None);
    }
}
