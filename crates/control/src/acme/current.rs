//! The certificate in use: its names, its validity and its number at the authority, read from PEM. It does
//! not know where the certificate is kept.

use data_encoding::HEXLOWER;
use instant_acme::CertificateIdentifier;
use model::resource::Resource;
use model::{ObjectKey, Snapshot};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::names;
use super::schedule::Validity;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Current {
    pub(super) names: Vec<String>,
    pub(super) validity: Validity,
    /// The serial number in hexadecimal digits.
    pub(super) serial: String,
    /// Its identifier in renewal information; none without the extension that it is made of.
    pub(super) identifier: Option<CertificateIdentifier<'static>>,
}

impl Current {
    /// Reads the first certificate of a chain.
    ///
    /// # Errors
    /// A sentence about what cannot be read.
    pub(super) fn parse(chain: &str) -> Result<Current, String> {
        let der = CertificateDer::from_pem_slice(chain.as_bytes()).map_err(|fault| fault.to_string())?;
        let (_, certificate) = X509Certificate::from_der(&der).map_err(|fault| fault.to_string())?;
        let names = certificate.subject_alternative_name().map_err(|fault| fault.to_string())?;
        let names = names.into_iter().flat_map(|names| &names.value.general_names);
        let dns = names.filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        });
        let milliseconds = |seconds: i64| u64::try_from(seconds).unwrap_or_default().saturating_mul(1000);
        let validity = certificate.validity();
        Ok(Current {
            names: dns.collect(),
            validity: Validity {
                not_before_ms: milliseconds(validity.not_before.timestamp()),
                not_after_ms: milliseconds(validity.not_after.timestamp()),
            },
            serial: HEXLOWER.encode(certificate.raw_serial()),
            identifier: CertificateIdentifier::try_from(&der).ok().map(CertificateIdentifier::into_owned),
        })
    }

    /// The certificate of the object `key` in force; none if there is none that can be read.
    pub(super) fn in_force(snapshot: &Snapshot, key: &ObjectKey) -> Option<Current> {
        let object = snapshot.get(key)?;
        let Resource::Ssl(ssl) = &object.resource else { return None };
        let (chain, _) = ssl.pairs.first().filter(|_| ssl.enabled)?;
        Current::parse(chain).ok()
    }

    /// Whether it serves that name.
    pub(super) fn covers(&self, name: &str) -> bool {
        self.names.iter().any(|covering| names::covers(covering, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, SerialNumber, date_time_ymd};

    #[test]
    fn certificate_tells_its_names_and_validity() {
        let mut params =
            CertificateParams::new(vec!["A.example".to_owned(), "*.b.example".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2026, 1, 2);
        params.serial_number = Some(SerialNumber::from(vec![1, 0xab]));
        let pem = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        let current = Current::parse(&format!("{pem}{pem}")).unwrap();
        assert_eq!(current.names, ["a.example", "*.b.example"]);
        assert_eq!(current.validity.not_after_ms - current.validity.not_before_ms, 86_400_000);
        assert_eq!(current.serial, "01ab");
        assert!(current.covers("a.example") && current.covers("x.b.example") && !current.covers("b.example"));
        assert!(Current::parse("no PEM").is_err());
    }
}
