//! The certificate of the Admin API's own listener, read from its file when it is asked for.

use std::path::Path;

use model::key_type;
use outbound::regular_file;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::{CertificateContent, CertificateEntry, dated_state, ms};

/// The entry of the file at `path`; a file that cannot be read is out.
pub(super) fn read_certificate_file(path: &Path, now_ms: u64) -> CertificateEntry {
    let mut entry = CertificateEntry {
        id: path.display().to_string(),
        kind: "file",
        state: "out",
        now_ms,
        ..CertificateEntry::default()
    };
    let text = regular_file::read_to_string(path, FILE_BYTES_MAX).ok();
    let der = text.and_then(|text| CertificateDer::from_pem_slice(text.as_bytes()).ok());
    let Some((_, parsed)) = der.as_ref().and_then(|der| X509Certificate::from_der(der).ok()) else {
        return entry;
    };
    let facts = CertificateContent {
        issuer: parsed.issuer().to_string(),
        subject: parsed.subject().to_string(),
        not_before_ms: ms(parsed.validity().not_before.timestamp()),
        not_after_ms: ms(parsed.validity().not_after.timestamp()),
        key_type: key_type::of_parsed(&parsed),
    };
    let names = parsed.subject_alternative_name().ok().flatten();
    let names = names.into_iter().flat_map(|names| &names.value.general_names);
    entry.names = names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .take(NAMES_MAX)
        .collect();
    entry.state = dated_state(Some(&facts), now_ms);
    entry.facts = Some(facts);
    entry
}

/// Longest file: a chain of certificates takes some kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Names that are listed of one certificate.
const NAMES_MAX: usize = 100;
