//! One certificate of a site: its chain, its private key and the OCSP response that is stapled to it. The key
//! is loaded when it is needed, because that takes a tenth of a millisecond and a configuration may have
//! 100,000 of them.

use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::{Oid, asn1_rs::oid};
use x509_parser::prelude::FromDer;

use super::site::{PairParts, Staples};
use crate::tls::client::pair;

/// The extension with which a certificate asks for features of TLS (RFC 7633 section 4).
const TLS_FEATURE: Oid<'static> = oid!(1.3.6.1.5.5.7.1.24);
/// The feature `status_request` in that extension, as an INTEGER in DER: the certificate must be shown with a
/// staple.
const STATUS_REQUEST: [u8; 3] = [2, 1, 5];

/// See the module.
pub struct SiteCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    staple: Option<Vec<u8>>,
    /// The begin of its validity, in seconds since the Unix epoch.
    pub not_before_s: i64,
    /// The end of its validity, in seconds since the Unix epoch.
    pub not_after_s: i64,
    /// Clients may refuse it without an OCSP response.
    pub must_staple: bool,
}

impl SiteCertificate {
    /// Parses the chain and, unless it was checked before, loads the key.
    pub(super) fn read(
        parts: PairParts<'_>,
        staples: Option<Staples<'_>>,
        provider: &CryptoProvider,
    ) -> Result<SiteCertificate, String> {
        let (chain, key) = pair(parts.chain, parts.key)?;
        let (_, own) = X509Certificate::from_der(&chain[0]).map_err(|error| error.to_string())?;
        let validity = own.validity();
        let (not_before_s, not_after_s) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        let feature = own.extensions().iter().find(|extension| extension.oid == TLS_FEATURE);
        let must_staple = feature.is_some_and(|feature| {
            feature.value.windows(STATUS_REQUEST.len()).any(|part| part == STATUS_REQUEST)
        });
        let staple = staples.and_then(|staples| staples(&chain[0]));
        let read = SiteCertificate { chain, key, staple, not_before_s, not_after_s, must_staple };
        if !parts.is_checked {
            // A certificate and a key that come from two places may not belong together.
            match read.load(provider)?.keys_match() {
                Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
                Err(_) => return Err("the key does not belong to the certificate".to_owned()),
            }
        }
        Ok(read)
    }

    /// The certificate, DER.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.chain[0]
    }

    /// Whether an OCSP response is stapled to it.
    pub fn has_staple(&self) -> bool {
        self.staple.is_some()
    }

    /// The form that rustls takes.
    pub(super) fn load(&self, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
        let key = provider
            .key_provider
            .load_private_key(self.key.clone_key())
            .map_err(|error| error.to_string())?;
        Ok(CertifiedKey { cert: self.chain.clone(), key, ocsp: self.staple.clone() })
    }
}
