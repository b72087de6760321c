//! Certificates that end: their times in order, and one report for each that has expired. It places no site.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use net::tls::certificate::Certificate;
use net::tls::server::site::{Site, SiteState};

/// The treatment of certificates that have expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpiredCertificates {
    /// They are served, with a warning in the log.
    #[default]
    Serve,
    /// They are not served: other sites serve their names, or none.
    Refuse,
}

/// The certificates of all sites by the time of their end.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    pub(super) policy: ExpiredCertificates,
    /// The next end of a certificate of each site, in seconds since the Unix epoch, with the site's id.
    pub(super) ends: BTreeSet<(i64, Arc<str>)>,
    /// Expired certificates that were reported, by the id of their site: serial numbers and ends.
    pub(super) reported: HashMap<Arc<str>, Vec<(String, i64)>>,
}

impl Expiry {
    /// Logs each expired certificate of a site once.
    pub(super) fn report(&mut self, site: &Site, now_s: i64) {
        let before = self.reported.remove(&site.id).unwrap_or_default();
        let mut expired = Vec::new();
        for certificate in site.certificates().iter().filter(|one| one.not_after_s < now_s) {
            let Some(parsed) = Certificate::parse(certificate.der()) else { continue };
            let mark = (parsed.serial(), certificate.not_after_s);
            if !before.contains(&mark) {
                let (ssl, names, not_after) = (&site.id, site.names.join(", "), parsed.valid_until());
                let message = match self.policy {
                    _ if site.state == SiteState::ToNodes => {
                        "an expired certificate is shown to nodes; renew it"
                    }
                    ExpiredCertificates::Serve => "an expired certificate is served; renew it",
                    ExpiredCertificates::Refuse => "a certificate has expired and is not served; renew it",
                };
                tracing::warn!(%ssl, names, serial = mark.0, not_after, "{message}");
            }
            expired.push(mark);
        }
        self.reported.insert(site.id.clone(), expired);
    }
}
