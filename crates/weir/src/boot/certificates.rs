//! The certificates of the sites in force, as control reports them.

use model::report::{CertificateFacts, CertificateReport, CertificateState};
use net::tls::certificate::{Certificate, unix_now_s};
use net::tls::server::site::{Site, SiteState};
use net::tls::server::{SiteCertificate, SiteTable};

/// The certificates that end first, at most `most`, and the number of all. Objects that are faulty come
/// before them.
pub(super) fn list_certificates(sites: &SiteTable, most: usize) -> (Vec<CertificateReport>, usize) {
    let mut all: Vec<(i64, &Site, Option<usize>)> = Vec::new();
    for site in sites.iter() {
        if site.state == SiteState::Faulty {
            all.push((i64::MIN, site, None));
        }
        let certificates = site.certificates().iter().enumerate();
        all.extend(certificates.map(|(index, one)| (one.not_after_s, &**site, Some(index))));
    }
    all.sort_by(|left, right| (left.0, &left.1.id, left.2).cmp(&(right.0, &right.1.id, right.2)));
    let total = all.len();
    // Only those that are shown are parsed.
    let shown = all.into_iter().take(most).map(|(_, site, index)| report(site, index));
    (shown.collect(), total)
}

fn report(site: &Site, index: Option<usize>) -> CertificateReport {
    let certificate = index.and_then(|index| Some((index, site.certificates().get(index)?)));
    CertificateReport {
        id: site.id.clone(),
        names: site.names.clone(),
        is_shown_to_nodes: site.state == SiteState::ToNodes,
        state: certificate.map_or(CertificateState::Faulty, |(_, one)| state(site, one)),
        facts: certificate.and_then(|(index, one)| facts(index, one)),
    }
}

fn state(site: &Site, certificate: &SiteCertificate) -> CertificateState {
    let now_s = unix_now_s();
    match certificate.not_after_s < now_s {
        _ if !site.shows(certificate) => CertificateState::Refused,
        true => CertificateState::Expired,
        false if certificate.not_before_s > now_s => CertificateState::NotYetValid,
        false => CertificateState::Valid,
    }
}

fn facts(index: usize, certificate: &SiteCertificate) -> Option<CertificateFacts> {
    let parsed = Certificate::parse(certificate.der())?;
    Some(CertificateFacts {
        index,
        not_before_s: certificate.not_before_s,
        not_after_s: certificate.not_after_s,
        subject: parsed.subject(),
        issuer: parsed.issuer(),
        serial: parsed.serial(),
        key_type: model::key_type::of_certificate(certificate.der()),
        has_staple: certificate.has_staple(),
        must_staple: certificate.must_staple,
    })
}
