//! The content of a certificate in the forms that users of nginx and OpenSSL know from `$ssl_client_…`. It
//! judges nothing.

use std::fmt::Write;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use rustls_pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Name;

/// Seconds of a day.
const DAY_S: i64 = 86_400;
/// Characters of a line of PEM (RFC 7468 section 2).
const PEM_LINE: usize = 64;

/// The time now, in seconds since the Unix epoch.
pub fn unix_now_s() -> i64 {
    i64::try_from(stdx::clock::unix_time().as_secs()).unwrap_or(i64::MAX)
}

/// A parsed certificate.
pub struct Certificate<'d> {
    der: &'d [u8],
    parsed: X509Certificate<'d>,
}

impl<'d> Certificate<'d> {
    /// Parses a certificate; none if it is not one, which no peer of a finished handshake can have shown.
    pub fn parse(der: &'d CertificateDer<'_>) -> Option<Certificate<'d>> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        Some(Certificate { der, parsed })
    }

    /// The subject, as RFC 2253 writes it: the most specific part first.
    pub fn subject(&self) -> String {
        distinguished_name(self.parsed.subject())
    }

    /// The issuer, as RFC 2253 writes it.
    pub fn issuer(&self) -> String {
        distinguished_name(self.parsed.issuer())
    }

    /// The serial number in upper-case hexadecimal digits, two for each byte.
    pub fn serial(&self) -> String {
        let bytes = self.parsed.raw_serial();
        // A leading zero byte only says that the number is not negative.
        let bytes = if bytes.len() > 1 { bytes.strip_prefix(&[0]).unwrap_or(bytes) } else { bytes };
        hex(bytes).to_ascii_uppercase()
    }

    /// The SHA-1 digest in lower-case hexadecimal digits. It names a certificate in logs and lists; nothing
    /// trusts it.
    pub fn fingerprint(&self) -> String {
        hex(digest(&SHA1_FOR_LEGACY_USE_ONLY, self.der).as_ref())
    }

    /// The beginning of its validity, such as `Nov 24 22:57:38 2026 GMT`.
    pub fn valid_from(&self) -> String {
        time(self.parsed.validity().not_before)
    }

    /// The end of its validity.
    pub fn valid_until(&self) -> String {
        time(self.parsed.validity().not_after)
    }

    /// Whole days until the end of its validity; 0 behind it.
    pub fn valid_days(&self, now_s: i64) -> u64 {
        let left_s = self.parsed.validity().not_after.timestamp().saturating_sub(now_s);
        u64::try_from(left_s / DAY_S).unwrap_or(0)
    }

    /// The certificate in PEM, with a line feed at its end.
    pub fn pem(&self) -> String {
        let text = base64(self.der);
        let mut pem = String::with_capacity(text.len() * 65 / 64 + 64);
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in text.as_bytes().chunks(PEM_LINE) {
            pem.push_str(std::str::from_utf8(line).unwrap_or_default());
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        pem
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// As OpenSSL prints times: the day without a leading zero.
fn time(time: ASN1Time) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let time = time.to_datetime();
    let month = MONTHS[usize::from(u8::from(time.month())) - 1];
    let (day, year) = (time.day(), time.year());
    format!("{month} {day:>2} {:02}:{:02}:{:02} {year} GMT", time.hour(), time.minute(), time.second())
}

fn distinguished_name(name: &X509Name<'_>) -> String {
    let parts: Vec<_> = name.iter_rdn().collect();
    let mut text = String::new();
    for part in parts.iter().rev() {
        if !text.is_empty() {
            text.push(',');
        }
        for (index, attribute) in part.iter().enumerate() {
            if index > 0 {
                text.push('+');
            }
            match oid2abbrev(attribute.attr_type(), oid_registry()) {
                Ok(known) => text.push_str(known),
                Err(_) => text.push_str(&attribute.attr_type().to_id_string()),
            }
            text.push('=');
            match attribute.as_str() {
                Ok(value) => escape(value, &mut text),
                Err(_) => {
                    text.push('#');
                    text.push_str(&hex(attribute.as_slice()));
                }
            }
        }
    }
    text
}

/// Escapes as RFC 2253 section 2.4 asks, and control characters, so that a name cannot end a line of a log or
/// a field.
fn escape(value: &str, text: &mut String) {
    let last = value.len().saturating_sub(1);
    for (index, character) in value.char_indices() {
        match character {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => {
                text.push('\\');
                text.push(character);
            }
            '#' | ' ' if index == 0 => {
                text.push('\\');
                text.push(character);
            }
            ' ' if index == last => text.push_str("\\ "),
            character if character.is_ascii_control() || !character.is_ascii() => {
                let mut bytes = [0; 4];
                for byte in character.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(text, "\\{byte:02X}");
                }
            }
            character => text.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SerialNumber};

    #[test]
    fn certificate_is_shown_in_the_forms_of_openssl() {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CountryName, "DE");
        params.distinguished_name.push(DnType::OrganizationName, "A, \"B\"\n");
        params.distinguished_name.push(DnType::CommonName, " me");
        params.serial_number = Some(SerialNumber::from_slice(&[0xab, 1]));
        params.not_before = rcgen::date_time_ymd(2026, 1, 2);
        params.not_after = rcgen::date_time_ymd(2026, 12, 31);
        let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let shown = Certificate::parse(der.der()).unwrap();
        assert_eq!(shown.subject(), "CN=\\ me,O=A\\, \\\"B\\\"\\0A,C=DE");
        assert_eq!(shown.subject(), shown.issuer());
        assert_eq!(shown.serial(), "AB01");
        assert_eq!(shown.valid_from(), "Jan  2 00:00:00 2026 GMT");
        assert_eq!(shown.valid_until(), "Dec 31 00:00:00 2026 GMT");
        let end_s = 1_798_675_200;
        assert_eq!((shown.valid_days(end_s - 86_400), shown.valid_days(end_s + 1)), (1, 0));
        assert_eq!(shown.fingerprint().len(), 40);
        assert_eq!(shown.pem().replace("\r\n", "\n"), der.pem().replace("\r\n", "\n"));
    }

    #[test]
    fn base64_agrees_with_known_values() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
